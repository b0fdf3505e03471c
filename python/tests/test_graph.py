# SPDX-License-Identifier: MIT
"""vkformer.Graph: every op against NumPy in double precision on every device, and what it refuses."""

import array
import asyncio
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import in_child, relative_error, resident_bytes

import vkformer
from vkformer import ops

RANDOM = np.random.default_rng(20)
BOUND = {"float32": 1e-5, "float16": 4e-3}
# What each format loses of normally distributed numbers: the mean of 100 draws of 64 × 256, and 6 standard deviations.
FORMATS = {
    "bf16": 0.0018,
    "q8_0": 0.0057,
    "q4_0": 0.086,
    "q4_1": 0.076,
    "q5_0": 0.0433,
    "q5_1": 0.0367,
    "iq4_nl": 0.0772,
    "mxfp4": 0.116,
    "q4_k": 0.0762,
    "q5_k": 0.0381,
    "q6_k": 0.019,
}


@pytest.fixture(autouse=True)
def same_numbers_whichever_tests_run() -> None:
    global RANDOM
    RANDOM = np.random.default_rng(20)


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(q: Any, k: Any, v: Any, *, seen: Any = True, bias: Any = 0.0, cap: float = 0.0) -> Any:
    """In double precision; `seen` and `bias` are [batch, heads, query_len, key_len] or broadcast to it."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    if cap:
        scores = cap * np.tanh(scores / cap)
    weights = softmax(np.where(seen, scores + bias, -1e30)) * seen
    return np.einsum("bhij,bjhd->bihd", weights, v)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.fixture
def graph(any_device: str) -> Callable[..., Any]:
    return lambda function, **options: vkformer.Graph(function, any_device, **options)


def test_attention_in_three_lines(any_device: str) -> None:
    query, key, value = numbers(2, 5, 4, 24), numbers(2, 7, 2, 24), numbers(2, 7, 2, 16)
    shader = vkformer.Graph(ops.attention, any_device)
    assert relative_error(shader(query, key, value), attention(query, key, value)) < 1e-5


def test_masks_of_attention(device: str) -> None:
    q, k, v = numbers(2, 5, 4, 24), numbers(2, 7, 2, 24), numbers(2, 7, 2, 16)
    lengths, starts = np.array([3, 7], np.int32), np.array([1, 2], np.int32)
    bias = numbers(1, 4, 5, 7)
    i, j = np.arange(5)[:, None], np.arange(7)
    at = starts[:, None, None, None] + i
    runs = vkformer.Graph(ops.attention, device)
    cases: list[tuple[dict[str, Any], Any, dict[str, Any]]] = [
        ({"causal": True}, j <= i, {}),
        ({"lengths": lengths}, j < lengths[:, None, None, None], {}),
        ({"causal": True, "starts": starts}, j <= at, {}),
        ({"window": 2}, abs(i - j) < 2, {}),
        ({"bias": bias}, True, {"bias": bias.astype(np.float64)}),
        ({"soft_cap": 0.5}, True, {"cap": 0.5}),
    ]
    for keywords, seen, rest in cases:
        assert relative_error(runs(q, k, v, **keywords), attention(q, k, v, seen=seen, **rest)) < 1e-5, keywords
    assert relative_error(runs(q, k, v, scale=0.5), attention(q * 0.5 * np.sqrt(24), k, v)) < 1e-5
    assert relative_error(runs(q[:, :1].copy(), k, v, split_keys=3), attention(q[:, :1], k, v)) < 1e-5
    assert (runs(q, k, v, lengths=np.zeros(2, np.int32)) == 0).all()


def test_weights_of_attention(graph: Callable[..., Any]) -> None:
    q, k, v = numbers(1, 3, 2, 8), numbers(1, 4, 2, 8), numbers(1, 4, 2, 8)
    result, weights = graph(ops.attention_with_weights)(q, k, v)
    assert relative_error(result, attention(q, k, v)) < 1e-5
    scores = np.einsum("bihd,bjhd->bhij", q.astype(np.float64), k) / np.sqrt(8)
    assert relative_error(weights, softmax(scores)) < 1e-5


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_and_norms(graph: Callable[..., Any], dtype: str) -> None:
    x, w, b = numbers(3, 40, dtype=dtype), numbers(24, 40, dtype=dtype), numbers(24, dtype=dtype)
    gain, shift = numbers(40, dtype=dtype), numbers(40, dtype=dtype)
    wide = x.astype(np.float64)
    normed = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5) * gain + shift
    rms = gain * wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    for function, arguments, expected in [
        (ops.linear, (x, w, b), wide @ w.astype(np.float64).T + b),
        (ops.linear, (x, w), wide @ w.astype(np.float64).T),
        (ops.layer_norm, (x, gain, shift), normed),
        (ops.rms_norm, (x, gain), rms),
        (ops.add, (x, x), 2 * wide),
        (ops.concat, (x, x), np.concatenate([wide, wide], -1)),
    ]:
        found = graph(function)(*arguments)
        assert found.dtype == dtype
        assert relative_error(found, expected) < BOUND[dtype], function.__name__


def test_activations(graph: Callable[..., Any]) -> None:
    x, y = numbers(3, 10), numbers(3, 10)
    wide, up = x.astype(np.float64), y.astype(np.float64)
    erf = np.vectorize(__import__("math").erf)
    functions = {
        "relu": np.maximum(wide, 0),
        "gelu": wide * (1 + erf(wide / np.sqrt(2))) / 2,
        "gelu_tanh": wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))) / 2,
        "gelu_quick": wide * sigmoid(1.702 * wide),
        "silu": wide * sigmoid(wide),
        "tanh": np.tanh(wide),
        "sigmoid": sigmoid(wide),
        "relu_squared": np.maximum(wide, 0) ** 2,
    }

    def all_of(a: vkformer.Tensor) -> tuple[vkformer.Tensor, ...]:
        return tuple(ops.activation(a, name) for name in functions)  # type: ignore[arg-type]

    for name, found in zip(functions, graph(all_of)(x), strict=True):
        assert relative_error(found, functions[name]) < 1e-5, name
    for function in ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"):
        assert relative_error(graph(getattr(ops, function))(x), functions[function]) < 1e-5
    gated = graph(ops.gated_activation)
    assert relative_error(gated(x, y), functions["silu"] * up) < 1e-5
    assert relative_error(gated(x, y, function="none"), wide * up) < 1e-5
    both = np.concatenate([x, y], -1)
    assert relative_error(gated(both, function="gelu_tanh"), functions["gelu_tanh"] * up) < 1e-5
    assert relative_error(graph(ops.soft_cap)(x, 0.7), 0.7 * np.tanh(wide / 0.7)) < 1e-5
    assert relative_error(graph(ops.softmax)(x), softmax(wide)) < 1e-5


@pytest.mark.parametrize("pairing", ["halves", "interleaved"])
def test_rope(graph: Callable[..., Any], pairing: str) -> None:
    x, starts = numbers(2, 5, 3, 16), np.array([0, 4], np.int32)
    expected = x.astype(np.float64)
    for b in range(2):
        for i in range(5):
            for k in range(4):
                angle = (starts[b] + i) * 100.0 ** (-2 * k / 8)
                u, v = (k, k + 4) if pairing == "halves" else (2 * k, 2 * k + 1)
                first, second = expected[b, i, :, u].copy(), expected[b, i, :, v].copy()
                expected[b, i, :, u] = first * np.cos(angle) - second * np.sin(angle)
                expected[b, i, :, v] = second * np.cos(angle) + first * np.sin(angle)
    turned = graph(ops.rope)
    found = turned(x, starts, base=100.0, rotary_dim=8, positions=9, pairing=pairing)
    assert relative_error(found, expected) < 1e-5
    table = ops.rope_table(9, 8, base=100.0)
    assert (turned(x, starts, table=table, pairing=pairing) == found).all()
    with pytest.raises(ValueError, match="positions"):
        turned(x, starts)
    beyond = turned(x, starts, base=100.0, rotary_dim=8, positions=8, pairing=pairing)
    assert np.isnan(beyond[1, 4]).any()
    assert not np.isnan(beyond[0]).any()


def test_embedding(graph: Callable[..., Any]) -> None:
    table, tokens = numbers(10, 32), np.array([[3, 0], [9, 3]], np.int32)
    found = graph(ops.embedding)(tokens, table, scale=2.0)
    assert relative_error(found, 2 * table[tokens]) < 1e-6
    assert np.isnan(graph(ops.embedding)(np.array([10, -1], np.int32), table)).all()
    packed = vkformer.quantize(table, "q8_0")
    assert relative_error(graph(ops.embedding)(tokens, packed), packed.dequantize()[tokens]) < 1e-6


@pytest.mark.parametrize("format", FORMATS)
def test_formats_of_weights(device: str, format: Any) -> None:
    w, x = numbers(64, 256), numbers(3, 256)
    packed = vkformer.quantize(w, format)
    assert packed.shape == w.shape
    assert packed.format == format
    assert relative_error(packed.dequantize(), w) < FORMATS[format]
    again = vkformer.Quantized(packed.data, format)
    assert (again.dequantize() == packed.dequantize()).all()
    product = vkformer.Graph(ops.linear, device, plain_shaders=True)
    expected = x.astype(np.float64) @ packed.dequantize().astype(np.float64).T
    assert relative_error(product(x, packed), expected) < 1e-5
    assert (product(x, again) == product(x, packed)).all()
    other = vkformer.quantize(-w, format)
    assert relative_error(product(x, other), x.astype(np.float64) @ other.dequantize().astype(np.float64).T) < 1e-5


@pytest.mark.parametrize("format", ["q8_0", "q4_k"])
def test_default_variants_of_quantized_products(any_device: str, format: Any) -> None:
    w, x = numbers(32, 512), numbers(3, 512)
    packed = vkformer.quantize(w, format)
    expected = x.astype(np.float64) @ packed.dequantize().astype(np.float64).T
    # The CPU backend rounds rows to 8 bits here.
    assert relative_error(vkformer.Graph(ops.linear, any_device)(x, packed), expected) < 1e-2


def test_half_precision_weights_beside_floats(graph: Callable[..., Any]) -> None:
    w, x = numbers(6, 64, dtype=np.float16), numbers(3, 64)
    assert relative_error(graph(ops.linear)(x, w), x.astype(np.float64) @ w.astype(np.float64).T) < 1e-5


def test_a_layer_of_many_ops(graph: Callable[..., Any]) -> None:
    """What a Transformer's layer is, with its weights as constants; ops that follow each other become one."""
    x, gain = numbers(2, 5, 32), numbers(32)
    w_qkv, w_out, w_up, w_down = numbers(96, 32), numbers(32, 32), numbers(128, 32), numbers(32, 64)

    def layer(x: vkformer.Tensor) -> tuple[vkformer.Tensor, vkformer.Tensor]:
        normed = ops.rms_norm(x, gain)
        q, k, v = (ops.linear(normed, w).reshape(2, 5, 4, 8) for w in np.split(w_qkv, 3))
        attended = ops.attention(ops.rope(q), ops.rope(k), v, causal=True)
        x = x + ops.linear(ops.reshape(attended, (2, 5, -1)), w_out)
        return x + ops.linear(ops.gated_activation(ops.linear(ops.rms_norm(x, gain), w_up)), w_down), x

    compiled = graph(layer)
    whole, middle = compiled(x)

    def norm(x: Any) -> Any:
        return gain * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)

    def turned(x: Any) -> Any:
        angles = np.arange(5)[:, None, None] * 10000.0 ** (-np.arange(4) / 4)
        u, v = x[..., :4], x[..., 4:]
        return np.concatenate(
            [u * np.cos(angles) - v * np.sin(angles), v * np.cos(angles) + u * np.sin(angles)], axis=-1
        )

    wide = x.astype(np.float64)
    q, k, v = ((norm(wide) @ w.T).reshape(2, 5, 4, 8) for w in np.split(w_qkv, 3))
    mask = np.arange(5) <= np.arange(5)[:, None]
    wide = wide + attention(turned(q), turned(k), v, seen=mask).reshape(2, 5, 32) @ w_out.T
    assert relative_error(middle, wide) < 1e-5
    gate, up = np.split(norm(wide) @ w_up.T, 2, axis=-1)
    assert relative_error(whole, wide + (gate * sigmoid(gate) * up) @ w_down.T) < 1e-5
    found = [node.op for node in compiled.nodes]
    assert found.count("attention") == 1
    assert "add" not in found
    assert (compiled(x)[0] == whole).all()


def test_programs_are_kept_by_kind_of_arguments() -> None:
    traced: list[tuple[int, ...]] = []

    def doubled(x: vkformer.Tensor, twice: bool = False) -> vkformer.Tensor:
        traced.append(x.shape)
        return x + x + (x + x) if twice else x + x

    with vkformer.Graph(doubled, "cpu") as graph:
        for _ in range(3):
            for n in (1, 2, 3):
                x = numbers(n)
                assert (graph(x) == 2 * x).all()
        assert traced == [(1,), (2,), (3,)]
        assert (graph(x, twice=True) == 4 * x).all()
        assert (graph(x, twice=1) == 4 * x).all()
        half = x.astype(np.float16)
        assert graph(half).dtype == np.float16
        assert len(traced) == 6
        for n in range(1, 30):
            graph(numbers(n))
        graph(numbers(29))
        count = len(traced)
        graph(numbers(1))  # the programs of the last 16 are kept
        assert len(traced) == count + 1


def test_variants_are_named_and_told(any_device: str) -> None:
    x, gain = numbers(4, 64), numbers(64)
    if any_device == "cpu":
        with pytest.raises(vkformer.InvalidArgumentError, match="for Vulkan devices"):
            vkformer.Graph(ops.rms_norm, any_device, shader_variants={"rms_norm": "row"})
        graph = vkformer.Graph(ops.rms_norm, any_device)
        assert graph.nodes == []
        graph(x, gain)
        assert [(node.op, node.variant) for node in graph.nodes] == [("rms_norm", "")]
        return
    found = {}
    for variant in ("row", None):
        variants = {"rms_norm": variant} if variant else None
        graph = vkformer.Graph(ops.rms_norm, any_device, shader_variants=variants)
        found[variant] = graph(x, gain)
        (node,) = graph.nodes
        assert node.op == "rms_norm"
        assert node.variant == variant if variant else node.variant
    assert relative_error(found["row"], found[None]) < 1e-6
    with pytest.raises(vkformer.InvalidArgumentError, match="rms_norm has no variant"):
        vkformer.Graph(ops.rms_norm, any_device, shader_variants={"rms_norm": "no such"})
    with pytest.raises(vkformer.InvalidArgumentError, match="no such op"):
        vkformer.Graph(ops.rms_norm, any_device, shader_variants={"no such op": "row"})


def test_arrays_of_every_kind() -> None:
    x = numbers(2, 3)
    doubled = vkformer.Graph(lambda x: x + x, "cpu")
    read_only = x.copy()
    read_only.flags.writeable = False
    assert (doubled(read_only) == 2 * x).all()
    assert (doubled(array.array("f", [1, 2])) == [2, 4]).all()
    assert (doubled(memoryview(x)) == 2 * x).all()

    class OnlyDlpack:
        def __dlpack__(self, **options: Any) -> Any:
            return x.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    assert (doubled(OnlyDlpack()) == 2 * x).all()
    strange = x.copy()
    strange[0, 1], strange[1, 2] = np.nan, np.inf
    found = doubled(strange)
    assert np.isnan(found[0, 1])
    assert np.isinf(found[1, 2])
    assert np.isnan(found).sum() == 1
    strided = vkformer.Graph(lambda x: x + np.ones((3, 2), np.float32).T, "cpu")  # constants are copied anyway
    assert (strided(x) == x + 1).all()
    assert found.flags.writeable
    assert found.flags.owndata


def test_arguments_that_are_refused() -> None:
    x = numbers(2, 4)
    doubled: Any = vkformer.Graph(lambda x, *_: x + x, "cpu")
    for wrong, words in [
        (x.astype(np.float64), "argument 0 is of float64.*astype\\(numpy.float32\\)"),
        (np.zeros((2, 4), np.int64), "argument 0 is of int64.*astype\\(numpy.int32\\)"),
        (x.astype(">f4"), "argument 0 is of >f4"),
        (np.zeros((2, 4), bool), "argument 0 is of bool"),
        (np.zeros((2, 4), complex), "argument 0 is of complex128"),
        (np.array([object()]), "argument 0 is of object"),
        (np.ma.masked_array(x), "masked array"),
        (x.tolist(), "argument 0 is of type list, expected a NumPy array"),
        ({"a": x}, "argument 0 is of type dict"),
        ((x, x), "argument 0 is a tuple with an array"),
        (object(), "argument 0 is of type object"),
        (b"1234", "argument 0 is of type bytes"),
    ]:
        with pytest.raises(TypeError, match=words):
            doubled(wrong)
    for wrong, words in [
        (x[:, ::2], "argument 0 lies in pieces"),
        (x.T, "argument 0 lies in pieces"),
        (np.zeros((2, 0), np.float32), "empty|0"),
        (np.array(3, np.float32), "1 to 4"),
        (np.zeros((1, 1, 1, 1, 1), np.float32), "1 to 4"),
    ]:
        with pytest.raises(ValueError, match=words):
            doubled(wrong)
    with pytest.raises(TypeError, match="x is of type list"):
        doubled(x=[1, 2])
    with pytest.raises(ValueError, match="i32|float"):
        doubled(np.zeros(3, np.int32))
    assert (doubled(x) == 2 * x).all()


def test_functions_that_are_refused() -> None:
    x = numbers(2, 4)

    def run(function: Any) -> Any:
        return vkformer.Graph(function, "cpu")(x)

    kept: list[vkformer.Tensor] = []

    def keep(x: vkformer.Tensor) -> vkformer.Tensor:
        kept.append(x)
        return x + x

    run(keep)
    for function, kind, words in [
        (lambda x: x, ValueError, "only what an op computes"),
        (lambda x: None, TypeError, "the function gave None"),
        (lambda x: (), TypeError, "the function gave"),
        (lambda x: (x + x, 3), TypeError, "the function gave"),
        (lambda x: x + x if x else x, TypeError, "no values yet"),
        (lambda x: np.asarray(x), TypeError, "no values yet"),
        (lambda x: x[0], TypeError, "no values yet"),
        (lambda x: sum(x), TypeError, "no values yet"),
        (lambda x: x + 3, TypeError, "y is of type int, expected a NumPy array"),
        (
            lambda x: x + np.zeros(4, np.float32),
            vkformer.ShapeMismatchError,
            r"add: b has shape \[4\], expected \[2, 4\]",
        ),
        (lambda x: ops.add(x, None), TypeError, "y is None"),
        (lambda x: ops.linear(x, numbers(3, 5)), vkformer.ShapeMismatchError, "linear: "),
        (lambda x: ops.linear(x, numbers(3, 4).astype(np.float64)), TypeError, "weight is of float64"),
        (lambda x: ops.attention(x, x, x), vkformer.ShapeMismatchError, "attention: "),
        (lambda x: ops.relu(x).reshape(3, 3), vkformer.ShapeMismatchError, "not as many elements"),
        (lambda x: ops.reshape(x, (-1, -1)), ValueError, "−1 at most"),
        (lambda x: ops.reshape(x, (-1, 3)), ValueError, "reshape"),
        (lambda x: ops.activation(x, "cube"), ValueError, 'activation "cube"'),  # type: ignore[arg-type]
        (lambda x: ops.soft_cap(x, float("nan")), ValueError, "cap is not a number"),
        (lambda x: ops.soft_cap(x, -1), vkformer.InvalidArgumentError, "positive"),
        (lambda x: ops.rope(x), ValueError, "rope: x has shape"),
        (lambda x: ops.relu(kept[0]), ValueError, "become a program"),
        (lambda x: ops.add(x, kept[0]), ValueError, "different graphs"),
        (lambda x: 1 // 0, ZeroDivisionError, "zero"),
    ]:
        with pytest.raises(kind, match=words):
            run(function)
    with pytest.raises(TypeError, match="through vkformer.Graph"):
        ops.relu(x)
    with pytest.raises(TypeError, match="expected a function"):
        vkformer.Graph(3, "cpu")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="device"):
        vkformer.Graph(ops.relu, 1.5)  # type: ignore[call-overload]
    q = numbers(1, 2, 1, 8)
    graph = vkformer.Graph(ops.attention, "cpu")
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"window": -1}, ValueError, "window is -1"),
        ({"scale": 0}, ValueError, "scale is 0"),
        ({"split_keys": 2}, ValueError, "query"),
        ({"lengths": np.zeros(2, np.int32)}, vkformer.ShapeMismatchError, "key_lengths|lengths"),
        ({"lengths": np.zeros(1, np.float32)}, vkformer.UnsupportedDtypeError, "lengths"),
        ({"colour": 3}, TypeError, "colour"),
    ]
    for keywords, kind, words in wrong:
        with pytest.raises(kind, match=words):
            graph(q, q, q, **keywords)
    with pytest.raises(vkformer.NoDeviceError):
        vkformer.Graph(ops.relu, "no such device")


def test_quantized_weights_that_are_refused() -> None:
    for data, format, kind, words in [
        (numbers(2, 34), "q8_0", TypeError, "expected uint8"),
        (np.zeros((2, 33), np.uint8), "q8_0", ValueError, "34 bytes each"),
        (np.zeros((2, 0), np.uint8), "q8_0", ValueError, "34 bytes each"),
        (np.zeros((68, 2), np.uint8).T, "q8_0", ValueError, "in pieces"),
        (np.zeros((2, 34), np.uint8), "q9", ValueError, "format is 'q9'"),
    ]:
        with pytest.raises(kind, match=words):
            vkformer.Quantized(data, format)  # type: ignore[arg-type]
    for given, format, kind, words in [
        (numbers(2, 33), "q8_0", ValueError, "a multiple of 32"),
        (numbers(2, 32), "q4_k", ValueError, "a multiple of 256"),
        (numbers(2, 32).astype(np.float64), "q8_0", TypeError, "float64"),
        (numbers(2, 32), "f16", ValueError, "format is 'f16'"),
    ]:
        with pytest.raises(kind, match=words):
            vkformer.quantize(given, format)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a Quantized is a constant"):
        vkformer.Graph(ops.relu, "cpu")(vkformer.quantize(numbers(2, 32), "q8_0"))


def test_two_threads_share_a_graph(any_device: str) -> None:
    doubled = vkformer.Graph(lambda x: x + x, any_device)
    wrong: list[Any] = []

    def work(n: int) -> None:
        x = np.full(100 + n, n, np.float32)
        for _ in range(20):
            if not (doubled(x) == 2 * n).all():
                wrong.append(n)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_calls_of_tasks() -> None:
    async def work() -> None:
        doubled = vkformer.Graph(lambda x: x + x, "cpu")
        xs = [numbers(n) for n in range(1, 9)]
        found = await asyncio.gather(*(doubled.call_async(x) for x in xs))
        assert all((y == 2 * x).all() for x, y in zip(xs, found, strict=True))
        with pytest.raises(TypeError, match="argument 0"):
            await doubled.call_async([1, 2])

    asyncio.run(work())


def test_a_graph_closes_once_and_not_in_a_forked_child(any_device: str) -> None:
    graph: Any = vkformer.Graph(ops.relu, any_device)
    x = numbers(3)
    graph(x)

    def work() -> None:
        nonlocal graph
        with pytest.raises(RuntimeError, match="before this process was forked"):
            graph(x)
        with pytest.raises(RuntimeError, match="before this process was forked"):
            graph.close()
        del graph
        gc.collect()

    assert in_child(work) == 0
    with graph:
        assert (graph(x) == np.maximum(x, 0)).all()
        assert graph.device in repr(graph)
    assert graph.closed
    assert "closed" in repr(graph)
    graph.close()
    with pytest.raises(ValueError, match="closed"):
        graph(x)


def test_graphs_leave_nothing_behind() -> None:
    x = numbers(64, 64)

    def once() -> None:
        graph = vkformer.Graph(lambda x: ops.linear(x, np.eye(64, dtype=np.float32)), "cpu")
        assert (graph(x) == x).all()

    for _ in range(100):
        once()
    gc.collect()
    before = resident_bytes()
    for _ in range(1000):
        once()
    gc.collect()
    assert resident_bytes() - before < 8 << 20  # the constants alone would be 16 MiB
