#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times encode beside Hugging Face's tokenizers: the same tokenizer.json, the same text, one after the other, best of ten.

    scripts/tokenizer_speed.py build/release/tests/vkformer_tests TEXT FOLDER…

Each FOLDER has a tokenizer.json. Needs Python's tokenizers. The ids of both must be the same.
"""
import os
import subprocess
import sys
import time

from tokenizers import Tokenizer

ROUNDS = 10


def fnv(ids):
    value = 0xCBF29CE484222325
    for identifier in ids:
        for byte in identifier.to_bytes(4, "little"):
            value = ((value ^ byte) * 0x100000001B3) & (1 << 64) - 1
    return f"{value:016x}"


def ours(program, text, folder):
    environment = dict(os.environ, VKFORMER_SPEED_MODEL=folder, VKFORMER_SPEED_TEXT=text)
    output = subprocess.run([program, "[.speed]"], env=environment, capture_output=True, text=True, check=True).stdout
    seconds, count, mark = next(line for line in output.splitlines() if line.startswith("speed ")).split()[1:]
    return float(seconds), int(count), mark


def main():
    os.environ["RAYON_NUM_THREADS"] = os.environ["RAYON_RS_NUM_THREADS"] = "1"
    program, text, *folders = sys.argv[1:]
    content = open(text, encoding="utf-8", newline="").read()
    for folder in folders:
        best, theirs = float("inf"), float("inf")
        for _ in range(ROUNDS):
            tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))  # anew: it remembers words
            start = time.perf_counter()
            ids = tokenizer.encode(content).ids
            theirs = min(theirs, time.perf_counter() - start)
            seconds, count, mark = ours(program, text, folder)
            best = min(best, seconds)
        same = mark == fnv(ids)
        print(f"{os.path.basename(folder):16} {len(ids):8} tokens   tokenizers {len(ids) / theirs / 1e6:6.2f}   "
              f"vkformer {count / best / 1e6:6.2f} million tokens/s   {'same ids' if same else 'OTHER IDS'}")


main()
