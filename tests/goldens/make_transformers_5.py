#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes transformers_5/<case>/: tiny random folders as transformers 5 saves them, or with what people write into them by hand, and
their forward passes.

    python3 tests/goldens/make_transformers_5.py [--out DIR] [case ...]

Folders of transformers 4 and 5 with the same fields do not always mean the same: ties of the head, its scale, rotary positions. The
weights are float32; the reference is what 5.12 loads from the folder, run in float64. See README.md for versions and format.
"""

import argparse
import json
import pathlib
import shutil
import warnings

import numpy as np
import torch
import transformers as t
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_torch_file

VOCAB, LEN = 29, 9


def decoder(kind, layers=1, **others):
    sizes = dict(vocab_size=VOCAB, hidden_size=12, intermediate_size=17, num_hidden_layers=layers, num_attention_heads=2, head_dim=8)
    special = dict(bos_token_id=1, eos_token_id=None, pad_token_id=None)
    return kind(**sizes | dict(num_key_value_heads=1, max_position_embeddings=64) | special | others)


def t5(kind, **others):
    sizes = dict(vocab_size=VOCAB, d_model=12, d_kv=4, num_heads=3, d_ff=13, num_layers=1, num_decoder_layers=1)
    buckets = dict(relative_attention_num_buckets=8, relative_attention_max_distance=12)
    special = dict(pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    return kind(**sizes, **buckets, **special, feed_forward_proj="gated-gelu", **others)


def bart(kind, **others):
    sizes = {f"{s}_{n}": v for s in ("encoder", "decoder") for n, v in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 13))}
    special = dict(pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
    return kind(vocab_size=VOCAB, d_model=12, **sizes, **special, **others)


def random_model(kind, config, seed):
    torch.manual_seed(seed)
    model = kind(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_gain = p.dim() == 1 and "bias" not in name
            p.normal_(1.0 if is_gain and "gemma" not in config.model_type else 0.0, 0.35)
            if name.endswith((".q.weight", ".k.weight")):
                p *= 0.3  # T5 does not scale its scores: float16 stays below 3e-3
    return model


def set_fields(folder, **fields):
    """None takes a field out."""
    config = json.loads((folder / "config.json").read_text())
    config = {name: value for name, value in (config | fields).items() if fields.get(name, True) is not None}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def add_head(folder, name="lm_head.weight"):
    """A head that is not the table, in a folder that has none."""
    weights = load_file(folder / "model.safetensors")
    table = next(v for n, v in weights.items() if n.endswith(("embed_tokens.weight", "shared.weight", "wte.weight")))
    assert name not in weights
    weights[name] = np.random.default_rng(5).normal(0, 0.35, table.shape).astype(np.float32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def save_again(folder, kind):
    """As published with transformers 4, untied, then loaded and saved by 5."""
    add_head(folder)
    set_fields(folder, tie_word_embeddings=False, scale_decoder_outputs=None, transformers_version="4.57.6")
    model = kind.from_pretrained(folder)
    model.save_pretrained(folder)


def save_as_in_memory(folder, kind):
    """All experts in one tensor, as transformers 5 computes with them; it writes one for each expert."""
    weights = {name: tensor.contiguous() for name, tensor in kind.from_pretrained(folder).state_dict().items()}
    assert any(name.endswith("experts.gate_up_proj") for name in weights)
    save_torch_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


T5, MT5, UMT5 = t.T5ForConditionalGeneration, t.MT5ForConditionalGeneration, t.UMT5ForConditionalGeneration
LLAMA, QWEN2, GEMMA, GEMMA3 = t.LlamaForCausalLM, t.Qwen2ForCausalLM, t.GemmaForCausalLM, t.Gemma3ForCausalLM
MIXTRAL = t.MixtralForCausalLM
TWO_OF_FOUR = dict(num_experts=4, num_experts_per_tok=2)
LINEAR = {"rope_type": "linear", "factor": 2.0}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0, 1.5, 2.0], "long_factor": [1.0, 7.0, 20.0]}
DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}


def whisper():
    sizes = dict(num_mel_bins=5, max_source_positions=8, max_target_positions=16, scale_embedding=False, activation_function="gelu")
    return bart(t.WhisperConfig, **sizes)


# name → model class, config, what is then done to the folder
CASES = {
    "t5_own_head": (T5, t5(t.T5Config), lambda f: save_again(f, T5)),
    "t5_untied": (T5, t5(t.T5Config, tie_word_embeddings=False), None),
    "t5_tied": (T5, t5(t.T5Config), None),
    "mt5_tied": (MT5, t5(t.MT5Config), None),
    "mt5_own_head": (MT5, t5(t.MT5Config), lambda f: save_again(f, MT5)),
    "umt5_tied": (UMT5, t5(t.UMT5Config), None),
    "umt5_own_head": (UMT5, t5(t.UMT5Config), lambda f: save_again(f, UMT5)),
    "bart_own_head": (t.BartForConditionalGeneration, bart(t.BartConfig, max_position_embeddings=16), add_head),
    "marian_own_head": (t.MarianMTModel, bart(t.MarianConfig, max_position_embeddings=16), add_head),
    "whisper_own_head": (t.WhisperForConditionalGeneration, whisper(), lambda f: add_head(f, "proj_out.weight")),
    "llama_own_head": (LLAMA, decoder(t.LlamaConfig, tie_word_embeddings=True), add_head),
    "phi3_own_head": (t.Phi3ForCausalLM, decoder(t.Phi3Config, tie_word_embeddings=True), add_head),
    "gpt2_own_head": (t.GPT2LMHeadModel, t.GPT2Config(vocab_size=VOCAB, n_embd=12, n_head=2, n_layer=1, n_positions=16), add_head),
    "llama_linear_beside": (LLAMA, decoder(t.LlamaConfig), lambda f: set_fields(f, rope_scaling=LINEAR)),
    "qwen2_yarn_beside": (QWEN2, decoder(t.Qwen2Config), lambda f: set_fields(f, rope_scaling=YARN)),
    "qwen2_theta_outside": (
        QWEN2, decoder(t.Qwen2Config), lambda f: set_fields(f, rope_parameters={"rope_type": "default"}, rope_theta=500.0)),
    "qwen2_theta_inside": (
        QWEN2, decoder(t.Qwen2Config), lambda f: set_fields(f, rope_parameters=None, rope_scaling=YARN | {"rope_theta": 300.0}, rope_theta=500.0)),
    "gemma3_linear_beside": (
        GEMMA3, decoder(t.Gemma3TextConfig, layers=2, sliding_window=4, layer_types=["sliding_attention", "full_attention"]),
        lambda f: set_fields(f, rope_scaling=LINEAR)),
    "llama_partial": (LLAMA, decoder(t.LlamaConfig), lambda f: set_fields(f, rope_parameters=DEFAULT | {"partial_rotary_factor": 0.5})),
    "phi3_partial": (
        t.Phi3ForCausalLM, decoder(t.Phi3Config), lambda f: set_fields(f, rope_parameters=DEFAULT | {"partial_rotary_factor": 0.5})),
    "phi3_longrope": (t.Phi3ForCausalLM, decoder(t.Phi3Config, head_dim=6, original_max_position_embeddings=LEN - 1, rope_parameters=LONGROPE), None),
    "gemma_activations": (
        GEMMA, decoder(t.GemmaConfig), lambda f: set_fields(f, hidden_act="relu", hidden_activation="gelu_pytorch_tanh")),
    "gemma_exact_gelu": (GEMMA, decoder(t.GemmaConfig), lambda f: set_fields(f, hidden_act="gelu")),
    "mixtral": (MIXTRAL, decoder(t.MixtralConfig, layers=2, num_local_experts=3), None),
    "mixtral_in_memory": (MIXTRAL, decoder(t.MixtralConfig, num_local_experts=5, sliding_window=3), lambda f: save_as_in_memory(f, MIXTRAL)),
    "qwen2_moe_window": (
        t.Qwen2MoeForCausalLM,
        decoder(t.Qwen2MoeConfig, layers=3, moe_intermediate_size=9, shared_expert_intermediate_size=10, use_sliding_window=True,
                sliding_window=4, max_window_layers=2, **TWO_OF_FOUR), None),
    "qwen3_moe": (t.Qwen3MoeForCausalLM, decoder(t.Qwen3MoeConfig, layers=2, moe_intermediate_size=9, norm_topk_prob=True, **TWO_OF_FOUR), None),
    "olmoe": (t.OlmoeForCausalLM, decoder(t.OlmoeConfig, head_dim=6, **TWO_OF_FOUR), None),
}  # fmt: skip


def forward(model, config, rng):
    tensors = {}
    if config.model_type == "whisper":
        features = rng.normal(0, 1, (2, 2 * config.max_source_positions, config.num_mel_bins)).astype(np.float32)
        tensors["input_features"] = features
        inputs = {"input_features": torch.from_numpy(features).double().transpose(1, 2)}
    else:
        tensors["input_ids"] = rng.integers(3, VOCAB, (1, LEN))
        inputs = {"input_ids": torch.from_numpy(tensors["input_ids"])}
    if config.is_encoder_decoder:
        rows = 2 if config.model_type == "whisper" else 1
        tensors["decoder_input_ids"] = rng.integers(3, VOCAB, (rows, LEN - 2))
        inputs["decoder_input_ids"] = torch.from_numpy(tensors["decoder_input_ids"])
    with torch.no_grad():
        output = model(**inputs, output_hidden_states=True)
        if hasattr(config, "original_max_position_embeddings"):  # and within the original context
            tensors["short_logits"] = model(inputs["input_ids"][:, :-1]).logits.numpy()
    assert output.logits.dtype == torch.float64
    tensors["logits"] = output.logits.numpy()
    if config.is_encoder_decoder:
        tensors["encoder_last_hidden_state"] = output.encoder_last_hidden_state.numpy()
        tensors["decoder_last_hidden_state"] = output.decoder_hidden_states[-1].numpy()
    else:
        tensors["last_hidden_state"] = output.hidden_states[-1].numpy()
    return {name: np.ascontiguousarray(value) for name, value in tensors.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "transformers_5")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    assert t.__version__.startswith("5."), t.__version__
    warnings.simplefilter("ignore")
    t.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for seed, (name, (kind, config, change)) in enumerate(CASES.items()):
        if arguments.cases and name not in arguments.cases:
            continue
        folder = arguments.out / name
        shutil.rmtree(folder, ignore_errors=True)
        random_model(kind, config, 900 + seed).save_pretrained(folder)
        if change:
            change(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        experts = {"experts_implementation": "eager"} if hasattr(config, "num_experts_per_tok") else {}  # others know no float64
        model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64, **experts).eval()
        save_file(forward(model, model.config, np.random.default_rng(seed)), folder / "golden.safetensors")
        for file in folder.iterdir():
            file.chmod(0o644)
        saved = json.loads((folder / "config.json").read_text())
        print(name, {f: saved.get(f) for f in ("tie_word_embeddings", "scale_decoder_outputs", "rope_parameters", "rope_scaling")})


if __name__ == "__main__":
    main()
