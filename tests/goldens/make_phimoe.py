#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/phimoe*/: tiny random models of Phi-3.5-MoE, as make_decoders.py writes those of other families.

    python3 tests/goldens/make_phimoe.py [--out DIR] [case ...]

Made with transformers 5.12.1. Routers take logits for near ones that are further away than those of published models, so that some are.
"""

import argparse
import pathlib
import warnings

import torch
import transformers
from safetensors.torch import load_file

import make_decoders
from make_decoders import Case, llama_like


def cases():
    kind, rope = transformers.PhimoeConfig, dict(rope_type="default", rope_theta=1e6)
    yield Case("phimoe", 403, llama_like(kind, 4, 2, 6, 24, 13, 2, num_local_experts=7, router_jitter_noise=0.15, attention_bias=True,
                                         lm_head_bias=True, rope_parameters=rope), torch.float32, std=0.25)  # fmt: skip
    yield Case("phimoe_window_odd", 437, llama_like(kind, 3, 3, 10, 21, 19, 2, num_local_experts=3, router_jitter_noise=0.1, sliding_window=5,
                                                    rope_parameters=rope), std=0.25)  # fmt: skip
    long = dict(rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=96, short_mscale=1.25, long_mscale=0.75,
                short_factor=[1.0, 1.1, 1.3, 1.7], long_factor=[1.0, 2.0, 5.0, 12.0])  # fmt: skip
    yield Case("phimoe_longrope", 414, llama_like(kind, 2, 1, 8, 24, 15, 2, num_local_experts=5, router_jitter_noise=0.3,
                                                  tie_word_embeddings=True, lm_head_bias=True, rope_parameters=long),
               torch.bfloat16, std=0.25)  # fmt: skip


def clearness(logits, jitter):
    """By how much each choice, and what is near it, is clear; and which share of the others is near."""
    least, near, left = [], [], logits
    for _ in range(2):
        best, index = left.max(-1, keepdim=True)
        others = left.isfinite().scatter(-1, index, False)
        distance = (best - left) / logits.abs().clamp(min=best)
        least += [(best - left)[others], (distance[others] - 2 * jitter).abs()]
        near.append((distance[others] <= 2 * jitter).float())
        left = left.scatter(-1, index, float("-inf"))
    return torch.cat(least).min().item(), torch.cat(near)


def check_choices(case, folder, least=0.002):
    """No router's choice hangs on what float16 has not."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                              experts_implementation="eager").eval()  # fmt: skip
    found = []
    for layer in model.model.layers:
        layer.mlp.router.register_forward_hook(lambda module, inputs, outputs: found.append(clearness(outputs[0], case.config.router_jitter_noise)))
    with torch.no_grad():
        model(load_file(folder / "golden.safetensors")["input_ids"])
    margin, near = min(least for least, _ in found), torch.cat([shares for _, shares in found]).mean().item()
    print(f"{case.name}, seed {case.seed}: margin {margin:.4f}, {100 * near:.0f} % near")
    assert margin > least


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for case in cases():
        if not args.cases or case.name in args.cases:
            make_decoders.write(case, args.out / case.name, experts_implementation="eager")
            check_choices(case, args.out / case.name)


if __name__ == "__main__":
    main()
