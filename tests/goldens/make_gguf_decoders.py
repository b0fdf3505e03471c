#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes gguf_decoders/<case>.gguf: models of decoders/ as llama.cpp's converter would write them.

    python3 tests/goldens/make_gguf_decoders.py [--out DIR] [case ...]

The conventions (names, permuted rows, gains with their one added, tables of divisors) are those of convert_hf_to_gguf.py in llama.cpp
0.7.0; `tools/peers/llama_logits.cpp` runs the files in llama.cpp itself. Needs the PyPI package gguf and safetensors with torch.
"""

import argparse
import json
import math
import pathlib
import re

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).resolve().parent
CASES = {
    "llama_gqa_odd": "llama",
    "llama3_scaled_bf16": "llama",
    "llama_yarn": "llama",
    "smollm3": "smollm3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_scaled": "gemma3",
    "phi3": "phi3",  # llama.cpp leaves the window of this one out
    "phi3_longrope": "phi3",
    "gpt2": "gpt2",
    "mixtral": "llama",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "olmoe": "olmoe",
    "gpt_oss": "gpt-oss",
    "gpt_oss_mxfp4": "gpt-oss",
    "granite": "granite",
    "granite_moe": "granitemoe",
    "granite_moe_shared": "granitemoe",
    "granite_hybrid": "granitehybrid",
    "granite_hybrid_moe": "granitehybrid",
    "nemotron_h": "nemotron_h",
    "nemotron_h_moe": "nemotron_h_moe",
    "lfm2": "lfm2",
    "lfm2_moe": "lfm2moe",
    "qwen3_5": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "qwen3_next": "qwen3next",
    "deepseek_v2": "deepseek2",  # as files were before the converter took the heads' keys and values apart
    "deepseek_v2_groups": "deepseek2",
    "deepseek_v3": "deepseek2",
    "olmo2": "olmo2",
    "olmo3_listed": "olmo2",
    "olmo3_yarn": "olmo2",
    "starcoder2": "starcoder2",  # the converter and llama.cpp leave the window out
    "phi": "phi2",
    "gpt_neox_tanh": "gptneox",
    "gpt_neox_serial": "gptneox",  # llama.cpp asks for biases, and the converter leaves out how positions are stretched
}
EXPANDED = ("deepseek_v2",)
NEIGHBOURS = ("llama", "smollm3", "granite", "granitemoe", "granitehybrid")  # which turn neighbours together
NEMOTRON = ("nemotron_h", "nemotron_h_moe")
LFM2 = ("lfm2", "lfm2moe")
PLAIN = ("starcoder2", "phi2", "gptneox")
HYBRIDS = ("qwen35", "qwen35moe", "qwen3next")
LLAMA_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "block_sparse_moe.router.layer": "ffn_gate_inp",
    "block_sparse_moe.output_linear": "ffn_down_exps",
    "shared_mlp.output_linear": "ffn_down_shexp",
    "gate_exps": "ffn_gate_exps",
    "gate_shexp": "ffn_gate_shexp",
    "up_exps": "ffn_up_exps",
    "up_shexp": "ffn_up_shexp",
    "mlp.router": "ffn_gate_inp",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "self_attn.dense": "attn_output",
    "attention.query_key_value": "attn_qkv",
    "attention.dense": "attn_output",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
    "mlp.dense_h_to_4h": "ffn_up",
    "mlp.dense_4h_to_h": "ffn_down",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "operator_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "conv.conv": "shortconv.conv",
    "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj",
    "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "feed_forward.gate": "ffn_gate_inp",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_ba": "ssm_ba",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
    "mamba.in_proj": "ssm_in",
    "mamba.conv1d": "ssm_conv1d",
    "mamba.norm": "ssm_norm",
    "mamba.out_proj": "ssm_out",
    "norm": "attn_norm",
    "mixer.in_proj": "ssm_in",
    "mixer.conv1d": "ssm_conv1d",
    "mixer.norm": "ssm_norm",
    "mixer.out_proj": "ssm_out",
    "mixer.q_proj": "attn_q",
    "mixer.k_proj": "attn_k",
    "mixer.v_proj": "attn_v",
    "mixer.o_proj": "attn_output",
    "mixer.up_proj": "ffn_up",
    "mixer.down_proj": "ffn_down",
    "mixer.gate": "ffn_gate_inp",
    "mixer.shared_experts.up_proj": "ffn_up_shexp",
    "mixer.shared_experts.down_proj": "ffn_down_shexp",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp",
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b",
    "self_attn.k_b_proj": "attn_k_b",
    "self_attn.v_b_proj": "attn_v_b",
    "ffn_down": "ffn_down",
    "gate": "ffn_gate",
    "up": "ffn_up",
}
TOP_NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "wte": "token_embd",
    "wpe": "position_embd",
    "ln_f": "output_norm",
    "embedding_norm": "token_embd_norm",
    "embedding": "token_embd",
    "norm_f": "output_norm",
    "embed_in": "token_embd",
    "embed_out": "output",
    "final_layer_norm": "output_norm",
    "final_layernorm": "output_norm",
}


EXPERT_NAMES = {"gate_proj": "gate", "w1": "gate", "up_proj": "up", "w3": "up", "down_proj": "down", "w2": "down"}


def stack_experts(weights):
    """One tensor of all experts' in place of one for each: blk.0.ffn_gate_exps."""
    stacks, others = {}, {}
    for name, tensor in weights.items():
        found = re.fullmatch(r"model\.layers\.(\d+)\.(?:mlp|block_sparse_moe|feed_forward|mixer)\.experts\.(\d+)\.(\w+)\.weight", name)
        if found:
            layer, expert, part = found.groups()
            stacks.setdefault(f"blk.{layer}.ffn_{EXPERT_NAMES[part]}_exps.weight", {})[int(expert)] = tensor
        else:
            others[name] = tensor
    return others, {name: torch.stack([experts[e] for e in range(len(experts))]) for name, experts in stacks.items()}


def in_ggml_order(blocks, scales):
    """MXFP4 whose bytes hold neighbours → blocks of 17 bytes, a byte of which holds elements i and i + 16."""
    nibbles = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    packed = nibbles[..., :16] | nibbles[..., 16:] << 4
    return np.concatenate([scales[..., None], packed], axis=-1).reshape(*blocks.shape[:2], -1)


def add_gpt_oss_experts(writer, weights):
    """Gates and their other halves, which lie in turns, apart from each other; what is left of the weights."""
    others = {}
    for name, tensor in weights.items():
        found = re.fullmatch(r"model\.layers\.(\d+)\.mlp\.experts\.(gate_up|down)_proj(_bias|_blocks)?", name)
        if not found:
            if not name.endswith("_scales"):
                others[name] = tensor
            continue
        layer, part, kind = found.groups()
        if kind == "_blocks":
            rows = in_ggml_order(tensor.numpy(), weights[name.replace("_blocks", "_scales")].numpy())
        else:
            values = tensor.float().numpy()
            rows = values if kind == "_bias" else np.ascontiguousarray(values.swapaxes(1, 2))
        for target, some in [("down", rows)] if part == "down" else [("gate", rows[:, ::2]), ("up", rows[:, 1::2])]:
            end = "bias" if kind == "_bias" else "weight"
            raw = gguf.GGMLQuantizationType.MXFP4 if kind == "_blocks" else None
            writer.add_tensor(f"blk.{layer}.ffn_{target}_exps.{end}", np.ascontiguousarray(some), raw_dtype=raw)
    return others


def in_turns(rows, config, dim=1):
    """Heads of values of the delta rule, grouped by their heads of keys → one of each group after the other, as ggml repeats the keys."""
    groups = config["linear_num_key_heads"]
    each = config["linear_num_value_heads"] // groups
    return rows.reshape(groups, each, dim, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


def delta_rule_of(weights, arch, config):
    """The tensors of delta rules as the converter has them, those of Qwen 3.5 with the values' heads in turns; experts' stacks taken apart."""
    keys, values = config["linear_num_key_heads"] * config["linear_key_head_dim"], config["linear_value_head_dim"]
    turn = in_turns if arch != "qwen3next" else lambda rows, config, dim=1: rows
    out = {}
    for name, tensor in weights.items():
        stem = name.rpartition(".")[0]
        if name.endswith("mlp.experts.gate_up_proj"):
            half = tensor.shape[1] // 2
            for e in range(tensor.shape[0]):
                out[f"{stem}.{e}.gate_proj.weight"], out[f"{stem}.{e}.up_proj.weight"] = tensor[e, :half], tensor[e, half:]
            continue
        if name.endswith("mlp.experts.down_proj"):
            out |= {f"{stem}.{e}.down_proj.weight": tensor[e] for e in range(tensor.shape[0])}
            continue
        if name.endswith(".A_log"):
            out[f"{stem}.A_log"] = turn(-torch.exp(tensor.float()), config)
            continue
        if name.endswith("in_proj_qkvz.weight"):
            groups, each = config["linear_num_key_heads"], config["linear_num_value_heads"] // config["linear_num_key_heads"] * values
            dim = config["linear_key_head_dim"]
            q, k, v, z = tensor.view(groups, -1, tensor.shape[1]).split([dim, dim, each, each], dim=1)
            stem = name.removesuffix(".in_proj_qkvz.weight")
            out[f"{stem}.in_proj_qkv.weight"] = torch.cat([x.flatten(0, 1) for x in (q, k, v)])
            out[f"{stem}.in_proj_z.weight"] = z.flatten(0, 1)
            continue
        if "linear_attn" in name:
            if "conv1d" in name:
                tensor = tensor.squeeze(1)
            if "in_proj_qkv." in name or "conv1d" in name:
                tensor = torch.cat([tensor[: 2 * keys], turn(tensor[2 * keys :], config, values)])
            if "in_proj_z" in name:
                tensor = turn(tensor, config, values)
            if name.endswith((".in_proj_a.weight", ".in_proj_b.weight", ".dt_bias")):
                tensor = turn(tensor, config)
            if "out_proj" in name:
                tensor = turn(tensor.T.contiguous(), config, values).T.contiguous()
        elif name.endswith("norm.weight"):
            tensor = tensor.float() + 1
        out[name] = tensor
    return out


def halves_of_granite(weights, has_experts):
    """Gates and their other halves, which lie one behind the other, as tensors of their own, by Llama's names; the experts' stacks stay ones. Without
    experts the shared one is the feed-forward layers."""
    out = {}
    for name, tensor in weights.items():
        if name.endswith("shared_mlp.output_linear.weight") and not has_experts:
            name = name.replace("shared_mlp.output_linear", "ffn_down")
        if not name.endswith("input_linear.weight"):
            out[name] = tensor
            continue
        layer = ".".join(name.split(".")[:3])
        end = "_exps" if "shared_mlp" not in name else "_shexp" if has_experts else ""
        for half, rows in zip(("gate", "up"), tensor.chunk(2, dim=-2)):
            out[f"{layer}.{half}{end}.weight"] = rows.contiguous()
    return out


def scans_of(weights, groups):
    """Mamba-2 as these files have it: rates of the decay negative, numbers of heads as columns, gains for each of the groups."""
    out = {}
    for name, tensor in weights.items():
        if name.endswith((".A_log", ".D")):
            tensor = -torch.exp(tensor.float())[:, None] if name.endswith("A_log") else tensor[:, None]
        if name.endswith(".conv1d.weight"):
            tensor = tensor.squeeze(1)
        if name.endswith(("mamba.norm.weight", "mixer.norm.weight")):
            tensor = tensor.reshape(groups, -1)
        out[name] = tensor
    return out


def absorbed_heads(weights, config):
    """The heads' matrices of keys, turned, and of values in place of those of both."""
    out = {}
    for name, tensor in weights.items():
        if not name.endswith("kv_b_proj.weight"):
            out[name] = tensor
            continue
        both = tensor.view(config["num_attention_heads"], -1, tensor.shape[-1])
        keys, values = both.split([config["qk_nope_head_dim"], config["v_head_dim"]], dim=1)
        out[name.replace("kv_b_proj", "k_b_proj")] = keys.transpose(1, 2).contiguous()
        out[name.replace("kv_b_proj", "v_b_proj")] = values.contiguous()
    return out


def permuted(rows, heads):
    """Halves of a head interleaved, for a RoPE that turns neighbours."""
    shape = rows.shape
    return rows.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def renamed(name, arch):
    stem, kind = name.rsplit(".", 1)
    stem = stem.removeprefix("model.").removeprefix("transformer.").removeprefix("gpt_neox.")
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{kind}"
    _, layer, rest = stem.split(".", 2)
    fixed = {"sinks": "attn_sinks.weight", "A_log": "ssm_a", "dt_bias": "ssm_dt.bias", "D": "ssm_d", "expert_bias": "exp_probs_b.bias",
             "e_score_correction_bias": "exp_probs_b.bias"}
    if kind in fixed:
        return f"blk.{layer}.{fixed[kind]}"
    inner = LLAMA_NAMES[rest]
    if rest == "post_attention_layernorm" and arch in ("gemma2", "gemma3", "gpt-oss", "olmo2", *HYBRIDS):
        inner = "post_attention_norm"
    return f"blk.{layer}.{inner}.{kind}"


def converted(name, tensor, arch, config):
    tensor = tensor.float().numpy()
    heads, kv_heads = config.get("num_attention_heads"), config.get("num_key_value_heads")
    if arch in NEIGHBOURS and ".q_proj." in name:
        return permuted(tensor, heads)
    if arch in NEIGHBOURS and ".k_proj." in name:
        return permuted(tensor, kv_heads)
    if ".query_key_value." in name:  # query, key and value of each head in turns → all queries, then all keys, then all values
        return tensor.reshape(heads, 3, -1, *tensor.shape[1:]).swapaxes(0, 1).reshape(tensor.shape)
    if name.endswith("conv.conv.weight"):
        return tensor.squeeze(1)
    if arch.startswith("gemma") and name.endswith("norm.weight"):
        return tensor + 1
    if arch == "gpt2" and tensor.ndim == 2 and "wte" not in name and "wpe" not in name:
        return np.ascontiguousarray(tensor.T)
    return tensor


def rope_divisors(config):
    """What Llama 3.1's scaling divides each frequency by."""
    scaling, dim = config["rope_scaling"], config["head_dim"]
    context = scaling["original_max_position_embeddings"]
    low, high = context / scaling["low_freq_factor"], context / scaling["high_freq_factor"]
    divisors = []
    for i in range(0, dim, 2):
        wave = 2 * math.pi * config["rope_theta"] ** (i / dim)
        if wave < high:
            divisors.append(1.0)
        elif wave > low:
            divisors.append(scaling["factor"])
        else:
            smooth = (context / wave - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"])
            divisors.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return np.array(divisors, dtype=np.float32)


def feed_forward_length(config):
    size = config["intermediate_size"] if config.get("num_local_experts") != 0 else config["shared_intermediate_size"]
    if not config.get("block_auto_adjust_ff_dim"):
        return size
    size, multiple = int(config["block_ffn_dim_multiplier"] * int(2 * size / 3)), config["block_multiple_of"]
    return multiple * ((size + multiple - 1) // multiple)


def write_nemotron_metadata(writer, config):
    parts = config["layers_block_type"]
    ffn = config["moe_intermediate_size"] if "moe" in parts else config["intermediate_size"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(len(parts))
    writer.add_feed_forward_length([ffn if part in ("mlp", "moe") else 0 for part in parts])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv([config["num_key_value_heads"] if part == "attention" else 0 for part in parts])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])  # which llama.cpp asks for, too
    writer.add_rope_scaling_finetuned(False)
    writer.add_ssm_conv_kernel(config["conv_kernel"])
    writer.add_ssm_state_size(config["ssm_state_size"])
    writer.add_ssm_group_count(config["n_groups"])
    writer.add_ssm_time_step_rank(config["mamba_num_heads"])
    writer.add_ssm_inner_size(config["mamba_num_heads"] * config["mamba_head_dim"])
    if "moe" in parts:
        writer.add_expert_count(config["n_routed_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_expert_shared_feed_forward_length(config["moe_shared_expert_intermediate_size"])
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_group_count(config["n_group"])


def write_deepseek_metadata(writer, config, is_expanded):
    heads, query = config["num_attention_heads"], config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads if is_expanded else 1)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["qk_rope_head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_kv_lora_rank(config["kv_lora_rank"])
    if config["q_lora_rank"]:
        writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_key_length(query if is_expanded else config["kv_lora_rank"] + config["qk_rope_head_dim"])
    writer.add_value_length(config["v_head_dim"] if is_expanded else config["kv_lora_rank"])
    if not is_expanded:
        writer.add_key_length_mla(query)
        writer.add_value_length_mla(config["v_head_dim"])
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    if config["n_group"]:
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
    if config["norm_topk_prob"]:
        writer.add_expert_weights_norm(True)
    is_third = config["model_type"] == "deepseek_v3"
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if is_third else gguf.ExpertGatingFuncType.SOFTMAX)
    scaling = config["rope_parameters"]
    if scaling["rope_type"] == "yarn":
        write_yarn(writer, scaling)
        writer.add_rope_scaling_yarn_log_mul(0.1 * scaling["mscale_all_dim"])


def write_yarn(writer, scaling):
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(scaling["factor"])
    writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    if "beta_fast" in scaling:
        writer.add_rope_scaling_yarn_beta_fast(scaling["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(scaling["beta_slow"])


def write_plain_metadata(writer, arch, config):
    """With layer norms and without gates. The converter leaves out what is usual: how far positions turn, and heads of keys of their own."""
    heads = config["num_attention_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    if arch != "gptneox":
        writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_eps(config["norm_epsilon" if arch == "starcoder2" else "layer_norm_eps"])
    rope = config["rope_parameters"]
    if rope["rope_theta"] != 1e4:
        writer.add_rope_freq_base(rope["rope_theta"])
    if arch != "starcoder2":
        writer.add_rope_dimension_count(int(config["hidden_size"] // heads * rope["partial_rotary_factor"]))
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if arch == "gptneox":
        writer.add_parallel_residual(config["use_parallel_residual"])
    if config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])


def write_metadata(writer, arch, config):
    if arch == "gpt2":
        writer.add_context_length(config["n_positions"])
        writer.add_embedding_length(config["n_embd"])
        writer.add_block_count(config["n_layer"])
        writer.add_feed_forward_length(config["n_inner"] or 4 * config["n_embd"])
        writer.add_head_count(config["n_head"])
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
        return
    if arch in NEMOTRON:
        write_nemotron_metadata(writer, config)
        return
    if arch in PLAIN:
        write_plain_metadata(writer, arch, config)
        return
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    if arch != "qwen35moe":
        writer.add_feed_forward_length(feed_forward_length(config))
    writer.add_head_count(config["num_attention_heads"])
    kv_heads = config["num_key_value_heads"]
    has_others = arch in LFM2 or arch == "granitehybrid"
    writer.add_head_count_kv([0 if kind in ("conv", "mamba") else kv_heads for kind in config["layer_types"]] if has_others else kv_heads)
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["norm_eps" if arch in LFM2 else "rms_norm_eps"])
    turned = (config.get("rope_parameters") or {}).get("partial_rotary_factor", 1)
    writer.add_rope_dimension_count(int(config["head_dim"] * turned))
    if arch == "lfm2moe":
        writer.add_leading_dense_block_count(config["num_dense_layers"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if arch in LFM2:
        writer.add_shortconv_l_cache(config["conv_L_cache"])
    if arch in HYBRIDS:
        writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
        writer.add_ssm_state_size(config["linear_key_head_dim"])
        writer.add_ssm_group_count(config["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
        writer.add_ssm_inner_size(config["linear_value_head_dim"] * config["linear_num_value_heads"])
        writer.add_full_attention_interval(4)
        if arch != "qwen3next":
            writer.add_rope_dimension_sections([1, 1, 0, 0])
    writer.add_rope_freq_base(config["rope_theta"] if "rope_theta" in config else config["rope_parameters"]["rope_theta"])
    if config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
        if arch == "olmo2":
            writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    if arch == "granitehybrid":
        writer.add_ssm_conv_kernel(config["mamba_d_conv"])
        writer.add_ssm_state_size(config["mamba_d_state"])
        writer.add_ssm_group_count(config["mamba_n_groups"])
        writer.add_ssm_time_step_rank(config["mamba_n_heads"])
        writer.add_ssm_inner_size(config["mamba_n_heads"] * config["mamba_d_head"])
        writer.add_rope_scaling_finetuned(config["position_embedding_type"] == "rope")
    if config.get("num_experts_per_tok") and config.get("num_local_experts") != 0:
        writer.add_expert_count(config.get("num_experts") or config["num_local_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
    if arch.startswith("granite"):
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if config.get("shared_intermediate_size") and config["num_local_experts"]:
        writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    if "moe_intermediate_size" in config:
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in config:
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])
    if kind == "longrope":
        context = config["original_max_position_embeddings"]
        factor = config["max_position_embeddings"] / context
        writer.add_rope_scaling_orig_ctx_len(context)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(factor) / math.log(context)))
        for name in ("short", "long"):
            writer.add_tensor(f"rope_factors_{name}.weight", np.array(scaling[f"{name}_factor"], dtype=np.float32))
    if kind == "yarn":
        write_yarn(writer, scaling)
        if arch == "olmo2":  # whose published configs have it, as it follows from the factor
            writer.add_rope_scaling_yarn_attn_factor(1 + 0.1 * math.log(scaling["factor"]))


def write(case, arch, out, folder=None, change=lambda config, weights: (config, weights)):
    """The model of a folder, else the golden decoder of that name, changed."""
    folder = folder or HERE / "decoders" / case
    config, weights = change(json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors"))
    writer = gguf.GGUFWriter(out / f"{case}.gguf", arch)
    if arch == "deepseek2":
        write_deepseek_metadata(writer, config, case in EXPANDED)
        weights = weights if case in EXPANDED else absorbed_heads(weights, config)
    else:
        write_metadata(writer, arch, config)
    if "nextn" in config:
        writer.add_nextn_predict_layers(config["nextn"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    if (config.get("rope_scaling") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_divisors(config))
    if arch == "gpt-oss":
        writer.add_expert_feed_forward_length(config["intermediate_size"])
        weights = add_gpt_oss_experts(writer, weights)
    if arch in HYBRIDS:
        weights = delta_rule_of(weights, arch, config)
    if arch in NEMOTRON:
        weights = {name.replace("backbone.", "model."): tensor for name, tensor in scans_of(weights, config["n_groups"]).items()}
    if arch in ("granitemoe", "granitehybrid"):
        weights = halves_of_granite(scans_of(weights, 1), bool(config.get("num_local_experts")))
    weights, stacks = stack_experts(weights)
    for name, tensor in stacks.items():
        values = tensor.float().numpy()
        is_exact_half = np.array_equal(values.astype(np.float16).astype(np.float32), values)
        writer.add_tensor(name, values.astype(np.float16) if is_exact_half else values)
    for name, tensor in weights.items():
        if name == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        if name.endswith("shared_expert_gate.weight"):
            tensor = tensor.flatten()
        values = converted(name, tensor, arch, config)
        is_exact_half = values.ndim == 2 and np.array_equal(values.astype(np.float16).astype(np.float32), values)
        is_table = "position" in renamed(name, arch) or "conv" in name.split(".")[-2] or name.endswith((".D", "mamba.norm.weight", "mixer.norm.weight"))
        writer.add_tensor(renamed(name, arch), values.astype(np.float16) if is_exact_half and not is_table else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "gguf_decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    for case, arch in CASES.items():
        if not args.cases or case in args.cases:
            write(case, arch, args.out)


if __name__ == "__main__":
    main()
