#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes gguf_decoders/gemma4*.gguf: models of decoders/ as llama.cpp's converter would write them.

    python3 tests/goldens/make_gguf_gemma4.py [--out DIR]

The conventions are those of the converter of llama.cpp 0.7.0 (conversion/gemma.py); `tools/peers/llama_logits.cpp` runs the files in llama.cpp
itself. Needs the PyPI package gguf and safetensors with torch.
"""

import argparse
import json
import pathlib

import gguf
import numpy as np
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).resolve().parent
CASES = ("gemma4", "gemma4_dense", "gemma4_moe")
ARCH = "gemma4"
NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "embed_tokens_per_layer": "per_layer_token_embd",
    "per_layer_model_projection": "per_layer_model_proj",
    "per_layer_projection_norm": "per_layer_proj_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
    "post_feedforward_layernorm": "post_ffw_norm",
    "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
    "router.proj": "ffn_gate_inp",
}
# Without ".weight" in the folder.
WHOLE_NAMES = {
    "layer_scalar": "layer_output_scale.weight",
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight",
}


def renamed(name):
    stem = name.removeprefix("model.")
    block = ""
    if stem.startswith("layers."):
        _, layer, stem = stem.split(".", 2)
        block = f"blk.{layer}."
    return block + (WHOLE_NAMES.get(stem) or NAMES[stem.removesuffix(".weight")] + ".weight")


def write_metadata(writer, config):
    slides = [kind == "sliding_attention" for kind in config["layer_types"]]
    layers, shared, inner = len(slides), config["num_kv_shared_layers"], config["intermediate_size"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(layers)
    doubled = [inner if i < layers - shared else 2 * inner for i in range(layers)]
    writer.add_feed_forward_length(doubled if config["use_double_wide_mlp"] else inner)
    writer.add_head_count(config["num_attention_heads"])
    whole = config["num_global_key_value_heads"]
    narrow = config["num_key_value_heads"]
    writer.add_head_count_kv([narrow if slide else whole for slide in slides] if whole else narrow)
    writer.add_key_length(config["global_head_dim"])
    writer.add_value_length(config["global_head_dim"])
    writer.add_key_length_swa(config["head_dim"])
    writer.add_value_length_swa(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern(slides)
    writer.add_shared_kv_layers(shared)
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    ropes = config["rope_parameters"]
    writer.add_rope_freq_base(ropes["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(ropes["sliding_attention"]["rope_theta"])
    writer.add_rope_dimension_count(config["global_head_dim"])
    writer.add_rope_dimension_count_swa(config["head_dim"])
    if config["final_logit_softcapping"]:
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if config["enable_moe_block"]:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["top_k_experts"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    turned = int(config["global_head_dim"] * ropes["full_attention"]["partial_rotary_factor"] / 2)
    still = config["global_head_dim"] // 2 - turned
    writer.add_tensor("rope_freqs.weight", np.array([1.0] * turned + [1e30] * still, dtype=np.float32))


def write(case, out):
    folder = HERE / "decoders" / case
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(out / f"{case}.gguf", ARCH)
    write_metadata(writer, config)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        values = tensor.float().numpy()
        is_exact_half = values.ndim > 1 and np.array_equal(values.astype(np.float16).astype(np.float32), values)
        writer.add_tensor(renamed(name), values.astype(np.float16) if is_exact_half else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "gguf_decoders")
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    for case in CASES:
        write(case, args.out)


if __name__ == "__main__":
    main()
