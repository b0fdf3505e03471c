#!/usr/bin/env python3
"""Writes speech/<case>/: tiny random Whisper folders, their spectrograms, forward passes and what generate() makes of them, with
timestamps and sound of several windows for some; and speech/features.safetensors, spectrograms of the sizes that the published models have.

    python3 tests/goldens/make_speech.py [--out DIR] [case ...]

The file has the weights in the case's dtype, and the reference runs what is in the file in float64, behind the float32 spectrogram of
transformers. Samples are multiples of 1/2048, so that float16 holds them. See README.md for the versions and the format.
"""

import argparse
import copy
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
from transformers.models.whisper import generation_whisper as whisper_generation

TEXTS = {
    "transcribe": [" The cat sat on the mat.", " Der Hund frisst einen Apfel.", " Nous voyons la mer."],
    "translate": [" The cat sat on the mat.", " The dog eats an apple.", " We see the sea."],
}
LANGUAGES = ["en", "de", "fr"]
TIMESTAMPS = {False: 26, True: 51}  # of cases that are timed
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
    timed: tuple = ()  # of generate(return_timestamps=True), one entry each for every timed clip
    timed_seconds: tuple = ()
    end: float = 0  # how likely the end token is made, of the times' common direction


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
        generation={"begin_suppress_tokens": [220, "<|endoftext|>"], "alignment_heads": [[0, 1], [0, 2]]},
    ),
]


# What generate() may be asked for with timestamps. At a temperature of 1e-4 a draw is the likeliest token. "between" is a threshold
# in the widest gap between the windows' values, "below" one that all exceed.
PLAIN, REMEMBERING = {}, {"condition_on_prev_tokens": True}
SILENT = {"temperature": (0.0,), "logprob_threshold": "between", "no_speech_threshold": "below"}
HARDLY = {"temperature": (0.0,), "logprob_threshold": 1.0, "no_speech_threshold": "between"}
AGAIN = {"temperature": (0.0, 1e-4), "compression_ratio_threshold": 0.9, "condition_on_prev_tokens": True}
UNLIKELY = {"temperature": (0.0, 1e-4), "logprob_threshold": "between", "max_new_tokens": 17}

CASES += [
    Case(
        f"whisper_times_{seed}",
        seed,
        whisper(16, (1, 2, 32), (2, 4, 32), 13, 50) | {"max_target_positions": 60},
        sound(13, 8000, 200, 80),
        dtype=torch.float32,
        seconds=(1.0,),
        tokens=24,
        options=({},),
        generation={
            "max_length": 60,
            "max_initial_timestamp_index": latest,
            "prev_sot_token_id": "<|startofprev|>",
            "alignment_heads": [[0, 1], [1, 0], [1, 3]],
        },
        timed=(PLAIN, REMEMBERING, SILENT, HARDLY, AGAIN, UNLIKELY),
        timed_seconds=(1.0, 2.37),
        end=end,
    )
    for seed, latest, end in ((414, 10, 0.8), (423, None, 0.8))
]


def make_tokenizer(out, timestamps):
    """Byte-level merges of the texts, behind which come Whisper's special tokens and times."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=256 + 40, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text for texts in TEXTS.values() for text in texts], trainer)
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([tokenizers.AddedToken(f"<|{i * 0.02:.2f}|>", special=False) for i in range(timestamps)])
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
        if case.timed:  # times are alike, so that they are likely together before one of them is the likeliest
            table, first = model.get_decoder().embed_tokens.weight, ids["<|notimestamps|>"] + 1
            common = 0.5 * torch.randn(table.shape[1], generator=generator)
            table[first:] = common + 0.35 * table[first:]
            table[ids["<|endoftext|>"]] += case.end * common
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
    for field, value in list(fields.items()):
        if value is None:
            del fields[field]
        elif isinstance(value, str):
            fields[field] = named(value)
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


class Watched(whisper_generation.WhisperTimeStampLogitsProcessor):
    """The rules on timestamps, and how close their decisions and the choices behind them were."""

    margin, forced, pairs, ends = np.inf, 0, 0, 0

    def __call__(self, input_ids, scores):
        result = super().__call__(input_ids, scores)
        self._detect_timestamp_from_logprob = False
        open_result = super().__call__(input_ids, scores)[0]
        self._detect_timestamp_from_logprob = True
        times, text = open_result[self.timestamp_begin :].logsumexp(-1), open_result[: self.timestamp_begin].max()
        if times.isfinite() and text.isfinite():
            Watched.margin = min(Watched.margin, abs(times - text).item())
            Watched.forced += int(times > text and open_result.argmax() < self.timestamp_begin)
        best = result[0].topk(2).values
        Watched.margin = min(Watched.margin, (best[0] - best[1]).item())
        chosen = result[0].argmax().item()
        Watched.pairs += int(chosen >= self.timestamp_begin and input_ids[0, -1] >= self.timestamp_begin)
        Watched.ends += int(chosen == self.eos_token_id)
        return result


def watch_thresholds(model):
    """What the windows were worth, how far that was from the thresholds, and what became of them."""
    known = dict(margin=np.inf, again=0, skipped=0, windows=0, logprob_threshold=[], no_speech_threshold=[])
    ratio, log_prob, need = model._retrieve_compression_ratio, model._retrieve_avg_logprobs, model._need_fallback

    def near(value, threshold, scale=1.0):
        if threshold is not None:
            known["margin"] = min(known["margin"], abs(float(value) - threshold) / scale)
        return value

    def watched(tokens, outputs, index, processors, config, *others):
        def average(*arguments):
            known["logprob_threshold"].append(float(log_prob(*arguments)))
            return near(known["logprob_threshold"][-1], config.logprob_threshold)

        model._retrieve_compression_ratio = lambda *a: near(ratio(*a), config.compression_ratio_threshold)
        model._retrieve_avg_logprobs = average
        again, skip = need(tokens, outputs, index, processors, config, *others)
        if config.no_speech_threshold is not None:
            known["no_speech_threshold"].append(processors[0].no_speech_prob[index].item())
            near(known["no_speech_threshold"][-1], config.no_speech_threshold, config.no_speech_threshold)
        known["again"] += int(again)
        known["skipped"] += int(skip)
        known["windows"] += 1
        return again, skip

    model._need_fallback = watched
    return known


def with_thresholds(options, known):
    def chosen(name, value):
        values = sorted(known[name])
        if value == "below":
            return values[0] / 2
        gaps = np.diff(np.log(values) if values[0] > 0 else values)
        at = int(np.argmax(gaps))
        return (values[at] + values[at + 1]) / 2

    return {name: chosen(name, value) if isinstance(value, str) else value for name, value in options.items()}


def timed_generations(model, case, tokenizer, extractor, clips):
    entries = []
    for i, clip_samples in enumerate(clips):
        features = extractor(
            clip_samples, sampling_rate=extractor.sampling_rate, return_tensors="pt", truncation=False, padding="longest"
        ).input_features.double()

        def run(options):
            Watched.margin, Watched.forced, Watched.pairs, Watched.ends = np.inf, 0, 0, 0
            torch.manual_seed(1)
            fresh = copy.deepcopy(model)
            known = watch_thresholds(fresh)
            return fresh.generate(features, return_timestamps=True, return_segments=True, **options), known

        _, values = run({"temperature": (0.0,), "logprob_threshold": -1e9, "no_speech_threshold": 2.0})
        for wanted in case.timed:
            options = with_thresholds(wanted, values)
            result, known = run(options)
            segments = [
                {"start": round(float(s["start"]), 6), "end": round(float(s["end"]), 6), "tokens": s["tokens"].tolist()}
                for s in result["segments"][0]
            ]
            margin = min(Watched.margin, known["margin"])
            counts = dict(forced=Watched.forced, pairs=Watched.pairs, ends=Watched.ends, margin=margin) | {
                name: known[name] for name in ("again", "skipped", "windows")
            }
            entries.append({"clip": i, "options": options, **counts, "segments": segments})
            print(f"    {i} {options}: {len(segments)} segments, {counts}", flush=True)
            assert margin > 1e-3
    assert any(entry["skipped"] for entry in entries) and any(entry["forced"] for entry in entries)
    return entries


def make_case(case, out):
    out.parent.mkdir(exist_ok=True)
    shutil.rmtree(out, ignore_errors=True)
    torch.manual_seed(case.seed)
    tokenizer = make_tokenizer(out, TIMESTAMPS[bool(case.timed)])
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
    timed = [clip([case.seed, 100 + i], seconds, extractor.sampling_rate) for i, seconds in enumerate(case.timed_seconds)]
    tensors |= {f"timed{i}": x.astype(np.float16) for i, x in enumerate(timed)}
    save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, out / "golden.safetensors")
    (out / "golden.safetensors").chmod(0o644)
    print(case.name, flush=True)
    lines = ",\n".join(json.dumps(entry) for entry in generations(model, case, tokenizer, double))
    (out / "generate.json").write_text(f"[\n{lines}\n]\n")
    if case.timed:
        lines = ",\n".join(json.dumps(entry) for entry in timed_generations(model, case, tokenizer, extractor, timed))
        (out / "timed.json").write_text(f"[\n{lines}\n]\n")


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
    whisper_generation.WhisperTimeStampLogitsProcessor = Watched
    for case in CASES:
        if not arguments.cases or case.name in arguments.cases:
            make_case(case, arguments.out / case.name)
    if not arguments.cases:
        make_features(arguments.out / "features.safetensors")


if __name__ == "__main__":
    main()
