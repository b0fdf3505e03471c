"""Interpolated n-grams with modified Kneser–Ney smoothing (Chen and Goodman 1998): what counting alone reaches on the
chapters that language.py holds out, with the same tokens.

    python ngrams.py path/to/verse-writer/tokenizer.json --order 3 --order 5 --order 7
"""

import argparse
import math
from collections import Counter, defaultdict
from pathlib import Path

from tokenizers import Tokenizer

import language
import verses


class Ngrams:
    """log p of a token after up to `order` − 1 others. `start` stands before every text, once."""

    def __init__(self, texts: list[list[int]], order: int, vocabulary: int, start: int):
        self.order, self.vocabulary, self.start = order, vocabulary, start
        counts = [Counter() for _ in range(order + 1)]  # by length
        for text in texts:
            tokens = (start, *text)
            for last in range(1, len(tokens)):
                for length in range(1, min(order, last + 1) + 1):
                    counts[length][tokens[last + 1 - length : last + 1]] += 1
        for length in range(1, order):  # how many tokens were seen before it; but at a text's start, where none can be
            before = Counter(longer[1:] for longer in counts[length + 1])
            for gram in counts[length]:
                if gram[0] != start or length == 1:
                    counts[length][gram] = before[gram] or counts[length][gram]
        self.counts = counts
        self.discounts = [None, *(self._discounts(counts[length]) for length in range(1, order + 1))]
        self.totals = defaultdict(int)  # by context: the sum of its counts, and what is taken from them
        self.taken = defaultdict(float)
        for length in range(1, order + 1):
            for gram, count in counts[length].items():
                self.totals[gram[:-1]] += count
                self.taken[gram[:-1]] += self.discounts[length][min(count, 3)]

    @staticmethod
    def _discounts(counts: Counter) -> list[float]:
        ones, twos, threes, fours = (sum(count == n for count in counts.values()) for n in (1, 2, 3, 4))
        if 0 in (ones, twos, threes, fours):
            return [0.0, 0.5, 0.5, 0.5]  # the formula needs all four; single tokens may have none that is rare
        share = ones / (ones + 2 * twos)
        return [0.0, 1 - 2 * share * twos / ones, 2 - 3 * share * threes / twos, 3 - 4 * share * fours / threes]

    def probability(self, context: tuple[int, ...], token: int) -> float:
        found = 1 / self.vocabulary
        for length in range(1, min(self.order, len(context) + 1) + 1):
            seen = context[len(context) + 1 - length :]
            total = self.totals.get(seen)
            if total is None:  # nor was any longer one
                break
            count = self.counts[length].get((*seen, token), 0)
            found = (count - self.discounts[length][min(count, 3)] + self.taken[seen] * found) / total
        return found

    def nats(self, texts: list[list[int]]) -> float:
        total = 0.0
        for text in texts:
            tokens = (self.start, *text)
            for last in range(1, len(tokens)):
                total -= math.log(self.probability(tokens[max(0, last + 1 - self.order) : last], tokens[last]))
        return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--order", type=int, action="append", help="repeatable (default: 5)")
    parser.add_argument("--bible", default="bible", help="the program of verses.py (default: %(default)s)")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    learnt, held_out = verses.split(verses.read(args.bible))
    characters = sum(len(chapter.text) for chapter in held_out)
    learnt, held_out = language.encode(tokenizer, learnt), language.encode(tokenizer, held_out)
    tokens = sum(map(len, held_out))
    for order in args.order or [5]:
        ngrams = Ngrams(learnt, order, tokenizer.get_vocab_size(), tokenizer.token_to_id(language.END))
        nats = ngrams.nats(held_out)
        print(
            f"{order}-grams: perplexity {math.exp(nats / tokens):.2f}, "
            f"{nats / math.log(2) / characters:.4f} bits a character"
        )


if __name__ == "__main__":
    main()
