# SPDX-License-Identifier: MIT
"""Refuses subinterpreters: the extension module, loaded in a second interpreter, would take its classes from the first."""

import importlib


def is_main() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):  # of Python 3.13 and of 3.11
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() == interpreters.get_main())
    return True


if not is_main():
    raise ImportError("vkformer runs in the main interpreter alone, not in subinterpreters")
