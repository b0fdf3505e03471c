# SPDX-License-Identifier: MIT
"""Low-rank adapters: each request has those that it asks for, and none of another's."""

import concurrent.futures
import json
import random
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import MODELS, Server, program

MODULES = {
    "model.layers.0.self_attn.q_proj": (32, 32),
    "model.layers.0.mlp.up_proj": (40, 32),
    "model.layers.1.self_attn.v_proj": (16, 32),
    "model.layers.1.mlp.down_proj": (32, 40),
}
ENCODER_MODULES = {
    "encoder.layer.0.attention.self.query": (20, 20),
    "encoder.layer.1.attention.self.value": (20, 20),
    "encoder.layer.1.output.dense": (20, 30),
}
PROMPT = "Hello, the small frog said what it is and " * 4  # more than a page of tokens


def write_adapter(folder: Path, seed: int, rank: int = 3, modules: dict[str, tuple[int, int]] = MODULES) -> Path:
    """As PEFT writes it."""
    drawn = random.Random(seed)
    header: dict[str, Any] = {}
    data = b""
    for module, (out, width) in modules.items():
        for half, shape in (("A", (rank, width)), ("B", (out, rank))):
            numbers = [drawn.gauss(0, 0.4) for _ in range(shape[0] * shape[1])]
            raw = struct.pack(f"<{len(numbers)}f", *numbers)
            header[f"base_model.model.{module}.lora_{half}.weight"] = {
                "dtype": "F32",
                "shape": shape,
                "data_offsets": [len(data), len(data) + len(raw)],
            }
            data += raw
    folder.mkdir()
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank}))
    return folder


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("adapters")
    return {name: write_adapter(folder / name, seed) for seed, name in enumerate(("law", "verse"))}


@pytest.fixture(scope="module")
def adapted(adapters: dict[str, Path]) -> Iterator[Server]:
    named = [word for name, path in adapters.items() for word in ("--lora", f"texts={name}={path}")]
    server = Server(*named, models=("texts", "vectors"))
    yield server
    assert server.stop() == 0


def alone(adapters: dict[str, Path], scales: dict[str, float], tokens: int = 24) -> str:
    """What the command line makes of the prompt, without a server."""
    lora = [word for name, scale in scales.items() for word in ("--lora", f"{adapters[name]}={scale}")]
    command = [program(), "generate", "-q", "-d", "cpu", "--plain", "-m", str(MODELS["texts"]), "-t", "0", "-n", str(tokens), *lora, PROMPT]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.removesuffix("\n")


def complete(server: Server, **fields: Any) -> Any:
    return server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 24, "temperature": 0, **fields})


def test_each_request_has_its_own(adapted: Server, adapters: dict[str, Path]) -> None:
    wanted: list[tuple[dict[str, Any], dict[str, float]]] = [
        ({"model": "texts"}, {}),
        ({"model": "law"}, {"law": 1}),
        ({"model": "verse"}, {"verse": 1}),
        ({"model": "texts", "lora": [{"id": 0, "scale": 0.5}, {"name": "verse"}]}, {"law": 0.5, "verse": 1}),
        ({"model": "law", "lora": [{"id": 1, "scale": -1}]}, {"verse": -1}),
        ({"model": "law", "lora": []}, {}),
        ({"lora": [{"id": 0}]}, {"law": 1}),
    ]
    expected = [alone(adapters, scales) for _, scales in wanted]
    assert len(set(expected)) == 5
    with concurrent.futures.ThreadPoolExecutor(len(wanted)) as pool:
        for _ in range(2):  # the second time with what the first has left in the cache
            answers = list(pool.map(lambda one: complete(adapted, **one[0]), wanted))
            assert [answer["choices"][0]["text"] for answer in answers] == expected
            assert [answer["model"] for answer in answers] == ["texts", "law", "verse", "texts", "texts", "texts", "texts"]
    assert complete(adapted, model="law")["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_every_route_takes_them(adapted: Server) -> None:
    talk = [{"role": "user", "content": "Hello"}]
    asked = {"temperature": 0, "messages": talk, "max_tokens": 16}

    def chat(model: str) -> Any:
        return adapted.post("/v1/chat/completions", {"model": model, **asked})

    def message(model: str) -> Any:
        return adapted.post("/v1/messages", {"model": model, **asked})

    def response(model: str) -> Any:
        return adapted.post("/v1/responses", {"model": model, "input": "Hello", "temperature": 0, "max_output_tokens": 16})

    texts = {name: chat(name)["choices"][0]["message"]["content"] for name in ("texts", "law", "verse")}
    assert len(set(texts.values())) == 3
    for name, text in texts.items():
        assert chat(name)["model"] == message(name)["model"] == response(name)["model"] == name
        assert message(name)["content"][0]["text"] == text
        assert response(name)["output"][0]["content"][0]["text"] == text
    assert adapted.post("/v1/messages/count_tokens", {"model": "law", "messages": talk})["input_tokens"] > 0
    assert adapted.post("/tokenize", {"model": "verse", "content": "Hello"})["tokens"]
    scored = complete(adapted, model="law", echo=True, max_tokens=0, logprobs=0)["choices"][0]["logprobs"]["token_logprobs"]
    bare = complete(adapted, model="texts", echo=True, max_tokens=0, logprobs=0)["choices"][0]["logprobs"]["token_logprobs"]
    assert len(scored) == len(bare) and scored[1:] != bare[1:]


def test_they_are_listed(adapted: Server) -> None:
    listed = {model["id"]: model for model in adapted.get("/v1/models")["data"]}
    assert list(listed) == ["texts", "law", "verse", "vectors"]
    assert listed["law"]["parent"] == "texts" and listed["law"]["kind"] == "language" and listed["law"]["ready"]
    assert "parent" not in listed["texts"]
    assert adapted.get("/v1/models/verse")["parent"] == "texts"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"lora": {}}, "lora"),
        ({"lora": [{"id": 2}]}, "lora[0].id"),
        ({"lora": [{"id": -1}]}, "lora[0].id"),
        ({"lora": [{}]}, "lora[0].id"),
        ({"lora": [{"id": 0, "name": "law"}]}, "lora[0].id"),
        ({"lora": [{"name": "prose"}]}, "no such adapter"),
        ({"lora": [{"id": 0}, {"name": "law"}]}, "twice"),
        ({"lora": [{"id": 0}] * 3}, "at most 2"),
        ({"lora": [{"id": 0, "scale": 1e9}]}, "lora[0].scale"),
        ({"lora": [{"id": 0, "scale": "1"}]}, "lora[0].scale"),
        ({"lora": [{"id": 0, "strength": 1}]}, "strength"),
    ],
)
def test_what_is_wrong_is_said(adapted: Server, fields: dict[str, Any], words: str) -> None:
    assert words in json.dumps(adapted.post("/v1/completions", {"model": "texts", "prompt": "a", **fields}, expect=400))


def test_a_name_that_is_not_there(adapted: Server) -> None:
    assert "no such model" in adapted.refused("/v1/completions", {"model": "prose", "prompt": "a"}, status=404)
    assert "not for this route" in adapted.refused("/v1/embeddings", {"model": "law", "input": "a"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["texts=law"], "PATH"),
        (["law"], "NAME=PATH"),
        (["other=law={law}"], 'no --model is called "other"'),
        (["texts=law={law}", "texts=law={verse}"], 'called "law"'),
        (["texts=vectors={law}"], 'called "vectors"'),
        (["vectors=law={law}"], "model.layers"),
        (["dates=law={law}"], "only language models and encoders of texts take adapters"),
        (["texts=law=/nowhere"], "/nowhere is no adapter"),
    ],
)
def test_options(adapters: dict[str, Path], options: list[str], words: str) -> None:
    lora = [word for option in options for word in ("--lora", option.format(**adapters))]
    models = [word for name in ("texts", "vectors", "dates") for word in ("--model", f"{name}={MODELS[name]}")]
    command = [program(), "serve", "-q", "-d", "cpu", "--plain", "--port", "0", *models, *lora]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and words in ended.stderr, ended.stderr


def test_check_names_them(adapters: dict[str, Path]) -> None:
    command = [program(), "serve", "--check", "-d", "cpu", "--model", f"texts={MODELS['texts']}", "--lora", f"texts=law={adapters['law']}"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert [line for line in told.splitlines() if line.startswith("texts: language")][0].endswith("; law")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    return {name: write_adapter(folder / name, seed, modules=ENCODER_MODULES) for seed, name in enumerate(("query", "passage"))}


@pytest.fixture(scope="module")
def encoders(tasks: dict[str, Path]) -> Iterator[Server]:
    named = [word for name, path in tasks.items() for word in ("--lora", f"vectors={name}={path}")]
    server = Server(*named, "--lora", f"scores=strict={tasks['query']}", models=("vectors", "scores"))
    yield server
    assert server.stop() == 0


def of_program(command: str, model: str, lora: dict[Path, float], *words: str) -> list[Any]:
    """What the command line says, line for line."""
    named = [word for path, scale in lora.items() for word in ("--lora", f"{path}={scale}")]
    whole = [program(), command, "-q", "-d", "cpu", "--plain", "--json", "-m", str(MODELS[model]), *named, *words]
    return [json.loads(line) for line in subprocess.run(whole, check=True, capture_output=True, text=True).stdout.splitlines()]


def test_encoders_have_theirs(encoders: Server, tasks: dict[str, Path]) -> None:
    query, passage = tasks["query"], tasks["passage"]
    wanted: list[tuple[dict[str, Any], dict[Path, float], str]] = [
        ({"model": "vectors"}, {}, "vectors"),
        ({"model": "query"}, {query: 1}, "query"),
        ({"model": "passage"}, {passage: 1}, "passage"),
        ({"model": "vectors", "task": "passage"}, {passage: 1}, "vectors"),
        ({"model": "query", "task": "passage"}, {passage: 1}, "vectors"),
        ({"model": "vectors", "lora": [{"id": 0, "scale": 0.5}, {"name": "passage"}]}, {query: 0.5, passage: 1}, "vectors"),
        ({"model": "query", "lora": []}, {}, "vectors"),
    ]
    expected = [of_program("embed", "vectors", lora, "a cat sat")[0]["embedding"] for _, lora, _ in wanted]
    assert len({tuple(one) for one in expected}) == 4
    with concurrent.futures.ThreadPoolExecutor(len(wanted)) as pool:
        for _ in range(3):  # together: each has its own
            answers = list(pool.map(lambda one: encoders.post("/v1/embeddings", {"input": "a cat sat", **one[0]}), wanted))
            for answer, vector, (_, _, name) in zip(answers, expected, wanted):
                assert answer["data"][0]["embedding"] == pytest.approx(vector, abs=1e-5)
                assert answer["model"] == name
    listed = {model["id"]: model for model in encoders.get("/v1/models")["data"]}
    assert listed["query"]["parent"] == "vectors" and listed["query"]["kind"] == "embeddings"


def test_rerankers_have_theirs(encoders: Server, tasks: dict[str, Path]) -> None:
    documents = ["a cat sat", "the dog"]
    for model, lora in (("scores", {}), ("strict", {tasks["query"]: 1.0})):
        made = encoders.post("/v1/rerank", {"model": model, "query": "cat", "documents": documents})
        scores = {result["index"]: result["relevance_score"] for result in made["results"]}
        told = of_program("rerank", "scores", lora, "cat", *documents)
        assert scores == pytest.approx({one["index"]: one["score"] for one in told}, abs=1e-5)
        assert made["model"] == model


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"task": "separation"}, "no adapter of that name"),
        ({"task": 1}, "task"),
        ({"task": "query", "lora": []}, "says already which adapter counts"),
        ({"lora": [{"id": 2}]}, "lora[0].id"),
    ],
)
def test_what_is_wrong_of_encoders_is_said(encoders: Server, fields: dict[str, Any], words: str) -> None:
    assert words in encoders.refused("/v1/embeddings", {"model": "vectors", "input": "a", **fields})
