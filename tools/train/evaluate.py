"""Scores a model folder on 2,000 inputs with held-out days, and writes eval.tsv and the model card beside the weights.

    python evaluate.py ../../samples/models/date-normalizer

Exits with 1 when the exact match is below `--at-least`.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import torch

import dates
import folder

SECOND_SEED = 99  # a draw that decided nothing during training: a second opinion in the card
CARD = Path(__file__).with_name("model_card.md")


def write_tsv(path: Path, samples: list[dates.Sample]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for sample in samples:
            assert "\t" not in sample.text and "\n" not in sample.text
            file.write(f"{sample.text}\t{sample.iso}\n")


def share(hits: list[bool]) -> str:
    return f"{100 * sum(hits) / len(hits):.2f} %"


def card_fields(samples: list[dates.Sample], greedy: list[bool], beam: list[bool]) -> dict[str, str]:
    rows = defaultdict(list)
    for sample, hit in zip(samples, greedy):
        rows[sample.form].append(hit)
    table = "\n".join(
        f"| `{form.name}` | {len(rows[form.name])} | {sum(rows[form.name])} |"
        for form in dates.FORMS
        if rows[form.name]
    )
    by_slips = [
        [hit for sample, hit in zip(samples, greedy) if bool(sample.slips) is slipped] for slipped in (False, True)
    ]
    return {
        "count": f"{len(samples):,}",
        "greedy": share(greedy),
        "beam": share(beam),
        "beams": str(folder.BEAMS),
        "table": table,
        "clean_count": f"{len(by_slips[0]):,}",
        "clean": share(by_slips[0]),
        "slipped_count": f"{len(by_slips[1]):,}",
        "slipped": share(by_slips[1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--at-least", type=float, default=0.995)
    parser.add_argument("--dry", action="store_true", help="print only; write neither eval.tsv nor the card")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    samples = dates.evaluation_samples(args.count)
    model, tokenizer = folder.load(args.model)
    texts = [sample.text for sample in samples]
    hits = {}
    for beams in (1, folder.BEAMS):
        outputs = folder.translate(model, tokenizer, texts, beams)
        hits[beams] = [output == sample.iso for output, sample in zip(outputs, samples)]
        for output, sample in zip(outputs, samples):
            if output != sample.iso:
                print(f"beams {beams}  {sample.text!r}: {output}, expected {sample.iso}  ({sample.form})")
    fields = card_fields(samples, hits[1], hits[folder.BEAMS])
    second = folder.exact_match(model, tokenizer, dates.evaluation_samples(args.count, SECOND_SEED))
    fields["second"] = f"{100 * second:.2f} %"
    print(
        f"greedy {fields['greedy']}, {fields['beams']} beams {fields['beam']}, without slips {fields['clean']}, "
        f"with {fields['slipped']}, second draw {fields['second']}"
    )
    if not args.dry:
        write_tsv(args.model / "eval.tsv", samples)
        card = CARD.read_text(encoding="utf-8")
        for key, value in fields.items():
            card = card.replace("{{" + key + "}}", value)
        (args.model / "README.md").write_text(card, encoding="utf-8")
    sys.exit(0 if min(sum(hit) for hit in hits.values()) >= args.at_least * len(samples) else 1)


if __name__ == "__main__":
    main()
