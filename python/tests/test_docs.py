# SPDX-License-Identifier: MIT
"""The examples of docs/python.md, with the repository's small models in place of the published ones; and their types."""

import os
import re
import shutil
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CLIP, GOLDENS, PICTURES, ROOT, TEXTS, VIT, read_tensor

import vkformer

WHISPER = GOLDENS / "speech" / "whisper_texts"
MODELS = {
    "samples/models/date-normalizer": ROOT / "samples" / "models" / "date-normalizer",
    "SmolLM2-135M": TEXTS,
    "all-MiniLM-L6-v2": GOLDENS / "sentences" / "embedder",
    "ms-marco-MiniLM-L6-v2": GOLDENS / "sentences" / "cross_encoder",
    "whisper-tiny": WHISPER,
    "vit-base-patch16-224": VIT,
    "clip-vit-base-patch32": CLIP,
    "speech.wav": Path("speech.wav"),
    "cat.jpg": PICTURES / "colour.jpg",
}


FILES = ("speech.wav", "cat.jpg")


def examples(with_program: bool = True) -> str:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return "\n\n".join(block for block in blocks if with_program or "vkformer.bench" not in block)


def test_examples_run(
    tmp_path: Path, long_texts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    clip = read_tensor(WHISPER / "golden.safetensors", "clip0").astype(np.float64)
    with wave.open("speech.wav", "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes((clip / max(1, np.abs(clip).max()) * 32767).astype("<i2").tobytes())
    source = examples(with_program=shutil.which(os.environ.get("VKFORMER_PROGRAM", "vkformer")) is not None)
    for name, path in {**MODELS, "qwen2.5-0.5b-instruct-q8_0.gguf": long_texts}.items():
        assert f'"{name}"' in source
        on_cpu = "" if name in FILES else ', "cpu"'  # "auto" would measure the software drivers of a test machine
        source = source.replace(f'"{name}", device)', f'"{path}", device)')  # those of a loop
        source = source.replace(f'"{name}", device="auto"', f'"{path}"{on_cpu}').replace(
            f'"{name}"', f'"{path}"{on_cpu}'
        )
    try:
        vkformer.devices()
    except (vkformer.NoVulkanLoaderError, vkformer.NoDeviceError):
        pytest.skip("there is no Vulkan driver to list")
    names: dict[str, Any] = {"__name__": "examples"}
    exec(compile(source, "docs/python.md", "exec"), names)
    for name in ("translator", "generator", "embedder", "reranker", "transcriber", "classifier", "clip"):
        names[name].close()
    printed = capsys.readouterr().out
    assert printed.count("2021-03-04") == 5
    assert len(names["transcription"].segments) > 0


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_examples_have_right_types(tmp_path: Path, checker: str) -> None:
    pytest.importorskip(checker)
    (tmp_path / "examples.py").write_text("# pyright: strict\n" + examples(), encoding="utf-8")
    strict = {"mypy": ["--strict"], "pyright": ["--pythonpath", sys.executable]}
    command = [sys.executable, "-m", checker, *strict[checker], "examples.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
