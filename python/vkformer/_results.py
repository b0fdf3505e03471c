# SPDX-License-Identifier: MIT
"""What calls give. Results of one text print as that text."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Device:
    """A Vulkan device. Models take its ``index``, its ``uuid`` or a part of its ``name`` as ``device``."""

    index: int
    name: str
    type: str
    """"discrete", "integrated", "virtual", "cpu", "other"."""
    driver: str
    uuid: str
    vulkan: str
    """Version of Vulkan: "1.3.230"."""
    unusable: str
    """Why no model runs on it; empty: they do."""


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """What every head of one layer looks at; each row of ``weights`` sums to 1."""

    kind: Literal["encoder", "decoder", "cross"]
    layer: int
    weights: FloatArray
    """[heads, queries, keys], float32."""


@dataclass(frozen=True, slots=True)
class Translation:
    text: str
    tokens: list[int]
    """As Hugging Face's generate() returns them, start token first; empty for a blank text."""
    score: float | None
    """The score of a beam search: Σ log p / length^length_penalty."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """A translation and what every head looked at on the way to it. Tokens are the tokenizer's pieces."""

    translation: Translation
    source: list[str]
    """Read by the encoder."""
    read: list[str]
    """Read by the decoder, the start token first: one for each query of the decoder."""
    written: list[str]
    """Written by it: ``read``, one step later."""
    weights: list[AttentionWeights]


@dataclass(frozen=True, slots=True)
class Generation:
    text: str
    """What follows the prompt."""
    tokens: list[int]
    """The generated ones, the end token included."""
    finish: Literal["end_token", "stop_string", "length", "context", "caller"]
    prompt_tokens: int
    reused_tokens: int
    """Tokens of the prompt that were in the caches from the generation before."""
    score: float | None
    """The score of a beam search."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class GenerationTimings:
    """What a call took, in seconds of wall time."""

    prompt_seconds: float
    decode_seconds: float
    prompt_tokens: int
    """Computed; those reused are not counted."""
    decode_steps: int
    """Each gives a token of every sequence in the batch."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    vectors: FloatArray
    """[texts, dimension], float32."""
    tokens: list[int]
    """Read of each text, special ones included."""
    cut: list[int]
    """Left out of each text, because the model takes no more."""


@dataclass(frozen=True, slots=True)
class Ranked:
    index: int
    """Of the passage, in the order in which they were given."""
    score: float
    text: str


@dataclass(frozen=True, slots=True)
class ImageLabel:
    label: str
    index: int
    """Into ``ImageClassifier.labels``."""
    logit: float
    probability: float
    """Softmax over the labels; a sigmoid where any of them may be; the logit of a regression."""


@dataclass(frozen=True, slots=True)
class Segment:
    """What was said from one time to another; without timestamps, in one window."""

    start: float
    """Seconds from the first sample."""
    end: float
    text: str
    """As the model wrote it: most begin with a space."""
    tokens: list[int]
    temperature: float
    """At which its window was decoded."""
    average_log_prob: float
    """Of the window's tokens."""
    no_speech: float
    """Probability that nobody speaks in the window."""
    compression_ratio: float
    """Of the window's tokens."""


@dataclass(frozen=True, slots=True)
class Transcription:
    text: str
    language: str
    """Given or heard; empty for a model of one language."""
    segments: list[Segment]

    def __str__(self) -> str:
        return self.text
