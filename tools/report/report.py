#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/performance.md, and the measurements that it is made of.

    tools/report/report.py page                 the page and its plots, of docs/performance/*.json
    tools/report/report.py page --check         whether they are what this makes of the JSON; changes nothing

    for t in f32 f16 q8_0 q4_0; do tools/report/random_model.py random-$t.gguf --weights $t; done    once: a model's files
    tools/report/random_translation.py opus --ctranslate2 opus-ct2 --argos packages                   once: those of an encoder–decoder
    tools/report/random_hearing.py whisper --ctranslate2 whisper-ct2                                 once: those of a Whisper
    tools/report/random_encoder.py minilm                                                            once: those of a sentence encoder

    tools/report/report.py ops --place NAME     single ops against the limits of the device
    tools/report/report.py peer-ops --place NAME --folder sid --ggml-ops ggml_ops        and against llama.cpp's
    tools/report/report.py models --place NAME --folder sid                              a language model against llama.cpp's
    tools/report/report.py guest --place NAME    what a model costs the application that it is recorded into
    tools/report/report.py serving --place NAME --folder sid                             many clients of a server, in turns with llama.cpp's
    tools/report/report.py translation --place NAME --model opus --peer-model opus-ct2   translation, in turns with CTranslate2
    tools/report/report.py hearing --place NAME --model whisper --peer-model whisper-ct2 Whisper, in turns with CTranslate2
    tools/report/report.py translating --place NAME --model opus --argos packages --peer-python PYTHON  many clients, in turns with LibreTranslate
    tools/report/report.py embedding --place NAME --model minilm                         vectors of texts, in turns with sentence-transformers
    tools/report/report.py builds --place NAME --before ../older/build/release/vkformer  two builds, in turns

Each of these writes docs/performance/NAME-SUBJECT.json. `--folder`: a Debian sid (tests/drivers/run.py --make sid), whose drivers are
taken in place of this machine's; llama.cpp's programs are run from it. The machine should have nothing else to do: what it was busy
with otherwise is measured, and times that were disturbed are taken again, or marked. Where it cannot be made quiet, two builds differ
least with one thread of the driver (LP_NUM_THREADS=1), some priority (nice) and many --turns. `--stop-after` ends the work after some seconds
(exit code 3); the same command goes on with it.
"""
import argparse
import pathlib
import sys

import builds
import embedding
import hearing
import measure
import page
import serving
import translating
import translation
from journal import OutOfTime
from machine import SOURCE


def add_measuring(commands, name, run, summary):
    command = commands.add_parser(name, help=summary, description=summary)
    command.set_defaults(run=run)
    command.add_argument("--place", required=True, help="short name of device and driver, as lavapipe-26: the beginning of the file's name")
    command.add_argument("--vkformer", type=pathlib.Path, default=SOURCE / "build/release/vkformer")
    command.add_argument("--device", default="llvmpipe", help="as vkformer's --device; llvmpipe if absent")
    command.add_argument("--folder", type=pathlib.Path, help="a Debian sid in a folder")
    command.add_argument("--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache/vkformer-report",
                         help="where verdicts and the driver's machine code are kept")
    command.add_argument("--out", type=pathlib.Path)
    command.add_argument("--seconds", type=float, default=1, help="for each case; 1 if absent")
    command.add_argument("--attempts", type=int, default=3, help="of a measurement, until one is not disturbed; 3 if absent")
    command.add_argument("--stop-after", type=float, help="seconds")
    return command


def add_models(command):
    command.add_argument("--models", type=pathlib.Path, default=pathlib.Path("."), help="the folder of random-WEIGHTS.gguf")
    command.add_argument("--weights", action="append", default=[], choices=measure.WEIGHTS, help="repeatable")
    command.add_argument("--runs", type=int, default=3, help="of a model; 3 if absent")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="subject")
    making = commands.add_parser("page", help="makes docs/performance.md")
    making.add_argument("--check", action="store_true", help="change nothing; exit code 1 where something would change")
    making.set_defaults(run=page.page)
    add_measuring(commands, "ops", measure.ops, "single ops against the limits of the device")
    beside = add_measuring(commands, "peer-ops", measure.peer_ops, "single ops against those of llama.cpp's Vulkan backend")
    beside.add_argument("--ggml-ops", type=pathlib.Path, required=True, help="tools/peers/ggml_ops.cpp, compiled")
    peer_model = add_measuring(commands, "models", measure.models, "a language model against llama.cpp's")
    add_models(peer_model)
    peer_model.add_argument("--no-tune", dest="tune", action="store_false", help="the kernels for the model's graphs were tried before")
    peer_model.add_argument("--settings", nargs="+", choices=measure.PEER_SETTINGS, default=list(measure.PEER_SETTINGS),
                            help="of llama.cpp on Vulkan, of which the best counts; all if absent")
    add_models(add_measuring(commands, "guest", measure.guest, "what a model costs the application that it is recorded into"))
    clients = add_measuring(commands, "serving", serving.serving, "a server under many clients, beside llama.cpp's")
    add_models(clients)
    clients.add_argument("--clients", nargs="+", type=int, default=[1, 4, 8, 16], help="how many at a time; 1, 4, 8, 16 if absent")
    clients.add_argument("--requests", type=int, default=4, help="of each client in a turn, one after the other; 4 if absent")
    clients.add_argument("--words", nargs=2, type=int, default=serving.WORDS, metavar=("LEAST", "MOST"),
                         help="of a prompt, each some four tokens; {} to {} if absent".format(*serving.WORDS))
    clients.add_argument("--turns", type=int, default=3, help="of each server, of which the medians count; 3 if absent")
    texts = add_measuring(commands, "translation", translation.translation, "an encoder–decoder beside CTranslate2, whose package is installed")
    texts.add_argument("--model", type=pathlib.Path, required=True, help="the folder of random_translation.py")
    texts.add_argument("--peer-model", type=pathlib.Path, required=True, help="the same, converted by CTranslate2")
    texts.add_argument("--turns", type=int, default=3, help="of each, of which the medians count; 3 if absent")
    sounds = add_measuring(commands, "hearing", hearing.hearing, "a Whisper beside CTranslate2, whose package is installed")
    sounds.add_argument("--model", type=pathlib.Path, required=True, help="the folder of random_hearing.py")
    sounds.add_argument("--peer-model", type=pathlib.Path, required=True, help="the same for CTranslate2")
    sounds.add_argument("--turns", type=int, default=3, help="of each, of which the medians count; 3 if absent")
    translating.add_options(add_measuring(commands, "translating", translating.translating, "a server that translates, beside LibreTranslate"))
    embedding.add_options(add_measuring(commands, "embedding", embedding.embedding, "a sentence encoder beside sentence-transformers"))
    turns = add_measuring(commands, "builds", builds.builds, "an older build of vkformer and this one, in turns")
    add_models(turns)
    turns.add_argument("--before", type=pathlib.Path, required=True, help="the older build's vkformer")
    turns.add_argument("--title", default="", help="what lies between the two")
    turns.add_argument("--turns", type=int, default=5, help="times that each is measured; 5 if absent")
    turns.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW,…", help="a kernel that has other names now; repeatable")
    turns.add_argument("--settle", action="store_true", help="only try the kernels for the models' graphs, and make both builds take the same")
    return parser.parse_args()


def main():
    options = parse()
    if options.subject != "page" and not options.out:
        options.out = SOURCE / f"docs/performance/{options.place}-{options.subject}.json"
    try:
        return options.run(options)
    except OutOfTime:
        print(f"{options.subject}: out of time; the same command goes on", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
