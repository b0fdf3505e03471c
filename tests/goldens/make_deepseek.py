#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/deepseek_*/: tiny random models of DeepSeek-V2 and V3, as make_decoders.py writes those of other families.

    python3 tests/goldens/make_deepseek.py [--out DIR] [case ...]

Made with transformers 5.12.1, whose routers are float32 in a model of whatever type: here they are float64 as the rest. Two things are as in
the code that DeepSeek publishes beside its weights and not as in transformers, which passes over the fields: scores of V2 are scaled by
mscale_all_dim, as V3's are, and layers have experts by moe_layer_freq.
"""

import argparse
import pathlib
import warnings

import torch
import transformers
from safetensors.torch import load_file
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as second
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as third

import make_decoders
from make_decoders import Case
from make_granite import make_double


def config(kind, heads, hidden, layers, rank, query_rank, plain, rotary, value, experts, chosen, expert_size, shared, **others):
    return kind(
        vocab_size=61, hidden_size=hidden, intermediate_size=37, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=heads, kv_lora_rank=rank, q_lora_rank=query_rank, qk_nope_head_dim=plain, qk_rope_head_dim=rotary,
        v_head_dim=value, n_routed_experts=experts, num_experts_per_tok=chosen, moe_intermediate_size=expert_size, n_shared_experts=shared,
        max_position_embeddings=128, bos_token_id=1, eos_token_id=None, pad_token_id=None, **others)  # fmt: skip


def cases():
    v2, v3 = transformers.DeepseekV2Config, transformers.DeepseekV3Config
    yarn = dict(rope_type="yarn", rope_theta=150.0, factor=4.0, beta_fast=4, beta_slow=1, original_max_position_embeddings=32)
    yield Case("deepseek_v2", 405, config(v2, 3, 24, 3, 11, None, 5, 6, 7, 6, 2, 11, 2, first_k_dense_replace=1), torch.float32, std=0.2)
    yield Case("deepseek_v2_groups", 452, config(v2, 4, 20, 2, 13, 17, 6, 8, 5, 12, 3, 9, 1, topk_method="group_limited_greedy",
                                                 n_group=4, topk_group=2, routed_scaling_factor=3.5,
                                                 rope_parameters=yarn | dict(mscale=0.9, mscale_all_dim=0.9)),
               torch.float32, len=8, std=0.25)  # fmt: skip
    yield Case("deepseek_v2_biased_bf16", 406, config(v2, 2, 18, 2, 9, 12, 4, 10, 6, 5, 1, 8, 1, attention_bias=True, mlp_bias=True,
                                                      tie_word_embeddings=True), torch.bfloat16, std=0.25)  # fmt: skip
    yield Case("deepseek_v3", 405, config(v3, 5, 22, 4, 14, 19, 7, 4, 9, 12, 4, 10, 1, n_group=3, topk_group=2, first_k_dense_replace=1,
                                          rope_parameters=yarn | dict(mscale=1.0, mscale_all_dim=1.0)),
               torch.bfloat16, std=0.2)  # fmt: skip
    yield Case("deepseek_v3_halves", 406, config(v3, 4, 32, 4, 48, None, 12, 16, 8, 7, 3, 13, 2, n_group=1, topk_group=1,
                                                 first_k_dense_replace=0, moe_layer_freq=2, norm_topk_prob=False,
                                                 routed_scaling_factor=1.5, rope_interleave=False, tie_word_embeddings=True,
                                                 rope_parameters=yarn | dict(mscale=0.7, mscale_all_dim=1.1)),
               torch.float16, std=0.2)  # fmt: skip


def published_attention(kind):
    """Scores that are scaled by mscale_all_dim."""
    init = kind.__init__

    def scaled(self, config, *args, **kwargs):
        init(self, config, *args, **kwargs)
        weight = config.rope_parameters.get("mscale_all_dim", 0)
        if weight:
            self.scaling = self.qk_head_dim**-0.5 * third.yarn_get_mscale(config.rope_parameters["factor"], weight) ** 2

    kind.__init__ = scaled


def published_layers(kind, dense):
    """Layers without experts between those with them."""
    init = kind.__init__

    def some_dense(self, config, layer_idx):
        init(self, config, layer_idx)
        if layer_idx % getattr(config, "moe_layer_freq", 1) != 0:
            self.mlp = dense(config)

    kind.__init__ = some_dense


def make_model(case):
    """Choices that their bias counts in."""
    model = make_decoders.make_model(case)
    with torch.no_grad():
        for name, p in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("e_score_correction_bias"):
                p.normal_(0.0, 0.3)
    return model


def gaps(scores, kept):
    """By how much the last of those that come first is before the next."""
    ordered = scores.sort(-1, descending=True).values
    return (ordered[..., kept - 1] - ordered[..., kept]).min().item()


def choice_margin(mlp, logits):
    config = mlp.config
    logits = logits.flatten(0, -2)
    is_third = hasattr(mlp.gate, "e_score_correction_bias")
    scores = logits.sigmoid() + mlp.gate.e_score_correction_bias if is_third else logits.softmax(-1)
    if not is_third and config.topk_method == "greedy" or config.n_group == config.topk_group:
        return gaps(scores, config.num_experts_per_tok)
    groups = scores.unflatten(-1, (config.n_group, -1))
    places = groups.topk(2 if is_third else 1, dim=-1).values.sum(-1)
    kept = places >= places.topk(config.topk_group, dim=-1).values[..., -1:]
    masked = groups.masked_fill(~kept[..., None], -1.0).flatten(-2)
    return min(gaps(places, config.topk_group), gaps(masked, config.num_experts_per_tok))


def check_choices(case, folder, least=0.002):
    """No router's choice hangs on what float16 has not."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                              experts_implementation="eager").eval()  # fmt: skip
    margins = []
    for layer in model.model.layers:
        if hasattr(layer.mlp, "experts"):
            def route(logits, mlp=layer.mlp, choose=layer.mlp.route_tokens_to_experts):
                margins.append(choice_margin(mlp, logits))
                return choose(logits)
            layer.mlp.route_tokens_to_experts = route
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
    make_double(second, "DeepseekV2Moe", "forward")
    make_double(second, "DeepseekV2Moe", "route_tokens_to_experts")
    make_double(third, "DeepseekV3TopkRouter", "forward")
    second.DeepseekV2Moe.num_experts = property(lambda self: self.config.n_routed_experts)  # which its groups ask for in vain
    published_attention(second.DeepseekV2Attention)
    published_layers(second.DeepseekV2DecoderLayer, second.DeepseekV2MLP)
    published_layers(third.DeepseekV3DecoderLayer, third.DeepseekV3MLP)
    for case in cases():
        if not args.cases or case.name in args.cases:
            make_decoders.write(case, args.out / case.name, make_model, experts_implementation="eager")
            check_choices(case, args.out / case.name)


if __name__ == "__main__":
    main()
