# SPDX-License-Identifier: MIT
"""Models as what Ray Data maps batches of rows with."""

import dataclasses
import io
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from .. import _encoders, _generator, _images, _transcriber, _translator
from .._errors import DeviceLostError
from .._inputs import Path
from .._model import Model
from ._places import place

Batch = dict[str, Any]
Errors = Literal["raise", "column"]
M = TypeVar("M", bound=Model[Any])

#: What is wrong with a row, not with the device or the model.
_OF_A_ROW = (TypeError, ValueError, ArithmeticError, NotImplementedError)


class Worker(Generic[M]):
    """A model on one device that adds columns to batches, for ``Dataset.map_batches`` (batch_format "numpy", its default).

    path: the model, as every node sees it.
    device: as of the model; None: what Ray has assigned: a Vulkan device where the worker has the resource
        "vkformer_device" (``on_devices()``), which no other worker has then, or its part of one; else the CPU backend on as
        many processors as ``num_cpus`` says (``on_cpus()``).
    errors: what becomes of a row that the model does not take (a text with too many tokens, sound that is no sound).
        "raise": the job ends with it. "column": the row has None, and says why in the column "error", which is None of
        the others; floats are NaN.
    Further keyword arguments: those of the model.

    Where the device is lost, the model is loaded anew and the batch done again, once.
    """

    def __init__(
        self,
        model: Callable[..., M],
        path: Path,
        device: str | int | None,
        columns: Sequence[str],
        outputs: Sequence[str | None],
        errors: Errors,
        options: Mapping[str, Any],
    ) -> None:
        if errors not in ("raise", "column"):
            raise ValueError(f"errors is {errors!r}, expected 'raise' or 'column'")
        self._columns = columns
        self._outputs = [name for name in outputs if name is not None]
        self._errors = errors
        self._added = [*self._outputs, *(["error"] if errors == "column" else [])]
        if len(set(self._added)) < len(self._added):
            raise ValueError(f"two of the columns {', '.join(self._added)} have one name")
        chosen, self._claims = place(device)
        self._load: Callable[[], M] = lambda: model(path, chosen, **options)
        self._model = self._load()

    @property
    def model(self) -> M:
        return self._model

    @abstractmethod
    def _run(self, rows: list[tuple[Any, ...]]) -> Batch:
        """The new columns of some rows, at least one; of each what the columns have that are read."""

    @abstractmethod
    def _missing(self) -> Batch:
        """The new columns of a row that failed: a value for each."""

    def __call__(self, batch: Batch) -> Batch:
        absent = [name for name in self._columns if name not in batch]
        if absent:
            raise ValueError(f"the rows have no column {absent[0]!r}, but {', '.join(map(repr, batch))}")
        there = [name for name in self._added if name in batch]
        if there:
            raise ValueError(f"the rows have a column {there[0]!r} already: give the new one another name")
        rows = list(zip(*(batch[name] for name in self._columns), strict=True))
        if not rows:
            return {**batch, **self._columns_of([])}
        try:
            return {**batch, **self._run_or_tell(rows)}
        except DeviceLostError:
            self._model.close()
            self._model = self._load()
            return {**batch, **self._run_or_tell(rows)}

    def _run_or_tell(self, rows: list[tuple[Any, ...]]) -> Batch:
        if self._errors == "raise":
            return self._run(rows)
        try:
            return {**self._run(rows), "error": _texts([None] * len(rows))}
        except _OF_A_ROW:
            return self._columns_of([self._alone(row) for row in rows])

    def _alone(self, row: tuple[Any, ...]) -> Batch:
        try:
            return {**{name: column[0] for name, column in self._run([row]).items()}, "error": None}
        except _OF_A_ROW as error:
            return {**self._missing(), "error": f"{type(error).__name__}: {error}"}

    def _columns_of(self, rows: list[Batch]) -> Batch:
        empty = {**self._missing(), **({"error": None} if self._errors == "column" else {})}
        return {
            name: _texts([row[name] for row in rows])
            if kind is None
            else np.asarray([row[name] for row in rows], np.float32).reshape(len(rows), *np.shape(kind))
            for name, kind in empty.items()
        }


class Embedder(Worker[_encoders.Embedder]):
    """Texts to vectors: ``output``, float32 [dimension]. Further keyword arguments: vkformer.Embedder's, and Worker's."""

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
        super().__init__(_encoders.Embedder, path, device, [input], [output], errors, options)

    def _run(self, rows: list[tuple[Any, ...]]) -> Batch:
        return {self._outputs[0]: self._model.embed(_strings(rows, self._columns))}

    def _missing(self) -> Batch:
        return {self._outputs[0]: np.full(self._model.dimension, np.nan, np.float32)}


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
        super().__init__(_encoders.Reranker, path, device, [query, text], [output], errors, options)

    def _run(self, rows: list[tuple[Any, ...]]) -> Batch:
        scores = self._model.score(rows)
        if scores.ndim != 1:
            raise RuntimeError(f"the model has {scores.shape[1]} labels, where one is expected")
        return {self._outputs[0]: scores}

    def _missing(self) -> Batch:
        return {self._outputs[0]: np.float32(np.nan)}


class _Writer(Worker[M]):
    """Writes a text for each row, and, where a column ``details`` is named, all that is known of it, as JSON."""

    @abstractmethod
    def _results(self, rows: list[tuple[Any, ...]]) -> list[Any]: ...

    def _run(self, rows: list[tuple[Any, ...]]) -> Batch:
        found = self._results(rows)
        made = [[one.text for one in found], [_json(one) for one in found]]
        return {name: _texts(column) for name, column in zip(self._outputs, made, strict=False)}

    def _missing(self) -> Batch:
        return dict.fromkeys(self._outputs)


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
        super().__init__(_translator.Translator, path, device, [input], [output, details], errors, options)

    def _results(self, rows: list[tuple[Any, ...]]) -> list[Any]:
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
        super().__init__(_generator.Generator, path, device, [input], [output, details], errors, options)
        self._arguments: _generator.GenerateArguments = arguments or {}

    def _results(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        if any(not isinstance(prompt, str) for (prompt,) in rows):
            return [
                self._model.generate(prompt, **self._arguments)
                if isinstance(prompt, str)
                else self._model.chat(_conversation(prompt, self._columns[0]), **self._arguments)
                for (prompt,) in rows
            ]
        return self._model.generate([prompt for (prompt,) in rows], **self._arguments)


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
        super().__init__(_transcriber.Transcriber, path, device, columns, [output, details], errors, options)

    def _results(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        return [self._model.transcribe(self._samples(*row)) for row in rows]

    def _samples(self, sound: Any, rate: Any = None) -> npt.NDArray[np.float32]:
        own = self._model.sample_rate
        if isinstance(sound, bytes):
            samples, rate = _read_sound(sound)
        else:
            samples = np.atleast_2d(np.asarray(sound, np.float32))
            rate = own if rate is None else int(rate)
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
        super().__init__(_images.ImageClassifier, path, device, [input], [output, probability], errors, options)

    def _run(self, rows: list[tuple[Any, ...]]) -> Batch:
        best = [found[0] for found in self._model.classify([_pixels(image) for (image,) in rows], top_k=1)]
        label, probability = self._outputs
        return {
            label: _texts([one.label for one in best]),
            probability: np.array([one.probability for one in best], np.float32),
        }

    def _missing(self) -> Batch:
        return {self._outputs[0]: None, self._outputs[1]: np.float32(np.nan)}


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
        super().__init__(_images.ImageEmbedder, path, device, [input], [output], errors, options)

    def _run(self, rows: list[tuple[Any, ...]]) -> Batch:
        return {self._outputs[0]: self._model.embed_images([_pixels(image) for (image,) in rows])}

    def _missing(self) -> Batch:
        return {self._outputs[0]: np.full(self._model.dimension, np.nan, np.float32)}


def _strings(rows: list[tuple[Any, ...]], columns: Sequence[str]) -> list[str]:
    for (text,) in rows:
        if not isinstance(text, str):
            raise TypeError(f"the column {columns[0]!r} has {type(text).__name__}, expected str")
    return [text for (text,) in rows]


def _conversation(turns: Any, column: str) -> list[dict[str, str]]:
    if not isinstance(turns, list | tuple | np.ndarray) or not all(isinstance(turn, Mapping) for turn in turns):
        raise TypeError(f"the column {column!r} has {type(turns).__name__}, expected str or a list of messages")
    return [dict(turn) for turn in turns]


def _texts(values: list[str | None]) -> npt.NDArray[np.object_]:
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _json(result: Any) -> str:
    return json.dumps(dataclasses.asdict(result), ensure_ascii=False)


def _pixels(image: Any) -> Any:
    return _images.decode_image(image) if isinstance(image, bytes) else np.ascontiguousarray(image)


def _read_sound(file: bytes) -> tuple[npt.NDArray[np.float32], int]:
    """[channels, samples] and their rate."""
    import soundfile

    try:
        samples, rate = soundfile.read(io.BytesIO(file), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise ValueError(f"the sound cannot be read: {error.error_string}") from error
    return samples.T, rate
