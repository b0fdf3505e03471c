#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes encoder_adapters/<case>/: random low-rank adapters of text encoders in the layout of PEFT's save_pretrained, and what the models
give with them.

    python3 tests/goldens/make_encoder_adapters.py [--out DIR] [case ...]

Needs transformers 5.12.1. PEFT is not needed: what an adapter adds is added to the model's weights, in float64: α / r · B · A to a
product's [out, in], its transpose to a table's [rows, width]. jina_passage/mixed.safetensors has 0.5 of jina_query and −1.25 of
jina_passage together.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import shutil

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Case:
    name: str
    seed: int
    base: str
    modules: str  # the ends of their names: an expression
    rank: int
    alpha: float
    by_root: bool = False

    @property
    def scale(self):
        return self.alpha / (self.rank**0.5 if self.by_root else self.rank)


CASES = [
    Case("jina_query", 1, "modern_encoders/jina_v3_h24", r"[qkvo]_proj|fc[12]|dense|word_embeddings|token_type_embeddings", 4, 2),
    Case("jina_passage", 2, "modern_encoders/jina_v3_h24", r"q_proj|v_proj|fc1|word_embeddings", 2, 3, by_root=True),
    Case("jina_scores", 3, "modern_encoders/jina_v3_scores", r"k_proj|o_proj|fc2|dense|out_proj", 3, 6),
    Case("bert", 4, "encoders/bert_h20", r"query|key|value|dense|word_embeddings|token_type_embeddings", 3, 6),
    Case("deberta", 5, "modern_encoders/deberta_v3", r"query_proj|key_proj|dense", 3, 3),
]


def base_of(case):
    config = transformers.AutoConfig.from_pretrained(HERE / case.base)
    model_class = getattr(transformers, config.architectures[0])
    return model_class.from_pretrained(HERE / case.base, dtype=torch.float64, attn_implementation="eager").eval()


def save_adapter(case, folder):
    """Drawn at random. A layer of embeddings has halves of other names, and down is [r, rows of the table]."""
    rng = np.random.default_rng(case.seed)
    draw = lambda *shape: (0.2 * rng.standard_normal(shape)).astype(np.float32)  # noqa: E731
    tensors = {}
    for name, module in base_of(case).named_modules():
        if not re.fullmatch(case.modules, name.rsplit(".", 1)[-1]):
            continue
        rows, columns = module.weight.shape
        if isinstance(module, torch.nn.Embedding):
            tensors[f"base_model.model.{name}.lora_embedding_A"] = draw(case.rank, rows)
            tensors[f"base_model.model.{name}.lora_embedding_B"] = draw(columns, case.rank)
        else:
            tensors[f"base_model.model.{name}.lora_A.weight"] = draw(case.rank, columns)
            tensors[f"base_model.model.{name}.lora_B.weight"] = draw(rows, case.rank)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {
        "base_model_name_or_path": case.base,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "lora_alpha": case.alpha,
        "lora_dropout": 0.0,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": case.rank,
        "target_modules": rf"(?:.*\.)?(?:{case.modules})",
        "task_type": "FEATURE_EXTRACTION",
        "use_dora": False,
        "use_rslora": case.by_root,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def merge(model, case, folder, times=1.0):
    tensors = load_file(folder / "adapter_model.safetensors")
    with torch.no_grad():
        for down, a in tensors.items():
            is_table = down.endswith("lora_embedding_A")
            if not (is_table or down.endswith("lora_A.weight")):
                continue
            up = down.replace("_A", "_B")
            change = times * case.scale * torch.from_numpy(tensors[up]).double() @ torch.from_numpy(a).double()
            module = model.get_submodule(down.removeprefix("base_model.model.").rsplit(".lora_", 1)[0])
            module.weight += change.T if is_table else change
    return model


def save_golden(model, case, path):
    golden = load_file(HERE / case.base / "golden.safetensors")
    inputs = {name: golden[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in golden}
    with torch.no_grad():
        output = model(**{name: torch.from_numpy(values).long() for name, values in inputs.items()}, output_hidden_states=True)
    hidden = output.hidden_states[-1]
    if "attention_mask" in inputs:
        hidden = hidden * torch.from_numpy(inputs["attention_mask"]).unsqueeze(-1)
    results = {"last_hidden_state": hidden.numpy()}
    if "logits" in output:
        results["logits"] = output.logits.numpy()
    save_file({name: values.astype(np.int32) for name, values in inputs.items()} | results, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "encoder_adapters")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    by_name = {case.name: case for case in CASES}
    for name in args.cases or by_name:
        case, folder = by_name[name], args.out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        save_adapter(case, folder)
        save_golden(merge(base_of(case), case, folder), case, folder / "golden.safetensors")
    first, second = by_name["jina_query"], by_name["jina_passage"]
    both = merge(merge(base_of(first), first, args.out / first.name, 0.5), second, args.out / second.name, -1.25)
    save_golden(both, second, args.out / second.name / "mixed.safetensors")


if __name__ == "__main__":
    main()
