# SPDX-License-Identifier: MIT
"""The ops of ``vkformer.Graph``: functions of its tensors, and of arrays, which become constants.

"float" is float32 or float16, one for all operands of an op; sums are formed in float32. Shapes and dtypes that do
not fit are ShapeMismatchError and UnsupportedDtypeError (both ValueError), which name the op, the operand and both
shapes. Nothing is broadcast, but where it says so. Numbers that are NaN stay NaN.
"""

from collections.abc import Iterable
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeAlias

import numpy as np

from . import _inputs
from ._graph import Activation, Quantized, Tensor, Trace
from ._inputs import ArrayLike

#: A tensor of the graph, or an array that becomes a constant of it.
Operand: TypeAlias = Tensor | ArrayLike


def attention(
    query: Operand,
    key: Operand,
    value: Operand,
    *,
    scale: SupportsFloat | None = None,
    causal: bool = False,
    window: SupportsIndex = 0,
    soft_cap: SupportsFloat = 0.0,
    lengths: Operand | None = None,
    starts: Operand | None = None,
    bias: Operand | None = None,
    split_keys: SupportsIndex = 0,
) -> Tensor:
    """softmax(query · keyᵀ · scale + mask) · value in one pass (Vaswani et al. 2017, eq. 1).

    query: float [batch, query_len, heads, head_dim]; key: [batch, key_len, kv_heads, head_dim]; value: [batch, key_len,
        kv_heads, value_dim]. heads is a multiple of kv_heads, head h reads key/value head h // (heads // kv_heads);
        head_dim and value_dim up to 256.
    scale: of the scores; None: 1 / √head_dim.
    causal: a query sees keys up to its own position.
    window: keys that far from a query's position, or further, are not seen; 0: all are.
    soft_cap: scores become soft_cap · tanh(score / soft_cap); 0: they stay.
    lengths: int32 [batch]: keys of each sequence that count; None: all.
    starts: int32 [batch]: position of each sequence's first query; None: 0.
    bias: float32 [batch or 1, heads or 1, query_len or 1, key_len]: added to the scores.
    split_keys: > 0, for query_len 1 and many keys: parts of so many keys are summed each by itself, then together (Dao
        et al. 2023).

    Gives float [batch, query_len, heads, value_dim]; a query that sees no key gives zeros.
    """
    parts = _inputs.uint(split_keys, "split_keys")
    return _attention(query, key, value, "", scale, causal, window, soft_cap, lengths, starts, bias, parts)


def attention_with_weights(
    query: Operand,
    key: Operand,
    value: Operand,
    *,
    scale: SupportsFloat | None = None,
    causal: bool = False,
    window: SupportsIndex = 0,
    soft_cap: SupportsFloat = 0.0,
    lengths: Operand | None = None,
    starts: Operand | None = None,
    bias: Operand | None = None,
) -> tuple[Tensor, Tensor]:
    """``attention`` by the path that stores the softmax, and that: float32 [batch, heads, query_len, key_len]."""
    trace = _trace(query, key, value, lengths, starts, bias)
    name = trace.new_output_name()
    result = _attention(query, key, value, name, scale, causal, window, soft_cap, lengths, starts, bias, 0)
    return result, trace.tensor(trace.builder.find(name), name)


def _attention(
    query: Operand,
    key: Operand,
    value: Operand,
    weights: str,
    scale: SupportsFloat | None,
    causal: bool,
    window: SupportsIndex,
    soft_cap: SupportsFloat,
    lengths: Operand | None,
    starts: Operand | None,
    bias: Operand | None,
    split_keys: int,
) -> Tensor:
    trace = _trace(query, key, value, lengths, starts, bias)
    factor = 0.0 if scale is None else _inputs.real(scale, "scale")
    if scale is not None and factor == 0:
        raise ValueError("scale is 0, expected another number, or None for 1 / √head_dim")
    return trace.tensor(
        trace.builder.attention(
            _value(trace, query, "query"),
            _value(trace, key, "key"),
            _value(trace, value, "value"),
            scale=factor,
            causal=bool(causal),
            window=_inputs.uint(window, "window"),
            soft_cap=_inputs.real(soft_cap, "soft_cap"),
            lengths=_optional(trace, lengths, "lengths"),
            starts=_optional(trace, starts, "starts"),
            bias=_optional(trace, bias, "bias"),
            split_keys=split_keys,
            weights=weights,
        )
    )


def linear(x: Operand, weight: Operand | Quantized, bias: Operand | None = None) -> Tensor:
    """x · weightᵀ + bias. x float [..., in], weight float [out, in], bias float [out]. Gives float [..., out].

    weight: also ``Quantized``, or float16 beside a float32 x, with ``in`` a multiple of 32 (q4_k, q5_k, q6_k: of 256).
    """
    trace = _trace(x, weight, bias)
    operands = _value(trace, x, "x"), _value(trace, weight, "weight"), _optional(trace, bias, "bias")
    return trace.tensor(trace.builder.linear(*operands))


def layer_norm(x: Operand, gain: Operand, bias: Operand | None = None, *, eps: SupportsFloat = 1e-5) -> Tensor:
    """(x − mean) / √(variance + eps) · gain + bias over the last dimension (Ba et al. 2016).

    x float [..., dim], gain and bias [dim].
    """
    trace = _trace(x, gain, bias)
    operands = _value(trace, x, "x"), _value(trace, gain, "gain"), _optional(trace, bias, "bias")
    return trace.tensor(trace.builder.layer_norm(*operands, _inputs.real(eps, "eps")))


def rms_norm(x: Operand, gain: Operand, *, eps: SupportsFloat = 1e-6) -> Tensor:
    """gain · x / √(mean(x²) + eps) over the last dimension (Zhang and Sennrich 2019). x float [..., dim], gain [dim],
    or [groups, dim] for x [..., groups, dim]."""
    trace = _trace(x, gain)
    operands = _value(trace, x, "x"), _value(trace, gain, "gain")
    return trace.tensor(trace.builder.rms_norm(*operands, _inputs.real(eps, "eps")))


def rope(
    x: Operand,
    starts: Operand | None = None,
    *,
    base: SupportsFloat = 10000.0,
    rotary_dim: SupportsIndex | None = None,
    positions: SupportsIndex | None = None,
    pairing: Literal["halves", "interleaved"] = "halves",
    table: Operand | None = None,
) -> Tensor:
    """Rotary positions: pairs (u, v) become (u cos − v sin, v cos + u sin) of their angle (Su et al. 2021, eq. 34).

    x: float [batch, len, heads, head_dim].
    starts: int32 [batch]: position of each sequence's first row; None: 0. A position outside the table gives NaN.
    base, rotary_dim: pair k turns by position · base^(−2k / rotary_dim); rotary_dim elements of a head turn (even;
        None: all).
    positions: rows of the table that is made; None: len. With ``starts`` it must be given.
    pairing: "halves": elements k and k + rotary_dim / 2 (GPT-NeoX, Llama); "interleaved": 2k and 2k + 1 (GPT-J).
    table: float32 [positions, rotary_dim] in place of all that: cosines of a position's pairs, then the sines.
    """
    trace = _trace(x, starts, table)
    _inputs.choice(pairing, "pairing", ("halves", "interleaved"))
    where = _value(trace, x, "x")
    if table is None:
        _, shape = trace.builder.describe(where)
        if len(shape) != 4:
            raise ValueError(f"rope: x has shape {list(shape)}, expected [batch, len, heads, head_dim]")
        if starts is not None and positions is None:
            raise ValueError("rope: starts need positions, the length of the table")
        table = rope_table(
            shape[1] if positions is None else positions, shape[3] if rotary_dim is None else rotary_dim, base=base
        )
    angles = _value(trace, table, "table")
    return trace.tensor(trace.builder.rope(where, angles, _optional(trace, starts, "starts"), pairing == "interleaved"))


def rope_table(positions: SupportsIndex, rotary_dim: SupportsIndex, *, base: SupportsFloat = 10000.0) -> Any:
    """The table of ``rope``: float32 [positions, rotary_dim], formed in double precision."""
    rows, width = _inputs.uint(positions, "positions"), _inputs.uint(rotary_dim, "rotary_dim")
    if rows == 0 or width == 0 or width % 2 != 0:
        raise ValueError(f"rope: a table of shape [{rows}, {width}], expected positions and an even rotary_dim")
    angles = np.arange(rows)[:, None] * _inputs.real(base, "base") ** (-np.arange(0, width, 2) / width)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def softmax(x: Operand) -> Tensor:
    """softmax over the last dimension. x float32."""
    trace = _trace(x)
    return trace.tensor(trace.builder.softmax(_value(trace, x, "x")))


def add(x: Operand, y: Operand) -> Tensor:
    """x + y. float, equal shapes."""
    trace = _trace(x, y)
    return trace.tensor(trace.builder.add(_value(trace, x, "x"), _value(trace, y, "y")))


def concat(x: Operand, y: Operand) -> Tensor:
    """[x | y] along the last dimension. float, all other dimensions equal."""
    trace = _trace(x, y)
    return trace.tensor(trace.builder.concat(_value(trace, x, "x"), _value(trace, y, "y")))


def soft_cap(x: Operand, cap: SupportsFloat) -> Tensor:
    """cap · tanh(x / cap). float, cap > 0."""
    trace = _trace(x)
    return trace.tensor(trace.builder.soft_cap(_value(trace, x, "x"), _inputs.real(cap, "cap")))


def activation(x: Operand, function: Activation) -> Tensor:
    """f(x), element by element: "relu", "gelu" (exact), "gelu_tanh", "gelu_quick", "silu", "tanh", "sigmoid",
    "relu_squared" (max(x, 0)²). float."""
    trace = _trace(x)
    return trace.tensor(trace.builder.activation(_value(trace, x, "x"), _inputs.text(function, "function")))


def relu(x: Operand) -> Tensor:
    """max(x, 0)."""
    return activation(x, "relu")


def gelu(x: Operand) -> Tensor:
    """x · Φ(x), exact (Hendrycks and Gimpel 2016)."""
    return activation(x, "gelu")


def gelu_tanh(x: Operand) -> Tensor:
    """The approximation of ``gelu`` by a tanh."""
    return activation(x, "gelu_tanh")


def silu(x: Operand) -> Tensor:
    """x · sigmoid(x)."""
    return activation(x, "silu")


def tanh(x: Operand) -> Tensor:
    return activation(x, "tanh")


def sigmoid(x: Operand) -> Tensor:
    return activation(x, "sigmoid")


def gated_activation(
    gate: Operand, up: Operand | None = None, *, function: Activation | Literal["none"] = "silu"
) -> Tensor:
    """f(gate) · up, element by element (Shazeer 2020): "silu" is SwiGLU, "gelu" GeGLU, "sigmoid" GLU, "none" bilinear.

    gate, up: float, equal shapes; without ``up``, gate [..., 2 · width] has both, the gates first, and the result is
        [..., width].
    """
    trace = _trace(gate, up)
    operands = _value(trace, gate, "gate"), _optional(trace, up, "up")
    return trace.tensor(trace.builder.gated_activation(*operands, _inputs.text(function, "function")))


def embedding(tokens: Operand, table: Operand | Quantized, *, scale: SupportsFloat = 1.0) -> Tensor:
    """scale · table[tokens]. tokens int32, 1 to 3 dimensions; table float [vocab, dim], or ``Quantized``.

    Gives [..., dim] of the table's dtype, float32 of quantised ones. A token outside the table gives a row of NaN.
    """
    trace = _trace(tokens, table)
    operands = _value(trace, tokens, "tokens"), _value(trace, table, "table")
    return trace.tensor(trace.builder.embedding(*operands, _inputs.real(scale, "scale")))


def reshape(x: Operand, shape: Iterable[SupportsIndex]) -> Tensor:
    """The same elements in another shape; one size may be −1, what is left."""
    trace = _trace(x)
    value = _value(trace, x, "x")
    _, found = trace.builder.describe(value)
    sizes = [int(size) for size in shape]
    if sizes.count(-1) == 1:
        rest = -int(np.prod(sizes, dtype=object))
        sizes[sizes.index(-1)] = int(np.prod(found, dtype=object)) // rest if rest > 0 else 0
    if any(size < 0 for size in sizes):
        raise ValueError(f"reshape: the shape is {sizes}, expected sizes, one of them −1 at most")
    return trace.tensor(trace.builder.reshape(value, sizes))


def _trace(*operands: Any) -> Trace:
    traces = {id(operand.trace): operand.trace for operand in operands if isinstance(operand, Tensor)}
    if not traces:
        raise TypeError(
            "none of the operands is a tensor of a graph (a Quantized is a constant): "
            "call the op through vkformer.Graph"
        )
    if len(traces) > 1:
        raise ValueError("the operands are tensors of different graphs")
    trace: Trace = next(iter(traces.values()))
    return trace


def _value(trace: Trace, operand: Operand, what: str) -> int:
    if operand is None:
        raise TypeError(f"{what} is None, expected a tensor of the graph or an array")
    return operand.value if isinstance(operand, Tensor) else trace.constant(operand, what).value


def _optional(trace: Trace, operand: Operand | None, what: str) -> int:
    return 0 if operand is None else _value(trace, operand, what)
