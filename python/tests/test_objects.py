# SPDX-License-Identifier: MIT
"""What objects are worth when there are many, when threads share them, when processes fork, and when they are closed."""

import copy
import gc
import multiprocessing
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CALLS, DATES, GOLDENS, TEXTS, Load, device_names, in_child, resident_bytes

import vkformer


def test_an_object_closes_once(call: tuple[Load, Callable[[Any], Any]]) -> None:
    load, use = call
    with load() as model:
        assert not model.closed
        assert "CPU" in repr(model)
        use(model)
    assert model.closed
    assert "closed" in repr(model)
    model.close()
    with pytest.raises(ValueError, match="closed"):
        use(model)


@pytest.mark.parametrize("device", device_names())
def test_objects_leave_nothing_behind(device: str) -> None:
    count = 1000 if device == "cpu" else 10  # Vulkan drivers that are CPUs compile the same pipelines each time

    def once(i: int) -> None:
        generator = vkformer.Generator(TEXTS, device, plain_shaders=True)
        assert generator.generate("Hello", max_tokens=2).tokens
        if i % 2:
            generator.close()

    for i in range(count // 10 + 2):
        once(i)
    gc.collect()
    before = resident_bytes()
    for i in range(count):
        once(i)
    gc.collect()
    # Drivers and malloc keep some; of the models nothing stays.
    assert resident_bytes() - before < 24 << 20


def test_a_model_goes_with_its_owner_who_hears_of_its_progress() -> None:
    class Owner:
        def __init__(self) -> None:
            self.model = vkformer.Generator(TEXTS, "cpu", on_progress=self.hear)

        def hear(self, message: str) -> None:
            pass

    owner = Owner()
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


SUBINTERPRETER = """
import sys
import vkformer
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
other = interpreters.create()
try:
    failed = interpreters.run_string(other, f"import sys; sys.path[:] = {sys.path!r}; import vkformer")
except Exception as error:  # of Python 3.11
    failed = error
assert "main interpreter alone" in str(failed), failed
interpreters.destroy(other)
assert vkformer.Generator(sys.argv[1], "cpu").generate("Hello", max_tokens=2).tokens
"""


def test_subinterpreters_are_refused_and_leave_the_main_one_alone() -> None:
    subprocess.run([sys.executable, "-c", SUBINTERPRETER, str(TEXTS)], check=True)


def test_two_threads_share_a_model(call: tuple[Load, Callable[[Any], Any]]) -> None:
    load, use = call
    with load() as model:
        expected = use(model)
        found: list[Any] = []

        def work() -> None:
            for _ in range(5):
                found.append(use(model))

        workers = [threading.Thread(target=work) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert found == [expected] * 10


def test_twins_share_a_model_and_not_their_turns(call: tuple[Load, Callable[[Any], Any]]) -> None:
    load, use = call
    first = load()
    expected = use(first)
    twins = [first.twin(), first.twin().twin()]
    assert all(type(twin) is type(first) and twin.device == first.device for twin in twins)
    found: dict[int, list[Any]] = {}

    def work(model: Any) -> None:
        found[id(model)] = [use(model) for _ in range(5)]

    workers = [threading.Thread(target=work, args=(model,)) for model in (first, *twins)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == {id(model): [expected] * 5 for model in (first, *twins)}
    first.close()
    with pytest.raises(ValueError, match="closed"):
        first.twin()
    del first
    gc.collect()
    assert [use(twin) for twin in twins] == [expected] * 2
    assert not any(twin.closed for twin in twins)


def test_what_a_twin_is_told_and_stops_is_its_own() -> None:
    told: list[str] = []
    first = vkformer.Generator(TEXTS, "cpu", plain_shaders=True, on_progress=told.append)
    twin = first.twin()
    begun = threading.Event()
    stopped: list[BaseException] = []

    def endless() -> None:
        try:
            while True:
                for _ in twin.stream("Once upon a time", max_tokens=200, ignore_end=True):
                    begun.set()
        except BaseException as error:
            stopped.append(error)

    thread = threading.Thread(target=endless)
    thread.start()
    assert begun.wait(10)
    for _ in range(3):
        assert first.generate("Hello", max_tokens=2).tokens  # at work beside it
    first.close()
    del first
    gc.collect()
    assert thread.is_alive()
    twin.close()
    thread.join(10)
    assert not thread.is_alive() and len(stopped) == 1


def test_the_gil_is_free_while_the_library_works() -> None:
    ticks = 0
    with vkformer.Translator(DATES, "cpu", plain_shaders=True, batch=1) as translator:
        done = threading.Event()

        def work() -> None:
            translator.translate(["4. März 2021"] * 50)
            done.set()

        worker = threading.Thread(target=work)
        worker.start()
        while not done.wait(0.001):
            ticks += 1
        worker.join()
    assert ticks > 5


def test_callbacks_that_call_or_raise(translator: vkformer.Translator) -> None:
    told: list[tuple[int, int]] = []
    translator.translate(["4. März 2021"] * 3, on_progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (3, 3)

    def again(_done: int, _total: int) -> None:
        translator.translate("4. März 2021")

    with pytest.raises(RuntimeError, match="from its own callbacks"):
        translator.translate(["4. März 2021"], on_progress=again)

    def fails(_done: int, _total: int) -> None:
        raise ZeroDivisionError("of the callback")

    with pytest.raises(ZeroDivisionError, match="of the callback"):
        translator.translate(["4. März 2021"], on_progress=fails)
    with pytest.raises(TypeError):
        translator.translate(["4. März 2021"], on_progress=3)  # type: ignore[call-overload]
    assert translator.translate("4. März 2021").text == "2021-03-04"


def test_loading_says_what_it_tries() -> None:
    told: list[str] = []
    for device in device_names()[1:2]:
        vkformer.Embedder(
            DATES.parents[2] / "tests/goldens/sentences/embedder", device, on_progress=told.append
        ).close()
        assert all(isinstance(line, str) for line in told)


def test_what_is_told_after_loading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # nothing has been tried yet
    told: list[str] = []
    for device in device_names()[1:2]:
        with vkformer.Generator(TEXTS, device, on_progress=lambda text: told.append(text)) as generator:
            gc.collect()
            told.clear()
            generator.generate("Hello", max_tokens=2)
        assert told and all(isinstance(line, str) for line in told)


@pytest.mark.parametrize("device", device_names())
def test_a_forked_child_is_told(device: str) -> None:
    model: Any = vkformer.Generator(TEXTS, device, plain_shaders=True)
    stream = model.stream("Hello", max_tokens=100_000, ignore_end=True)
    next(stream)

    def work() -> None:
        nonlocal model, stream
        for use in (lambda: model.generate("Hello"), lambda: model.device, lambda: next(model.stream("Hello"))):
            with pytest.raises(RuntimeError, match="before this process was forked"):
                use()
        del stream, model  # destroying them does not wait for threads that are not there
        gc.collect()

    assert in_child(work) == 0
    stream.close()
    assert model.generate("Hello", max_tokens=2).tokens
    model.close()


def test_a_forked_child_loads_models_of_its_own() -> None:
    with vkformer.Translator(DATES, "cpu", plain_shaders=True) as translator:
        expected = translator.translate("4. März 2021")

        def work() -> None:
            with vkformer.Translator(DATES, "cpu", plain_shaders=True) as own:
                assert own.translate("4. März 2021") == expected

        assert in_child(work) == 0


def translate(text: str) -> str:
    with vkformer.Translator(DATES, "cpu", plain_shaders=True) as translator:
        return translator.translate(text).text


def load_nothing(_: int) -> None:
    vkformer.Embedder("there is no such folder", "cpu")


def test_spawned_processes_work_and_errors_come_back() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(translate, ["4. März 2021"] * 2) == ["2021-03-04"] * 2
        with pytest.raises(vkformer.MissingFileError, match="no such folder"):
            pool.map(load_nothing, [1])


def test_results_and_errors_are_values() -> None:
    load, use = CALLS["Translator"]
    with load() as model:
        found = use(model)
        assert pickle.loads(pickle.dumps(found)) == found
    error = pickle.loads(pickle.dumps(vkformer.VulkanError("lost", -4)))
    assert (str(error), error.vk, error.code) == ("lost", -4, "vulkan")


def refuses_copies(thing: Any) -> None:
    name = type(thing).__name__
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=f"a vkformer.{name} cannot be copied or pickled: [a-z]"):
            attempt(thing)


def test_models_are_not_copied(call: tuple[Load, Callable[[Any], Any]]) -> None:
    load, use = call
    with load() as model:
        refuses_copies(model)
        twin = model.twin()
        refuses_copies(twin)
        twin.close()
        assert use(model)


def test_what_holds_a_model_a_device_or_a_thread_is_not_copied(generator: vkformer.Generator) -> None:
    refuses_copies(vkformer.VoiceActivityDetector(GOLDENS / "vad" / "network.safetensors"))
    with vkformer.Graph(vkformer.ops.softmax, "cpu") as graph, vkformer.Chat(generator) as chat:
        refuses_copies(graph)
        refuses_copies(chat)
    with generator.stream("Hello", max_tokens=2) as stream:
        refuses_copies(stream)
        assert "".join(stream)
    refuses_copies(generator.stream_async("Hello", max_tokens=2))
    with vkformer.Pool([generator.twin()]) as pool:
        refuses_copies(pool)
        assert pool.submit(lambda model: model.generate("Hello", max_tokens=2).tokens).result()
    tensors: list[vkformer.Tensor] = []

    def traced(x: vkformer.Tensor) -> vkformer.Tensor:
        tensors.append(x)
        return vkformer.ops.softmax(x)

    with vkformer.Graph(traced, "cpu") as graph:
        graph(np.ones(4, np.float32))
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copy.deepcopy(tensors[0])
