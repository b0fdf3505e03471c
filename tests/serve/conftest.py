# SPDX-License-Identifier: MIT
"""The server as it is run, with the small models of the repository."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "goldens"
MODELS = {
    "texts": GOLDENS / "decoder_text",
    "vectors": GOLDENS / "sentences" / "embedder",
    "scores": GOLDENS / "sentences" / "cross_encoder",
    "dates": ROOT / "samples" / "models" / "date-normalizer",
    "nllb": GOLDENS / "nllb_texts",
    "ears": GOLDENS / "speech" / "whisper_times_414",
}


def program() -> str:
    return os.environ.get("VKFORMER_PROGRAM", str(ROOT / "build" / "ci" / "vkformer"))


class Server:
    """One running program; what it says on standard error is kept."""

    def __init__(
        self,
        *arguments: str,
        models: tuple[str, ...] = tuple(MODELS),
        wait: bool = True,
        device: str = "cpu",
        environment: dict[str, str] | None = None,
    ) -> None:
        named = [word for name in models for word in ("--model", f"{name}={MODELS[name]}")]
        command = [program(), "serve", "-q", "--device", device, "--plain", "--port", "0", "--json-logs", *named, *arguments]
        self.lines: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self._came = threading.Condition()
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = int(self.line("listening")["port"])
        if wait:
            self.line("ready")

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            with self._came:
                if line.startswith("{"):
                    self.lines.append(json.loads(line))
                else:
                    self.errors.append(line)
                self._came.notify_all()

    def line(self, event: str, seconds: float = 60, **fields: Any) -> dict[str, Any]:
        """The first log line of an event with these fields; waits for it."""
        end = time.monotonic() + seconds
        with self._came:
            while True:
                for line in self.lines:
                    if line["event"] == event and all(line.get(name) == value for name, value in fields.items()):
                        return line
                left = end - time.monotonic()
                assert left > 0 and self.process.poll() is None, f"no {event} {fields} in {self.lines} {self.errors}"
                self._came.wait(min(left, 1))

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, seconds: float = 60
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        sent = {"content-type": "application/json"} if body is not None else {}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, data, {**sent, **(headers or {})})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content

    def get(self, path: str, **headers: str) -> Any:
        status, _, content = self.request("GET", path, headers=headers)
        assert status == 200, content
        return json.loads(content)

    def post(self, path: str, body: Any, expect: int = 200, **headers: str) -> Any:
        status, _, content = self.request("POST", path, body, headers)
        assert status == expect, (status, content)
        return json.loads(content)

    def refused(self, path: str, body: Any, status: int = 400, **headers: str) -> str:
        """The message of an error in OpenAI's shape."""
        return str(self.post(path, body, expect=status, **headers)["error"]["message"])

    def raw(self, data: bytes, seconds: float = 20) -> bytes:
        """What comes back for these bytes until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return read_all(connection)

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        _, _, content = self.request("GET", "/metrics")
        values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", content.decode(), re.MULTILINE)
        return sum(float(value) for value in values)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def read_all(connection: socket.socket) -> bytes:
    content = b""
    try:
        while piece := connection.recv(65536):
            content += piece
    except ConnectionResetError:
        pass
    return content


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def server(_cache_of_its_own: None) -> Iterator[Server]:
    running = Server()
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def locked(_cache_of_its_own: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that wants a key."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"# who may ask\n{KEY}\n")
    running = Server("--api-key-file", str(keys), "--allow-host", "Model.Example", "--allow-origin", "https://a.example", models=("vectors", "dates"))
    yield running
    running.kill()


KEY = "0123456789abcdef0123456789abcdef"
