#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes an encoder–decoder of an opus-mt's shape with random weights: what `report.py translation` and `translating` measure. Needs NumPy,
and for the forms of others the package ctranslate2.

    tools/report/random_translation.py opus                            opus/: a Hugging Face folder
    tools/report/random_translation.py opus --ctranslate2 opus-ct2     and opus-ct2/, the same for CTranslate2
    tools/report/random_translation.py opus --argos packages           and packages/en_de/, the same for LibreTranslate

6 + 6 layers, width 512, feed-forward 2048, 8 heads, 58,101 tokens: those of the date normalizer's tokenizer and t1000, t1001, … It never
ends a translation: 256 tokens are written.
"""
import argparse
import json
import pathlib
import shutil
import struct

import numpy as np
from translating import WRITTEN

SPM = pathlib.Path(__file__).resolve().parents[2] / "samples/models/date-normalizer/source.spm"
VOCABULARY, WIDTH, INNER, LAYERS, HEADS, POSITIONS = 58_101, 512, 2048, 6, 8, 512
END, PAD = 0, VOCABULARY - 1
NEVER = -1e4   # what the logit of the end has added


def fields_of(message):
    """Of a message of protocol buffers: (number, value) of what has a length."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            varint()
        elif kind == 2:
            size = varint()
            yield key >> 3, message[at:at + size]
            at += size
        else:
            at += {1: 8, 5: 4}[kind]


def pieces():
    """What SentencePiece's model makes of texts (sentencepiece_model.proto: ModelProto.pieces is 1, SentencePiece.piece is 1)."""
    return [next(text.decode() for number, text in fields_of(piece) if number == 1) for number, piece in fields_of(SPM.read_bytes()) if number == 1]


def vocabulary():
    names = [f"t{i}" for i in range(VOCABULARY)]
    names[END], names[1], names[PAD] = "</s>", "<unk>", "<pad>"
    for i, piece in enumerate(piece for piece in pieces() if not piece.startswith("<")):
        names[2 + i] = piece
    return names


def positions():
    """sin and cos one behind the other, as Marian has them (Vaswani et al. 2017, 3.5)."""
    angles = np.arange(POSITIONS)[:, None] / 10000 ** (2 * np.arange(WIDTH // 2) / WIDTH)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


class Weights:
    """By the names that Hugging Face's Marian has."""

    def __init__(self):
        self._random = np.random.default_rng(0)
        self.all = {"model.shared.weight": self._normal(VOCABULARY, WIDTH), "final_logits_bias": np.zeros((1, VOCABULARY), np.float32)}
        self.all["model.shared.weight"][PAD] = 0
        self.all["final_logits_bias"][0, [END, PAD]] = NEVER
        for i in range(LAYERS):
            self._layer(f"model.encoder.layers.{i}", ("self_attn",))
            self._layer(f"model.decoder.layers.{i}", ("self_attn", "encoder_attn"))

    def _normal(self, *shape):
        return self._random.standard_normal(shape, np.float32) * np.float32(0.02)

    def _linear(self, name, outputs, inputs):
        self.all |= {f"{name}.weight": self._normal(outputs, inputs), f"{name}.bias": np.zeros(outputs, np.float32)}

    def _norm(self, name):
        self.all |= {f"{name}.weight": np.ones(WIDTH, np.float32), f"{name}.bias": np.zeros(WIDTH, np.float32)}

    def _layer(self, name, attentions):
        for attention in attentions:
            for part in ("q", "k", "v", "out"):
                self._linear(f"{name}.{attention}.{part}_proj", WIDTH, WIDTH)
            self._norm(f"{name}.{attention}_layer_norm")
        self._linear(f"{name}.fc1", INNER, WIDTH)
        self._linear(f"{name}.fc2", WIDTH, INNER)
        self._norm(f"{name}.final_layer_norm")


def write(folder, weights):
    folder.mkdir(parents=True, exist_ok=True)
    header, at = {}, 0
    for name, values in weights.all.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in weights.all.values():
            file.write(values.tobytes())
    config = {"architectures": ["MarianMTModel"], "model_type": "marian", "vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": LAYERS,
              "decoder_layers": LAYERS, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "encoder_attention_heads": HEADS,
              "decoder_attention_heads": HEADS, "max_position_embeddings": POSITIONS, "activation_function": "swish", "scale_embedding": True,
              "static_position_embeddings": True, "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True, "normalize_before": False,
              "normalize_embedding": False, "pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": PAD}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"num_beams": 4, "max_length": WRITTEN + 1, "length_penalty": 0.2, "pad_token_id": PAD,
                                                               "eos_token_id": END, "decoder_start_token_id": PAD}))
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(vocabulary())}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}))
    for name in ("source", "target"):
        shutil.copy(SPM, folder / f"{name}.spm")


def write_for_ctranslate2(folder, weights):
    """Without the padding, from whose embedding, zeros, a translation begins."""
    from ctranslate2.specs import Activation, TransformerSpec

    w = weights.all
    spec = TransformerSpec.from_config((LAYERS, LAYERS), HEADS, pre_norm=False, activation=Activation.SWISH)
    table = w["model.shared.weight"][:PAD]

    def give(linear, *names):
        linear.weight, linear.bias = (np.concatenate([w[f"{name}.{part}"] for name in names]) for part in ("weight", "bias"))

    def give_norm(norm, name):
        norm.gamma, norm.beta = w[f"{name}.weight"], w[f"{name}.bias"]

    def give_layer(layer, name):
        own = f"{name}.self_attn"
        give(layer.self_attention.linear[0], *(f"{own}.{part}_proj" for part in "qkv"))
        give(layer.self_attention.linear[1], f"{own}.out_proj")
        give_norm(layer.self_attention.layer_norm, f"{own}_layer_norm")
        if hasattr(layer, "attention"):
            other = f"{name}.encoder_attn"
            give(layer.attention.linear[0], f"{other}.q_proj")
            give(layer.attention.linear[1], *(f"{other}.{part}_proj" for part in "kv"))
            give(layer.attention.linear[2], f"{other}.out_proj")
            give_norm(layer.attention.layer_norm, f"{other}_layer_norm")
        give(layer.ffn.linear_0, f"{name}.fc1")
        give(layer.ffn.linear_1, f"{name}.fc2")
        give_norm(layer.ffn.layer_norm, f"{name}.final_layer_norm")

    for side, name, embeddings in ((spec.encoder, "encoder", spec.encoder.embeddings[0]), (spec.decoder, "decoder", spec.decoder.embeddings)):
        embeddings.weight = table
        side.scale_embeddings = True
        side.position_encodings.encodings = positions()
        for i, layer in enumerate(side.layer):
            give_layer(layer, f"model.{name}.layers.{i}")
    spec.decoder.start_from_zero_embedding = True
    spec.decoder.projection.weight = table
    spec.decoder.projection.bias = w["final_logits_bias"][0, :PAD]
    names = vocabulary()[:PAD]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = "</s>"
    spec.validate()
    spec.optimize(quantization=None)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def write_for_argos(packages, weights):
    """Two, of which the other is the first once more: with one alone LibreTranslate wants to download others."""
    languages = {"en": "English", "de": "German"}
    for source, target in (("en", "de"), ("de", "en")):
        folder = packages / f"{source}_{target}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata.json").write_text(json.dumps({"package_version": "1.0", "argos_version": "1.0", "from_code": source, "to_code": target,
                                                          "from_name": languages[source], "to_name": languages[target]}))
        shutil.copy(SPM, folder / "sentencepiece.model")
    write_for_ctranslate2(packages / "en_de/model", weights)
    other = packages / "de_en/model"
    other.unlink(missing_ok=True)
    other.symlink_to("../en_de/model")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ctranslate2", type=pathlib.Path, metavar="FOLDER", help="where CTranslate2's form of it goes")
    parser.add_argument("--argos", type=pathlib.Path, metavar="FOLDER", help="where packages for LibreTranslate go")
    options = parser.parse_args()
    weights = Weights()
    write(options.folder, weights)
    if options.ctranslate2:
        write_for_ctranslate2(options.ctranslate2, weights)
    if options.argos:
        write_for_argos(options.argos, weights)


if __name__ == "__main__":
    main()
