#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/gemma3n*/: tiny random models of Gemma 3n's text part, as make_decoders.py writes those of other families.

    python3 tests/goldens/make_gemma3n.py [--out DIR] [case ...]

Made with transformers 5.12.1, and numpy.
"""

import argparse
import json
import pathlib
import warnings

import make_decoders
import torch
import transformers
from make_decoders import Case, llama_like
from safetensors.torch import load_file, save_file

TEXT = transformers.Gemma3nTextConfig
S, F = "sliding_attention", "full_attention"


def cases():
    yield Case("gemma3n", 105, llama_like(TEXT, 5, 1, 12, 35, [23, 23, 19, 27, 23], 5, sliding_window=5, layer_types=[S, S, F, S, F],
                                         num_kv_shared_layers=2, hidden_size_per_layer_input=14, vocab_size_per_layer_input=61,
                                         altup_num_inputs=3, laurel_rank=7, activation_sparsity_pattern=[0.6, 0.8, 0.0, 0.0, 0.3],
                                         final_logit_softcapping=0.2), std=0.16)  # fmt: skip
    yield Case("gemma3n_own", 109, llama_like(TEXT, 3, 1, 10, 27, 33, 3, sliding_window=4, layer_types=[F, S, S], num_kv_shared_layers=0,
                                             hidden_size_per_layer_input=9, vocab_size_per_layer_input=64, altup_num_inputs=2,
                                             laurel_rank=5, altup_correct_scale=False, activation_sparsity_pattern=[0.0, 0.95, 0.5],
                                             attention_bias=True, tie_word_embeddings=False,
                                             rope_scaling=dict(rope_type="linear", factor=4.0), final_logit_softcapping=2.0), torch.float32, std=0.16)  # fmt: skip
    yield Case("gemma3n_whole", 103, llama_like(TEXT, 2, 1, 16, 32, 32, 3, sliding_window=7, layer_types=[S, F, F], num_kv_shared_layers=1,
                                               hidden_size_per_layer_input=32, vocab_size_per_layer_input=61, laurel_rank=32,
                                               activation_sparsity_pattern=[0.7, 0.0, 0.0], final_logit_softcapping=0.3, pad_token_id=0),
               torch.bfloat16, std=0.16)  # fmt: skip


def make_model(case):
    """In the dtype of the file, with every parameter in use."""
    torch.manual_seed(case.seed)
    model = transformers.AutoModelForCausalLM.from_config(case.config, attn_implementation="eager").eval()
    sizes = case.config
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_gain = p.dim() == 1 and "bias" not in name
            p.normal_(1.0 if is_gain else 0.0, case.std)
            if name.endswith(("q_norm.weight", "k_norm.weight")):  # nothing else scales the scores
                p *= p.numel() ** -0.25
            if "modality_router" in name:  # what it sees is divided by the width
                p *= sizes.hidden_size / 2
            if "embed_tokens" in name:  # so that a token's own embedding does not decide what follows it
                width = sizes.hidden_size_per_layer_input if "per_layer" in name else sizes.hidden_size
                p /= 2 * width**0.5
    return model.to(case.dtype)


class Gemma3nForCausalLM(transformers.Gemma3nForCausalLM):
    """Whose last hidden state is what the head sees: that of the library has all streams, before they are put together."""

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        if kwargs.get("output_hidden_states"):
            output.hidden_states = (self.model(*args).last_hidden_state,)
        return output


def wrap(folder):
    """As the text part of a folder with towers, which are left out."""
    config = json.loads((folder / "config.json").read_text())
    whole = {"architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n", "text_config": config}
    for field in ("dtype", "transformers_version"):
        whole[field] = config.pop(field)
    (folder / "config.json").write_text(json.dumps(whole, indent=2) + "\n")
    weights = load_file(folder / "model.safetensors")
    save_file({name.replace("model.", "model.language_model.", 1): tensor for name, tensor in weights.items()},
              folder / "model.safetensors", {"format": "pt"})  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.AutoModelForCausalLM.register(TEXT, Gemma3nForCausalLM, exist_ok=True)
    for case in cases():
        if not args.cases or case.name in args.cases:
            make_decoders.write(case, args.out / case.name, make=make_model)
            if case.name.endswith("whole"):
                wrap(args.out / case.name)


if __name__ == "__main__":
    main()
