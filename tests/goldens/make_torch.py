#!/usr/bin/env python3
"""Writes torch/*.safetensors: attention, nn.MultiheadAttention, nn.Transformer, layer norm and position tables by PyTorch.

    python3 tests/goldens/make_torch.py [--out DIR]

Inputs and weights are float32 values; every result is computed in float64 from them and stored so. See README.md for the names.
"""

import argparse
import math
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape, scale=1.0):
    return scale * torch.randn(shape, generator=generator(seed))


def save(path, tensors):
    """Weights and inputs as float32, results (float64) as they are, masks and lengths as int64."""
    save_file({name: (t.long() if t.dtype == torch.bool else t).contiguous() for name, t in tensors.items()}, path)


def randomise(module, seed, scale):
    """Every parameter random, so that no bias is zero and no gain one."""
    g = generator(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=g))
            if "norm" in name:
                parameter.add_(1.0 if name.endswith("weight") else 0.0)
    return module


def sdpa_case(seed, batch, heads, kv_heads, query_len, key_len, head_dim, value_dim, mask=None, scale=None):
    """query [batch, heads, query_len, head_dim] and so on, as scaled_dot_product_attention takes them."""
    tensors = {
        "query": randn(seed, batch, heads, query_len, head_dim, scale=1.5),
        "key": randn(seed + 1, batch, kv_heads, key_len, head_dim, scale=1.5),
        "value": randn(seed + 2, batch, kv_heads, key_len, value_dim),
    }
    q, k, v = (tensors[name].double() for name in ("query", "key", "value"))
    options = {"enable_gqa": heads != kv_heads}
    if scale is not None:
        options["scale"] = scale
        tensors["scale"] = torch.tensor([scale], dtype=torch.float32)
    if (
        mask == "causal"
    ):  # query i sees keys 0..i, also where there are more keys than queries (PyTorch aligns at the top left)
        options["is_causal"] = True
        tensors["causal"] = torch.ones(1, dtype=torch.int64)
    elif mask == "additive":
        tensors["mask"] = randn(seed + 3, batch, heads, query_len, key_len, scale=2.0)
        tensors["mask"][torch.rand(tensors["mask"].shape, generator=generator(seed + 4)) < 0.3] = -math.inf
        tensors["mask"][
            ..., 0
        ] = 0.5  # no row is without a key: those differ, PyTorch gives NaN there and vkformer zeros
        options["attn_mask"] = tensors["mask"].double()
    elif mask == "shared_additive":
        tensors["mask"] = randn(seed + 3, query_len, key_len)
        options["attn_mask"] = tensors["mask"].double()
    elif mask in ("lengths", "causal_lengths"):
        tensors["key_lengths"] = torch.tensor([key_len - 2 * b for b in range(batch)])
        keep = torch.arange(key_len) < tensors["key_lengths"][:, None]
        keep = keep[:, None, None, :].expand(batch, heads, query_len, key_len)
        if mask == "causal_lengths":
            tensors["causal"] = torch.ones(1, dtype=torch.int64)
            keep = keep & torch.ones(query_len, key_len, dtype=torch.bool).tril()
        options["attn_mask"] = keep
    elif mask == "window":
        tensors["window"] = torch.tensor([3])  # a key is seen when 0 <= query position - key position < window
        distance = torch.arange(query_len)[:, None] - torch.arange(key_len)
        options["attn_mask"] = (distance >= 0) & (distance < 3)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        tensors["output"] = F.scaled_dot_product_attention(q, k, v, **options)
    return tensors


def make_sdpa(out):
    cases = {
        "plain": dict(batch=2, heads=3, kv_heads=3, query_len=5, key_len=5, head_dim=7, value_dim=7),
        "cross_lengths_differ": dict(batch=2, heads=2, kv_heads=2, query_len=4, key_len=11, head_dim=6, value_dim=6),
        "value_width_differs": dict(batch=1, heads=3, kv_heads=3, query_len=6, key_len=9, head_dim=5, value_dim=13),
        "causal": dict(batch=2, heads=2, kv_heads=2, query_len=17, key_len=17, head_dim=8, value_dim=8, mask="causal"),
        "causal_top_left": dict(
            batch=1, heads=2, kv_heads=2, query_len=5, key_len=8, head_dim=4, value_dim=4, mask="causal"
        ),
        "additive": dict(
            batch=2, heads=3, kv_heads=3, query_len=7, key_len=10, head_dim=9, value_dim=4, mask="additive"
        ),
        "shared_additive": dict(
            batch=2, heads=2, kv_heads=2, query_len=3, key_len=6, head_dim=3, value_dim=3, mask="shared_additive"
        ),
        "lengths": dict(
            batch=3, heads=2, kv_heads=2, query_len=4, key_len=9, head_dim=10, value_dim=10, mask="lengths"
        ),
        "causal_lengths": dict(
            batch=3, heads=2, kv_heads=2, query_len=9, key_len=9, head_dim=6, value_dim=5, mask="causal_lengths"
        ),
        "window": dict(batch=1, heads=2, kv_heads=2, query_len=13, key_len=13, head_dim=8, value_dim=8, mask="window"),
        "grouped": dict(batch=2, heads=6, kv_heads=2, query_len=5, key_len=7, head_dim=7, value_dim=7),
        "multi_query_causal": dict(
            batch=1, heads=5, kv_heads=1, query_len=8, key_len=8, head_dim=6, value_dim=11, mask="causal"
        ),
        "own_scale": dict(batch=1, heads=2, kv_heads=2, query_len=4, key_len=4, head_dim=16, value_dim=16, scale=0.125),
        "one_query_long_cache": dict(
            batch=2, heads=4, kv_heads=2, query_len=1, key_len=67, head_dim=12, value_dim=12, mask="lengths"
        ),
        "wide_head": dict(batch=1, heads=1, kv_heads=1, query_len=3, key_len=5, head_dim=256, value_dim=129),
        "one_by_one": dict(batch=1, heads=1, kv_heads=1, query_len=1, key_len=1, head_dim=1, value_dim=1),
    }
    for index, (name, case) in enumerate(cases.items()):
        save(out / f"sdpa_{name}.safetensors", sdpa_case(1000 + 10 * index, **case))


def make_multihead(out):
    """kdim, vdim and embed_dim all different, then all the same (there PyTorch keeps one in_proj_weight), each with a mask."""
    for name, seed, kdim, vdim, bias in (
        ("kdim_vdim", 2000, 13, 17, True),
        ("same_width", 2100, 20, 20, True),
        ("kdim_vdim_no_bias", 2200, 9, 5, False),
    ):
        module = nn.MultiheadAttention(20, 5, bias=bias, kdim=kdim, vdim=vdim, batch_first=True)
        randomise(module, seed, 0.4)
        tensors = {
            "query": randn(seed + 1, 2, 6, 20),
            "key": randn(seed + 2, 2, 9, kdim),
            "value": randn(seed + 3, 2, 9, vdim),
            "key_padding_mask": torch.arange(9) >= torch.tensor([9, 6])[:, None],  # 1: this key is not seen
        }
        tensors |= {f"model.{key}": value.clone() for key, value in module.state_dict().items()}
        module = module.double().eval()
        inputs = [tensors[key].double() for key in ("query", "key", "value")]
        with torch.no_grad():
            output, per_head = module(*inputs, key_padding_mask=tensors["key_padding_mask"], average_attn_weights=False)
            output_again, averaged = module(*inputs, key_padding_mask=tensors["key_padding_mask"])
        assert torch.equal(output, output_again)
        save(
            out / f"multihead_{name}.safetensors",
            tensors | {"output": output, "weights_per_head": per_head, "weights_averaged": averaged},
        )


def make_transformer(out):
    for name, seed, norm_first, activation in (
        ("post_norm_relu", 3000, False, "relu"),
        ("post_norm_gelu", 3100, False, "gelu"),
        ("pre_norm_relu", 3200, True, "relu"),
        ("pre_norm_gelu", 3300, True, "gelu"),
    ):
        module = nn.Transformer(
            24, 3, 2, 2, 40, dropout=0.0, activation=activation, norm_first=norm_first, batch_first=True
        )
        randomise(module, seed, 0.2)
        tensors = {
            "src": randn(seed + 1, 2, 7, 24),
            "tgt": randn(seed + 2, 2, 5, 24),
            "src_key_padding_mask": torch.arange(7) >= torch.tensor([7, 4])[:, None],  # 1: padding
        }
        tensors |= {f"model.{key}": value.clone() for key, value in module.state_dict().items()}
        module = module.double().train()  # dropout is 0; eval() takes a fused path that zeroes padded encoder rows
        padding = tensors["src_key_padding_mask"]
        causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
        src, tgt = tensors["src"].double(), tensors["tgt"].double()
        with torch.no_grad():
            memory = module.encoder(src, src_key_padding_mask=padding)
            output = module(src, tgt, tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding)
            blind = module(
                src, tgt, tgt_mask=causal, src_key_padding_mask=padding
            )  # cross-attention sees the padding, too
        assert not torch.allclose(output, blind)
        save(out / f"transformer_{name}.safetensors", tensors | {"memory": memory, "output": output})


def make_layer_norm(out):
    for width in (1, 7, 64, 129):
        x = randn(4000 + width, 5, width, scale=3.0) + 10.0 * randn(4500 + width, 5, 1)
        x[4] = 2.5  # no variance: only eps keeps the result finite
        weight, bias = 1 + 0.3 * randn(4600 + width, width), 0.5 * randn(4700 + width, width)
        y = F.layer_norm(x.double(), (width,), weight.double(), bias.double(), eps=1e-5)
        save(
            out / f"layer_norm_{width}.safetensors",
            {"x": x, "weight": weight, "bias": bias, "eps": torch.tensor([1e-5]), "output": y},
        )


def make_activations(out):
    x = torch.cat([torch.linspace(-12, 12, 193), torch.tensor([0.0, 1e-6, -1e-6, 30.0, -30.0, 88.0, -88.0])])
    xd = x.double()
    save(
        out / "activations.safetensors",
        {
            "x": x,
            "relu": F.relu(xd),
            "gelu_erf": F.gelu(xd),
            "gelu_tanh": F.gelu(xd, approximate="tanh"),
            "silu": F.silu(xd),
            "log_softmax": F.log_softmax(xd, dim=-1),
            "softmax": F.softmax(xd, dim=-1),
        },
    )


def make_positions(out):
    """Both layouts of sin and cos of t / 10000^(2k/d). In the paper they alternate; in Marian the sines come first."""
    tensors = {}
    for width in (6, 21, 64):
        t = torch.arange(50, dtype=torch.float64)[:, None]
        pairs = (width + 1) // 2
        angle = t / 10000 ** (2 * torch.arange(pairs, dtype=torch.float64) / width)
        interleaved = torch.stack([angle.sin(), angle.cos()], dim=-1).reshape(50, 2 * pairs)[:, :width]
        tensors[f"interleaved.{width}"] = interleaved
        tensors[f"halves.{width}"] = torch.cat([angle.sin(), angle[:, : width // 2].cos()], dim=-1)
    try:
        from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding as Table

        for width in (6, 21, 64):
            table = Table(50, width)
            table._init_weight()
            assert torch.equal(tensors[f"halves.{width}"].float(), table.weight)
            tensors[f"halves_float32.{width}"] = table.weight.detach().clone()
    except ImportError:
        print("transformers is missing: halves_float32.* left out")
    save(out / "positions.safetensors", tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "torch")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for make in (make_sdpa, make_multihead, make_transformer, make_layer_norm, make_activations, make_positions):
        make(out)


if __name__ == "__main__":
    main()
