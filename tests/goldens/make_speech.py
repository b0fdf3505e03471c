#!/usr/bin/env python3
"""Writes speech/<case>/: tiny random Whisper folders, their spectrograms, forward passes and what generate() makes of them; and
speech/features.safetensors, spectrograms of the sizes that the published models have.

    python3 tests/goldens/make_speech.py [--out DIR] [case ...]

The file has the weights in the case's dtype, and the reference runs what is in the file in float64, behind the float32 spectrogram of
transformers. Samples are multiples of 1/2048, so that float16 holds them. See README.md for the versions and the format.
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
from safetensors.numpy import save_file

TEXTS = {
    "transcribe": [" The cat sat on the mat.", " Der Hund frisst einen Apfel.", " Nous voyons la mer."],
    "translate": [" The cat sat on the mat.", " The dog eats an apple.", " We see the sea."],
}
LANGUAGES = ["en", "de", "fr"]
TIMESTAMPS = 26
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{name}|>" for name in LANGUAGES), "<|translate|>", "<|transcribe|>"]
SPECIAL += ["<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]


@dataclasses.dataclass
class Case:
    name: str
    seed: int
    config: dict
    sound: dict  # of the feature extractor
    dtype: torch.dtype = torch.float16
    seconds: tuple = (0.83, 1.0, 0.21)  # of the clips
    tokens: int = 64
    learns: bool = False
    options: tuple = ({},)  # of generate(), one entry each for every clip
    generation: dict = dataclasses.field(default_factory=dict)


def whisper(d_model, encoder, decoder, bins, positions, **others):
    """encoder and decoder are (layers, heads, ffn_dim)."""
    names = ("layers", "attention_heads", "ffn_dim")
    sizes = {f"{s}_{n}": v for s, values in (("encoder", encoder), ("decoder", decoder)) for n, v in zip(names, values)}
    return dict(d_model=d_model, num_mel_bins=bins, max_source_positions=positions, max_target_positions=80) | sizes | others


def sound(bins, rate, window, hop):
    return dict(feature_size=bins, sampling_rate=rate, n_fft=window, hop_length=hop, chunk_length=1)


BOTH = tuple({"language": language, "task": task} for language in (None, "de") for task in (None, "translate"))

CASES = [
    Case("whisper_d30_h3_h5", 401, whisper(30, (2, 3, 29), (1, 5, 17), 80, 50), sound(80, 16000, 400, 160), seconds=(0.83,)),
    Case(
        "whisper_d20_untied",
        402,
        whisper(20, (1, 5, 33), (3, 2, 23), 11, 25, tie_word_embeddings=False, activation_function="relu"),
        sound(11, 8000, 250, 160),
        dtype=torch.float32,
        seconds=(1.0, 0.21),
        generation={"forced_decoder_ids": [[1, None], [2, "<|transcribe|>"]], "max_length": 61},
        options=({}, {"language": "fr"}),
    ),
    Case(
        "whisper_english",
        403,
        whisper(18, (2, 2, 19), (2, 3, 21), 7, 40),
        sound(7, 8000, 200, 100),
        dtype=torch.bfloat16,
        seconds=(0.97,),
        generation={"is_multilingual": False, "forced_decoder_ids": [[1, "<|notimestamps|>"]]},
    ),
    Case(
        "whisper_texts",
        404,
        whisper(16, (1, 2, 32), (1, 4, 32), 13, 25),
        sound(13, 8000, 256, 160),
        tokens=24,
        learns=True,
        options=BOTH,
        generation={"begin_suppress_tokens": [220, "<|endoftext|>"]},
    ),
]


def make_tokenizer(out):
    """Byte-level merges of the texts, behind which come Whisper's special tokens and times."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=256 + 40, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text for texts in TEXTS.values() for text in texts], trainer)
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([tokenizers.AddedToken(f"<|{i * 0.02:.2f}|>", special=False) for i in range(TIMESTAMPS)])
    out.mkdir(parents=True)
    tokenizer.save(str(out / "tokenizer.json"))
    return tokenizer


def clip(seed, seconds, rate):
    """Gliding tones under a slow envelope, and some noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    x = 0.02 * rng.standard_normal(t.size)
    for _ in range(3):
        start, slope, loud, beat = rng.uniform(120, 0.3 * rate), rng.uniform(-600, 600), rng.uniform(0.1, 0.3), rng.uniform(1, 7)
        x += loud * np.sin(2 * np.pi * (start + slope * t) * t) * np.sin(np.pi * beat * t) ** 2
    return (np.round(np.clip(x, -1, 1) * 2048) / 2048).astype(np.float32)


def special_of(ids):
    end = ids["<|endoftext|>"]
    return dict(eos_token_id=end, bos_token_id=end, pad_token_id=end, decoder_start_token_id=ids["<|startoftranscript|>"])


def random_model(case, tokenizer):
    """A model whose arithmetic shows: no weight near zero or one by convention, every bias in use."""
    ids = {name: tokenizer.token_to_id(name) for name in SPECIAL}
    config = transformers.WhisperConfig(
        vocab_size=tokenizer.get_vocab_size(), suppress_tokens=None, begin_suppress_tokens=None, **special_of(ids), **case.config
    )
    model = transformers.WhisperForConditionalGeneration(config)
    generator = torch.Generator().manual_seed(case.seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            std, mean = 0.25 if name.endswith("weight") else 0.1, 0.0
            if "norm" in name:
                std, mean = (0.2, 1.0) if name.endswith("weight") else (0.1, 0.0)
            elif "conv" in name and name.endswith("weight"):
                std = (parameter.shape[1] * 3) ** -0.5
            elif name.endswith(("q_proj.weight", "k_proj.weight")):
                std = config.d_model**-0.5
            elif "embed_positions" in name:
                std = 0.5 if "encoder" in name else 1.5
            elif "embed_tokens" in name or "proj_out" in name:
                std = 0.6
            parameter.copy_(mean + std * torch.randn(parameter.shape, generator=generator))
    named = lambda value: ids.get(value, value) if isinstance(value, str) else value  # noqa: E731
    fields = {
        "max_length": 80,
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "return_timestamps": False,
        "suppress_tokens": [3, 7, 70, ids["<|nospeech|>"], ids["<|startoflm|>"]],
        "begin_suppress_tokens": [ids["<|endoftext|>"]],
    }
    if case.generation.get("is_multilingual", True):
        fields |= {
            "is_multilingual": True,
            "lang_to_id": {f"<|{name}|>": ids[f"<|{name}|>"] for name in LANGUAGES},
            "task_to_id": {name: ids[f"<|{name}|>"] for name in ("transcribe", "translate")},
        }
    fields |= case.generation
    for field, value in fields.items():
        if isinstance(value, list):
            fields[field] = [[v[0], named(v[1])] if isinstance(v, list) else named(v) for v in value]
    model.generation_config = transformers.GenerationConfig(**special_of(ids), **fields)
    return model, ids


def learn(model, ids, tokenizer, features):
    """Every clip becomes its text, in its language or translated; and the language is heard."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    rows, sources = [], []
    for task, texts in TEXTS.items():
        for i, text in enumerate(texts):
            for given in ([ids[f"<|{task}|>"]],) + (([],) if task == "transcribe" else ()):
                head = [ids["<|startoftranscript|>"], ids[f"<|{LANGUAGES[i]}|>"], *given, ids["<|notimestamps|>"]]
                rows.append(head + tokenizer.encode(text).ids + [ids["<|endoftext|>"]])
                sources.append(i)
    width = max(len(row) for row in rows)
    tokens = torch.tensor([row + [-100] * (width - len(row)) for row in rows])
    for _ in range(400):
        logits = model(input_features=features[sources], decoder_input_ids=tokens[:, :-1].clamp(min=0)).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"    learnt, loss {loss.item():.4f}", flush=True)


def least_margin(model, features, row, config):
    """By how much the chosen token leads at every step, suppressed ones left out."""
    with torch.no_grad():
        logits = model(input_features=features, decoder_input_ids=torch.tensor([row[:-1]])).logits[0]
    logits[:, config["suppress_tokens"]] = -np.inf
    first = config["prefix"] + 1
    logits[first - 1, config["begin_suppress_tokens"]] = -np.inf
    best = logits[first - 1 :].topk(2).values
    return (best[:, 0] - best[:, 1]).min().item(), (logits[first - 1 :].argmax(-1) == torch.tensor(row[first:])).all()


def generations(model, case, tokenizer, features):
    entries = []
    known = model.generation_config
    first_time = tokenizer.token_to_id("<|0.00|>")
    for i in range(len(features)):
        for max_length, options in [(case.tokens, options) for options in case.options] + [(None, {})] * (i == 0):
            given = {name: value for name, value in options.items() if value}
            row = model.generate(features[i : i + 1], force_unique_generate_call=True, max_new_tokens=max_length, **given)
            row = row[0].tolist() if torch.is_tensor(row) else row["sequences"][0].tolist()
            prefix = next(k for k, token in enumerate(row) if token == first_time - 1)
            config = {"suppress_tokens": known.suppress_tokens, "begin_suppress_tokens": known.begin_suppress_tokens}
            margin, agrees = least_margin(model, features[i : i + 1], row, config | {"prefix": prefix})
            text = [token for token in row[prefix + 1 :] if token < first_time]
            entry = {"clip": i, "options": given, "max_length": max_length or 0, "tokens": row, "margin": margin}
            entries.append(entry | {"text": tokenizer.decode(text, skip_special_tokens=True)})
            print(f"    {given}: {len(row)} tokens, margin {margin:.4f} {bool(agrees)}: {entries[-1]['text']!r}", flush=True)
            assert agrees and margin > 2e-3
    return entries


def make_case(case, out):
    out.parent.mkdir(exist_ok=True)
    shutil.rmtree(out, ignore_errors=True)
    torch.manual_seed(case.seed)
    tokenizer = make_tokenizer(out)
    extractor = transformers.WhisperFeatureExtractor(**case.sound)
    extractor.save_pretrained(out)
    clips = [clip([case.seed, i], seconds, extractor.sampling_rate) for i, seconds in enumerate(case.seconds)]
    features = torch.cat(
        [extractor(x, sampling_rate=extractor.sampling_rate, return_tensors="pt").input_features for x in clips]
    )
    model, ids = random_model(case, tokenizer)
    if case.learns:
        learn(model, ids, tokenizer, features)
    model.eval().to(case.dtype).save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(
        out, attn_implementation="eager", torch_dtype=torch.float64
    ).eval()
    double = features.double()
    rng = np.random.default_rng(case.seed)
    target = torch.from_numpy(rng.integers(0, tokenizer.get_vocab_size(), (len(clips), 9)))
    with torch.no_grad():
        result = model(input_features=double, decoder_input_ids=target, output_hidden_states=True)
    assert result.logits.dtype == torch.float64
    tensors = {
        "decoder_input_ids": target.numpy(),
        "input_features": features.transpose(1, 2).numpy(),
        "logits": result.logits.numpy().astype(np.float32),
        "encoder_last_hidden_state": result.encoder_last_hidden_state.numpy().astype(np.float32),
        "decoder_last_hidden_state": result.decoder_hidden_states[-1].numpy().astype(np.float32),
    }
    tensors |= {f"clip{i}": x.astype(np.float16) for i, x in enumerate(clips)}
    save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, out / "golden.safetensors")
    (out / "golden.safetensors").chmod(0o644)
    print(case.name, flush=True)
    lines = ",\n".join(json.dumps(entry) for entry in generations(model, case, tokenizer, double))
    (out / "generate.json").write_text(f"[\n{lines}\n]\n")


def make_features(path):
    """Every 13th frame of a second in the published sizes' half minute."""
    x = clip(400, 0.7, 16000)
    tensors = {"clip": x.astype(np.float16)}
    for bins in (80, 128):
        extractor = transformers.WhisperFeatureExtractor(feature_size=bins)
        features = extractor(x, sampling_rate=16000, return_tensors="np").input_features[0]
        tensors[f"bins{bins}"] = np.ascontiguousarray(features.T[:91:13])
    save_file(tensors, path)
    path.chmod(0o644)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "speech")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for case in CASES:
        if not arguments.cases or case.name in arguments.cases:
            make_case(case, arguments.out / case.name)
    if not arguments.cases:
        make_features(arguments.out / "features.safetensors")


if __name__ == "__main__":
    main()
