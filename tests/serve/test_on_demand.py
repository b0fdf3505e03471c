# SPDX-License-Identifier: MIT
"""Models that are loaded with their first request, within the memory that they may have together."""

import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import MODELS, Server, program


def weights(name: str) -> int:
    return sum(file.stat().st_size for file in MODELS[name].rglob("*.safetensors"))


def texts_needs(cache_tokens: int = 1280) -> int:
    """Its weights, and keys and values: 2 layers, 2 heads of 8 numbers; one page more, which is nobody's."""
    return weights("texts") + (cache_tokens + 64) * 2 * 2 * 2 * 8 * 4


def states(server: Server) -> dict[str, str]:
    return {model["id"]: model["state"] for model in server.get("/v1/models")["data"]}


def embed(server: Server, text: str = "Hi") -> list[float]:
    return list(server.post("/v1/embeddings", {"model": "vectors", "input": text})["data"][0]["embedding"])


def rank(server: Server) -> int:
    return len(server.post("/v1/rerank", {"model": "scores", "query": "a", "documents": ["b", "c"]})["results"])


def count(server: Server, event: str, model: str) -> int:
    return sum(line["event"] == event and line.get("model") == model for line in server.lines)


@pytest.fixture
def lazy() -> Iterator[Server]:
    server = Server("--load", "on-demand", models=("texts", "vectors", "scores", "nllb"))
    yield server
    server.kill()


def test_a_model_comes_with_its_first_request(lazy: Server) -> None:
    assert lazy.get("/health")["status"] == "ok"
    assert set(states(lazy).values()) == {"unloaded"}
    with ThreadPoolExecutor(8) as clients:
        made = list(clients.map(lambda _: embed(lazy), range(8)))
    assert all(one == pytest.approx(made[0], abs=1e-5) for one in made)  # some share a call
    assert states(lazy) == {"texts": "unloaded", "vectors": "ready", "scores": "unloaded", "nllb": "unloaded"}
    assert count(lazy, "loaded", "vectors") == 1
    said = lazy.post("/v1/completions", {"prompt": "Once", "max_tokens": 4})
    assert said["usage"]["completion_tokens"] > 0 and states(lazy)["texts"] == "ready"
    codes = [language["code"] for language in lazy.get("/languages")]
    assert len(codes) > 1 and states(lazy)["nllb"] == "unloaded"
    lazy.post("/translate", {"q": "a", "source": codes[0], "target": codes[1]})
    assert states(lazy)["nllb"] == "ready"
    assert lazy.stop() == 0


def test_the_one_that_was_used_least_recently_makes_room() -> None:
    memory = texts_needs() + max(weights("vectors"), weights("scores"))
    server = Server("--load", "on-demand", "--memory", str(memory), models=("vectors", "scores", "texts"))
    try:
        embed(server)
        rank(server)
        server.line("request", route="/v1/rerank")  # the answer is there before the model is let go
        before = embed(server)  # so that the other is the one to go
        assert states(server) == {"vectors": "ready", "scores": "ready", "texts": "unloaded"}
        assert server.metric("vkformer_model_loaded") == 2
        server.post("/v1/completions", {"prompt": "Once", "max_tokens": 4})
        server.line("unloaded", model="scores")
        assert states(server) == {"vectors": "ready", "scores": "unloaded", "texts": "ready"}
        _, _, shown = server.request("GET", "/metrics")
        assert b'vkformer_model_memory_bytes{model="scores"' not in shown
        assert rank(server) == 2 and embed(server) == pytest.approx(before, abs=1e-5)
        assert count(server, "loaded", "scores") == 2
        assert server.stop() == 0
    finally:
        server.kill()


def test_models_that_do_not_fit_together_each_answer_before_they_go() -> None:
    memory = str(max(weights("vectors"), weights("scores")))
    server = Server("--load", "on-demand", "--memory", memory, models=("vectors", "scores"))
    try:
        with ThreadPoolExecutor(2) as clients:
            for _ in range(10):
                made = [clients.submit(embed, server), clients.submit(rank, server)]
                assert [bool(one.result(60)) for one in made] == [True, True]
        server.line("request", route="/v1/rerank")
        assert count(server, "loaded", "vectors") + count(server, "loaded", "scores") <= 20
    finally:
        server.kill()


def test_what_runs_is_not_cut_for_another_model() -> None:
    # One sequence at a time, so that the answers take some time: 16 of 140 tokens, one after the other.
    memory = str(texts_needs(cache_tokens=192))
    server = Server("--load", "on-demand", "--memory", memory, "--sequences", "1", models=("texts", "vectors"))
    try:
        body = {"model": "texts", "prompt": "Once", "max_tokens": 140, "stream": True, "n": 16}
        body["logit_bias"] = {"2": -100}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        first = answer.readline()
        with ThreadPoolExecutor(1) as clients:
            waiting = clients.submit(embed, server)
            rest = answer.read()
            assert waiting.result(60)
        assert first.startswith(b"data:") and rest.endswith(b"data: [DONE]\n\n") and rest.count(b"data: {") > 500
        server.line("unloaded", model="texts")
    finally:
        server.kill()


def test_one_that_nobody_uses_goes_before_one_that_is_at_work() -> None:
    memory = str(texts_needs(cache_tokens=192) + max(weights("vectors"), weights("scores")))
    server = Server("--load", "on-demand", "--memory", memory, "--sequences", "1", models=("texts", "vectors", "scores"))
    try:
        body = {"model": "texts", "prompt": ["Once"] * 16, "n": 4, "max_tokens": 140, "logit_bias": {"2": -100}}
        is_at_work, found = False, {}
        for requests in (1, 4, 16, 64):  # until one is at work all the while
            with ThreadPoolExecutor(requests) as clients:
                answers = [clients.submit(server.post, "/v1/completions", body) for _ in range(requests)]
                while server.metric("vkformer_running_sequences") == 0 and not all(answer.done() for answer in answers):
                    pass
                embed(server)  # used since, and by nobody now
                assert rank(server) == 2
                found = states(server)
                is_at_work = not all(answer.done() for answer in answers)
                assert all(len(answer.result(60)["choices"]) == 64 for answer in answers)
            if is_at_work:
                break
        assert is_at_work and found == {"texts": "ready", "vectors": "unloaded", "scores": "ready"}
        assert server.stop() == 0
    finally:
        server.kill()


def test_who_has_gone_wants_no_model() -> None:
    memory = str(texts_needs(cache_tokens=192))
    server = Server("--load", "on-demand", "--memory", memory, "--sequences", "1", "--max-requests", "2", models=("texts", "vectors"))
    try:
        body = {"model": "texts", "prompt": "Once", "max_tokens": 140, "stream": True, "n": 16}
        body["logit_bias"] = {"2": -100}
        running = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        running.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        answer = running.getresponse()
        first = answer.readline()
        waiting = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        waiting.request("POST", "/v1/embeddings", json.dumps({"model": "vectors", "input": "Hi"}), {"content-type": "application/json"})
        end = time.monotonic() + 30
        while states(server)["texts"] != "leaving":
            assert time.monotonic() < end
        waiting.close()
        server.line("request", route="/v1/embeddings", status=499)
        while states(server)["texts"] != "ready":
            assert time.monotonic() < end
        # Its place is free, and the model takes requests while the first one is at work.
        assert server.post("/v1/completions", {"model": "texts", "prompt": "Once", "max_tokens": 1})["usage"]["completion_tokens"] == 1
        assert first.startswith(b"data:") and answer.read().endswith(b"data: [DONE]\n\n")
        assert count(server, "unloaded", "texts") == 0 and count(server, "loaded", "vectors") == 0
        assert embed(server)
    finally:
        server.kill()


def subprocess_check(*names: str, memory: str = "1G") -> str:
    named = [word for name in names for word in ("--model", f"{name}={MODELS[name]}")]
    command = [program(), "serve", "--check", "--load", "on-demand", "--memory", memory, *named]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_model_that_cannot_be_loaded_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODELS["vectors"], folder)
    server = Server("--load", "on-demand", "--model", f"vectors={folder}", models=("scores",))
    try:
        hidden = tmp_path / "hidden"
        folder.rename(hidden)
        assert "cannot be loaded" in server.refused("/v1/embeddings", {"model": "vectors", "input": "Hi"}, status=503)
        server.line("failed", model="vectors")
        assert server.get("/health")["status"] == "ok" and rank(server) == 2
        hidden.rename(folder)
        assert embed(server)
    finally:
        server.kill()


def test_bounds_that_cannot_be_kept_are_refused() -> None:
    assert "loaded on demand, within" in subprocess_check("vectors")
    model = f"vectors={MODELS['vectors']}"
    for arguments, told in [
        (["--load", "on-demand", "--memory", "1000"], "vectors takes"),
        (["--memory", "1G"], "loaded on demand"),
        (["--load", "never"], "--load"),
    ]:
        command = [program(), "serve", "--model", model, *arguments]
        made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert made.returncode > 0 and told in made.stderr + made.stdout


def odd_model(folder: Path) -> Path:
    """The model of dates with a field that nobody knows."""
    copy = folder / "odd"
    shutil.copytree(MODELS["dates"], copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "attention_bend": 0.25}))
    return copy


def test_what_nobody_knows_of_a_models_files_is_logged(tmp_path: Path) -> None:
    server = Server("--model", f"odd={odd_model(tmp_path)}", models=("dates",))
    try:
        assert '"attention_bend", which is 0.25' in server.line("note", model="odd")["what"]
        assert not any(line["event"] == "note" and line["model"] == "dates" for line in server.lines)
    finally:
        server.stop()


def test_strict_servers_refuse_what_nobody_knows(tmp_path: Path) -> None:
    named = ["--model", f"odd={odd_model(tmp_path)}"]
    ended = subprocess.run(
        [program(), "serve", "-q", "-d", "cpu", "--plain", "--port", "0", "--strict", *named],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert '"attention_bend"' in ended.stderr
    server = Server("--strict", models=("dates",))
    assert server.stop() == 0
