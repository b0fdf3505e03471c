# SPDX-License-Identifier: MIT
"""Requests that mean no good: the server says no and goes on."""

import json
import socket
import threading
import time

import pytest
from conftest import KEY, Server, read_all


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.fixture(autouse=True)
def _goes_on(server: Server) -> object:
    yield
    assert server.process.poll() is None
    assert len(server.post("/v1/embeddings", {"input": "the cat"})["data"]) == 1


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "the body"),
        (b"{", "the body"),
        (b"[]", "no JSON object"),
        (b"null", "no JSON object"),
        (b'{"input": "\xff\xfe"}', "the body"),
        (b'{"input": "\xed\xa0\x80"}', "the body"),
        (b'{"input": "\\ud800"}', "the body"),
        (b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
        (b'{"input": "a", "input": "b"}', "twice"),
        (b'{"input": 1e400}', "the body"),
        (b'{"input": -1}', "input"),
        (b'{"input": {"text": "a"}}', "input"),
        (b'{"input": "a", "model": 3}', "model"),
        (b'{"input": "a", "dimensions": -9223372036854775808}', "dimensions"),
        (b'{"input": "a", "dimensions": 99999999999999999999999}', "dimensions"),
    ],
)
def test_bad_bodies(server: Server, body: bytes, what: str) -> None:
    status, _, content = server.request("POST", "/v1/embeddings", body)
    assert status == 400
    assert what in json.loads(content)["error"]["message"]


def test_other_types_are_no_json(server: Server) -> None:
    # What a page elsewhere can send without a question before.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", ""):
        status, _, _ = server.request("POST", "/v1/embeddings", b'{"input": "a"}', {"content-type": kind})
        assert status == 415


def test_hosts_and_origins(server: Server, locked: Server) -> None:
    for host, expected in (
        (f"127.0.0.1:{server.port}", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:8080", 403),
        ("[::1", 400),
        ("a b", 400),
        ("localhost:port", 400),
        ("", 400),
    ):
        answer = server.raw(f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert status_of(answer) == expected, host
    assert status_of(server.raw(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")) == 400
    assert status_of(server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")) == 400
    own = f"http://127.0.0.1:{server.port}"
    for origin, expected in ((own, 200), ("https://evil.example", 403), ("null", 403), (own + "1", 403)):
        assert server.request("POST", "/v1/embeddings", {"input": "a"}, {"origin": origin})[0] == expected
    # Those that the server was started with.
    key = {"x-api-key": KEY}
    assert locked.request("GET", "/v1/models", headers={**key, "host": "model.example"})[0] == 200
    status, headers, _ = locked.request("GET", "/v1/models", headers={**key, "origin": "https://a.example"})
    assert (status, headers["access-control-allow-origin"]) == (200, "https://a.example")
    # Their pages may read why they were refused.
    for path, sent, expected in (("/v1/nothing", key, 404), ("/v1/embeddings", key, 405), ("/v1/models", {}, 401)):
        status, headers, _ = locked.request("GET", path, headers={**sent, "origin": "https://a.example"})
        assert (status, headers["access-control-allow-origin"]) == (expected, "https://a.example")
    asked = {"origin": "https://a.example", "access-control-request-method": "POST"}
    status, headers, _ = locked.request("OPTIONS", "/v1/embeddings", headers=asked)
    assert status == 204 and "POST" in headers["access-control-allow-methods"]
    wanted = "authorization,content-type,x-stainless-arch, anthropic-dangerous-direct-browser-access"
    _, headers, _ = locked.request("OPTIONS", "/v1/embeddings", headers={**asked, "access-control-request-headers": wanted + ",a b,,("})
    assert headers["access-control-allow-headers"] == ", ".join(name.strip() for name in wanted.split(","))
    _, headers, _ = locked.request("OPTIONS", "/v1/embeddings", headers={**asked, "access-control-request-headers": ",".join(["a"] * 1000)})
    assert headers["access-control-allow-headers"] == ", ".join(["a"] * 64)
    status, headers, _ = server.request("OPTIONS", "/v1/embeddings", headers=asked)
    assert status == 403 and "access-control-allow-origin" not in headers


def test_what_is_no_http(server: Server) -> None:
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,  # TLS
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ):
        assert status_of(server.raw(data)) == 400, data
    assert server.raw(b"") == b""
    assert server.raw(b"GET / HT") == b""


def test_sizes_are_bounded(server: Server) -> None:
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert status_of(server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000 + b"\r\n\r\n")) == 431
    assert status_of(server.raw(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")) == 431
    many = b"".join(b"X%d: a\r\n" % number for number in range(5000))
    assert status_of(server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")) == 431
    assert status_of(server.raw(head + b"Content-Length: 5000000\r\n\r\n")) == 413
    assert status_of(server.raw(head + b"Content-Length: 18446744073709551615\r\n\r\n")) == 413
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    assert status_of(server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + piece * 5)) == 413
    assert status_of(server.raw(head + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffff\r\n")) == 413
    assert status_of(server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde")) == 413


def test_a_tokens_bias_is_said_once(server: Server) -> None:
    for bias in ({"01": 5}, {"1": 5, "01": -5}, {"+1": 5}, {"-0": 1}):
        assert "logit_bias" in server.refused("/v1/completions", {"model": "texts", "prompt": "a", "logit_bias": bias})


@pytest.mark.parametrize("begin", [b"1;", b"0;", b"0\r\nx: "])
@pytest.mark.parametrize("route", [b"POST /v1/embeddings", b"GET /health", b"OPTIONS /v1/embeddings"])
def test_lines_between_pieces_are_bounded(server: Server, begin: bytes, route: bytes) -> None:
    head = route + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert status_of(server.raw(head + begin + b"a" * (1 << 20))) in (400, 413)


def test_bodies_in_other_forms_are_no_next_requests(server: Server) -> None:
    inner = b"GET /v1/models/SMUGGLED HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for coding in (b"gzip", b"xchunked", b"chunked, gzip", b"gzip, chunked", b"chunked, identity"):
        answer = server.raw(head + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + inner)
        assert status_of(answer) == 501 and answer.count(b"HTTP/1.1 ") == 1, coding
    answer = server.raw(head + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}")
    assert status_of(answer) == 415 and b"content-encoding" in answer


def test_bodies_that_are_promised_keep_nobody_out(server: Server) -> None:
    head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=a\r\n"
    promised = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
    try:
        for connection in promised:
            connection.sendall(head + b"Content-Length: 67108864\r\n\r\n")
        time.sleep(0.2)
        assert len(server.post("/v1/embeddings", {"input": "the cat"})["data"]) == 1
    finally:
        for connection in promised:
            connection.close()


def test_who_sends_too_much_is_told_so_in_the_routes_shape(server: Server) -> None:
    for path, shape in (("/v1/messages", {"type", "error"}), ("/translate", {"error"}), ("/v1/embeddings", {"error"})):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
        for length in (b"Content-Length: 5000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nffffff\r\n" + b" " * 0xFFFFFF):
            answer = server.raw(head + length)
            assert status_of(answer) == 413
            told = json.loads(answer.partition(b"\r\n\r\n")[2])
            assert set(told) == shape
            error = told["error"]
            if path == "/v1/messages":
                assert error["type"] == "request_too_large"
            assert isinstance(error, str) == (path == "/translate")


def test_addresses_ask_for_nothing_that_is_not_done(server: Server) -> None:
    for path in ("/v1/models?limit=2&after_id=texts", "/v1/models?after_id", "/v1/responses/resp_1?stream=true"):
        status, _, content = server.request("GET", path)
        assert status == 400 and path.partition("?")[2].partition("=")[0].partition("&")[0] in content.decode()
    for path in ("/v1/models?beta=true", "/v1/models?", "/health?limit=2", "/?limit=2"):
        assert server.request("GET", path)[0] == 200


def test_routes_and_methods(server: Server) -> None:
    for path in ("/v1/nothing", "/../etc/passwd", "/page/../../x", "/%2e%2e/%2e%2e/etc/passwd", "//", "/v1/models/../../x", "*"):
        assert server.request("GET", path)[0] == 404, path
    assert server.request("GET", "/v1/embeddings")[0] == 405
    assert server.request("DELETE", "/v1/models")[0] == 405
    assert server.request("TRACE", "/")[0] == 405
    for method, path, allowed in (("PUT", "/v1/embeddings", "OPTIONS, POST"), ("POST", "/v1/models/a", "OPTIONS, GET, HEAD")):
        assert server.request(method, path, {})[1]["allow"] == allowed


def test_targets_may_name_the_host(server: Server) -> None:
    for target, host, expected in (
        ("http://localhost/health", "localhost", 200),
        (f"HTTP://127.0.0.1:{server.port}/health?a=http://evil.example/", f"127.0.0.1:{server.port}", 200),
        ("http://localhost/nothing", "localhost", 404),
        ("http://localhost", "localhost", 200),
        ("http://evil.example/health", "evil.example", 403),
        ("http://evil.example/health", "localhost", 400),
        ("http://localhost/health", "evil.example", 400),
        ("http://a@localhost/health", "localhost", 400),
        ("http:///health", "evil.example", 403),
        ("ftp://localhost/health", "localhost", 404),
    ):
        answer = server.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert status_of(answer) == expected, (target, host)


def test_clients_of_http_1_0(server: Server) -> None:
    kept = b"GET /health HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
    answer = server.raw(kept + b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.count(b"connection: keep-alive\r\n") == 1 and answer.count(b"connection: close\r\n") == 1
    body = json.dumps({"prompt": "Once", "max_tokens": 3, "stream": True}).encode()
    head = b"POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        head, _, events = read_all(connection).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head and b"connection: close" in head
    assert events.startswith(b"data: {") and events.endswith(b"\n\ndata: [DONE]\n\n")


def test_a_sender_of_far_too_much_is_told_so(server: Server) -> None:
    body = b" " * (100 << 20)
    status, _, content = server.request("POST", "/v1/embeddings", body)
    assert status == 413 and "at most" in json.loads(content)["error"]["message"]


def test_slow_senders_keep_nobody_out() -> None:
    running = Server("--max-connections", "8", models=("vectors",))
    slow = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(30)]
    for connection in slow:
        try:
            connection.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Le")
        except OSError:
            pass  # closed for the next
    began = time.monotonic()
    assert len(running.post("/v1/embeddings", {"input": "the cat"})["data"]) == 1
    assert time.monotonic() - began < 5
    # Bodies that do not come.
    body = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(30)]
    for connection in body:
        try:
            connection.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n{")
        except OSError:
            pass
    assert len(running.post("/v1/embeddings", {"input": "the cat"})["data"]) == 1
    for connection in slow + body:
        connection.close()
    running.kill()


def test_bodies_are_bounded_together() -> None:
    running = Server(models=("vectors",))
    head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000001\r\n\r\n"

    def begun(seconds: float = 0.5) -> tuple[socket.socket, int]:
        """All of a body but its last byte; 0: the server has said nothing for so long, and waits for that."""
        connection = socket.create_connection(("127.0.0.1", running.port), timeout=20)
        connection.sendall(head)
        try:
            for _ in range(60):
                connection.sendall(b" " * 1_000_000)
            connection.settimeout(seconds)
            return connection, status_of(connection.recv(1000))
        except TimeoutError:
            return connection, 0
        except OSError:
            return connection, 503  # it was told so, and read no further

    senders = [begun() for _ in range(4)]
    assert [status for _, status in senders] == [0] * 4
    for _ in range(3):  # of which none takes a part along
        connection, status = begun(20)
        connection.close()
        assert status == 503
    assert len(running.post("/v1/embeddings", {"input": "the cat"})["data"]) == 1
    for connection, _ in senders:
        connection.close()
    end = time.monotonic() + 20
    for _ in senders:  # what those held is there again
        while (again := begun())[1] == 503:
            again[0].close()
            assert time.monotonic() < end
        assert again[1] == 0
    running.kill()


def test_a_head_has_its_time(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        began = time.monotonic()
        assert read_all(connection) == b""
        assert 5 < time.monotonic() - began < 25


def test_requests_are_bounded() -> None:
    running = Server("--max-requests", "2", models=("vectors",))
    texts = ["the cat and the dog and the coat " * 20] * 2048
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(running.request("POST", "/v1/embeddings", {"input": texts})[0]))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    while running.metric("vkformer_queue_requests") < 2:
        time.sleep(0.001)
    status, headers, _ = running.request("POST", "/v1/embeddings", {"input": "the cat"})
    assert status == 503 and headers["retry-after"] == "1"
    for thread in threads:
        thread.join()
    assert codes == [200, 200]
    assert running.get("/health") == {"status": "ok"}
    assert len(running.post("/v1/embeddings", {"input": "the cat"})["data"]) == 1
    running.kill()


def test_no_other_limit_is_met_before() -> None:
    running = Server("--sequences", "1", models=("texts",))
    body = json.dumps({"prompt": ["Once", "a", "b", "c"] * 4, "n": 4, "max_tokens": 140, "logit_bias": {"2": -100}}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    clients = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(20)]
    for client in clients:
        client.sendall(head + body)
    end = time.monotonic() + 30
    while running.metric("vkformer_queue_requests") < 19 * 64:
        assert time.monotonic() < end
    assert not [line for line in running.lines if line["event"] == "request" and line["status"] == 503]
    running.kill()


def test_an_answered_request_has_left_its_place() -> None:
    running = Server("--max-requests", "1", models=("vectors", "texts"))
    for _ in range(150):
        assert len(running.post("/v1/embeddings", {"input": "the cat"})["data"]) == 1
        running.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
        assert running.request("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1, "stream": True})[0] == 200
    running.kill()


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    body = b'{"input": "the cat"}'
    first = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(first + body + b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = read_all(connection)
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.index(b"embedding") < answer.index(b'{"status":"ok"}')
