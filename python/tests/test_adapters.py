# SPDX-License-Identifier: MIT
"""Low-rank adapters of generators, embedders and rerankers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDENS, read_json

import vkformer


def test_adapters(device: str) -> None:
    folders = {name: GOLDENS / "adapters" / name for name in ("llama_gqa_odd", "llama_gqa_odd_second")}
    base = GOLDENS / "decoders" / "llama_gqa_odd"
    with vkformer.Generator(base, device, adapters=folders, plain_shaders=True) as generator:

        def check(golden: Path, **arguments: Any) -> None:
            expected = read_json(golden, "greedy.json")
            found = generator.generate_tokens([expected["prompt"]], max_tokens=24, **arguments)[0].tokens
            assert found == expected["continuation"][:24]

        check(folders["llama_gqa_odd"], adapters="llama_gqa_odd")
        check(base)
        check(folders["llama_gqa_odd_second"], adapters=["llama_gqa_odd_second"])
        check(folders["llama_gqa_odd"], adapters={"llama_gqa_odd": 1, "llama_gqa_odd_second": 0.0})
        with pytest.raises(vkformer.InvalidArgumentError, match='no adapter "x" is loaded; there are: llama_gqa_odd'):
            generator.generate_tokens([[1]], adapters="x")
        with pytest.raises(vkformer.InvalidArgumentError, match="1000"):
            generator.generate_tokens([[1]], adapters={"llama_gqa_odd": 2000})
        with pytest.raises(TypeError, match="expected a number"):
            generator.generate_tokens([[1]], adapters={"llama_gqa_odd": "much"})  # type: ignore[dict-item]
    with pytest.raises(vkformer.MissingFileError, match=r"adapter_config\.json"):
        vkformer.Generator(base, device, adapters={"x": GOLDENS})


def write_adapter(folder: Path, module: str, width: int) -> Path:
    """A random one of a square weight."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none"}')
    rng = np.random.default_rng(1)
    tensors = {"lora_A": rng.standard_normal((2, width)), "lora_B": rng.standard_normal((width, 2))}
    header, data = {}, b""
    for half, values in tensors.items():
        begin, data = len(data), data + values.astype(np.float32).tobytes()
        header[f"base_model.model.{module}.{half}.weight"] = {
            "dtype": "F32",
            "shape": values.shape,
            "data_offsets": [begin, len(data)],
        }
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return folder


def numbers_of(model: vkformer.Embedder | vkformer.Reranker, **arguments: Any) -> Any:
    text = "a cat and a dog"
    if isinstance(model, vkformer.Embedder):
        return model.embed([text], **arguments)
    return model.score([(text, "x")], **arguments)


@pytest.mark.parametrize(("name", "kind"), [("embedder", vkformer.Embedder), ("cross_encoder", vkformer.Reranker)])
def test_adapters_of_encoders(device: str, tmp_path: Path, name: str, kind: Any) -> None:
    prefix = "" if name == "embedder" else "bert."
    query = write_adapter(tmp_path / "query", prefix + "encoder.layer.0.attention.self.query", 20)
    base = GOLDENS / "sentences" / name
    with kind(base, device, plain_shaders=True) as model:
        plain = numbers_of(model)
    with kind(base, device, adapters={"query": query}, plain_shaders=True) as model:
        assert (numbers_of(model) == plain).all()
        assert (numbers_of(model, adapters={"query": 0}) == plain).all()
        assert np.abs(numbers_of(model, adapters="query") - plain).max() > 1e-4
        with pytest.raises(vkformer.InvalidArgumentError, match='no adapter "x" is loaded; there are: query'):
            numbers_of(model, adapters=["x"])
