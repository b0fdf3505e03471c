#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a Whisper of whisper-base's shape with random weights: what `report.py hearing` measures. Needs PyTorch, transformers and ctranslate2.

    tools/report/random_hearing.py whisper --ctranslate2 whisper-ct2     whisper/: a Hugging Face folder, and the same for CTranslate2

6 + 6 layers, width 512, feed-forward 2048, 8 heads, 80 bins, 51,865 tokens, of which only those that CTranslate2 looks for have a name.
"""
import argparse
import json
import pathlib

VOCABULARY = 51_865
END = 50_257
GIVEN = [50_258, 50_259, 50_359, 50_363]  # to the decoder: start, English, transcribe, no times
NAMES = {END: "<|endoftext|>", 50_258: "<|startoftranscript|>", 50_259: "<|en|>", 50_358: "<|translate|>", 50_359: "<|transcribe|>", 50_362: "<|nospeech|>",
         50_363: "<|notimestamps|>"}


class Tokens:
    """What CTranslate2's converter asks a tokenizer for."""

    unk_token, bos_token, eos_token = "t0", "t1", "t2"
    added_tokens_encoder, additional_special_tokens = {}, []

    def get_vocab(self):
        return {name: i for i, name in enumerate(names())}


def names():
    return [NAMES.get(i, f"t{i}") for i in range(VOCABULARY)]


def write(folder):
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    config = WhisperConfig(bos_token_id=END, eos_token_id=END, pad_token_id=END, decoder_start_token_id=GIVEN[0], vocab_size=VOCABULARY, num_mel_bins=80, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
                           decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048)
    model = WhisperForConditionalGeneration(config).eval()
    model.save_pretrained(folder)
    generation = {"decoder_start_token_id": GIVEN[0], "bos_token_id": END, "eos_token_id": END, "pad_token_id": END, "max_length": 448,
                  "is_multilingual": True, "lang_to_id": {"<|en|>": GIVEN[1]}, "task_to_id": {"transcribe": GIVEN[2]}, "language": "en",
                  "task": "transcribe", "no_timestamps_token_id": GIVEN[3]}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return model


def write_for_ctranslate2(folder, model):
    from ctranslate2.converters import transformers as converter

    spec = converter._MODEL_LOADERS["WhisperConfig"](model, Tokens())  # the converter itself wants a whole tokenizer's files
    spec.register_vocabulary(names())
    spec.validate()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ctranslate2", type=pathlib.Path, metavar="FOLDER", required=True, help="where CTranslate2's form of it goes")
    options = parser.parse_args()
    write_for_ctranslate2(options.ctranslate2, write(options.folder))


if __name__ == "__main__":
    main()
