# SPDX-License-Identifier: MIT
"""A Whisper beside CTranslate2, which faster-whisper hears with: the same weights, a window of 30 s, in turns on the same machine."""
import importlib
import json
import os
import statistics
import time

from journal import Journal
from machine import Place
from measure import card, head, rounded
from random_hearing import END, GIVEN
from translation import KINDS, RUNS, in_turns

TOKENS = 64  # that are written of a window
BEAMS = (1, 5)


def ours(place, options, folder, beams):
    """Seconds of the encoder's run, and of the decoder's for a token."""
    report = json.loads(place.run(options.vkformer, "bench", "model", "-q", "--json", "-m", folder, "-d", options.device, "--runs", RUNS, "--beams", beams,
                                  "--steps", TOKENS, cache=options.cache, **place.threads(options.device)))
    assert report["given_tokens"] == len(GIVEN)
    return report["encoder_seconds"]["median"], report["decoder_seconds"]["median"] / TOKENS


def theirs(model, features, beams):
    """The same of encode() and generate()."""
    encoders, decoders = [], []
    for _ in range(RUNS + 1):  # the first one is not counted
        begin = time.monotonic()
        heard = model.encode(features)
        encoded = time.monotonic()
        found = model.generate(heard, [GIVEN], beam_size=beams, max_length=2 * TOKENS, suppress_tokens=[END], suppress_blank=False)
        encoders.append(encoded - begin)
        decoders.append((time.monotonic() - encoded) / len(found[0].sequences_ids[0]))
    return statistics.median(encoders[1:]), statistics.median(decoders[1:])


def hearing(options):
    ctranslate2 = importlib.import_module("ctranslate2")
    numpy = importlib.import_module("numpy")
    place = Place(options.folder)
    sound = numpy.random.default_rng(0).standard_normal((1, 80, 3000), numpy.float32)
    commands = [f"vkformer bench model -m FOLDER -d {options.device} --beams N --steps {TOKENS}",
                f"ctranslate2.models.Whisper(FOLDER, compute_type=…, intra_threads={os.cpu_count()}): encode(…), generate(…, beam_size=N)"]
    device = card(place, options)
    journal = Journal(options.out, head("hearing", options, device, commands, peer=f"CTranslate2 {ctranslate2.__version__} (PyPI)", turns=options.turns),
                      options.stop_after)
    blocks = options.cache / "hearing-q8_0"
    if not (blocks / "model.gguf").exists():
        place.run(options.vkformer, "convert", "-q", options.model, blocks, "--dtype", "q8_0")
    for weights, kind in KINDS.items():
        model = ctranslate2.models.Whisper(str(options.peer_model), device="cpu", compute_type=kind, inter_threads=1, intra_threads=os.cpu_count())
        folder = {"f32": options.model, "q8_0": blocks}[weights]
        for beams in BEAMS:
            if journal.has(weights=weights, beams=beams):
                continue
            journal.check_time()
            pairs = []

            def both(of):
                pairs.append(of)
                return of[0] + TOKENS * of[1]  # a window with so many tokens

            mine, other, ratio, others = in_turns(options.turns, lambda: both(ours(place, options, folder, beams)),
                                                  lambda: both(theirs(model, ctranslate2.StorageView.from_array(sound), beams)))
            parts = [[statistics.median(pair[part] for pair in pairs[side::2]) for part in (0, 1)] for side in (0, 1)]
            journal.add({"weights": weights, "peer_weights": kind, "beams": beams, "seconds": rounded(mine), "peer_seconds": rounded(other),
                         "encoder_ms": rounded(1e3 * parts[0][0]), "peer_encoder_ms": rounded(1e3 * parts[1][0]),
                         "token_ms": rounded(1e3 * parts[0][1]), "peer_token_ms": rounded(1e3 * parts[1][1]),
                         "ratio": rounded(1 / ratio), "others": others})
