#!/usr/bin/env python3
"""Writes prefixes.json: what generate() makes of the tiny encoder–decoders here where it is given the target's beginning.

    python3 tests/goldens/make_prefixes.py [--out FILE]

Sources and prefixes are drawn; the model runs in float64 what is in its file. An entry is kept if noise on the scores leaves its tokens
as they are. See README.md for the versions.
"""

import argparse
import json
import pathlib
import random
import warnings

import torch
import transformers
from make_marian import NOISE_LEVELS, Noise, run_generate

HERE = pathlib.Path(__file__).parent
MODELS = [
    "marian/relu_d30_h5_h3",
    "encoder_decoders/bart_d21_h3_h7",
    "encoder_decoders/mbart_d20_h5_h2",
    "encoder_decoders/m2m100_d26_h2",
    "encoder_decoders/t5_d22_relu",
    "encoder_decoders/pegasus_d27_h3_h9",
    "encoder_decoders/t5gemma_e24_d28",
]
OPTIONS = [
    {"num_beams": 1},
    {"num_beams": 1, "no_repeat_ngram_size": 2},
    {"num_beams": 3, "length_penalty": 2.0},
    {"num_beams": 4, "length_penalty": 0.6, "early_stopping": True, "min_length": 8},
    {"num_beams": 2, "early_stopping": "never"},
]
MAX_LENGTH = 14
ENTRIES = 3  # of each model and options


def entry(model, options, drawn):
    config = model.config
    length = drawn.randint(1, 9)
    source = [drawn.randrange(3, config.vocab_size - 3) for _ in range(length)]
    prefix = [drawn.randrange(3, config.vocab_size - 3) for _ in range(drawn.randint(1, 5))]
    start = model.generation_config.decoder_start_token_id
    if start is None:
        start = model.generation_config.bos_token_id
    asked = {"max_length": MAX_LENGTH, "forced_bos_token_id": None, "forced_eos_token_id": None, "bad_words_ids": None}
    asked |= options | {"decoder_input_ids": torch.tensor([[start, *prefix]])}
    ids = torch.tensor([source])
    mask = torch.ones_like(ids)
    tokens, scores = run_generate(model, ids, mask, asked)
    for trial in range(3):
        if run_generate(model, ids, mask, asked, Noise(NOISE_LEVELS[0], trial))[0] != tokens:
            return None
    found = {"source": source, "prefix": prefix, "options": options | {"max_length": MAX_LENGTH}, "tokens": tokens[0]}
    if scores:
        found["score"] = scores[0]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "prefixes.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    all_entries = []
    for index, name in enumerate(MODELS):
        # Eager, for the others know no soft caps.
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(HERE / name, attn_implementation="eager").double().eval()
        drawn = random.Random(index)
        for options in OPTIONS:
            kept = []
            while len(kept) < ENTRIES:
                if found := entry(model, options, drawn):
                    kept.append(found)
            all_entries.append({"model": name, "entries": kept})
        lengths = sorted(len(e["tokens"]) - len(e["prefix"]) - 1 for a in all_entries if a["model"] == name for e in a["entries"])
        print(f"{name}: {lengths} tokens behind the prefixes", flush=True)
    arguments.out.write_text(json.dumps(all_entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
