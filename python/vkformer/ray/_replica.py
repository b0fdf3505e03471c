# SPDX-License-Identifier: MIT
"""What a replica of Ray Serve is made of: a `vkformer serve`, and what hands requests to it."""

import json
import logging
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import yarl
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

    def __init__(
        self, command: list[str], device: str | int | None, program: str | None, start_seconds: float, grace: float
    ) -> None:
        chosen, claims = place(device)
        found = _program.find(program, "to serve is")
        guard = Path(__file__).with_name("_guard.py")
        self._ready, self._port, self._said = threading.Event(), 0, deque[str](maxlen=20)
        self._session: aiohttp.ClientSession | None = None
        # The device is taken as long as the server runs, which may be longer than this process.
        self._child = subprocess.Popen(
            [sys.executable, str(guard), str(grace), found, *command, "--device", str(chosen)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=[file for taken in claims for file in taken.files],
        )
        threading.Thread(target=self._read_log, name="vkformer serve", daemon=True).start()
        if not self._ready.wait(start_seconds):
            self._end()
            raise TimeoutError(f"vkformer serve was not ready after {start_seconds:g} s{self._last_words()}")
        self.check_health()

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
        return "".join(f"\n  {line}" for line in list(self._said))

    async def __call__(self, request: Request) -> Response:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),  # the server has its own
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
            )
        try:
            url, headers = self._url(request), _headers(request)
        except ValueError as error:
            return PlainTextResponse(str(error), 400)
        try:
            answer = await self._session.request(
                request.method, url, headers=headers, data=_body(request), allow_redirects=False
            )
        except aiohttp.ClientConnectionError as error:
            return PlainTextResponse(f"the server of this replica does not answer: {error}", 502)

        response = StreamingResponse(_content(answer), answer.status)
        response.raw_headers = [
            # Ray has an x-request-id of its own.
            (b"x-vkformer-request-id" if name == b"x-request-id" else name, value)
            for name, value in ((name.lower(), value) for name, value in answer.raw_headers)
            if name.decode("latin-1") not in _HOP_BY_HOP
        ]
        return response

    def _url(self, request: Request) -> yarl.URL:
        """The target as it came, behind the route of the application, at the server: whatever it is, at no other."""
        path = (request.scope.get("raw_path") or request.scope["path"].encode()).decode("latin-1")
        path = path.removeprefix(request.scope.get("root_path", "").rstrip("/")) or "/"
        query = request.scope["query_string"].decode("latin-1")
        target = path + ("?" + query if query else "")
        if not target.startswith("/") or not target.isascii() or not target.isprintable():
            raise ValueError("the target of the request is no path")
        return yarl.URL(f"http://127.0.0.1:{self._port}{target}", encoded=True)

    def check_health(self) -> None:
        """Called by Ray, which starts another replica where this raises."""
        if self._child.poll() is not None:
            raise RuntimeError(f"vkformer serve ended with code {self._child.returncode}{self._last_words()}")

    def __del__(self) -> None:
        if hasattr(self, "_child"):
            self._end()

    def _end(self) -> None:
        """Waits for nothing: what runs ends in its own time, and the guard sees to it."""
        assert self._child.stdin
        self._child.stdin.close()


def _headers(request: Request) -> list[tuple[str, str]]:
    """Those of the request, once each where the server asks who sends them."""
    given = request.headers.items()
    for name in ("host", "origin", "authorization", "content-length"):
        if len(request.headers.getlist(name)) > 1:
            raise ValueError(f"the request has more than one header {name}")
    if not all(value.isascii() for _, value in given):
        raise ValueError("the request has a header that is not ASCII")
    own = {name.strip().lower() for value in request.headers.getlist("connection") for name in value.split(",")}
    return [(name, value) for name, value in given if name not in _HOP_BY_HOP and name not in own]


async def _content(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """As it comes. Whoever leaves before the end closes the connection, which ends the request at the server."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    finally:
        answer.close()


def _body(request: Request) -> AsyncIterator[bytes] | None:
    has_one = "content-length" in request.headers or "transfer-encoding" in request.headers
    return request.stream() if has_one else None
