# SPDX-License-Identifier: MIT
"""A server that translates, under many clients, beside LibreTranslate: the same weights, the same requests, in turns on the same machine."""
import itertools
import os
import pathlib
import random
import shlex
import statistics
import subprocess

import load
from journal import Journal
from machine import Place
from measure import card, head, rounded
from serving import free_port, quietest, running

WRITTEN = 256  # tokens of a translation: CTranslate2's default, which LibreTranslate does not change
DIGITS = 15  # of a text: 30 tokens and the end of random_translation.py's tokenizer
# Its models for the ends of sentences are downloads: a text is one sentence.
PEER = r"""
from argostranslate import sbd
for name, one in list(vars(sbd).items()):
    if isinstance(one, type) and hasattr(one, "split_sentences"):
        one.__init__ = lambda self, package: None
        one.split_sentences = lambda self, text: [text]
from libretranslate.main import main
main()
"""


def texts(seed):
    drawn = random.Random(seed)
    return " ".join(str(drawn.randrange(10)) for _ in range(DIGITS))


def asked(options, server, clients, requests, seeds):
    process, port = server

    def body(_):
        return {"q": texts(next(seeds)), "source": "en", "target": "de"}

    row, others = quietest(options.attempts, process, lambda: load.measure_answers(port, "/translate", clients, requests, body))
    return {**row, "others": others}


def in_turns(options, servers, clients):
    """What each server's clients see: medians over the turns, and the median of the ratio within one."""
    seeds = [itertools.count(1_000_000 * clients) for _ in servers]  # the same texts for both, and none twice
    for server, own in zip(servers, seeds):
        asked(options, server, clients, 1, own)
    turns = [[asked(options, server, clients, options.requests, own) for server, own in zip(servers, seeds)] for _ in range(options.turns)]
    rows = [{key: statistics.median(turn[i][key] for turn in turns) for key in turns[0][i]} for i in range(len(servers))]
    return rows, statistics.median(ours["requests_per_second"] / theirs["requests_per_second"] for ours, theirs in turns)


def translating(options):
    place = Place(options.folder)
    threads = os.cpu_count()
    version = subprocess.run([*shlex.split(options.peer_python), "-c", "from importlib.metadata import version as v; "
                              "print(f'LibreTranslate {v(\"libretranslate\")} with CTranslate2 {v(\"ctranslate2\")} (PyPI)')"],
                             capture_output=True, text=True, check=True).stdout.strip()
    settings = {"ARGOS_DEVICE_TYPE": "cpu", "ARGOS_INTER_THREADS": "1", "ARGOS_INTRA_THREADS": str(threads), "ARGOS_COMPUTE_TYPE": "float32",
                "ARGOS_BEAM_SIZE": "4"}
    commands = [f"vkformer serve --model m=FOLDER --device {options.device}",
                f"export {' '.join(f'{name}={value}' for name, value in settings.items())}",
                "ARGOS_PACKAGES_DIR=FOLDER libretranslate --disable-web-ui, whose texts are one sentence",
                f"clients of POST /translate: {options.requests} requests each; {options.turns} turns"]
    journal = Journal(options.out, head("translating", options, card(place, options), commands, peer=version, turns=options.turns), options.stop_after)
    ports = free_port(), free_port()
    ours = place.command(options.vkformer, "serve", "-q", "--model", f"m={options.model.resolve()}", "--device", options.device, "--port", ports[0])
    theirs = [*shlex.split(options.peer_python), "-c", PEER, "--host", "127.0.0.1", "--port", str(ports[1]), "--disable-web-ui"]
    environment = {**os.environ, **settings, "ARGOS_PACKAGES_DIR": str(options.argos.resolve())}
    with (running(ours, place.environment(cache=options.cache, **place.threads(options.device)), None, ports[0]) as mine,
          running(theirs, environment, None, ports[1]) as others):
        for clients in options.clients:
            if journal.has(clients=clients):
                continue
            journal.check_time()
            (row, other), ratio = in_turns(options, ((mine, ports[0]), (others, ports[1])), clients)
            journal.add({"clients": clients, **{key: rounded(value) for key, value in row.items()},
                         **{f"peer_{key}": rounded(value) for key, value in other.items()}, "ratio": rounded(ratio),
                         "others": max(row["others"], other["others"])})


def add_options(command):
    command.add_argument("--model", type=pathlib.Path, required=True, help="the folder of random_translation.py")
    command.add_argument("--argos", type=pathlib.Path, required=True, help="its packages for LibreTranslate")
    command.add_argument("--peer-python", required=True, help="a Python that has LibreTranslate")
    command.add_argument("--clients", nargs="+", type=int, default=[1, 4, 16], help="how many at a time; 1, 4, 16 if absent")
    command.add_argument("--requests", type=int, default=2, help="of each client in a turn, one after the other; 2 if absent")
    command.add_argument("--turns", type=int, default=3, help="of each server, of which the medians count; 3 if absent")
