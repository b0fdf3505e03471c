"""The text of verse-writer: the King James Bible, verse by verse, of Debian's package bible-kjv-text.

    apt install bible-kjv          # the program, 4.38, which brings the text, bible-kjv-text 4.38
    python verses.py               # counts, and the chapters that are held out

The package keeps the text compressed; `bible -f` prints it, a line for each verse with its place in front (`Ge1:1 In
the beginning …`). A chapter is its verses, a line each, without the places. Of the 1,189 chapters every 33rd, from the
17th on, is held out: neither the weights nor the tokenizer have seen it.
"""

import argparse
import hashlib
import itertools
import re
import subprocess
from dataclasses import dataclass

WHOLE = "gen1:1-rev22:21"
SHA256 = "cd45f0c9cedab8e4439bd6486c8952c77cc8b0ecc5d1f6ae3513f2039f47229d"  # of all that `bible -f` prints
EVERY, FIRST = 33, 16  # which chapters are held out
VERSE = re.compile(r"(.*?\d+):\d+ (.*)")


@dataclass(frozen=True)
class Chapter:
    name: str  # Ge1
    text: str  # a line for each verse, none at the end


def read(program: str = "bible") -> list[Chapter]:
    """All chapters in their order. Refuses a text that is not the one that the shipped model had."""
    printed = subprocess.run([program, "-f", WHOLE], capture_output=True, check=True).stdout
    found = hashlib.sha256(printed).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{program} -f {WHOLE}: another text, SHA-256 {found} and not {SHA256}")
    verses = [VERSE.fullmatch(line).groups() for line in printed.decode("ascii").splitlines()]
    return [
        Chapter(name, "\n".join(text for _, text in group))
        for name, group in itertools.groupby(verses, key=lambda verse: verse[0])
    ]


def split(chapters: list[Chapter]) -> tuple[list[Chapter], list[Chapter]]:
    """Those to learn from, and those that are held out."""
    held_out = chapters[FIRST::EVERY]
    return [chapter for chapter in chapters if chapter not in held_out], held_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bible", default="bible", help="the program (default: %(default)s)")
    for name, chapters in zip(("learnt", "held out"), split(read(parser.parse_args().bible))):
        print(f"{name}: {len(chapters)} chapters, {sum(len(chapter.text) for chapter in chapters):,} characters")
    print(*(chapter.name for chapter in chapters))


if __name__ == "__main__":
    main()
