#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains tokenizers of the common kinds and writes what Hugging Face's tokenizers makes of thousands of hard lines.

    venv/bin/python tests/goldens/tokenizers/make_hard.py

Needs tokenizers 0.22. The lines are made by a generator that tests/text/hard_text_test.cpp has too, from the fragments and
ranges in ../hard_text/text.json; so the repository holds their fingerprints only, and some lines in full.
"""
import base64
import json
import unicodedata
from pathlib import Path

import make as small  # its sentences and hard lines
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).resolve().parent.parent / "hard_text"
LINES = 5200
FULL = 120
MASK = (1 << 64) - 1

CODE = r"""
#include <vector>
int main(int argc, char** argv) { for (std::size_t i = 0; i < 10; ++i) std::printf("%zu\n", i * i); return 0; }
def f(x, *args, **kwargs):
    return {k: v**2 for k, v in kwargs.items() if v is not None}  # TODO: 3.14e-10
SELECT name, COUNT(*) FROM users WHERE id >= 1000 AND email LIKE '%@example.com' GROUP BY name;
<div class="a b" id='x'>&nbsp;&lt;p&gt;</div><!-- comment --> \begin{align} \frac{1}{2} &= \alpha_{i}^{2} \end{align}
{"key": [1, 2.5, true, null], "nested": {"a": "\u00e9\n"}}
export PATH="$HOME/bin:$PATH"; git commit -m 'fix: off-by-one' && make -j8 2>&1 | tee log.txt
""".strip("\n").splitlines()

EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "🏳️‍🌈", "1️⃣", "☃️", "🧑🏿‍🚀", "🤷🏽‍♀️", "👁️‍🗨️", "❤️‍🔥", "\u200d", "\ufe0f", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"]
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<mask>", "[CLS]", "[SEP]", "[UNK]", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<0x41>", "<0xC3>", "##ing", "▁", "Ġ", "tool_call"]

BLOCKS = [(0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x17F), (0x180, 0x24F), (0x250, 0x2AF), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x530, 0x58F), (0x590, 0x5FF), (0x600, 0x6FF),
          (0x700, 0x74F), (0x780, 0x7BF), (0x900, 0x97F), (0x980, 0x9FF), (0xA00, 0xA7F), (0xB80, 0xBFF), (0xC00, 0xC7F), (0xD00, 0xD7F), (0xD80, 0xDFF), (0xE00, 0xE7F), (0xE80, 0xEFF), (0xF00, 0xFFF),
          (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x13A0, 0x13FF), (0x1400, 0x167F), (0x1680, 0x16FF), (0x1780, 0x17FF), (0x1800, 0x18AF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF),
          (0x2000, 0x206F), (0x2070, 0x209F), (0x20A0, 0x20CF), (0x2100, 0x218F), (0x2190, 0x22FF), (0x2460, 0x24FF), (0x2500, 0x27BF), (0x3000, 0x303F), (0x3040, 0x30FF), (0x3100, 0x318F), (0x3200, 0x33FF),
          (0x3400, 0x34FF), (0x4E00, 0x5FFF), (0xA000, 0xA0FF), (0xAC00, 0xACFF), (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFE20, 0xFE6F), (0xFF00, 0xFFEF), (0x10300, 0x1034F), (0x1D400, 0x1D4FF), (0x20000, 0x200FF)]


def ranges():
    """The characters of the blocks that every library's tables know: those of Unicode 3.2."""
    result = []
    for low, high in BLOCKS:
        for code in range(low, high + 1):
            if unicodedata.ucd_3_2_0.category(chr(code)) in ("Cn", "Cs"):
                continue
            # Format controls that have become others since, or the other way round.
            if unicodedata.category(chr(code)) != unicodedata.ucd_3_2_0.category(chr(code)):
                continue
            if result and result[-1][1] == code - 1 and result[-1][0] >= low:
                result[-1][1] = code
            else:
                result.append([code, code])
    return result


class Generator:
    """splitmix64: the same numbers in every language."""

    def __init__(self, seed, fragments, spans):
        self.state, self.fragments, self.spans = seed, [f.encode() for f in fragments], spans

    def below(self, limit):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % limit

    def character(self, span):
        return chr(span[0] + self.below(span[1] - span[0] + 1)).encode()

    def part(self):
        kind = self.below(16)
        if kind < 6:
            return self.fragments[self.below(len(self.fragments))]
        if kind < 10:
            span = self.spans[self.below(len(self.spans))]
            return b"".join(self.character(span) for _ in range(1 + self.below(6)))
        if kind == 10:
            return bytes([b" \n\t\r"[self.below(4)]]) * (1 + self.below(12))
        if kind == 11:
            return b" " * (1 + self.below(40))
        if kind == 12:
            return b"".join(bytes([0x21 + self.below(94)]) for _ in range(1 + self.below(10)))
        if kind == 13:
            return str(self.below(10 ** (1 + self.below(12)))).encode()
        if kind == 14:
            return self.character([0x300, 0x345]) * (1 + self.below(3))
        return bytes([self.below(32)]) if self.below(4) else self.character(self.spans[self.below(len(self.spans))]) * (1 + self.below(40))

    def line(self):
        parts = []
        for _ in range(1 + self.below(10)):
            parts.append(self.part())
            if self.below(2):
                parts.append(b" ")
        line = b"".join(parts)
        if self.below(32) == 0:  # perhaps no longer UTF-8
            at = self.below(len(line) + 1)
            line = line[:at] + bytes([0x80 + self.below(128)]) + line[at:]
        if self.below(64) == 0:
            line = line[:self.below(len(line) + 1)]
        return line


def fnv(data, value=0xCBF29CE484222325):
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
QWEN2 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
O200K = r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def charsmap():
    path = Path(__file__).resolve().parent / "unigram" / "tokenizer.json"
    steps = json.loads(path.read_text())["normalizer"]["normalizers"]
    blob = next(step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled")
    return normalizers.Precompiled(base64.b64decode(blob))


def special(*names):
    return [AddedToken(name, special=True, normalized=False) for name in names]


def byte_level(corpus, pattern, size, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if pattern:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def gpt2(corpus):
    tokenizer = byte_level(corpus, None, 700)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(special("<|endoftext|>"))
    return tokenizer


def llama3(corpus):
    tokenizer = byte_level(corpus, LLAMA3, 700, ignore_merges=True)
    tokenizer.add_special_tokens(special("<|begin|>", "<|eot_id|>"))
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", tokenizer.token_to_id("<|begin|>"))])])
    return tokenizer


def qwen2(corpus):
    tokenizer = byte_level(corpus, QWEN2, 700)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens(special("<|im_start|>", "<|im_end|>"))
    tokenizer.add_tokens([AddedToken("tool_call", special=False, normalized=False)])
    return tokenizer


def o200k(corpus):
    tokenizer = byte_level(corpus, O200K, 700)
    tokenizer.add_special_tokens(special("<|endoftext|>"))
    return tokenizer


def pieces(corpus, size, metaspace):
    """A BPE over SentencePiece's spelling, with bytes for what it does not know."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=metaspace)
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + BYTES, limit_alphabet=150)
    tokenizer.train_from_iterator(corpus, trainer)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [token for token in data["added_tokens"] if not token["content"].startswith("<0x")]
    return data


def rebuilt(data):
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def llama2(corpus):
    tokenizer = rebuilt(pieces(corpus, 800, "always"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    data = json.loads(tokenizer.to_str())
    data["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def mistral(corpus):
    tokenizer = rebuilt(pieces(corpus, 800, "first"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def gemma(corpus):
    tokenizer = rebuilt(pieces(corpus, 800, "never"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_tokens([AddedToken("\n\n", special=False, normalized=False), AddedToken("▁▁", special=False, normalized=False)])
    return tokenizer


def unigram(corpus, pre_tokenizer):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = charsmap()
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=500, show_progress=False, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>")
    tokenizer.train_from_iterator(corpus, trainer)
    data = json.loads(tokenizer.to_str())
    data["model"]["vocab"] = [[token, float(f"{score:.6g}")] for token, score in data["model"]["vocab"]]
    return Tokenizer.from_str(json.dumps(data))


def t5(corpus):
    tokenizer = unigram(corpus, pre_tokenizers.Metaspace(prepend_scheme="always"))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return tokenizer


def xlm_r(corpus):
    tokenizer = unigram(corpus, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.add_special_tokens([AddedToken("<mask>", special=True, normalized=True, lstrip=True)])
    return tokenizer


def word_piece(corpus, normalizer, pre_tokenizer):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=700, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def bert_uncased(corpus):
    return word_piece(corpus, normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer())


def bert_cased(corpus):
    return word_piece(corpus, normalizers.BertNormalizer(lowercase=False), pre_tokenizers.BertPreTokenizer())


def odds(corpus):
    """Components that no common model has."""
    tokenizer = word_piece(corpus, normalizers.Sequence([normalizers.Nmt(), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]),
                           pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.Digits(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.FixedLength(5)]))
    tokenizer.decoder = decoders.CTC(pad_token="[PAD]", word_delimiter_token="t", cleanup=True)
    return tokenizer


def byte_words(corpus):
    """ByteLevel as a normalizer, in front of a split."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("[^Ġ]+|Ġ+"), "merged_with_next")
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=600, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


KINDS = {"gpt2": gpt2, "llama3": llama3, "qwen2": qwen2, "o200k": o200k, "llama2": llama2, "mistral": mistral, "gemma": gemma, "t5": t5, "xlm-r": xlm_r,
         "bert-uncased": bert_uncased, "bert-cased": bert_cased, "odds": odds, "byte-words": byte_words}


def expect(tokenizer, line):
    """The ids, their text without special tokens and with; None where the line is no text."""
    try:
        ids = tokenizer.encode(line.decode()).ids
    except UnicodeDecodeError:
        return None
    return ids, tokenizer.decode(ids, skip_special_tokens=True), tokenizer.decode(ids, skip_special_tokens=False)


def fingerprint(result):
    if result is None:
        return fnv(b"not UTF-8")
    ids, text, whole = result
    return fnv(whole.encode(), fnv(b"\0", fnv(text.encode(), fnv(b"".join(i.to_bytes(4, "little") for i in ids)))))


def main():
    HERE.mkdir(exist_ok=True)
    fragments = list(dict.fromkeys(EMOJI + SPECIAL + CODE + [line for line in small.HARD if line and len(line) < 40] + " ".join(small.SENTENCES).split()))
    fragments = [f for f in fragments if all(unicodedata.ucd_3_2_0.category(c) != "Cn" or c in "".join(EMOJI + small.HARD[90:110]) for c in f)]
    spans = ranges()
    generator = Generator(2026, fragments, spans)
    lines = [generator.line() for _ in range(LINES)]
    small.write_json(HERE / "text.json", {"fragments": fragments, "ranges": spans, "lines": LINES, "text": f"{fnv(b''.join(lines)):016x}"})
    print(LINES, "lines,", sum(map(len, lines)), "bytes,", sum(expect(Tokenizer(models.WordLevel({"a": 0}, "a")), line) is None for line in lines), "not UTF-8")
    corpus = small.SENTENCES * 3 + CODE * 3 + EMOJI
    for name, make in KINDS.items():
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        trained = make(corpus)
        (folder / "tokenizer.json").write_text(json.dumps(json.loads(trained.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        results = [expect(tokenizer, line) for line in lines]
        marks = [fingerprint(result) for result in results]
        small.write_json(folder / "expected.json", {
            "all": f"{fnv(b''.join(mark.to_bytes(8, 'little') for mark in marks)):016x}",
            "marks": "".join(f"{mark & 0xFFF:03x}" for mark in marks),  # 12 bits of each line's
            "ids": [result and result[0] for result in results[:FULL]],
        })
        print(name, tokenizer.get_vocab_size(), "tokens,", sum(len(result[0]) for result in results if result), "ids")


if __name__ == "__main__":
    main()
