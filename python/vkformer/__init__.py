# SPDX-License-Identifier: MIT
"""Transformer forward passes on any GPU, through Vulkan compute, or on the CPU.

    >>> import vkformer
    >>> with vkformer.Translator("samples/models/date-normalizer") as translator:
    ...     print(translator.translate("4. März 2021"))
    2021-03-04

Translator, Generator, Chat, Embedder, Reranker, Transcriber, ImageClassifier and ImageEmbedder are loaded with
``X(path, device="auto", dtype="f32", …)``. docs/python.md has examples of each.
"""

from . import _main_interpreter as _main_interpreter  # before the extension module is loaded

# isort: split
from . import _core, bench, ops
from ._chat import Chat
from ._encoders import Embedder, Reranker
from ._errors import (
    CancelledError,
    CorruptFileError,
    DeviceLostError,
    Error,
    InvalidArgumentError,
    MissingFeatureError,
    MissingFileError,
    MissingTensorError,
    NoDeviceError,
    NotANumberError,
    NoVulkanLoaderError,
    OutOfDeviceMemoryError,
    OutOfHostMemoryError,
    ShapeMismatchError,
    UnknownFieldWarning,
    UnsupportedConfigError,
    UnsupportedDtypeError,
    VulkanError,
)
from ._generator import GenerateArguments, Generator, Message, ScoreArguments
from ._graph import Graph, Node, Quantized, Tensor, quantize
from ._images import ImageClassifier, ImageEmbedder, decode_image, load_image
from ._model import CommonArguments, Model
from ._pool import Pool
from ._results import (
    Alternative,
    AttentionMaps,
    AttentionWeights,
    Device,
    Embeddings,
    Generation,
    GenerationTimings,
    ImageLabel,
    Ranked,
    Segment,
    StepLogProbs,
    TextScores,
    Transcription,
    Translation,
    Word,
)
from ._streams import AsyncTextStream, TextStream
from ._transcriber import Transcriber
from ._translator import Translator
from ._voice_activity import VadParameters, VoiceActivityDetector

__version__: str = _core.version


def devices() -> list[Device]:
    """The Vulkan devices, in the loader's order; "cpu", the CPU backend, is none of them.

    Raises: NoVulkanLoaderError (libvulkan.so.1 is not installed), NoDeviceError (no driver), VulkanError.
    """
    return [Device(*fields) for fields in _core.devices()]


__all__ = [
    "Alternative",
    "AsyncTextStream",
    "AttentionMaps",
    "AttentionWeights",
    "CancelledError",
    "Chat",
    "CommonArguments",
    "CorruptFileError",
    "Device",
    "DeviceLostError",
    "Embedder",
    "Embeddings",
    "Error",
    "GenerateArguments",
    "Generation",
    "GenerationTimings",
    "Generator",
    "Graph",
    "ImageClassifier",
    "ImageEmbedder",
    "ImageLabel",
    "InvalidArgumentError",
    "Message",
    "MissingFeatureError",
    "MissingFileError",
    "MissingTensorError",
    "Model",
    "NoDeviceError",
    "NoVulkanLoaderError",
    "NotANumberError",
    "Node",
    "OutOfDeviceMemoryError",
    "OutOfHostMemoryError",
    "Quantized",
    "Pool",
    "Ranked",
    "Reranker",
    "ScoreArguments",
    "Segment",
    "ShapeMismatchError",
    "StepLogProbs",
    "TextScores",
    "Tensor",
    "TextStream",
    "Transcriber",
    "Transcription",
    "Translation",
    "Translator",
    "UnknownFieldWarning",
    "UnsupportedConfigError",
    "UnsupportedDtypeError",
    "VadParameters",
    "VoiceActivityDetector",
    "VulkanError",
    "Word",
    "bench",
    "decode_image",
    "devices",
    "load_image",
    "ops",
    "quantize",
]
