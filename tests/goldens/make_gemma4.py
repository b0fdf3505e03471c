#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/gemma4*/: tiny random models of Gemma 4's text part, as make_decoders.py writes those of other families.

    python3 tests/goldens/make_gemma4.py [--out DIR] [case ...]

Made with transformers 5.12.1, and numpy.
"""

import argparse
import pathlib
import warnings

import make_decoders
import torch
import transformers
from make_decoders import Case, llama_like

TEXT = transformers.Gemma4TextConfig
S, F = "sliding_attention", "full_attention"


def cases():
    # As the E models: embeddings of each layer, and last layers that see the caches of earlier ones.
    embedded = dict(sliding_window=5, layer_types=[S, S, F, S, F], num_kv_shared_layers=2, use_double_wide_mlp=True,
                    hidden_size_per_layer_input=14, vocab_size_per_layer_input=61, global_head_dim=20)  # fmt: skip
    yield Case("gemma4", 81, llama_like(TEXT, 4, 2, 12, 30, 23, 5, final_logit_softcapping=9.0, **embedded), std=0.2)
    # As the dense ones: keys that are values, too, in layers without a window.
    yield Case("gemma4_dense", 142, llama_like(TEXT, 4, 2, 8, 32, 41, 4, sliding_window=4, global_head_dim=16, attention_k_eq_v=True,
                                              num_global_key_value_heads=1, hidden_size_per_layer_input=0,
                                              tie_word_embeddings=False), std=0.2)  # fmt: skip
    mixture = dict(enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=11, hidden_size_per_layer_input=0)
    yield Case("gemma4_moe", 53, llama_like(TEXT, 3, 1, 14, 22, 17, 4, sliding_window=6, global_head_dim=14, layer_types=[S, F, S, F],
                                            **mixture), torch.float32, std=0.2)  # fmt: skip
    text = llama_like(TEXT, 2, 1, 16, 32, 40, 3, sliding_window=7, layer_types=[S, F, F], num_kv_shared_layers=1, global_head_dim=32,
                      hidden_size_per_layer_input=32, vocab_size_per_layer_input=61, pad_token_id=0, attention_bias=True)  # fmt: skip
    yield Case("gemma4_whole", 124, transformers.Gemma4Config(text_config=text, vision_config=None, audio_config=None), torch.bfloat16, std=0.18)


def make_model(case):
    """In the dtype of the file, with every parameter and every layer's factor in use."""
    torch.manual_seed(case.seed)
    model = transformers.AutoModelForCausalLM.from_config(case.config, attn_implementation="eager").eval()
    sizes = case.config.get_text_config()
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_gain = p.dim() == 1 and "bias" not in name
            p.normal_(1.0 if is_gain else 0.0, case.std)
            if name.endswith(("q_norm.weight", "k_norm.weight")):  # nothing else scales the scores
                p *= p.numel() ** -0.25
            if "embed_tokens" in name:  # so that a token's own embedding does not decide what follows it
                width = sizes.hidden_size_per_layer_input if "per_layer" in name else sizes.hidden_size
                p /= 2 * width**0.5
        for name, buffer in model.named_buffers():
            if name.endswith("layer_scalar"):
                buffer.uniform_(0.5, 1.5)
    return model.to(case.dtype)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    # They count the vocabulary of a whole model by the text part's config.
    transformers.Gemma4Config.vocab_size = property(lambda config: config.text_config.vocab_size)
    for case in cases():
        if not args.cases or case.name in args.cases:
            make_decoders.write(case, args.out / case.name, make=make_model, experts_implementation="eager")


if __name__ == "__main__":
    main()
