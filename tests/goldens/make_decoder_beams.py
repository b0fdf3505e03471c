#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/<case>/beams.json: what transformers' generate() finds with num_beams in the models of decoders/.

    python3 tests/goldens/make_decoder_beams.py [--out DIR] [case ...]

The reference computes in float64 with the weights of the file. A prompt is taken whose result stays the same when noise is
added to the log-probabilities, so that float32 must find it, too. See README.md for versions.
"""

import argparse
import json
import pathlib
import warnings

import torch
import transformers

PROMPT_TRIES = 25
NOISE = 1e-4  # standard deviation, of log-probabilities
NOISY_RUNS = 3

# (prompt length, what generate() is given)
SEARCHES = [
    (7, dict(num_beams=4, max_new_tokens=12)),
    (1, dict(num_beams=3, max_new_tokens=9, length_penalty=0.0)),
    (19, dict(num_beams=5, max_new_tokens=14, eos_token_id=[7], early_stopping=True)),
    (5, dict(num_beams=2, max_new_tokens=20, eos_token_id=[3, 11, 40], length_penalty=2.0, early_stopping="never")),
    (9, dict(num_beams=4, max_new_tokens=16, eos_token_id=[5, 29], length_penalty=-0.5)),
    (11, dict(num_beams=3, max_new_tokens=16, eos_token_id=[2, 31], repetition_penalty=1.3, no_repeat_ngram_size=2, min_new_tokens=6)),
]
CASES = ["llama_gqa_odd", "gpt2", "gemma3"]


class Noise(transformers.LogitsProcessor):
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, input_ids, scores):
        return scores + NOISE * torch.randn(scores.shape, generator=self.generator, dtype=scores.dtype)


def search(model, prompt, options, noise_seed=None):
    processors = [] if noise_seed is None else [Noise(noise_seed)]
    with torch.no_grad():
        found = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),  # else the pad token is masked in the prompt
            do_sample=False,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
            logits_processor=transformers.LogitsProcessorList(processors),
            **options,
        )
    return found.sequences[0, len(prompt) :].tolist(), found.sequences_scores[0].item()


def find(model, length, options, random, must_end):
    for _ in range(PROMPT_TRIES):
        prompt = torch.randint(0, model.config.vocab_size, (length,), generator=random).tolist()
        tokens, score = search(model, prompt, options)
        if must_end and (tokens[-1] not in options["eos_token_id"] or len(tokens) < 3):
            continue
        if all(search(model, prompt, options, seed)[0] == tokens for seed in range(NOISY_RUNS)):
            return {"options": options, "prompt": prompt, "continuation": tokens, "score": score}
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    for case in args.cases:
        folder = args.out / "decoders" / case
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
        random = torch.Generator().manual_seed(len(case))
        entries = []
        for length, options in SEARCHES:
            has_ends = "eos_token_id" in options
            entry = (has_ends and find(model, length, options, random, True)) or find(model, length, options, random, False)
            if entry is None:
                raise SystemExit(f"{case}: no robust prompt for {options}")
            entries.append(entry)
            print(case, options["num_beams"], entry["continuation"], round(entry["score"], 4))
        lines = ",\n".join(json.dumps(entry) for entry in entries)
        (folder / "beams.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
