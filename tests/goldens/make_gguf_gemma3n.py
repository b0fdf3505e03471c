#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes gguf_decoders/gemma3n*.gguf: models of decoders/ as llama.cpp's converter would write them.

    python3 tests/goldens/make_gguf_gemma3n.py [--out DIR]

The conventions are those of the converter of llama.cpp 0.7.0 (conversion/gemma.py), but for its number of streams, which is 4. Needs the
PyPI package gguf and safetensors with torch.
"""

import argparse
import json
import pathlib

import gguf
import make_gguf_gemma4
import numpy as np
import torch
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).resolve().parent
CASES = ("gemma3n", "gemma3n_whole")
make_gguf_gemma4.NAMES |= {
    "altup.router_norm": "altup_router_norm",
    "altup.modality_router": "altup_router",
    "altup.prediction_coefs": "altup_predict_coef",
    "altup.correction_coefs": "altup_correct_coef",
    "laurel.linear_left": "laurel_l",
    "laurel.linear_right": "laurel_r",
    "laurel.post_laurel_norm": "laurel_post_norm",
}
make_gguf_gemma4.WHOLE_NAMES |= {"altup.correct_output_scale": "altup_correct_scale.weight"}


def write_metadata(writer, config):
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["full_attention"]["rope_theta"])
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_altup_active_idx(config["altup_active_idx"])
    writer.add_altup_num_inputs(config["altup_num_inputs"])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_shared_kv_layers(config["num_kv_shared_layers"])
    parts = torch.tensor(config["activation_sparsity_pattern"], dtype=torch.float32)
    writer.add_activation_sparsity_scale(torch.distributions.normal.Normal(0, 1).icdf(parts).tolist())
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])


def add(writer, name, values):
    is_exact_half = values.ndim > 1 and np.array_equal(values.astype(np.float16).astype(np.float32), values)
    writer.add_tensor(name, values.astype(np.float16) if is_exact_half else values)


def write(case, out):
    folder = HERE / "decoders" / case
    config = json.loads((folder / "config.json").read_text())
    config = config.get("text_config", config)
    writer = gguf.GGUFWriter(out / f"{case}.gguf", "gemma3n")
    write_metadata(writer, config)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    stacks = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        name = name.replace("language_model.", "")
        if name == "lm_head.weight":
            continue
        values = tensor.float().numpy()
        if name.startswith("model.altup_"):
            which, index = name.removeprefix("model.").removesuffix(".weight").split(".")
            stacks.setdefault(which, {})[int(index)] = values
            continue
        add(writer, make_gguf_gemma4.renamed(name), values)
    for which, name in (("altup_projections", "altup_proj"), ("altup_unembed_projections", "altup_unembd_proj")):
        add(writer, name + ".weight", np.stack([stacks[which][i] for i in range(len(stacks[which]))]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "gguf_decoders")
    args = parser.parse_args()
    for case in CASES:
        write(case, args.out)


if __name__ == "__main__":
    main()
