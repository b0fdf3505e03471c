"""Copying strings of digits: the plainest task whose input can grow.

Training sees lengths of 1 to 30; the evaluation set goes on to 60. A string of ten digits and more practically never
comes up twice, so nothing can be learnt by heart.
"""

import random

TRAINING_LENGTHS = range(1, 31)
EVALUATION_LENGTHS = range(5, 61, 5)
EVALUATION_LINES = 40  # of each length


def draw(rng: random.Random, length: int) -> str:
    return "".join(rng.choices("0123456789", k=length))


def longest(progress: float) -> int:
    """The greatest length in training after `progress` (0 to 1) of the steps: it grows over the first two fifths."""
    first, last = 6, TRAINING_LENGTHS[-1]
    return min(last, first + int((last - first + 1) * progress / 0.4))


def evaluation_lines(seed: int = 2014) -> list[str]:
    rng = random.Random(seed)
    return [draw(rng, length) for length in EVALUATION_LENGTHS for _ in range(EVALUATION_LINES)]
