#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/gpt_oss*/: tiny random models of gpt-oss, as make_decoders.py writes those of other families.

    python3 tests/goldens/make_gpt_oss.py [--out DIR]

Made with transformers 5.12.1 (the others with 4.57.6, whose gpt-oss computes the same).
"""

import argparse
import json
import pathlib
import warnings

import torch
import transformers
from safetensors.torch import load_file, save_file

import make_decoders
from make_decoders import Case, llama_like


def cases():
    # Seeds for which no router's choice hangs on less than float16 has (least_margin), and borders of YaRN that truncation would move.
    yarn = dict(rope_type="yarn", rope_theta=150.0, factor=2.0, beta_fast=2.0, beta_slow=1.0, truncate=False,
                original_max_position_embeddings=64)
    yield Case("gpt_oss", 65, llama_like(transformers.GptOssConfig, 4, 2, 10, 23, 13, 4, num_local_experts=5, num_experts_per_tok=2, sliding_window=5,
                                         rope_parameters=yarn), torch.float32, std=0.25)  # fmt: skip
    yield Case("gpt_oss_tied_bf16", 39, llama_like(transformers.GptOssConfig, 3, 1, 10, 32, 22, 3, num_local_experts=7, num_experts_per_tok=4,
                                                   sliding_window=4, layer_types=["full_attention", "sliding_attention", "full_attention"],
                                                   rope_parameters=dict(rope_type="default", rope_theta=10000.0), attention_bias=False,
                                                   tie_word_embeddings=True), torch.bfloat16, std=0.25)  # fmt: skip
    yield Case("gpt_oss_mxfp4", 67, llama_like(transformers.GptOssConfig, 6, 2, 8, 64, 32, 4, num_local_experts=6, num_experts_per_tok=3,
                                               sliding_window=6, rope_parameters=yarn), std=0.15)  # fmt: skip


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def mxfp4(weight):
    """A stack [experts, in, out] as its numbers are after MXFP4, with blocks [experts, out, in / 32, 16] and scales [experts, out, in / 32]."""
    rows = weight.detach().float().transpose(1, 2).unflatten(-1, (-1, 32))
    exponents = torch.floor(torch.log2(rows.abs().amax(-1, keepdim=True))) - 2
    indices = (rows / 2**exponents).unsqueeze(-1).sub(E2M1).abs().argmin(-1)
    numbers = (E2M1[indices] * 2**exponents).flatten(-2).transpose(1, 2)
    blocks = (indices[..., ::2] | indices[..., 1::2] << 4).to(torch.uint8)
    return numbers, blocks, (exponents.squeeze(-1) + 127).to(torch.uint8)


def store_mxfp4(folder):
    """Puts blocks in the place of the experts' numbers, as the folders of gpt-oss have them."""
    stored = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            stored[name] = tensor
            continue
        numbers, blocks, scales = mxfp4(tensor)
        assert torch.equal(numbers, tensor.float())
        stored |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def make_model(case):
    """Weights in MXFP4 are drawn as numbers that are left as they are by it."""
    model = make_decoders.make_model(case)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "gate_up_proj_bias" in name:
                p *= 16  # so that some gates and their other halves lie beyond what they are clamped to
            if "mxfp4" in case.name and name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                p.copy_(mxfp4(p)[0])
    return model


def least_margin(model, ids, chosen, router, scores_of=lambda name, logits: logits):
    """By how much the last expert that any token chooses is before the next one."""
    margins = []

    def look(name, outputs):
        logits = outputs[0] if isinstance(outputs, tuple) else outputs
        scores = scores_of(name, logits).sort(-1, descending=True).values
        margins.append((scores[:, chosen - 1] - scores[:, chosen]).min().item())

    hooks = [m.register_forward_hook(lambda module, inputs, outputs, name=name: look(name, outputs))
             for name, m in model.named_modules() if name.endswith(router)]  # fmt: skip
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    return min(margins)


def check_margin(case, folder, router="mlp.router", least=0.012, scores_of=None):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                              experts_implementation="eager").eval()  # fmt: skip
    margin = least_margin(model, load_file(folder / "golden.safetensors")["input_ids"], case.config.num_experts_per_tok, router,
                          **({"scores_of": lambda name, logits: scores_of(model, name, logits)} if scores_of else {}))  # fmt: skip
    print(f"{case.name}, seed {case.seed}: margin {margin:.4f}")
    assert margin > least


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "decoders")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for case in cases():
        make_decoders.write(case, args.out / case.name, make_model, experts_implementation="eager")
        check_margin(case, args.out / case.name)
        if "mxfp4" in case.name:
            store_mxfp4(args.out / case.name)


if __name__ == "__main__":
    main()
