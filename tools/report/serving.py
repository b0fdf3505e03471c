# SPDX-License-Identifier: MIT
"""A server under many clients, beside llama.cpp's: the same file, the same requests, in turns on the same machine."""
import contextlib
import http.client
import itertools
import json
import random
import socket
import statistics
import subprocess
import time

import load
from journal import Journal
from machine import NOISY, Place, Quiet
from measure import Peer, card, head, rounded

WORDS = (16, 128)  # of a prompt, at least and at most: some 64 to 512 tokens
TOKENS = 64  # generated
ALONE = 64, 128  # tokens of a prompt, and steps, of a batch without a server
PAIRS = 3  # of runs in which all write, a turn: each takes a few seconds, and the clock of a shared machine changes between them
CONTEXT = 1024
STARTS = 120  # seconds that a server may take


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def is_ready(port):
    try:
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        asked.request("GET", "/health")
        return asked.getresponse().status == 200
    except OSError:
        return False


@contextlib.contextmanager
def running(command, environment, folder, port):
    """The server, until the block is left."""
    server = subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + STARTS
        while not is_ready(port):
            if server.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{' '.join(command)}: ended with {server.poll()} before it was ready")
            time.sleep(0.2)
        yield server.pid
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()


def requests(options, seed, port, clients):
    """What clients see whose prompts no others have, for another seed or number of them."""
    def body(number):
        one = 1000 * (10_000 * clients + seed) + number
        return {"model": "m", "prompt": load.prompt(one, random.Random(one).randint(*options.words)), "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}

    return load.measure(port, clients, options.requests, body)


def measured(options, server, clients, turn):
    """A turn of one server: of several, as long as others disturb them, the quietest."""
    port, process = server
    seeds = itertools.count(100 * turn + 1)
    row, others = quietest(options.attempts, process, lambda: requests(options, next(seeds), port, clients))
    return {**row, "others": others}


def in_turns(options, servers, clients):
    """What each server's clients see: medians over the turns."""
    for port, _ in servers:
        requests(options, 0, port, clients)  # what is made when it is first needed, is there
    turns = [[measured(options, server, clients, turn) for server in servers] for turn in range(options.turns)]
    rows = [{key: statistics.median(turn[i][key] for turn in turns) for key in turns[0][i]} for i in range(len(servers))]
    return rows, statistics.median(ours["tokens_per_second"] / theirs["tokens_per_second"] for ours, theirs in turns)


def quietest(attempts, process, measure):
    """What measure() gives and what others took meanwhile: of several, as long as others disturb them, the quietest."""
    best = None
    for _ in range(attempts):
        with Quiet(process) as quiet:
            found = measure()
        if best is None or quiet.others < best[1]:
            best = found, quiet.others
        if quiet.others <= NOISY:
            break
    return best


def while_all_write(options, server, file, place, clients):
    """Tokens per second of the server's steps when all clients write, and of a batch of as many without a server, in turns."""
    port, process = server
    length, steps = ALONE
    command = [options.vkformer, "bench", "model", "-q", "-m", file, "-d", options.device, "--batch", clients, "--length", length, "--steps", steps,
               "--runs", 1, "--json"]

    seeds = itertools.count(1_000_000_000 * clients)  # prompts that no others have

    def body(_):
        return {"model": "m", "prompt": load.prompt(next(seeds), WORDS[0]), "max_tokens": steps, "temperature": 0, "ignore_eos": True}

    pairs = []
    for _ in range(PAIRS * options.turns):
        mine, disturbed = quietest(options.attempts, process, lambda: load.together(port, clients, body))
        printed, others = place.run_quietly(*command, cache=options.cache, attempts=options.attempts, **place.threads(options.device))
        pairs.append((mine, json.loads(printed)["decode_tokens_per_second"]["median"], max(disturbed, others)))
    together, alone, others = (statistics.median(values) for values in zip(*pairs))
    return {"together_tokens_per_second": rounded(together), "alone_tokens_per_second": rounded(alone),
            "of_alone": rounded(statistics.median(mine / theirs for mine, theirs, _ in pairs)), "others": others}


def serving(options):
    place = Place(options.folder)
    peer = Peer(place)
    most = max(options.clients)
    is_cpu = options.device == "cpu"
    where = ["-dev", "none", "-ngl", "0"] if is_cpu else ["-dev", "Vulkan0", "-ngl", "99"]
    tokens = most * CONTEXT
    commands = [f"vkformer serve --model m=FILE --device {options.device} --sequences {most} --context {CONTEXT} --cache-tokens {tokens}",
                f"llama-server -m FILE -t 2 -np {most} -c {tokens} --no-webui {' '.join(where)}",
                f"clients of POST /v1/completions, streamed: {options.requests} requests each, {options.words[0]} to {options.words[1]} words to {TOKENS} tokens, "
                f"greedy; {options.turns} turns",
                f"vkformer bench model -m FILE --device {options.device} --batch CLIENTS --length {ALONE[0]} --steps {ALONE[1]} --runs 1"]
    journal = Journal(options.out, head("serving", options, card(place, options), commands, peer=peer.version, turns=options.turns), options.stop_after)
    program = place.libraries().parents[1] / "bin/llama-server"
    for weights in options.weights or ["q4_0"]:
        if all(journal.has(weights=weights, clients=clients) for clients in options.clients):
            continue
        file = (options.models / f"random-{weights}.gguf").resolve()
        ports = free_port(), free_port()
        ours = place.command(options.vkformer, "serve", "-q", "--model", f"m={file}", "--device", options.device, "--sequences", most,
                             "--context", CONTEXT, "--cache-tokens", tokens, "--port", ports[0])
        theirs = peer.place.command(program, "-m", file, "-t", "2", "-np", most, "-c", tokens, "--port", ports[1], "--host", "127.0.0.1",
                                    "--no-webui", *where)
        # Both are there all the time: the one that is not asked sleeps.
        with (running(ours, place.environment(cache=options.cache, **place.threads(options.device)), None, ports[0]) as mine,
              running(theirs, peer.place.environment(GGML_VK_VISIBLE_DEVICES="" if is_cpu else "0"), peer.backends, ports[1]) as others):
            for clients in options.clients:
                if journal.has(weights=weights, clients=clients):
                    continue
                journal.check_time()
                (row, other), ratio = in_turns(options, list(zip(ports, (mine, others))), clients)
                alone = while_all_write(options, (ports[0], mine), file, place, clients)
                journal.add({"weights": weights, "clients": clients, **{key: rounded(value) for key, value in row.items()},
                             **{f"peer_{key}": rounded(value) for key, value in other.items()}, "ratio": rounded(ratio),
                             **alone, "others": max(row["others"], other["others"], alone["others"])})
