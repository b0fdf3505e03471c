# SPDX-License-Identifier: MIT
"""Text as it comes, and calls that somebody stops."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import DATES, TEXTS, read_json, resident_bytes

import vkformer

LONG = 100_000  # tokens that no test waits for
LEAST_LEAK = 16 << 20  # bytes that 100 calls would leave if each left its caches; malloc and Python keep less


@pytest.fixture
def endless(long_texts: Path) -> Iterator[vkformer.Generator]:
    """What it generates takes longer than a test."""
    with vkformer.Generator(long_texts, "cpu", plain_shaders=True, context=4000) as loaded:
        yield loaded


def threads() -> int:
    return sum(thread.name == "vkformer stream" for thread in threading.enumerate())


def test_pieces_are_the_text(device: str) -> None:
    with vkformer.Generator(TEXTS, device, plain_shaders=True) as generator:
        for entry in read_json("decoder_text", "expected.json")["prompts"]:
            stream = generator.stream(entry["prompt"], max_tokens=48)
            pieces = list(stream)
            assert "".join(pieces) == entry["text"] == stream.text
            assert stream.result is not None
            assert stream.result.tokens == entry["ids"]
            assert len(pieces) > 1
            assert list(stream) == []


def test_with_beams_a_stream_is_one_piece() -> None:
    with vkformer.Generator(TEXTS, "cpu", plain_shaders=True, beams=2) as generator:
        whole = generator.generate("Hello", max_tokens=10)
        assert list(generator.stream("Hello", max_tokens=10)) == [whole.text]


def test_a_stream_begins_when_it_is_read(generator: vkformer.Generator) -> None:
    before = threads()
    stream = generator.stream("Hello", max_tokens=5)
    assert threads() == before
    generator.generate("Hello", max_tokens=2)  # nothing is held yet
    assert "".join(stream) == generator.generate("Hello", max_tokens=5).text


def test_streams_end_where_they_are_left(endless: vkformer.Generator) -> None:
    with endless as generator:
        whole = generator.generate("Hello", max_tokens=8).text
        for i in range(110):
            if i == 10:
                before = resident_bytes()
            for _piece in generator.stream("Hello", max_tokens=LONG, ignore_end=True):
                break
            gc.collect()
        assert resident_bytes() - before < LEAST_LEAK
        stream = generator.stream("Hello", max_tokens=LONG, ignore_end=True)
        next(stream)
        stream.close()
        assert list(stream) == []
        with generator.stream("Hello", max_tokens=LONG, ignore_end=True) as second:
            next(second)
        assert generator.generate("Hello", max_tokens=8).text == whole
        assert threads() == 0


def test_a_closed_stream_ends_within_one_step(endless: vkformer.Generator) -> None:
    with endless as generator:
        stream = generator.stream("Hello", max_tokens=LONG, ignore_end=True)
        next(stream)
        stream.close()
        assert stream.result is None or stream.result.finish == "caller"


def test_a_slow_reader_slows_the_generation(endless: vkformer.Generator) -> None:
    with endless as generator:
        stream = generator.stream("Hello", max_tokens=LONG, ignore_end=True)
        next(stream)
        time.sleep(0.3)
        assert len(stream._pump._pieces) <= 32
        stream.close()


def test_a_model_may_close_while_a_stream_begins(endless: vkformer.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = endless
    errors: list[BaseException] = []

    def close() -> None:
        try:
            generator.close()
        except BaseException as error:
            errors.append(error)

    closing = threading.Thread(target=close)
    start = threading.Thread.start

    def start_late(thread: threading.Thread) -> None:
        if thread.name == "vkformer stream":
            start(closing)
            closing.join(0.2)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_late)
    "".join(generator.stream("Hello", max_tokens=LONG, ignore_end=True))
    closing.join(10)
    assert not closing.is_alive() and not errors and threads() == 0
    monkeypatch.undo()
    with pytest.raises(ValueError, match="closed"):
        list(generator.stream("Hello"))


def test_a_stream_does_not_begin_while_its_model_closes(endless: vkformer.Generator) -> None:
    generator = endless
    stream = generator.stream("Hello", max_tokens=LONG, ignore_end=True)
    generator._is_closing = True
    with pytest.raises(ValueError, match="closed"):
        next(stream)
    assert threads() == 0


def test_a_close_that_fails_leaves_the_model_open(endless: vkformer.Generator) -> None:
    generator = endless
    errors: list[str] = []

    def close(*_: int) -> None:
        with pytest.raises(RuntimeError) as refused:
            generator.close()
        errors.append(str(refused.value))

    generator.score(["Hello world"], on_progress=close)
    assert errors and all("own callbacks" in error for error in errors)
    assert "".join(generator.stream("Hello", max_tokens=3))


def test_a_model_that_closes_ends_its_streams(endless: vkformer.Generator) -> None:
    generator = endless
    stream = generator.stream("Hello", max_tokens=LONG, ignore_end=True)
    next(stream)
    generator.close()
    assert list(stream) == []
    with pytest.raises(ValueError, match="closed"):
        next(generator.stream("Hello"))


def test_who_reads_a_stream_is_told_that_the_model_is_busy(endless: vkformer.Generator) -> None:
    with endless as generator:
        stream = generator.stream("Hello", max_tokens=LONG, ignore_end=True)
        next(stream)
        with pytest.raises(RuntimeError, match="at work for the same thread"):
            generator.generate("Hello", max_tokens=1)
        stream.close()
        generator.generate("Hello", max_tokens=1)


def test_errors_of_a_stream_are_raised_where_it_is_read(generator: vkformer.Generator) -> None:
    with pytest.raises(vkformer.InvalidArgumentError):
        next(generator.stream("x" * 100_000))
    with pytest.raises(TypeError, match="unexpected keyword"):
        generator.stream("Hello", max_token=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="expected str"):
        generator.stream(b"Hello")  # type: ignore[arg-type]


def test_a_conversation() -> None:
    with vkformer.Chat(TEXTS, "cpu", plain_shaders=True, system="Be brief.") as chat:
        first = chat.say("Hello, world!", max_tokens=12)
        pieces = list(chat.stream("And now?", max_tokens=12))
        messages = chat.messages
        assert [m["role"] for m in messages] == ["system", "user", "assistant", "user", "assistant"]
        assert messages[2]["content"] == first.text
        assert messages[4]["content"] == "".join(pieces)
        again = chat.generator.chat(messages[:4], max_tokens=12)
        assert again.text == "".join(pieces)
        assert again.reused_tokens > first.prompt_tokens

        stream = chat.stream("A last one", max_tokens=40)
        piece = next(stream)
        with pytest.raises(RuntimeError, match="still being read"):
            chat.say("no")
        stream.close()
        assert chat.messages[-1] == {"role": "assistant", "content": piece}
        with pytest.raises(vkformer.InvalidArgumentError):
            chat.say("x" * 100_000)
        assert len(chat.messages) == 7
        chat.stream("never read")
        assert len(chat.messages) == 7
        chat.reset()
        assert chat.messages == [{"role": "system", "content": "Be brief."}]
        assert chat.say("Hello, world!", max_tokens=12).text == first.text


def test_asyncio(endless: vkformer.Generator) -> None:
    async def work() -> None:
        with endless as generator, vkformer.Translator(DATES, "cpu", plain_shaders=True) as translator:
            whole = generator.generate("Hello", max_tokens=24).text
            found, translated, both = await asyncio.gather(
                generator.generate_async("Hello", max_tokens=24),
                translator.translate_async("4. März 2021"),
                generator.generate_async(["Hello", "Hello"], max_tokens=24),
            )
            assert found.text == whole
            assert [g.text for g in both] == [whole, whole]
            assert translated.text == "2021-03-04"

            pieces = [piece async for piece in generator.stream_async("Hello", max_tokens=24)]
            assert "".join(pieces) == whole

            async def read() -> str:
                return "".join([piece async for piece in generator.stream_async("Hello", max_tokens=24)])

            # more readers than asyncio has threads
            assert await asyncio.gather(*(read() for _ in range(40))) == [whole] * 40

            async with generator.stream_async("Hello", max_tokens=LONG, ignore_end=True) as stream:
                await anext(stream)
                with pytest.raises(RuntimeError, match="at work for the same"):
                    await generator.generate_async("Hello")
                with pytest.raises(RuntimeError, match="at work for the same"):
                    generator.generate("Hello")
            assert (await generator.generate_async("Hello", max_tokens=24)).text == whole

            with vkformer.Chat(generator) as chat:
                answer = await chat.say_async("Hello, world!", max_tokens=12)
                assert chat.messages[-1]["content"] == answer.text
                streamed = [piece async for piece in chat.stream_async("And now?", max_tokens=12)]
                assert chat.messages[-1]["content"] == "".join(streamed)

    asyncio.run(work())


def test_cancelled_tasks_stop_their_calls(endless: vkformer.Generator) -> None:
    async def work() -> None:
        with endless as generator:
            whole = generator.generate("Hello", max_tokens=8).text
            for i in range(110):
                if i == 10:
                    before = resident_bytes()
                task = asyncio.create_task(generator.generate_async("Hello", max_tokens=LONG, ignore_end=True))
                await asyncio.sleep(0.002)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            gc.collect()
            assert resident_bytes() - before < LEAST_LEAK

            async def read() -> None:
                async for _piece in generator.stream_async("Hello", max_tokens=LONG, ignore_end=True):
                    pass

            reader = asyncio.create_task(read())
            await asyncio.sleep(0.05)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            assert (await generator.generate_async("Hello", max_tokens=8)).text == whole

    asyncio.run(work())


INTERRUPTED = """
import signal, sys, time, vkformer, numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, and what they start, ignore it
kind, path = sys.argv[1:]
if kind == "translate":
    model = vkformer.Translator(path, "cpu", plain_shaders=True, batch=1)
    texts = ["4. M\\u00e4rz 2021"] * 5000
    call = lambda: model.translate(texts)
elif kind == "graph":
    square = np.full((2048, 2048), 1 / 2048, np.float32)

    def powers(x, square):
        for _ in range(400):
            x = vkformer.ops.linear(x, square)
        return x

    model = vkformer.Graph(powers, "cpu")
    call = lambda: model(np.ones((16384, 2048), np.float32), square)  # 400 products of 0.1 s at the least
else:
    model = vkformer.Generator(path, "cpu", plain_shaders=True, context=4000)
    options = dict(max_tokens=100_000, ignore_end=True)
    if kind == "generate":
        call = lambda: model.generate(["Hello"] * 1000, **options)
    elif kind == "stream":
        def call():
            with model.stream("Hello", **options) as stream:
                for piece in stream:
                    time.sleep(1)
    else:
        call = lambda: [piece for prompt in ["Hello"] * 1000 for piece in model.stream(prompt, **options)]
print("ready", flush=True)
try:
    call()
except KeyboardInterrupt:
    started = time.monotonic()
    if kind == "translate":
        assert model.translate("4. M\\u00e4rz 2021").text == "2021-03-04"
    elif kind == "graph":
        assert (model(np.ones((2, 2048), np.float32), square) == 1).all()
    else:
        assert model.generate("Hello", max_tokens=4).tokens
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("kind", ["translate", "generate", "stream", "streams", "graph"])
def test_ctrl_c(kind: str, long_texts: Path) -> None:
    path = DATES if kind == "translate" else long_texts
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, kind, str(path)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "interrupted\n"  # all of the work would take many minutes
    assert child.returncode == 0


def test_a_stream_may_be_open_when_the_program_ends(long_texts: Path) -> None:
    source = (
        "import sys, vkformer\n"
        "generator = vkformer.Generator(sys.argv[1], 'cpu', plain_shaders=True, context=4000)\n"
        "stream = generator.stream('Hello', max_tokens=100_000, ignore_end=True)\n"
        "next(stream)\n"
        "print('end')\n"
    )
    done = subprocess.run([sys.executable, "-c", source, str(long_texts)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
