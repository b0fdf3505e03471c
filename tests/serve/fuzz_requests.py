#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Requests that are nearly right, to a server that a sanitizer watches: it answers each of them, and never says that the fault is its own.

    cmake --preset asan && cmake --build --preset asan
    VKFORMER_PROGRAM=build/asan/vkformer tests/serve/fuzz_requests.py --minutes 30

Seeds are requests of every route. Of JSON, values are replaced, members left out, moved and doubled; of any body and of heads, bytes are
changed, left out and doubled. Ends with 1 and says what was wrong, and the number that draws such a request again.
"""

import argparse
import collections
import copy
import json
import random
import socket
import sys
import threading
import time
from typing import Any

from conftest import MODELS, Server
from test_speech import clip, form

SECONDS = 120  # within which an answer has to be there; the server gives each up after half of that
TALK = [{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "the cat"}]}]
CHAT = {"model": "texts", "messages": TALK, "max_tokens": 4}
TEXT = {"model": "texts", "prompt": "a", "max_tokens": 4}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[a-c]{1,3}$"}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"n": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 2}]}},
}
TOOLS = [{"type": "function", "function": {"name": "a", "description": "b", "parameters": SCHEMA, "strict": True}}]
DRAWN = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 1, "presence_penalty": 1, "frequency_penalty": 0.5}
SEEDS: list[tuple[str, Any]] = [
    ("/v1/chat/completions", {**CHAT, **DRAWN, "stop": ["x", "yy"], "n": 2, "logprobs": True, "top_logprobs": 2}),
    ("/v1/chat/completions", {**CHAT, "stream": True, "stream_options": {"include_usage": True}, "logit_bias": {"5": -100}}),
    ("/v1/chat/completions", {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA, "strict": True}}}),
    ("/v1/chat/completions", {**CHAT, "tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": False}),
    ("/v1/chat/completions", {**CHAT, "guided_json": SCHEMA}),
    ("/v1/chat/completions", {**CHAT, "guided_choice": ["yes", "no"], "chat_template_kwargs": {"enable_thinking": False}}),
    ("/v1/completions", {**TEXT, "prompt": ["the cat", "a"], "echo": True, "logprobs": 2, "n": 2}),
    ("/v1/completions", {**TEXT, "prompt": [5, 6, 7], "guided_regex": "(ab|c){1,3}[^x]\\d+", "ignore_eos": False}),
    ("/v1/completions", {**TEXT, "structured_outputs": {"choice": ["a", "b"]}, "stream": True}),
    ("/v1/messages", {**CHAT, "system": "a", "messages": TALK[1:], "stop_sequences": ["x"], "stream": True}),
    ("/v1/messages/count_tokens", {"model": "texts", "messages": TALK[1:]}),
    (
        "/v1/responses",
        {
            "model": "texts",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}],
            "instructions": "b",
            "max_output_tokens": 4,
            "text": {"format": {"type": "json_object"}},
        },
    ),
    ("/v1/responses", {"model": "texts", "input": "a", "max_output_tokens": 4, "store": True, "previous_response_id": "resp_0"}),
    ("/v1/embeddings", {"model": "vectors", "input": ["the cat", "a"], "encoding_format": "base64"}),
    ("/v1/rerank", {"model": "scores", "query": "a", "documents": ["the cat", {"text": "b"}], "top_n": 1, "return_documents": True}),
    ("/translate", {"q": ["4. März 2021", ""], "source": "dates", "target": "iso8601", "alternatives": 2, "format": "text"}),
    ("/translate", {"q": "eine Katze", "source": "auto", "target": "fra_Latn", "attention": True}),
    ("/translate", b"q=4.+M%C3%A4rz&q=a&source=dates&target=iso8601&alternatives=1"),
    ("/detect", {"q": ["Guten Morgen", "good morning"]}),
    ("/tokenize", {"model": "texts", "content": "the cat", "add_special": True}),
    ("/detokenize", {"model": "texts", "tokens": [5, 6, 7]}),
]
NASTY: list[Any] = [
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e-320, 1e308, -1e308, 2**31 - 1, 2**31, 2**32, 2**53 + 1, -(2**63), 2**63, 2**64, 10**30,
    float("nan"), float("inf"), "", " ", "a", "\0", "\ud800", "\uffff", "é" * 300, "a" * 5000, "(" * 200, "[a-z]{0,4000}", "\\", "^$", "auto", "none",
    [], [[]], {}, {"": None}, [1] * 300, ["a"] * 300, [[[[[[]]]]]], {"type": "object"}, {"$ref": "#"}, "<tool_call>", "{{", "resp_", "data:,",
]  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with a key of it."""
    found = []
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            found += places(value[key])
    return found


def mutate_value(body: Any, draw: random.Random) -> Any:
    body = copy.deepcopy(body)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        all_places = places(body)
        if not all_places:
            return draw.choice(NASTY)
        container, key = draw.choice(all_places)
        _, other = draw.choice(all_places), draw.choice(all_places)
        action = draw.randrange(6)
        if action <= 2:
            container[key] = copy.deepcopy(draw.choice(NASTY))
        elif action == 3:
            container[key] = copy.deepcopy(other[0][other[1]])
        elif action == 4:
            del container[key]
        elif isinstance(container, dict):
            container[draw.choice([str(key) + "s", str(other[1]), str(draw.choice(NASTY))[:50]])] = container[key]
        else:
            container.extend(copy.deepcopy(container[:40]))
    return body


def mutate_bytes(data: bytes, draw: random.Random) -> bytes:
    for _ in range(draw.choice([1, 1, 2, 8])):
        at, length = draw.randrange(len(data) + 1), draw.choice([1, 1, 2, 4, 16, 64])
        action = draw.randrange(5)
        if action == 0:
            data = data[:at] + bytes(draw.randrange(256) for _ in range(length)) + data[at + length :]
        elif action == 1:
            data = data[:at] + data[at + length :]
        elif action == 2:
            data = data[:at] + data[at : at + length] * draw.choice([2, 3, 50]) + data[at + length :]
        elif action == 3:
            data = data[:at] + draw.choice([b"\r\n", b"\n", b'"', b"{", b"]", b"%", b"\xff", b"\0", b"--", b": ", b"1e9"]) + data[at:]
        else:
            data = data[:at]
    return data


class Draw:
    """One request, as its bytes, by a number."""

    def __init__(self, seed: int, sound: bytes) -> None:
        draw = random.Random(seed)
        path, body = draw.choice([*SEEDS, ("/v1/audio/transcriptions", None), ("/v1/audio/translations", None)])
        kind = "application/json"
        if body is None:
            kind = "multipart/form-data; boundary=edge"
            formats = [b"json", b"text", b"srt", b"vtt", b"verbose_json"]
            fields = {"file": mutate_bytes(sound, draw), "model": b"ears", "response_format": draw.choice(formats), "temperature": b"0"}
            data = form(fields)
            if draw.random() < 0.5:
                data = mutate_bytes(data[-300:] if draw.random() < 0.5 else data, draw)
        elif isinstance(body, bytes):
            kind = "application/x-www-form-urlencoded"
            data = mutate_bytes(body, draw)
        else:
            data = json.dumps(mutate_value(body, draw)).encode()
            if draw.random() < 0.2:
                data = mutate_bytes(data, draw)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
        self.is_whole = draw.random() > 0.1
        self.bytes = (head if self.is_whole else mutate_bytes(head, draw)) + data
        self.path = path


def exchange(port: int, request: Draw) -> bytes:
    """What comes back until the server closes the connection. A client that has nothing more to send says so only where the request may lack
    its end: who closes its side has gone away, and is not answered."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        try:
            connection.sendall(request.bytes)
            if not request.is_whole:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except (BrokenPipeError, ConnectionResetError):  # it need not read what it has refused
            pass
    return answer


class Fuzzer:
    def __init__(self, server: Server, first: int, step: int, sound: bytes) -> None:
        self.server, self.sound, self.number, self.step = server, sound, first, step
        self.statuses: collections.Counter[str] = collections.Counter()
        self.slowest = (0.0, 0, "")
        self.wrong: list[str] = []

    def run(self, end: float) -> None:
        while time.monotonic() < end and not self.wrong and self.server.process.poll() is None:
            try:
                self.send(Draw(self.number, self.sound))
            except Exception as error:
                self.wrong.append(f"{type(error).__name__}: {error}, drawn by {self.number}")
            self.number += self.step

    def send(self, request: Draw) -> None:
        start = time.monotonic()
        try:
            answer = exchange(self.server.port, request)
        except (TimeoutError, socket.timeout):
            self.wrong.append(f"no answer within {SECONDS} s: {request.path}, drawn by {self.number}")
            return
        seconds = time.monotonic() - start
        self.slowest = max(self.slowest, (seconds, self.number, request.path))
        status = answer[9:12].decode("latin-1")
        self.statuses[status or "none"] += 1
        is_answered = status == "200" or status.startswith("4") or status in ("501", "503", "504", "505")
        if not is_answered and (request.is_whole or status):
            self.wrong.append(f"{status or 'no answer'}: {request.path}, drawn by {self.number}: {answer[:300]!r}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1, help="the number that draws the first request")
    parser.add_argument("--once", action="store_true", help="that request alone, with its answer")
    options = parser.parse_args()
    server = Server("--request-seconds", str(SECONDS // 2), models=tuple(MODELS))
    sound = clip()
    if options.once:
        request = Draw(options.seed, sound)
        print(request.bytes[:3000], exchange(server.port, request), sep="\n")
    fuzzers = [Fuzzer(server, options.seed + i, options.clients, sound) for i in range(0 if options.once else options.clients)]
    end = time.monotonic() + 60 * options.minutes
    threads = [threading.Thread(target=fuzzer.run, args=(end,)) for fuzzer in fuzzers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = [what for fuzzer in fuzzers for what in fuzzer.wrong]
    if not options.once and not all(fuzzer.statuses for fuzzer in fuzzers):
        wrong.append("a client has asked nothing")
    if server.process.poll() is None:
        code = server.stop()
        if code:
            wrong.append(f"the server ended with {code}")
    else:
        wrong.append(f"the server is gone: {server.process.returncode}; last drawn: {[fuzzer.number for fuzzer in fuzzers]}")
    said = [line for line in server.errors if "Sanitizer" in line or "runtime error" in line]
    wrong += said[:10]
    statuses = sum((fuzzer.statuses for fuzzer in fuzzers), collections.Counter())
    seconds, number, path = max((fuzzer.slowest for fuzzer in fuzzers), default=(0.0, 0, ""))
    told = {"requests": sum(statuses.values()), "statuses": dict(sorted(statuses.items())), "slowest": [round(seconds, 2), number, path], "wrong": wrong}
    print(json.dumps(told, indent=1))
    if wrong:
        print("".join(server.errors[-200:]), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
