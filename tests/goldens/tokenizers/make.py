#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains tiny tokenizers and writes what Hugging Face's and SentencePiece's implementations make of hard lines.

Run from anywhere; needs tokenizers, transformers (with PyTorch or not) and sentencepiece. Every folder gets the files that
a model folder has, and `expected.json` with, line by line of `lines.json`: the ids, their decoding without special tokens
and with them. Made with tokenizers 0.22.2, transformers 4.57.6, sentencepiece 0.2.3.
"""
import contextlib
import json
import random
import shutil
import sys
import tempfile
import unicodedata
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent

SENTENCES = """
The quick brown fox jumps over the lazy dog. A small frog sat on a log, and the dog did not mind at all.
Attention is all you need: queries, keys and values. Don't panic, it's only a softmax; we've seen it before.
Thursday, March 4th, 2021. The meeting is on the 4th of March 2021 at 10:30, not on 2021-03-05!
She sells sea shells by the sea shore, he said; 1,234,567.89 of them, or 50% more than last year (in 1999).
I am a small frog. Tom asked his teacher for advice. Where is the bus stop? What's your name?
Ich bin ein kleiner Frosch. Tom bat seinen Lehrer um Rat. Wo ist die Bushaltestelle? Schöne Grüße aus Köln, Straße 5.
Donnerstag, den 4. März 2021. Über den Wolken muss die Freiheit wohl grenzenlos sein. Zwölf Boxkämpfer jagen Viktor.
Je suis une petite grenouille. Où est l'arrêt de bus ? Ça coûte 12,50 € à la gare, n'est-ce pas ? Noël, naïve, cœur.
Soy una rana pequeña. ¿Dónde está la parada de autobús? ¡Qué sorpresa! El niño comió piñas el 4 de marzo de 2021.
Jsem malá žába. Příliš žluťoučký kůň úpěl ďábelské ódy. Zażółć gęślą jaźń. Pijamalı hasta yağız şoföre çabucak güvendi.
Съешь же ещё этих мягких французских булок, да выпей чаю. Я маленькая лягушка. Ў рудога вераб'я ў сховішчы.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Είμαι ένας μικρός βάτραχος.
我是一只小青蛙。汤姆向他的老师请教。公共汽车站在哪里？ 私は小さなカエルです。トムは先生に助言を求めた。いろはにほへと
나는 작은 개구리입니다. 톰은 선생님께 조언을 구했다. 버스 정류장은 어디에 있습니까?
أنا ضفدع صغير. أين محطة الحافلات؟ אני צפרדע קטנה. איפה תחנת האוטובוס?
मैं एक छोटा मेंढक हूँ। बस स्टॉप कहाँ है? ฉันเป็นกบตัวเล็ก ป้ายรถเมล์อยู่ที่ไหน ខ្ញុំជាកង្កែបតូច
""".strip().splitlines()

HARD = [
    "", " ", "  ", "\t", "\n", "a", " a", "a ", "  a  b  ", "\ta\tb\n", "a\r\nb", "a\n\n\nb", "Hello world",
    "Hello  world", " Hello   world ", "HELLO", "hELLO wORLD", "don't can't won't", "I'm we've they're he's she'd I'll",
    "1", "12", "123", "1234567890", "3.14159", "1,000,000", "2021-03-04", "4.3.2021", "3/4/2021", "20210304", "1st 2nd 3rd",
    "...", "?!", "!!!", ",", ";:", "(a)", "[b]{c}", "\"quoted\"", "'single'", "a-b_c", "@user #tag $5 50% ^ & * + = ~ ` | \\ / <>",
    "https://example.org/path?query=1&x=2#frag", "name@example.com", "C:\\dir\\file.txt", "foo_bar::baz(qux)->x[i] += 1;",
    "é", "e\u0301", "é e\u0301", "ñ n\u0303 Å A\u030a \u212b", "ﬁ ﬂ ﬃ", "① ② ½ ¼ ² ³", "ＡＢＣ　１２３", "ｶﾞ ガ カ\u3099",
    "\u1e9b\u0323", "q\u0307\u0323", "a\u0300\u0301\u0302\u0303b", "\u0301leading mark", "İstanbul ıI iİ", "ẞ ß SS", "ΑΣ ας Σ",
    "Ǆ ǅ ǆ", "\u00a0nbsp\u00a0", "\u2003em\u2003space\u2003", "\u3000ideographic\u3000space", "a\u200bb zero\u200bwidth",
    "a\u200db\u200cc", "\ufeffbom", "soft\u00adhyphen", "rtl \u202eabc\u202c", "line\u2028sep para\u2029sep", "\u0085next",
    "\x01\x02\x1f", "\x7f", "a\x00b", "\x1b[31mred\x1b[0m", "\u001c\u001d\u001e\u001f", "\u0000",
    "😀", "😀😃", "a😀b", "👍🏽", "👩\u200d👩\u200d👧\u200d👦", "🇩🇪🇫🇷", "🏳️\u200d🌈", "1️⃣", "☃", "☃️", "♥ ♥️", "🧑🏿\u200d🚀 to the moon",
    "\U0001d400\U0001d401", "\U00020000\U0002a6d6", "\ue000\uf8ff", "\uffff", "\U0010ffff", "\ufffd", "\u0378",
    "日本語", "日本語 テキスト", "漢字とかな交じり文。", "東京タワーへ行きました！", "ﾊﾝｶｸ", "中文，标点。", "混合 mixed 文字", "한국어", "한국어 텍스트",
    "\u1112\u1161\u11ab", "ㅎㅏㄴ", "สวัสดีชาวโลก", "ภาษาไทย", "नमस्ते दुनिया", "क्षत्रिय ज्ञान", "বাংলা ভাষা", "தமிழ் மொழி", "తెలుగు", "ಕನ್ನಡ",
    "മലയാളം", "සිංහල", "မြန်မာဘာသာ", "ភាសាខ្មែរ", "ພາສາລາວ", "བོད་སྐད", "ქართული ენა", "Հայերեն լեզու", "አማርኛ", "ᏣᎳᎩ", "ᐃᓄᒃᑎᑐᑦ",
    "العربية", "السلام عليكم", "مُحَمَّد", "فارسی", "اردو", "עברית", "שָׁלוֹם", "ܣܘܪܝܝܐ", "ދިވެހި", "ߒߞߏ", "Ελληνικά", "Ἀρχιμήδης ὁ Συρακόσιος",
    "Русский язык", "Українська мова", "Ђорђе", "Монгол хэл", "Tiếng Việt đẹp lắm", "Tie\u0302\u0301ng Vie\u0323\u0302t", "Čeština", "Ő ű", "Íslenska þæð",
    "Þórður", "Türkçe ğ ş", "Azərbaycan", "Română ș ț", "Latviešu ģ ķ", "Esperanto ĉ ĝ", "Yorùbá ọ̀", "Hausa ƙ ɗ", "ʔ ʕ ə ɪ ʊ", "ˈaɪ.pʰiː.eɪ",
    "∑ ∫ √ ∞ ≠ ≤ ≥ ± × ÷", "x² + y² = z²", "α β γ δ", "H₂O CO₂", "→ ← ↑ ↓ ⇒", "€ £ ¥ ₹ ₿ ¢", "© ® ™ ℠", "№ ℃ ℉ Ω", "† ‡ § ¶", "“smart” ‘quotes’ «guillemets» „low“",
    "— – ‐ ‑ − -", "… ..", "• item", "░▒▓█", "┌─┐│└┘", "▁", "▁▁", "a▁b", "▁a ▁b", "Ġ", "Ġa Ċ", "ĠĠ", "##ing", "</w>", "a</w>b",
    "</s>", "<s>", "<unk>", "<pad>", "<mask>", "a</s>b", "a </s> b", "</s></s>", "x<pad>y<unk>z", "<S>", "</ s>", "<s", "<0x41>", "<0x0A>",
    "<mask> first", "one <mask> two", "one  <mask>  two", "end <mask>", "<mask><mask>", "new_token", "a new_token b", "anew_tokenb", "new_token.",
    "New_Token", "NEW_TOKEN x", "ＮＥＷ_token", "xx_solo", "solo", "solo solo", "solos", "asolo", "solo.", "(solo)", "é solo é", "ésolo", "solo1", "1solo", "solo_",
    ">>fr<< Hello", ">>fr<<Hello", ">>de<<", ">>fr<< >>de<< x", "x >>fr<< y", ">>xx<< unknown code", ">> fr << x", ">><<", "<<>>", "a >> b << c", ">>fr", ">>fr< <x",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ababababababababababab", "the the the the", "thethethethe", "a b c d e f g h i j", "xxxxxxxxyyyyyyyyzzzzzzzz",
    "supercalifragilisticexpialidocious", "Donaudampfschifffahrtsgesellschaft", "antidisestablishmentarianism", "e" * 200, "🦊" * 20, " " * 30, "- " * 20, "\n" * 5 + "x",
    "Tab\there", "trailing newline\n", "\nleading newline", "mixed \t\n \r whitespace", "a .b ,c !d ?e", "it 's they 're do n't I 'm we 've", "a ' b", "end .", " .", "( x )",
    "CamelCaseWord", "snake_case_word", "kebab-case-word", "ALLCAPS", "iPhone 12 Pro", "R2D2 C3PO", "x1y2z3", "v1.2.3-rc4+build.5", "12:30:45", "+49 (0)30 123-456", "#1!",
    "e.g. i.e. etc.", "Dr. Mr. Mrs.", "U.S.A.", "O'Neill", "rock'n'roll", "'tis", "y'all", "ne'er", "o’clock", "l’été", "aujourd'hui", "qu'est-ce", "dell'arte",
    "Ａ", "㍿", "㎏", "ℌ", "ⅷ", "Ⅻ", "ǈ", "ŉ", "ſ", "K", "Ω", "ﷺ", "︵︶", "～", "￥", "･", "､", "゛", "ﾞ", "ヽ", "〱", "㈱",
]


def lines():
    """The hard lines, the sentences, and noise from a fixed seed."""
    random.seed(20240229)
    result = list(HARD) + SENTENCES
    words = " ".join(SENTENCES).split()
    for _ in range(40):
        result.append(" ".join(random.choice(words) for _ in range(random.randint(1, 12))))
    blocks = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x5ff), (0x900, 0xdff), (0x1e00, 0x206f), (0x3040, 0x30ff), (0x4e00, 0x4fff), (0x2190, 0x27bf)]
    for _ in range(40):
        low, high = random.choice(blocks)
        # Characters that are not younger than any of the libraries' tables.
        old = [chr(c) for c in range(low, high + 1) if unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"]
        result.append("".join(random.choice(old) if random.random() < 0.8 else " " for _ in range(random.randint(1, 24))))
    unique = list(dict.fromkeys(result))
    for line in unique:
        line.encode("utf-8")
    return unique


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def write_expected(folder, encode, decode, texts):
    """Also decodes random ids, in and out of the vocabulary: a model generates what no text encodes to."""
    ids = [encode(text) for text in texts]
    generator = random.Random(7)
    highest = max(max(row, default=0) for row in ids)
    generated = [[generator.randint(0, highest + 3) for _ in range(generator.randint(0, 16))] for _ in range(60)]
    write_json(folder / "expected.json", {
        "ids": ids,
        "decoded": [decode(row, True) for row in ids],
        "decoded_all": [decode(row, False) for row in ids],
        "generated": generated,
        "generated_decoded": [decode(row, True) for row in generated],
        "generated_decoded_all": [decode(row, False) for row in generated],
    })


# A few rules only: the full NFKC map is 240 kB. Longest match, deletion, growth, a rule that begins another.
RULES = {"ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "Ａ": "A", "Ｂ": "B", "Ｃ": "C", "１": "1", "２": "2", "３": "3", "\u3000": " ", "\u00a0": " ", "\u2003": " ", "\t": " ",
         "\n": " ", "\r": " ", "\u200b": "", "\u00ad": "", "\ufeff": "", "\x7f": "", "…": "...", "½": " 1/2", "™": "TM", "㍿": "株式会社", "e\u0301": "é", "n\u0303": "ñ",
         "A\u030a": "Å", "\u212b": "Å", "カ\u3099": "ガ", "ｶ": "カ", "ｶﾞ": "ガ", "’": "'", "“": '"', "”": '"', "²": "2", "①": "1"}


def train_sentencepiece(prefix, sentences, **options):
    import sentencepiece

    # Relative names: the model file keeps them.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("text").write_text("\n".join(sentences) + "\n", encoding="utf-8")
        points = lambda s: " ".join(f"{ord(c):X}" for c in s)
        Path("rules.tsv").write_text("".join(f"{points(a)}\t{points(b)}\n" for a, b in RULES.items()))
        sentencepiece.SentencePieceTrainer.train(
            input="text", model_prefix="m", normalization_rule_tsv="rules.tsv", minloglevel=2, num_threads=1,
            hard_vocab_limit=False, **options)
        shutil.copy("m.model", prefix)


def make_marian(name, texts, separate=False, **changes):
    import sentencepiece
    from transformers import MarianTokenizer

    folder = HERE / name
    folder.mkdir(exist_ok=True)
    source = SENTENCES * 3
    target = SENTENCES[5:9] * 3
    train_sentencepiece(folder / "source.spm", source, vocab_size=500, model_type="unigram", character_coverage=0.995)
    train_sentencepiece(folder / "target.spm", target, vocab_size=200, model_type="unigram" if not separate else "bpe")
    pieces = {}
    for file in ("source.spm", "target.spm"):
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / file))
        pieces[file] = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    front = ["</s>", "<unk>"] + [">>fr<<", ">>de<<"]
    skip = set(front + ["<s>", "<pad>"])
    both = pieces["source.spm"] + ([] if separate else pieces["target.spm"])
    vocabulary = front + [p for p in dict.fromkeys(both) if p not in skip] + ["<pad>"]
    write_json(folder / "vocab.json", {piece: i for i, piece in enumerate(vocabulary)})
    files = dict(source_spm=str(folder / "source.spm"), target_spm=str(folder / "target.spm"), vocab=str(folder / "vocab.json"))
    if separate:
        target_vocabulary = ["</s>", "<unk>"] + [p for p in pieces["target.spm"] if p not in skip] + ["<pad>"]
        write_json(folder / "target_vocab.json", {piece: i for i, piece in enumerate(target_vocabulary)})
        files["target_vocab_file"] = str(folder / "target_vocab.json")
    tokenizer = MarianTokenizer(**files, separate_vocabs=separate, **changes)
    with tempfile.TemporaryDirectory() as saved:
        tokenizer.save_pretrained(saved)
        shutil.copy(Path(saved) / "tokenizer_config.json", folder)
    tokenizer = MarianTokenizer.from_pretrained(folder)
    write_expected(folder, lambda text: tokenizer(text).input_ids,
                   lambda ids, skip: tokenizer.decode(ids, skip_special_tokens=skip), texts)


def write_fast(name, tokenizer, texts, config=None):
    """Saves tokenizer.json; with a config, as transformers sees the folder, without one, as tokenizers does."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    folder = HERE / name
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    if config is None:
        loaded = Tokenizer.from_file(str(folder / "tokenizer.json"))
        write_expected(folder, lambda text: loaded.encode(text).ids,
                       lambda ids, skip: loaded.decode(ids, skip_special_tokens=skip), texts)
        return
    write_json(folder / "tokenizer_config.json", config)
    loaded = PreTrainedTokenizerFast.from_pretrained(folder)
    write_expected(folder, lambda text: loaded(text).input_ids,
                   lambda ids, skip: loaded.decode(ids, skip_special_tokens=skip), texts)


def charsmap():
    """The normalisation map of the rules above, as SentencePiece compiled it: field 2 of field 3 of the model."""
    def field(message, wanted):
        at = 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = message[at]
                at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    return value

        while at < len(message):
            key = varint()
            if key & 7 == 2:
                size = varint()
                if key >> 3 == wanted:
                    return message[at:at + size]
                at += size
            elif key & 7 == 0:
                varint()
            else:
                at += {1: 8, 5: 4}[key & 7]

    return field(field((HERE / "marian" / "source.spm").read_bytes(), 3), 2)


def make_unigram(texts):
    """T5 and XLM-R: Precompiled, Metaspace, a template."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.Precompiled(charsmap()), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(SENTENCES, trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<pad>", "</s>", "<unk>", "<s>"], unk_token="<unk>", show_progress=False))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.add_tokens([AddedToken("new_token", normalized=True), AddedToken("solo", single_word=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1), ("<s>", 3)])
    write_fast("unigram", tokenizer, texts)


def make_unigram_bytes(texts):
    """Unigram with byte fallback, Metaspace on the first word only, kept whole; NFKC and Strip."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    trained = json.loads((HERE / "unigram" / "tokenizer.json").read_text())["model"]["vocab"]
    vocabulary = [("<unk>", 0.0), ("</s>", 0.0)] + [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    vocabulary += [(piece, score) for piece, score in trained[4:] if piece.isascii() or piece.startswith("▁")]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(left=True, right=False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0),
        decoders.Replace(Regex(r"\s+$"), "")])
    write_fast("unigram-bytes", tokenizer, texts,
               {"eos_token": "</s>", "unk_token": "<unk>", "additional_special_tokens": ["<mask>"], "tokenizer_class": "PreTrainedTokenizerFast",
                "added_tokens_decoder": {"2000": {"content": "new_token", "special": False, "rstrip": True}}})


def make_pegasus(texts):
    """PEGASUS: pieces behind tokens of pretraining, as PegasusTokenizerFast makes tokenizer.json of a SentencePiece model."""
    from transformers import PegasusTokenizerFast

    folder = HERE / "pegasus"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        train_sentencepiece(Path(made) / "spiece.model", SENTENCES * 3, vocab_size=400, model_type="unigram", character_coverage=0.995,
                            pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
        PegasusTokenizerFast(str(Path(made) / "spiece.model")).save_pretrained(made)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            write_json(folder / name, json.loads((Path(made) / name).read_text(encoding="utf-8")))
    loaded = PegasusTokenizerFast.from_pretrained(folder)
    write_expected(folder, lambda text: loaded(text).input_ids,
                   lambda ids, skip: loaded.decode(ids, skip_special_tokens=skip), texts)


def make_bpe_bytes(texts):
    """BART: byte-level BPE."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"]))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=True)
    write_fast("bpe-bytes", tokenizer, texts, {
        "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "mask_token": "<mask>", "add_prefix_space": False,
        "clean_up_tokenization_spaces": True, "tokenizer_class": "PreTrainedTokenizerFast"})


def make_bpe_pieces(texts):
    """BPE in SentencePiece's style (Llama, Gemma), byte fallback; merges as texts, as older files have them."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(
        vocab_size=500, show_progress=False, limit_alphabet=90,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(0xF0)]))
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
        single="<s>:1 $A:1", pair="$A $B", special_tokens=[("<s>", 1)])])
    value = json.loads(tokenizer.to_str())
    value["model"]["merges"] = [" ".join(merge) for merge in value["model"]["merges"]]
    value["added_tokens"] = [token for token in value["added_tokens"] if not token["content"].startswith("<0x")]
    write_fast("bpe-pieces", Tokenizer.from_str(json.dumps(value)), texts)
    write_json(HERE / "bpe-pieces" / "tokenizer.json", value)


def make_bpe_words(texts):
    """The original BPE: word ends marked, words cut by a regular expression."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\w+|[^\w\s]+|\b"), "isolated"),
        pre_tokenizers.Split(Regex(r"\S+"), "removed", invert=True),
        pre_tokenizers.Split("'", "merged_with_next"), pre_tokenizers.Split("-", "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"(?i:ab)|\p{N}{2}"), "contiguous")])
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(
        vocab_size=450, end_of_word_suffix="</w>", show_progress=False, special_tokens=["<unk>", "<pad>", "</s>"]))
    write_fast("bpe-words", tokenizer, texts)


def make_bpe_continued(texts):
    """BPE whose inner pieces carry a prefix, decoded as WordPiece is; words that are tokens stay whole."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", ignore_merges=True))
    tokenizer.normalizer = normalizers.NFKD()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)])
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(
        vocab_size=450, continuing_subword_prefix="##", show_progress=False, special_tokens=["<unk>", "<pad>", "[CLS]", "[SEP]"]))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    write_fast("bpe-continued", tokenizer, texts)


def make_words(texts):
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits()])
    tokenizer.train_from_iterator(SENTENCES, trainers.WordLevelTrainer(
        vocab_size=300, show_progress=False, special_tokens=["<unk>", "<pad>", "</s>"]))
    tokenizer.add_tokens([AddedToken("New_Token", normalized=True), AddedToken("solo", single_word=True, rstrip=True)])
    write_fast("words", tokenizer, texts)


def main():
    warnings.filterwarnings("ignore")
    texts = lines()
    write_json(HERE / "lines.json", texts)
    make_marian("marian", texts)
    from tokenizers import AddedToken
    make_marian("marian-separate", texts, separate=True, clean_up_tokenization_spaces=True,
                additional_special_tokens=[AddedToken("<mask>", lstrip=True, rstrip=True), AddedToken("solo", single_word=True)])
    for make in (make_unigram, make_unigram_bytes, make_pegasus, make_bpe_bytes, make_bpe_pieces, make_bpe_words, make_bpe_continued, make_words):
        make(texts)


if __name__ == "__main__":
    sys.exit(main())
