#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes an encoder–decoder of an opus-mt's shape with random weights: what `report.py translation` measures. Needs PyTorch and transformers,
and for CTranslate2's form its package.

    tools/report/random_translation.py opus                        opus/: a Hugging Face folder
    tools/report/random_translation.py opus --peer opus-ct2        and opus-ct2/, converted by CTranslate2

6 + 6 layers, width 512, feed-forward 2048, 8 heads, 58,101 tokens, which are called t2, t3, …
"""
import argparse
import json
import pathlib
import shutil

SPM = pathlib.Path(__file__).resolve().parents[2] / "samples/models/date-normalizer/source.spm"  # that there is one; nobody reads with it
VOCABULARY = 58_101


def write(folder):
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    pad = VOCABULARY - 1
    config = MarianConfig(vocab_size=VOCABULARY, d_model=512, encoder_layers=6, decoder_layers=6, encoder_ffn_dim=2048, decoder_ffn_dim=2048,
                          encoder_attention_heads=8, decoder_attention_heads=8, max_position_embeddings=512, activation_function="swish",
                          scale_embedding=True, pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, forced_eos_token_id=None)
    MarianMTModel(config).save_pretrained(folder)
    names = {0: "</s>", 1: "<unk>", pad: "<pad>"}
    (folder / "vocab.json").write_text(json.dumps({names.get(i, f"t{i}"): i for i in range(VOCABULARY)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}))
    for name in ("source", "target"):
        shutil.copy(SPM, folder / f"{name}.spm")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--peer", type=pathlib.Path, help="where CTranslate2's form of it goes")
    options = parser.parse_args()
    write(options.folder)
    if options.peer:
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(options.folder)).convert(str(options.peer), force=True)


if __name__ == "__main__":
    main()
