# SPDX-License-Identifier: MIT
"""The command line, a program beside the package: the wheel does not carry it."""

import os
import shutil

from ._inputs import Path


def find(given: Path | None, work: str) -> str:
    """``given``, else the environment variable VKFORMER_PROGRAM, else ``vkformer`` in PATH.

    Raises: FileNotFoundError (none of them; ``work`` says in the message what it is for).
    """
    if given is not None or os.environ.get("VKFORMER_PROGRAM"):
        wanted = os.fsdecode(given) if given is not None else os.environ["VKFORMER_PROGRAM"]
        if found := shutil.which(wanted):
            return found
        raise FileNotFoundError(f"{wanted} is no program that can be run")
    if found := shutil.which("vkformer"):
        return found
    raise FileNotFoundError(
        f"the program vkformer is not in PATH, and {work} its work: build and install it (README.md), or say where it is "
        "by program=… or VKFORMER_PROGRAM"
    )
