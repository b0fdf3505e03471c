#!/usr/bin/env python3
"""Writes decoder_text/token_rules.json and encoder_decoders/<case>/token_rules.json: what generate() makes of the fields of
generation_config.json that forbid, force and prefer tokens.

    python3 tests/goldens/make_token_rules.py [--out DIR]

The folders are those of make_decoders.py and make_encoder_decoders.py. The reference runs what is in the file in float64, and an
entry counts only if each of its rules changes what comes out. Written with transformers 5.12.1.
"""

import argparse
import json
import pathlib
import warnings

import torch
import transformers
from make_marian import margin, run_generate
from make_rules import CASES, repetitive_batch

PROMPTS = [[247, 236, 71, 98, 197], [28], [145, 259, 168, 27, 26, 100, 145, 194, 78]]
LENGTH = 14


def continued(model, prompt, config):
    """The new tokens, and the score of a beam search."""
    ids = torch.tensor([prompt])
    found = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        generation_config=transformers.GenerationConfig(**config),
        return_dict_in_generate=True,
        output_scores=True,
    )
    score = found.sequences_scores[0].item() if config.get("num_beams", 1) > 1 else None
    return found.sequences[0, len(prompt) :].tolist(), score


def language_rules(model):
    """The rules name tokens that come without them: the first of each prompt's answer, pairs and runs of three."""
    base = {"eos_token_id": [0, 2], "pad_token_id": 0, "max_new_tokens": LENGTH}
    free = [continued(model, prompt, base)[0] for prompt in PROMPTS]
    first = sorted({answer[0] for answer in free})
    pairs = [answer[3:5] for answer in free]
    threes = [free[0][7:10], free[2][5:8]]
    rules = {
        "suppress_tokens": [free[0][1], free[1][2], free[2][4], 77],
        "begin_suppress_tokens": first,
        "bad_words_ids": [[free[0][6]], [2], *pairs, *threes],
        "sequence_bias": [[[5], 9.0], [[free[2][1]], -4.5]],
        "forced_eos_token_id": 2,
    }
    yield from ([base | {name: value}, {name: None}] for name, value in rules.items())
    yield base | {"max_new_tokens": None, "max_length": 12, "forced_eos_token_id": 0}, {"forced_eos_token_id": None}
    yield base | {"forced_bos_token_id": 99}, {"forced_bos_token_id": None}
    together = rules | {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "min_new_tokens": 6}
    yield base | together, {name: None for name in rules}
    words = {"bad_words_ids": [*pairs, *threes], "begin_suppress_tokens": first, "sequence_bias": [[[5], 2.0]]}
    for beams in (2, 4):
        search = base | {"num_beams": beams, "early_stopping": beams == 2, "length_penalty": 0.7}
        found = [continued(model, prompt, search)[0] for prompt in PROMPTS]
        own = words | {"bad_words_ids": [*(answer[i : i + 2] for answer in found for i in (1, 4)), found[0][6:9]]}
        own |= {"suppress_tokens": [found[1][3]], "forced_eos_token_id": 2}
        yield search | own, {name: None for name in own}
    yield from phrases(model, base, free)


def phrases(model, base, free):
    """Phrases of several tokens. One that the prompt begins counts behind a prompt that has more tokens than its own: the first two of the
    bans do not (the first answers would be others), the third does."""
    begun = [PROMPTS[1] + free[1][:1], PROMPTS[0] + free[0][:1], PROMPTS[2][-2:] + free[2][:1]]
    assert continued(model, PROMPTS[1], base | {"bad_words_ids": begun[:2]})[0] == free[1]
    assert continued(model, PROMPTS[0], base | {"bad_words_ids": begun[:2]})[0] == free[0]
    yield base | {"bad_words_ids": begun}, {"bad_words_ids": None}
    biases = [
        [begun[2], -3.0],
        [begun[1], -30.0],  # no such place
        [free[0][3:5], -4.0],
        [free[1][2:5], -2.5],  # two that end alike: together they change what one does not
        [free[1][3:5], -2.5],
        [[free[2][6], 77], 12.0],
        [[77], -1.5],
    ]
    yield base | {"sequence_bias": biases}, {"sequence_bias": None}
    yield base | {"sequence_bias": biases, "bad_words_ids": begun, "repetition_penalty": 1.3}, {"sequence_bias": None}
    search = base | {"num_beams": 3, "length_penalty": 0.7}
    found = [continued(model, prompt, search)[0] for prompt in PROMPTS]
    biases = [[answer[i : i + n], bias] for answer in found for i, n, bias in ((0, 2, -1.5), (3, 3, -4.0), (5, 2, 2.0))]
    yield search | {"sequence_bias": biases + [[begun[2], -2.0]]}, {"sequence_bias": None}


def language_entries(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64)
    for config, without in language_rules(model.eval()):
        answers, scores = zip(*(continued(model, prompt, config) for prompt in PROMPTS))
        assert list(answers) != [continued(model, prompt, config | without)[0] for prompt in PROMPTS], config
        entry = {"config": {k: v for k, v in config.items() if v is not None}, "prompts": PROMPTS, "answers": answers}
        yield entry | ({"scores": scores} if scores[0] is not None else {})


def translator_rules(model, ids, mask):
    plain = {"forced_bos_token_id": None, "forced_eos_token_id": None, "max_length": 14, "num_beams": 1}
    for beams in (1, 3):
        search = plain | {"num_beams": beams}
        free = [row[1:] for row in run_generate(model, ids, mask, search)[0]]
        eos = model.config.eos_token_id
        long = max(free, key=lambda row: len([token for token in row if token != eos]))
        rules = {
            "suppress_tokens": [long[1]],
            "begin_suppress_tokens": sorted({row[0] for row in free}),
            "bad_words_ids": [long[2:4], long[0:2], long[4:7], [long[3]]],
            "sequence_bias": [[[7], 3.0], [[long[0]], -2.5]],
        }
        own = [[long[2:4], -6.0], [long[4:7], -5.0], [[long[3], 11], 9.0], [long[:2], -30.0]]
        for name, value in rules.items():
            yield search | {name: value}, {name: None}
        yield search | rules | {"forced_bos_token_id": 9}, {name: None for name in rules}
        yield search | {"sequence_bias": own}, {"sequence_bias": None}


def translator_entries(model, name):
    for seed in range(20):  # the first batch for which every rule changes something
        ids, mask = repetitive_batch([len(name), seed, 5], model.config.vocab_size, (12, 9))
        ids[mask == 0] = model.config.pad_token_id
        entries = []
        for options, without in translator_rules(model, ids, mask):
            sequences, scores = run_generate(model, ids, mask, options)
            changes = sequences != run_generate(model, ids, mask, options | without)[0]
            robust_to = margin(model, ids, mask, options, sequences) if changes else 0.0
            if robust_to == 0.0:
                break
            entry = {"input_ids": ids.tolist(), "attention_mask": mask.tolist(), "options": options}
            entry["sequences"] = sequences
            if scores is not None:
                entry["sequences_scores"] = scores
            entries.append(entry | {"robust_to": robust_to})
        else:
            return entries
    raise SystemExit(f"{name}: no batch that every rule changes")


def write(path, entries):
    path.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")
    print(path.parent.name, path.stat().st_size, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    out = parser.parse_args().out
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    write(out / "decoder_text/token_rules.json", list(language_entries(out / "decoder_text")))
    for name in ("bart_d21_h3_h7", "t5_d22_relu"):
        folder = out / "encoder_decoders" / name
        model = CASES[name].from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
        write(folder / "token_rules.json", translator_entries(model, name))


if __name__ == "__main__":
    main()
