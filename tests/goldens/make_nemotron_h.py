#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/nemotron_h*/: tiny random models of Nemotron-H, dense and mixtures of experts, as make_decoders.py writes those of other
families.

    python3 tests/goldens/make_nemotron_h.py [--out DIR] [case ...]

Made with transformers 5.12.1, whose Mamba-2 and router are float32 in a model of whatever type: here they are float64 as the rest. Its code for
CPUs has time_step_min for the least step, where that for GPUs has time_step_limit: here the former is as good as none.
"""

import argparse
import pathlib
import warnings

import torch
import transformers
from transformers.models.nemotron_h import modeling_nemotron_h as nemotron

import make_decoders
from make_decoders import Case
from make_gpt_oss import check_margin
from make_granite import make_double


def config(heads, kv_heads, head_dim, hidden, ffn, parts, vocab=61, **others):
    return transformers.NemotronHConfig(
        vocab_size=vocab, hidden_size=hidden, intermediate_size=ffn, layers_block_type=parts.split(), num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, max_position_embeddings=128, bos_token_id=1, eos_token_id=None, pad_token_id=None,
        time_step_min=1e-30, layer_norm_epsilon=1e-4, use_mamba_kernels=False, **others)  # fmt: skip


def cases():
    scans = dict(mamba_num_heads=6, mamba_head_dim=9, ssm_state_size=7, n_groups=3)
    yield Case("nemotron_h", 301, config(3, 1, 10, 26, 37, "mamba mlp mamba attention mlp mamba", **scans), len=17, std=0.2)
    routes = dict(n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=13, moe_shared_expert_intermediate_size=18, routed_scaling_factor=2.5)
    more = scans | dict(mamba_num_heads=4, n_groups=2, conv_kernel=3, use_conv_bias=False, use_bias=True, mlp_bias=True)
    yield Case("nemotron_h_moe_biased", 328, config(4, 2, 6, 24, 30, "moe mamba attention moe mlp mamba", **more, **routes, norm_topk_prob=False), torch.bfloat16, std=0.2)  # fmt: skip
    yield Case("nemotron_h_moe", 313, config(2, 2, 12, 24, 20, "mamba moe attention moe mamba moe", **scans, **routes), torch.float32, std=0.2)


def make_model(case):
    """Decays so that a state holds for some tokens; choices that their bias counts in."""
    model = make_decoders.make_model(case)
    with torch.no_grad():
        for name, p in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("A_log"):
                p.uniform_(-2.0, 1.0)
            if name.endswith("dt_bias"):
                p.uniform_(-2.0, 0.5)
            if name.endswith("e_score_correction_bias"):
                p.normal_(0.0, 0.3)
    return model


def biased_scores(model, name, logits):
    return logits.sigmoid() + model.get_submodule(name).e_score_correction_bias


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    make_double(nemotron, "NemotronHMamba2Mixer", "torch_forward")
    make_double(nemotron, "Zamba2RMSNormGated", "forward")
    make_double(nemotron, "NemotronHTopkRouter", "forward")
    for case in cases():
        if not args.cases or case.name in args.cases:
            has_experts = "moe" in case.config.layers_block_type
            make_decoders.write(case, args.out / case.name, make=make_model, **({"experts_implementation": "eager"} if has_experts else {}))
            if has_experts:
                check_margin(case, args.out / case.name, "mixer.gate", least=0.004, scores_of=biased_scores)


if __name__ == "__main__":
    main()
