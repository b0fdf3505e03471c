#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes gguf_mixtures/*.gguf: a small random Llama as llama.cpp's llama-quantize stores it.

    make_gguf_mixtures.py [--llama-quantize COMMAND] [--out DIR]

256 divides the width of the feed-forward layer and not that of the others, as in SmolLM2-135M and Qwen2.5-0.5B: what llama-quantize calls
Q4_K_M then also holds Q5_0, Q5_1, Q8_0 or IQ4_NL. repacked.gguf has types that vkformer repacks, and a scale beside the one in NVFP4. Needs gguf, numpy. Made with gguf 0.19.0, llama.cpp 0.7.0 of Debian sid.
"""
import argparse
import collections
import shlex
import subprocess
import tempfile
from pathlib import Path

import gguf
import numpy as np

WIDTH, FEED_FORWARD, LAYERS, VOCABULARY, HEADS = 32, 256, 2, 48, 2
FILE_TYPES = ["Q4_K_M", "Q5_K_M", "IQ4_XS", "Q2_K", "Q3_K_M"]
REPACKED = ["--tensor-type", "blk.0.ffn_down=nvfp4", "--tensor-type", "blk.1.ffn_down=iq2_s"]


def write_model(path, has_scale=False):
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(VOCABULARY)

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns)) / np.sqrt(columns)
        writer.add_tensor(name + ".weight", values.astype(np.float32))

    def gain(name):
        writer.add_tensor(name + ".weight", random.uniform(0.5, 1.5, WIDTH).astype(np.float32))

    matrix("token_embd", VOCABULARY, WIDTH)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        gain(block + "attn_norm")
        matrix(block + "attn_q", WIDTH, WIDTH)
        matrix(block + "attn_k", WIDTH // HEADS, WIDTH)
        matrix(block + "attn_v", WIDTH // HEADS, WIDTH)
        matrix(block + "attn_output", WIDTH, WIDTH)
        gain(block + "ffn_norm")
        matrix(block + "ffn_gate", FEED_FORWARD, WIDTH)
        matrix(block + "ffn_up", FEED_FORWARD, WIDTH)
        matrix(block + "ffn_down", WIDTH, FEED_FORWARD)
    if has_scale:
        writer.add_tensor("blk.0.ffn_down.scale", np.full(1, 1.7, np.float32))
    gain("output_norm")
    matrix("output", VOCABULARY, WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_importance(path):
    """All columns alike: what iq2_s asks for."""
    writer = gguf.GGUFWriter(path, "")
    writer.add_string("general.type", "imatrix")
    writer.add_array("imatrix.datasets", ["none"])
    writer.add_uint32("imatrix.chunk_count", 1)
    writer.add_uint32("imatrix.chunk_size", 1)
    for layer in range(LAYERS):
        writer.add_tensor(f"blk.{layer}.ffn_down.weight.in_sum2", np.ones((1, FEED_FORWARD), np.float32))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight.counts", np.ones((1, 1), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-quantize", default="llama-quantize", help="the command, with its leading arguments")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "gguf_mixtures")
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "f32.gguf"
        importance = Path(folder) / "importance.gguf"
        write_importance(importance)
        files = [(file_type.lower(), [], file_type) for file_type in FILE_TYPES] + [("repacked", [*REPACKED, "--imatrix", importance], "Q4_0")]
        for name, options, file_type in files:
            write_model(source, has_scale=name == "repacked")
            target = arguments.out / f"{name}.gguf"
            command = shlex.split(arguments.llama_quantize) + options + [source, target, file_type, "1"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            kinds = collections.Counter(tensor.tensor_type.name for tensor in gguf.GGUFReader(target).tensors)
            print(f"{target.name}: {target.stat().st_size} bytes, {dict(kinds)}")


if __name__ == "__main__":
    main()
