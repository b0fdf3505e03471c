#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes modern_encoders/<case>/: tiny random encoders with rotary positions, DeBERTas and decoders that serve as encoders, and what
transformers 5 makes of them.

    python3 tests/goldens/make_modern_encoders.py [--out DIR] [case ...]

Weights are float32 in the file (or what the case says); the reference is what transformers loads from the folder, run in float64. Folders
with `texts` have a tokenizer, and golden.json: the vectors or scores of texts, by the formulas of sentence-transformers and of
Qwen3-Reranker's model card. See README.md for versions and format.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil

import numpy as np
import tokenizers
import torch
import transformers as t
from safetensors.numpy import save_file

TEXTS = [
    "A cat sat on the mat.",
    "the dog and the coat",
    "cat 猫 dog",
    "yes, the sea: no!",
    "what is the sea",
    "the cat and the dog and the coat and the sea and the mat and the cat and the dog",
]
PAIRS = [("what is a cat", "A cat sat on the mat."), ("the dog", "the coat and the sea, no end"), ("the sea", "猫"), ("the mat", "")]
HARD_TEXTS = TEXTS + [
    "  two  spaces\tand\ttabs \n newline\r\nend ",
    "Ａ full width ﬁ ligature, e\u0301 and \u00e9",
    "the [MASK] of [SEP] and[CLS]the <b>cat</b>",
    "",
    "   ",
    "mat" * 12,
    "emoji 😀 👩\u200d👩\u200d👧, ÀÉ ŠČ İ",
    "no\u00a0break \u2003em \u200b zero",
    "don't!!! ...ok?",
]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]

# As Qwen3-Reranker's model card has them.
PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


@dataclasses.dataclass
class Case:
    """One tiny model. `lengths` are those of the padded batch; `modules` is the end of a sentence-transformers folder."""

    name: str
    seed: int
    model: str  # class in transformers
    config: dict
    lengths: tuple = (7, 13, 1)
    dtype: torch.dtype = torch.float32
    modules: tuple = ()
    texts: bool = False
    tokens: bool = False  # with DeBERTa's tokenizer and what it makes of HARD_TEXTS
    segments: tuple = ()
    prompts: dict = dataclasses.field(default_factory=dict)
    own_names: bool = False  # of the modules, not those that the class writes
    spelled: dict = dataclasses.field(default_factory=dict)  # fields of config.json as published folders have them


def sizes(hidden, layers, heads, inner, vocab=61, **others):
    special = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return dict(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner, vocab_size=vocab,
        max_position_embeddings=48,
    ) | special | others  # fmt: skip


def modernbert(hidden, layers, heads, inner, **others):
    return sizes(hidden, layers, heads, inner, cls_token_id=1, sep_token_id=2, **others)


def deberta(hidden, layers, heads, inner, **others):
    """Texts are longer than there are buckets, and than the largest distance: rows of all kinds count."""
    return sizes(hidden, layers, heads, inner, relative_attention=True, layer_norm_eps=1e-7, **others)


BUCKETS = dict(position_buckets=6, share_att_key=True, norm_rel_ebd="layer_norm", position_biased_input=False)

GEMMA = dict(num_key_value_heads=1, head_dim=6, query_pre_attn_scalar=6, sliding_window=7, use_bidirectional_attention=True)
GEMMA_LAYERS = dict(layer_types=["sliding_attention", "full_attention", "sliding_attention"])

CASES = [
    Case("qwen3_embedding", 1, "Qwen3Model", sizes(22, 2, 4, 29, num_key_value_heads=2, head_dim=6), modules=("lasttoken", "normalize")),
    Case("qwen3_scores", 2, "Qwen3ForSequenceClassification", sizes(26, 2, 4, 31, num_key_value_heads=1, head_dim=8, num_labels=3)),
    Case("qwen2_embedding", 3, "Qwen2Model", sizes(24, 2, 4, 33, num_key_value_heads=2), modules=("lasttoken",), dtype=torch.float16),
    Case(
        "mistral_embedding",
        4,
        "MistralModel",
        sizes(24, 2, 2, 35, num_key_value_heads=1, sliding_window=4, tie_word_embeddings=False),
        modules=("weightedmean", "normalize"),
        dtype=torch.bfloat16,
    ),
    Case("llama_score", 5, "LlamaForSequenceClassification", sizes(20, 2, 2, 29, num_key_value_heads=2, num_labels=1)),
    Case("modernbert_h24", 6, "ModernBertModel", modernbert(24, 4, 4, 35, local_attention=6), dtype=torch.bfloat16),
    Case(
        "modernbert_score",
        7,
        "ModernBertForSequenceClassification",
        modernbert(18, 3, 3, 25, local_attention=5, num_labels=1, global_attn_every_n_layers=2),
    ),
    Case(
        "modernbert_biases",
        8,
        "ModernBertForSequenceClassification",
        modernbert(
            20, 3, 2, 27, local_attention=4, num_labels=3, norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True,
            classifier_pooling="mean", classifier_activation="silu", hidden_activation="gelu_pytorch_tanh", norm_eps=1e-3,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        ),  # fmt: skip
    ),
    Case("gemma3_bidirectional", 9, "Gemma3TextModel", sizes(22, 3, 2, 33, **GEMMA, **GEMMA_LAYERS), modules=("mean",)),
    Case("nomic_bert_h24", 10, "NomicBertModel", sizes(24, 2, 2, 37, type_vocab_size=2), segments=(3, 6, 1)),
    Case(
        "qwen3_embedder",
        11,
        "Qwen3Model",
        sizes(28, 2, 4, 37, vocab=290, num_key_value_heads=2, head_dim=6),
        modules=("lasttoken", "normalize"),
        dtype=torch.bfloat16,
        texts=True,
        prompts={"query": "Instruct: find the cat\nQuery:", "document": ""},
    ),
    Case(
        "embedding_gemma",
        12,
        "Gemma3TextModel",
        sizes(22, 3, 2, 33, vocab=290, **GEMMA, **GEMMA_LAYERS),
        modules=("mean", "dense", "dense", "normalize"),
        dtype=torch.bfloat16,
        texts=True,
        prompts={"query": "task: search result | query: "},
    ),
    Case(
        "qwen3_reranker",
        13,
        "Qwen3ForCausalLM",
        sizes(20, 2, 2, 27, vocab=290, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True) | dict(max_position_embeddings=320),
        dtype=torch.bfloat16,
        texts=True,
    ),
    Case("jina_v3_h24", 14, "JinaEmbeddingsV3Model", sizes(24, 2, 4, 37, type_vocab_size=2), segments=(3, 6, 1)),
    Case(
        "jina_v3_scores",
        15,
        "JinaEmbeddingsV3ForSequenceClassification",
        sizes(20, 2, 2, 31, num_labels=3, hidden_act="gelu_pytorch_tanh", rope_parameters=dict(rope_type="default", rope_theta=50.0)),
        own_names=True,
    ),
    Case(
        "deberta_v3",
        14,
        "DebertaV2Model",
        deberta(24, 3, 4, 35, **BUCKETS, max_relative_positions=11, pos_att_type=["p2c", "c2p"]),
        lengths=(9, 22, 1),
        spelled=dict(pos_att_type="p2c|c2p"),
    ),
    Case(
        "deberta_v2_types",
        15,
        "DebertaV2Model",
        deberta(22, 2, 2, 31, max_relative_positions=5, pos_att_type=["c2p", "p2c"], type_vocab_size=2),
        segments=(3, 6, 1),
    ),
    Case("deberta_c2p", 16, "DebertaV2Model", deberta(18, 2, 3, 25, position_buckets=5, pos_att_type=["c2p"])),
    Case(
        "deberta_p2c_types",
        17,
        "DebertaV2Model",
        deberta(20, 2, 4, 27, share_att_key=True, position_biased_input=False, pos_att_type=["p2c"], type_vocab_size=3),
        segments=(7, 4, 0),
        dtype=torch.float16,
    ),
    Case(
        "deberta_absolute",
        18,
        "DebertaV2Model",
        deberta(24, 2, 4, 33, pos_att_type=["c2p", "p2c"], embedding_size=14) | dict(relative_attention=False),
    ),
    Case(
        "deberta_scores",
        19,
        "DebertaV2ForSequenceClassification",
        deberta(
            20, 2, 2, 29, vocab=80, **BUCKETS, pos_att_type=["c2p", "p2c"], num_labels=3, embedding_size=26, pooler_hidden_act="gelu",
        ),  # fmt: skip
        tokens=True,
    ),
]


def random_model(case):
    """A model whose arithmetic shows: no weight near zero or one by convention, every bias in use."""
    model_class = getattr(t, case.model)
    model = model_class(model_class.config_class(**case.config))
    generator = torch.Generator().manual_seed(case.seed)
    is_gemma = "gemma" in model.config.model_type
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_gain = p.dim() == 1 and not name.endswith("bias")
            is_table = "embed" in name and p.dim() == 2
            std = 0.7 if is_table and not is_gemma else 0.2
            p.copy_((1.0 if is_gain and not is_gemma else 0.0) + std * torch.randn(p.shape, generator=generator))
    return model.to(case.dtype).eval()


def batch(case, config):
    rng = np.random.default_rng(case.seed)
    shape = (len(case.lengths), max(case.lengths))
    ids = rng.integers(5, config.vocab_size, shape)
    mask = (np.arange(shape[1]) < np.array(case.lengths)[:, None]).astype(np.int64)
    types = np.zeros(shape, np.int64)
    for row, first in enumerate(case.segments):
        types[row, first : case.lengths[row]] = 1
    ids[mask == 0] = config.pad_token_id
    return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(types)


def pooled(mode, hidden, mask):
    m = mask.unsqueeze(-1).to(hidden.dtype)
    if mode == "lasttoken":
        return hidden[torch.arange(len(hidden)), mask.sum(1) - 1]
    weights = m * (torch.arange(1, mask.shape[1] + 1).view(1, -1, 1) if mode == "weightedmean" else 1)
    return (hidden * weights).sum(1) / weights.sum(1)


# ---- sentence-transformers ------------------------------------------------------------------------------------------


def write_modules(case, folder, hidden):
    """modules.json and what it names; the weights of the dense layers, in their order."""
    entries = [dict(idx=0, name="0", path="", type="sentence_transformers.models.Transformer")]
    generator = np.random.default_rng(case.seed)
    dense, width = [], hidden
    for i, module in enumerate(case.modules, 1):
        kind = {"dense": "Dense", "normalize": "Normalize"}.get(module, "Pooling")
        path = f"{i}_{kind}"
        entries.append(dict(idx=i, name=str(i), path=path, type=f"sentence_transformers.models.{kind}"))
        if kind == "Normalize":
            continue
        (folder / path).mkdir()
        if kind == "Dense":
            out = 31 if not dense else 17
            dense.append(generator.normal(0, 0.3, (out, width)).astype(np.float32))
            save_file({"linear.weight": dense[-1]}, folder / path / "model.safetensors")
            config = dict(in_features=width, out_features=out, bias=False, activation_function="torch.nn.modules.linear.Identity")
            width = out
        else:
            field = "pooling_mode_lasttoken" if module == "lasttoken" else f"pooling_mode_{module}_tokens"
            config = dict(word_embedding_dimension=hidden, pooling_mode_mean_tokens=False, include_prompt=True) | {field: True}
        write_json(folder / path / "config.json", config)
    write_json(folder / "modules.json", entries)
    write_json(folder / "config_sentence_transformers.json", dict(prompts=case.prompts, default_prompt_name=None))
    return [torch.from_numpy(w).double() for w in dense]


def vector(case, hidden, mask, dense):
    x = hidden
    for module in case.modules:
        if module == "normalize":
            x = torch.nn.functional.normalize(x, dim=-1)
        elif module != "dense":
            x = pooled(module, x, mask)
        elif x.shape[-1] == dense[0].shape[1]:
            x = x @ dense[0].T
        else:
            x = x @ dense[1].T
    return x


def make_tokenizer(ends):
    """A byte-level BPE; texts of embedders end with <|endoftext|>, as Qwen3-Embedding's do."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=290, special_tokens=SPECIAL, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(["yes", "no"] * 20 + TEXTS * 3, trainer)
    assert tokenizer.get_vocab_size() == 290 and {"yes", "no"} <= tokenizer.get_vocab().keys()
    if ends:
        end = tokenizers.processors.TemplateProcessing(single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", 0)])
        tokenizer.post_processor = end
    return tokenizer


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, sort_keys=True) + "\n")


def embeddings(case, model, tokenizer, dense, prompt=""):
    rows = []
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(prompt + text).ids])
        with torch.no_grad():
            hidden = model(input_ids=ids).last_hidden_state
        rows.append(vector(case, hidden, torch.ones_like(ids), dense)[0].tolist())
    return rows


def reranker_scores(model, tokenizer):
    """The probability of "yes" against "no", as the model card computes it."""
    rows, yes, no = [], tokenizer.token_to_id("yes"), tokenizer.token_to_id("no")
    for query, document in PAIRS:
        body = f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}"
        ids = [i for part in (PREFIX, body, SUFFIX) for i in tokenizer.encode(part, add_special_tokens=False).ids]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        rows.append([torch.log_softmax(logits[[no, yes]], 0)[1].exp().item()])
    return rows


def write_texts(case, folder, model, dense):
    tokenizer = make_tokenizer(ends=bool(case.modules))
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", dict(tokenizer_class="PreTrainedTokenizerFast", model_max_length=1000))
    if case.modules:
        golden = dict(texts=TEXTS, embeddings=embeddings(case, model, tokenizer, dense))
        golden["query"] = embeddings(case, model, tokenizer, dense, case.prompts["query"])
    else:
        golden = dict(pairs=PAIRS, scores=reranker_scores(model, tokenizer))
    write_json(folder / "golden.json", golden)


def write_tokens(folder):
    """DeBERTa's tokenizer as transformers 5 makes it of pieces and scores, and its ids and types of texts and pairs."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    pieces = tokenizers.Tokenizer(tokenizers.models.Unigram())
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=79, special_tokens=special, unk_token="[UNK]", show_progress=False)
    pieces.train_from_iterator(TEXTS * 5, trainer)
    vocab = [tuple(entry) for entry in json.loads(pieces.to_str())["model"]["vocab"]]
    tokenizer = t.DebertaV2Tokenizer(vocab=vocab, split_by_punct=True)
    assert len(tokenizer) <= 80
    tokenizer.save_pretrained(folder)
    rows = []
    for first, second in [(text, None) for text in HARD_TEXTS] + list(zip(HARD_TEXTS, HARD_TEXTS[1:])):
        encoding = tokenizer([first], [second] if second is not None else None)  # of lists: an empty text is one, too
        rows.append(dict(first=first, second=second, ids=encoding["input_ids"][0], types=encoding["token_type_ids"][0]))
    write_json(folder / "tokens.json", rows)


# ---- one folder -----------------------------------------------------------------------------------------------------


def write_batch(case, folder, model):
    """Every text by itself: in a batch, transformers gives NaN where a token of padding sees nothing within its window, and hands it on."""
    ids, mask, types = batch(case, model.config)
    trunk = model.base_model
    hidden, logits = torch.zeros(*ids.shape, model.config.hidden_size, dtype=torch.float64), []
    for row, length in enumerate(case.lengths):
        inputs = dict(input_ids=ids[row : row + 1, :length])
        if case.segments:
            inputs["token_type_ids"] = types[row : row + 1, :length]
        with torch.no_grad():
            hidden[row, :length] = trunk(**inputs).last_hidden_state[0]
            if trunk is not model:
                logits.append(model(**inputs).logits[0])
    tensors = {"last_hidden_state": hidden.float().numpy()}  # rows of padding: zeros
    if logits:
        tensors["logits"] = torch.stack(logits).float().numpy()
    tensors |= {"input_ids": ids.int().numpy(), "attention_mask": mask.int().numpy()}
    if case.segments:
        tensors["token_type_ids"] = types.int().numpy()
    save_file({name: np.ascontiguousarray(x) for name, x in tensors.items()}, folder / "golden.safetensors")


def write(case, out):
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = random_model(case)
    model.save_pretrained(folder)
    if case.own_names:
        save_file({name: p.numpy() for name, p in model.state_dict().items()}, folder / "model.safetensors", {"format": "pt"})
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_json(folder / "config.json", json.loads((folder / "config.json").read_text()) | case.spelled)
    model_class = getattr(t, case.model)
    model = model_class.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    dense = write_modules(case, folder, model.config.hidden_size) if case.modules else []
    if case.tokens:
        write_tokens(folder)
    if case.texts:
        write_texts(case, folder, model, dense)
    else:
        write_batch(case, folder, model)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "modern_encoders")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for case in CASES:
        if not arguments.cases or case.name in arguments.cases:
            write(case, arguments.out)
            print(case.name)


if __name__ == "__main__":
    main()
