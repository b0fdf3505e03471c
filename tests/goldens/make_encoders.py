#!/usr/bin/env python3
"""Writes encoders/<case>/: tiny random encoder models, their last hidden states, pooled vectors and classification scores.

    python3 tests/goldens/make_encoders.py [--out DIR] [case ...]

Weights are float32 in the file (or what the case says), and the reference runs them in float64. See README.md for the versions
and the format.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file


@dataclasses.dataclass
class Case:
    """One tiny model. `lengths` are those of the padded batch; `segments`: where each row's second text begins."""

    name: str
    seed: int
    model: str  # class in transformers
    config: dict
    lengths: tuple
    segments: tuple = ()
    dtype: torch.dtype = torch.float32
    old_norm_names: bool = False  # LayerNorm.gamma, LayerNorm.beta


def bert(hidden, layers, heads, inner, vocab, **others):
    return dict(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        vocab_size=vocab,
        max_position_embeddings=24,
        **others,
    )


CASES = [
    Case("bert_h20", 1, "BertModel", bert(20, 2, 4, 37, 53), (7, 4, 1)),
    Case("bert_h33_relu", 2, "BertModel", bert(33, 3, 3, 41, 61, hidden_act="relu", layer_norm_eps=1e-3, type_vocab_size=3), (5, 9), (2, 5)),
    Case("bert_pairs", 3, "BertForSequenceClassification", bert(24, 2, 2, 50, 71, num_labels=1), (11, 6, 8), (4, 3, 7)),
    Case(
        "bert_old_gelu_new",
        4,
        "BertForMaskedLM",
        bert(16, 1, 1, 19, 40, hidden_act="gelu_new", type_vocab_size=1),
        (3, 24, 10),
        old_norm_names=True,
    ),
    Case("bert_bf16", 5, "BertModel", bert(40, 2, 5, 64, 53), (6, 13), dtype=torch.bfloat16),
    Case("roberta_h21", 6, "RobertaModel", bert(21, 2, 3, 33, 57, type_vocab_size=1), (8, 3, 5)),
    Case(
        "roberta_scores",
        7,
        "RobertaForSequenceClassification",
        bert(28, 2, 4, 45, 57, type_vocab_size=1, num_labels=3, layer_norm_eps=1e-5),
        (6, 11),
    ),
    Case(
        "xlm_roberta_score",
        8,
        "XLMRobertaForSequenceClassification",
        bert(18, 1, 2, 31, 67, type_vocab_size=1, num_labels=1, pad_token_id=3, hidden_act="silu"),
        (10, 2),
        dtype=torch.float16,
    ),
    Case(
        "distilbert_h30",
        9,
        "DistilBertModel",
        dict(dim=30, n_layers=2, n_heads=5, hidden_dim=43, vocab_size=53, max_position_embeddings=19, activation="gelu"),
        (9, 5, 19),
    ),
    Case(
        "distilbert_scores",
        10,
        "DistilBertForSequenceClassification",
        dict(dim=22, n_layers=1, n_heads=2, hidden_dim=35, vocab_size=53, max_position_embeddings=16, activation="relu", num_labels=2),
        (4, 7),
    ),
    Case("mpnet_h18", 11, "MPNetModel", bert(18, 2, 3, 31, 53) | dict(max_position_embeddings=150), (147, 33, 1)),
    Case("mpnet_scores", 12, "MPNetForSequenceClassification", bert(20, 2, 2, 33, 57, num_labels=3), (9, 4)),
]


def random_model(case):
    """A model whose arithmetic shows: no weight near zero or one by convention, every bias in use."""
    model_class = getattr(transformers, case.model)
    model = model_class(model_class.config_class(**case.config))
    hidden = model.config.hidden_size
    generator = torch.Generator().manual_seed(case.seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            std, mean = (0.25 if name.endswith("weight") else 0.1), 0.0
            if "norm" in name.lower():
                mean = 1.0 if name.endswith("weight") else 0.0
                std = 0.2
            elif "embeddings" in name:
                std = 0.7
            elif "relative" in name:
                std = 1.0
            elif any(part in name for part in ("query", "key", "q_lin", "k_lin")):
                std = 1.5 * hidden**-0.5 if name.endswith("weight") else 0.3
            p.copy_(mean + std * torch.randn(p.shape, generator=generator))
    return model.to(case.dtype).eval()


def batch(case, config):
    rng = np.random.default_rng(case.seed)
    pad = config.pad_token_id
    shape = (len(case.lengths), max(case.lengths))
    ids = rng.integers(5, config.vocab_size, shape)
    mask = np.zeros(shape, np.int64)
    types = np.zeros(shape, np.int64)
    for row, length in enumerate(case.lengths):
        mask[row, :length] = 1
        if case.segments:
            types[row, case.segments[row] : length] = 1
            if getattr(config, "type_vocab_size", 0) > 2:
                types[row, length - 1] = 2
    ids[mask == 0] = pad
    return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(types)


def pooled(hidden, mask):
    """What sentence-transformers' Pooling makes of the hidden states, by its formulas."""
    m = mask.unsqueeze(-1).to(hidden.dtype)
    total, count = (hidden * m).sum(1), m.sum(1)
    weights = m * torch.arange(1, mask.shape[1] + 1).to(hidden.dtype).view(1, -1, 1)
    last = hidden[torch.arange(len(hidden)), mask.sum(1) - 1]
    return {
        "pooled.cls": hidden[:, 0],
        "pooled.mean": total / count,
        "pooled.max": hidden.masked_fill(m == 0, -1e9).max(1).values,
        "pooled.mean_sqrt_len": total / count.sqrt(),
        "pooled.weightedmean": (hidden * weights).sum(1) / weights.sum(1),
        "pooled.lasttoken": last,
        "pooled.mean.normalized": torch.nn.functional.normalize(total / count, dim=-1),
    }


def rename_norms(folder):
    from safetensors.numpy import load_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    save_file(renamed, path, metadata={"format": "pt"})


def write(case, out):
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = random_model(case)
    model.save_pretrained(folder, safe_serialization=True)
    if case.old_norm_names:
        rename_norms(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")

    ids, mask, types = batch(case, model.config)
    inputs = dict(input_ids=ids, attention_mask=mask)
    if case.segments:
        inputs["token_type_ids"] = types
    model = model.double()
    with torch.no_grad():
        result = model(**inputs, output_hidden_states=True)
    hidden = result.last_hidden_state if "last_hidden_state" in result else result.hidden_states[-1]
    tensors = {name: value.float().numpy() for name, value in pooled(hidden, mask).items()}
    valid = mask.unsqueeze(-1).to(hidden.dtype)
    tensors["last_hidden_state"] = (hidden * valid).float().numpy()  # rows of padding: zeros
    if case.model.endswith("ForSequenceClassification"):
        tensors["logits"] = result.logits.float().numpy()
    tensors |= {"input_ids": ids.int().numpy(), "attention_mask": mask.int().numpy()}
    if case.segments:
        tensors["token_type_ids"] = types.int().numpy()
    save_file({name: np.ascontiguousarray(t) for name, t in tensors.items()}, folder / "golden.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "encoders")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for case in CASES:
        if not arguments.cases or case.name in arguments.cases:
            write(case, arguments.out)
            print(case.name)


if __name__ == "__main__":
    main()
