# SPDX-License-Identifier: MIT
"""A device that is lost under the server: clear errors for what runs, and the model is there again on a new device."""

import ctypes.util
import http.client
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
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
    """A server whose device is lost when it is told to."""

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
        self.replaced = folder / "replaced"  # while it is there, the device is another one
        environment = {
            "LD_LIBRARY_PATH": str(libraries),
            "VKFORMER_TEST_LOADER": real,
            "VKFORMER_TEST_LOSE": str(self.mark),
            "VKFORMER_TEST_REPLACE": str(self.replaced),
        }
        super().__init__(*arguments, models=models, device="0", environment=environment)

    def lose_device(self) -> None:
        self.mark.touch()

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
