# SPDX-License-Identifier: MIT
"""Devices and processor cores of one machine, shared out among the processes that work on it.

A claim is a lock of a file, which the system gives back when the process ends, however it ends: a worker that was
killed leaves nothing behind, and the one that comes in its place finds its device free.
"""

import fcntl
import math
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

#: In how many parts a device can be claimed.
SHARES = 12


class Claim:
    """Parts of what is called ``name``. Released by ``release()``, or with the process."""

    def __init__(self, name: str, files: list[int]) -> None:
        self.name = name
        self._files = files

    def release(self) -> None:
        _close(self._files)
        self._files = []


def claim(names: Sequence[str], fraction: float, seconds: float) -> Claim | None:
    """So much, of 1, of the one that has most free; waits for it. None: none of them has so much, in that time."""
    shares = max(1, math.floor(fraction * SHARES + 0.01))  # 0.3333 is a third
    end = time.monotonic() + seconds
    while True:
        with _alone() as folder:
            free = {name: _lock_all(folder, name) for name in names}
            best = max(free, key=lambda name: len(free[name]), default="")
            taken, free[best] = free.get(best, [])[:shares], free.get(best, [])[shares:]
            for files in free.values():
                _close(files)
        if len(taken) == shares:
            return Claim(best, taken)
        _close(taken)
        if time.monotonic() >= end:
            return None
        time.sleep(0.1)


def _lock_all(folder: Path, name: str) -> list[int]:
    """All of its files that nobody has locked, locked."""
    files: list[int] = []
    for share in range(SHARES):
        file = _open(folder / f"{name}.{share}")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            files.append(file)
        except BlockingIOError:
            os.close(file)
    return files


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


@contextmanager
def _alone() -> Iterator[Path]:
    """The folder of the locks, for one process at a time: two that take some parts each would stop each other."""
    folder = Path(tempfile.gettempdir()) / f"vkformer-claims-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise RuntimeError(f"{folder} is not a folder of this user alone: remove it, or set TMPDIR")
    file = _open(folder / "lock")
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(file)


def _open(path: Path) -> int:
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
