# SPDX-License-Identifier: MIT
"""Runs a command for as long as somebody holds the other end of standard input: GRACE COMMAND … A program of its own.

A replica of Ray Serve that is killed ends no process that it has started; the system does close its pipes. The command
is then told to end (SIGTERM), and killed after GRACE seconds. What else was handed to this process it has, too.
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
    grace, command = float(sys.argv[1]), sys.argv[2:]
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=lambda: ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),
    )
    told = threading.Event()  # a second SIGTERM would end the server at once

    def end_with_input() -> None:
        while os.read(0, 4096):
            pass
        told.set()

    def end(_signal: int, _frame: FrameType | None) -> None:
        told.set()

    def terminate() -> None:
        told.wait()
        child.terminate()
        try:
            child.wait(grace)
        except subprocess.TimeoutExpired:
            child.kill()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    for work in (end_with_input, terminate):
        threading.Thread(target=work, daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
