#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes encoder_decoders/pegasus_*/: tiny random models of PEGASUS, as make_encoder_decoders.py writes those of other families.

    python3 tests/goldens/make_pegasus.py [--out DIR] [case ...]

Made with transformers 5.12.1. Positions are stored in the file's dtype, as save_pretrained writes them, but of the cases named "computed",
whose files have none, as those of older versions.
"""

import argparse
import pathlib
import shutil
import warnings

import make_encoder_decoders
import torch
import transformers
from make_encoder_decoders import MAX_LENGTH, Case, bart
from safetensors.torch import load_file, save_file

PEGASUS = transformers.PegasusForConditionalGeneration
SPECIAL = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "bos_token_id": None}
# What published configs have besides, which transformers no longer reads.
OLD_FIELDS = {
    "normalize_before": True,
    "normalize_embedding": False,
    "add_final_layer_norm": True,
    "static_position_embeddings": True,
    "extra_pos_embeddings": 1,
    "add_bias_logits": False,
    "force_bos_token_to_be_generated": False,
}
# As published models have them, but for the length.
SUMMARY = {"num_beams": 8, "length_penalty": 0.6, "max_length": MAX_LENGTH, "forced_eos_token_id": 1}

CASES = [
    Case(
        "pegasus_d27_h3_h9",
        221,
        PEGASUS,
        bart(27, (2, 3, 31), (1, 9, 19), 53, scale_embedding=True, activation_function="relu", **SPECIAL),
        (8, 3, 6),
        9,
    ),
    Case(
        "pegasus_d20_computed",
        222,
        PEGASUS,
        bart(20, (1, 5, 37), (2, 2, 23), 47, scale_embedding=True, activation_function="relu", **SPECIAL, **OLD_FIELDS),
        (5, 11),
        7,
        dtype=torch.bfloat16,
        generation=SUMMARY,
    ),
    Case(
        "pegasus_d15_untied_computed",
        223,
        PEGASUS,
        bart(15, (1, 3, 21), (2, 5, 26), 41, activation_function="gelu", tie_word_embeddings=False, forced_eos_token_id=None, **SPECIAL),
        (9, 9, 9),
        5,
        dtype=torch.float32,
        holes=True,
    ),
]


def position_tables(model):
    return [stack.embed_positions for stack in (model.model.encoder, model.model.decoder)]


def without_positions(path):
    kept = {name: tensor for name, tensor in load_file(path).items() if "embed_positions" not in name}
    save_file(kept, path, metadata={"format": "pt"})


def write(case, out):
    shutil.rmtree(out, ignore_errors=True)
    torch.manual_seed(case.seed)
    model = make_encoder_decoders.random_model(case).eval()
    with torch.no_grad():
        for table in position_tables(model):  # which the line above has made random
            table.weight.copy_(table.create_weight())
    make_encoder_decoders.train(model, case)
    model.to(case.dtype).save_pretrained(out)
    file = out / "model.safetensors"
    if "computed" in case.name:
        without_positions(file)
    file.chmod(0o644)
    model = PEGASUS.from_pretrained(out, attn_implementation="eager", dtype=torch.float64).eval()
    for table in position_tables(model):
        stored_dtype = torch.float32 if "computed" in case.name else case.dtype
        assert torch.equal(table.weight, table.create_weight().to(stored_dtype).to(torch.float64))
    make_encoder_decoders.forward_golden(model, case, out)
    make_encoder_decoders.generate_golden(model, case, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "encoder_decoders")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for case in CASES:
        if not arguments.cases or case.name in arguments.cases:
            write(case, arguments.out / case.name)


if __name__ == "__main__":
    main()
