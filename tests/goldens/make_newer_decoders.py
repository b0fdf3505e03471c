#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/{glm4,seed_oss,exaone4,hunyuan,ernie4_5,cohere}*/: tiny random models, as make_decoders.py writes those of other families.

    python3 tests/goldens/make_newer_decoders.py [--out DIR] [case ...]

Made with transformers 5.12.1, whose routers are float32 in a model of whatever type: here they are float64 as the rest.
"""

import argparse
import pathlib
import warnings

import torch
import transformers
from safetensors.torch import load_file
from transformers.models.ernie4_5_moe import modeling_ernie4_5_moe as ernie
from transformers.models.glm4_moe import modeling_glm4_moe as glm

import make_decoders
from make_decoders import Case, llama_like
from make_granite import make_double

S, F = "sliding_attention", "full_attention"


def rope(kind="default", theta=1e4, **others):
    return dict(rope_type=kind, rope_theta=theta, **others)


def cohere(kind, heads, kv_heads, hidden, ffn, layers, **others):
    """Without a head_dim of their own."""
    return kind(vocab_size=61, hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=kv_heads, max_position_embeddings=128, bos_token_id=1, eos_token_id=None, pad_token_id=None, **others)  # fmt: skip


def glm4(*args, **others):
    """Whose config takes no end of the text for those of the published models, which this vocabulary has not."""
    config = llama_like(transformers.Glm4Config, *args, **others)
    config.eos_token_id = None
    return config


def cases():
    t = transformers
    yield Case("glm4", 501, glm4(3, 1, 12, 21, 37, 3), torch.float32, std=0.25)
    yield Case("glm4_plain", 502, glm4(4, 2, 8, 32, 41, 2, attention_bias=False, tie_word_embeddings=True, rms_norm_eps=1e-5,
                                       rope_parameters=rope("linear", 5e5, factor=2.5, partial_rotary_factor=0.75)), std=0.25)  # fmt: skip
    experts = dict(n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=13)
    yield Case("glm4_moe", 623, llama_like(t.Glm4MoeConfig, 4, 2, 12, 26, 31, 3, attention_bias=True, use_qk_norm=True,
                                           routed_scaling_factor=1.5, **experts), torch.bfloat16, std=0.2)  # fmt: skip
    yield Case("glm4_moe_groups", 544, llama_like(t.Glm4MoeConfig, 3, 1, 8, 20, 29, 4, n_shared_experts=2, first_k_dense_replace=2,
                                                  tie_word_embeddings=True, norm_topk_prob=False, n_group=2, topk_group=1,
                                                  rope_parameters=rope(theta=1e6, partial_rotary_factor=0.75),
                                                  **experts | dict(n_routed_experts=8)), std=0.25)  # fmt: skip
    yield Case("seed_oss", 505, llama_like(t.SeedOssConfig, 5, 1, 8, 21, 37, 3, rope_parameters=rope(theta=1e7)), torch.float32, std=0.2)
    yield Case("seed_oss_biased", 506, llama_like(t.SeedOssConfig, 4, 2, 6, 24, 33, 2, attention_out_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                                  rope_parameters=rope("linear", factor=4.0)), torch.bfloat16, std=0.25)  # fmt: skip
    yield Case("exaone4", 507, llama_like(t.Exaone4Config, 4, 2, 10, 26, 35, 5, sliding_window=5), std=0.2)
    yield Case("exaone4_full", 508, llama_like(t.Exaone4Config, 3, 1, 8, 24, 40, 2, sliding_window=None, layer_types=[F, F], tie_word_embeddings=True,
                                               rope_parameters=rope("llama3", 1e6, factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                                    original_max_position_embeddings=32)), std=0.25)  # fmt: skip
    yield Case("exaone4_listed", 509, llama_like(t.Exaone4Config, 2, 2, 12, 28, 31, 4, sliding_window=6, layer_types=[F, S, F, S]), std=0.25)
    yield Case("hunyuan_dense", 510, llama_like(t.HunYuanDenseV1Config, 4, 2, 10, 26, 37, 3, tie_word_embeddings=True,
                                                rope_parameters=rope("dynamic", alpha=50.0, factor=1.0)), torch.float32, std=0.25)  # fmt: skip
    yield Case("hunyuan_dense_biased", 511, llama_like(t.HunYuanDenseV1Config, 3, 1, 12, 24, 33, 2, attention_bias=True,
                                                       rope_parameters=rope(theta=1e5)), std=0.25)  # fmt: skip
    yield Case("ernie4_5", 512, llama_like(t.Ernie4_5Config, 3, 1, 10, 21, 37, 3), torch.float32, std=0.25)
    yield Case("ernie4_5_biased", 513, llama_like(t.Ernie4_5Config, 4, 2, 8, 32, 41, 2, use_bias=True, tie_word_embeddings=False,
                                                  rope_parameters=rope(theta=1e4)), std=0.25)  # fmt: skip
    experts = dict(moe_num_experts=7, moe_k=3, moe_intermediate_size=9)
    # The converter takes the width of the expert of all tokens to be intermediate_size / num_key_value_heads.
    yield Case("ernie4_5_moe", 594, llama_like(t.Ernie4_5_MoeConfig, 4, 2, 6, 24, 36, 3, **experts), torch.bfloat16, std=0.25)
    yield Case("ernie4_5_moe_biased", 515, llama_like(t.Ernie4_5_MoeConfig, 3, 1, 8, 24, 29, 6, use_bias=True, tie_word_embeddings=False,
                                                      moe_num_shared_experts=0, moe_layer_interval=2, moe_layer_start_index=2,
                                                      moe_layer_end_index=4, **experts), std=0.25)  # fmt: skip
    yield Case("cohere", 516, cohere(t.CohereConfig, 3, 3, 30, 37, 3, logit_scale=0.3), torch.float32, std=0.25)
    yield Case("cohere_normed", 517, cohere(t.CohereConfig, 4, 2, 40, 41, 2, use_qk_norm=True, attention_bias=True,
                                            logit_scale=0.8333, rope_parameters=rope(theta=8e6)), std=0.25)  # fmt: skip
    yield Case("cohere2", 518, cohere(t.Cohere2Config, 4, 2, 32, 35, 5, sliding_window=5, logit_scale=0.25), torch.float32, std=0.25)
    yield Case("cohere2_listed", 519, cohere(t.Cohere2Config, 3, 1, 30, 33, 4, sliding_window=6, layer_types=[S, F, F, S], attention_bias=True,
                                             tie_word_embeddings=False, logit_scale=1.0, rope_parameters=rope(theta=5e4)), std=0.25)  # fmt: skip


def make_model(case):
    """Gains around 1, those of each head, too, and choices that their bias counts in."""
    model = make_decoders.make_model(case)
    with torch.no_grad():
        for name, p in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("e_score_correction_bias"):
                p.normal_(0.0, 0.3 if "glm" in case.name else 0.1)
            elif p.dim() == 2 and name.endswith("norm.weight"):
                p += 1
    return model


def choices(gate, logits):
    """What the experts are chosen by, of each token, -1 for those of groups that are left out, and by how much groups are."""
    config = gate.config if hasattr(gate, "config") else None
    if config is None:
        return logits.softmax(-1) + gate.moe_statics.e_score_correction_bias.squeeze(), 1.0
    scores = logits.sigmoid() + gate.e_score_correction_bias
    if config.n_group == 1:
        return scores, 1.0
    groups = scores.unflatten(-1, (config.n_group, -1))
    places = groups.topk(2, dim=-1).values.sum(-1)
    kept = places >= places.topk(config.topk_group, dim=-1).values[..., -1:]
    return groups.masked_fill(~kept[..., None], -1.0).flatten(-2), gaps(places, config.topk_group)


def gaps(scores, kept):
    """By how much the last of those that come first is before the next."""
    ordered = scores.sort(-1, descending=True).values
    return (ordered[..., kept - 1] - ordered[..., kept]).min().item()


def check_choices(case, folder, least=0.002):
    """No router's choice hangs on what float16 has not."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                              experts_implementation="eager").eval()  # fmt: skip
    margins = []

    def look(gate, _, output):
        scores, gap = choices(gate, output[0] if isinstance(output, tuple) else output)
        margins.extend([gap, gaps(scores.flatten(0, -2), gate.top_k)])

    for name, module in model.named_modules():
        if name.endswith(".gate"):
            module.register_forward_hook(look)
    with torch.no_grad():
        model(load_file(folder / "golden.safetensors")["input_ids"])
    print(f"{case.name}, seed {case.seed}: margin {min(margins):.4f}")
    assert min(margins) > least


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    make_double(glm, "Glm4MoeTopkRouter", "forward")
    make_double(ernie, "Ernie4_5_MoeTopKRouter", "forward")
    for case in cases():
        if not args.cases or case.name in args.cases:
            loading = dict(experts_implementation="eager") if "moe" in case.name else {}
            make_decoders.write(case, args.out / case.name, make_model, **loading)
            if "moe" in case.name:
                check_choices(case, args.out / case.name)


if __name__ == "__main__":
    main()
