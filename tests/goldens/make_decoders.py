#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes decoders/<case>/: tiny random decoder-only models as Hugging Face folders, their logits and greedy continuations.

    python3 tests/goldens/make_decoders.py [--out DIR] [case ...]

Weights are drawn at random and rounded to what the file stores (float32, float16 or bfloat16); the reference computes with
those values in float64 (rotary angles in float32, as transformers does). See README.md for versions and format.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import warnings

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

NEW_TOKENS = 64
PROMPT_TRIES = 400
MARGIN = 2e-3  # least distance of the two largest logits, relative to their spread, at every step of a recorded continuation


@dataclasses.dataclass
class Case:
    name: str
    seed: int
    config: transformers.PretrainedConfig
    dtype: torch.dtype = torch.float16
    batch: int = 2
    len: int = 11
    std: float = 0.3


def llama_like(kind, heads, kv_heads, head_dim, hidden, ffn, layers, vocab=61, **others):
    return kind(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=ffn,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=others.pop("positions", 128),
        **{"bos_token_id": 1, "eos_token_id": None, "pad_token_id": None, "attention_dropout": 0.0} | others,
    )


def cases():
    t = transformers
    yield Case("llama_gqa_odd", 1, llama_like(t.LlamaConfig, 3, 1, 10, 21, 37, 3, rms_norm_eps=1e-5, tie_word_embeddings=False),
               torch.float32, std=0.2)  # fmt: skip
    yield Case(
        "llama3_scaled_bf16",
        2,
        llama_like(
            t.LlamaConfig, 4, 2, 16, 32, 96, 2, rope_theta=500000.0, tie_word_embeddings=True,
            rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                              original_max_position_embeddings=32),
        ),
        torch.bfloat16,
    )  # fmt: skip
    yield Case(
        "llama_biased_linear",
        3,
        llama_like(t.LlamaConfig, 5, 5, 6, 30, 41, 2, attention_bias=True, mlp_bias=True, tie_word_embeddings=False, hidden_act="gelu",
                   rope_scaling=dict(rope_type="linear", factor=2.5)),
    )  # fmt: skip
    yield Case(
        "llama_yarn",
        4,
        llama_like(t.LlamaConfig, 2, 1, 24, 24, 33, 2, tie_word_embeddings=True,
                   rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)),
    )  # fmt: skip
    yield Case("smollm2_shape", 5, llama_like(t.LlamaConfig, 9, 3, 4, 36, 48, 3, rope_theta=100000.0, tie_word_embeddings=True), std=0.2)
    yield Case("mistral_window", 6, llama_like(t.MistralConfig, 4, 2, 8, 28, 40, 3, sliding_window=5, tie_word_embeddings=False))
    yield Case("mistral_no_window", 7, llama_like(t.MistralConfig, 3, 3, 8, 24, 31, 2, sliding_window=None))
    yield Case(
        "smollm3",
        8,
        llama_like(t.SmolLM3Config, 4, 2, 6, 24, 44, 5, tie_word_embeddings=True, no_rope_layer_interval=4, rope_theta=2000000.0),
    )
    yield Case("qwen2", 9, llama_like(t.Qwen2Config, 4, 2, 7 * 2, 56, 60, 2, tie_word_embeddings=False, rope_theta=1000000.0))
    yield Case(
        "qwen2_tied_window_bf16",
        10,
        llama_like(t.Qwen2Config, 2, 1, 16, 32, 64, 3, tie_word_embeddings=True, use_sliding_window=True, sliding_window=4,
                   max_window_layers=1),
        torch.bfloat16,
        std=0.2,
    )  # fmt: skip
    yield Case("qwen3", 11, llama_like(t.Qwen3Config, 4, 2, 12, 26, 50, 3, tie_word_embeddings=False, rope_theta=1000000.0))
    yield Case("qwen3_tied_biased", 12, llama_like(t.Qwen3Config, 3, 1, 16, 20, 33, 2, tie_word_embeddings=True, attention_bias=True))
    yield Case("gemma", 13, llama_like(t.GemmaConfig, 3, 1, 14, 24, 50, 2, hidden_activation="gelu_pytorch_tanh"))
    gemma2 = dict(hidden_activation="gelu_pytorch_tanh", sliding_window=6)
    yield Case("gemma2", 14, llama_like(t.Gemma2Config, 4, 2, 10, 26, 38, 4, query_pre_attn_scalar=10, attn_logit_softcapping=3.0,
                                        final_logit_softcapping=2.5, **gemma2))  # fmt: skip
    yield Case("gemma2_no_caps", 15, llama_like(t.Gemma2Config, 2, 1, 16, 32, 40, 3, query_pre_attn_scalar=22,
                                                attn_logit_softcapping=None, final_logit_softcapping=None, **gemma2))  # fmt: skip
    gemma3 = dict(hidden_activation="gelu_pytorch_tanh", sliding_window=5, rope_theta=1000000.0, rope_local_base_freq=10000.0)
    yield Case("gemma3", 16, llama_like(t.Gemma3TextConfig, 4, 1, 12, 30, 44, 7, query_pre_attn_scalar=20, **gemma3), torch.float32)
    yield Case("gemma3_scaled", 17, llama_like(t.Gemma3TextConfig, 2, 2, 8, 16, 33, 6, query_pre_attn_scalar=8,
                                               rope_scaling=dict(rope_type="linear", factor=8.0), **gemma3), std=0.2)  # fmt: skip
    yield Case("phi3", 18, llama_like(t.Phi3Config, 4, 2, 8, 32, 42, 2, sliding_window=7))
    yield Case(
        "phi3_longrope",
        19,
        llama_like(t.Phi3Config, 2, 2, 12, 24, 37, 2, sliding_window=None, tie_word_embeddings=True, original_max_position_embeddings=96,
                   rope_scaling=dict(type="longrope", short_factor=[1.0, 1.1, 1.3, 1.7, 2.0, 2.2],
                                     long_factor=[1.0, 2.0, 4.0, 8.0, 12.0, 16.0])),
    )  # fmt: skip
    gpt2 = dict(bos_token_id=0, eos_token_id=None)
    yield Case("gpt2", 20, t.GPT2Config(vocab_size=61, n_embd=30, n_head=5, n_layer=3, n_positions=96, **gpt2), torch.float32)
    yield Case("gpt2_inner_relu", 21, t.GPT2Config(vocab_size=53, n_embd=22, n_head=2, n_layer=2, n_positions=80, n_inner=35,
                                                   activation_function="relu", scale_attn_weights=False, **gpt2), std=0.25)  # fmt: skip
    yield Case("mixtral", 22, llama_like(t.MixtralConfig, 3, 1, 10, 22, 27, 2, num_local_experts=5, num_experts_per_tok=2,
                                         rope_theta=1000000.0, tie_word_embeddings=False), torch.float32, std=0.25)  # fmt: skip
    yield Case("mixtral_window_odd", 23, llama_like(t.MixtralConfig, 4, 2, 8, 21, 19, 3, num_local_experts=3, num_experts_per_tok=3,
                                                    sliding_window=5), std=0.25)  # fmt: skip
    qwen2 = dict(num_experts=6, moe_intermediate_size=11, shared_expert_intermediate_size=18)
    yield Case("qwen2_moe", 24, llama_like(t.Qwen2MoeConfig, 4, 2, 6, 24, 30, 4, num_experts_per_tok=2, decoder_sparse_step=2,
                                           **qwen2), torch.float32, std=0.25)  # fmt: skip
    yield Case("qwen2_moe_normalised", 25, llama_like(t.Qwen2MoeConfig, 2, 1, 16, 32, 33, 3, num_experts_per_tok=4, norm_topk_prob=True,
                                                      mlp_only_layers=[1], qkv_bias=False, tie_word_embeddings=True, **qwen2), std=0.2)  # fmt: skip
    yield Case("qwen3_moe", 26, llama_like(t.Qwen3MoeConfig, 4, 2, 12, 26, 40, 3, num_experts=9, num_experts_per_tok=3,
                                           moe_intermediate_size=14, norm_topk_prob=True, rope_theta=1000000.0,
                                           tie_word_embeddings=False), torch.bfloat16, std=0.25)  # fmt: skip
    yield Case("qwen3_moe_dense_layers", 27, llama_like(t.Qwen3MoeConfig, 3, 1, 16, 20, 29, 4, num_experts=4, num_experts_per_tok=1,
                                                        moe_intermediate_size=9, mlp_only_layers=[0], decoder_sparse_step=1,
                                                        attention_bias=True, use_sliding_window=True, sliding_window=6), std=0.25)  # fmt: skip
    yield Case("olmoe", 30, llama_like(t.OlmoeConfig, 4, 4, 6, 24, 13, 3, num_experts=8, num_experts_per_tok=3,
                                       tie_word_embeddings=False), torch.float32, std=0.25)  # fmt: skip
    yield Case("olmoe_grouped", 29, llama_like(t.OlmoeConfig, 4, 2, 8, 32, 21, 2, num_experts=5, num_experts_per_tok=2, norm_topk_prob=True,
                                               attention_bias=True), std=0.25)  # fmt: skip


def make_model(case):
    """In the dtype of the file, with every parameter in use."""
    torch.manual_seed(case.seed)
    model = transformers.AutoModelForCausalLM.from_config(case.config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_gain = p.dim() == 1 and "bias" not in name
            stored_minus_one = is_gain and "gemma" in case.config.model_type
            p.normal_(1.0 if is_gain and not stored_minus_one else 0.0, case.std)
            if "gemma" in case.config.model_type and "embed_tokens" in name:
                p /= 2 * case.config.hidden_size**0.5  # so that a token's own embedding does not decide what follows it
    return model.to(case.dtype)


def continuation(model, prompt, count=NEW_TOKENS):
    """The greedy continuation, and the smallest relative distance of the best two logits on the way."""
    tokens, least = prompt, np.inf
    with torch.no_grad():
        for _ in range(count):
            logits = model(tokens).logits[0, -1]
            best = logits.topk(2).values
            least = min(least, ((best[0] - best[1]) / logits.std()).item())
            if least < MARGIN:
                return tokens, least
            tokens = torch.cat([tokens, logits.argmax().reshape(1, 1)], dim=1)
    return tokens, least


def find_continuation(case, model):
    """Of the prompts whose continuation no rounding can change, the one with the most different tokens."""
    generator = torch.Generator().manual_seed(1000 + case.seed)
    best, tried = None, 0
    for _ in range(PROMPT_TRIES):
        length = int(torch.randint(1, 14, (1,), generator=generator))
        prompt = torch.randint(0, case.config.vocab_size, (1, length), generator=generator)
        tokens, margin = continuation(model, prompt)
        if margin < MARGIN:
            continue
        variety = len(set(tokens[0, length:].tolist()))
        if best is None or variety > best[0]:
            best = (variety, length, tokens[0].tolist())
        tried += 1
        if tried == 6:
            break
    return best


def write_crossings(model, folder):
    """Continuations beyond the original context of LongRoPE: a prompt within it, one that fills it, one beyond it. Every token is
    chosen by a forward pass over all that are before it, whose length decides which factors hold."""
    original, most = model.config.original_max_position_embeddings, model.config.max_position_embeddings
    generator = torch.Generator().manual_seed(7)
    entries = []
    for length in (original - 9, original, original + 5):
        while True:
            prompt = torch.randint(0, model.config.vocab_size, (1, length), generator=generator)
            tokens, margin = continuation(model, prompt, min(24, most - length))
            if margin >= MARGIN and len(set(tokens[0, length:].tolist())) > 3:
                break
        tokens = tokens[0].tolist()
        entries.append({"prompt": tokens[:length], "continuation": tokens[length:]})
    (folder / "crossing.json").write_text(json.dumps(entries) + "\n")


def write(case, folder, make=make_model, **loading):
    shutil.rmtree(folder, ignore_errors=True)
    model = make(case)
    model.generation_config = transformers.GenerationConfig(bos_token_id=1, do_sample=False)
    model.save_pretrained(folder, safe_serialization=True)
    # Loaded anew: converting a model also rounds the angles that it has computed.
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", **loading).eval()
    generator = torch.Generator().manual_seed(case.seed)
    ids = torch.randint(0, case.config.vocab_size, (case.batch, case.len), generator=generator)
    with torch.no_grad():
        output = model(ids, output_hidden_states=True)
    save_file(
        {
            "input_ids": ids.numpy(),
            "logits": output.logits.numpy(),
            "last_hidden_state": output.hidden_states[-1].numpy(),
        },
        folder / "golden.safetensors",
    )
    variety, length, tokens = find_continuation(case, model)
    text = json.dumps({"prompt": tokens[:length], "continuation": tokens[length:]})
    (folder / "greedy.json").write_text(text + "\n")
    if "longrope" in case.name:
        write_crossings(model, folder)
    print(f"{case.name}: {sum(p.numel() for p in model.parameters())} weights, prompt {length}, {variety} different tokens")


CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONVERSATIONS = [
    [("user", "Hello, world!")],
    [("system", "Be brief."), ("user", "  What is a frog? ")],
    [("user", "Grüße aus Köln 🐸"), ("assistant", "Ja."), ("user", "日本語 ok?")],
]


def make_tokenizer():
    """A byte-level BPE of a few merges, with the marks of a conversation."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = ["the small frog and the user assistant system said what is it", "Hello world, hello frog! Die Grüße aus Köln."]
    tokenizer.train_from_iterator(text * 3, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def write_text_case(folder):
    """A model with its tokenizer and chat template: prompts as text, and what generate() makes of them."""
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = make_tokenizer()
    config = llama_like(transformers.Qwen2Config, 4, 2, 8, 32, 40, 2, vocab=len(tokenizer), tie_word_embeddings=False, positions=160)
    model = make_model(Case("text", 77, config))
    model.generation_config = transformers.GenerationConfig(do_sample=False, eos_token_id=[0, 2], pad_token_id=0)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()

    def generate(ids, **options):
        out = model.generate(torch.tensor([ids]), max_new_tokens=48, **options)[0, len(ids) :].tolist()
        return {"prompt_ids": ids, "ids": out, "text": tokenizer.decode(out, skip_special_tokens=True)}

    prompts = ["Hello", "The small frog", "Grüße 🐸", "a  b\n\n", "x"]
    conversations = [[{"role": role, "content": content} for role, content in turns] for turns in CONVERSATIONS]
    result = {
        "prompts": [{"prompt": p} | generate(tokenizer(p).input_ids) for p in prompts],
        "penalised": generate(tokenizer(prompts[0]).input_ids, repetition_penalty=1.4),
        "unrepeated": generate(tokenizer(prompts[0]).input_ids, no_repeat_ngram_size=2),
        "lengthened": [generate(tokenizer(p).input_ids, min_new_tokens=40) | {"prompt": p} for p in prompts[:3]],
        "biased": generate(tokenizer(prompts[0]).input_ids, sequence_bias=[[[145], -50.0], [[270], 1.5]]),
        "conversations": [
            {"messages": c} | generate(tokenizer.apply_chat_template(c, add_generation_prompt=True)) for c in conversations
        ],
    }
    (folder / "expected.json").write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for case in cases():
        if not args.cases or case.name in args.cases:
            write(case, args.out / case.name)
    if not args.cases or "text" in args.cases:
        write_text_case(args.out.parent / "decoder_text")


if __name__ == "__main__":
    main()
