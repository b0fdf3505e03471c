# SPDX-License-Identifier: MIT
"""Several models at work side by side: on several devices, or several on one."""

import atexit
import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from types import TracebackType
from typing import Any, Generic, Self, SupportsIndex, TypeVar

from . import _inputs
from ._model import Model
from ._not_copied import NotCopied

M = TypeVar("M", bound=Model[Any])
T = TypeVar("T")
R = TypeVar("R")

_Jobs = queue.SimpleQueue[Callable[[Any], None] | None]
_live: "weakref.WeakSet[Pool[Any]]" = weakref.WeakSet()


class Pool(NotCopied, Generic[M]):
    """Models that share work: each takes the next piece when it has done the one before, so that faster ones take more.

    models: of one class and one model, say, on different devices; the pool closes them when it ends. Those on one device
        share weights where they are twins (``model.twin()``).

    ``close()``, or the end of a ``with`` block, stops what runs and cancels what waits. Use models through the pool alone.
    After a fork the child cannot use the pool of its parent.
    Raises: TypeError (what is no model), ValueError (no models, one twice, a closed one).
    """

    _instead = "make another one, of models of its own; threads may share one"

    def __init__(self, models: Iterable[M]) -> None:
        if isinstance(models, Model) or not isinstance(models, Iterable):
            raise TypeError(f"models is {models!r}, expected several: [model, model.twin()]")
        self._models = list(models)
        for i, model in enumerate(self._models):
            if not isinstance(model, Model):
                raise TypeError(f"models[{i}] is {model!r}, expected a model: vkformer.Translator(…), …")
            if model.closed:
                raise ValueError(f"models[{i}] is closed")
        if not self._models:
            raise ValueError("a pool needs a model")
        if len({id(model) for model in self._models}) < len(self._models):
            raise ValueError("a model is in the pool twice: load it once for each place")
        self._process = os.getpid()
        self._closed = False
        self._lock = threading.Lock()  # of what is asked while the pool closes
        self._jobs: _Jobs = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=_work, args=(model, self._jobs), name="vkformer pool", daemon=True)
            for model in self._models
        ]
        for thread in self._threads:
            thread.start()
        weakref.finalize(self, _end, self._jobs, len(self._threads))  # who drops a pool ends its threads
        _live.add(self)

    @property
    def models(self) -> tuple[M, ...]:
        return tuple(self._models)

    def submit(self, call: Callable[[M], R]) -> "Future[R]":
        """``call(model)``, with the first model that is free: a future, which ``asyncio.wrap_future`` takes too.

        Raises: ValueError (the pool is closed), TypeError (it cannot be called).
        """
        _check_call(call)
        if os.getpid() != self._process:
            raise RuntimeError("the pool was made before this process was forked: make one here")
        future: Future[R] = Future()

        def job(model: M) -> None:
            if self._closed:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = call(model)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._closed:
                raise ValueError("the pool is closed")
            self._jobs.put(job)
        return future

    def map(
        self, call: Callable[[M, list[T]], Iterable[R]], items: Iterable[T], *, batch: SupportsIndex = 32
    ) -> Iterator[R]:
        """What ``call`` makes of the items, ``batch`` of them at a time, in their order, as it comes:
        ``pool.map(vkformer.Translator.translate, texts)``.

        Items are taken from their iterable when there is room for them: as many as two batches for each model are on
        their way. An error is raised in its place, and ends the rest; so does leaving the loop, but for what runs.
        Raises: ValueError (a batch of none; a call that gives not as many results as it got items; the pool is closed).
        """
        _check_call(call)
        count = _inputs.uint(batch, "batch")
        if count == 0:
            raise ValueError("batch is 0, expected at least 1")
        return self._map(call, iter(items), count)

    def _map(self, call: Callable[[M, list[T]], Iterable[R]], items: Iterator[T], count: int) -> Iterator[R]:
        def of(some: list[T]) -> Callable[[M], list[R]]:
            def run(model: M) -> list[R]:
                found = list(call(model, some))
                if len(found) != len(some):
                    raise ValueError(f"the call gave {len(found)} results for {len(some)} items")
                return found

            return run

        pending: deque[Future[list[R]]] = deque()
        try:
            while True:
                while len(pending) < 2 * len(self._models) and (some := list(islice(items, count))):
                    pending.append(self.submit(of(some)))
                if not pending:
                    return
                found = pending[0].result()
                pending.popleft()
                yield from found
        finally:
            for future in pending:
                future.cancel()

    def close(self) -> None:
        """Stops what runs, cancels what waits, and closes the models. Every later call is a ValueError."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            _end(self._jobs, len(self._threads))
        # The threads take what waits out of the queue, and run nothing of it any more.
        for thread, model in zip(self._threads, self._models, strict=True):
            while thread.is_alive():
                model._interrupt()
                thread.join(0.02)
        for model in self._models:
            model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<vkformer.Pool {'closed' if self._closed else f'of {self._models!r}'}>"


def _check_call(call: object) -> None:
    if not callable(call):
        raise TypeError(f"the call is {call!r}, expected a function of a model")


def _end(jobs: _Jobs, threads: int) -> None:
    for _ in range(threads):
        jobs.put(None)


def _work(model: Any, jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        job(model)
        del job  # with its result


@atexit.register
def _close_all() -> None:
    for pool in list(_live):
        pool.close()
