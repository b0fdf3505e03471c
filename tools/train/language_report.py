"""Scores verse-writer, as its GGUF file has it, on the held-out chapters beside n-grams, lets it write, and writes its
README.md and the goldens: token ids and logits that transformers gives for a few prompts, in float64.

    python language_report.py ../../samples/models/verse-writer ../../tests/goldens/verse_writer.json \\
        --vkformer ../../build/release/vkformer

The tokenizer is trained anew, which gives the same one. Exits with 1 when the model is not better than the n-grams.
"""

import argparse
import json
import math
import subprocess
import sys
import textwrap
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from tokenizers import Tokenizer
from torch import nn
from transformers import LlamaForCausalLM

import language
import ngrams
import verses

CARD = Path(__file__).with_name("language_card.md")
FILE = "verse-writer-q8_0.gguf"
ORDERS = (5, 7)
PROMPTS = ("In the beginning", "And it came to pass", "The LORD is my", "Blessed are")  # of the goldens
EXAMPLES = (("In the beginning", 1), ("The king said unto the", 2), ("Blessed is the man", 3))  # and their seeds
TEMPERATURE, TOP_P, LENGTH = 0.7, 0.9, 80  # of the examples
GREEDY = 40  # tokens of the goldens
TIE = 2e-3  # of a golden, at least so far apart are the best two logits: else it ends before


class Logits(nn.Module):
    """As language.nats() calls a model."""

    def __init__(self, model: LlamaForCausalLM):
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids).logits


def check_tokenizer(tokenizer: Tokenizer, file: Path) -> None:
    """The file's tokens are those of the tokenizer."""
    field = gguf.GGUFReader(file).fields["tokenizer.ggml.tokens"]
    kept = [bytes(field.parts[part]).decode("utf-8") for part in field.data]
    if kept != [tokenizer.id_to_token(token) for token in range(tokenizer.get_vocab_size())]:
        raise SystemExit(f"{file} has other tokens")


def example(program: Path, prompt: str, seed: int) -> str:
    command = [program, "generate", "--quiet", "--device", "cpu", "--plain", "--echo", "-n", LENGTH]
    command += ["--temperature", TEMPERATURE, "--top-p", TOP_P, "--seed", seed, prompt]
    text = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
    verses_of_it = [textwrap.fill(line, 118, break_on_hyphens=False) for line in text.strip().split("\n")]
    quoted = "\n>\n".join(textwrap.indent(verse, "> ") for verse in verses_of_it)
    return f"`{prompt}`, seed {seed}:\n\n{quoted}"


def wrapped(text: str) -> str:
    """Paragraphs that the figures have made wider than a line, in lines again."""
    blocks = []
    for block in text.split("\n\n"):
        head, body = block.split("\n", 1) if block.startswith("## ") else ("", block)
        if body[:1].isalnum() and max(map(len, body.split("\n"))) > 120:
            body = textwrap.fill(body.replace("\n", " "), 120, break_on_hyphens=False)
        blocks.append(f"{head}\n{body}" if head else body)
    return "\n\n".join(blocks).rstrip() + "\n"


@torch.no_grad()
def golden_case(model: LlamaForCausalLM, tokenizer: Tokenizer, prompt: str) -> dict:
    """Greedy tokens one by one, each from a pass over everything before it."""
    end = tokenizer.token_to_id(language.END)
    ids = [end, *tokenizer.encode(prompt).ids]
    count, first = len(ids), None
    while len(ids) < count + GREEDY and ids[-1] != end:
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        first = logits if first is None else first
        best = logits.topk(2)
        if (best.values[0] - best.values[1]).item() < TIE:
            break
        ids.append(best.indices[0].item())
    return {
        "prompt": prompt,
        "input_ids": ids[:count],
        "greedy_ids": ids[count:],
        "text": tokenizer.decode(ids[count:]),
        "logits": [float(f"{value:.8g}") for value in first.tolist()],
    }


def write_goldens(model: LlamaForCausalLM, tokenizer: Tokenizer, out: Path) -> None:
    head = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float64"
    rows = ",\n".join("  " + json.dumps(golden_case(model, tokenizer, prompt)) for prompt in PROMPTS)
    out.write_text(f'{{\n "made_with": "{head}",\n "cases": [\n{rows}\n ]\n}}\n', encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("goldens", type=Path)
    parser.add_argument("--vkformer", type=Path, required=True, help="the program that writes the examples")
    parser.add_argument("--bible", default="bible", help="the program of verses.py (default: %(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    learnt, held_out = verses.split(verses.read(args.bible))
    model = LlamaForCausalLM.from_pretrained(args.model, gguf_file=FILE).eval()  # what the blocks stand for, in float32
    tokenizer = language.make_tokenizer([chapter.text for chapter in learnt], model.config.vocab_size)
    check_tokenizer(tokenizer, args.model / FILE)
    chapters, end = language.encode(tokenizer, held_out), tokenizer.token_to_id(language.END)
    characters, tokens = sum(len(chapter.text) for chapter in held_out), sum(map(len, chapters))
    length = model.config.max_position_embeddings

    nats = {"this model": language.nats(Logits(model), chapters, end, length)}
    for order in ORDERS:
        counted = ngrams.Ngrams(language.encode(tokenizer, learnt), order, model.config.vocab_size, end)
        nats[f"{order}-grams, interpolated, modified Kneser–Ney"] = counted.nats(chapters)
    table = "\n".join(
        f"| {name} | {math.exp(total / tokens):.2f} | {total / math.log(2) / characters:.3f} |"
        for name, total in nats.items()
    )
    fields = {
        "weights": f"{sum(p.numel() for p in model.parameters()):,}",
        "megabytes": f"{(args.model / FILE).stat().st_size / 1e6:.1f}",
        "layers": str(model.config.num_hidden_layers),
        "width": str(model.config.hidden_size),
        "heads": str(model.config.num_attention_heads),
        "ffn": str(model.config.intermediate_size),
        "vocabulary": f"{model.config.vocab_size:,}",
        "context": str(length),
        "temperature": str(TEMPERATURE),
        "top_p": str(TOP_P),
        "length": str(LENGTH),
        "learnt": f"{len(learnt):,}",
        "held_out": str(len(held_out)),
        "tokens": f"{tokens:,}",
        "names": ", ".join(chapter.name for chapter in held_out),
        "table": table,
        "examples": "\n\n".join(example(args.vkformer, *one) for one in EXAMPLES),
    }
    text = CARD.read_text(encoding="utf-8")
    for key, value in fields.items():
        text = text.replace("{{" + key + "}}", value)
    (args.model / "README.md").write_text(wrapped(text), encoding="utf-8")
    write_goldens(model.double(), tokenizer, args.goldens)
    print(table)
    totals = np.array(list(nats.values()))
    sys.exit(0 if totals[0] < totals[1:].min() else 1)


if __name__ == "__main__":
    main()
