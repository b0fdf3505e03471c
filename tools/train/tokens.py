"""SentencePiece models and the shared vocabulary of the date normaliser, laid out as MarianTokenizer expects.

Source: unigram over generated dates, `nmt_nfkc_cf` (so case, widths and odd spaces are gone before the model sees
them), every digit its own piece. Target: one piece per character of `2021-03-04`. Vocabulary: `</s>` 0, `<unk>` 1, the
pieces, `<pad>` last.
"""

import io
import json
import random
from pathlib import Path

import sentencepiece

import dates

EOS, UNK, PAD = "</s>", "<unk>", "<pad>"
TOKENIZER_CONFIG = {
    "tokenizer_class": "MarianTokenizer",
    "source_lang": "dates",
    "target_lang": "iso8601",
    "model_max_length": 128,
    "eos_token": EOS,
    "unk_token": UNK,
    "pad_token": PAD,
    "separate_vocabs": False,
    "clean_up_tokenization_spaces": False,
}
# Every key of an English keyboard after case folding, and the letters with accents of the four languages.
_REQUIRED = "abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"()[]{}<>/\\|-_+*=&%$#@~^`" + "äöüàâçéèêëîïôùûñáíóú"


def _train(sentences, **options) -> bytes:
    """Reads and writes memory only, so that no path and no time ends up inside the model."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        character_coverage=1.0,
        num_threads=1,
        shuffle_input_sentence=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def _train_source(vocab_size: int, samples: int, seed: int) -> bytes:
    rng = random.Random(seed)
    days = dates.training_days()
    texts = (dates.draw(rng, rng.choice(dates.FORMS), rng.choice(days), slip_rate=0.1).text for _ in range(samples))
    return _train(
        texts,
        model_type="unigram",
        vocab_size=vocab_size,
        normalization_rule_name="nmt_nfkc_cf",
        split_digits=True,
        required_chars=_REQUIRED,
    )


def _train_target() -> bytes:
    texts = [day.isoformat() for day in dates.training_days()[::10]]
    return _train(
        texts,
        model_type="char",
        vocab_size=14,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
    )


def build(folder: Path, vocab_size: int = 320, samples: int = 40_000, seed: int = 7) -> None:
    """Writes source.spm, target.spm, vocab.json and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = []
    for side, proto in (("source", _train_source(vocab_size, samples, seed)), ("target", _train_target())):
        (folder / f"{side}.spm").write_bytes(proto)
        model = sentencepiece.SentencePieceProcessor(model_proto=proto)
        pieces += [
            model.id_to_piece(i)
            for i in range(model.get_piece_size())
            if not (model.is_control(i) or model.is_unknown(i))
        ]
    vocabulary = [EOS, UNK, *dict.fromkeys(pieces), PAD]
    write_json(folder / "vocab.json", {piece: i for i, piece in enumerate(vocabulary)})
    write_json(folder / "tokenizer_config.json", TOKENIZER_CONFIG)


def write_json(path: Path, value) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
