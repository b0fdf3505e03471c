# SPDX-License-Identifier: MIT
"""What all models have: one call at a time, calls in other threads for asyncio, and an end."""

import asyncio
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal, Protocol, Self, TypedDict, TypeVar

from . import _core
from ._errors import CancelledError, UnknownFieldWarning
from ._not_copied import NotCopied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._streams import Pump

T = TypeVar("T")
Progress = Callable[[int, int], object]


def all_of(things: "weakref.WeakSet[T]") -> list[T]:
    """Those of now; other threads may add some meanwhile."""
    while True:
        try:
            return list(things)
        except RuntimeError:
            continue


class CommonArguments(TypedDict, total=False):
    """Further keyword arguments of every model.

    plain_shaders: the plain variant of every op; nothing is measured. On the CPU, activations stay float32 where weights
        are quantised.
    shader_variants: op → variant, before what was measured; ``vkformer tune --list`` names them.
    on_progress: called with a text about what is being tried while the model loads and when it first meets a shape.
    offload: bytes of weights that stay in the host's memory, where a GPU reads them over its bus, step by step; "auto":
        those that do not fit the device. on_progress is told what it costs. The CPU passes it over.
    """

    plain_shaders: bool
    shader_variants: "Mapping[str, str] | None"
    on_progress: Callable[[str], object] | None
    offload: "int | Literal['auto']"


class Held(Protocol):
    """A model of the extension module."""

    def twin(self) -> Self: ...
    def close(self) -> None: ...
    def is_closed(self) -> bool: ...
    def device(self) -> str: ...
    def notes(self) -> list[str]: ...


Core = TypeVar("Core", bound=Held)


def here() -> object:
    """Who calls: the task, where there is one, else the thread. Both wait for themselves in vain."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return task if task is not None else threading.get_ident()


class CallLock:
    """Lets one call in at a time, and knows whose it is: who waits for itself would wait for ever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: tuple[object, ...] = ()

    @contextmanager
    def held(self, caller: object, stop: _core.Stop | None = None) -> Iterator[None]:
        owners = (caller, threading.get_ident())
        if any(owner in self._owners for owner in owners):
            raise RuntimeError(
                "the model is at work for the same thread or task already: read its stream to the end or close it, "
                "and call nothing of a model from its own callbacks"
            )
        while not self._lock.acquire(timeout=0.05):
            if stop is not None and stop.is_set():
                raise CancelledError("the call was stopped before its turn")
        self._owners = owners
        try:
            yield
        finally:
            self._owners = ()
            self._lock.release()

    def disown(self, caller: object) -> None:
        """The caller does not need what it waits for any more, so it may wait for the end of it."""
        if caller in self._owners:
            self._owners = ()


class Model(NotCopied, Generic[Core]):
    """A model on a device.

    Calls from several threads wait for each other; the GIL is free while the library works. ``close()``, or the end of a
    ``with`` block, gives memory and device back. After a fork the child cannot use the models of its parent.
    """

    _instead = "load it again where it is needed, or take twin() for another thread (vkformer.Pool runs several)"

    def __init__(self, core: Core) -> None:
        self._begin(core)
        for note in core.notes():
            warnings.warn(note, UnknownFieldWarning, stacklevel=3)  # where the model's class is called

    def _begin(self, core: Core) -> None:
        self._core = core
        self._lock = CallLock()
        self._process = os.getpid()
        self._pumps: "weakref.WeakSet[Pump]" = weakref.WeakSet()
        self._is_closing = False  # a stream that has not begun by now does not begin
        self._stop: _core.Stop | None = None  # of the call that runs

    @property
    def device(self) -> str:
        """The device in use: "llvmpipe (LLVM 15.0.6, 256 bits) (cpu, llvmpipe Mesa 22.3.6)", "CPU (float)"."""
        return self._core.device()

    @property
    def closed(self) -> bool:
        return self._core.is_closed()

    def twin(self) -> Self:
        """Another one of the same model, on the same device and with the same options, for another thread.

        Both share the weights, in the device's memory too; programs and caches are each one's own, and either may be closed
        first. Waits for what runs. ``vkformer.Pool`` runs several.
        Raises: ValueError (the model is closed), DeviceLostError, VulkanError, OutOfDeviceMemoryError.
        """
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._begin(self._run(lambda stop: self._core.twin()))
        return made

    def close(self) -> None:
        """Stops what streams, waits for what runs, and gives memory and device back. Every later call is a ValueError."""
        self._check_process()
        self._is_closing = True
        try:
            for pump in all_of(self._pumps):
                pump.close()
            with self._lock.held(here()):
                self._core.close()
        finally:
            self._is_closing = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"on {self.device!r}"
        return f"<vkformer.{type(self).__name__} {state}>"

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                "the model was loaded before this process was forked and cannot be used in it: load it here, or start "
                'processes by "spawn"'
            )

    def _run(self, call: Callable[[_core.Stop], T]) -> T:
        return self._run_for(here(), _core.Stop(), call)

    def _run_for(self, caller: object, stop: _core.Stop, call: Callable[[_core.Stop], T]) -> T:
        self._check_process()
        with self._lock.held(caller, stop):
            self._stop = stop
            try:
                return call(stop)
            finally:
                self._stop = None

    def _interrupt(self) -> None:
        """Stops what runs, from another thread."""
        stop = self._stop
        if stop is not None:
            stop.set()

    async def _run_async(self, call: Callable[[_core.Stop], T]) -> T:
        """In a thread of asyncio's. Cancelling the task stops the call at its next submit."""
        stop = _core.Stop()
        try:
            return await asyncio.to_thread(self._run_for, here(), stop, call)
        except asyncio.CancelledError:
            stop.set()
            raise
