#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes packed/<case>/: tiny random decoders whose weights were quantised for other programs, and what the models compute.

    PYTHONPATH=PACKERS python3 tests/goldens/make_packed.py --gptq WHEEL [--out DIR] [case ...]

PACKERS holds compressed_tensors, with what it imports, and AutoAWQ's package `awq`; WHEEL is an unpacked AutoGPTQ 0.7.1. Those programs pack
the integers, and their own code is what unpacks them again here: it has to give the numbers that the reference computes with, in float64 as
in make_decoders.py. FP8 is checked against transformers, which loads such folders.
"""

import argparse
import importlib.util
import json
import pathlib
import sys
import tempfile
import types
import warnings

import make_decoders
import torch
import transformers
from make_decoders import Case, llama_like
from safetensors.torch import load_file, save_file

GROUP = 32


def module_of(path):
    """A file of a package whose other parts are not wanted."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rounded(weight, bits, groups, is_symmetric, scale_dtype):
    """Integers 0 … 2^bits − 1 of a matrix [out, in], scales and zeros [out, groups]; `groups`: the group of each input."""
    count = int(groups.max()) + 1
    columns = torch.stack([weight[:, groups == g].amax(1) for g in range(count)], 1)
    least = torch.stack([weight[:, groups == g].amin(1) for g in range(count)], 1)
    top = 2**bits - 1
    if is_symmetric:
        scales = torch.maximum(columns, -least) * 2 / top
        zeros = torch.full_like(scales, 2 ** (bits - 1))
    else:
        scales = (columns - least) / top
        zeros = (-least / scales).round().clamp(1, top)  # AutoGPTQ spoils words of zeros with a 0
    scales = scales.to(scale_dtype).float()
    integers = (weight / scales[:, groups] + zeros[:, groups]).round().clamp(0, top)
    return integers, scales, zeros, (integers - zeros[:, groups]) * scales[:, groups]


def plain_groups(size, group):
    return torch.arange(size) // group


class Gptq:
    def __init__(self, wheel, bits=4, group=GROUP, is_symmetric=True, ordered=False, version=1):
        self.linear = module_of(wheel / "auto_gptq/nn_modules/qlinear/qlinear_cuda.py").QuantLinear
        self.bits, self.group, self.is_symmetric, self.ordered, self.version = bits, group, is_symmetric, ordered, version

    def config(self):
        return {"quant_method": "gptq", "bits": self.bits, "group_size": self.group, "sym": self.is_symmetric, "desc_act": self.ordered,
                "damp_percent": 0.01, "true_sequential": True, "checkpoint_format": "gptq_v2" if self.version == 2 else "gptq"}  # fmt: skip

    def pack(self, weight):
        out, size = weight.shape
        group = size if self.group == -1 else self.group
        groups = plain_groups(size, group)
        if self.ordered:
            groups = groups[torch.randperm(size, generator=torch.Generator().manual_seed(size))]
        _, scales, zeros, numbers = rounded(weight, self.bits, groups, self.is_symmetric, torch.float16)
        plain = torch.nn.Linear(size, out, bias=False)
        plain.weight.data = numbers.clone()
        packed = self.linear(self.bits, group, size, out, False, weight_dtype=torch.float16)
        packed.pack(plain, scales.clone(), zeros.clone(), groups.to(torch.int32))
        packed.scales = packed.scales.float()  # its own arithmetic would round
        unpacked = packed(torch.eye(size)).T
        assert torch.equal(unpacked, numbers), (unpacked - numbers).abs().max()
        stored = {name: getattr(packed, name).contiguous() for name in ("qweight", "qzeros", "scales", "g_idx")}
        stored["scales"] = stored["scales"].half()
        if self.version == 2:  # which has the zeros as they are; none of them is the largest in the words of version 1
            ones = sum(1 << shift for shift in range(0, 32, self.bits))
            stored["qzeros"] = (stored["qzeros"].long() + ones).to(torch.int32)
        return stored, numbers


class Awq:
    def config(self):
        return {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}

    def pack(self, weight):
        from awq.modules.linear import gemm

        out, size = weight.shape
        _, scales, zeros, numbers = rounded(weight, 4, plain_groups(size, GROUP), False, torch.float16)
        plain = torch.nn.Linear(size, out, bias=False)
        plain.weight.data = numbers.clone()
        packed = gemm.WQLinear_GEMM.from_linear(plain, 4, GROUP, scales=scales.T.contiguous(), zeros=zeros.T.contiguous())
        unpacked = gemm.dequantize_gemm(packed.qweight, packed.qzeros, packed.scales.float(), 4, GROUP).T
        assert torch.equal(unpacked, numbers), (unpacked - numbers).abs().max()
        return {name: getattr(packed, name).contiguous() for name in ("qweight", "qzeros", "scales")}, numbers


class Fp8:
    """A scale for each block, or one for all."""

    def __init__(self, block=(16, 32), name="weight_scale_inv"):
        self.block, self.name = block, name

    def config(self):
        blocks = {"weight_block_size": list(self.block)} if self.block else {"weight_block_size": None}
        return {"quant_method": "fp8", "activation_scheme": "dynamic" if self.block else "static", "fmt": "e4m3", **blocks}

    def pack(self, weight):
        rows, columns = self.block or weight.shape
        scales = torch.stack([torch.stack([part.abs().max() / 448 for part in row.split(columns, 1)]) for row in weight.split(rows, 0)])
        spread = scales.repeat_interleave(rows, 0)[: weight.shape[0]].repeat_interleave(columns, 1)[:, : weight.shape[1]]
        bytes_ = (weight / spread).to(torch.float8_e4m3fn)
        stored = {"weight": bytes_, self.name: scales if self.block else scales.reshape(())}
        if not self.block:
            stored["input_scale"] = torch.tensor(0.01)
        return stored, bytes_.float() * spread


class Compressed:
    def __init__(self, layout, **arguments):
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

        self.layout = layout
        self.compressor = BaseCompressor.get_value_from_registry(layout)
        self.weights = QuantizationArgs(**arguments)
        self.scheme = QuantizationScheme(targets=["Linear"], weights=self.weights)

    def config(self):
        weights = json.loads(self.weights.model_dump_json())
        group = {"targets": ["Linear"], "weights": weights, "input_activations": {"num_bits": 8, "dynamic": True}, "output_activations": None}
        return {"quant_method": "compressed-tensors", "format": self.layout, "quantization_status": "compressed", "ignore": ["lm_head"],
                "config_groups": {"group_0": group}, "kv_cache_scheme": None, "global_compression_ratio": None}  # fmt: skip

    def pack(self, weight):
        w = self.weights
        size = w.group_size or weight.shape[1]
        if w.type == "float":
            scales = weight.abs().amax(1, keepdim=True) / 448
            state = {"weight": weight, "weight_scale": scales.to(torch.bfloat16).float()}
        else:
            _, scales, zeros, _ = rounded(weight, w.num_bits, plain_groups(weight.shape[1], size), w.symmetric, torch.bfloat16)
            state = {"weight": weight, "weight_scale": scales}
            if not w.symmetric:
                state["weight_zero_point"] = (zeros - 2 ** (w.num_bits - 1)).to(torch.int8)
        stored = self.compressor.compress(state, self.scheme)
        numbers = self.compressor.decompress(stored, self.scheme)["weight"]
        stored["weight_scale"] = stored["weight_scale"].to(torch.bfloat16)
        return {name: value.contiguous() for name, value in stored.items()}, numbers.float()


def cases(wheel):
    t = transformers
    llama = dict(heads=4, kv_heads=2, head_dim=16, hidden=64, ffn=96, layers=2, rms_norm_eps=1e-5, tie_word_embeddings=False)
    qwen2 = dict(llama, rope_theta=1000000.0)

    def case(name, seed, kind, sizes):
        return Case(name, seed, llama_like(kind, **sizes), torch.float32, std=0.2)

    yield case("gptq", 201, t.LlamaConfig, llama), Gptq(wheel)
    yield case("gptq_zeros", 202, t.Qwen2Config, qwen2), Gptq(wheel, is_symmetric=False)
    yield case("gptq_v2_whole", 203, t.LlamaConfig, llama), Gptq(wheel, group=-1, is_symmetric=False, version=2)
    yield case("gptq_ordered", 204, t.LlamaConfig, llama), Gptq(wheel, ordered=True)
    yield case("gptq_8_bits", 205, t.LlamaConfig, llama), Gptq(wheel, bits=8, group=-1)
    yield case("gptq_2_bits", 206, t.LlamaConfig, llama), Gptq(wheel, bits=2)
    moe = dict(llama, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True)
    yield case("gptq_experts", 207, t.Qwen3MoeConfig, moe), Gptq(wheel)
    yield case("awq", 208, t.Qwen2Config, qwen2), Awq()
    odd = dict(llama, heads=4, kv_heads=1, head_dim=10, hidden=44, ffn=57)
    yield case("fp8", 209, t.LlamaConfig, llama), Fp8()
    yield case("fp8_odd", 215, t.LlamaConfig, odd), Fp8()
    yield case("fp8_whole", 210, t.LlamaConfig, odd), Fp8(block=None, name="weight_scale")
    group = dict(num_bits=4, type="int", strategy="group", group_size=GROUP)
    yield case("compressed_w4a16", 211, t.LlamaConfig, llama), Compressed("pack-quantized", symmetric=True, **group)
    yield case("compressed_w4a16_zeros", 212, t.LlamaConfig, llama), Compressed("pack-quantized", symmetric=False, **group)
    yield case("compressed_int8", 213, t.Qwen2Config, qwen2), Compressed("int-quantized", num_bits=8, type="int", strategy="channel")
    yield case("compressed_fp8", 214, t.LlamaConfig, odd), Compressed("float-quantized", num_bits=8, type="float", strategy="channel")


def is_packed(name, tensor):
    return name.startswith("model.layers.") and name.endswith(".weight") and tensor.dim() == 2 and not name.endswith("mlp.gate.weight")


def write(case, method, folder):
    packed = {}

    def make(case):
        """The model with the numbers that the packed weights stand for."""
        model = make_decoders.make_model(case)
        with tempfile.TemporaryDirectory() as temporary:
            model.save_pretrained(temporary)
            file = pathlib.Path(temporary) / "model.safetensors"
            tensors = load_file(file)
            for name, tensor in tensors.items():
                if is_packed(name, tensor):
                    stored, tensors[name] = method.pack(tensor)
                    packed[name] = {name.removesuffix("weight") + part: value for part, value in stored.items()}
            save_file(tensors, file, metadata={"format": "pt"})
            return transformers.AutoModelForCausalLM.from_pretrained(temporary, dtype=torch.float32, attn_implementation="eager").eval()

    has_experts = "moe" in case.config.model_type
    make_decoders.write(case, folder, make, **({"experts_implementation": "eager"} if has_experts else {}))
    file = folder / "model.safetensors"
    numbers = load_file(file)
    stored = {name: tensor for name, tensor in numbers.items() if name not in packed}
    for parts in packed.values():
        stored |= parts
    save_file(stored, file, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = method.config()
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if case.name == "fp8":  # whole blocks, as transformers wants them
        loaded = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, quantization_config=transformers.FineGrainedFP8Config(dequantize=True)
        )
        for name, tensor in loaded.state_dict().items():
            assert (tensor - numbers[name]).abs().max() <= 2e-3 * numbers[name].abs().max(), name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gptq", type=pathlib.Path, required=True, help="an unpacked wheel of AutoGPTQ 0.7.1")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "packed")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    sys.modules.setdefault("awq", types.ModuleType("awq"))  # without what its __init__ would import
    sys.modules["awq"].__path__ = [str(path) for path in map(pathlib.Path, sys.path) for path in [path / "awq"] if path.is_dir()]
    for case, method in cases(args.gptq):
        if not args.names or case.name in args.names:
            write(case, method, args.out / case.name)


if __name__ == "__main__":
    main()
