#!/usr/bin/env python3
"""Writes seeds/*.json: the small worked examples that introductory texts on attention give, with numbers.

    python3 tests/goldens/make_seed_examples.py [--out DIR]

None of the texts prints a result, and none seeds its random weights: the inputs, shapes and formulas are theirs, the weights are
drawn here (seed in each file, rounded to 3 decimals so that the file holds them exactly), the results are numpy in float64.
"""

import argparse
import json
import pathlib

import numpy as np

WORDS = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=np.float64)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(query, key, value, scale, keep=None):
    scores = query @ np.swapaxes(key, -1, -2) * scale
    weights = softmax(scores if keep is None else np.where(keep, scores, -np.inf))
    return {"scores": scores, "weights": weights, "output": weights @ value}


def drawn(rng, *shape, scale=1.0):
    return np.round(scale * rng.standard_normal(shape), 3)


def numpy_self_attention():
    cases = []
    seeded = np.random.RandomState(42)
    by_hand = [[[1, 0], [0, 1], [1, 1]], [[0, 1], [1, 0], [1, -1]], [[1, 2], [3, -1], [0, 4]]]
    for weights, origin in (
        ([np.round(seeded.randn(3, 2), 3) for _ in range(3)], "numpy.random.RandomState(42).randn(3, 2) three times"),
        ([np.array(w, dtype=np.float64) for w in by_hand], "small integers, to follow by hand"),
    ):
        w_q, w_k, w_v = weights
        q, k, v = WORDS @ w_q, WORDS @ w_k, WORDS @ w_v
        cases.append(
            {
                "weights_from": origin,
                "inputs": {"x": WORDS, "w_query": w_q, "w_key": w_k, "w_value": w_v, "scale": 2**-0.5},
                "outputs": {"query": q, "key": k, "value": v} | attention(q, k, v, 2**-0.5),
            }
        )
    return (
        "Self-attention of four words in numpy, d = 3, key and value width 2: query = x w_query, and so on; scores = query keyT / sqrt(2)",
        "worked example: numpy self-attention, d=3; inputs and formula as printed there (it goes on with the first word only)",
        cases,
    )


def two_heads():
    rng = np.random.default_rng(7)
    d, heads, key_dim, value_dim = 3, 2, 2, 3
    inputs = {
        "x": WORDS,
        "w_query": drawn(rng, d, heads, key_dim),
        "b_query": drawn(rng, heads, key_dim, scale=0.3),
        "w_key": drawn(rng, d, heads, key_dim),
        "b_key": drawn(rng, heads, key_dim, scale=0.3),
        "w_value": drawn(rng, d, heads, value_dim),
        "b_value": drawn(rng, heads, value_dim, scale=0.3),
        "w_output": drawn(rng, heads, value_dim, d),
        "b_output": drawn(rng, d, scale=0.3),
        "scale": key_dim**-0.5,
    }
    q, k, v = (
        np.einsum("ld,dhe->hle", WORDS, inputs[f"w_{n}"]) + inputs[f"b_{n}"][:, None] for n in ("query", "key", "value")
    )
    result = attention(q, k, v, inputs["scale"])
    result["per_head"] = result.pop("output")
    result["output"] = np.einsum("hle,hed->ld", result["per_head"], inputs["w_output"]) + inputs["b_output"]
    return (
        "Multi-head self-attention, 2 heads, key width 2, value width 3, output as wide as the input. Projections as Keras lays "
        "them out: w_query [d, heads, key_dim], w_output [heads, value_dim, d]; query, key, value [heads, len, width]",
        "worked example: Keras MultiHeadAttention(num_heads=2, key_dim=2, value_dim=3); input: the four words of the numpy example",
        [
            {
                "weights_from": "numpy.random.default_rng(7)",
                "inputs": inputs,
                "outputs": {"query": q, "key": k, "value": v} | result,
            }
        ],
    )


def permuted_pairs():
    rng = np.random.default_rng(11)
    q, k, v = drawn(rng, 3, 4), drawn(rng, 6, 4), drawn(rng, 6, 5)
    cases = []
    for order in (list(range(6)), list(range(5, -1, -1)), [3, 0, 5, 1, 4, 2]):
        cases.append(
            {
                "weights_from": "numpy.random.default_rng(11)",
                "order": order,
                "inputs": {"query": q, "key": k[order], "value": v[order], "scale": 0.5},
                "outputs": attention(q, k[order], v[order], 0.5),
            }
        )
        assert np.allclose(cases[-1]["outputs"]["output"], cases[0]["outputs"]["output"], rtol=0, atol=1e-15)
    return (
        "Key and value pairs as they are, reversed, shuffled: the same output each time",
        "worked example: exercise on shuffled keys and values",
        cases,
    )


def additive_attention():
    """The text's own sizes. Features come first there: x [batch, hidden, len], and the weights multiply from the left."""
    rng = np.random.default_rng(13)
    batch, hidden, length, query_width, value_width, key_width, attention_width = 2, 10, 15, 18, 20, 19, 30
    x = drawn(rng, batch, hidden, length)
    inputs = {
        "x": x,
        "w_query": drawn(rng, query_width, hidden),
        "w_key": drawn(rng, key_width, hidden),
        "w_value": drawn(rng, value_width, hidden),
        "w_attention_query": drawn(rng, attention_width, query_width, scale=0.1),
        "w_attention_key": drawn(rng, attention_width, key_width, scale=0.1),
        "w_score": drawn(rng, attention_width, scale=0.5),
    }
    q, k, v = (inputs[f"w_{n}"] @ x for n in ("query", "key", "value"))
    energy = np.tanh(inputs["w_attention_query"] @ q + inputs["w_attention_key"] @ k)
    logits = np.einsum("a,bal->bl", inputs["w_score"], energy)
    weights = softmax(logits)
    return (
        "Additive attention, pooled over the sequence: softmax over positions of w_score . tanh(Wq q + Wk k), then the weighted sum "
        "of the values. x [batch, hidden, len]; value [batch, value width, len]; logits, weights [batch, len]; pooled [batch, value width]",
        "worked example: additive attention with widths 18, 19, 20 and attention width 30, batch 2, length 15",
        [
            {
                "weights_from": "numpy.random.default_rng(13)",
                "inputs": inputs,
                "outputs": {
                    "value": v,
                    "logits": logits,
                    "weights": weights,
                    "pooled": np.einsum("bl,bvl->bv", weights, v),
                },
            }
        ],
    )


def unscaled_attention():
    rng = np.random.default_rng(17)
    x = drawn(rng, 5, 4)
    w_q, w_k, w_v = drawn(rng, 4, 3), drawn(rng, 4, 3), drawn(rng, 4, 6)
    query, value = drawn(rng, 2, 4), drawn(rng, 7, 4)
    projected = {"query": x @ w_q, "key": x @ w_k, "value": x @ w_v}
    origin = "numpy.random.default_rng(17)"
    cases = [
        {
            "weights_from": origin,
            "name": "no weights at all: query, key and value are the input",
            "inputs": {"x": x, "scale": 1.0},
            "outputs": attention(x, x, x, 1.0),
        },
        {
            "weights_from": origin,
            "name": "three weight matrices, no scale",
            "inputs": {"x": x, "w_query": w_q, "w_key": w_k, "w_value": w_v, "scale": 1.0},
            "outputs": projected | attention(*projected.values(), 1.0),
        },
        {
            "weights_from": origin,
            "name": "a decoder state asks encoder states that are key and value at once, no scale",
            "inputs": {"query": query, "key": value, "value": value, "scale": 1.0},
            "outputs": attention(query, value, value, 1.0),
        },
    ]
    return (
        "Dot-product attention without the division by sqrt(d), in three steps of the usual introduction",
        "worked examples: basic self-attention, self-attention with weights, dot-product (Luong) attention",
        cases,
    )


def packed_heads():
    """One projection makes query, key and value. Its output is split by head first, then in three: [len, heads, 3 * head_dim]."""
    rng = np.random.default_rng(19)
    length, d, heads, head_dim = 6, 5, 3, 4
    width = heads * head_dim
    inputs = {
        "x": drawn(rng, length, d),
        "w_qkv": drawn(rng, d, 3 * width, scale=0.6),
        "b_qkv": drawn(rng, 3 * width, scale=0.2),
        "w_output": drawn(rng, width, width, scale=0.4),
        "b_output": drawn(rng, width, scale=0.2),
        "scale": head_dim**-0.5,
    }
    packed = (inputs["x"] @ inputs["w_qkv"] + inputs["b_qkv"]).reshape(length, heads, 3 * head_dim).swapaxes(0, 1)
    q, k, v = np.split(packed, 3, axis=-1)
    cases = []
    for name, keep in (("no mask", None), ("causal", np.tril(np.ones((length, length), dtype=bool)))):
        result = attention(q, k, v, inputs["scale"], keep)
        result["per_head"] = result.pop("output")
        result["output"] = (
            result["per_head"].swapaxes(0, 1).reshape(length, width) @ inputs["w_output"] + inputs["b_output"]
        )
        cases.append(
            {
                "weights_from": "numpy.random.default_rng(19)",
                "name": name,
                "inputs": inputs,
                "outputs": {"query": q, "key": k, "value": v} | result,
            }
        )
    return (
        "Multi-head self-attention with one packed projection whose columns are ordered head by head, each head query, key, value",
        "worked example: multi-head attention with a packed projection, input width 5 and model width 12",
        cases,
    )


def positions():
    length, width = 12, 6
    table = np.zeros((length, width))
    for pos in range(length):
        for i in range(width):
            table[pos, i] = (
                np.sin(pos / 10000 ** (i / width)) if i % 2 == 0 else np.cos(pos / 10000 ** ((i - 1) / width))
            )
    long = {
        "position": [0, 1, 2, 10, 100, 511],
        "first_four_of_512": [
            [np.sin(p), np.cos(p), np.sin(p / 10000 ** (2 / 512)), np.cos(p / 10000 ** (2 / 512))]
            for p in (0, 1, 2, 10, 100, 511)
        ],
    }
    return (
        "Sinusoidal positions of the paper: even columns sin(pos / 10000^(i/d)), odd columns cos(pos / 10000^((i-1)/d)). One of "
        "the texts counts the frequencies from 1 instead of 0; that is a slip of the text",
        "worked example: sinusoidal positions",
        [{"inputs": {"length": length, "width": width}, "outputs": {"table": table} | long}],
    )


EXAMPLES = {
    "numpy_self_attention_d3": numpy_self_attention,
    "two_heads_key2_value3": two_heads,
    "permuted_pairs": permuted_pairs,
    "additive_attention": additive_attention,
    "unscaled_attention": unscaled_attention,
    "packed_heads": packed_heads,
    "positions": positions,
}


def plain(value):
    """Nested lists; -0.0 becomes 0.0, so that the files read well."""
    if isinstance(value, np.ndarray):
        return (value + 0.0).tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "seeds")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, make in EXAMPLES.items():
        description, source, cases = make()
        lines = []
        for case in cases:
            fields = [
                f'  "{key}": {json.dumps(plain(value))}'
                for key, value in case.items()
                if key not in ("inputs", "outputs")
            ]
            for group in ("inputs", "outputs"):
                rows = ",\n".join(f'   "{key}": {json.dumps(plain(value))}' for key, value in case[group].items())
                fields.append(f'  "{group}": {{\n{rows}\n  }}')
            lines.append(" {\n" + ",\n".join(fields) + "\n }")
        head = f'"description": {json.dumps(description)},\n"source": {json.dumps(source)},\n"results": "computed here, none is printed in the text"'
        (out / f"{name}.json").write_text(f"{{\n{head},\n" + '"cases": [\n' + ",\n".join(lines) + "\n]\n}\n")


if __name__ == "__main__":
    main()
