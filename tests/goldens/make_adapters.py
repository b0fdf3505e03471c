#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes adapters/<case>/: random low-rank adapters of models of decoders/ as PEFT saves them, their logits and greedy continuations.

    python3 tests/goldens/make_adapters.py [--out DIR] [case ...]

Made with peft 0.21.2 and transformers 5.12.1, in float64 from what the files have. llama_gqa_odd/ and qwen3_next/ have the adapter as
llama.cpp's convert_lora_to_gguf.py would write it besides; needs the PyPI package gguf. llama_gqa_odd/ and llama_gqa_odd_second/ are two
adapters of one model: mixed.safetensors of the second has the logits with 0.5 of the first and −1.25 of the second together.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import warnings

import gguf
import numpy as np
import peft
import torch
import transformers
from safetensors.numpy import load_file, save_file

import make_decoders
import make_gguf_decoders
import make_hybrids

HERE = pathlib.Path(__file__).resolve().parent
DECODERS = HERE / "decoders"


@dataclasses.dataclass
class Case:
    name: str
    seed: int
    model: str
    config: peft.LoraConfig
    architecture: str = ""  # of the GGUF file
    std: float = 0.2


def lora(rank, alpha, modules, **others):
    return peft.LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, target_modules=modules, lora_dropout=0.0, **others)


FEED_FORWARD = ["gate_proj", "up_proj", "down_proj"]
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def cases():
    yield Case("llama_gqa_odd", 1, "llama_gqa_odd", lora(5, 8, ATTENTION + FEED_FORWARD), architecture="llama")
    yield Case("llama_gqa_odd_second", 2, "llama_gqa_odd", lora(3, 6, ["q_proj", "v_proj", "up_proj", "lm_head"]))
    yield Case("gpt2_by_root", 3, "gpt2", lora(4, 4, ["c_attn", "c_proj", "c_fc"], use_rslora=True, fan_in_fan_out=True))
    yield Case("phi3_patterns", 4, "phi3", lora(4, 8, ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
                                                rank_pattern={"down_proj": 2, "layers.0.self_attn.o_proj": 7},
                                                alpha_pattern={"o_proj": 3, "model.layers.1.mlp.gate_up_proj": 12}))  # fmt: skip
    yield Case("qwen2_bf16", 5, "qwen2", lora(6, 12, ATTENTION + FEED_FORWARD, layers_to_transform=[1]))
    yield Case("qwen3_next", 6, "qwen3_next", lora(3, 6, ["q_proj", "o_proj", "in_proj_qkvz", "in_proj_ba", "out_proj"],
                                                   exclude_modules=r".*experts.*"), architecture="qwen3next", std=0.04)  # fmt: skip
    yield Case("granite_hybrid", 7, "granite_hybrid", lora(4, 8, ["in_proj", "out_proj", "q_proj", "o_proj", "input_linear", "output_linear"]))
    yield Case("lfm2", 8, "lfm2", lora(2, 4, ["q_proj", "out_proj", "in_proj", "w1", "w2", "w3"]), std=0.15)
    yield Case("gemma", 9, "gemma", lora(4, 4, ["k_proj", "v_proj", "gate_proj"]))
    yield Case("qwen2_moe", 10, "qwen2_moe", lora(3, 3, r".*(q_proj|k_proj|shared_expert\.(gate_proj|up_proj|down_proj))"), std=0.15)


def base_of(case):
    eager = {"experts_implementation": "eager"} if "next" in case.model or "moe" in case.model else {}
    return transformers.AutoModelForCausalLM.from_pretrained(DECODERS / case.model, dtype=torch.float64, attn_implementation="eager", **eager).eval()


def save_adapter(case, folder):
    """Drawn at random, rounded to what the file has."""
    model = peft.get_peft_model(base_of(case), case.config)
    torch.manual_seed(case.seed)
    dtype = torch.bfloat16 if "bf16" in case.name else torch.float32
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.normal_(0.0, case.std)
                p.data = p.data.to(dtype)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = case.model
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def adapted(case, folder):
    return peft.PeftModel.from_pretrained(base_of(case), folder, autocast_adapter_dtype=False).double().eval()


def ids_of(case, model):
    generator = torch.Generator().manual_seed(100 + case.seed)
    return torch.randint(0, model.config.vocab_size, (2, 12), generator=generator)


def save_golden(model, ids, path):
    with torch.no_grad():
        output = model(ids, output_hidden_states=True)
    save_file({"input_ids": ids.numpy(), "logits": output.logits.numpy(), "last_hidden_state": output.hidden_states[-1].numpy()}, path)


def save_gguf(case, folder):
    """As llama.cpp's converter: B has the rows of the weight, permuted as those are."""
    config = json.loads((DECODERS / case.model / "config.json").read_text())
    writer = gguf.GGUFWriter(folder / "adapter.gguf", case.architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(case.config.lora_alpha))
    for name, tensor in load_file(folder / "adapter_model.safetensors").items():
        module, half = name.removeprefix("base_model.model.").removesuffix(".weight").rsplit(".", 1)
        weight = module + ".weight"
        tensor = torch.from_numpy(tensor)
        pieces = {weight: tensor}
        if weight.endswith("in_proj_qkvz.weight"):  # two weights there, which see the same
            names = [weight.replace("_qkvz", "_qkv"), weight.replace("_qkvz", "_z")]
            pieces = dict.fromkeys(names, tensor) if half == "lora_A" else make_gguf_decoders.delta_rule_of(pieces, case.architecture, config)
        for part, rows in pieces.items():
            values = rows.float().numpy() if half == "lora_A" else make_gguf_decoders.converted(part, rows, case.architecture, config)
            target = make_gguf_decoders.renamed(part, case.architecture)
            writer.add_tensor(f"{target}.{half.lower()}", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(case, folder):
    shutil.rmtree(folder, ignore_errors=True)
    save_adapter(case, folder)
    model = adapted(case, folder)
    ids = ids_of(case, model)
    save_golden(model, ids, folder / "golden.safetensors")
    found = make_decoders.find_continuation(make_decoders.Case(case.name, case.seed, model.config), model)
    variety, length, tokens = found
    text = json.dumps({"prompt": tokens[:length], "continuation": tokens[length:]})
    (folder / "greedy.json").write_text(text + "\n")
    if case.architecture:
        save_gguf(case, folder)
    print(f"{case.name}: prompt {length}, {variety} different tokens")


def write_mixed(out):
    first, second = (next(c for c in cases() if c.name == name) for name in ("llama_gqa_odd", "llama_gqa_odd_second"))
    model = adapted(first, out / first.name)
    model.load_adapter(out / second.name, "second", autocast_adapter_dtype=False)
    model.double().base_model.set_adapter(["default", "second"])
    for module in model.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            for name, scale in (("default", 0.5), ("second", -1.25)):
                if name in module.scaling:
                    module.scaling[name] *= scale
    save_golden(model, ids_of(second, model), out / second.name / "mixed.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "adapters")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    make_hybrids.make_double(transformers.models.qwen3_next.modeling_qwen3_next)
    for case in cases():
        if not args.cases or case.name in args.cases:
            write(case, args.out / case.name)
    if not args.cases or "llama_gqa_odd_second" in args.cases:
        write_mixed(args.out)


if __name__ == "__main__":
    main()
