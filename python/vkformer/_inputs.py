# SPDX-License-Identifier: MIT
"""What callers give, as the extension module takes it: checked here, so that mistakes are named in Python's words."""

import difflib
import inspect
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _core

Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Dtype: TypeAlias = Literal["f32", "f16"]
#: Adapters that count, by name: one, some, or a mapping to how much each counts, -1000 to 1000 (1: as it was trained).
AdapterChoice: TypeAlias = str | Iterable[str] | Mapping[str, SupportsFloat]
#: Samples or pixels: a NumPy array, or what has DLPack (torch, JAX, …), ``__array_interface__`` (Pillow) or a buffer.
ArrayLike: TypeAlias = Any

_DLPACK_CPU = 1
_UINT32_MAX = 2**32 - 1
_UINT64_MAX = 2**64 - 1


def path(value: Path) -> bytes:
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise ValueError(f"the path {value!r} has a null character")
    return encoded


def unexpected(where: str, name: str, known: Iterable[str]) -> TypeError:
    """The error for a keyword argument that the public call does not have."""
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return TypeError(f"{where} got an unexpected keyword argument {name!r}{hint}")


def common(
    model: type[Any], device: str | int, dtype: Dtype, given: Mapping[str, Any]
) -> tuple[_core.CommonOptions, Callable[[str], object] | None]:
    """What all models take, `given` by keyword to the class, and what is called while one loads."""
    names = list(inspect.signature(_common).parameters)
    for name in given:
        if name not in names[2:]:
            raise unexpected(f"{model.__name__}()", name, [*list(inspect.signature(model).parameters)[:-1], *names])
    return _common(device, dtype, **given)


def _common(
    device: str | int,
    dtype: Dtype,
    *,
    plain_shaders: bool = False,
    shader_variants: Mapping[str, str] | None = None,
    on_progress: Callable[[str], object] | None = None,
    offload: int | Literal["auto"] = 0,
) -> tuple[_core.CommonOptions, Callable[[str], object] | None]:
    name = device_choice(device)
    choice(dtype, "dtype", ("f32", "f16"))
    variants = variants_by_op(shader_variants)
    return _core.CommonOptions(name, dtype == "f16", bool(plain_shaders), variants, offload_bytes(offload)), on_progress


def offload_bytes(offload: int | Literal["auto"]) -> int:
    if offload == "auto":
        return _UINT64_MAX
    return uint(offload, "offload", _UINT64_MAX - 1)


def converts_weights(weights: str) -> bool:
    return choice(weights, "weights", ("model", "dtype")) == "dtype"


def device_choice(device: str | int) -> str:
    index = isinstance(device, int) and not isinstance(device, bool)
    return text(str(device) if index else device, "device")


def mapping(value: object, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} is {_kind(value)}, expected a mapping")
    return value


def variants_by_op(variants: Mapping[str, str] | None) -> dict[str, str]:
    given = {} if variants is None else mapping(variants, "shader_variants")
    return {text(op, "an op"): text(variant, f"the variant of {op}") for op, variant in given.items()}


def choice(value: str, what: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{what} is {value!r}, expected one of {', '.join(map(repr, choices))}")
    return value


def text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {_kind(value)}, expected str")
    return value


def texts(values: Iterable[str], what: str) -> list[str]:
    if isinstance(values, (bytes, bytearray, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"{what} is {_kind(values)}, expected a str or an iterable of them")
    return [text(value, f"{what}[{i}]") for i, value in enumerate(values)]


def adapters(folders: Mapping[str, Path] | None) -> list[tuple[str, bytes]]:
    """Names and paths."""
    given = {} if folders is None else mapping(folders, "adapters")
    return [(text(name, "a name of adapters"), path(folder)) for name, folder in given.items()]


def adapter_scales(value: AdapterChoice) -> list[tuple[str, float]]:
    """Names and how much each counts."""
    if isinstance(value, Mapping):
        return [(text(name, "a name of adapters"), real(scale, f"adapters[{name!r}]")) for name, scale in value.items()]
    names = [value] if isinstance(value, str) else texts(value, "adapters")
    return [(text(name, "a name of adapters"), 1.0) for name in names]


def pairs(values: Iterable[tuple[str, str]], what: str) -> list[tuple[str, str]]:
    result = []
    for i, value in enumerate(values):
        if isinstance(value, str) or len(value) != 2:
            raise ValueError(f"{what}[{i}] is {value!r}, expected two texts")
        first, second = value
        result.append((text(first, f"{what}[{i}][0]"), text(second, f"{what}[{i}][1]")))
    return result


def tokens(values: Iterable[SupportsIndex], what: str) -> list[int]:
    result = [operator.index(value) for value in values]
    for value in result:
        if not -(2**31) <= value < 2**31:
            raise ValueError(f"{what} has the token {value}, which is no 32-bit number")
    return result


def uint(value: SupportsIndex, what: str, most: int = _UINT32_MAX) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {_kind(value)}, expected an int") from None
    if not 0 <= number <= most:
        raise ValueError(f"{what} is {number}, expected 0 to {most}")
    return number


def seed(value: SupportsIndex) -> int:
    return uint(value, "seed", _UINT64_MAX)


def real(value: SupportsFloat, what: str) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{what} is {_kind(value)}, expected a number")
    try:
        number = float(value)
    except TypeError:
        raise TypeError(f"{what} is {_kind(value)}, expected a number") from None
    if math.isnan(number):
        raise ValueError(f"{what} is not a number (NaN)")
    return number


def optional_real(value: SupportsFloat | None, what: str) -> float | None:
    return None if value is None else real(value, what)


def samples(value: ArrayLike) -> npt.NDArray[np.float32]:
    array = array_of(value, "samples")
    if array.dtype != np.float32:
        hint = "samples / numpy.float32(32768)" if array.dtype == np.int16 else "samples.astype(numpy.float32)"
        raise TypeError(f"samples are {array.dtype}, expected float32 of full scale ±1: {hint}")
    if array.ndim != 1:
        raise ValueError(f"samples have shape {list(array.shape)}, expected one channel: [samples]")
    return contiguous(array, "samples")


def is_one_image(value: ArrayLike) -> bool:
    return isinstance(value, (str, os.PathLike)) or (not isinstance(value, (list, tuple)) and _ndim(value) == 3)


def images(values: ArrayLike) -> list[npt.NDArray[np.uint8]]:
    if isinstance(values, (list, tuple)):
        return [pixels(value, f"images[{i}]") for i, value in enumerate(values)]
    array = array_of(values, "images")
    if array.ndim != 4:
        raise ValueError(f"images have shape {list(array.shape)}, expected [images, height, width, 3] or a list")
    return [pixels(value, f"images[{i}]") for i, value in enumerate(array)]


def pixels(value: ArrayLike, what: str = "the image") -> npt.NDArray[np.uint8]:
    if isinstance(value, (str, os.PathLike)):
        return _core.load_image(path(value))
    array = array_of(value, what)
    if array.dtype != np.uint8:
        raise TypeError(f"{what} is of {array.dtype}, expected uint8")
    if array.ndim != 3 or array.shape[2] != 3:
        raise ValueError(f"{what} has shape {list(array.shape)}, expected [height, width, 3]: red, green and blue")
    if max(array.shape[:2]) > _UINT32_MAX:
        raise ValueError(f"{what} has shape {list(array.shape)}, which is too large")
    return contiguous(array, what)


def array_of(value: ArrayLike, what: str) -> npt.NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{what} is a masked array; fill it first: filled()")
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        try:
            if int(value.__dlpack_device__()[0]) != _DLPACK_CPU:
                raise BufferError("it lies on a device")
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(f"{what} cannot be read where it lies ({error}); copy it to the CPU first") from error
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"{what} is {_kind(value)}, expected a NumPy array") from None
    return np.asarray(view)


def _ndim(value: ArrayLike) -> int:
    return array_of(value, "the image").ndim


def contiguous(array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    if not array.flags.c_contiguous:
        raise ValueError(f"{what} lies in pieces (strides {list(array.strides)}): numpy.ascontiguousarray copies it")
    return array


def _kind(value: object) -> str:
    return f"of type {type(value).__name__}"
