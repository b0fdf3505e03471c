#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes gguf_decoders/<case>.gguf of what make_newer_decoders.py makes, by llama.cpp's own converter, without vocabularies.

    python3 tests/goldens/make_gguf_newer_decoders.py [--conversion DIR] [--out DIR] [case ...]

Made with llama.cpp 0.7.0 of Debian sid (llama.cpp-tools), transformers 5.12.1 and gguf 0.19.0.
"""

import argparse
import importlib
import logging
import pathlib
import sys

import gguf

HERE = pathlib.Path(__file__).resolve().parent
CASES = ("glm4", "glm4_plain", "glm4_moe", "seed_oss", "seed_oss_biased", "exaone4", "exaone4_full", "hunyuan_dense", "hunyuan_dense_biased",
         "ernie4_5", "ernie4_5_moe", "cohere", "cohere_normed", "cohere2")  # fmt: skip
# What the converter asks for and transformers does not write.
FIELDS = {
    "hunyuan_dense": {"max_position_embeddings": 32768},
    "cohere": {"model_max_length": 128},
    "cohere_normed": {"model_max_length": 128},
    "cohere2": {"rotary_pct": 1.0},
}
TYPES = {"float32": "ALL_F32", "float16": "MOSTLY_F16", "bfloat16": "MOSTLY_BF16"}


def without_vocabulary(model):
    writer = model.gguf_writer
    writer.add_tokenizer_model("no_vocab")
    if model.model_arch not in (gguf.MODEL_ARCH.EXAONE4, gguf.MODEL_ARCH.COHERE2):  # which say it anyway
        writer.add_vocab_size(model.hparams["vocab_size"])


def convert(folder, path, conversion="/usr/share/llama.cpp/llama.cpp-tools", **others):
    """`conversion`: the folder that has the package; `others`: fields of the config."""
    if conversion not in sys.path:
        sys.path.insert(0, conversion)
    base = importlib.import_module("conversion")
    logging.disable(logging.WARNING)
    fields = base.ModelBase.load_hparams(folder, False) | others
    kind = base.get_model_class(fields["architectures"][0])
    kind.set_vocab = without_vocabulary
    kind(folder, gguf.LlamaFileType[TYPES[fields["dtype"]]], path, hparams=fields).write()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conversion", default="/usr/share/llama.cpp/llama.cpp-tools", help="the folder that has `conversion`")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "gguf_decoders")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    for case in args.cases or CASES:
        convert(HERE / "decoders" / case, args.out / f"{case}.gguf", args.conversion, **FIELDS.get(case, {}))


if __name__ == "__main__":
    main()
