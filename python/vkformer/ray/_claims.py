# SPDX-License-Identifier: MIT
"""Devices and processors of one machine, shared out among the processes that work on it.

A claim is a Unix socket in Linux's abstract namespace, bound to a name: there is one of each name on a machine, whoever
has it, and the system closes it with the last process that holds it, however that ends. A worker that was killed leaves
nothing behind, and the one that comes in its place finds its device free.
"""

import errno
import math
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

#: In how many parts a device can be claimed.
SHARES = 12

PREFIX = "vkformer"


class Claim:
    """Parts of what is called ``name``, for as long as the object lives here, or its ``files`` in other processes."""

    def __init__(self, name: str, sockets: list[socket.socket]) -> None:
        self.name = name
        self._sockets = sockets

    @property
    def files(self) -> list[int]:
        """Descriptors, for ``subprocess``'s ``pass_fds``: the claim then ends with the last of the processes."""
        return [one.fileno() for one in self._sockets]


def claim(names: Sequence[str], fraction: float, seconds: float, *, spread: bool = False) -> Claim | None:
    """So much, of 1, of the one that has least free beside it, as Ray hands out parts of GPUs; or, to ``spread``, most.

    Waits for it. None: no name has so much, in that time.
    """
    shares = max(1, math.floor(fraction * SHARES + 0.01))  # 0.3333 is a third
    end = time.monotonic() + seconds
    while True:
        with _alone():
            free = {name: _bind_all(name) for name in names}
            enough = [name for name in names if len(free[name]) >= shares]
            if enough:
                best = (max if spread else min)(enough, key=lambda name: len(free[name]))
                return Claim(best, free[best][:shares])
            del free
        if time.monotonic() >= end:
            return None
        time.sleep(0.1)


def _bind_all(name: str) -> list[socket.socket]:
    """All shares that nobody has."""
    return [bound for share in range(SHARES) if (bound := _bind(f"{name}/{share}")) is not None]


def _bind(name: str) -> socket.socket | None:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(f"\0{PREFIX}/{name}")
    except OSError as error:
        made.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return made


@contextmanager
def _alone() -> Iterator[None]:
    """One process at a time: two that take some parts each would stop each other."""
    end = time.monotonic() + 30
    while (lock := _bind("claiming")) is None:
        if time.monotonic() >= end:
            raise RuntimeError("another process has been claiming a device of this machine for 30 s: end it")
        time.sleep(0.01)
    try:
        yield
    finally:
        lock.close()
