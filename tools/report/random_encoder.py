#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a sentence encoder of all-MiniLM-L6-v2's shape with random weights: what `report.py embedding` measures. Needs sentence-transformers.

    tools/report/random_encoder.py minilm

6 layers, width 384, feed-forward 1536, 12 heads, 30,522 tokens, which are called t5, t6, …; the mean of the tokens, normalised.
"""
import argparse
import pathlib
import tempfile

VOCABULARY = 30_522


def write(folder):
    import sentence_transformers
    import torch
    from sentence_transformers import models
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    config = BertConfig(vocab_size=VOCABULARY, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
                        max_position_embeddings=512)
    with tempfile.TemporaryDirectory() as plain:
        words = pathlib.Path(plain) / "vocab.txt"
        words.write_text("".join(f"{word}\n" for word in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{i}" for i in range(5, VOCABULARY))]))
        BertModel(config, add_pooling_layer=False).save_pretrained(plain)
        BertTokenizerFast(str(words), model_max_length=256).save_pretrained(plain)
        transformer = models.Transformer(plain, max_seq_length=256)
        pooling = models.Pooling(config.hidden_size, pooling_mode="mean")
        sentence_transformers.SentenceTransformer(modules=[transformer, pooling, models.Normalize()]).save(str(folder), create_model_card=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
