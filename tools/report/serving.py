# SPDX-License-Identifier: MIT
"""A server under many clients, beside llama.cpp's: the same file, the same requests, one after the other on the same machine."""
import contextlib
import http.client
import socket
import subprocess
import time

import load
from journal import Journal
from machine import Place, Quiet
from measure import Peer, card, head, rounded

WORDS, TOKENS = 48, 64  # of a prompt; generated
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


def requests(options, seed):
    def body(number):
        return {"model": "m", "prompt": load.prompt(1000 * seed + number, WORDS), "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}

    return lambda port, clients: load.measure(port, clients, options.requests, body)


def curve(options, command_of, environment, folder=None):
    """What each number of clients sees; a warm-up of as many before it, for programs that are made when they are first needed."""
    rows = {}
    port = free_port()
    with running(command_of(port), environment, folder, port) as process:
        for clients in options.clients:
            requests(options, 2 * clients)(port, clients)
            with Quiet(process) as quiet:
                rows[clients] = requests(options, 2 * clients + 1)(port, clients)
            rows[clients]["others"] = quiet.others
    return rows


def serving(options):
    place = Place(options.folder)
    peer = Peer(place)
    most = max(options.clients)
    context = 1024
    is_cpu = options.device == "cpu"
    where = ["-dev", "none", "-ngl", "0"] if is_cpu else ["-dev", "Vulkan0", "-ngl", "99"]
    commands = [f"vkformer serve --model m=FILE --device {options.device} --sequences {most} --context {context} --cache-tokens {most * 256}",
                f"llama-server -m FILE -t 2 -np {most} -c {most * 256} --no-webui {' '.join(where)}",
                f"clients of POST /v1/completions, streamed: {options.requests} requests each, {WORDS} words to {TOKENS} tokens, greedy"]
    journal = Journal(options.out, head("serving", options, card(place, options), commands, peer=peer.version), options.stop_after)
    server = place.libraries().parents[1] / "bin/llama-server"
    for weights in options.weights or ["q4_0"]:
        if journal.has(weights=weights):
            continue
        journal.check_time()
        file = (options.models / f"random-{weights}.gguf").resolve()

        def ours(port):
            return place.command(options.vkformer, "serve", "-q", "--model", f"m={file}", "--device", options.device, "--sequences", most,
                                 "--context", context, "--cache-tokens", most * 256, "--port", port)

        def theirs(port):
            return peer.place.command(server, "-m", file, "-t", "2", "-np", most, "-c", most * 256, "--port", port, "--host", "127.0.0.1", "--no-webui",
                                *where)

        mine = curve(options, ours, place.environment(cache=options.cache, **place.threads(options.device)))
        other = curve(options, theirs, peer.place.environment(GGML_VK_VISIBLE_DEVICES="" if is_cpu else "0"), peer.backends)
        for clients in options.clients:
            row = {key: rounded(value) for key, value in mine[clients].items()}
            row |= {f"peer_{key}": rounded(value) for key, value in other[clients].items()}
            row["ratio"] = rounded(mine[clients]["tokens_per_second"] / other[clients]["tokens_per_second"])
            journal.add({"weights": weights, "clients": clients, **row})
