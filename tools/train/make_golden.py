"""Writes what Hugging Face `generate` gives for the first lines of a model's eval.tsv: token ids, greedy and with
beams.

    python make_golden.py ../../samples/models/date-normalizer ../../tests/goldens/date_normalizer.json

Ids are as `generate` returns them, with the decoder's start token in front. Each line is run alone, without padding.
"""

import argparse
import json
from pathlib import Path

import torch
import transformers

import folder


@torch.no_grad()
def golden_case(model, tokenizer, text: str, expected: str) -> dict:
    encoded = tokenizer(text, return_tensors="pt")
    greedy = model.generate(**encoded, num_beams=1, do_sample=False)
    beam = model.generate(
        **encoded, num_beams=folder.BEAMS, do_sample=False, return_dict_in_generate=True, output_scores=True
    )
    return {
        "input": text,
        "expected": expected,
        "input_ids": encoded.input_ids[0].tolist(),
        "greedy_ids": greedy[0].tolist(),
        "beam_ids": beam.sequences[0].tolist(),
        "beam_score": beam.sequences_scores[0].item(),
        "text": tokenizer.decode(greedy[0], skip_special_tokens=True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=64)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = folder.load(args.model)
    lines = (args.model / "eval.tsv").read_text(encoding="utf-8").split("\n")[: args.count]
    golden = {
        "model": args.model.name,
        "made_with": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32",
        "num_beams": folder.BEAMS,
        "cases": [golden_case(model, tokenizer, *line.split("\t")) for line in lines],
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    head = {key: value for key, value in golden.items() if key != "cases"}
    rows = ",\n".join(
        "  " + json.dumps(case, ensure_ascii=False) for case in golden["cases"]
    )  # one case a line: short diffs
    args.out.write_text(json.dumps(head, indent=1)[:-2] + ',\n "cases": [\n' + rows + "\n ]\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
