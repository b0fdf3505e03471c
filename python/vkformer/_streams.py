# SPDX-License-Identifier: MIT
"""Text as it is generated: a thread that generates, a bounded queue, and iterators over it."""

import asyncio
import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Self

from . import _core
from ._errors import CancelledError
from ._model import Model, all_of, here
from ._not_copied import NotCopied
from ._results import Generation

OnText = Callable[[int, str, int], bool]
#: Generates, telling the callback, until it is done or stopped.
Work = Callable[[OnText, _core.Stop], Generation]

_LIMIT = 32  # pieces that wait to be read; the generation waits then, too
_live: "weakref.WeakSet[Pump]" = weakref.WeakSet()


class Pump:
    """The thread and the queue. It knows nothing of the iterator, so that an iterator which nobody has any more ends it."""

    def __init__(self, model: Model[Any], work: Work, on_change: Callable[[], None] | None = None) -> None:
        self._model = model
        self._work = work
        self._on_change = on_change
        self._changed = threading.Condition()
        self._pieces: deque[str] = deque()
        self._stop = _core.Stop()
        self._closed = False
        self._done = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._caller: object = None
        self._process = os.getpid()
        self.result: Generation | None = None

    def start(self) -> None:
        if not self._done:
            self._model._check_process()
        with self._changed:  # who closes it meanwhile finds a thread that runs, or that there will be none
            if self._thread is not None or self._done or self._closed:
                return
            self._caller = here()
            self._model._pumps.add(self)
            if self._model._is_closing:
                raise ValueError("the model is closed")
            _live.add(self)
            self._thread = threading.Thread(target=self._generate, name="vkformer stream", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the system has no thread to give
                self._thread = None
                raise

    def _generate(self) -> None:
        try:
            self.result = self._model._run_for(self._caller, self._stop, lambda stop: self._work(self._put, stop))
        except CancelledError as error:
            self._error = None if self._closed else error
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._done = True
                self._changed.notify_all()
            self._tell()

    def _tell(self) -> None:
        if self._on_change is not None:
            self._on_change()

    def _put(self, _index: int, piece: str, _token: int) -> bool:
        with self._changed:
            while len(self._pieces) >= _LIMIT and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            if not piece:
                return True
            self._pieces.append(piece)
            self._changed.notify_all()
        self._tell()
        return True

    def poll(self) -> tuple[str | None, bool]:
        """A piece if there is one, and whether all is over. Raises what ended the generation."""
        with self._changed:
            if self._pieces and not self._closed:
                self._changed.notify_all()
                return self._pieces.popleft(), False
            if not self._done and not self._closed:
                return None, False
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            return None, True

    def wait(self) -> None:
        with self._changed:
            while not self._pieces and not self._done and not self._closed:
                self._changed.wait()

    def signal(self) -> None:
        """Ends the generation at its next token; does not wait for that."""
        if os.getpid() != self._process:
            return  # of a forked process, where the thread is not
        with self._changed:
            self._closed = True
            self._pieces.clear()
            self._changed.notify_all()
        self._stop.set()
        self._model._lock.disown(self._caller)

    def close(self) -> None:
        self.signal()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and os.getpid() == self._process:
            thread.join()


@atexit.register
def _close_all() -> None:
    """A thread that comes back to an interpreter which has ended would end the process by a signal."""
    for pump in all_of(_live):
        pump.close()


class TextStream(NotCopied, Iterator[str]):
    """The pieces of an answer, as they come; joined they are its whole text. Generation begins with the first piece asked for.

    A stream that is closed, by ``close()``, by the end of a ``with`` block, or because nobody has it any more, ends the
    generation within one step. ``result`` is there when the last piece was read: the Generation. The stream holds its
    model: calls from other threads wait for its end, and one from the same thread is an error.
    """

    _instead = "begin another one"

    def __init__(self, model: Model[Any], work: Work, on_end: Callable[[str, bool], None] | None = None) -> None:
        self._pump = Pump(model, work)
        self._on_end = on_end
        self._read: list[str] = []

    @property
    def result(self) -> Generation | None:
        return self._pump.result

    @property
    def text(self) -> str:
        """What was read so far."""
        return "".join(self._read)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        try:
            self._pump.start()
            self._pump.wait()
            piece, is_over = self._pump.poll()
        except BaseException:  # Ctrl-C among them
            self._pump.close()
            self._end(failed=True)
            raise
        if is_over or piece is None:
            self._end(failed=False)
            raise StopIteration
        self._read.append(piece)
        return piece

    def close(self) -> None:
        """Ends the generation, and waits for the step that runs."""
        self._pump.close()
        self._end(failed=not self._read)

    def _end(self, failed: bool) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self.text, failed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_pump"):
            self._pump.signal()
            self._end(failed=not self._read)


class AsyncTextStream(NotCopied, AsyncIterator[str]):
    """A TextStream for ``async for``. ``await stream.aclose()``, or cancelling the task that reads, ends the generation."""

    _instead = "begin another one"

    def __init__(self, model: Model[Any], work: Work, on_end: Callable[[str, bool], None] | None = None) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = asyncio.Event()
        reference = weakref.ref(self)

        def on_change() -> None:
            stream = reference()
            if stream is None or stream._loop is None:
                return
            try:
                stream._loop.call_soon_threadsafe(stream._ready.set)
            except RuntimeError:
                pass  # the loop is closed, and nobody reads

        self._pump = Pump(model, work, on_change)
        self._on_end = on_end
        self._read: list[str] = []

    @property
    def result(self) -> Generation | None:
        return self._pump.result

    @property
    def text(self) -> str:
        """What was read so far."""
        return "".join(self._read)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        try:
            self._pump.start()
            while True:
                self._ready.clear()
                piece, is_over = self._pump.poll()
                if piece is not None or is_over:
                    break
                await self._ready.wait()
        except BaseException:
            self._pump.signal()
            self._end(failed=True)
            raise
        if piece is None:
            self._end(failed=False)
            raise StopAsyncIteration
        self._read.append(piece)
        return piece

    async def aclose(self) -> None:
        """Ends the generation, and waits for the step that runs."""
        self._pump.signal()
        await asyncio.to_thread(self._pump.close)
        self._end(failed=not self._read)

    def _end(self, failed: bool) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self.text, failed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if hasattr(self, "_pump"):
            self._pump.signal()
            self._end(failed=not self._read)
