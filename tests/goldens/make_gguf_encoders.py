#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes gguf_encoders/bert.gguf, the model and tokenizer of sentences/embedder as llama.cpp's converter would write them, and
golden.json: texts, and their vectors by two poolings, of length 1, from transformers in float64; and cross-encoders: rank.gguf, that of
sentences/cross_encoder with the two layers of its head, as RoBERTa's are written, whose scores are in its folder; and rank_direct.gguf, that of
sentences/cross_encoder_labels with the last layer alone, as the converter writes BERT's, with rank_direct.json.

    python3 tests/goldens/make_gguf_encoders.py [--out DIR]
    python3 tests/goldens/make_gguf_encoders.py --folder MODEL --file MODEL.gguf   # any folder with a BERT, without a golden

Names and metadata are those of convert_hf_to_gguf.py (BertModel) in llama.cpp 0.7.0. Needs gguf besides.
"""

import argparse
import json
import pathlib

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
TOP_NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}
LAYER_NAMES = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
POOLINGS = {"mean": gguf.PoolingType.MEAN, "cls": gguf.PoolingType.CLS, "rank": gguf.PoolingType.RANK}
HEADS = {"rank": {"pooler.dense": "cls", "classifier": "cls.output"}, "direct": {"classifier": "cls.output"}, None: {}}


def renamed(name, head):
    """None for what is not written: position_ids, and the pooler unless it is a layer of the head."""
    stem, _, kind = name.removeprefix("bert.").rpartition(".")
    if stem in HEADS[head]:
        return f"{HEADS[head][stem]}.{kind}"
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{kind}"
    if not stem.startswith("encoder.layer."):
        return None
    layer, rest = stem.removeprefix("encoder.layer.").split(".", 1)
    return f"blk.{layer}.{LAYER_NAMES[rest]}.{kind}"


def phantom_spaces(token):
    """A mark before the beginnings of words, in place of one before their other parts."""
    if token.startswith("[") and token.endswith("]"):
        return token
    return token[2:] if token.startswith("##") else "\u2581" + token


def write_tokenizer(writer, folder, types):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([phantom_spaces(token) for token, _ in vocab])
    writer.add_token_types([gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token, _ in vocab])
    writer.add_token_type_count(types)
    names = {"[CLS]": "bos", "[UNK]": "unk", "[SEP]": "sep", "[PAD]": "pad", "[MASK]": "mask"}
    for token, name in names.items():
        getattr(writer, f"add_{name}_token_id")(tokenizer.token_to_id(token))
    writer.add_eos_token_id(tokenizer.token_to_id("[SEP]"))


def write(folder, path, pooling, head=None):
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(POOLINGS[pooling])
    writer.add_vocab_size(config["vocab_size"])
    if head:
        writer.add_classifier_output_labels([label for _, label in sorted(config["id2label"].items())])
    write_tokenizer(writer, folder, config["type_vocab_size"])
    for name, tensor in load_file(folder / "model.safetensors").items():
        if renamed(name, head) is not None:
            writer.add_tensor(renamed(name, head), tensor.float().numpy().astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_golden(folder, path):
    texts = ["A cat sat on the mat.", "The CAFÉ was naïve; the coat was not!", "cat 猫 cat 犬 dog", "[SEP] is special", "don't"]
    texts.append(" ".join(["the"] * 40))  # cut
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(json.loads((folder / "config.json").read_text())["max_position_embeddings"])
    model = transformers.BertModel.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    golden = {"texts": texts, "mean": [], "cls": []}
    for text in texts:
        with torch.no_grad():
            hidden = model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0]
        for name, vector in (("mean", hidden.mean(0)), ("cls", hidden[0])):
            golden[name].append((vector / vector.norm()).tolist())
    path.write_text(json.dumps(golden, ensure_ascii=False) + "\n")


def write_direct_scores(folder, path):
    pairs = json.loads((folder / "golden.json").read_text())["pairs"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(json.loads((folder / "config.json").read_text())["max_position_embeddings"])
    model = transformers.BertForSequenceClassification.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    scores = []
    for first, second in pairs:
        encoding = tokenizer.encode(first, second)
        with torch.no_grad():
            hidden = model.bert(torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.type_ids])).last_hidden_state
            scores.append(model.classifier(hidden[0, 0]).tolist())
    path.write_text(json.dumps({"pairs": pairs, "scores": scores}, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "gguf_encoders")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--file", type=pathlib.Path)
    parser.add_argument("--pooling", choices=POOLINGS, default="mean")
    args = parser.parse_args()
    if args.folder:
        write(args.folder, args.file, args.pooling)
        return
    args.out.mkdir(exist_ok=True)
    folder = HERE / "sentences" / "embedder"
    write(folder, args.out / "bert.gguf", "mean")
    write_golden(folder, args.out / "golden.json")
    write(HERE / "sentences" / "cross_encoder", args.out / "rank.gguf", "rank", "rank")
    direct = HERE / "sentences" / "cross_encoder_labels"
    write(direct, args.out / "rank_direct.gguf", "rank", "direct")
    write_direct_scores(direct, args.out / "rank_direct.json")


if __name__ == "__main__":
    main()
