#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/lfm2*/, decoders/qwen3_next*/ and decoders/qwen3_5*/: tiny random models of layers with a state, as make_decoders.py writes
those of other families.

    python3 tests/goldens/make_hybrids.py [--out DIR] [case ...]

Made with transformers 5.12.1, whose delta rule is float32 in a model of whatever type: here it is float64 as the rest.
"""

import argparse
import importlib
import inspect
import json
import pathlib
import shutil
import warnings

import torch
import transformers
from safetensors.torch import load_file, save_file

import make_decoders
from make_decoders import Case, llama_like
from make_gpt_oss import check_margin


def make_double(module):
    """Both forms of the module's delta rule in float64."""
    for name in ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"):
        exec(inspect.getsource(getattr(module, name)).replace("torch.float32", "torch.float64").replace(".float()", ".double()"), vars(module))


def rope(theta, **others):
    return dict(rope_type="default", rope_theta=theta) | others


def cases():
    t = transformers
    lfm2 = dict(block_multiple_of=8, rope_parameters=rope(1e6))
    yield Case("lfm2", 101, llama_like(t.Lfm2Config, 4, 2, 8, 32, 60, 5, full_attn_idxs=[2, 4], **lfm2), torch.float32, len=19, std=0.25)  # fmt: skip
    yield Case("lfm2_biased_bf16", 112, llama_like(t.Lfm2Config, 3, 1, 10, 30, 37, 4, layer_types=["conv", "full_attention", "conv", "conv"],
                                                   conv_bias=True, conv_L_cache=4, block_auto_adjust_ff_dim=False, tie_word_embeddings=False,
                                                   rope_parameters=rope(1e4)), torch.bfloat16, std=0.25)  # fmt: skip
    routes = dict(num_dense_layers=1, moe_intermediate_size=11, rope_parameters=rope(1e6))
    yield Case("lfm2_moe", 340, llama_like(t.Lfm2MoeConfig, 4, 2, 6, 24, 30, 4, num_experts=7, num_experts_per_tok=3,
                                           layer_types=["conv", "full_attention", "conv", "full_attention"], **routes), torch.float32, std=0.25)  # fmt: skip
    yield Case("lfm2_moe_unbiased_scaled", 337, llama_like(t.Lfm2MoeConfig, 3, 1, 10, 30, 21, 3, num_experts=5, num_experts_per_tok=2,
                                                           layer_types=["full_attention", "conv", "conv"], use_expert_bias=False, norm_topk_prob=False,
                                                           routed_scaling_factor=1.5, conv_bias=True, tie_word_embeddings=False, **routes), std=0.25)  # fmt: skip
    delta = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8)
    yield Case("qwen3_5", 152, llama_like(t.Qwen3_5TextConfig, 4, 2, 16, 32, 44, 5, rope_parameters=rope(1e7, partial_rotary_factor=0.25),
                                          **delta), len=70, batch=1, std=0.25)  # fmt: skip
    yield Case("qwen3_5_odd_tied", 103, llama_like(t.Qwen3_5TextConfig, 3, 1, 8, 22, 35, 3, linear_num_key_heads=3, linear_num_value_heads=3,
                                                   linear_key_head_dim=7, linear_value_head_dim=5, linear_conv_kernel_dim=3,
                                                   layer_types=["linear_attention", "full_attention", "linear_attention"], attention_bias=True,
                                                   tie_word_embeddings=True, rope_parameters=rope(1e4, partial_rotary_factor=0.5)), std=0.25)  # fmt: skip
    experts = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=12, shared_expert_intermediate_size=18)
    yield Case("qwen3_5_moe", 117, llama_like(t.Qwen3_5MoeTextConfig, 4, 2, 16, 32, 44, 4, rope_parameters=rope(1e7, partial_rotary_factor=0.25),
                                              **delta, **experts), std=0.25)  # fmt: skip
    yield Case("qwen3_next", 130, llama_like(t.Qwen3NextConfig, 4, 2, 16, 32, 44, 5, rope_parameters=rope(1e7, partial_rotary_factor=0.25),
                                             mlp_only_layers=[1], **delta, **experts), std=0.25)  # fmt: skip


def resemble(rows, config):
    """Keys that are much like the queries, so that a token sees itself: of what nearly cancels, the norm behind makes rounding errors large."""
    heads, dim = config.linear_num_key_heads, config.linear_key_head_dim
    if "qwen3_next" in config.model_type:  # for each head of keys its query, key, values and gates
        groups = rows.view(heads, -1, rows.shape[-1])
        groups[:, dim : 2 * dim].mul_(0.3).add_(groups[:, :dim])
    else:
        rows[heads * dim : 2 * heads * dim].mul_(0.3).add_(rows[: heads * dim])


def make_model(case):
    """Gains that are stored minus one are drawn around zero, and decays so that a state holds for some tokens."""
    model = make_decoders.make_model(case)
    with torch.no_grad():
        for name, bias in model.named_buffers():
            if name.endswith("expert_bias"):
                bias.normal_(0.0, 0.3)
        for name, p in model.named_parameters():
            if "in_proj_qkv" in name:
                resemble(p, case.config)
            if name.endswith("conv1d.weight"):
                dim = case.config.linear_num_key_heads * case.config.linear_key_head_dim
                p[dim : 2 * dim].mul_(0.3).add_(p[:dim])
            if "qwen3" in case.config.model_type and name.endswith("norm.weight") and "linear_attn" not in name:
                p -= 1.0
            if name.endswith("A_log"):
                p.uniform_(-2.0, 1.0)
            if name.endswith("dt_bias"):
                p.uniform_(-2.0, 0.5)
    return model


def biased_scores(model, name, logits):
    """By which the experts of LFM2-MoE are chosen."""
    return logits.sigmoid() + getattr(model.get_submodule(name.rpartition(".")[0]), "expert_bias", 0)


def write_with_vision(folder, text):
    """The same tensors as a model with a vision tower has them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = json.loads((text / "config.json").read_text())
    config["tie_word_embeddings"] = False  # the outer one counts
    whole = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": config,
             "vision_config": {"model_type": "qwen3_5", "depth": 1}, "tie_word_embeddings": True}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(whole, indent=2) + "\n")
    tensors = {name.replace("model.", "model.language_model.", 1): tensor for name, tensor in load_file(text / "model.safetensors").items()}
    tensors["model.visual.patch_embed.proj.weight"] = torch.zeros(3, 4)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    for name in ("generation_config.json", "golden.safetensors", "greedy.json"):
        shutil.copy(text / name, folder / name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for family in ("qwen3_5", "qwen3_5_moe", "qwen3_next"):
        make_double(importlib.import_module(f"transformers.models.{family}.modeling_{family}"))
    for case in cases():
        if not args.cases or case.name in args.cases:
            has_experts = hasattr(case.config, "num_experts")
            make_decoders.write(case, args.out / case.name, make=make_model, **({"experts_implementation": "eager"} if has_experts else {}))
            if has_experts:
                if "lfm2" in case.name:
                    check_margin(case, args.out / case.name, "feed_forward.gate", least=0.004, scores_of=biased_scores)
                else:
                    check_margin(case, args.out / case.name, router="mlp.gate")
    if not args.cases or "qwen3_5_with_vision" in args.cases:
        write_with_vision(args.out / "qwen3_5_with_vision", args.out / "qwen3_5_odd_tied")


if __name__ == "__main__":
    main()
