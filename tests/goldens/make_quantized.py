#!/usr/bin/env python3
"""Writes quantized/*.safetensors: blocks as llama.cpp's llama-quantize makes them of a small random matrix.

    python3 tests/goldens/make_quantized.py [--llama-quantize COMMAND] [--out DIR]

A GGUF file with one layer's worth of float32 tensors is written, quantised to each format, and the bytes of one tensor are taken
from the result. `dequantized` is what the gguf package makes of them. llama-quantize stores nothing but experts as MXFP4: the
package makes those blocks itself, and others of random bytes, `any_blocks`, since all of them stand for numbers. Of the types that
are repacked (formats/gguf_repack.hpp) there are random bytes alone.
Made with llama.cpp 0.7.0 and gguf 0.19.0 of Debian sid.
"""

import argparse
import pathlib
import shlex
import struct
import subprocess
import tempfile

import gguf
import numpy as np
from safetensors.numpy import save_file

ROWS, WIDTH = 2, 512
TENSOR = "blk.0.ffn_down.weight"
FILE_TYPES = {
    "q8_0": "Q8_0", "q4_0": "Q4_0", "q4_k": "Q4_K_S", "q5_k": "Q5_K_S", "q6_k": "Q6_K", "q4_1": "Q4_1", "q5_0": "Q5_0",
    "q5_1": "Q5_1", "iq4_nl": "IQ4_NL", "iq4_xs": "IQ4_XS", "q2_k": "Q2_K", "q3_k": "Q3_K_S",
}


def write_mxfp4(values, out):
    kind = gguf.GGMLQuantizationType.MXFP4
    blocks = gguf.quants.quantize(values, kind)
    any_blocks = np.random.default_rng(2).integers(0, 256, (64, 17), np.uint8)
    any_blocks[:, 0] = [*range(4), *range(125, 131), *range(202, 256)]
    dequantized = gguf.quants.dequantize(blocks, kind)
    error = np.linalg.norm(dequantized - values) / np.linalg.norm(values)
    print(f"mxfp4: {blocks.size} bytes, relative error {error:.5f}")
    save_file(
        {"values": values, "blocks": blocks.reshape(-1), "dequantized": dequantized, "any_blocks": any_blocks.reshape(-1),
         "any_dequantized": gguf.quants.dequantize(any_blocks, kind)},
        out / "mxfp4.safetensors",
    )  # fmt: skip


def write_repacked(out):
    """Types that vkformer repacks: blocks of random bytes, which all stand for numbers, and what the gguf package makes of them."""
    blocks = np.random.default_rng(40).integers(0, 256, (96, 36), np.uint8)
    blocks[:64, :4] = np.arange(256).reshape(64, 4)  # all that a scale can be
    save_file(
        {"blocks": blocks.reshape(-1), "dequantized": gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.NVFP4).reshape(-1)},
        out / "nvfp4.safetensors",
    )
    for kind, scale_at in (
        ("IQ3_XXS", 0), ("IQ3_S", 0), ("TQ1_0", 52), ("TQ2_0", 64), ("IQ2_XXS", 0), ("IQ2_XS", 0), ("IQ2_S", 0), ("IQ1_S", 0),
        ("IQ1_M", 48),
    ):  # fmt: skip
        kind = gguf.GGMLQuantizationType[kind]
        block_bytes = gguf.GGML_QUANT_SIZES[kind][1]
        random = np.random.default_rng(int(kind))
        blocks = random.integers(0, 256, (24, block_bytes), np.uint8)
        scales = (0.01 * random.standard_normal(24)).astype(np.float16)
        scales[:5] = [0, 2.0**-14, 2.0**-23, 6 * 2.0**-24, 65504]
        if kind.name.startswith("IQ1"):  # an eighth of which is a float16
            scales[2:4] = [2.0**-21, 24 * 2.0**-24]
            eighths = np.round(scales.astype(np.float32) * 2.0**21) / 2.0**21
            scales = np.where(abs(scales) < 2.0**-11, eighths, scales).astype(np.float16)
        if kind.name == "IQ1_M":  # four bits of it above each pair of bytes of scales
            for pair in range(4):
                above = (scales.view(np.uint16) >> 4 * pair & 15) << 4
                blocks[:, 49 + 2 * pair] = blocks[:, 49 + 2 * pair] & 15 | above.astype(np.uint8)
        else:
            blocks[:, scale_at : scale_at + 2] = scales.view(np.uint8).reshape(24, 2)
        save_file(
            {"blocks": blocks.reshape(-1), "dequantized": gguf.quants.dequantize(blocks, kind).reshape(-1)},
            out / f"{kind.name.lower()}.safetensors",
        )


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def metadata(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    return text(key) + struct.pack("<II", 4, value)


def write_gguf(path, tensors):
    """Version 3, alignment 32, float32 only; as much metadata as llama-quantize wants of a llama."""
    entries = [
        metadata("general.architecture", "llama"),
        metadata("llama.context_length", 32),
        metadata("llama.embedding_length", WIDTH),
        metadata("llama.block_count", 1),
        metadata("llama.feed_forward_length", WIDTH),
        metadata("llama.attention.head_count", 1),
        metadata("llama.attention.layer_norm_rms_epsilon", 1e-5),
        metadata("llama.vocab_size", 2),
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries)
    data = b""
    for name, tensor in tensors.items():
        head += text(name) + struct.pack("<I", tensor.ndim)
        head += struct.pack(f"<{tensor.ndim}Q", *reversed(tensor.shape)) + struct.pack("<IQ", 0, len(data))
        data += tensor.tobytes() + bytes(-tensor.nbytes % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text(self):
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def skip(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            inner, count = self.take("IQ")
            for _ in range(count):
                self.skip(inner)
        else:
            self.at += {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}[kind]


def read_gguf_tensor(path, wanted):
    """(ggml type, bytes from where the tensor begins)"""
    reader = Reader(path.read_bytes())
    magic, version, tensors, entries = reader.take("4sIQQ")
    assert magic == b"GGUF" and version == 3
    for _ in range(entries):
        reader.text()
        reader.skip(reader.take("I"))
    found = None
    for _ in range(tensors):
        name, rank = reader.text(), reader.take("I")
        reader.take(f"{rank}Q")
        kind, offset = reader.take("IQ")
        if name == wanted:
            found = kind, offset
    start = reader.at + -reader.at % 32
    return found[0], reader.data[start + found[1] :]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--llama-quantize", default="llama-quantize", help="the command, with its leading arguments")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "quantized")
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)

    random = np.random.default_rng(1)
    normal = lambda *shape: random.standard_normal(shape).astype(np.float32)
    values = 0.02 * normal(ROWS, WIDTH) * np.exp(normal(ROWS, WIDTH // 32)).repeat(32, axis=1)  # scales that differ
    values[1, 64:96] = 0  # a group without a scale
    write_mxfp4(values, arguments.out)
    write_repacked(arguments.out)
    square = 0.02 * normal(WIDTH, WIDTH)
    padded = square.copy()
    padded[:ROWS] = values
    tensors = {
        "token_embd.weight": 0.02 * normal(2, WIDTH),
        "output_norm.weight": np.ones(WIDTH, np.float32),
        "blk.0.attn_norm.weight": np.ones(WIDTH, np.float32),
        "blk.0.ffn_norm.weight": np.ones(WIDTH, np.float32),
        TENSOR: padded,
    }
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up"):
        tensors[f"blk.0.{name}.weight"] = square

    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "f32.gguf"
        write_gguf(source, tensors)
        for kind, file_type in FILE_TYPES.items():
            target = pathlib.Path(folder) / f"{kind}.gguf"
            command = shlex.split(arguments.llama_quantize) + ["--pure", source, target, file_type, "1"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found, data = read_gguf_tensor(target, TENSOR)
            type = gguf.GGMLQuantizationType[kind.upper()]
            assert found == type, found
            elements, size = gguf.GGML_QUANT_SIZES[type]
            blocks = np.frombuffer(data, np.uint8, ROWS * WIDTH // elements * size).reshape(ROWS, -1)
            dequantized = gguf.quants.dequantize(blocks, type)
            error = np.linalg.norm(dequantized - values) / np.linalg.norm(values)
            print(f"{kind}: {blocks.size} bytes, relative error {error:.5f}")
            save_file(
                {"values": values, "blocks": blocks.reshape(-1), "dequantized": dequantized},
                arguments.out / f"{kind}.safetensors",
            )


if __name__ == "__main__":
    main()
