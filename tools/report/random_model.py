#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a Llama with random weights, as a Hugging Face folder: something to measure that needs no download.

    tools/report/random_model.py FOLDER
    build/release/vkformer convert FOLDER random-q8_0.gguf --dtype q8_0

Its shape is that of SmolLM2-135M, or what the options say. Weights are normal with a deviation of 0.02, and come again after some
hundred thousand: they lie at addresses of their own, so that the time is that of any weights.
"""
import argparse
import array
import json
import pathlib
import random
import struct

PERIOD = 262_139  # a prime: rows of no width repeat each other


def tensors(shape):
    """(name, its shape, whether it is a norm's gain)."""
    width, kv_width, inner = shape["hidden_size"], shape["head_dim"] * shape["num_key_value_heads"], shape["intermediate_size"]
    query_width = shape["head_dim"] * shape["num_attention_heads"]
    yield "model.embed_tokens.weight", [shape["vocab_size"], width], False
    for layer in range(shape["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [width], True
        yield prefix + "post_attention_layernorm.weight", [width], True
        for name, dims in {"q": [query_width, width], "k": [kv_width, width], "v": [kv_width, width], "o": [width, query_width]}.items():
            yield f"{prefix}self_attn.{name}_proj.weight", dims, False
        for name, dims in {"gate": [inner, width], "up": [inner, width], "down": [width, inner]}.items():
            yield f"{prefix}mlp.{name}_proj.weight", dims, False
    yield "model.norm.weight", [width], True


def count(dims):
    product = 1
    for dim in dims:
        product *= dim
    return product


def write_weights(path, listed, seed):
    """A safetensors file of float32."""
    header, offset = {}, 0
    for name, dims, _ in listed:
        end = offset + 4 * count(dims)
        header[name] = {"dtype": "F32", "shape": dims, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    draws = random.Random(seed)
    pool = array.array("f", [draws.gauss(0, 0.02) for _ in range(PERIOD)]).tobytes()
    begin = 0  # where in the pool the next tensor begins
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, dims, is_gain in listed:
            left = 4 * count(dims)
            if is_gain:
                file.write(struct.pack("<f", 1) * (left // 4))
                continue
            while left:
                part = pool[begin:begin + left]
                file.write(part)
                left -= len(part)
                begin = (begin + len(part)) % len(pool)


def byte_letters():
    """What byte-level BPE writes the 256 bytes as: those that print as they are, the others from U+0100 on."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    return [chr(byte) for byte in printed] + [chr(256 + i) for i in range(len(others))]


def tokenizer(vocab_size):
    """Byte-level BPE that knows the bytes and one merge; the rest of its vocabulary is filled up."""
    pieces = byte_letters() + ["ab"]
    pieces += [f"<filler{i}>" for i in range(vocab_size - len(pieces))]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": ["a b"]}}


def write(folder, layers=30, width=576, inner=1536, heads=9, kv_heads=3, vocab=49152, positions=2048, seed=1):
    """Writes the folder; gives the number of weights."""
    shape = {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": inner, "num_attention_heads": heads,
             "num_key_value_heads": kv_heads, "head_dim": width // heads, "vocab_size": vocab, "max_position_embeddings": positions}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **shape, "hidden_act": "silu", "rms_norm_eps": 1e-5,
              "rope_theta": 100000.0, "rope_scaling": None, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
              "bos_token_id": vocab - 1, "eos_token_id": vocab - 1, "torch_dtype": "float32"}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(vocab)) + "\n")
    listed = list(tensors(shape))
    write_weights(folder / "model.safetensors", listed, seed)
    return sum(count(dims) for _, dims, _ in listed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    defaults = {"layers": 30, "width": 576, "inner": 1536, "heads": 9, "kv-heads": 3, "vocab": 49152, "positions": 2048, "seed": 1}
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{value} if absent")
    options = vars(parser.parse_args())
    if options["width"] % options["heads"] or options["heads"] % options["kv_heads"] or options["vocab"] < 257:
        parser.error("heads must divide the width, kv-heads the heads, and a vocabulary has 257 tokens or more")
    folder = options.pop("folder")
    print(f"{folder}: {write(folder, **options) / 1e6:.1f} million weights")


if __name__ == "__main__":
    main()
