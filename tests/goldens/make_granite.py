#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/granite*/ and decoders/bamba*/: tiny random Granite models, dense, mixtures of experts and hybrids, and Bamba's, as
make_decoders.py writes those of other families.

    python3 tests/goldens/make_granite.py [--out DIR] [case ...]

Made with transformers 5.12.1, whose Mamba-2 is float32 in a model of whatever type: here it is float64 as the rest. Its Bamba turns whole
heads where positions are not scaled; here half of each is turned, as by 4.57 and as the published models were trained.
"""

import argparse
import inspect
import pathlib
import textwrap
import warnings

import torch
import transformers
from transformers.models.bamba import modeling_bamba as bamba
from transformers.models.granitemoehybrid import modeling_granitemoehybrid as hybrid

import make_decoders
from make_decoders import Case, llama_like
from make_gpt_oss import check_margin


def make_double(module, kind, name):
    """A method of a module's class in float64."""
    kind = getattr(module, kind)
    source = textwrap.dedent(inspect.getsource(getattr(kind, name))).replace("torch.float32", "torch.float64").replace(".float()", ".double()")
    made = {}
    exec(source, vars(module), made)
    setattr(kind, name, made[name])


def cases():
    t = transformers
    # Factors that are no powers of two and change what comes out, as those of the published models do.
    odd = dict(embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.15, logits_scaling=7.0, rms_norm_eps=1e-3)
    rope = dict(rope_type="default", rope_theta=10000.0)
    yield Case("granite", 201, llama_like(t.GraniteConfig, 3, 1, 10, 30, 37, 3, tie_word_embeddings=False, rope_parameters=rope, **odd),
               torch.float32, std=0.25)  # fmt: skip
    yield Case("granite_tied_biased_bf16", 202, llama_like(t.GraniteConfig, 4, 2, 8, 32, 44, 4, tie_word_embeddings=True, attention_bias=True,
                                                          mlp_bias=True, rope_parameters=dict(rope_type="linear", rope_theta=5e5, factor=2.5),
                                                          **odd | dict(residual_multiplier=1.5, logits_scaling=0.5)), torch.bfloat16, std=0.2)  # fmt: skip
    yield Case("granite_moe", 210, llama_like(t.GraniteMoeConfig, 4, 2, 6, 24, 13, 3, num_local_experts=7, num_experts_per_tok=3,
                                              tie_word_embeddings=True, rope_parameters=rope, **odd), torch.float32, std=0.25)  # fmt: skip
    yield Case("granite_moe_shared", 205, llama_like(t.GraniteMoeSharedConfig, 2, 2, 10, 20, 15, 3, num_local_experts=5, num_experts_per_tok=2,
                                                     shared_intermediate_size=18, rope_parameters=rope, **odd), std=0.25)  # fmt: skip
    scans = dict(num_local_experts=0, mamba_n_heads=6, mamba_d_head=10, mamba_d_state=7, mamba_expand=2)
    yield Case("granite_hybrid", 220, llama_like(t.GraniteMoeHybridConfig, 3, 1, 10, 30, 20, 4, layer_types=["mamba", "mamba", "attention", "mamba"],
                                                 shared_intermediate_size=37, tie_word_embeddings=True, **scans, **odd), len=21, std=0.25)  # fmt: skip
    yield Case("granite_hybrid_grouped", 231, llama_like(t.GraniteMoeHybridConfig, 2, 2, 12, 24, 20, 3, layer_types=["attention", "mamba", "mamba"],
                                                         shared_intermediate_size=26, attention_bias=True, mamba_proj_bias=True, mamba_conv_bias=False,
                                                         time_step_limit=(0.4, 0.9), **scans | dict(mamba_n_heads=4, mamba_d_head=12, mamba_n_groups=2),
                                                         **odd), torch.bfloat16, std=0.2)  # fmt: skip
    more = scans | dict(num_local_experts=5, num_experts_per_tok=2, mamba_n_heads=4, mamba_d_head=12, mamba_d_conv=3)
    yield Case("granite_hybrid_moe", 244, llama_like(t.GraniteMoeHybridConfig, 2, 2, 12, 24, 15, 4, layer_types=["mamba", "attention", "mamba", "mamba"],
                                                     shared_intermediate_size=18, position_embedding_type="rope", rope_parameters=rope,
                                                     **more, **odd), torch.float32, std=0.2)  # fmt: skip

    yield Case("bamba", 251, llama_like(t.BambaConfig, 3, 1, 12, 25, 33, 3, attn_layer_indices=[1], mamba_n_heads=5, mamba_d_head=10,
                                        mamba_d_state=7, mamba_chunk_size=16, rope_parameters=rope | dict(rope_theta=300.0)), torch.float32, len=21, std=0.25)  # fmt: skip
    yield Case("bamba_grouped_biased", 252, llama_like(t.BambaConfig, 2, 2, 8, 24, 29, 3, attn_layer_indices=[0, 2], mamba_n_heads=4,
                                                       mamba_d_head="auto", mamba_n_groups=2, mamba_d_state=9, mamba_d_conv=3, mamba_chunk_size=8,
                                                       mamba_conv_bias=False, mamba_proj_bias=True, attention_bias=True, mlp_bias=True,
                                                       tie_word_embeddings=True, time_step_limit=(0.4, 0.9),
                                                       rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=2.5)),
               torch.bfloat16, std=0.2)  # fmt: skip


def half_turned(config, device=None, seq_len=None):
    dim = int(config.head_dim * config.rope_parameters["partial_rotary_factor"])
    return 1.0 / config.rope_parameters["rope_theta"] ** (torch.arange(0, dim, 2).float() / dim), 1.0


def make_model(case):
    """Embeddings so that a token's own does not decide what follows it, and decays so that a state holds for some tokens."""
    model = make_decoders.make_model(case)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("A_log"):
                p.uniform_(-2.0, 1.0)
            if name.endswith("dt_bias"):
                p.uniform_(-2.0, 0.5)
        if "granite" in case.name:
            model.get_input_embeddings().weight.mul_(case.config.residual_multiplier / case.config.embedding_multiplier)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    make_double(hybrid, "GraniteMoeHybridMambaLayer", "torch_forward")
    make_double(hybrid, "GraniteMoeHybridRMSNormGated", "forward")
    make_double(bamba, "BambaMixer", "torch_forward")
    make_double(bamba, "BambaRMSNormGated", "forward")
    bamba.BambaRotaryEmbedding.compute_default_rope_parameters = staticmethod(half_turned)
    for case in cases():
        if not args.cases or case.name in args.cases:
            make_decoders.write(case, args.out / case.name, make=make_model)
            if "moe" in case.name:
                check_margin(case, args.out / case.name, router="router.layer")


if __name__ == "__main__":
    main()
