# SPDX-License-Identifier: MIT
from collections.abc import Iterable, Mapping
from typing import Literal, SupportsIndex, Unpack

from . import _core, _inputs
from ._inputs import AdapterChoice, Dtype, Path
from ._model import CommonArguments, Model, Progress
from ._results import Embeddings, FloatArray, Ranked

Pooling = Literal["", "cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"]


class Embedder(Model[_core.Embedder]):
    """Texts to vectors: a folder of sentence-transformers, any BERT, RoBERTa, XLM-RoBERTa or DistilBERT, or a GGUF file.

    path: the folder or file.
    device, dtype: as of Translator.
    batch: texts in one run at most.
    max_length: tokens of a text at most, special ones included; 0: what the folder says. Longer texts are cut.
    pooling: "cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"; empty: the model's.
    normalize: vectors of length 1; None: as the model says.
    prompt: put before every text; prompt_name: the folder's prompt of that name ("query", "passage").
    adapters: low-rank adapters (LoRA) that are loaded beside the weights: name → a folder of PEFT's, or a GGUF file for a
        GGUF model. Each call says which of them count, as ``Generator.generate`` does; none of them: the model alone.
    Further keyword arguments: vkformer.CommonArguments.

    Raises: as Translator. Results are those of sentence-transformers' encode().
    """

    def __init__(
        self,
        path: Path,
        device: str | int = "auto",
        dtype: Dtype = "f32",
        *,
        batch: SupportsIndex = 32,
        max_length: SupportsIndex = 0,
        pooling: Pooling = "",
        normalize: bool | None = None,
        prompt: str | None = None,
        prompt_name: str = "",
        adapters: Mapping[str, Path] | None = None,
        **common: Unpack[CommonArguments],
    ) -> None:
        options, on_progress = _inputs.common(Embedder, device, dtype, common)
        super().__init__(
            _core.Embedder(
                _inputs.path(path),
                options,
                on_progress,
                batch=_inputs.uint(batch, "batch"),
                max_length=_inputs.uint(max_length, "max_length"),
                pooling=_inputs.text(pooling, "pooling"),
                normalize=normalize,
                prompt=None if prompt is None else _inputs.text(prompt, "prompt"),
                prompt_name=_inputs.text(prompt_name, "prompt_name"),
                adapters=_inputs.adapters(adapters),
            )
        )

    def embed(
        self, texts: str | Iterable[str], *, adapters: AdapterChoice = (), on_progress: Progress | None = None
    ) -> FloatArray:
        """float32: [dimension] of a text, [texts, dimension] of several, in order.

        White space around a text does not count; texts that are longer than the model takes are cut at their end
        (``embed_details`` says by how much). ``on_progress(done, total)`` counts texts.
        Raises: DeviceLostError, VulkanError, MemoryError.
        """
        given = [texts] if isinstance(texts, str) else _inputs.texts(texts, "texts")
        scales = _inputs.adapter_scales(adapters)
        vectors: FloatArray = self._run(lambda stop: self._core.embed(given, scales, on_progress, stop))[0]
        return vectors[0] if isinstance(texts, str) else vectors

    async def embed_async(
        self, texts: str | Iterable[str], *, adapters: AdapterChoice = (), on_progress: Progress | None = None
    ) -> FloatArray:
        """``embed`` in another thread."""
        given = [texts] if isinstance(texts, str) else _inputs.texts(texts, "texts")
        scales = _inputs.adapter_scales(adapters)
        found = await self._run_async(lambda stop: self._core.embed(given, scales, on_progress, stop))
        vectors: FloatArray = found[0]
        return vectors[0] if isinstance(texts, str) else vectors

    def embed_details(
        self, texts: Iterable[str], *, adapters: AdapterChoice = (), on_progress: Progress | None = None
    ) -> Embeddings:
        """``embed``, with how many tokens of each text were read and how many left out."""
        given = _inputs.texts(texts, "texts")
        scales = _inputs.adapter_scales(adapters)
        return Embeddings(*self._run(lambda stop: self._core.embed(given, scales, on_progress, stop)))

    def check(self, text: str) -> None:
        """Raises where ``embed`` does not take the text; runs nothing."""
        _inputs.text(text, "the text")
        self._run(lambda _: self._core.check(text))

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return self._core.dimension()

    @property
    def max_length(self) -> int:
        """Tokens of a text at most."""
        return self._core.max_length()

    @property
    def pooling(self) -> str:
        """ "mean, normalised"."""
        return self._core.pooling()


class Reranker(Model[_core.CrossEncoder]):
    """A "…ForSequenceClassification" model, which reads two texts at once and scores them: a cross-encoder.

    path, device, dtype, batch, max_length, adapters and further keyword arguments: as of Embedder.

    Raises: as Translator; UnsupportedConfigError also for a model without a classification head. Results are those of
    sentence-transformers' CrossEncoder.predict().
    """

    def __init__(
        self,
        path: Path,
        device: str | int = "auto",
        dtype: Dtype = "f32",
        *,
        batch: SupportsIndex = 32,
        max_length: SupportsIndex = 0,
        adapters: Mapping[str, Path] | None = None,
        **common: Unpack[CommonArguments],
    ) -> None:
        options, on_progress = _inputs.common(Reranker, device, dtype, common)
        super().__init__(
            _core.CrossEncoder(
                _inputs.path(path),
                options,
                on_progress,
                batch=_inputs.uint(batch, "batch"),
                max_length=_inputs.uint(max_length, "max_length"),
                adapters=_inputs.adapters(adapters),
            )
        )

    def score(
        self, pairs: Iterable[tuple[str, str]], *, adapters: AdapterChoice = (), on_progress: Progress | None = None
    ) -> FloatArray:
        """float32 [pairs, labels], in order; of a model with one label (most have) [pairs].

        Of a pair that is too long the longer text is cut first.
        """
        given = _inputs.pairs(pairs, "pairs")
        scales = _inputs.adapter_scales(adapters)
        return self._squeezed(self._run(lambda stop: self._core.score(given, scales, on_progress, stop)))

    async def score_async(
        self, pairs: Iterable[tuple[str, str]], *, adapters: AdapterChoice = (), on_progress: Progress | None = None
    ) -> FloatArray:
        """``score`` in another thread."""
        given = _inputs.pairs(pairs, "pairs")
        scales = _inputs.adapter_scales(adapters)
        return self._squeezed(await self._run_async(lambda stop: self._core.score(given, scales, on_progress, stop)))

    def rerank(
        self,
        query: str,
        passages: Iterable[str],
        *,
        top_k: SupportsIndex | None = None,
        adapters: AdapterChoice = (),
    ) -> list[Ranked]:
        """The passages, the best first; the first ``top_k`` of them. For a model with one label."""
        given = self._passages(query, passages)
        return _ranked(given, self.score(given, adapters=adapters), top_k)

    async def rerank_async(
        self,
        query: str,
        passages: Iterable[str],
        *,
        top_k: SupportsIndex | None = None,
        adapters: AdapterChoice = (),
    ) -> list[Ranked]:
        """``rerank`` in another thread."""
        given = self._passages(query, passages)
        return _ranked(given, await self.score_async(given, adapters=adapters), top_k)

    def check(self, first: str, second: str) -> None:
        """Raises where ``score`` does not take the pair; runs nothing."""
        given = _inputs.pairs([(first, second)], "the pair")[0]
        self._run(lambda _: self._core.check(*given))

    @property
    def labels(self) -> int:
        """Scores of a pair."""
        return self._core.labels()

    @property
    def max_length(self) -> int:
        """Tokens of a pair at most."""
        return self._core.max_length()

    def _squeezed(self, scores: FloatArray) -> FloatArray:
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _passages(self, query: str, passages: Iterable[str]) -> list[tuple[str, str]]:
        if self.labels != 1:
            raise ValueError(f"the model gives {self.labels} scores of a pair, which are no order: use score()")
        _inputs.text(query, "query")
        return [(query, passage) for passage in _inputs.texts(_several(passages), "passages")]


def _several(passages: Iterable[str]) -> Iterable[str]:
    if isinstance(passages, str):
        raise TypeError("passages is of type str, expected several")
    return passages


def _ranked(pairs: list[tuple[str, str]], scores: FloatArray, top_k: SupportsIndex | None) -> list[Ranked]:
    order = sorted(range(len(pairs)), key=lambda i: -scores[i])
    if top_k is not None:
        order = order[: _inputs.uint(top_k, "top_k")]
    return [Ranked(i, float(scores[i]), pairs[i][1]) for i in order]
