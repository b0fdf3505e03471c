#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many clients of one server for some minutes, and whether it stays as it was: every answer right, and no memory, thread or file kept.

    tests/serve/soak.py --minutes 5                  the CPU backend
    tests/serve/soak.py --minutes 5 --device 0       the first Vulkan device

The small models of the repository, as in the tests. VKFORMER_PROGRAM is the program, build/ci/vkformer unless it is set. Ends with 1 and says
what was wrong.
"""

import argparse
import collections
import contextlib
import http.client
import json
import random
import re
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from conftest import MODELS, Server
from test_speech import clip, form

MIB = 1 << 20
WORDS = ["the", "cat", "a", "small", "frog", "sat", "and", "was", "under", "coat"]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
SECONDS = 300  # for one answer: on a slow device the first of its kind has to wait for pipelines
SOAKED = ("texts", "vectors", "scores", "dates", "ears")


class Wrong(Exception):
    """What a client should not have seen."""


def check(holds: bool, what: object) -> None:
    if not holds:
        raise Wrong(str(what)[:600])


class Process:
    """What Linux says of the server."""

    def __init__(self, number: int) -> None:
        self.folder = Path("/proc") / str(number)

    def threads(self) -> int:
        return len(list((self.folder / "task").iterdir()))

    def files(self) -> int:
        return len(list((self.folder / "fd").iterdir()))

    def memory(self) -> int:
        """Bytes of its own that are resident: not those of files, as weights are."""
        found = re.search(r"^RssAnon:\s+(\d+) kB$", (self.folder / "status").read_text(), re.MULTILINE)
        assert found
        return int(found[1]) * 1024


class Client:
    """Asks one thing after the other, each drawn from all that clients ask."""

    def __init__(self, server: Server, seed: int, expected: dict[str, Any], sound: bytes, only: Sequence[str] = ()) -> None:
        self.server, self.expected, self.sound = server, expected, sound
        self.random = random.Random(seed)
        self.counts: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.asks: dict[Callable[[], None], int] = {
            self.chat: 6,
            self.chat_streamed: 10,
            self.messages_streamed: 3,
            self.responses: 2,
            self.completions: 4,
            self.echoed: 2,
            self.constrained: 6,
            self.gone_while_streaming: 6,
            self.gone_before_an_answer: 4,
            self.embeddings: 8,
            self.rerank: 3,
            self.translate: 2,
            self.transcribe: 1,
            self.tokens: 2,
            self.bad_requests: 8,
            self.half_a_request: 3,
            self.service: 2,
        }
        if only:
            self.asks = {ask: weight for ask, weight in self.asks.items() if ask.__name__ in only}

    def run(self, end: float) -> None:
        asks, weights = list(self.asks), list(self.asks.values())
        while time.monotonic() < end:
            ask = self.random.choices(asks, weights)[0]
            self.counts[ask.__name__] += 1
            try:
                ask()
            except (Wrong, OSError, http.client.HTTPException, ValueError, KeyError, IndexError) as error:
                self.wrong.append(f"{ask.__name__}: {type(error).__name__}: {error}")

    # ---- how they ask ----

    def text(self, most: int = 12) -> str:
        return " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(1, most)))

    def post(self, path: str, body: Any, expect: int = 200) -> Any:
        status, _, content = self.server.request("POST", path, body, seconds=SECONDS)
        check(status == expect, (path, status, content))
        return json.loads(content)

    @contextlib.contextmanager
    def streaming(self, path: str, body: dict[str, Any]) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SECONDS)
        try:
            connection.request("POST", path, json.dumps({**body, "stream": True}), {"content-type": "application/json"})
            answer = connection.getresponse()
            check(answer.status == 200, (path, answer.status))
            yield answer
        finally:
            connection.close()

    def events(self, path: str, body: dict[str, Any]) -> list[Any]:
        with self.streaming(path, body) as answer:
            lines = [line[6:].strip() for line in answer.read().splitlines() if line.startswith(b"data: ")]
        return [line if line == b"[DONE]" else json.loads(line) for line in lines]

    def talk(self) -> dict[str, Any]:
        return {"model": "texts", "messages": [{"role": "user", "content": self.text()}], "max_tokens": self.random.randint(1, 40)}

    # ---- what they ask ----

    def chat(self) -> None:
        made = self.post("/v1/chat/completions", {**self.talk(), "temperature": self.random.choice([0, 0.8])})
        check(made["choices"][0]["finish_reason"] in ("stop", "length") and made["usage"]["completion_tokens"] > 0, made)

    def chat_streamed(self) -> None:
        *chunks, done = self.events("/v1/chat/completions", {**self.talk(), "n": self.random.choice([1, 1, 3])})
        reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"] if choice["finish_reason"]]
        check(done == b"[DONE]" and reasons and set(reasons) <= {"stop", "length"}, (reasons, done))

    def messages_streamed(self) -> None:
        kinds = [event["type"] for event in self.events("/v1/messages", self.talk())]
        check(kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds)

    def responses(self) -> None:
        made = self.post("/v1/responses", {"model": "texts", "input": self.text(), "max_output_tokens": 16, "store": False})
        check(made["status"] in ("completed", "incomplete"), made)

    def completions(self) -> None:
        asked = self.random.choice(list(self.expected["completions"]))
        made = self.post("/v1/completions", {"model": "texts", "prompt": asked, "max_tokens": 24, "temperature": 0})
        check(made["choices"][0]["text"] == self.expected["completions"][asked], (asked, made))

    def echoed(self) -> None:
        body = {"model": "texts", "prompt": self.text(), "max_tokens": 4, "echo": True, "logprobs": 3, "n": 2}
        made = self.post("/v1/completions", body)
        check(all(choice["text"].startswith(body["prompt"]) and choice["logprobs"]["tokens"] for choice in made["choices"]), made)

    def constrained(self) -> None:
        form, fits = self.random.choice(
            [
                ({"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}}}, is_person),
                ({"guided_regex": "[a-c]{3}-\\d+ (x|y)"}, lambda text: bool(re.fullmatch("[a-c]{3}-\\d+ (x|y)", text))),
                ({"guided_choice": ["yes", "no", "it depends"]}, lambda text: text in ("yes", "no", "it depends")),
            ]
        )
        body = {**self.talk(), **form, "max_tokens": 100, "temperature": self.random.choice([0, 1])}
        if self.random.random() < 0.5:
            choice = self.post("/v1/chat/completions", body)["choices"][0]
            text, reason = choice["message"]["content"], choice["finish_reason"]
        else:
            *chunks, _ = self.events("/v1/chat/completions", body)
            text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
            reason = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]][-1]
        check(reason == "length" or (reason == "stop" and fits(text)), (form, text, reason))

    def gone_while_streaming(self) -> None:
        with self.streaming("/v1/chat/completions", {**self.talk(), "max_tokens": 120}) as answer:
            for _ in range(self.random.randint(0, 6)):
                answer.readline()

    def gone_before_an_answer(self) -> None:
        path, body = self.random.choice(
            [
                ("/v1/chat/completions", {**self.talk(), "max_tokens": 120}),
                ("/v1/completions", {"model": "texts", "prompt": [self.text() for _ in range(6)], "max_tokens": 100}),
                ("/v1/embeddings", {"model": "vectors", "input": [self.text() for _ in range(60)]}),
            ]
        )
        self.send_and_go(path, json.dumps(body).encode(), self.random.random() * 0.03)

    def send_and_go(self, path: str, body: bytes, seconds: float, length: int | None = None) -> None:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length or len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=SECONDS) as connection:
            connection.sendall(head.encode() + body)
            time.sleep(seconds)

    def embeddings(self) -> None:
        texts = [self.text() for _ in range(self.random.choice([1, 1, 2, 40]))]
        at = self.random.randrange(len(texts) + 1)
        texts.insert(at, "the cat")
        made = self.post("/v1/embeddings", {"model": "vectors", "input": texts})["data"]
        found, known = made[at]["embedding"], self.expected["embedding"]
        check(len(made) == len(texts) and max(abs(a - b) for a, b in zip(found, known, strict=True)) < 1e-4, (len(made), found))

    def rerank(self) -> None:
        documents = [self.text() for _ in range(self.random.randint(1, 9))]
        results = self.post("/v1/rerank", {"model": "scores", "query": self.text(), "documents": documents})["results"]
        check(sorted(result["index"] for result in results) == list(range(len(documents))), results)

    def translate(self) -> None:
        languages = self.expected["languages"]
        attention = self.random.random() < 0.5
        made = self.post("/translate", {"q": "12 May 2020", "source": languages[0], "target": languages[1], "attention": attention})
        check(made["translatedText"] == "2020-05-12" and ("attention" in made) == attention, made)

    def transcribe(self) -> None:
        kind = {"content-type": "multipart/form-data; boundary=edge"}
        status, _, content = self.server.request("POST", "/v1/audio/transcriptions", form({"file": self.sound, "model": b"ears"}), kind, SECONDS)
        check(status == 200 and json.loads(content)["text"] == self.expected["heard"], (status, content))

    def tokens(self) -> None:
        text = self.text()
        ids = self.post("/tokenize", {"model": "texts", "content": text})["tokens"]
        check(self.post("/detokenize", {"model": "texts", "tokens": ids})["content"].strip() == text, (text, ids))

    def bad_requests(self) -> None:
        path, body, status = self.random.choice(
            [
                ("/v1/chat/completions", b"{", 400),
                ("/v1/chat/completions", {"model": "nobody", "messages": []}, 404),
                ("/v1/chat/completions", {**self.talk(), "nonsense": 1}, 400),
                ("/v1/chat/completions", {**self.talk(), "temperature": -1}, 400),
                ("/v1/chat/completions", {"model": "vectors", "messages": [{"role": "user", "content": "a"}]}, 400),
                ("/v1/completions", {"model": "texts", "prompt": "the cat " * 400}, 400),
                ("/v1/completions", {"model": "texts", "prompt": "a", "guided_regex": "(a{0,3000}){0,3000}b"}, 400),
                ("/v1/embeddings", {"model": "vectors", "input": -1}, 400),
                ("/v1/embeddings", b'{"input": "\xff"}', 400),
                ("/v1/embeddings", b'{"input": ' + b"[" * 1000 + b"]" * 1000 + b"}", 400),
                ("/v1/models", {}, 405),
                ("/v1/nothing", {}, 404),
                ("/v1/audio/transcriptions", {"model": "ears"}, 415),
            ]
        )
        self.post(path, body, expect=status)

    def half_a_request(self) -> None:
        whole = json.dumps(self.talk()).encode()
        self.send_and_go("/v1/chat/completions", whole[: self.random.randrange(len(whole))], 0, length=len(whole))

    def service(self) -> None:
        path = self.random.choice(["/health", "/v1/models", "/metrics", "/openapi.json", "/"])
        status, _, _ = self.server.request("GET", path)
        check(status == 200, (path, status))


def is_person(text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return set(value) == {"name", "age"} and len(value["name"]) <= 6 and 0 <= value["age"] <= 130


def expectations(server: Server, sound: bytes) -> dict[str, Any]:
    """What single requests are answered, by which those among many are judged."""
    prompts = json.loads((MODELS["texts"] / "expected.json").read_text())["prompts"]
    complete = {"model": "texts", "max_tokens": 24, "temperature": 0}
    post = Client(server, 0, {}, sound).post
    kind = {"content-type": "multipart/form-data; boundary=edge"}
    status, _, heard = server.request("POST", "/v1/audio/transcriptions", form({"file": sound, "model": b"ears"}), kind, SECONDS)
    assert status == 200, heard
    languages = server.get("/languages")
    return {
        "completions": {
            case["prompt"]: post("/v1/completions", {**complete, "prompt": case["prompt"]})["choices"][0]["text"] for case in prompts
        },
        "embedding": post("/v1/embeddings", {"model": "vectors", "input": "the cat"})["data"][0]["embedding"],
        "heard": json.loads(heard)["text"],
        "languages": (languages[0]["code"], languages[0]["targets"][0]),
    }


def wait_until_idle(server: Server) -> None:
    end = time.monotonic() + 60
    names = ("vkformer_queue_requests", "vkformer_running_sequences", r'vkformer_cache_pages{[^}]*state="used"}')
    while sum(sum(float(one) for one in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", server.request("GET", "/metrics")[2].decode(), re.M)) for name in names):
        if time.monotonic() > end:
            raise SystemExit("nobody asks, and after a minute the server still has requests at work")
        time.sleep(0.1)


def run_clients(server: Server, options: argparse.Namespace, minutes: float, seed: int, known: Any, sound: bytes, seen: Callable[[], None]) -> list[Client]:
    end = time.monotonic() + 60 * minutes
    clients = [Client(server, seed + number, known, sound, options.only) for number in range(options.clients)]
    threads = [threading.Thread(target=client.run, args=(end,)) for client in clients]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(min(2, max(0.1, 6 * minutes)))
        seen()
    return clients


def soak(server: Server, options: argparse.Namespace) -> list[str]:
    """What was wrong."""
    process = Process(server.process.pid)
    sound = clip()
    known = expectations(server, sound)
    memory: list[int] = []
    files: list[int] = []

    def seen() -> None:
        memory.append(process.memory())
        files.append(process.files())

    # What the first requests of each kind bring (pipelines, buffers, threads, arenas of malloc) is there before it counts.
    warm = run_clients(server, options, options.warm_up, options.seed + 1000, known, sound, lambda: None)
    wait_until_idle(server)
    time.sleep(1)
    threads, open_files = process.threads(), process.files()
    clients = run_clients(server, options, options.minutes, options.seed, known, sound, seen)
    wait_until_idle(server)
    time.sleep(1)

    wrong = [one for client in [*warm, *clients] for one in client.wrong]
    counts = sum((client.counts for client in clients), collections.Counter[str]())
    third = len(memory) // 3
    middle, last = statistics.median(memory[third : 2 * third]), statistics.median(memory[2 * third :])
    print(f"{counts.total()} requests of {options.clients} clients in {options.minutes:g} minutes on {options.device}: "
          + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    print(f"memory of its own, MiB, in ten parts: {' '.join(f'{one / MIB:.1f}' for one in memory[:: max(1, len(memory) // 10)])}; "
          f"from the middle third's median to the last one's {(last - middle) / MIB:+.2f}, "
          f"{3 * (last - middle) / max(1, counts.total()):+.0f} bytes a request")
    print(f"threads {threads} before, {process.threads()} after; files {open_files} before, at most {max(files)}, {process.files()} after")
    if last - middle > options.growth * MIB:
        wrong.append(f"its memory goes on growing: {(last - middle) / MIB:.1f} MiB from the middle third to the last one")
    if process.threads() > threads:
        wrong.append(f"it had {threads} threads, and has {process.threads()} when nobody asks")
    if process.files() > open_files:
        wrong.append(f"it had {open_files} open files, and has {process.files()} when nobody asks")
    for line in server.lines:
        if line["event"] in ("failed", "lost") or (line["event"] == "request" and line["status"] >= 500):
            wrong.append(f"its log has {line}")
    return [*wrong, *(f"it says {line.strip()}" for line in server.errors)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--warm-up", type=float, default=0.5, metavar="MINUTES", help="of the same requests, before anything counts")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--growth", type=float, default=3, metavar="MIB", help="that memory may grow by from the middle third to the last one")
    parser.add_argument("--only", nargs="+", default=[], metavar="WHAT", help="of what clients ask, by the names that a run prints")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("arguments", nargs="*", help="more for vkformer serve, behind --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        server = Server(*options.arguments, models=SOAKED, device=options.device, environment={"XDG_CACHE_HOME": cache})
        try:
            wrong = soak(server, options)
            if (code := server.stop()) != 0:
                wrong.append(f"it ended with {code}")
        finally:
            if server.process.poll() is None:
                server.kill()
    for what, count in collections.Counter(wrong).most_common(20):
        print(f"{count} times: {what}")
    print(f"{len(wrong)} things were wrong" if wrong else "all was right")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
