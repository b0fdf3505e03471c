#!/usr/bin/env python3
"""Writes encoder_decoders/<case>/rules.json: what generate() makes of repetitive sources with min_length, min_new_tokens,
no_repeat_ngram_size and encoder_no_repeat_ngram_size, as summarisers ask for them.

    python3 tests/goldens/make_rules.py [--out DIR]

The folders are those of make_encoder_decoders.py, whose models answer a source that repeats itself with a target that does. The
reference runs what is in the file in float64. An entry counts only if the rules change what comes out.
"""

import argparse
import json
import pathlib
import warnings

import numpy as np
import torch
import transformers
from make_marian import margin, run_generate

CASES = {
    "bart_d21_h3_h7": transformers.BartForConditionalGeneration,
    "m2m100_d26_h2": transformers.M2M100ForConditionalGeneration,
    "t5_d22_relu": transformers.T5ForConditionalGeneration,
}
PLAIN = {"forced_bos_token_id": None, "forced_eos_token_id": None, "max_length": 18}
BEAMS = PLAIN | {"num_beams": 4, "early_stopping": True, "length_penalty": 2.0}  # as BART's summariser of CNN's news
RULES = [
    PLAIN | {"num_beams": 1, "no_repeat_ngram_size": 3},
    PLAIN | {"num_beams": 1, "no_repeat_ngram_size": 1, "min_new_tokens": 7},
    PLAIN | {"num_beams": 1, "min_length": 14},
    BEAMS | {"no_repeat_ngram_size": 3, "min_length": 9},
    BEAMS | {"no_repeat_ngram_size": 2, "num_beams": 3, "early_stopping": False},
    BEAMS | {"no_repeat_ngram_size": 1, "num_beams": 2, "length_penalty": 0.5},
    BEAMS | {"min_length": 12, "num_beams": 2, "forced_bos_token_id": 7},
    PLAIN | {"num_beams": 1, "encoder_no_repeat_ngram_size": 2},
    BEAMS | {"encoder_no_repeat_ngram_size": 3, "num_beams": 3, "min_length": 9},
    BEAMS | {"encoder_no_repeat_ngram_size": 1, "no_repeat_ngram_size": 2, "num_beams": 2},
]
NEUTRAL = {"encoder_no_repeat_ngram_size": 0, "no_repeat_ngram_size": 0, "min_length": 0, "min_new_tokens": None}


def repetitive_batch(seed, vocab, lengths):
    """Rows that go round in a few tokens, each with the end token behind it, padded on the right."""
    rng = np.random.default_rng(seed)
    ids, mask = np.ones((len(lengths), max(lengths)), np.int64), np.zeros((len(lengths), max(lengths)), np.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = np.resize(rng.integers(4, vocab - 1, rng.integers(1, 4)), length)
        mask[row, :length] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def entries_of(model, name):
    eos = model.config.eos_token_id
    for i, options in enumerate(RULES):
        for seed in range(100):
            ids, mask = repetitive_batch([len(name), i, seed], model.config.vocab_size, (12, 9))
            ids[mask == 0] = model.config.pad_token_id
            ids[torch.arange(len(ids)), mask.sum(1) - 1] = eos
            sequences, scores = run_generate(model, ids, mask, options)
            without = run_generate(model, ids, mask, options | NEUTRAL)[0]
            robust_to = margin(model, ids, mask, options, sequences) if sequences != without else 0.0
            if robust_to == 0.0:
                continue
            entry = {"input_ids": ids.tolist(), "attention_mask": mask.tolist(), "options": options}
            entry["sequences"] = sequences
            if scores is not None:
                entry["sequences_scores"] = scores
            yield entry | {"robust_to": robust_to}
            break


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "encoder_decoders")
    out = parser.parse_args().out
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for name, model_type in CASES.items():
        model = model_type.from_pretrained(out / name, attn_implementation="eager", torch_dtype=torch.float64).eval()
        entries = list(entries_of(model, name))
        assert len(entries) == len(RULES), name
        lines = ",\n".join(json.dumps(entry) for entry in entries)
        (out / name / "rules.json").write_text(f"[\n{lines}\n]\n")
        print(f"{name}: {[len(row) for entry in entries for row in entry['sequences']]}", flush=True)


if __name__ == "__main__":
    main()
