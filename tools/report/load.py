# SPDX-License-Identifier: MIT
"""Clients of a server: many at a time, each with one request after the other, and what they saw of OpenAI's streams or of whole answers."""
import asyncio
import json
import random
import statistics
import time

WORDS = "the of and to in that was his he it with is for as had you not be her on at by which have or from this him but all".split()


def prompt(seed, words):
    """A text of so many words, another for every seed."""
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(words))


class Seen:
    """Of one request: when it was sent, and when which text came."""

    def __init__(self):
        self.sent = time.monotonic()
        self.times = []
        self.text = ""
        self.usage = {}

    def take(self, event):
        if event.get("error"):
            raise RuntimeError(event["error"])
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", []):
            if choice.get("text"):
                self.times.append(time.monotonic())
                self.text += choice["text"]


async def post(port, path, body):
    """On a connection of its own: what an answer is read from, and what closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    payload = json.dumps(body).encode()
    writer.write(b"POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                 % (path.encode(), port, len(payload)) + payload)
    await writer.drain()
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError((status + await reader.read()).decode(errors="replace"))
    return reader, writer


async def stream(port, body):
    """One streamed completion."""
    seen = Seen()
    reader, writer = await post(port, "/v1/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
    while line := await reader.readline():  # headers and the sizes of chunks are no lines of data
        if line.startswith(b"data: {"):
            seen.take(json.loads(line[6:]))
    writer.close()
    seen.ended = time.monotonic()
    return seen


async def answer(port, path, body):
    """Seconds to a whole answer."""
    begin = time.monotonic()
    reader, writer = await post(port, path, body)
    await reader.read()
    writer.close()
    return time.monotonic() - begin


async def clients(port, count, requests, body_of, ask=stream):
    """`count` clients with `requests` each: all that they saw, and how long it took them in all."""
    async def client(number):
        return [await ask(port, body_of(number * requests + i)) for i in range(requests)]

    begin = time.monotonic()
    seen = [one for found in await asyncio.gather(*map(client, range(count))) for one in found]
    return seen, time.monotonic() - begin


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(port, count, requests, body_of):
    """Requests and tokens per second of all clients; milliseconds to the first text and between texts."""
    seen, seconds = asyncio.run(clients(port, count, requests, body_of))
    prompts = [one.usage["prompt_tokens"] for one in seen]
    first = [1e3 * (one.times[0] - one.sent) for one in seen if one.times]
    gaps = [1e3 * (after - before) for one in seen for before, after in zip(one.times, one.times[1:])]
    return {"requests": len(seen), "requests_per_second": len(seen) / seconds,
            "tokens_per_second": sum(one.usage["completion_tokens"] for one in seen) / seconds,
            "prompt_tokens": sum(prompts), "least_prompt": min(prompts), "most_prompt": max(prompts),
            "first_ms": statistics.median(first), "first_ms_most": max(first),
            "between_ms": statistics.median(gaps), "between_ms_p99": percentile(gaps, 0.99)}


def measure_answers(port, path, count, requests, body_of):
    """Requests per second of all clients, and milliseconds to an answer."""
    times, seconds = asyncio.run(clients(port, count, requests, body_of, lambda port, body: answer(port, path, body)))
    return {"requests": len(times), "requests_per_second": len(times) / seconds, "answer_ms": 1e3 * statistics.median(times),
            "answer_ms_most": 1e3 * max(times)}


def rate_together(seen):
    """Tokens per second in all, each client's by its own times between when all have begun to write and the first has ended."""
    if not all(one.times for one in seen):
        raise RuntimeError("a client was told no text")
    begin, end = max(one.times[0] for one in seen), min(one.times[-1] for one in seen)
    within = [[time for time in one.times if begin <= time <= end] for one in seen]
    if min(map(len, within)) < 2:
        raise RuntimeError("the clients did not write at the same time")
    tokens_of_text = sum(one.usage["completion_tokens"] for one in seen) / sum(len(one.times) for one in seen)
    return tokens_of_text * sum((len(times) - 1) / (times[-1] - times[0]) for times in within)


def together(port, count, body_of):
    """rate_together() of `count` clients with a request each."""
    return rate_together(asyncio.run(clients(port, count, 1, body_of))[0])
