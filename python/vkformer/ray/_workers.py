# SPDX-License-Identifier: MIT
"""Models as what Ray Data maps batches of rows with."""

import dataclasses
import io
import json
import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from ray.data.block import BlockAccessor
from ray.data.extensions import ArrowTensorArray

from .. import _encoders, _generator, _images, _transcriber, _translator
from .._errors import DeviceLostError
from .._inputs import Path
from .._model import Model
from ._places import place

Errors = Literal["raise", "column"]
#: What a new column has.
Kind = Literal["text", "number", "vector"]
#: Of a row, what the columns have that are read; or what the new columns get.
Row: TypeAlias = tuple[Any, ...]
M = TypeVar("M", bound=Model[Any])

#: What is wrong with a row, not with the device or the model.
_OF_A_ROW = (TypeError, ValueError, ArithmeticError, NotImplementedError)

_MOST_CHANNELS = 32


class Worker(Generic[M]):
    """A model on one device that adds columns to batches, for ``Dataset.map_batches`` with batch_format "pyarrow".

    path: the model, as every node sees it.
    device: as of the model; None: what Ray has assigned: a Vulkan device where the worker has the resource
        "vkformer_device" (``on_devices()``), which no other worker has then, or its part of one; else the CPU backend.
        That, given or not, runs on as many processors as ``num_cpus`` says (``on_cpus()``).
    errors: what becomes of a row that the model does not take (a text with too many tokens, sound that is no sound).
        "raise": the job ends with it. "column": the row has null, or a vector of NaN, and says why in the column
        "error", which is null of the others.
    Further keyword arguments: those of the model.

    Where the device is lost, the model is loaded anew and the batch done again, once. Columns that are not read stay as
    they are.
    """

    def __init__(
        self,
        model: Callable[..., M],
        path: Path,
        device: str | int | None,
        columns: Sequence[str],
        outputs: Mapping[str, Kind],
        errors: Errors,
        options: Mapping[str, Any],
    ) -> None:
        if errors not in ("raise", "column"):
            raise ValueError(f"errors is {errors!r}, expected 'raise' or 'column'")
        self._columns = list(columns)
        self._outputs: dict[str, Kind] = {**outputs}
        self._tells = errors == "column"
        if self._tells:
            if "error" in self._outputs:
                raise ValueError("the column 'error' says what is wrong with a row: give another one its name")
            self._outputs["error"] = "text"
        chosen, self._claims = place(device)
        self._load: Callable[[], M] = lambda: model(path, chosen, **options)
        self._model = self._load()

    @property
    def model(self) -> M:
        return self._model

    @abstractmethod
    def _run(self, rows: list[Row], first: int) -> list[Row]:
        """What the new columns get, row by row; ``first``: the place of the first one in its batch."""

    def __call__(self, batch: pa.Table) -> pa.Table:
        if not isinstance(batch, pa.Table):
            raise TypeError(f'batches are of type {type(batch).__name__}: give map_batches batch_format="pyarrow"')
        absent = [name for name in self._columns if name not in batch.column_names]
        if absent:
            raise ValueError(f"the rows have no column {absent[0]!r}, but {', '.join(map(repr, batch.column_names))}")
        there = [name for name in self._outputs if name in batch.column_names]
        if there:
            raise ValueError(f"the rows have a column {there[0]!r} already: give the new one another name")
        read = BlockAccessor.for_block(batch.select(self._columns)).to_numpy(self._columns)
        rows: list[Row] = list(zip(*(read[name] for name in self._columns), strict=True))
        try:
            made = self._run_or_tell(rows)
        except DeviceLostError:
            self._model.close()
            self._model = self._load()
            made = self._run_or_tell(rows)
        for i, (name, kind) in enumerate(self._outputs.items()):
            batch = batch.append_column(name, self._column(kind, [row[i] for row in made]))
        return batch

    def _run_or_tell(self, rows: list[Row]) -> list[Row]:
        if not rows:
            return []
        if not self._tells:
            return self._run(rows, 0)
        try:
            return [(*row, None) for row in self._run(rows, 0)]
        except _OF_A_ROW:
            return [self._alone(row, i) for i, row in enumerate(rows)]

    def _alone(self, row: Row, place_in_batch: int) -> Row:
        try:
            return (*self._run([row], place_in_batch)[0], None)
        except _OF_A_ROW as error:
            return (*[None] * (len(self._outputs) - 1), f"{type(error).__name__}: {error}")

    def _column(self, kind: Kind, values: list[Any]) -> pa.Array:
        if kind != "vector":
            return pa.array(values, pa.string() if kind == "text" else pa.float32())
        dimension: int = self._model.dimension  # type: ignore[attr-defined]
        vectors = np.full((len(values), dimension), np.nan, np.float32)
        for vector, value in zip(vectors, values, strict=True):
            if value is not None:
                vector[:] = value
        return ArrowTensorArray.from_numpy(vectors)


def _named(*columns: tuple[str | None, Kind]) -> dict[str, Kind]:
    """Columns by their names: those that have one."""
    named: dict[str, Kind] = {}
    for name, kind in columns:
        if name in named:
            raise ValueError(f"two of the new columns have the name {name!r}")
        if name is not None:
            named[name] = kind
    return named


class Embedder(Worker[_encoders.Embedder]):
    """Texts to vectors: ``output``, float32 [dimension]. Further arguments: vkformer.Embedder's, and Worker's."""

    def __init__(
        self,
        path: Path,
        device: str | int | None = None,
        *,
        input: str = "text",
        output: str = "embedding",
        errors: Errors = "raise",
        **options: Any,
    ) -> None:
        super().__init__(_encoders.Embedder, path, device, [input], {output: "vector"}, errors, options)

    def _run(self, rows: list[Row], first: int) -> list[Row]:
        return [(vector,) for vector in self._model.embed(_strings(rows, self._columns))]


class Reranker(Worker[_encoders.Reranker]):
    """Pairs of texts to ``output``, a number: how well the text answers the query. For models with one label.

    Further keyword arguments: vkformer.Reranker's, and Worker's.
    """

    def __init__(
        self,
        path: Path,
        device: str | int | None = None,
        *,
        query: str = "query",
        text: str = "text",
        output: str = "score",
        errors: Errors = "raise",
        **options: Any,
    ) -> None:
        super().__init__(_encoders.Reranker, path, device, [query, text], {output: "number"}, errors, options)

    def _run(self, rows: list[Row], first: int) -> list[Row]:
        scores = self._model.score(rows)
        if scores.ndim != 1:
            raise RuntimeError(f"the model has {scores.shape[1]} labels, where one is expected")
        return [(score,) for score in scores.tolist()]


class _Writer(Worker[M]):
    """Writes a text for each row, and, where a column ``details`` is named, all that is known of it, as JSON."""

    @abstractmethod
    def _results(self, rows: list[Row], first: int) -> list[Any]: ...

    def _run(self, rows: list[Row], first: int) -> list[Row]:
        has_details = len(self._outputs) - self._tells > 1
        return [(one.text, _json(one)) if has_details else (one.text,) for one in self._results(rows, first)]


class Translator(_Writer[_translator.Translator]):
    """Texts to translations: ``output``, a text; ``details``: the Translation (tokens, score, the next best) as JSON.

    Further keyword arguments: vkformer.Translator's, and Worker's.
    """

    def __init__(
        self,
        path: Path,
        device: str | int | None = None,
        *,
        input: str = "text",
        output: str = "translation",
        details: str | None = None,
        errors: Errors = "raise",
        **options: Any,
    ) -> None:
        outputs = _named((output, "text"), (details, "text"))
        super().__init__(_translator.Translator, path, device, [input], outputs, errors, options)

    def _results(self, rows: list[Row], first: int) -> list[Any]:
        return self._model.translate(_strings(rows, self._columns))


class Generator(_Writer[_generator.Generator]):
    """Prompts to what a language model goes on with: ``output``, a text; ``details``: the Generation as JSON.

    input: a column of prompts, or of conversations: lists of {"role": …, "content": …}, which the model's template puts
        into words.
    arguments: vkformer.GenerateArguments. Prompt i of a batch draws with seed + i, so that what is drawn depends on how
        rows are put into batches; where it must not, temperature=0.
    Further keyword arguments: vkformer.Generator's, and Worker's.
    """

    def __init__(
        self,
        path: Path,
        device: str | int | None = None,
        *,
        input: str = "prompt",
        output: str = "text",
        details: str | None = None,
        arguments: _generator.GenerateArguments | None = None,
        errors: Errors = "raise",
        **options: Any,
    ) -> None:
        outputs = _named((output, "text"), (details, "text"))
        super().__init__(_generator.Generator, path, device, [input], outputs, errors, options)
        self._arguments: _generator.GenerateArguments = arguments or {}

    def _results(self, rows: list[Row], first: int) -> list[Any]:
        seed = operator.index(self._arguments.get("seed", 0)) + first
        if all(isinstance(prompt, str) for (prompt,) in rows):
            arguments: _generator.GenerateArguments = {**self._arguments, "seed": seed}
            return self._model.generate([str(prompt) for (prompt,) in rows], **arguments)
        return [self._answer(prompt, seed + i) for i, (prompt,) in enumerate(rows)]

    def _answer(self, prompt: Any, seed: int) -> Any:
        arguments: _generator.GenerateArguments = {**self._arguments, "seed": seed}
        if isinstance(prompt, str):
            return self._model.generate(prompt, **arguments)
        return self._model.chat(_conversation(prompt, self._columns[0]), **arguments)


class Transcriber(_Writer[_transcriber.Transcriber]):
    """Sound to what is said in it: ``output``, a text; ``details``: the Transcription (language, segments) as JSON.

    input: a column of sound files as bytes (``ray.data.read_binary_files``: WAV, FLAC, Ogg, MP3, …), or of float32
        samples, [samples] or [channels, samples] as ``ray.data.read_audio`` has them; channels are averaged.
    sample_rate: for samples, the column of their rates; None: they have the model's.
    Further keyword arguments: vkformer.Transcriber's, and Worker's.
    """

    def __init__(
        self,
        path: Path,
        device: str | int | None = None,
        *,
        input: str = "bytes",
        sample_rate: str | None = None,
        output: str = "text",
        details: str | None = None,
        errors: Errors = "raise",
        **options: Any,
    ) -> None:
        columns = [input] if sample_rate is None else [input, sample_rate]
        outputs = _named((output, "text"), (details, "text"))
        super().__init__(_transcriber.Transcriber, path, device, columns, outputs, errors, options)

    def _results(self, rows: list[Row], first: int) -> list[Any]:
        return [self._model.transcribe(self._samples(*row)) for row in rows]

    def _samples(self, sound: Any, rate: Any = None) -> npt.NDArray[np.float32]:
        own = self._model.sample_rate
        if isinstance(sound, bytes):
            samples, rate = _read_sound(sound)
        else:
            samples, rate = _channels(sound), own if rate is None else int(rate)
        if rate < 1:
            raise ValueError(f"sound has {rate} samples a second")
        one = samples.mean(axis=0, dtype=np.float32)
        if rate != own:
            import soxr

            one = soxr.resample(one, rate, own)
        return np.ascontiguousarray(one, np.float32)


class ImageClassifier(Worker[_images.ImageClassifier]):
    """Images to the likeliest label: ``output``, a text, and ``probability``, a number.

    input: a column of pixels, uint8 [height, width, 3] as ``ray.data.read_images`` has them, or of files as bytes.
    Further keyword arguments: vkformer.ImageClassifier's, and Worker's.
    """

    def __init__(
        self,
        path: Path,
        device: str | int | None = None,
        *,
        input: str = "image",
        output: str = "label",
        probability: str = "probability",
        errors: Errors = "raise",
        **options: Any,
    ) -> None:
        outputs = _named((output, "text"), (probability, "number"))
        super().__init__(_images.ImageClassifier, path, device, [input], outputs, errors, options)

    def _run(self, rows: list[Row], first: int) -> list[Row]:
        found = self._model.classify([_pixels(image) for (image,) in rows], top_k=1)
        return [(best[0].label, best[0].probability) for best in found]


class ImageEmbedder(Worker[_images.ImageEmbedder]):
    """Images to vectors: ``output``, float32 [dimension]. Input as of ImageClassifier.

    Further keyword arguments: vkformer.ImageEmbedder's, and Worker's.
    """

    def __init__(
        self,
        path: Path,
        device: str | int | None = None,
        *,
        input: str = "image",
        output: str = "embedding",
        errors: Errors = "raise",
        **options: Any,
    ) -> None:
        super().__init__(_images.ImageEmbedder, path, device, [input], {output: "vector"}, errors, options)

    def _run(self, rows: list[Row], first: int) -> list[Row]:
        return [(vector,) for vector in self._model.embed_images([_pixels(image) for (image,) in rows])]


def _strings(rows: list[Row], columns: Sequence[str]) -> list[str]:
    for (text,) in rows:
        if not isinstance(text, str):
            raise TypeError(f"the column {columns[0]!r} has {type(text).__name__}, expected str")
    return [text for (text,) in rows]


def _conversation(turns: Any, column: str) -> list[dict[str, str]]:
    if not isinstance(turns, list | tuple | np.ndarray) or not all(isinstance(turn, Mapping) for turn in turns):
        raise TypeError(f"the column {column!r} has {type(turns).__name__}, expected str or a list of messages")
    return [dict(turn) for turn in turns]


def _json(result: Any) -> str:
    return json.dumps(_as_json(dataclasses.asdict(result)), ensure_ascii=False, allow_nan=False)


def _as_json(value: Any) -> Any:
    """With null in place of what JSON has no number for: the log-probability of what a rule forbids."""
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _pixels(image: Any) -> Any:
    return _images.decode_image(image) if isinstance(image, bytes) else np.ascontiguousarray(image)


def _channels(samples: Any) -> npt.NDArray[np.float32]:
    """[channels, samples] of what a row has."""
    given = np.asarray(samples)
    if given.dtype.kind != "f":
        raise TypeError(f"samples are of type {given.dtype}, expected floats of full scale 1: divide by 32768, say")
    if given.ndim not in (1, 2) or (given.ndim == 2 and given.shape[0] > _MOST_CHANNELS):
        raise ValueError(f"samples have the shape {list(given.shape)}, expected [samples] or [channels, samples]")
    return np.atleast_2d(given.astype(np.float32, copy=False))


def _read_sound(file: bytes) -> tuple[npt.NDArray[np.float32], int]:
    """[channels, samples] and their rate."""
    import soundfile

    try:
        samples, rate = soundfile.read(io.BytesIO(file), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise ValueError(f"the sound cannot be read: {error.error_string}") from error
    return samples.T, rate
