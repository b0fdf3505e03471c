#!/usr/bin/env python3
"""Writes speech/<case>/words.json: when the words of some of make_speech.py's cases are said; and speech/word_texts.json: texts in words.

    python3 tests/goldens/make_speech_words.py [--out DIR] [case ...]

A line is what generate() makes of a clip, in float64: the segments with their tokens, and of each word its text, the position of the encoder
at which it begins, the one at which what follows it begins, and the mean of its tokens' probabilities. The weights, the warping and the words are those of transformers 5.12, but
for one thing: a token's row is that of the query that writes it, as in the code of Radford et al. 2022, where transformers takes the query
behind it. See README.md for the versions.
"""

import argparse
import json
import pathlib
import warnings

import numpy as np
import tokenizers
import torch
import transformers
from safetensors.numpy import load_file
from transformers.models.whisper import generation_whisper, tokenization_whisper

PRECISION = 0.02  # seconds of a position, as transformers counts them
CASES = {
    "whisper_texts": ["clip0", "clip1", "clip2"],
    "whisper_times_414": ["timed0", "timed1"],
    "whisper_times_423": ["timed0", "timed1"],
}
# Punctuation at either side and alone, characters of several tokens, numbers, spaces that follow each other.
TEXTS = [
    ' He said: "The cat (a (big) one) sat on the mat!" [end]',
    " Ça coûte 3.50 € – voilà. ¿Qué? ¡No!",
    " 彼は「猫」と言った。「はい」、と。 東京、2026年！",
    "no space at first - 'quoted' {x} -5  two  spaces ",
    " ( ",
    " ...",
]


class Texts:
    """What tokenization_whisper's functions want of a tokenizer."""

    def __init__(self, folder):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.eos_token_id = self.tokenizer.token_to_id("<|endoftext|>")
        self.first_time = self.tokenizer.token_to_id("<|0.00|>")

    def decode(self, tokens, decode_with_timestamps=False):
        return self.tokenizer.decode(tokens, skip_special_tokens=True)


class Recorder:
    """Takes part in generate(): what it makes of every window."""

    def __init__(self):
        self.windows = []
        mixin = generation_whisper.WhisperGenerationMixin
        extract, retrieve = mixin._extract_token_timestamps, mixin._retrieve_segment

        def extract_by_writers(model, outputs, heads, time_precision=PRECISION, num_frames=None, num_input_ids=None):
            times = extract(model, outputs, heads, time_precision, num_frames, num_input_ids - 1)
            tokens = outputs["sequences"][0, num_input_ids:].tolist()
            own = times[0, num_input_ids - 1 : num_input_ids - 1 + len(tokens)]
            end = min(int(num_frames[0]) // 2, model.config.max_source_positions)
            likely = [float(scores[0].softmax(-1)[token]) for scores, token in zip(outputs["scores"], tokens, strict=True)]
            self.windows.append(dict(tokens=tokens, likely=likely, positions=[round(float(t) / PRECISION) for t in own], end=end, segments=[]))
            return torch.cat([torch.zeros(1, 1), times[:, :-1]], dim=1)

        def retrieve_recorded(*arguments, **named):
            segments, offset = retrieve(*arguments, **named)
            self.windows[-1]["segments"] = [segment["tokens"].tolist() for segment in segments]
            return segments, offset

        mixin._extract_token_timestamps = extract_by_writers
        mixin._retrieve_segment = staticmethod(retrieve_recorded)


def words_of(texts, window, first, tokens):
    """Of a segment that begins at token `first` of a window."""
    places = [i for i, token in enumerate(tokens) if token < texts.first_time]
    spoken = [tokens[i] for i in places]
    positions = window["positions"] + [window["end"]]
    words, _, indices = tokenization_whisper._combine_tokens_into_words(texts, spoken, "english")
    at = lambda i: positions[first + i]  # noqa: E731
    likely = lambda own: sum(window["likely"][first + places[i]] for i in own) / len(own)  # noqa: E731
    return [[word, at(places[own[0]]), at(places[own[-1]] + 1), likely(own)] for word, own in zip(words, indices)]


def make_case(folder, clips, recorder):
    texts, golden = Texts(folder), load_file(folder / "golden.safetensors")
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    is_timed = folder.name.startswith("whisper_times")
    entries = []
    for clip in clips:
        samples = golden[clip].astype(np.float32)
        longer = dict(truncation=False, padding="longest") if is_timed else {}
        features = extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt", **longer).input_features.double()
        frames = -(-len(samples) // extractor.hop_length)
        recorder.windows.clear()
        model.generate(features, attention_mask=torch.ones(1, frames, dtype=torch.long), return_timestamps=is_timed,
                       return_token_timestamps=True, return_segments=True, output_scores=True, **({} if is_timed else {"max_new_tokens": 24}))  # fmt: skip
        segments = []
        for window in recorder.windows:
            first = 0
            for tokens in window["segments"]:
                while tokens and tokens[-1] == texts.eos_token_id:
                    tokens = tokens[:-1]
                segments.append({"tokens": tokens, "words": words_of(texts, window, first, tokens)})
                first += len(tokens)
        print(f"    {clip}: {[s['words'] for s in segments]}", flush=True)
        entries.append({"clip": clip, "segments": segments})
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    (folder / "words.json").write_text(f"[\n{lines}\n]\n")


def make_texts(folder, path):
    texts, entries = Texts(folder), []
    for text in TEXTS:
        tokens = texts.tokenizer.encode(text).ids
        for bounds, language in (("spaces", "english"), ("characters", "japanese")):
            words, _, indices = tokenization_whisper._combine_tokens_into_words(texts, tokens, language)
            entries.append({"bounds": bounds, "tokens": tokens, "words": [[w, i[0], i[-1]] for w, i in zip(words, indices)]})
    path.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "speech")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    recorder = Recorder()
    for name, clips in CASES.items():
        if not arguments.cases or name in arguments.cases:
            print(name, flush=True)
            make_case(arguments.out / name, clips, recorder)
    if not arguments.cases:
        make_texts(arguments.out / "whisper_texts", arguments.out / "word_texts.json")


if __name__ == "__main__":
    main()
