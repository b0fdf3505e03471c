# SPDX-License-Identifier: MIT
"""What the server says of itself, how it starts and how it ends."""

import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import openai
import pytest
from conftest import KEY, MODELS, Server, program, read_all
from scripted import Scripted


def test_models_are_listed(server: Server) -> None:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none")
    assert [model.id for model in client.models.list()] == [name for name in MODELS]
    assert client.models.retrieve("scores").owned_by == "vkformer"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")


def test_names_in_paths_are_percent_encoded() -> None:
    names = ["org/a name", "50%", "é"]
    running = Server(*(word for name in names for word in ("--model", f"{name}={MODELS['dates']}")), models=())
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{running.port}/v1", api_key="none", max_retries=0)
    for name in names:
        assert client.models.retrieve(name).id == name
    assert running.get("/v1/models/org/a%20name")["id"] == "org/a name"
    assert running.get("/v1/models/50%")["id"] == "50%"
    assert running.request("GET", "/v1/models/50%2")[0] == 404
    running.kill()


def test_health_metrics_and_the_description(server: Server) -> None:
    assert server.get("/health") == {"status": "ok"}
    server.post("/v1/embeddings", {"input": "a"})
    server.line("request", route="/v1/embeddings", status=200)  # it is counted when its reply is sent
    status, headers, content = server.request("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain")
    text = content.decode()
    assert 'vkformer_http_requests_total{route="/v1/embeddings",status="200"}' in text
    assert 'vkformer_model_loaded{model="vectors",kind="embeddings"} 1' in text
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r'[a-z_]+(\{([a-z_]+="[^"]*",?)+\})? [-+0-9.e]+', line), line
    described = server.get("/openapi.json")
    assert described["openapi"].startswith("3.")
    for path in ("/v1/embeddings", "/v1/rerank", "/translate", "/v1/audio/transcriptions", "/v1/models/{name}", "/health"):
        assert path in described["paths"]


def test_memory_of_models_is_told(tmp_path: Path) -> None:
    model = Scripted(tmp_path, {"hello": "Hi there."}, "no calls")
    arguments = ("--model", f"talk={model.folder}", "--cache-tokens", "32768")
    checked = subprocess.run([program(), "serve", "--check", *arguments], capture_output=True, text=True, timeout=60)
    said = re.search(r"weights of (\d+) MB, a cache of (\d+) MB", checked.stdout)
    assert said and int(said[2]) == 17
    running = Server(*arguments, models=("vectors",))

    def memory(name: str, **labels: str) -> float:
        _, _, content = running.request("GET", "/metrics")
        assert f"# TYPE {name} gauge" in content.decode() and f"# HELP {name} " in content.decode()
        wanted = ",".join(f'{label}="{value}"' for label, value in labels.items())
        found = [line.split()[-1] for line in content.decode().splitlines() if line.startswith(name + "{" + wanted)]
        assert len(found) == 1, (name, labels)
        return float(found[0])

    kinds = ("weights", "caches", "other")
    assert all(memory("vkformer_model_memory_bytes", model="talk", kind=kind) == 0 for kind in kinds)
    running.post("/v1/completions", {"model": "talk", "prompt": "<|hello|>", "max_tokens": 2})
    weights, caches, other = (memory("vkformer_model_memory_bytes", model="talk", kind=kind) for kind in kinds)
    assert abs(weights - 1e6 * int(said[1])) < 1e6 and weights > 0 and abs(caches - 1e6 * int(said[2])) < 1e6
    used = memory("vkformer_device_memory_used_bytes")
    assert used == weights + caches + other
    running.post("/v1/embeddings", {"model": "vectors", "input": "a"})
    assert memory("vkformer_model_memory_bytes", model="vectors", kind="weights") > 0
    assert memory("vkformer_device_memory_used_bytes") > used
    assert running.stop() == 0


def test_the_page_is_strict(server: Server) -> None:
    for path in ("/", "/page.js", "/page.css", "/page.svg"):
        status, headers, content = server.request("GET", path)
        assert status == 200 and content
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert not re.search(rb"https?://(?!www\.w3\.org/)", content), "an outside resource"
    assert b"<script>" not in server.request("GET", "/")[2]
    status, headers, content = server.request("HEAD", "/")
    assert (status, content) == (200, b"") and int(headers["content-length"]) > 0


def test_log_lines_have_no_contents(server: Server) -> None:
    server.post("/v1/embeddings", {"input": "a very secret text"})
    server.request("GET", "/no/such/secret?key=secret")
    server.line("request", route="none", status=404)
    assert "secret" not in json.dumps(server.lines) + "".join(server.errors)


def fails_to_start(*arguments: str) -> str:
    done = subprocess.run([program(), "serve", "--port", "0", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_what_cannot_be_served_is_said_at_once(tmp_path: Path) -> None:
    dates = f"dates={MODELS['dates']}"
    assert "--model is required" in fails_to_start()
    assert "NAME=PATH" in fails_to_start("--model", "dates")
    assert "needs a key" in fails_to_start("--model", dates, "--host", "0.0.0.0")
    assert "is no IPv4 or IPv6 address" in fails_to_start("--model", dates, "--host", "example.com")
    assert "two models or adapters are called" in fails_to_start("--model", dates, "--model", dates)
    keys = tmp_path / "keys"
    keys.write_text("short\n")
    assert "at least 16" in fails_to_start("--model", dates, "--api-key-file", str(keys))
    keys.write_text("# none\n\n")
    assert "has no key" in fails_to_start("--model", dates, "--api-key-file", str(keys))
    assert "cannot read" in fails_to_start("--model", dates, "--api-key-file", str(tmp_path / "nothing"))
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in MODELS["dates"].iterdir():
        if file.is_file():
            (broken / file.name).write_bytes(file.read_bytes())
    (broken / "model.safetensors").write_bytes(b"\0" * 100)
    assert "broken: " in fails_to_start("--model", f"broken={broken}", "--device", "cpu")


def test_check_says_what_would_be_loaded() -> None:
    named = [word for name, path in MODELS.items() for word in ("--model", f"{name}={path}")]
    done = subprocess.run([program(), "serve", "--check", *named], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == list(MODELS)
    # 2 layers of 2 heads of 8 numbers, keys and values, float32: 8 sequences of 160 tokens.
    cache = "a cache of 0 MB for 1280 tokens, of which a request has at most 160"
    assert lines[0] == f"texts: language, weights of 0 MB, {cache}, programs of steps of at most 268 MB"
    assert re.fullmatch(r"dates: translation, weights of \d+ MB, caches of at most [1-9]\d* MB", lines[3])
    assert lines[1] == "vectors: embeddings, weights of 0 MB"


def checked_as_json(*arguments: str) -> Any:
    command = [program(), "serve", "--check", "--json", *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


def test_check_says_it_in_bytes() -> None:
    texts = f"texts={MODELS['texts']}"
    made = checked_as_json("--model", texts, "--load", "on-demand", "--memory", "1G")
    assert made["on_demand"] is True and made["memory_bytes"] == 1 << 30
    (model,) = made["models"]
    assert (model["name"], model["kind"], model["adapters"]) == ("texts", "language", [])
    assert (model["cache_tokens"], model["context"]) == (1280, 160)
    assert model["cache_bytes"] == (1280 + 64) * 2 * 2 * 2 * 8 * 4  # and a page that is nobody's
    assert model["most_step_bytes"] == 256 << 20
    alone = subprocess.run([program(), "serve", "--json", "--model", texts], capture_output=True, text=True, timeout=60)
    assert alone.returncode != 0 and "--check" in alone.stderr


def test_caches_of_a_translator_are_what_check_says_at_most() -> None:
    (model,) = checked_as_json("--model", f"dates={MODELS['dates']}")["models"]
    running = Server(models=("dates",))
    found = re.compile(r'vkformer_model_memory_bytes{model="dates",kind="caches"} (\d+)')

    def caches() -> int:
        match = found.search(running.request("GET", "/metrics")[2].decode())
        assert match
        return int(match[1])

    ask = {"source": "dates", "target": "iso8601"}
    running.post("/translate", {**ask, "q": ["12 May 2020"] * 8})
    assert 0 < caches() < model["most_cache_bytes"]
    for texts in (1, 2, 4, 8):
        for words in (1, 10, 20, 40, 100):  # 8 to 128 tokens
            running.post("/translate", {**ask, "q": ["May " * words] * texts})
    assert caches() == model["most_cache_bytes"]
    running.kill()


def test_a_signal_lets_what_runs_end(tmp_path: Path) -> None:
    running = Server(models=("vectors",))
    texts = ["the cat and the dog"] * 2048
    answers = []
    asking = threading.Thread(target=lambda: answers.append(running.post("/v1/embeddings", {"input": texts})))
    asking.start()
    while running.metric("vkformer_batch_inputs_sum") == 0:
        time.sleep(0.001)
    assert running.stop() == 0
    asking.join()
    assert len(answers[0]["data"]) == len(texts)
    with pytest.raises(ConnectionRefusedError):
        running.get("/health")


def busy(folder: Path, *arguments: str, requests: int = 32) -> tuple[Server, list[threading.Thread], list[object]]:
    """A server whose model has a template that takes its time, and clients that ask it; what becomes of them comes into the list."""
    model = Scripted(folder, {"hello": "Hi there."}, "no calls")
    (folder / "chat_template.jinja").write_text(
        "{%- for a in messages %}{%- for b in messages %}{%- endfor %}{%- endfor %}{{ messages[-1].content }}"
    )
    running = Server("--model", f"talk={model.folder}", *arguments, models=())
    body = json.dumps({"model": "talk", "messages": [{"role": "user", "content": "<|hello|>"}] * 3000}).encode()
    ended: list[object] = []

    def ask() -> None:
        try:
            ended.append(running.request("POST", "/v1/messages/count_tokens", body, seconds=120)[0])
        except (OSError, http.client.HTTPException) as error:
            ended.append(error)

    threads = [threading.Thread(target=ask) for _ in range(requests)]
    for thread in threads:
        thread.start()
    while len(ended) < 6:  # then all others have been sent
        time.sleep(0.001)
    return running, threads, ended


def test_requests_that_take_long_to_read_hold_up_nobody(tmp_path: Path) -> None:
    running, threads, ended = busy(tmp_path)
    for _ in range(8):
        running.get("/health")
    assert len(ended) <= 12  # of 32, or it had to wait for one of them each time
    for thread in threads:
        thread.join()
    assert ended == [400] * 32  # more steps than a template may take
    running.kill()


def test_a_signal_is_heeded_while_all_workers_are_at_work(tmp_path: Path) -> None:
    running, threads, ended = busy(tmp_path, "--grace-seconds", "1")
    running.process.send_signal(signal.SIGTERM)
    running.line("stopping")
    assert len(ended) <= 12
    assert running.process.wait(60) == 0
    for thread in threads:
        thread.join()
    assert ended.count(400) < 24  # what waits then is dropped
    assert not running.errors


def test_whose_client_goes_while_it_waits_to_be_read_is_dropped(tmp_path: Path) -> None:
    running, threads, ended = busy(tmp_path, requests=24)
    body = json.dumps({"model": "talk", "content": "<|hello|>"}).encode()
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as connection:
        connection.sendall(head + body)
        time.sleep(0.05)
    running.line("request", 20, route="/tokenize", status=499)
    assert len(ended) < 24
    running.kill()
    for thread in threads:
        thread.join()


def test_a_second_signal_ends_the_process_whatever_is_at_work() -> None:
    running = Server(models=("texts",))
    threads = [threading.Thread(target=ask_in_vain, args=(running,)) for _ in range(12)]  # all that read and answer
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    running.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(20) == -signal.SIGTERM
    for thread in threads:
        thread.join()


def ask_in_vain(running: Server) -> None:
    try:
        running.request("POST", "/tokenize", {"content": "a!" * 1_900_000})
    except (OSError, http.client.HTTPException):
        pass


def slow_reader(running: Server) -> tuple[socket.socket, int, bytes]:
    """Asks for 9 MB and has read the beginning alone; the size of the whole."""
    body = json.dumps({"content": "a!" * 1_900_000}).encode()
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(("127.0.0.1", running.port))
    reader.settimeout(30)
    head = f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    reader.sendall(head.encode() + body)
    first = b""
    while b"\r\n\r\n" not in first:
        first += reader.recv(100)
    found = re.search(rb"content-length: (\d+)", first)
    assert found
    return reader, first.index(b"\r\n\r\n") + 4 + int(found[1]), first


def test_a_signal_lets_replies_be_read() -> None:
    running = Server(models=("texts",))
    reader, size, first = slow_reader(running)
    running.process.send_signal(signal.SIGTERM)
    running.line("stopping")
    time.sleep(0.3)
    assert len(first + read_all(reader)) == size
    assert running.process.wait(30) == 0


def test_an_idle_connection_makes_room_before_one_that_is_read() -> None:
    running = Server("--max-connections", "2", models=("texts",))
    reader, size, first = slow_reader(running)
    ask = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as idle:
        idle.sendall(ask)
        assert idle.recv(1000).startswith(b"HTTP/1.1 200")
        time.sleep(0.5)  # until the server, too, knows that the reply is taken
        with socket.create_connection(("127.0.0.1", running.port), timeout=20) as third:
            third.sendall(ask)
            assert third.recv(1000).startswith(b"HTTP/1.1 200")
            assert read_all(idle) == b""  # closed
            assert len(first + read_all_of(reader, size - len(first))) == size
    running.kill()


def read_all_of(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size and (piece := connection.recv(65536)):
        content += piece
    return content


def test_a_client_that_goes_takes_its_request_along() -> None:
    running = Server(models=("vectors",))
    texts = ["the cat and the dog and the coat " * 4] * 2048
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    connection.request("POST", "/v1/embeddings", json.dumps({"input": texts}), {"content-type": "application/json"})
    connection.close()  # when all of it is sent
    running.line("request", route="/v1/embeddings", status=499)
    end = time.monotonic() + 30
    while running.metric("vkformer_queue_requests") > 0:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert running.metric("vkformer_batch_inputs_sum") < len(texts)
    running.kill()


@pytest.mark.parametrize("ahead", [b"\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200])
def test_a_client_that_goes_is_seen_behind_what_it_sent(ahead: bytes) -> None:
    running = Server("--sequences", "1", models=("texts",))
    body = {"prompt": ["Once"] * 16, "n": 4, "max_tokens": 140, "logit_bias": {"2": -100}}
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    while running.metric("vkformer_running_sequences") == 0:
        time.sleep(0.001)
    connection.sock.sendall(ahead)
    time.sleep(0.1)
    assert running.metric("vkformer_queue_requests") > 0
    connection.close()
    running.line("request", 5, route="/v1/completions", status=499)
    running.kill()


def test_time_is_bounded() -> None:
    running = Server("--request-seconds", "1", models=("vectors",))
    texts = ["the cat and the dog and the coat " * 20] * 2048
    answers: list[tuple[int, bytes]] = []

    def ask() -> None:
        status, _, content = running.request("POST", "/v1/embeddings", {"input": texts})
        answers.append((status, content))

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    late = [content for status, content in answers if status == 504]
    assert late and len(answers) == len(threads)
    assert all("time" in json.loads(content)["error"]["message"] for content in late)
    assert len(running.post("/v1/embeddings", {"input": "the cat"})["data"]) == 1
    running.kill()


def test_who_reads_a_whole_stream_has_times_of_his_own() -> None:
    # Until all tokens are made within half of a request's time; a reader may let a piece wait for 30 seconds.
    for seconds in (3, 9, 27):
        if reads_late(seconds):
            return
    pytest.fail("64 tokens take longer than 13 seconds")


def reads_late(seconds: int) -> bool:
    """Whether all was made in half the time, by a server that gives requests so many seconds; then all comes to who reads after them."""
    running = Server("--request-seconds", str(seconds), models=("texts",))
    # Lists of a prompt's tokens, as large as they may be, and a token of each choice.
    body = json.dumps({"prompt": [[5] * 150] * 4, "n": 16, "max_tokens": 1, "echo": True, "logprobs": 20, "stream": True})
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.settimeout(30)
            reader.connect(("127.0.0.1", running.port))
            began = time.monotonic()
            reader.sendall((head + body).encode())
            while running.metric("vkformer_generated_tokens_total") < 4 * 16:
                if time.monotonic() - began > seconds / 2:
                    return False
                time.sleep(0.01)
            time.sleep(max(0.0, began + seconds + 1 - time.monotonic()))
            assert not [line for line in running.lines if line["event"] == "request" and line["route"] == "/v1/completions"]
            assert read_all(reader).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
            return True
    finally:
        running.kill()


def test_the_key_is_asked_for(locked: Server) -> None:
    for path in ("/v1/models", "/metrics", "/v1/models/vectors"):
        assert locked.request("GET", path)[0] == 401
        assert locked.request("GET", path, headers={"authorization": f"Bearer {KEY}"})[0] == 200
        assert locked.request("GET", path, headers={"x-api-key": KEY})[0] == 200
        for wrong in (KEY[:-1], KEY + "0", KEY.upper() + " ", "", "0"):
            assert locked.request("GET", path, headers={"authorization": f"Bearer {wrong}"})[0] == 401
        assert locked.request("GET", path, headers={"authorization": f"Basic {KEY}"})[0] == 401
    assert locked.request("GET", "/health")[0] == 200
    assert locked.request("GET", "/")[0] == 200
