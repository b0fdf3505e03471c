#!/usr/bin/env python3
"""Writes speech/<case>/beams.json: what generate() makes of the clips of make_speech.py's folders with beams and with prompts.

    python3 tests/goldens/make_speech_beams.py [--out DIR] [case ...]

Whole windows without times, and sound of several windows with them. The reference runs in float64; in float32 the same tokens must come,
so that no choice is closer than rounding. See README.md for the versions.
"""

import argparse
import json
import pathlib
import warnings

import tokenizers
import torch
import transformers
from safetensors import safe_open

TOKENS = 24  # to generate for a window without times
UNTIMED = {  # options of generate() for each clip
    "whisper_d20_untied": [{"num_beams": 2}, {"num_beams": 5, "length_penalty": 0.3}],
    "whisper_texts": [{"num_beams": 3}, {"num_beams": 4, "early_stopping": True, "language": "de"}, {"num_beams": 32}],
    "whisper_times_414": [{"num_beams": 5}, {"num_beams": 3, "renormalize_logits": True}],
}
PROMPT = "The cat, der Hund."
LONG = " ".join(["Nous voyons der Apfel."] * 9)  # than half of the positions
TIMED = {
    "whisper_times_414": [
        {"num_beams": 2},
        {"num_beams": 5},
        {"num_beams": 3, "condition_on_prev_tokens": True},
        {"num_beams": 1, "prompt": PROMPT},
        {"num_beams": 1, "prompt": PROMPT, "condition_on_prev_tokens": True},
        {"num_beams": 1, "prompt": LONG, "condition_on_prev_tokens": True},
    ],
    "whisper_times_423": [
        {"num_beams": 4},
        {"num_beams": 5, "length_penalty": 2.0},
        {"num_beams": 3, "prompt": PROMPT},
        {"num_beams": 2, "prompt": PROMPT, "condition_on_prev_tokens": True},
    ],
}


def load(folder, dtype):
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager", torch_dtype=dtype).eval()
    return model


def windows(model, features, options):
    """Tokens of one window with what the decoder was given, what they are worth, and each that was generated."""
    found = model.generate(
        features, force_unique_generate_call=True, max_new_tokens=TOKENS, return_dict_in_generate=True, output_scores=True, **options
    )
    row, score = found["sequences"][0].tolist(), float(found["sequences_scores"][0])
    # generate() drops what it would take to compute_transition_scores(). The rules of a search let log-probabilities be but for −∞.
    first = row.index(model.generation_config.no_timestamps_token_id) + 1
    with torch.no_grad():
        log_probs = model(input_features=features, decoder_input_ids=torch.tensor([row[:-1]])).logits[0].log_softmax(-1)
    each = [log_probs[at - 1, row[at]].item() for at in range(first, len(row))]
    if options.get("renormalize_logits"):
        return row, score, None
    assert abs(sum(each) - score * len(each) ** options.get("length_penalty", 1.0)) < 1e-4
    return row, score, [round(value, 6) for value in each]


def segments(model, features, options):
    found = model.generate(features, return_timestamps=True, return_segments=True, temperature=(0.0,), **options)
    return [
        {"start": round(float(s["start"]), 6), "end": round(float(s["end"]), 6), "tokens": s["tokens"].tolist()}
        for s in found["segments"][0]
    ]


def with_prompt(options, tokenizer):
    """As WhisperProcessor.get_prompt_ids() has it."""
    if "prompt" not in options:
        return options
    ids = [tokenizer.token_to_id("<|startofprev|>"), *tokenizer.encode(" " + options["prompt"]).ids]
    return {name: value for name, value in options.items() if name != "prompt"} | {"prompt_ids": torch.tensor(ids)}


def make_case(folder):
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    models = [load(folder, dtype) for dtype in (torch.float64, torch.float32)]
    entries = {"windows": [], "timed": []}
    with safe_open(folder / "golden.safetensors", "np") as golden:
        clips = {name: golden.get_tensor(name).astype("float32") for name in golden.keys() if name.startswith(("clip", "timed"))}
    for name, samples in sorted(clips.items()):
        is_timed = name.startswith("timed")
        wanted = (TIMED if is_timed else UNTIMED).get(folder.name, [])
        more = {"truncation": False, "padding": "longest"} if is_timed else {}
        features = extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt", **more).input_features
        for options in wanted:
            run = segments if is_timed else windows
            found, again = (run(model, features.to(model.dtype), with_prompt(options, tokenizer)) for model in models)
            entry = {"clip": name, "options": options}
            if is_timed:
                assert found == again, (name, options)
                entries["timed"].append(entry | {"segments": found})
            else:
                assert found[0] == again[0], (name, options)
                entries["windows"].append(entry | {"tokens": found[0], "score": found[1], "log_probs": found[2]})
            print(f"    {name} {options}: {found if not is_timed else len(found)}", flush=True)
    lines = [f'"{key}": [\n' + ",\n".join(json.dumps(entry) for entry in value) + "\n]" for key, value in entries.items()]
    (folder / "beams.json").write_text("{" + ",\n".join(lines) + "}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "speech")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for name in sorted(UNTIMED | TIMED):
        if not arguments.cases or name in arguments.cases:
            print(name, flush=True)
            make_case(arguments.out / name)


if __name__ == "__main__":
    main()
