#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes <case>/layers.safetensors beside the goldens of some models: the hidden states between their layers and all attention weights.

    python3 tests/goldens/make_layers.py [case ...]

The models and inputs are those of the other goldens, the values those of Hugging Face's output_hidden_states and output_attentions in
float64, by the names that `vkformer forward` gives them. Attention weights are numbered by layer, also where not every layer has some.
Rows of padding are zeros. Made with transformers 5.12; the two cases that it refuses to load with 4.57. See README.md.
"""

import argparse
import json
import pathlib
import re
import warnings

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

GOLDENS = pathlib.Path(__file__).parent
CASES = [
    "encoders/mpnet_scores",
    "modern_encoders/deberta_v3",
    "modern_encoders/deberta_scores",
    "modern_encoders/jina_v3_h24",
    "encoders/bert_h20",
    "encoders/bert_pairs",
    "encoders/distilbert_h30",
    "modern_encoders/gemma3_bidirectional",
    "modern_encoders/modernbert_h24",
    "modern_encoders/nomic_bert_h24",
    "modern_encoders/qwen3_scores",
    "decoders/gpt2",
    "decoders/granite",
    "decoders/granite_hybrid",
    "decoders/lfm2",
    "decoders/llama_gqa_odd",
    "decoders/mistral_window",
    "decoders/nemotron_h",
    "decoders/qwen3_5_odd_tied",
    "decoders/qwen3_moe_dense_layers",
    "decoders/gpt_oss",
    "encoder_decoders/bart_d21_h3_h7",
    "encoder_decoders/mbart_d20_h5_h2",
    "encoder_decoders/umt5_d20_own_biases",
    "encoder_decoders/t5_d22_relu",
    "encoder_decoders/t5gemma_e24_d28",
    "marian/relu_d16_h1_h2_holes",
    "speech/whisper_d20_untied",
    "ctc/hubert_large",
    "ctc/wav2vec2_base",
    "vision/models/clip_old_end",
    "vision/models/vit_h20",
    "modern_vision/models/dinov2_odd",
    "modern_vision/models/dinov3_gated",
    "modern_vision/models/siglip_odd",
]
CASES_OF_4 = ["decoders/gemma2", "decoders/gemma3"]  # a hidden size that 5.12 holds against the heads, whose width is their own
INPUTS = ["input_ids", "attention_mask", "token_type_ids", "pixel_values", "input_features", "input_values", "decoder_input_ids", "decoder_attention_mask"]


def load_model(folder, config):
    kind = getattr(transformers, (config.get("architectures") or ["AutoModel"])[0])
    experts = {"experts_implementation": "eager"} if "num_experts" in config or "num_local_experts" in config else {}
    if transformers.__version__.startswith("4"):
        experts = {}
    return kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", **experts).eval()


def read_inputs(golden, config):
    inputs = {}
    for name in INPUTS:
        if name in golden:
            values = torch.tensor(golden[name])
            inputs[name] = values.double() if values.is_floating_point() else values.long()
    if "input_features" in inputs:  # [batch, frames, bins] there
        inputs["input_features"] = inputs["input_features"].transpose(1, 2)
    return inputs


def attention_layers(model):
    """Numbers of the layers that have attention."""
    found = {int(m[1]) for name, _ in model.named_modules() if (m := re.search(r"\.(\d+)\.(?:self_attn|mixer\.q_proj|attn)\b", name))}
    return sorted(found)


def outputs_of(model, inputs):
    """By the names of `vkformer forward`, as NumPy arrays."""
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True, output_attentions=True)
    found = {}

    def take(outputs, owner):
        for name, values in outputs.items():
            if isinstance(values, tuple) and ("hidden_states" in name or "attentions" in name):
                numbers = range(len(values))
                if name == "attentions" and len(outputs["hidden_states"]) > len(values) + 1:
                    numbers = attention_layers(model)
                    assert len(numbers) == len(values), (numbers, len(values))
                found.update({f"{owner}{name}.{n}": v.numpy() for n, v in zip(numbers, values)})
            elif name.endswith("_model_output"):
                take(values, f"{owner}{name}.")

    take(outputs, "")
    return found


def texts_by_themselves(model, inputs):
    """In a batch, transformers gives NaN where a token of padding sees nothing within its window, and hands it on."""
    batch, length = inputs["input_ids"].shape
    whole = {}
    for row, count in enumerate(inputs["attention_mask"].sum(1).tolist()):
        found = outputs_of(model, {name: x[row : row + 1, :count] for name, x in inputs.items()})
        for name, values in found.items():
            if values.ndim == 4:
                whole.setdefault(name, np.zeros([batch, values.shape[1], length, length]))[row, :, :count, :count] = values[0]
            else:
                whole.setdefault(name, np.zeros([batch, length, values.shape[2]]))[row, :count] = values[0]
    return whole


def layers_of(folder):
    config = json.loads((folder / "config.json").read_text())
    golden = load_file(folder / "golden.safetensors")
    model, inputs = load_model(folder, config), read_inputs(golden, config)
    if "attention_mask" in inputs and "decoder_input_ids" not in inputs:
        found = texts_by_themselves(model, inputs)
    else:
        found = outputs_of(model, inputs)
    if "lengths" in golden:  # CLIP's texts
        rows = (np.arange(inputs["input_ids"].shape[1])[None, :] < golden["lengths"][:, None]).astype(float)
        for name in found:
            if name.startswith("text_model_output."):
                found[name] = found[name] * (rows[:, :, None] if found[name].ndim == 3 else rows[:, None, :, None])
    return {name: np.ascontiguousarray(values.astype(np.float32)) for name, values in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case")
    parser.add_argument("--compare", action="store_true", help="write nothing: print the largest relative difference from the files")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    is_4 = transformers.__version__.startswith("4")
    cases = arguments.cases or ((CASES_OF_4 + CASES if arguments.compare else CASES_OF_4) if is_4 else CASES)
    for case in cases:
        file = GOLDENS / case / "layers.safetensors"
        try:
            found = layers_of(GOLDENS / case)
        except Exception as error:
            if not arguments.compare:
                raise
            print(f"{case}: not loaded: {str(error).splitlines()[0][:100]}")
            continue
        if not arguments.compare:
            save_file(found, file)
            print(f"{case}: {len(found)} tensors, {file.stat().st_size} bytes")
            continue
        known = load_file(file)
        print(f"{case}: {sorted(set(known) ^ set(found)) or 'same names'}", end="")
        for name in sorted(set(known) & set(found)):
            scale = np.abs(known[name]).max() or 1
            difference = np.abs(known[name] - found[name]).max() / scale if known[name].shape == found[name].shape else np.inf
            if difference > 1e-6:
                print(f" {name} {difference:.1e}", end="")
        print()


if __name__ == "__main__":
    main()
