#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a Llama with random weights as a GGUF file: something to measure that needs no download.

    tools/report/random_model.py FILE.gguf --weights q4_k

Its shape is that of SmolLM2-135M, or what the options say. Weights are uniform with a deviation of some 0.02, and come again after some
hundred thousand: they lie at addresses of their own, so that the time is that of any weights. The file is written at the disk's speed: no
weight is quantised, the blocks themselves are random.
"""
import argparse
import math
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


def write_from(file, pool, begin, size):
    """Writes `size` bytes of the pool, which is read round and round from `begin` on; gives where the next ones begin."""
    while size:
        part = pool[begin:begin + size]
        file.write(part)
        size -= len(part)
        begin = (begin + len(part)) % len(pool)
    return begin


def byte_letters():
    """What byte-level BPE writes the 256 bytes as: those that print as they are, the others from U+0100 on."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    return [chr(byte) for byte in printed] + [chr(256 + i) for i in range(len(others))]


def vocabulary(size):
    """Of byte-level BPE that knows the bytes and one merge, "a b"; the rest is filled up."""
    pieces = byte_letters() + ["ab"]
    return pieces + [f"<filler{i}>" for i in range(size - len(pieces))]


class Format:
    """Of weights in a GGUF file: ggml's number for it, weights and bytes of a block, where its float16 factors lie, and what they are."""

    def __init__(self, number, weights, size, factors):
        self.number, self.weights, self.size, self.factors = number, weights, size, factors

    def pool(self, seed, blocks=16_381):
        """Some random blocks, a prime number of them."""
        draws = random.Random(seed)
        if self.weights == 1:
            kind = {2: "e", 4: "f"}[self.size]
            return b"".join(struct.pack("<" + kind, draws.uniform(-0.035, 0.035)) for _ in range(PERIOD))
        pool = bytearray(draws.randbytes(blocks * self.size))
        for at in range(0, len(pool), self.size):
            for offset, factor in self.factors:
                struct.pack_into("<e", pool, at + offset, factor)
        return bytes(pool)


# The factors give a deviation of 0.02 around 0 where quants and scales are random bits: docs of ggml's block formats in core/quant.hpp.
FORMATS = {"f32": Format(0, 1, 4, ()), "f16": Format(1, 1, 2, ()), "q4_0": Format(2, 32, 18, ((0, 0.02 / 4.6),)),
           "q8_0": Format(8, 32, 34, ((0, 0.02 / 74),)), "q4_k": Format(12, 256, 144, ((0, 1e-4), (2, 7.5e-4))),
           "q6_k": Format(14, 256, 210, ((208, 0.02 / (74 * 18.5)),))}
ALIGNMENT = 32
TYPE_U32, TYPE_F32, TYPE_STRING, TYPE_ARRAY, TYPE_I32 = 4, 6, 8, 9, 5


def gguf_value(value):
    """Its number of type and bytes, as GGUF has them."""
    if isinstance(value, str):
        text = value.encode()
        return TYPE_STRING, struct.pack("<Q", len(text)) + text
    if isinstance(value, float):
        return TYPE_F32, struct.pack("<f", value)
    if isinstance(value, list):
        kind = TYPE_I32 if isinstance(value[0], int) else TYPE_STRING
        items = [struct.pack("<i", item) if kind == TYPE_I32 else gguf_value(item)[1] for item in value]
        return TYPE_ARRAY, struct.pack("<IQ", kind, len(items)) + b"".join(items)
    return TYPE_U32, struct.pack("<I", value)


def gguf_name(name):
    """What GGUF calls a tensor of a Llama."""
    parts = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm", "model.embed_tokens": "token_embd", "model.norm": "output_norm"}
    name = name.replace("model.layers.", "blk.")
    for theirs, ours in parts.items():
        name = name.replace(theirs, ours)
    return name


def shape_of(layers=30, width=576, inner=1536, heads=9, kv_heads=3, vocab=49152, positions=2048):
    return {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": inner, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": width // heads, "vocab_size": vocab, "max_position_embeddings": positions}


def write(path, weights, seed=1, **sizes):
    """Writes the file; gives the number of weights. The table is in Q6_K where the others are in Q4_K, as llama-quantize has it."""
    shape = shape_of(**sizes)
    vocab = shape["vocab_size"]
    metadata = {"general.architecture": "llama", "general.name": path.stem, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
                "tokenizer.ggml.tokens": vocabulary(vocab), "tokenizer.ggml.token_type": [1] * vocab, "tokenizer.ggml.merges": ["a b"],
                "tokenizer.ggml.bos_token_id": vocab - 1, "tokenizer.ggml.eos_token_id": vocab - 1,
                "llama.block_count": shape["num_hidden_layers"], "llama.context_length": shape["max_position_embeddings"],
                "llama.embedding_length": shape["hidden_size"], "llama.feed_forward_length": shape["intermediate_size"],
                "llama.attention.head_count": shape["num_attention_heads"], "llama.attention.head_count_kv": shape["num_key_value_heads"],
                "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.vocab_size": vocab,
                "llama.rope.dimension_count": shape["head_dim"], "llama.rope.freq_base": 100000.0}
    listed, offset = [], 0
    for name, dims, is_gain in tensors(shape):
        kind = "f32" if is_gain else "q6_k" if weights == "q4_k" and "embed" in name else weights
        if dims[-1] % FORMATS[kind].weights:
            raise ValueError(f"{name}: rows of {dims[-1]} do not end with a block of {kind}, which has {FORMATS[kind].weights} weights")
        size = count(dims) // FORMATS[kind].weights * FORMATS[kind].size
        listed.append((name, dims, is_gain, kind, size, offset))
        offset += math.ceil(size / ALIGNMENT) * ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(metadata))
    for key, value in metadata.items():
        kind, content = gguf_value(value)
        head += gguf_value(key)[1] + struct.pack("<I", kind) + content
    for name, dims, _, kind, _, at in listed:
        head += gguf_value(gguf_name(name))[1] + struct.pack(f"<I{len(dims)}QIQ", len(dims), *reversed(dims), FORMATS[kind].number, at)
    pools = {kind: FORMATS[kind].pool(seed) for kind in {entry[3] for entry in listed}}
    path.parent.mkdir(parents=True, exist_ok=True)
    begin = dict.fromkeys(pools, 0)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for _, dims, is_gain, kind, size, _ in listed:
            if is_gain:
                file.write(struct.pack("<f", 1) * count(dims))
            else:
                begin[kind] = write_from(file, pools[kind], begin[kind], size)
            file.write(bytes(-size % ALIGNMENT))
    return sum(count(dims) for _, dims, *_ in listed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=pathlib.Path, help="the file")
    parser.add_argument("--weights", choices=FORMATS, default="f16", help="f16 if absent")
    defaults = {"layers": 30, "width": 576, "inner": 1536, "heads": 9, "kv-heads": 3, "vocab": 49152, "positions": 2048, "seed": 1}
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{value} if absent")
    options = vars(parser.parse_args())
    if options["width"] % options["heads"] or options["heads"] % options["kv_heads"] or options["vocab"] < 257:
        parser.error("heads must divide the width, kv-heads the heads, and a vocabulary has 257 tokens or more")
    path = options.pop("path")
    try:
        written = write(path, **options)
    except ValueError as error:
        parser.error(str(error))
    print(f"{path}: {written / 1e6:.1f} million weights")


if __name__ == "__main__":
    main()
