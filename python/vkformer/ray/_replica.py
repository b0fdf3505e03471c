# SPDX-License-Identifier: MIT
"""What a replica of Ray Serve is made of: a `vkformer serve`, and what hands requests to it."""

import json
import logging
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path as _Path
from typing import Any

import aiohttp
import yarl
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from .. import _program
from ._places import place

_log = logging.getLogger("ray.serve")

#: Of one connection, not of what is said on it (RFC 9110, 7.6.1).
_HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection "
    "te trailer transfer-encoding upgrade".split()
)


class Replica:
    """A `vkformer serve` on the loopback, and what hands requests to it."""

    def __init__(self, command: list[str], device: str | int | None, program: str | None, start_seconds: float) -> None:
        chosen, self._claims = place(device)
        found = _program.find(program, "to serve is")
        guard = _Path(__file__).with_name("_guard.py")
        self._ready, self._port, self._said = threading.Event(), 0, deque[str](maxlen=20)
        self._child = subprocess.Popen(
            [sys.executable, str(guard), found, *command, "--device", str(chosen)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        threading.Thread(target=self._read_log, name="vkformer serve", daemon=True).start()
        if not self._ready.wait(start_seconds):
            self._end()
            raise TimeoutError(f"vkformer serve was not ready after {start_seconds:g} s{self._last_words()}")
        if self._child.poll() is not None:
            raise RuntimeError(f"vkformer serve ended with code {self._child.returncode}{self._last_words()}")
        self._session: aiohttp.ClientSession | None = None

    def _read_log(self) -> None:
        assert self._child.stderr
        for line in self._child.stderr:
            self._said.append(line.rstrip("\n"))
            _log.info(self._said[-1])
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry.get("event") == "listening":
                self._port = int(entry["port"])
            elif entry.get("event") == "ready":
                self._ready.set()
        self._child.wait()
        self._ready.set()

    def _last_words(self) -> str:
        return "".join(f"\n  {line}" for line in self._said)

    async def __call__(self, request: Request) -> Response:
        if self._session is None:
            limits = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                f"http://127.0.0.1:{self._port}",
                connector=limits,
                timeout=aiohttp.ClientTimeout(total=None),  # the server has its own
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
            )
        try:
            answer = await self._session.request(
                request.method,
                _target(request),
                headers=[(name, value) for name, value in request.headers.items() if name not in _HOP_BY_HOP],
                data=_body(request),
                allow_redirects=False,
            )
        except aiohttp.ClientConnectionError as error:
            return PlainTextResponse(f"the server of this replica does not answer: {error}", 502)
        response = StreamingResponse(_content(answer), answer.status, background=BackgroundTask(answer.release))
        response.raw_headers = [
            (name, value)
            for name, value in ((name.lower(), value) for name, value in answer.raw_headers)
            if name.decode("latin-1") not in _HOP_BY_HOP and name != b"x-request-id"  # Ray has its own
        ]
        return response

    def check_health(self) -> None:
        """Called by Ray, which starts another replica where this raises."""
        if self._child.poll() is not None:
            raise RuntimeError(f"vkformer serve ended with code {self._child.returncode}{self._last_words()}")

    def __del__(self) -> None:
        if hasattr(self, "_child"):
            self._end()

    def _end(self) -> None:
        """What runs ends in its own time (--grace-seconds)."""
        assert self._child.stdin
        self._child.stdin.close()
        self._child.wait()


def _target(request: Request) -> Any:
    path = (request.scope.get("raw_path") or request.scope["path"].encode()).decode("latin-1")
    path = path.removeprefix(request.scope.get("root_path", "").rstrip("/")) or "/"
    query = request.scope["query_string"].decode("latin-1")
    return yarl.URL(path + ("?" + query if query else ""), encoded=True)


def _body(request: Request) -> AsyncIterator[bytes] | None:
    has_one = "content-length" in request.headers or "transfer-encoding" in request.headers
    return request.stream() if has_one else None


async def _content(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """As it comes. Whoever leaves before the end closes the connection, which ends the request at the server."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    finally:
        answer.close()
