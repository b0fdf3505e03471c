"""Scores shape-classifier on two draws of pictures that no training had, and writes its README.md and the goldens: one
picture of each shape with the logits that transformers gives.

    python vision_report.py ../../samples/models/shape-classifier ../../tests/goldens/shapes

Exits with 1 when either draw is below `--at-least`.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import ViTForImageClassification, ViTImageProcessor

import scenes
from vision import predict

CARD = Path(__file__).with_name("vision_card.md")


def drawn(seed: int, count: int) -> scenes.Pictures:
    return scenes.draw(np.random.default_rng(seed), count)


def percent(hits: np.ndarray) -> str:
    return f"{100 * hits.mean():.2f} %"


def table(labels: np.ndarray, found: np.ndarray) -> str:
    """A row for each shape: how often it was taken for what."""
    rows = []
    for label, name in enumerate(scenes.LABELS):
        counts = np.bincount(found[labels == label], minlength=len(scenes.LABELS))
        others = [f"{scenes.LABELS[i]} {n}" for i, n in enumerate(counts) if n and i != label]
        rows.append(f"| {name} | {counts.sum()} | {counts[label]} | {', '.join(others) or '–'} |")
    return "\n".join(rows)


def write_card(model: ViTForImageClassification, out: Path, count: int) -> list[float]:
    draws = [drawn(seed, count) for seed in (scenes.EVALUATION_SEED, scenes.SECOND_SEED)]
    found = [predict(model, draw) for draw in draws]
    hits = [answers == draw.labels for answers, draw in zip(found, draws)]
    fields = {
        "weights": f"{sum(p.numel() for p in model.parameters()):,}",
        "count": f"{count:,}",
        "first": percent(hits[0]),
        "second": percent(hits[1]),
        "table": table(draws[0].labels, found[0]),
    }
    text = CARD.read_text(encoding="utf-8")
    for key, value in fields.items():
        text = text.replace("{{" + key + "}}", value)
    (out / "README.md").write_text(text, encoding="utf-8")
    print(f"{out}: {fields['first']} and {fields['second']} of {count} pictures right")
    return [share.mean() for share in hits]


@torch.no_grad()
def write_goldens(model: ViTForImageClassification, folder: Path, out: Path) -> None:
    """The first picture of each shape in the second draw, through the folder's own processor."""
    out.mkdir(parents=True, exist_ok=True)
    pictures = drawn(scenes.SECOND_SEED, 200)
    processor = ViTImageProcessor.from_pretrained(folder)
    cases = []
    for label, name in enumerate(scenes.LABELS):
        first = int(np.argmax(pictures.labels == label))
        image = Image.fromarray(scenes.to_bytes(pictures.pixels[first]))
        image.save(out / f"{name}.png", optimize=True)
        logits = model(**processor(image, return_tensors="pt")).logits[0]
        cases.append({"shape": name, "found": scenes.LABELS[int(logits.argmax())], "logits": logits.tolist()})
    head = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32"
    rows = ",\n".join("  " + json.dumps(case) for case in cases)
    (out / "golden.json").write_text(f'{{\n "made_with": "{head}",\n "cases": [\n{rows}\n ]\n}}\n', encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("goldens", type=Path)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--at-least", type=float, default=0.97)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = ViTForImageClassification.from_pretrained(args.model).float().eval()
    shares = write_card(model, args.model, args.count)
    write_goldens(model, args.model, args.goldens)
    sys.exit(0 if min(shares) >= args.at_least else 1)


if __name__ == "__main__":
    main()
