# SPDX-License-Identifier: MIT
"""What calls give. Results of one text print as that text."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _heat_map

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


AttentionKind = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """What every head of one layer looks at; each row of ``weights`` sums to 1. A notebook shows its heads side by side."""

    kind: AttentionKind
    layer: int
    """From 0."""
    weights: FloatArray
    """[heads, queries, keys], float32."""
    queries: list[str] = field(default_factory=list)
    """The tokens that look, as the tokenizer's pieces; of what is no text, none."""
    keys: list[str] = field(default_factory=list)
    """The tokens that are looked at."""
    heads: tuple[int, ...] | None = None
    """Which heads of the layer ``weights`` has, from 0; None: all."""

    def only(self, head: int) -> "AttentionWeights":
        """The same with one head. Raises: IndexError."""
        heads = self._heads()
        if head not in heads:
            raise IndexError(f"the layer has no head {head}, but {', '.join(map(str, heads))}")
        at = heads.index(head)
        return AttentionWeights(self.kind, self.layer, self.weights[at : at + 1], self.queries, self.keys, (head,))

    def _heads(self) -> tuple[int, ...]:
        return tuple(range(len(self.weights))) if self.heads is None else self.heads

    def _panels(self) -> list[_heat_map.Panel]:
        return [
            _heat_map.Panel(f"layer {self.layer + 1}, head {head + 1}", weights)
            for head, weights in zip(self._heads(), self.weights, strict=True)
        ]

    def _repr_svg_(self) -> str:
        return _heat_map.draw("Attention", _SUBTITLE, _sections([self]))


_SUBTITLE = "Attention weights; layers and heads are counted from 1"
_TITLES: dict[AttentionKind, tuple[str, str, str]] = {
    "cross": ("Cross-attention", "token being written", "source token it looks at"),
    "encoder": ("Encoder self-attention", "source token", "source token it looks at"),
    "decoder": ("Decoder self-attention", "token being written", "token read before"),
}


def _sections(weights: list[AttentionWeights]) -> list[_heat_map.Section]:
    sections = []
    for kind, (title, queries, keys) in _TITLES.items():
        layers = [layer for layer in weights if layer.kind == kind]
        if not layers:
            continue
        axes = f"rows: {queries}   columns: {keys}" if layers[0].queries else "rows: queries   columns: keys"
        panels = [layer._panels() for layer in layers]
        sections.append(_heat_map.Section(title, axes, layers[0].queries, layers[0].keys, panels))
    return sections


@dataclass(frozen=True, slots=True)
class Translation:
    text: str
    tokens: list[int]
    """As Hugging Face's generate() returns them, start token first; empty for a blank text."""
    score: float | None
    """The score of a beam search: Σ log p / length^length_penalty."""
    further: "list[Translation]" = field(default_factory=list)
    """The next best of the search, in falling score: ``hypotheses`` − 1 of them at most."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """A translation and what every head looked at on the way to it. Tokens are the tokenizer's pieces.

    A notebook shows it as ``vkformer attention`` draws it; ``only(kind="cross", layer=0)`` shows less.
    """

    text: str
    """That was translated."""
    translation: Translation
    source: list[str]
    """Read by the encoder."""
    read: list[str]
    """Read by the decoder, the start token first: one for each query of the decoder."""
    written: list[str]
    """Written by it: ``read``, one step later."""
    weights: list[AttentionWeights]

    def only(
        self, kind: AttentionKind | None = None, layer: int | None = None, head: int | None = None
    ) -> "AttentionMaps":
        """The same with the weights of one kind, layer and head, from 0; None: all. Raises: IndexError (there are none)."""
        found = [
            w if head is None else w.only(head)
            for w in self.weights
            if (kind is None or w.kind == kind) and (layer is None or w.layer == layer)
        ]
        if not found:
            raise IndexError(f"there are no weights of kind {kind}, layer {layer}")
        return AttentionMaps(self.text, self.translation, self.source, self.read, self.written, found)

    def svg(self) -> str:
        """The picture: every head of every layer."""
        return _heat_map.draw(f"{self.text} → {self.translation.text}", _SUBTITLE, _sections(self.weights))

    def _repr_svg_(self) -> str:
        return self.svg()


@dataclass(frozen=True, slots=True)
class StepLogProbs:
    """Natural logarithms of the model's probabilities, before temperature, biases, penalties and all other rules."""

    token: int
    """The one that was generated, likely or not."""
    log_prob: float
    likeliest: list[tuple[int, float]]
    """Tokens and their log-probabilities, in falling order."""


@dataclass(frozen=True, slots=True)
class TextScores:
    """How likely a model finds a text that is given."""

    tokens: list[int]
    """As the model reads or writes them, special ones included."""
    log_probs: list[StepLogProbs]
    """Of each of ``tokens`` but the first, before which there is nothing: ``token`` is that one."""

    @property
    def log_prob(self) -> float:
        """Σ log p, of the text as a whole."""
        return math.fsum(step.log_prob for step in self.log_probs)

    @property
    def perplexity(self) -> float:
        """exp(−Σ log p / n) of the n tokens that have a probability; NaN of none."""
        if not self.log_probs:
            return math.nan
        try:
            return math.exp(-self.log_prob / len(self.log_probs))
        except OverflowError:
            return math.inf


def text_scores(found: list[Any]) -> list[TextScores]:
    """Of what the extension gives."""
    return [TextScores(tokens, [StepLogProbs(*step) for step in steps]) for tokens, steps in found]


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to go on at a place of a translation."""

    token: int
    log_prob: float
    """Of the token in that place, before all rules."""
    piece: str
    """The token as the tokenizer spells it."""
    translation: Translation
    """With that token; its score, of a beam search, is of what was generated behind it."""

    def __str__(self) -> str:
        return self.translation.text


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
    log_probs: list[StepLogProbs]
    """Of each of ``tokens``, where ``log_probs`` was asked for; else empty."""
    stop: str | None = None
    """The text of ``stop`` that ended it; None: none did."""

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
    """Each gives a token of every sequence in the batch, and the right guesses."""
    guessed_tokens: int
    accepted_tokens: int
    """In all, and the right ones."""


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
class Word:
    """A word of a segment, with what punctuation stands at it."""

    text: str
    """As the model wrote it: most begin with a space."""
    start: float
    """Seconds from the first sample."""
    end: float
    probability: float
    """The mean of its tokens' probabilities when they were written: among the tokens that the model's rules let follow."""


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
    words: list[Word] = field(default_factory=list)
    """With ``word_timestamps`` only; joined they are the text."""
    heard_from: float = 0.0
    """Seconds from the first sample to its window; of a model without a decoder, ``start``."""


@dataclass(frozen=True, slots=True)
class Transcription:
    text: str
    language: str
    """Given or heard; empty for a model of one language, or of speech that is not there."""
    segments: list[Segment]

    def __str__(self) -> str:
        return self.text
