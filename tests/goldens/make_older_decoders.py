#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/{gpt_neox,gptj,phi,opt,starcoder2,olmo2,olmo3}*/: tiny random models, as make_decoders.py writes those of other families.

    python3 tests/goldens/make_older_decoders.py [--out DIR] [case ...]

Made with transformers 5.12.1, but for olmo3_yarn, which transformers 4.57.6 made: 5.12.1 scales the positions of layers with
windows, too, which OLMo 3 was not trained with.
"""

import argparse
import pathlib
import warnings

import torch
import transformers

import make_decoders
from make_decoders import Case, llama_like

ENDS = dict(bos_token_id=1, eos_token_id=None, pad_token_id=None)


def plain(kind, heads, hidden, ffn, layers, vocab=61, **others):
    """Sizes under their usual names, without a head_dim of their own."""
    return kind(vocab_size=vocab, hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads,
                max_position_embeddings=128, **ENDS, **others)  # fmt: skip


def cases():
    t = transformers
    if t.__version__.startswith("4."):
        yield Case("olmo3_yarn", 46, llama_like(t.Olmo3Config, 4, 2, 8, 32, 41, 5, sliding_window=6, tie_word_embeddings=False,
                                                rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)), std=0.2)  # fmt: skip
        return
    yield Case("gpt_neox", 31, plain(t.GPTNeoXConfig, 3, 24, 35, 3, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5)),
               torch.float32, std=0.25)  # fmt: skip
    yield Case("gpt_neox_serial", 32, plain(t.GPTNeoXConfig, 2, 28, 50, 2, use_parallel_residual=False, attention_bias=False, hidden_act="gelu_new",
                                            rope_parameters=dict(rope_type="linear", factor=2.5, rope_theta=2e4, partial_rotary_factor=1.0)))  # fmt: skip
    # As llama.cpp computes GELU for files of this architecture.
    yield Case("gpt_neox_tanh", 47, plain(t.GPTNeoXConfig, 2, 24, 33, 2, hidden_act="gelu_new",
                                          rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5)), std=0.25)  # fmt: skip
    gptj = dict(n_positions=96) | ENDS
    yield Case("gptj", 33, t.GPTJConfig(vocab_size=61, n_embd=30, n_head=3, n_layer=3, rotary_dim=6, **gptj), torch.float32, std=0.25)
    yield Case("gptj_inner", 34, t.GPTJConfig(vocab_size=53, n_embd=32, n_head=2, n_layer=2, rotary_dim=16, n_inner=45, tie_word_embeddings=True,
                                              activation_function="relu", **gptj), std=0.2)  # fmt: skip
    yield Case("phi", 35, plain(t.PhiConfig, 3, 24, 37, 3, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5)),
               torch.float32, std=0.25)  # fmt: skip
    yield Case("phi_normed_heads", 36, plain(t.PhiConfig, 4, 40, 33, 2, num_key_value_heads=2, qk_layernorm=True,
                                             rope_parameters=dict(rope_type="default", rope_theta=5e3, partial_rotary_factor=0.4)), std=0.25)  # fmt: skip
    opt = dict(vocab_size=61, max_position_embeddings=96) | ENDS
    yield Case("opt", 37, t.OPTConfig(hidden_size=30, ffn_dim=41, num_hidden_layers=3, num_attention_heads=5, **opt), torch.float32, std=0.25)
    yield Case("opt_normed_behind", 38, t.OPTConfig(hidden_size=24, ffn_dim=33, num_hidden_layers=2, num_attention_heads=2, do_layer_norm_before=False,
                                                    enable_bias=False, activation_function="gelu", tie_word_embeddings=False, **opt), std=0.25)  # fmt: skip
    yield Case("starcoder2", 39, plain(t.Starcoder2Config, 4, 32, 50, 3, num_key_value_heads=2, sliding_window=5), torch.float32, std=0.25)
    yield Case("starcoder2_plain", 40, plain(t.Starcoder2Config, 3, 24, 29, 2, num_key_value_heads=1, use_bias=False, tie_word_embeddings=False,
                                             rope_parameters=dict(rope_type="default", rope_theta=1e5)))  # fmt: skip
    yield Case("olmo2", 41, llama_like(t.Olmo2Config, 3, 3, 8, 24, 37, 3, tie_word_embeddings=False), torch.float32, std=0.25)
    yield Case("olmo2_grouped", 42, llama_like(t.Olmo2Config, 4, 2, 8, 32, 41, 2, attention_bias=True, tie_word_embeddings=True,
                                               rope_parameters=dict(rope_type="default", rope_theta=5e5)), torch.bfloat16, std=0.25)  # fmt: skip
    yield Case("olmo3", 43, llama_like(t.Olmo3Config, 4, 4, 6, 24, 31, 5, sliding_window=5, tie_word_embeddings=False), torch.float32, std=0.25)
    yield Case("olmo3_listed", 44, llama_like(t.Olmo3Config, 4, 2, 8, 32, 29, 3, sliding_window=7,
                                              layer_types=["full_attention", "sliding_attention", "full_attention"]), std=0.25)  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for case in cases():
        if not args.cases or case.name in args.cases:
            make_decoders.write(case, args.out / case.name)


if __name__ == "__main__":
    main()
