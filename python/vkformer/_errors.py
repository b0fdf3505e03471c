# SPDX-License-Identifier: MIT
"""The library's errors as exceptions."""

import errno
from typing import Any


class Error(Exception):
    """What the library refuses or fails with; the message says what was asked, what was found and what to do.

    ``code`` is the error's name in the library ("file_not_found"), ``vk`` the VkResult where a Vulkan call failed, else 0.
    Each code has a class of its own below this one, which also is what Python has for such a case: ``ValueError``,
    ``FileNotFoundError``, ``MemoryError``, …
    """

    code: str = "unknown"

    def __init__(self, message: str, vk: int = 0) -> None:
        super().__init__(message)
        self.vk = vk

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), self.vk))


class InvalidArgumentError(Error, ValueError):
    """A value outside its documented range, a text that is not UTF-8, samples that are no finite numbers, …"""

    code = "invalid_argument"


class ShapeMismatchError(Error, ValueError):
    """Tensors of a model whose shapes do not fit each other."""

    code = "shape_mismatch"


class UnsupportedDtypeError(Error, ValueError):
    """A dtype that the device or the file format does not take."""

    code = "unsupported_dtype"


class UnsupportedConfigError(Error, NotImplementedError):
    """A model whose arithmetic is not implemented; the message names the field."""

    code = "unsupported_config"


class MissingFileError(Error, FileNotFoundError):
    """A file that is missing or cannot be opened."""

    code = "file_not_found"

    def __init__(self, message: str, vk: int = 0) -> None:
        super().__init__(message, vk)
        self.errno = errno.ENOENT


class CorruptFileError(Error, ValueError):
    """A file that is truncated, contradicts itself or is not of its format."""

    code = "corrupt_file"


class MissingTensorError(Error, ValueError):
    """A weight that the model needs and the file lacks."""

    code = "missing_tensor"


class NoVulkanLoaderError(Error, RuntimeError):
    """libvulkan.so.1 is not installed; ``device="cpu"`` does without."""

    code = "no_vulkan_loader"


class NoDeviceError(Error, RuntimeError):
    """No Vulkan device fits the request."""

    code = "no_device"


class MissingFeatureError(Error, RuntimeError):
    """The device lacks a feature or a limit that the work needs."""

    code = "missing_feature"


class OutOfHostMemoryError(Error, MemoryError):
    """The host's memory does not suffice."""

    code = "out_of_host_memory"


class OutOfDeviceMemoryError(Error, MemoryError):
    """The device's memory does not suffice."""

    code = "out_of_device_memory"


class DeviceLostError(Error, RuntimeError):
    """The driver gave the device up; load the model again."""

    code = "device_lost"


class VulkanError(Error, RuntimeError):
    """Another failing Vulkan call; ``vk`` says which code."""

    code = "vulkan"


class CancelledError(Error, RuntimeError):
    """A call that somebody else has stopped, as ``close()`` of the model stops its streams."""

    code = "cancelled"


class NotANumberError(Error, ArithmeticError):
    """A model gave NaN for the next token, as float16 may make it; ``dtype="f32"`` helps."""

    code = "not_a_number"


class UnknownFieldWarning(UserWarning):
    """A model's files have a field, a key or a tensor that nobody knows: the model goes on without it.

    ``warnings.simplefilter("error", vkformer.UnknownFieldWarning)`` refuses such models.
    """


_classes: dict[str, type[Error]] = {cls.code: cls for cls in Error.__subclasses__()}


def from_library(message: str, code: str, vk: int) -> Error:
    """The exception for an error of the library; the extension module calls this."""
    return _classes.get(code, Error)(message, vk)
