#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes small GGUF files with the gguf package, and what other implementations make of the tokenizers in them.

    make_gguf.py [--server LLAMA_SERVER]

Needs gguf, tokenizers, sentencepiece. With --server, llama.cpp's llama-server tokenizes the lines too (a wrapper script does,
if it is called with llama-server's arguments): where it differs from the reference library, expected.json says so.
Made with gguf 0.19.0, tokenizers 0.22.2, sentencepiece 0.2.3, llama.cpp 0.7.0 of Debian sid.
"""
import argparse
import importlib.util
import json
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import gguf
import numpy as np

HERE = Path(__file__).resolve().parent
OUT = HERE / "gguf"
spec = importlib.util.spec_from_file_location("tokenizer_goldens", HERE / "tokenizers" / "make.py")
lines_of = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lines_of)

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SEED_CODER = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|"
              r"\s+(?!\S)|\s+")
DEEPSEEK_LETTERS = (
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+")
DEEPSEEK_MARKS = r"\s?[!-/:-~！-／：-～‘-‟　-。]+"
DEEPSEEK_SCRIPTS, DEEPSEEK3_SCRIPTS = r"[一-龥ࠀ-一가-퟿]+", r"[一-龥぀-ゟ゠-ヿ]+"
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
             r"\s*[\r\n]+|\s+(?!\S)|\s+")


# ---- tensors

def write_types():
    """One tensor of every type that the gguf package can make; the values are those of ramp()."""
    writer = gguf.GGUFWriter(OUT / "types.gguf", "llama")
    writer.add_name("types")
    writer.add_block_count(2)
    writer.add_uint64("test.u64", 2**63)
    writer.add_float64("test.f64", 0.1)
    writer.add_bool("test.bool", True)
    writer.add_array("test.texts", ["one", "", "zwölf"])
    writer.add_array("test.ints", [1, -2, 3])
    writer.add_array("test.floats", [0.5, -1.5])
    values = ramp(3, 64)
    for kind in (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64):
        writer.add_tensor(np.dtype(kind).name, values.astype(kind))
    for kind in ("BF16", "Q8_0", "Q4_0", "Q5_0", "Q4_1", "Q5_1"):
        kind = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(kind.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    finish(writer)


def ramp(rows, columns):
    """Element i of row r: (i - 20) * (r + 1) / 2, at most 8 bits of mantissa."""
    return np.array([[(i - 20) * (r + 1) / 2 for i in range(columns)] for r in range(rows)], np.float32)


def write_split():
    writer = gguf.GGUFWriter(OUT / "split.gguf", "llama", split_max_tensors=2)
    writer.add_name("split")
    for i in range(5):
        writer.add_tensor(f"t{i}", np.full((2, 3), i, np.float32))
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- tokenizers

def add_model(writer, vocab_size):
    """A llama of one layer, so that llama-server takes the file."""
    generator = np.random.default_rng(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(16)
    names = dict(token_embd=(vocab_size, 32), output_norm=(32,), output=(vocab_size, 32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        names[f"blk.0.{name}"] = (32, 32)
    for name in ("attn_norm", "ffn_norm"):
        names[f"blk.0.{name}"] = (32,)
    for name, shape in names.items():
        writer.add_tensor(name + ".weight", generator.standard_normal(shape, np.float32))


def write_tokenizer(name, fill, with_model=None):
    writer = gguf.GGUFWriter(with_model or OUT / f"{name}.gguf", "llama")
    writer.add_name(name)
    tokens = fill(writer)
    if with_model:
        add_model(writer, tokens)
    finish(writer)


def byte_level(name, expression, add_bos, **changes):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(ignore_merges=changes.pop("ignore_merges", False)))
    steps = [pre_tokenizers.Split(Regex(e), "isolated") for e in expression]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<s>", "</s>", "<|im_end|>"], show_progress=False)
    tokenizer.train_from_iterator(lines_of.SENTENCES, trainer)
    tokenizer.add_tokens(["new_token"])
    state = json.loads(tokenizer.to_str())
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    types = [CONTROL if t in ("<s>", "</s>", "<|im_end|>") else USER if t == "new_token" else NORMAL for t in tokens]

    def fill(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(name)
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in state["model"]["merges"]])
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        writer.add_add_bos_token(add_bos)
        writer.add_chat_template("{{ messages }}")
        return len(tokens)

    front = [0] if add_bos else []
    return fill, lambda text: front + tokenizer.encode(text, add_special_tokens=False).ids


def spaced_bpe(name):
    """Merges over ▁ in place of spaces, and bytes where no token spells a character."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"]
    trainer = trainers.BpeTrainer(vocab_size=700, limit_alphabet=80, special_tokens=special + bytes_, show_progress=False)
    sentences = [line.replace("\n", " ") for line in lines_of.SENTENCES]  # no merge goes over the end of a line
    tokenizer.train_from_iterator(sentences + ["\n", "\n\n"], trainer)
    state = json.loads(tokenizer.to_str())
    # Those of bytes are no tokens that a text is searched for.
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in special]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    types = [CONTROL if t in special else BYTE if t in bytes_ else NORMAL for t in tokens]

    def fill(writer):
        writer.add_tokenizer_model(name)
        writer.add_token_list(tokens)
        writer.add_token_scores([-1000.0] * len(tokens))
        writer.add_token_types(types)
        writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in state["model"]["merges"]])
        writer.add_bos_token_id(2)
        writer.add_eos_token_id(1)
        writer.add_unk_token_id(3)
        writer.add_pad_token_id(0)
        writer.add_add_bos_token(True)
        writer.add_add_space_prefix(False)
        return len(tokens)

    return fill, lambda text: [2] + tokenizer.encode(text, add_special_tokens=False).ids


def sentencepiece_model(**options):
    import sentencepiece

    with tempfile.NamedTemporaryFile() as file:
        lines_of.train_sentencepiece(file.name, lines_of.SENTENCES * 3, **options)
        data = Path(file.name).read_bytes()
    return sentencepiece.SentencePieceProcessor(model_proto=data), data


def sentencepiece_lists(model):
    tokens, scores, types = [], [], []
    for i in range(model.get_piece_size()):
        tokens.append(model.id_to_piece(i))
        scores.append(model.get_score(i))
        types.append(UNKNOWN if model.is_unknown(i) else CONTROL if model.is_control(i) else BYTE if model.is_byte(i)
                     else UNUSED if model.is_unused(i) else NORMAL)
    return tokens, scores, types


def sentencepiece_bpe(name):
    import sentencepiece

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_text("\n".join(lines_of.SENTENCES * 3) + "\n", encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(path), model_prefix=str(Path(folder) / "m"), model_type="bpe", vocab_size=800, byte_fallback=True,
            normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98,
            minloglevel=2, num_threads=1)
        model = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder) / "m.model"))
    tokens, scores, types = sentencepiece_lists(model)

    def fill(writer):
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(tokens)
        writer.add_token_scores(scores)
        writer.add_token_types(types)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        writer.add_add_bos_token(True)
        writer.add_add_space_prefix(True)
        return len(tokens)

    return fill, lambda text: [1] + model.encode(text)


def sentencepiece_unigram(name):
    model, data = sentencepiece_model(vocab_size=500, model_type="unigram", character_coverage=0.995, pad_id=0, eos_id=1,
                                      unk_id=2, bos_id=-1)
    tokens, scores, types = sentencepiece_lists(model)
    charsmap = lines_of.charsmap()

    def fill(writer):
        writer.add_tokenizer_model("t5")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(tokens)
        writer.add_token_scores(scores)
        writer.add_token_types(types)
        writer.add_add_space_prefix(True)
        writer.add_remove_extra_whitespaces(True)
        writer.add_precompiled_charsmap(charsmap)
        writer.add_eos_token_id(1)
        writer.add_unk_token_id(2)
        writer.add_pad_token_id(0)
        writer.add_add_bos_token(False)
        writer.add_add_eos_token(True)
        return len(tokens)

    return fill, lambda text: model.encode(text) + [1]


def word_piece(name):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(lines_of.SENTENCES, trainers.WordPieceTrainer(
        vocab_size=700, special_tokens=special, show_progress=False))
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]

    def marked(token):  # as llama.cpp's converter does
        if token.startswith("[") and token.endswith("]"):
            return token
        return token[2:] if token.startswith("##") else "\u2581" + token

    def fill(writer):
        writer.add_tokenizer_model("bert")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([marked(t) for t in tokens])
        writer.add_token_types([CONTROL if t in special else NORMAL for t in tokens])
        writer.add_pad_token_id(0)
        writer.add_unk_token_id(1)
        writer.add_bos_token_id(2)
        writer.add_sep_token_id(3)
        writer.add_mask_token_id(4)
        return len(tokens)

    return fill, lambda text: [2] + tokenizer.encode(text, add_special_tokens=False).ids + [3]


KINDS = {
    "gpt-2": lambda name: byte_level(name, [GPT2], False),
    "llama-bpe": lambda name: byte_level(name, [LLAMA3], True, ignore_merges=True),
    "qwen2": lambda name: byte_level(name, [QWEN2], False),
    "smollm": lambda name: byte_level(name, [r"\p{N}", GPT2], False),
    "default": lambda name: byte_level(name, [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"], False),
    "deepseek-llm": lambda name: byte_level(
        name, [r"[\r\n]", DEEPSEEK_LETTERS, DEEPSEEK_MARKS, r"\s+$", DEEPSEEK_SCRIPTS, r"\p{N}+"], True),
    "deepseek-coder": lambda name: byte_level(
        name, [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_SCRIPTS, r"\p{N}"], True),
    "deepseek-v3": lambda name: byte_level(name, [r"\p{N}{1,3}", DEEPSEEK3_SCRIPTS, DEEPSEEK3], True),
    "seed-coder": lambda name: byte_level(name, [SEED_CODER], False),
    "llama": sentencepiece_bpe,
    "gemma4": spaced_bpe,
    "t5": sentencepiece_unigram,
    "bert": word_piece,
}


class Server:
    def __init__(self, command, model):
        self.port = 8953
        self.process = subprocess.Popen([command, "-m", str(model), "--port", str(self.port), "--host", "127.0.0.1",
                                         "--no-warmup", "-c", "512", "-ngl", "0", "--offline"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            time.sleep(0.1)
            try:
                if self.post("/tokenize", {"content": "a"}):
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                break
        self.close()
        raise RuntimeError("llama-server does not answer")

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def tokenize(self, text):
        return self.post("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]

    def close(self):
        self.process.terminate()
        self.process.wait()


def write_expected(name, fill, encode, lines, command):
    ids = [encode(line) for line in lines]
    expected = {"ids": ids}
    if command:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            path = Path(folder) / f"{name}.gguf"
            write_tokenizer(name, fill, path)
            server = Server(command, path)
            try:
                theirs = [server.tokenize(line) for line in lines]
            finally:
                server.close()
        expected["llama_cpp"] = {str(i): theirs[i] for i in range(len(lines)) if theirs[i] != ids[i]}
        print(name, len(expected["llama_cpp"]), "of", len(lines), "lines differ")
    lines_of.write_json(OUT / f"{name}.json", expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server")
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    arguments = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    write_types()
    write_split()
    lines = json.loads((HERE / "tokenizers" / "lines.json").read_text())
    for name in arguments.kinds:
        fill, encode = KINDS[name](name)
        write_tokenizer(name, fill)
        write_expected(name, fill, encode, lines, arguments.server)


if __name__ == "__main__":
    main()
