"""Scores the folders that history.py wrote: eval.tsv of both tasks, README.md with the figures, and goldens for the C++ tests.

    python history_report.py ../../samples/models/history ../../tests/goldens/history.json

Everything is read back from the folders, as a user would get it. The goldens are greedy outputs by PyTorch.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import MarianMTModel

from history import PRESETS, TASKS, Recurrent, Transformer, exact_match, translate
from recurrent import Config, Seq2Seq

GOLDEN_LINES = {"copy": (0, 45, 130, 200, 239, 280), "date": (0, 1, 2, 100, 250, 599)}
HEAD = """# The history of attention, in sixteen small models

Eight models of about 160,000 weights, each trained on two tasks by `tools/train/history.py` (MIT licence, like all of vkformer):
`copy`, strings of digits of 1 to 30 characters, and `date`, written dates to ISO 8601 (the forms of
`tools/train/dates.py`). Both are read and written character by character. Weights are stored as float16.
`samples/history` runs them side by side; `docs/attention.md` tells their story.

| folder | model | paper |
| --- | --- | --- |
| `lstm` | 4 stacked LSTM layers each way, the source read backwards, no attention | Sutskever et al. 2014 |
| `bahdanau` | bidirectional GRU encoder, additive attention asked by the previous state | Bahdanau et al. 2015 |
| `luong-dot`, `luong-general`, `luong-concat` | 2 LSTM layers each way, input feeding, attention asked by the current state | Luong et al. 2015 |
| `luong-local-m`, `luong-local-p` | the same with a window of 5 characters to each side: around the step's own number, or a predicted place | Luong et al. 2015 |
| `transformer` | 2 layers each way, 4 heads, sinusoidal positions (MarianMT) | Vaswani et al. 2017 |

All had the same budget: {steps} steps of 128 samples, one seed, nothing tuned for lengths beyond 30{exceptions}.
Exact match, in percent of whole outputs, greedy, PyTorch on the stored weights:
"""


def load(folder: Path) -> Recurrent | Transformer:
    fields = json.loads((folder / "config.json").read_text())
    if fields["model_type"] == "marian":
        model = Transformer.__new__(Transformer)
        model.model = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
        model.config = model.model.config
        return model
    model = Recurrent.__new__(Recurrent)
    model.config = Config.of(fields)
    model.model = Seq2Seq(model.config).eval()
    model.model.load_state_dict({name: value.float() for name, value in load_file(folder / "model.safetensors").items()})
    return model


def table(rows: dict[str, dict[str, float]], weights: dict[str, int]) -> str:
    lengths = list(next(iter(rows.values())))
    lines = [
        "| | weights | " + " | ".join(lengths) + " |",
        "| --- | ---: |" + " ---: |" * len(lengths),
    ]
    for name, scores in rows.items():
        cells = " | ".join(f"{100 * scores[length]:.1f}" if length in scores else "" for length in lengths)
        lines.append(f"| `{name}` | {weights[name]:,} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("golden", type=Path)
    parser.add_argument("--steps", type=int, default=2500, help="what history.py was given, for the README")
    parser.add_argument("--exceptions", default="", help="which folders had other budgets, for the README")
    args = parser.parse_args()
    torch.set_num_threads(1)
    text, goldens = HEAD.format(steps=f"{args.steps:,}", exceptions=args.exceptions), []
    for task_name, make_task in TASKS.items():
        lines = make_task().probe()
        (args.models / task_name / "eval.tsv").write_text(
            "".join(f"{source}\t{target}\n" for source, target in lines), encoding="utf-8"
        )
        rows, weights = {}, {}
        for preset in PRESETS:
            folder = args.models / task_name / preset
            if not folder.exists():
                continue
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            model = load(folder)
            rows[preset] = exact_match(model, tokenizer, lines)
            weights[preset] = sum(value.numel() for value in load_file(folder / "model.safetensors").values())
            chosen = [lines[i][0] for i in GOLDEN_LINES[task_name]]
            for source, output in zip(chosen, translate(model, tokenizer, chosen)):
                goldens.append({"model": f"{task_name}/{preset}", "input": source, "output": output})
            print(task_name, preset, f"{100 * rows[preset]['all']:.1f}", flush=True)
        what = "`copy`, by the length of the string" if task_name == "copy" else "`date`, held-out days, by the length of the text"
        text += f"\n{what}:\n\n{table(rows, weights)}\n"
    (args.models / "README.md").write_text(text, encoding="utf-8")
    rows = ",\n".join(" " + json.dumps(golden, ensure_ascii=False) for golden in goldens)
    args.golden.write_text(f"[\n{rows}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
