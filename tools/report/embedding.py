# SPDX-License-Identifier: MIT
"""Texts to vectors beside sentence-transformers: the same folder, the same texts, in turns on the same machine; ours through the server."""
import contextlib
import http.client
import json
import math
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import time

from journal import Journal
from machine import Place, Quiet
from measure import card, head, rounded
from serving import free_port, running

TEXTS = (1, 8, 32, 128)  # of a call
TOKENS = (16, 128)  # of a text, its two marks included
SECONDS = 1.5  # for one turn, at least
PEER = r"""
import json, sys, time
import sentence_transformers, torch
torch.set_num_threads(int(sys.argv[2]))
model = sentence_transformers.SentenceTransformer(sys.argv[1], device="cpu")
print(json.dumps({"version": sentence_transformers.__version__, "torch": torch.__version__}), flush=True)
for line in sys.stdin:
    texts = json.loads(line)
    begin = time.monotonic()
    vectors = model.encode(texts, batch_size=32, show_progress_bar=False)
    print(json.dumps({"seconds": time.monotonic() - begin, "first": vectors[0].tolist()}), flush=True)
"""


def texts_of(seed, count, tokens):
    """Words of random_encoder.py's vocabulary, each of which is a token."""
    drawn = random.Random(seed)
    return [" ".join(f"t{drawn.randrange(5, 30_000)}" for _ in range(tokens - 2)) for _ in range(count)]


class Peer:
    """Another program, which is asked through its pipes."""

    def __init__(self, python, folder):
        self._process = subprocess.Popen([*shlex.split(python), "-c", PEER, str(folder), str(os.cpu_count())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True)
        self.pid = self._process.pid
        self.version = self._line()

    def _line(self):
        while line := self._process.stdout.readline():
            if line.startswith("{"):  # libraries may say something, too
                return json.loads(line)
        raise SystemExit("sentence-transformers ended")

    def embed(self, texts):
        """Seconds, and the first vector."""
        self._process.stdin.write(json.dumps(texts) + "\n")
        self._process.stdin.flush()
        answer = self._line()
        return answer["seconds"], answer["first"]

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)


def embed(port, texts):
    """Of a server: seconds, and the first vector."""
    body = json.dumps({"model": "m", "input": texts})
    begin = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/embeddings", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    said = json.loads(answer.read())
    seconds = time.monotonic() - begin
    if answer.status != 200:
        sys.exit(f"the server answered {said}")
    return seconds, said["data"][0]["embedding"]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def turn(ask, process, seed, count, tokens):
    """Texts per second of as many calls as take SECONDS, and what others took of the machine."""
    with Quiet(process) as quiet:
        seconds, calls = 0.0, 0
        while seconds < SECONDS:
            seconds += ask(texts_of(1000 * seed + calls, count, tokens))[0]
            calls += 1
    return calls * count / seconds, quiet.others


def compared(turns, ours, theirs, count, tokens):
    """Medians over the turns; `ours` and `theirs`: what asks, and whose process that is."""
    first, second = (ask(texts_of(0, count, tokens))[1] for ask, _ in (ours, theirs))
    if not cosine(first, second) >= 0.9999:
        sys.exit(f"the two find other vectors: their cosine is {cosine(first, second)}")
    found = [(turn(*ours, seed, count, tokens), turn(*theirs, seed, count, tokens)) for seed in range(1, turns + 1)]
    mine, others = ([pair[side][0] for pair in found] for side in (0, 1))
    return {"texts_per_second": rounded(statistics.median(mine)), "peer_texts_per_second": rounded(statistics.median(others)),
            "ratio": rounded(statistics.median(a / b for a, b in zip(mine, others))),
            "others": statistics.median(max(pair[0][1], pair[1][1]) for pair in found)}


def embedding(options):
    place = Place(options.folder)
    commands = [f"vkformer serve --model m=FOLDER --device {options.device}; POST /v1/embeddings, one client",
                f'SentenceTransformer(FOLDER, device="cpu").encode(texts, batch_size=32), {os.cpu_count()} threads']
    port = free_port()
    server = place.command(options.vkformer, "serve", "-q", "--model", f"m={options.model.resolve()}", "--device", options.device, "--port", port)
    with (contextlib.closing(Peer(options.peer_python, options.peer_model or options.model.resolve())) as peer,
          running(server, place.environment(cache=options.cache, **place.threads(options.device)), None, port) as process):
        version = f"sentence-transformers {peer.version['version']} (PyPI) with PyTorch {peer.version['torch']}"
        journal = Journal(options.out, head("embedding", options, card(place, options), commands, peer=version, turns=options.turns), options.stop_after)
        for tokens in TOKENS:
            for count in TEXTS:
                if journal.has(texts=count, tokens=tokens):
                    continue
                journal.check_time()
                journal.add({"texts": count, "tokens": tokens,
                             **compared(options.turns, (lambda texts: embed(port, texts), process), (peer.embed, peer.pid), count, tokens)})


def add_options(command):
    command.add_argument("--model", type=pathlib.Path, required=True, help="the folder of random_encoder.py")
    command.add_argument("--peer-python", default=sys.executable, help="a Python that has sentence-transformers; this one if absent")
    command.add_argument("--peer-model", help="where that finds the folder, if elsewhere")
    command.add_argument("--turns", type=int, default=3, help="of each, of which the medians count; 3 if absent")
