# SPDX-License-Identifier: MIT
"""An encoder–decoder beside CTranslate2: the same weights, the same lengths, in turns on the same machine."""
import importlib
import json
import os
import random
import statistics
import time

from journal import Journal
from machine import Place, Quiet
from measure import card, head, rounded

LENGTH = 32  # tokens of a source, and of what is written
BATCHES = (1, 8, 32)
BEAMS = (1, 4)
KINDS = {"f32": "float32", "q8_0": "int8"}  # our weights, and CTranslate2's
RUNS = 4  # of a program or call in a turn, of which the median counts


def ours(place, options, folder, batch, beams):
    """Tokens per second of an encoder's run and LENGTH steps."""
    report = json.loads(place.run(options.vkformer, "bench", "model", "-q", "--json", "-m", folder, "-d", options.device, "--runs", RUNS, "--batch", batch,
                                  "--beams", beams, "--length", LENGTH, "--steps", LENGTH, cache=options.cache, **place.threads(options.device)))
    us = {program["program"]: program["wall_us"]["median"] for program in report["programs"]}
    return batch * LENGTH * 1e6 / (us["encoder"] + LENGTH * us["decode step"])


def theirs(translator, vocabulary, batch, beams):
    """Tokens per second of translate_batch()."""
    drawn = random.Random(1)
    sources = [[vocabulary[drawn.randrange(2, len(vocabulary) - 1)] for _ in range(LENGTH - 1)] + ["</s>"] for _ in range(batch)]
    seconds = []
    for _ in range(RUNS + 1):  # the first one is not counted
        begin = time.monotonic()
        found = translator.translate_batch(sources, beam_size=beams, max_batch_size=batch, min_decoding_length=LENGTH, max_decoding_length=LENGTH)
        seconds.append(time.monotonic() - begin)
    return sum(len(one.hypotheses[0]) for one in found) / statistics.median(seconds[1:])


def in_turns(turns, first, second):
    """Medians of what the two give, of their ratio within a turn, and what others took of the machine at most."""
    pairs = []
    with Quiet() as quiet:
        for _ in range(turns):
            pairs.append((first(), second()))
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), statistics.median(a / b for a, b in pairs), quiet.others


def translation(options):
    ctranslate2 = importlib.import_module("ctranslate2")
    place = Place(options.folder)
    vocabulary = json.loads((options.peer_model / "shared_vocabulary.json").read_text())
    commands = [f"vkformer bench model -m FOLDER -d {options.device} --batch N --beams N --length {LENGTH} --steps {LENGTH}",
                f'ctranslate2.Translator(FOLDER, compute_type=…, intra_threads={os.cpu_count()}).translate_batch(…)']
    device = card(place, options)
    journal = Journal(options.out, head("translation", options, device, commands, peer=f"CTranslate2 {ctranslate2.__version__} (PyPI)", turns=options.turns),
                      options.stop_after)
    blocks = options.cache / "translation-q8_0"
    if not (blocks / "model.gguf").exists():
        place.run(options.vkformer, "convert", "-q", options.model, blocks, "--dtype", "q8_0")
    for weights, kind in KINDS.items():
        translator = ctranslate2.Translator(str(options.peer_model), device="cpu", compute_type=kind, inter_threads=1, intra_threads=os.cpu_count())
        folder = {"f32": options.model, "q8_0": blocks}[weights]
        for batch in BATCHES:
            for beams in BEAMS:
                if journal.has(weights=weights, batch=batch, beams=beams):
                    continue
                journal.check_time()
                mine, other, ratio, others = in_turns(options.turns, lambda: ours(place, options, folder, batch, beams),
                                                      lambda: theirs(translator, vocabulary, batch, beams))
                journal.add({"weights": weights, "peer_weights": kind, "batch": batch, "beams": beams, "tokens_per_second": rounded(mine),
                             "peer_tokens_per_second": rounded(other), "ratio": rounded(ratio), "others": others})
