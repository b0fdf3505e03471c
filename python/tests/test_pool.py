# SPDX-License-Identifier: MIT
"""Models that share work."""

import asyncio
import gc
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from conftest import DATES, GOLDENS, TEXTS

import vkformer

DAYS = [f"{day}. März {year}" for year in (1999, 2004, 2021) for day in range(1, 15)]


def translators(count: int, device: str = "cpu") -> list[vkformer.Translator]:
    return [vkformer.Translator(DATES, device, beams=1, plain_shaders=True) for _ in range(count)]


def test_results_are_those_of_one_model_in_order(device: str) -> None:
    with vkformer.Translator(DATES, "cpu", beams=1, plain_shaders=True) as alone:
        expected = [t.text for t in alone.translate(DAYS)]
    with vkformer.Pool(translators(1) + translators(1, device)) as pool:
        assert len(pool.models) == 2
        for batch in (1, 5, 1000):
            found = pool.map(vkformer.Translator.translate, iter(DAYS), batch=batch)
            assert [t.text for t in found] == expected
        assert list(pool.map(vkformer.Translator.translate, [])) == []


def test_twins_share_work(device: str) -> None:
    for place in ("cpu", device):
        (first,) = translators(1, place)
        expected = [t.text for t in first.translate(DAYS)]
        with vkformer.Pool([first, first.twin(), first.twin()]) as pool:
            for batch in (1, 5):
                assert [t.text for t in pool.map(vkformer.Translator.translate, DAYS, batch=batch)] == expected
        assert first.closed


def test_a_slow_model_holds_up_nobody_but_the_order() -> None:
    with vkformer.Pool(translators(2)) as pool:
        slow = pool.models[0]
        done: dict[int, int] = {id(model): 0 for model in pool.models}

        def call(model: vkformer.Translator, items: list[int]) -> list[int]:
            time.sleep(0.2 if model is slow else 0.001)
            done[id(model)] += 1
            return [-item for item in items]

        assert list(pool.map(call, range(40), batch=2)) == [-item for item in range(40)]
        assert done[id(slow)] < done[id(pool.models[1])]
        assert sum(done.values()) == 20


def test_items_are_taken_as_there_is_room_for_them() -> None:
    taken = 0

    def items() -> Iterator[str]:
        nonlocal taken
        for i in itertools.count():
            taken += 1
            yield DAYS[i % len(DAYS)]

    with vkformer.Pool(translators(2)) as pool:
        for i, _ in enumerate(pool.map(vkformer.Translator.translate, items(), batch=3)):
            assert taken <= i + 1 + 5 * 3  # four batches on their way, and the one that is given out
            if i == 20:
                break
        assert pool.submit(lambda model: model.translate(DAYS[0])).result().text == "1999-03-01"


def test_futures_and_asyncio() -> None:
    with vkformer.Pool(translators(2)) as pool:
        futures = [pool.submit(lambda model, text=text: model.translate(text)) for text in DAYS[:6]]
        assert [future.result().text for future in futures] == [f"1999-03-0{day}" for day in range(1, 7)]

        async def ask() -> list[str]:
            asked = [asyncio.wrap_future(pool.submit(lambda model, t=text: model.translate(t))) for text in DAYS[:4]]
            return [found.text for found in await asyncio.gather(*asked)]

        assert asyncio.run(ask()) == [f"1999-03-0{day}" for day in range(1, 5)]


def test_errors_come_in_their_place() -> None:
    with vkformer.Pool(translators(2)) as pool:
        texts = [*DAYS[:6], "1" * 5000, *DAYS[6:12]]
        found = []
        with pytest.raises(vkformer.InvalidArgumentError, match="text 1: it has"):
            for translation in pool.map(vkformer.Translator.translate, texts, batch=2):
                found.append(translation.text)
        assert found == [f"1999-03-0{day}" for day in range(1, 7)]
        with pytest.raises(ValueError, match="the call gave 1 results for 2 items"):
            list(pool.map(lambda model, items: [model], [1, 2]))
        with pytest.raises(ValueError, match="batch is 0"):
            pool.map(vkformer.Translator.translate, DAYS, batch=0)
        with pytest.raises(ZeroDivisionError):
            pool.submit(lambda model: 1 // 0).result()
        assert len(list(pool.map(vkformer.Translator.translate, DAYS))) == len(DAYS)
    with pytest.raises(ValueError, match="the pool is closed"):
        pool.submit(lambda model: model.translate("x"))
    assert all(model.closed for model in pool.models)
    pool.close()


def test_a_pool_has_models_of_its_own() -> None:
    with pytest.raises(ValueError, match="needs a model"):
        vkformer.Pool([])
    (one,) = translators(1)
    with pytest.raises(ValueError, match="in the pool twice"):
        vkformer.Pool([one, one])
    with pytest.raises(TypeError, match=r"expected several: \[model"):
        vkformer.Pool(one)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"models is 3"):
        vkformer.Pool(3)  # type: ignore[arg-type]
    threads = threading.active_count()
    for wrong in (3, None, "cpu", vkformer.Translator):
        with pytest.raises(TypeError, match=r"models\[1\] is .*expected a model"):
            vkformer.Pool([one, wrong])  # type: ignore[type-var]
    assert threading.active_count() == threads
    with vkformer.Pool([one]) as pool:
        for call in (3, None, "translate"):
            with pytest.raises(TypeError, match=f"the call is {call!r}"):
                pool.submit(call)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=f"the call is {call!r}"):
                pool.map(call, DAYS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"models\[0\] is closed"):
        vkformer.Pool([one])


def test_closing_stops_what_runs_and_cancels_what_waits() -> None:
    generators = [vkformer.Generator(TEXTS, "cpu", plain_shaders=True) for _ in range(2)]
    pool = vkformer.Pool(generators)
    begun = threading.Barrier(3)

    def endless(model: vkformer.Generator) -> int:
        begun.wait(10)
        while True:
            model.generate("Once upon a time", max_tokens=200, ignore_end=True)

    running = [pool.submit(endless) for _ in range(2)]
    waiting = [pool.submit(endless) for _ in range(3)]
    begun.wait(10)
    start = time.monotonic()
    pool.close()
    assert time.monotonic() - start < 10
    for future in running:
        assert isinstance(future.exception(), vkformer.CancelledError)
    assert all(future.cancelled() for future in waiting)
    assert all(model.closed for model in generators)


def test_a_pool_that_is_dropped_ends_its_threads() -> None:
    before = threading.active_count()
    pool = vkformer.Pool(translators(2))
    assert len(list(pool.map(vkformer.Translator.translate, DAYS[:3]))) == 3
    assert threading.active_count() == before + 2
    del pool
    gc.collect()
    end = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_after_a_fork_the_child_is_told() -> None:
    with vkformer.Pool(translators(1)) as pool:
        ask: Callable[[vkformer.Translator], object] = lambda model: model.translate("x")  # noqa: E731
        child = os.fork()
        if child == 0:
            try:
                pool.submit(ask)
            except RuntimeError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_embedders_share_work(device: str) -> None:
    folder = GOLDENS / "sentences" / "embedder"
    with vkformer.Pool([vkformer.Embedder(folder, d, plain_shaders=True) for d in ("cpu", device)]) as pool:
        rows = list(pool.map(vkformer.Embedder.embed, ["the cat", "a dog", "the sea"] * 5, batch=4))
        assert len(rows) == 15
        assert abs(rows[0] - rows[3]).max() < 1e-4
