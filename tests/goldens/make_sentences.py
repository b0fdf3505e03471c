#!/usr/bin/env python3
"""Writes sentences/: tiny random folders of the sentence-transformers library, tokenizers included, and what it makes of some texts.

    python3 tests/goldens/make_sentences.py [--out DIR]

embedder/ has a Transformer, two poolings, a dense layer, a normalisation and prompts; cross_encoder/ and cross_encoder_labels/ score
pairs; pairs.json has the token ids and types of pairs of texts, cut to several lengths, for tokenizers with different post-processors.
"""

import argparse
import json
import pathlib
import shutil

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer, models
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import WordPiece
from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

TEXTS = [
    "A cat sat on the mat.",
    "The CAFÉ was naïve; the coat was not!",
    "",
    "  at  the\tsea  ",
    "cat 猫 cat 犬 dog",
    "unknownword xyzzy",
    "the cat and the dog and the coat and the sea and the mat and the cat and the dog and the café and the end",
    "[SEP] is special, so is [MASK]",
    "don't",
]
PAIRS = [
    ("the cat", "A cat sat on the mat."),
    ("the dog", ""),
    ("", "the dog"),
    ("the cat and the dog and the coat and the sea and the mat", "on the mat"),
    ("on the mat", "the cat and the dog and the coat and the sea and the mat"),
    ("the sea the sea the sea the sea the sea the sea", "the mat the mat the mat the mat the mat the mat the mat"),
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tokenizer():
    t = Tokenizer(WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    t.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(TEXTS * 3, trainers.WordPieceTrainer(vocab_size=70, special_tokens=SPECIAL, show_progress=False))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return t


def save_tokenizer(t, folder, max_length):
    PreTrainedTokenizerFast(
        tokenizer_object=t,
        model_max_length=max_length,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)


def save_model(model_class, folder, vocab, **others):
    config = BertConfig(
        vocab_size=vocab,
        hidden_size=20,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=30,
        max_position_embeddings=32,
        **others,
    )
    torch.manual_seed(7)
    model = model_class(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((1.0 if "LayerNorm.weight" in name else 0.0) + 0.3 * torch.randn(p.shape))
    model.save_pretrained(folder)


def write_embedder(out):
    source = out / "source"
    t = tokenizer()
    save_model(BertModel, source, t.get_vocab_size())
    save_tokenizer(t, source, 32)
    transformer = models.Transformer(str(source), max_seq_length=16)
    pooling = models.Pooling(20, pooling_mode_mean_tokens=True, pooling_mode_cls_token=True)
    dense = models.Dense(40, 9)
    model = SentenceTransformer(
        modules=[transformer, pooling, dense, models.Normalize()], prompts={"query": "the: ", "document": ""}, device="cpu"
    )
    with torch.no_grad():
        dense.linear.weight.copy_(0.4 * torch.randn(9, 40))
        dense.linear.bias.copy_(0.2 * torch.randn(9))
    model.save(str(out / "embedder"), create_model_card=False)
    shutil.rmtree(source)
    transformer_only = SentenceTransformer(modules=[transformer, models.Pooling(20)], device="cpu")
    result = {
        "texts": TEXTS,
        "embeddings": model.encode(TEXTS).tolist(),
        "query": model.encode(TEXTS, prompt_name="query").tolist(),
        "mean": transformer_only.encode(TEXTS).tolist(),
    }
    (out / "embedder" / "golden.json").write_text(json.dumps(result, ensure_ascii=False))


def write_cross_encoder(out, name, labels):
    folder = out / name
    t = tokenizer()
    save_model(BertForSequenceClassification, folder, t.get_vocab_size(), num_labels=labels)
    save_tokenizer(t, folder, 24)
    model = CrossEncoder(str(folder), device="cpu")
    result = {"pairs": PAIRS, "scores": model.predict(PAIRS).reshape(len(PAIRS), labels).tolist()}
    (folder / "golden.json").write_text(json.dumps(result, ensure_ascii=False))


def write_pairs(out):
    template = processors.TemplateProcessing(
        single="[CLS] $A", pair="$A:2 [SEP]:1 $B:0 [CLS]:3", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    cases = {
        "bert": processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)),
        "roberta": processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2)),
        "template": template,
        "sequence": processors.Sequence([processors.ByteLevel(trim_offsets=True), template]),
        "none": None,
    }
    result = []
    for name, processor in cases.items():
        t = tokenizer()
        if processor is not None:
            t.post_processor = processor
        document = json.loads(t.to_str())
        if processor is None:
            document["post_processor"] = None
            t = Tokenizer.from_str(json.dumps(document))
        entries = []
        for length in (0, 5, 8, 13, 20):
            t.no_truncation()
            if length:
                t.enable_truncation(length, strategy="longest_first")
            for first, second in PAIRS + [(text, None) for text in TEXTS]:
                encoding = t.encode(first, second) if second is not None else t.encode(first)
                entries.append(
                    {"first": first, "second": second, "max_length": length, "ids": encoding.ids, "types": encoding.type_ids}
                )
        document["truncation"] = None
        result.append({"name": name, "tokenizer": document, "encodings": entries})
    (out / "pairs.json").write_text(json.dumps(result, ensure_ascii=False))


def tidy(out):
    """What nothing here reads goes, JSON becomes short."""
    for path in out.rglob("*"):
        if path.name in (".gitattributes", "README.md", "vocab.txt", "special_tokens_map.json"):
            path.unlink()
        elif path.suffix == ".json":
            path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "sentences")
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    torch.set_num_threads(1)
    write_embedder(out)
    write_cross_encoder(out, "cross_encoder", 1)
    write_cross_encoder(out, "cross_encoder_labels", 3)
    write_pairs(out)
    tidy(out)


if __name__ == "__main__":
    main()
