# SPDX-License-Identifier: MIT
"""A device that is lost under the server, and a model that fails on one: clear errors for what runs, and the model is there again."""

import ctypes.util
import http.client
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import MODELS, Server, program

STORY = {"model": "texts", "prompt": "Once", "max_tokens": 16, "temperature": 0}
# Eight at a time, without end tokens.
LONG_STORY = {**STORY, "prompt": ["Once"] * 32, "max_tokens": 150, "logit_bias": {str(token): -100 for token in range(4)}}


def has_vulkan() -> bool:
    told = subprocess.run([program(), "info", "--json"], capture_output=True, text=True, check=False)
    return told.returncode == 0 and bool(json.loads(told.stdout)["devices"])


class LossyServer(Server):
    """A server whose device is lost when it is told so, or has no memory for submissions until it is relieved."""

    def __init__(self, folder: Path, *arguments: str, models: tuple[str, ...]) -> None:
        loader = ctypes.util.find_library("vulkan")
        compiler = shutil.which("cc")
        if not loader or not compiler or not has_vulkan():
            pytest.skip("needs a Vulkan device and a C compiler")
        libraries = folder / "libraries"
        libraries.mkdir()
        (folder / "loader").mkdir()
        source = Path(__file__).with_name("lost_device.c")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-o", str(libraries / "libvulkan.so.1"), str(source), "-ldl"], check=True
        )
        listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
        real = next(line.split()[-1] for line in listed.splitlines() if line.split()[0] == loader)
        self.mark = folder / "lose"
        self.exhausted = folder / "exhausted"
        self.replaced = folder / "replaced"  # while it is there, the device is another one
        environment = {
            "LD_LIBRARY_PATH": str(libraries),
            "VKFORMER_TEST_LOADER": real,
            "VKFORMER_TEST_LOSE": str(self.mark),
            "VKFORMER_TEST_EXHAUST": str(self.exhausted),
            "VKFORMER_TEST_REPLACE": str(self.replaced),
        }
        super().__init__(*arguments, models=models, device="0", environment=environment)

    def lose_device(self) -> None:
        self.mark.touch()

    def exhaust_device(self) -> None:
        self.exhausted.touch()

    def relieve_device(self) -> None:
        self.exhausted.unlink()

    def state(self, model: str) -> str:
        return str(self.get(f"/v1/models/{model}")["state"])

    def health(self) -> tuple[int, str]:
        status, _, content = self.request("GET", "/health")
        return status, json.loads(content)["status"]

    def gauge(self, name: str, model: str) -> float | None:
        """None where it is not told."""
        found = re.search(rf'^{name}{{[^}}]*model="{model}"[^}}]*}} (\S+)$', self.request("GET", "/metrics")[2].decode(), re.MULTILINE)
        return float(found[1]) if found else None

    def wait_until_well(self) -> None:
        end = time.monotonic() + 60
        while self.health() != (200, "ok"):
            assert time.monotonic() < end, self.lines
            time.sleep(0.05)


@pytest.fixture
def lossy(tmp_path: Path) -> Iterator[LossyServer]:
    server = LossyServer(tmp_path, models=("texts", "vectors"))
    yield server
    server.kill()


def events(server: Server, path: str, body: dict[str, Any]) -> Iterator[Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", path, json.dumps({**body, "stream": True}), {"content-type": "application/json"})
    for line in connection.getresponse():
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])
    connection.close()


def test_what_runs_ends_with_an_error_and_the_model_comes_back(lossy: LossyServer) -> None:
    before = lossy.post("/v1/completions", STORY)["choices"][0]["text"]
    vectors = lossy.post("/v1/embeddings", {"model": "vectors", "input": "Hi"})
    assert lossy.health() == (200, "ok")

    # So many tokens that a fast device has not had all of them when the first is read.
    streamed = events(lossy, "/v1/completions", LONG_STORY)
    next(streamed)
    lossy.lose_device()
    *_, last = streamed
    assert last["error"]["type"] == "server_error" and "device was lost" in last["error"]["message"]
    lost = lossy.line("lost", model="texts")
    assert "VK_ERROR_DEVICE_LOST" in lost["what"]
    lossy.wait_until_well()
    assert lossy.post("/v1/completions", STORY)["choices"][0]["text"] == before
    assert lossy.metric("vkformer_model_loaded") == 2

    lossy.lose_device()
    status, headers, content = lossy.request("POST", "/v1/embeddings", {"model": "vectors", "input": "Hi"})
    assert status == 503 and "device was lost" in json.loads(content)["error"]["message"] and headers["retry-after"]
    lossy.line("lost", model="vectors")
    lossy.wait_until_well()
    assert lossy.post("/v1/embeddings", {"model": "vectors", "input": "Hi"}) == vectors
    assert lossy.stop() == 0


def test_it_is_not_loaded_on_another_device(lossy: LossyServer) -> None:
    """Whose place "auto" would give to what is left while a GPU resets itself."""
    lossy.replaced.touch()
    lossy.lose_device()
    lossy.post("/v1/completions", STORY, expect=503)
    failed = lossy.line("failed", model="texts")["what"]
    assert "another device" in failed and "was lost" in failed
    assert lossy.health() == (503, "lost")
    assert lossy.gauge("vkformer_model_loaded", "texts") == 0 and lossy.gauge("vkformer_model_loaded", "vectors") == 1
    assert lossy.gauge("vkformer_queue_requests", "texts") is None and lossy.gauge("vkformer_queue_requests", "vectors") == 0
    assert lossy.gauge("vkformer_model_memory_bytes", "texts") is None
    lossy.replaced.unlink()
    lossy.wait_until_well()
    lossy.post("/v1/completions", STORY)
    assert lossy.gauge("vkformer_model_loaded", "texts") == 1 and lossy.gauge("vkformer_queue_requests", "texts") == 0


def test_messages_of_anthropics_shape(lossy: LossyServer) -> None:
    asked = {"model": "texts", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]}
    lossy.lose_device()
    told = lossy.post("/v1/messages", asked, expect=503)
    assert told["type"] == "error" and told["error"]["type"] == "overloaded_error"
    lossy.wait_until_well()
    assert lossy.post("/v1/messages", asked)["type"] == "message"


def test_a_model_that_cannot_be_loaded_anew_ends_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODELS["vectors"], folder)
    server = LossyServer(tmp_path, "--model", f"vectors={folder}", models=())
    try:
        shutil.rmtree(folder)
        server.lose_device()
        server.post("/v1/embeddings", {"input": "Hi"}, expect=503)
        server.line("lost")
        assert server.health() == (503, "lost")
        assert "being loaded anew" in server.refused("/v1/embeddings", {"input": "Hi"}, status=503)
        assert server.process.wait(60) > 0  # what a service manager starts anew
    finally:
        server.kill()


def told_in_all(lossy: LossyServer, fail: Callable[[], None]) -> list[str]:
    """What streaming and other requests are told, of whose sequences eight run when the device fails, and the others wait."""

    def stream(_: int) -> str:
        *_, last = events(lossy, "/v1/completions", LONG_STORY)
        return str(last["error"]["message"])

    def whole(_: int) -> str:
        return lossy.refused("/v1/completions", {**LONG_STORY, "prompt": ["Once"] * 8}, status=503)

    def begun(_: int) -> str:
        """One that waits has no event yet: it ends with a status."""
        body = json.dumps({**STORY, "stream": True})
        status, headers, content = lossy.request("POST", "/v1/completions", body.encode(), {"content-type": "application/json"})
        assert status == 503 and headers["retry-after"]
        return str(json.loads(content)["error"]["message"])

    generated = lossy.metric("vkformer_generated_tokens_total")

    def taken() -> float:
        """How many sequences the model has, and has had."""
        ended = (lossy.metric("vkformer_generated_tokens_total") - generated) / LONG_STORY["max_tokens"]
        return ended + (lossy.gauge("vkformer_queue_requests", "texts") or 0)

    with ThreadPoolExecutor(4) as clients:
        first = events(lossy, "/v1/completions", LONG_STORY)
        next(first)
        others = [clients.submit(ask, 0) for ask in (whole, begun, whole, begun)]
        while taken() < 32 + 8 + 1 + 8 + 1:
            time.sleep(0.001)
        fail()
        *_, last = first
        return [str(last["error"]["message"]), *(other.result(60) for other in others)]


def test_all_that_run_and_wait_are_told_of_a_lost_device(lossy: LossyServer) -> None:
    told = told_in_all(lossy, lossy.lose_device)
    assert len(told) == 5 and all("device was lost" in one for one in told), told
    assert sum(line["event"] == "lost" for line in lossy.lines) == 1
    lossy.wait_until_well()
    assert lossy.gauge("vkformer_queue_requests", "texts") == 0
    lossy.post("/v1/completions", STORY)


def test_an_engine_that_fails_otherwise_is_not_ready_and_is_loaded_anew(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODELS["texts"], folder)
    lossy = LossyServer(tmp_path, "--model", f"texts={folder}", models=("vectors",))
    try:
        before = lossy.post("/v1/completions", {**STORY})["choices"][0]["text"]
        hidden = tmp_path / "hidden"
        folder.rename(hidden)  # so that it is not there again at once
        told = told_in_all(lossy, lossy.exhaust_device)
        lossy.relieve_device()
        assert len(told) == 5 and all("the model failed (out_of_device_memory)" in one for one in told), told
        assert "VK_ERROR_OUT_OF_DEVICE_MEMORY" in lossy.line("failed", model="texts")["what"]
        assert lossy.health() == (503, "failed")
        assert lossy.state("texts") == "failed" and lossy.state("vectors") == "ready"
        assert lossy.gauge("vkformer_model_loaded", "texts") == 0 and lossy.gauge("vkformer_model_loaded", "vectors") == 1
        assert lossy.gauge("vkformer_queue_requests", "texts") is None
        # Others go on, and the server with them where it cannot be loaded, which is tried again after some seconds.
        assert len(lossy.post("/v1/embeddings", {"model": "vectors", "input": "Hi"})["data"]) == 1
        status, headers, content = lossy.request("POST", "/v1/completions", STORY)
        assert status == 503 and "the model failed" in json.loads(content)["error"]["message"] and headers["retry-after"]
        assert lossy.health() == (503, "failed")
        hidden.rename(folder)
        lossy.refused("/v1/completions", STORY, status=503)
        lossy.wait_until_well()
        assert lossy.post("/v1/completions", STORY)["choices"][0]["text"] == before
        assert lossy.gauge("vkformer_model_loaded", "texts") == 1 and lossy.state("texts") == "ready"
        assert lossy.stop() == 0
    finally:
        lossy.kill()


def test_an_engine_that_fails_is_loaded_on_demand_with_the_next_request(tmp_path: Path) -> None:
    lossy = LossyServer(tmp_path, "--load", "on-demand", models=("texts",))
    try:
        before = lossy.post("/v1/completions", STORY)["choices"][0]["text"]
        lossy.exhaust_device()
        assert "the model failed" in lossy.refused("/v1/completions", STORY, status=503)
        lossy.relieve_device()
        assert lossy.post("/v1/completions", STORY)["choices"][0]["text"] == before
        assert lossy.stop() == 0
    finally:
        lossy.kill()


def test_what_a_call_alone_fails_with_leaves_an_encoder_ready(lossy: LossyServer) -> None:
    before = lossy.post("/v1/embeddings", {"model": "vectors", "input": "Hi"})
    lossy.exhaust_device()
    assert "not enough memory" in lossy.refused("/v1/embeddings", {"model": "vectors", "input": "Hi"}, status=503)
    lossy.relieve_device()
    assert lossy.health() == (200, "ok")
    assert lossy.post("/v1/embeddings", {"model": "vectors", "input": "Hi"}) == before
