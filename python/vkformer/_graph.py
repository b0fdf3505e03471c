# SPDX-License-Identifier: MIT
"""Ops on arrays, compiled for a device: functions of arrays that are traced once for every kind of arguments."""

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Literal, NoReturn, Self, TypeAlias, TypeVar, get_args, overload

import numpy as np
import numpy.typing as npt

from . import _core, _inputs
from ._inputs import ArrayLike
from ._not_copied import NotCopied
from ._results import FloatArray

#: Formats that only weights have: bfloat16, and GGUF's block formats.
WeightFormat: TypeAlias = Literal[
    "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4", "q4_k", "q5_k", "q6_k"
]
Activation: TypeAlias = Literal["relu", "gelu", "gelu_tanh", "gelu_quick", "silu", "tanh", "sigmoid", "relu_squared"]
AnyArray: TypeAlias = npt.NDArray[Any]

R = TypeVar("R")

_DTYPES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", np.dtype(np.int32): "i32"}
_NUMPY_DTYPES: dict[str, npt.DTypeLike] = {"f32": np.float32, "f16": np.float16, "i32": np.int32}
_HINTS = {"f": "astype(numpy.float32)", "i": "astype(numpy.int32)", "u": "astype(numpy.int32)"}
_KEPT_PROGRAMS = 16


@dataclass(frozen=True, slots=True)
class Node:
    """What runs a node of a graph."""

    name: str
    op: str
    """As ``vkformer tune --list`` names it. Ops that follow each other may have become one."""
    variant: str
    """Which of its shaders; empty on the CPU backend."""


class Quantized:
    """A weight of ``ops.linear`` or a table of ``ops.embedding`` in a format that only weights have.

    data: uint8 [..., bytes of a row], contiguous, as a GGUF file has it; read where it lies.
    format: how; "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4" (rows of multiples of 32), "q4_k",
        "q5_k", "q6_k" (of 256).

    Raises: TypeError (data is not uint8), ValueError (an unknown format, rows that are no whole blocks).
    """

    __slots__ = ("_data", "_format", "_shape")

    def __init__(self, data: ArrayLike, format: WeightFormat) -> None:
        _inputs.choice(format, "format", get_args(WeightFormat))
        array = _inputs.array_of(data, "data")
        if array.dtype != np.uint8:
            raise TypeError(f"data is of {array.dtype}, expected uint8: the bytes of the blocks")
        unit = 2 if format == "bf16" else _core.quantized_bytes(format, _block(format))
        if not 1 <= array.ndim <= 4 or array.size == 0 or array.shape[-1] % unit != 0:
            raise ValueError(
                f"data has shape {list(array.shape)}, expected rows of whole blocks of {format}, {unit} bytes each"
            )
        self._data: npt.NDArray[np.uint8] = _inputs.contiguous(array, "data")
        self._format: WeightFormat = format
        self._shape = (*array.shape[:-1], array.shape[-1] // unit * _block(format))

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """uint8 [..., bytes of a row]."""
        return self._data

    @property
    def format(self) -> WeightFormat:
        return self._format

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the numbers that it stands for."""
        return self._shape

    def dequantize(self) -> FloatArray:
        """The numbers, float32: exactly those that the shaders see."""
        numbers = np.empty(self._shape, np.float32)
        _core.dequantize(self._format, self._data, numbers)
        return numbers

    def __repr__(self) -> str:
        return f"<vkformer.Quantized {self._format} {list(self._shape)}>"


def quantize(numbers: ArrayLike, format: WeightFormat) -> Quantized:
    """float32 [..., row] in a format of weights, rounded to nearest as ``vkformer convert`` does it.

    Raises: TypeError (another dtype), ValueError (an unknown format, rows that are no whole blocks, 32 or 256 numbers;
        lying in
    pieces). Numbers that are not finite stay visible: their block gives numbers that are not finite.
    """
    _inputs.choice(format, "format", get_args(WeightFormat))
    array = _inputs.array_of(numbers, "numbers")
    if array.dtype != np.float32:
        raise TypeError(f"numbers are {array.dtype}, expected float32{_hint(array.dtype)}")
    if not 1 <= array.ndim <= 4 or array.size == 0 or array.shape[-1] % _block(format) != 0:
        raise ValueError(
            f"numbers have shape {list(array.shape)}, expected rows of a multiple of {_block(format)} ({format})"
        )
    row = _core.quantized_bytes(format, array.shape[-1])
    data = np.empty((*array.shape[:-1], row), np.uint8)
    _core.quantize(format, _inputs.contiguous(array, "numbers"), data)
    return Quantized(data, format)


def _block(format: WeightFormat) -> int:
    return 1 if format == "bf16" else 256 if format.endswith("_k") else 32


class Trace(NotCopied):
    """A graph that grows while a function is traced."""

    _instead = "its tensors belong to the function that is traced"

    def __init__(self) -> None:
        self.builder = _core.GraphBuilder()
        self.inputs: list[str] = []
        self._constants = 0
        self._outputs = 0

    def input(self, name: str, array: AnyArray) -> "Tensor":
        self.inputs.append(name)
        return self.tensor(self.builder.input(name, _DTYPES[array.dtype], list(array.shape)))

    def constant(self, value: ArrayLike, what: str) -> "Tensor":
        name = f"constant{self._constants}"
        self._constants += 1
        if isinstance(value, Quantized):
            return self.tensor(self.builder.constant(name, value.format, list(value.shape), value.data))
        array = np.ascontiguousarray(checked(value, what))
        return self.tensor(self.builder.constant(name, _DTYPES[array.dtype], list(array.shape), array))

    def output(self, tensor: "Tensor") -> str:
        if tensor.output_name is None:
            name = self.new_output_name()
            self.builder.output(tensor.value, name)
            return name
        return tensor.output_name

    def new_output_name(self) -> str:
        self._outputs += 1
        return f"result {self._outputs}"

    def tensor(self, value: int, output_name: str | None = None) -> "Tensor":
        dtype, shape = self.builder.describe(value)
        return Tensor(self, value, tuple(shape), dtype, output_name)


class Tensor:
    """What a function under ``vkformer.Graph`` is given and gives: an array that is not computed yet."""

    __slots__ = ("dtype", "output_name", "shape", "trace", "value")
    __array_ufunc__ = None  # NumPy's operators leave it to this class

    def __init__(self, trace: Trace, value: int, shape: tuple[int, ...], dtype: str, output_name: str | None) -> None:
        self.trace = trace
        self.value = value
        self.shape = shape
        #: "f32", "f16", "i32"
        self.dtype = dtype
        self.output_name = output_name

    def __add__(self, other: "Tensor | ArrayLike") -> "Tensor":
        from . import ops

        return ops.add(self, other)

    def __radd__(self, other: "Tensor | ArrayLike") -> "Tensor":
        from . import ops

        return ops.add(other, self)

    def reshape(self, *shape: int) -> "Tensor":
        """``ops.reshape``."""
        from . import ops

        return ops.reshape(self, shape)

    def __repr__(self) -> str:
        return f"<vkformer.Tensor {self.dtype} {list(self.shape)}>"

    def _has_no_values(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a tensor of a graph has no values yet: what depends on them cannot be Python")

    __array__ = __bool__ = __float__ = __int__ = __len__ = __iter__ = __getitem__ = _has_no_values


def checked(value: ArrayLike, what: str) -> AnyArray:
    """The array, of a dtype that graphs have."""
    array = _inputs.array_of(value, what)
    if array.dtype not in _DTYPES:
        raise TypeError(f"{what} is of {array.dtype}, expected float32, float16 or int32{_hint(array.dtype)}")
    return array


def _hint(dtype: np.dtype[Any]) -> str:
    return f": {_HINTS[dtype.kind]}" if dtype.kind in _HINTS else ""


@dataclass(slots=True)
class _Compiled:
    program: _core.GraphProgram
    inputs: list[str]
    outputs: list[tuple[str, tuple[int, ...], npt.DTypeLike]]
    is_one: bool
    constants: list[object]  # whose ids are in the key


class Graph(NotCopied, Generic[R]):
    """A function of arrays that runs on a device: traced and compiled once for each kind of arguments.

        >>> attention = vkformer.Graph(vkformer.ops.attention, "auto")
        >>> found = attention(query, key, value, causal=True)          # NumPy arrays in, a NumPy array out

    function: called with ``vkformer.Tensor`` in place of arrays; it puts ``vkformer.ops`` together and gives a Tensor
        or a tuple of them. Arrays that it takes from elsewhere become constants, copied when it is compiled.
    device: a Vulkan device by index, UUID or part of its name; "auto": a GPU, else another Vulkan device; "cpu": the
        CPU backend.
    plain_shaders: the plain variant of every op. On the CPU, rows beside quantised weights stay float32 (they are
        rounded to 8 bits else).
    shader_variants: op → variant, as ``vkformer tune --list`` names them; where one does not fit, the first that does
        is taken, as without (nothing is measured). ``nodes`` says what ran.

    Calls from several threads wait for each other. The GIL is free while the device works; Ctrl-C is heard while it is
    waited for, but on the CPU backend. ``close()``, or the end of a ``with`` block, gives the device back. The programs
    of the last 16 kinds of arguments are kept.

    Raises: NoVulkanLoaderError, NoDeviceError, MissingFeatureError; InvalidArgumentError (an unknown op or variant,
    variants for the CPU).
    """

    _instead = "make one of the same function where it is needed"

    @overload
    def __init__(
        self: "Graph[AnyArray]",
        function: Callable[..., Tensor],
        device: str | int = "auto",
        *,
        plain_shaders: bool = False,
        shader_variants: Mapping[str, str] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "Graph[tuple[AnyArray, ...]]",
        function: Callable[..., tuple[Tensor, ...] | list[Tensor]],
        device: str | int = "auto",
        *,
        plain_shaders: bool = False,
        shader_variants: Mapping[str, str] | None = None,
    ) -> None: ...
    def __init__(
        self,
        function: Callable[..., Any],
        device: str | int = "auto",
        *,
        plain_shaders: bool = False,
        shader_variants: Mapping[str, str] | None = None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"function is of type {type(function).__name__}, expected a function of tensors")
        choice = _inputs.device_choice(device)
        variants = _inputs.variants_by_op(shader_variants)
        self._function = function
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._programs: OrderedDict[Any, _Compiled] = OrderedDict()
        self._last: _Compiled | None = None
        self._is_closed = False
        self._device = _core.GraphDevice(choice, bool(plain_shaders), variants)
        self._device_name = self._device.name()

    def __call__(self, *arguments: Any, **keywords: Any) -> R:
        """What the function gives, as new NumPy arrays: float32, float16 or int32.

        Arrays (NumPy's, or what has DLPack or a buffer; float32, float16, int32, 1 to 4 dimensions, contiguous,
        read-only ones too) are read where they lie. ``Quantized`` weights are constants: another one compiles anew.
        Everything else (None, bool, int, float, str, tuples of them) is handed to the function as it is.
        Raises: TypeError (another dtype), ValueError (another shape, lying in pieces), InvalidArgumentError,
            ShapeMismatchError,
        UnsupportedDtypeError (of an op, which the message names); what the function raises; DeviceLostError,
        VulkanError, MemoryError.
        """
        arrays: dict[str, AnyArray] = {}
        constants: list[object] = []
        given = [_kind(value, str(i), f"argument {i}", arrays, constants) for i, value in enumerate(arguments)]
        named = [(name, _kind(keywords[name], name, name, arrays, constants)) for name in sorted(keywords)]
        self._check_process()
        with self._lock:
            if self._is_closed:
                raise ValueError("the graph is closed")
            key = (tuple(given), tuple(named))
            compiled = self._programs.get(key)
            if compiled is None:
                compiled = self._compile(arguments, keywords, arrays, constants)
                self._programs[key] = compiled
                if len(self._programs) > _KEPT_PROGRAMS:
                    self._programs.popitem(last=False)[1].program.close()
            self._programs.move_to_end(key)
            self._last = compiled
            results = [np.empty(shape, dtype) for _, shape, dtype in compiled.outputs]
            compiled.program.run(
                self._device,
                [(name, arrays[name]) for name in compiled.inputs],
                [(name, result) for (name, _, _), result in zip(compiled.outputs, results, strict=True)],
            )
        return results[0] if compiled.is_one else tuple(results)  # type: ignore[return-value]

    async def call_async(self, *arguments: Any, **keywords: Any) -> R:
        """The same in a thread of asyncio's. A task that is cancelled leaves the call to its end."""
        return await asyncio.to_thread(self, *arguments, **keywords)

    def _compile(
        self,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        arrays: dict[str, AnyArray],
        constants: list[object],
    ) -> _Compiled:
        trace = Trace()

        def of(name: str, value: Any) -> Any:
            if name in arrays:
                return trace.input(name, arrays[name])
            return value.item() if isinstance(value, np.generic) else value

        found = self._function(
            *(of(str(i), value) for i, value in enumerate(arguments)),
            **{name: of(name, value) for name, value in keywords.items()},
        )
        is_one = isinstance(found, Tensor)
        results = [found] if is_one else found
        if not isinstance(results, (tuple, list)) or not results or not all(isinstance(r, Tensor) for r in results):
            raise TypeError(f"the function gave {found!r:.200}, expected a tensor of the graph or a tuple of them")
        if any(result.trace is not trace for result in results):
            raise ValueError("the function gave a tensor of another graph")
        outputs = [(trace.output(result), result.shape, _NUMPY_DTYPES[result.dtype]) for result in results]
        return _Compiled(_core.GraphProgram(self._device, trace.builder), trace.inputs, outputs, is_one, constants)

    @property
    def nodes(self) -> list[Node]:
        """What the last call ran, in order. Before the first call there are none."""
        self._check_process()
        with self._lock:
            if self._last is None or self._is_closed:
                return []
            return [Node(*fields) for fields in self._last.program.nodes()]

    @property
    def device(self) -> str:
        """The device's name: "llvmpipe (LLVM 15.0.6, 256 bits)"."""
        return self._device_name

    @property
    def closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Waits for what runs, and gives memory and device back. Every later call is a ValueError."""
        self._check_process()
        with self._lock:
            self._is_closed = True
            for compiled in self._programs.values():
                compiled.program.close()
            self._programs.clear()
            self._device.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        return f"<vkformer.Graph {name} {'closed' if self.closed else f'on {self.device!r}'}>"

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                "the graph was made before this process was forked and cannot be used in it: make it here, or start "
                'processes by "spawn"'
            )


def _kind(value: Any, name: str, what: str, arrays: dict[str, AnyArray], constants: list[object]) -> Any:
    """What a program is compiled for. Arrays are put into `arrays`, under their argument's name."""
    if isinstance(value, Quantized):
        constants.append(value)
        return ("constant", id(value))
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        return (type(value), value)
    if isinstance(value, tuple):
        return ("tuple", *(_kind(one, name, what, _NoArrays(what), constants) for one in value))
    if isinstance(value, (list, dict, set, bytes)):
        raise TypeError(f"{what} is of type {type(value).__name__}, expected a NumPy array")
    array = _inputs.contiguous(checked(value, what), what)
    arrays[name] = array
    return ("array", array.shape, _DTYPES[array.dtype])


class _NoArrays(dict[str, AnyArray]):
    """Arrays are arguments of their own."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __setitem__(self, name: str, array: AnyArray) -> None:
        raise TypeError(f"{self._what} is a tuple with an array, expected an array")
