#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes encoder_decoders/t5gemma_*/: tiny random models of T5Gemma, as make_encoder_decoders.py writes those of other families.

    python3 tests/goldens/make_t5gemma.py [--out DIR] [case ...]

Made with transformers 5.12.1. An encoder's window of n reaches n - 1 tokens to either side, as transformers 4.57.6 and its authors have it;
5.12.1 would reach n.
"""

import argparse
import pathlib
import shutil
import warnings

import make_encoder_decoders
import torch
import transformers
from make_encoder_decoders import MAX_LENGTH, Case

T5GEMMA = transformers.T5GemmaForConditionalGeneration
SPECIAL = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}


def stack(hidden, heads, kv_heads, head_dim, ffn, layers, vocab, **others):
    sizes = dict(hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim, intermediate_size=ffn)
    caps = dict(query_pre_attn_scalar=7, attn_logit_softcapping=4.0, final_logit_softcapping=9.0)
    return sizes | dict(num_hidden_layers=layers, vocab_size=vocab, max_position_embeddings=24) | caps | SPECIAL | others


def t5gemma(encoder, decoder, **others):
    """With what the functions of the other families ask of a case's config."""
    return dict(encoder=encoder, decoder=decoder, vocab_size=decoder["vocab_size"], decoder_start_token_id=2) | SPECIAL | others


NO_CAPS = dict(attn_logit_softcapping=None, final_logit_softcapping=None)
CASES = [
    Case(
        "t5gemma_e24_d28",
        231,
        T5GEMMA,
        t5gemma(stack(24, 3, 1, 8, 31, 2, 53, sliding_window=20), stack(28, 4, 2, 6, 29, 3, 53, sliding_window=5)),
        (7, 4, 1),
        9,
    ),
    Case(
        "t5gemma_untied_biased",
        232,
        T5GEMMA,
        t5gemma(
            stack(20, 2, 2, 10, 23, 1, 47, attention_bias=True, layer_types=["full_attention"], **NO_CAPS),
            stack(20, 2, 2, 10, 27, 2, 47, attention_bias=True, layer_types=["full_attention"] * 2, **NO_CAPS),
            tie_word_embeddings=False,
        ),
        (5, 12),
        7,
        dtype=torch.float32,
    ),
    Case(
        "t5gemma_windows",
        233,
        T5GEMMA,
        t5gemma(stack(24, 2, 1, 12, 21, 3, 43, sliding_window=3), stack(16, 2, 1, 4, 25, 2, 41, sliding_window=4)),
        (14, 6),
        8,
        dtype=torch.bfloat16,
        generation={"num_beams": 2, "max_length": MAX_LENGTH},
    ),
]


def strict_window(sliding_window):
    return lambda batch, head, query, key: abs(query - key) < sliding_window


def finite_masks(attend):
    """transformers takes the softmax in float32, where float64's lowest number is infinite, and a token of padding that sees nothing NaN."""

    def attend_finitely(module, query, key, value, attention_mask, **others):
        return attend(module, query, key, value, None if attention_mask is None else attention_mask.clamp(min=-1e30), **others)

    return attend_finitely


def random_model(case):
    config = {name: value for name, value in case.config.items() if name != "decoder_start_token_id"}
    model = T5GEMMA(transformers.T5GemmaConfig(**config))
    generator = torch.Generator().manual_seed(case.seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                std = 0.2
            elif "embed_tokens" in name:
                std = 0.3
            elif name.endswith(("q_proj.weight", "k_proj.weight")):
                std = 1.5 * parameter.shape[1] ** -0.5
            else:
                std = 0.25
            parameter.copy_(std * torch.randn(parameter.shape, generator=generator))
    for field, value in case.generation.items():
        setattr(model.generation_config, field, value)
    return model


def write(case, out):
    shutil.rmtree(out, ignore_errors=True)
    torch.manual_seed(case.seed)
    model = random_model(case).eval()
    make_encoder_decoders.train(model, case)
    model.to(case.dtype).save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    model = T5GEMMA.from_pretrained(out, attn_implementation="eager", dtype=torch.float64).eval()
    make_encoder_decoders.forward_golden(model, case, out)
    make_encoder_decoders.generate_golden(model, case, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "encoder_decoders")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.masking_utils.sliding_window_bidirectional_overlay = strict_window
    modeling = transformers.models.t5gemma.modeling_t5gemma
    modeling.eager_attention_forward = finite_masks(modeling.eager_attention_forward)
    torch.set_num_threads(1)
    for case in CASES:
        if not arguments.cases or case.name in arguments.cases:
            write(case, arguments.out / case.name)


if __name__ == "__main__":
    main()
