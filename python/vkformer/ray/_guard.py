# SPDX-License-Identifier: MIT
"""Runs a command for as long as somebody holds the other end of standard input. A program of its own.

A replica of Ray Serve that is killed ends no process that it has started; the system does close its pipes.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

_PR_SET_PDEATHSIG = 1


def main() -> int:
    child = subprocess.Popen(
        sys.argv[1:],
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),
    )

    def end_with_input() -> None:
        while os.read(0, 4096):
            pass
        child.terminate()

    def end(_signal: int, _frame: FrameType | None) -> None:
        child.terminate()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    threading.Thread(target=end_with_input, daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
