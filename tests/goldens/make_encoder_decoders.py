#!/usr/bin/env python3
"""Writes encoder_decoders/<case>/: tiny random BART, mBART, M2M100 and T5 folders, their forward passes and what generate() makes
of them; and nllb_texts/, a folder with a tokenizer of many languages.

    python3 tests/goldens/make_encoder_decoders.py [--out DIR] [case ...]

As make_marian.py: drawn large, trained for a moment, so that outputs vary and end at different lengths. The file has them in the case's
dtype, and the reference runs what is in the file in float64. See README.md for the versions and the format.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import warnings

import numpy as np
import tokenizers
import torch
import transformers
from make_marian import NOISE_LEVELS, margin, padded_batch, run_generate
from safetensors.numpy import save_file

MAX_LENGTH = 12
TRAINING_STEPS = 300
TEXTS = ["the cat sat on the mat", "a dog eats an apple", "we see the sea", "the sea sees us, too", "an apple on the cat"]


@dataclasses.dataclass
class Case:
    name: str
    seed: int
    model: type
    config: dict
    lengths: tuple  # of the padded batch
    decoder_length: int
    dtype: torch.dtype = torch.float16
    holes: bool = False
    generation: dict = dataclasses.field(default_factory=dict)


def bart(d_model, encoder, decoder, vocab, **others):
    """encoder and decoder are (layers, heads, ffn_dim)."""
    names = ("layers", "attention_heads", "ffn_dim")
    sizes = {f"{s}_{n}": v for s, values in (("encoder", encoder), ("decoder", decoder)) for n, v in zip(names, values)}
    special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    return dict(d_model=d_model, vocab_size=vocab, max_position_embeddings=24, **sizes) | special | others


def t5(d_model, d_kv, heads, d_ff, layers, vocab, **others):
    """layers are (encoder, decoder); generate() of these versions fails where the decoder has more."""
    special = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    return (
        dict(d_model=d_model, d_kv=d_kv, num_heads=heads, d_ff=d_ff, num_layers=layers[0], num_decoder_layers=layers[1])
        | dict(vocab_size=vocab)
        | special
        | others
    )


BART, MBART = transformers.BartForConditionalGeneration, transformers.MBartForConditionalGeneration
M2M100, T5 = transformers.M2M100ForConditionalGeneration, transformers.T5ForConditionalGeneration
MT5, UMT5 = transformers.MT5ForConditionalGeneration, transformers.UMT5ForConditionalGeneration

CASES = [
    Case("bart_d21_h3_h7", 201, BART, bart(21, (2, 3, 29), (1, 7, 17), 53, forced_eos_token_id=2), (7, 4, 1), 6),
    Case(
        "bart_d24_scaled_relu_untied",
        202,
        BART,
        bart(
            24,
            (1, 4, 19),
            (2, 2, 23),
            47,
            scale_embedding=True,
            activation_function="relu",
            tie_word_embeddings=False,
            forced_eos_token_id=None,
        ),
        (9, 9, 9),
        5,
        dtype=torch.float32,
        holes=True,
    ),
    Case(
        "mbart_d20_h5_h2",
        203,
        MBART,
        bart(20, (2, 5, 27), (2, 2, 33), 53, scale_embedding=True, forced_eos_token_id=None),
        (5, 9),
        7,
        generation={"num_beams": 3, "forced_bos_token_id": 9, "max_length": MAX_LENGTH},
    ),
    Case(
        "m2m100_d26_h2",
        204,
        M2M100,
        bart(26, (2, 2, 31), (1, 2, 37), 53, scale_embedding=True, activation_function="relu"),
        (8, 3, 6),
        9,
    ),
    Case(
        "m2m100_d15_h3_odd",
        205,
        M2M100,
        bart(15, (1, 3, 21), (3, 5, 18), 41, scale_embedding=True, activation_function="relu", pad_token_id=3),
        (2, 10),
        4,
        dtype=torch.bfloat16,
        generation={"num_beams": 4, "max_length": MAX_LENGTH, "forced_bos_token_id": 11},
    ),
    Case(
        "t5_d22_relu",
        206,
        T5,
        t5(22, 5, 3, 37, (2, 1), 53, relative_attention_num_buckets=8, relative_attention_max_distance=12),
        (17, 4, 1),
        15,
    ),
    Case(
        "t5_d16_gated_untied",
        207,
        T5,
        t5(
            16,
            8,
            3,
            19,
            (2, 2),
            47,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
            relative_attention_num_buckets=6,
            relative_attention_max_distance=9,
        ),
        (5, 12),
        11,
        dtype=torch.float32,
    ),
    Case(
        "mt5_d18_gated_silu",
        208,
        MT5,
        t5(18, 7, 2, 21, (2, 2), 41, feed_forward_proj="gated-silu", tie_word_embeddings=True),
        (9, 3),
        6,
        dtype=torch.bfloat16,
        generation={"num_beams": 2, "max_length": MAX_LENGTH},
    ),
    Case(
        "umt5_d20_own_biases",
        209,
        UMT5,
        t5(20, 4, 5, 23, (2, 2), 43, feed_forward_proj="gated-gelu", relative_attention_num_buckets=16)
        | {"relative_attention_max_distance": 20, "tie_word_embeddings": False},
        (6, 11, 2),
        8,
    ),
]


def random_model(case):
    """A model whose arithmetic shows: no weight near zero or one by convention, every bias in use."""
    config = case.model.config_class(**case.config)
    model = case.model(config)
    generator = torch.Generator().manual_seed(case.seed)
    is_t5 = "d_kv" in case.config

    def normal(tensor, std, mean=0.0):
        tensor.copy_(mean + std * torch.randn(tensor.shape, generator=generator))

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                normal(parameter, *((0.2, 1.0) if name.endswith("weight") else (0.1,)))
            elif name.endswith(("q_proj.weight", "k_proj.weight", ".q.weight", ".k.weight")):
                normal(parameter, config.d_model**-0.5 * (config.d_kv**-0.25 if is_t5 else 1))
            elif "relative_attention_bias" in name:
                normal(parameter, 1.0)
            elif "embed_positions" in name:
                normal(parameter, 0.5)
            elif "shared" in name or "embed_tokens" in name:
                normal(parameter, 1.0 if is_t5 else 0.35 if config.scale_embedding else 0.7)
            else:
                normal(parameter, 0.25 if name.endswith("weight") else 0.1)
        if hasattr(model, "final_logits_bias"):
            normal(model.final_logits_bias, 0.5)
    for field, value in case.generation.items():
        setattr(model.generation_config, field, value)
    return model


def train(model, case):
    """A moment of training on a noisy word-for-word mapping, as in make_marian.py."""
    rng = np.random.default_rng([case.seed, 1])
    vocab, eos = case.config["vocab_size"], case.config["eos_token_id"]
    mapping = rng.integers(4, vocab - 1, vocab)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for _ in range(TRAINING_STEPS):
        lengths = rng.integers(1, 9, 32)
        ids, mask = padded_batch(rng, dataclasses.replace(case, holes=False), lengths)
        labels = np.full(ids.shape, -100)
        for row, length in enumerate(lengths):
            target = mapping[ids[row, : length - 1].numpy()]
            target = np.where(rng.random(length - 1) < 0.25, rng.integers(4, vocab - 1, length - 1), target)
            if rng.random() < 0.25:
                target = target[: rng.integers(0, length)]
            labels[row, : len(target)] = target
            labels[row, len(target)] = eos
        labels = torch.from_numpy(labels)
        start = torch.full((len(lengths), 1), case.config["decoder_start_token_id"])
        logits = model(
            input_ids=ids, attention_mask=mask, decoder_input_ids=torch.cat([start, labels[:, :-1].clamp(min=4)], 1)
        ).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def forward_golden(model, case, out):
    rng = np.random.default_rng(case.seed)
    ids, mask = padded_batch(rng, case, case.lengths)
    decoder_ids = rng.integers(4, case.config["vocab_size"], (len(case.lengths), case.decoder_length))
    decoder_ids = torch.from_numpy(decoder_ids)
    decoder_ids[:, 0] = case.config["decoder_start_token_id"]
    with torch.no_grad():
        result = model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids, output_hidden_states=True)
    assert result.logits.dtype == torch.float64
    tensors = {
        "input_ids": ids,
        "attention_mask": mask,
        "decoder_input_ids": decoder_ids,
        "logits": result.logits,
        "encoder_last_hidden_state": result.encoder_last_hidden_state,
        "decoder_last_hidden_state": result.decoder_hidden_states[-1],
    }
    save_file({name: tensor.contiguous().numpy() for name, tensor in tensors.items()}, out / "golden.safetensors")
    (out / "golden.safetensors").chmod(0o644)


def option_sets(case):
    eos, free = case.config["eos_token_id"], 7
    plain = {"forced_bos_token_id": None, "forced_eos_token_id": None, "max_length": MAX_LENGTH}
    yield plain | {"num_beams": 1}
    yield plain | {"num_beams": 1, "forced_bos_token_id": free, "forced_eos_token_id": eos}
    yield plain | {"num_beams": 2, "early_stopping": True, "length_penalty": 0.6}
    yield plain | {"num_beams": 3, "early_stopping": False, "length_penalty": 2.0, "forced_bos_token_id": free}
    yield plain | {"num_beams": 5, "early_stopping": "never", "forced_eos_token_id": eos, "max_length": 8}
    if case.generation:
        yield {}


def generate_golden(model, case, out):
    entries = []
    for i, options in enumerate(option_sets(case)):
        rng = np.random.default_rng([case.seed, 2, i])
        lengths = (9, 9, 9) if case.holes else tuple(rng.permutation([10, 6, 2])[: 2 + i % 2])
        ids, mask = padded_batch(rng, case, lengths)
        sequences, scores = run_generate(model, ids, mask, options)
        beams = options.get("num_beams", case.generation.get("num_beams", 1))
        if beams > 1 and scores is None:
            scores = run_generate(model, ids, mask, options | {"num_beams": beams})[1]
        robust_to = margin(model, ids, mask, options, sequences)
        if robust_to == 0.0:
            continue  # two hypotheses lie within 1e-3: float32 need not agree
        entry = {"input_ids": ids.tolist(), "attention_mask": mask.tolist(), "options": options, "sequences": sequences}
        if scores is not None:
            entry["sequences_scores"] = scores
        entries.append(entry | {"robust_to": robust_to})
    lengths = sorted({len(row) for e in entries for row in e["sequences"]})
    different = len({tuple(row) for e in entries for row in e["sequences"]})
    robust = {level: sum(e["robust_to"] == level for e in entries) for level in NOISE_LEVELS}
    print(f"{case.name}: {len(entries)} entries, {different} different rows, widths {lengths}, robust to {robust}", flush=True)
    assert len(entries) >= 3
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    (out / "generate.json").write_text(f"[\n{lines}\n]\n")


def nllb_tokenizer(out):
    """Byte-pair merges of a few sentences behind NLLB's special tokens, with all its languages."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=110, special_tokens=["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.train_from_iterator(TEXTS, trainer)
    out.mkdir(parents=True)
    tokenizer.save(str(out / "tokenizer.json"))
    result = transformers.NllbTokenizerFast(tokenizer_file=str(out / "tokenizer.json"), src_lang="eng_Latn")
    result.save_pretrained(out)
    return result


def memorise(model, tokenizer, pairs):
    """Trains every source language and text to become another text in the target language, so that translations differ."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(200):
        loss = 0
        for i, (source, target, _) in enumerate(pairs):
            tokenizer.src_lang = source
            batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
            tokenizer.src_lang = target
            labels = tokenizer(TEXTS[i + 1 :] + TEXTS[: i + 1], return_tensors="pt", padding=True).input_ids
            start = torch.full((len(TEXTS), 1), model.config.decoder_start_token_id)
            logits = model(**batch, decoder_input_ids=torch.cat([start, labels[:, :-1]], 1)).logits
            loss = loss + torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def make_nllb(out):
    """nllb_texts/: a model with its tokenizer, texts in and texts out."""
    shutil.rmtree(out, ignore_errors=True)
    tokenizer = nllb_tokenizer(out)
    config = bart(12, (1, 2, 17), (1, 3, 13), len(tokenizer), scale_embedding=True, activation_function="relu")
    case = Case("nllb_texts", 301, M2M100, config | {"max_position_embeddings": 64}, (), 0)
    torch.manual_seed(case.seed)
    model = random_model(case)
    pairs = (("eng_Latn", "fra_Latn", 1), ("deu_Latn", "zho_Hans", 3), ("fra_Latn", "eng_Latn", 2))
    memorise(model, tokenizer, pairs)
    model.half().save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    model = M2M100.from_pretrained(out, attn_implementation="eager", torch_dtype=torch.float64).eval()
    entries = []
    for source, target, beams in pairs:
        tokenizer.src_lang = source
        for text in TEXTS[:4]:
            batch = tokenizer(text, return_tensors="pt")
            options = {"num_beams": beams, "max_length": 15}
            options["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(target)
            rows, _ = run_generate(model, batch.input_ids, batch.attention_mask, options)
            if margin(model, batch.input_ids, batch.attention_mask, options, rows) == 0.0:
                continue
            entry = {"from": source, "to": target, "beams": beams, "text": text, "tokens": rows[0]}
            entries.append(entry | {"translation": tokenizer.decode(rows[0], skip_special_tokens=True)})
    print(f"nllb_texts: {len(entries)} texts, {len({e['translation'] for e in entries})} different", flush=True)
    assert len(entries) > 6
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    (out / "golden.json").write_text(f"[\n{lines}\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "encoder_decoders")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for case in CASES:
        if arguments.cases and case.name not in arguments.cases:
            continue
        out = arguments.out / case.name
        shutil.rmtree(out, ignore_errors=True)
        torch.manual_seed(case.seed)
        model = random_model(case).eval()
        train(model, case)
        model.to(case.dtype).save_pretrained(out)
        (out / "model.safetensors").chmod(0o644)
        model = case.model.from_pretrained(out, attn_implementation="eager", torch_dtype=torch.float64).eval()
        if case.model is BART and not case.config.get("tie_word_embeddings", True):
            # save_pretrained writes one table for all three; from_pretrained of these versions leaves two of them random.
            for stack in (model.model.encoder, model.model.decoder):
                stack.embed_tokens.weight = model.model.shared.weight
        forward_golden(model, case, out)
        generate_golden(model, case, out)
    if not arguments.cases or "nllb_texts" in arguments.cases:
        make_nllb(arguments.out.parent / "nllb_texts")


if __name__ == "__main__":
    main()
