# SPDX-License-Identifier: MIT
from collections.abc import Iterable
from typing import Any, Literal, SupportsIndex, Unpack, overload

from . import _core, _inputs
from ._inputs import Dtype, Path
from ._model import CommonArguments, Model, Progress
from ._results import Alternative, AttentionMaps, AttentionWeights, TextScores, Translation, text_scores


class Translator(Model[_core.Translator]):
    """An encoder–decoder Transformer (MarianMT, NLLB, M2M100, BART, mBART, T5, …) or a recurrent model, from a folder.

    path: a folder with config.json, model.safetensors (or what ``vkformer convert`` makes of it) and a tokenizer.
    device: a Vulkan device by index, UUID or part of its name; "cpu": the CPU backend; "auto": a GPU, else whichever of the
        CPU backend and a CPU-type Vulkan device was measured faster for this model. Never falls back to another one.
    dtype: how activations and caches are stored, and weights that are converted, "f32" or "f16"; sums are float32 either way.
    weights: "model": matrices as the file has them where shaders read that (float16, bfloat16, Q8_0, Q4_K, …); "dtype":
        converted.
    beams: 1: greedy, up to 32; 0: what the model folder says.
    max_length: tokens to generate at most; 0: what the model folder says.
    batch: texts decoded together at most; 0: as many as a call has, up to 32.
    hypotheses: translations of each text, at most as many as there are beams: ``Translation.further`` has the next best;
        0: as many.
    from_language, to_language: of a model that translates between many, as its vocabulary spells them: "deu_Latn" (NLLB),
        "de" (M2M100), "de_DE" (mBART), where a call does not say others. Empty: what the model folder says.
    Further keyword arguments: vkformer.CommonArguments.

    Raises: MissingFileError, CorruptFileError, UnsupportedConfigError, MissingTensorError, ShapeMismatchError (of the
    folder); InvalidArgumentError (an unknown language); NoVulkanLoaderError, NoDeviceError, MissingFeatureError.

    Results are those of Hugging Face's generate(), token for token.
    """

    def __init__(
        self,
        path: Path,
        device: str | int = "auto",
        dtype: Dtype = "f32",
        *,
        weights: Literal["model", "dtype"] = "model",
        beams: SupportsIndex = 0,
        max_length: SupportsIndex = 0,
        batch: SupportsIndex = 0,
        hypotheses: SupportsIndex = 1,
        from_language: str = "",
        to_language: str = "",
        **common: Unpack[CommonArguments],
    ) -> None:
        options, on_progress = _inputs.common(Translator, device, dtype, common)
        super().__init__(
            _core.Translator(
                _inputs.path(path),
                options,
                on_progress,
                convert_weights=_inputs.converts_weights(weights),
                beams=_inputs.uint(beams, "beams"),
                max_length=_inputs.uint(max_length, "max_length"),
                batch=_inputs.uint(batch, "batch"),
                hypotheses=_inputs.uint(hypotheses, "hypotheses"),
                from_language=_inputs.text(from_language, "from_language"),
                to_language=_inputs.text(to_language, "to_language"),
            )
        )

    @overload
    def translate(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        prefixes: str = "",
        from_language: str = "",
        to_language: str = "",
        on_progress: Progress | None = None,
    ) -> Translation: ...
    @overload
    def translate(
        self,
        texts: Iterable[str],
        *,
        prefixes: str | Iterable[str] = "",
        from_language: str | Iterable[str] = "",
        to_language: str | Iterable[str] = "",
        on_progress: Progress | None = None,
    ) -> list[Translation]: ...
    def translate(
        self,
        texts: str | Iterable[str],
        *,
        prefixes: str | Iterable[str] = "",
        from_language: str | Iterable[str] = "",
        to_language: str | Iterable[str] = "",
        on_progress: Progress | None = None,
    ) -> Translation | list[Translation]:
        """One Translation for a text, a list of them for several, in order. Blank texts stay blank.

        prefixes: what the translations begin with, one for all or one each: the model goes on from there. Text and tokens
            have them as the tokenizer writes them, lengths count them, scores do not. They end with a token, so better with
            a word. Texts with prefixes of as many tokens are decoded together.
        from_language, to_language: of a model that translates between many, in place of the constructor's: one for all
            texts or one each.
        Texts of like length are decoded together, whatever their languages, which changes no result.
        ``on_progress(done, total)`` counts texts.
        Raises: InvalidArgumentError (a text with more tokens than the model takes, or in a language that it does not
        know; says which; a prefix that leaves no room, or that the model cannot write), UnsupportedConfigError (a prefix,
        where the folder forbids tokens at the beginning), ValueError (not as many prefixes or languages as texts),
        DeviceLostError, VulkanError, MemoryError.
        """
        given = [texts] if isinstance(texts, str) else _inputs.texts(texts, "texts")
        sources = _sources(given, "prefixes", prefixes, from_language, to_language)
        found = self._run(lambda stop: self._core.translate(sources, on_progress, stop))
        return _results(found, isinstance(texts, str))

    @overload
    async def translate_async(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        prefixes: str = "",
        from_language: str = "",
        to_language: str = "",
        on_progress: Progress | None = None,
    ) -> Translation: ...
    @overload
    async def translate_async(
        self,
        texts: Iterable[str],
        *,
        prefixes: str | Iterable[str] = "",
        from_language: str | Iterable[str] = "",
        to_language: str | Iterable[str] = "",
        on_progress: Progress | None = None,
    ) -> list[Translation]: ...
    async def translate_async(
        self,
        texts: str | Iterable[str],
        *,
        prefixes: str | Iterable[str] = "",
        from_language: str | Iterable[str] = "",
        to_language: str | Iterable[str] = "",
        on_progress: Progress | None = None,
    ) -> Translation | list[Translation]:
        """``translate`` in another thread."""
        given = [texts] if isinstance(texts, str) else _inputs.texts(texts, "texts")
        sources = _sources(given, "prefixes", prefixes, from_language, to_language)
        found = await self._run_async(lambda stop: self._core.translate(sources, on_progress, stop))
        return _results(found, isinstance(texts, str))

    @overload
    def score(  # type: ignore[overload-overlap]
        self,
        texts: str,
        translations: str,
        *,
        from_language: str = "",
        to_language: str = "",
        likeliest: SupportsIndex = 0,
        on_progress: Progress | None = None,
    ) -> TextScores: ...
    @overload
    def score(
        self,
        texts: str | Iterable[str],
        translations: Iterable[str],
        *,
        from_language: str | Iterable[str] = "",
        to_language: str | Iterable[str] = "",
        likeliest: SupportsIndex = 0,
        on_progress: Progress | None = None,
    ) -> list[TextScores]: ...
    def score(
        self,
        texts: str | Iterable[str],
        translations: str | Iterable[str],
        *,
        from_language: str | Iterable[str] = "",
        to_language: str | Iterable[str] = "",
        likeliest: SupportsIndex = 0,
        on_progress: Progress | None = None,
    ) -> TextScores | list[TextScores]:
        """How likely the model finds a translation: TextScores, or a list of them for several, in order.

        One text may have several translations, and each has languages as of ``translate``. ``tokens`` are what
        ``translate`` would give, the start token first and the end token last; ``log_probs`` are of all but the first, with
        so many of the ``likeliest`` in each place, at most 20. Translations of like length go through the model together,
        in one pass.
        Raises: InvalidArgumentError (a blank text, more tokens than the model takes, a translation that it cannot write;
        says which), ValueError (not as many translations as texts), NotANumberError, and as ``translate``.
        """
        pairs = _pairs(texts, translations, from_language, to_language)
        most = _inputs.uint(likeliest, "likeliest")
        found = self._run(lambda stop: self._core.score(pairs, most, on_progress, stop))
        return text_scores(found)[0] if isinstance(translations, str) else text_scores(found)

    @overload
    async def score_async(  # type: ignore[overload-overlap]
        self,
        texts: str,
        translations: str,
        *,
        from_language: str = "",
        to_language: str = "",
        likeliest: SupportsIndex = 0,
        on_progress: Progress | None = None,
    ) -> TextScores: ...
    @overload
    async def score_async(
        self,
        texts: str | Iterable[str],
        translations: Iterable[str],
        *,
        from_language: str | Iterable[str] = "",
        to_language: str | Iterable[str] = "",
        likeliest: SupportsIndex = 0,
        on_progress: Progress | None = None,
    ) -> list[TextScores]: ...
    async def score_async(
        self,
        texts: str | Iterable[str],
        translations: str | Iterable[str],
        *,
        from_language: str | Iterable[str] = "",
        to_language: str | Iterable[str] = "",
        likeliest: SupportsIndex = 0,
        on_progress: Progress | None = None,
    ) -> TextScores | list[TextScores]:
        """``score`` in another thread."""
        pairs = _pairs(texts, translations, from_language, to_language)
        most = _inputs.uint(likeliest, "likeliest")
        found = await self._run_async(lambda stop: self._core.score(pairs, most, on_progress, stop))
        return text_scores(found)[0] if isinstance(translations, str) else text_scores(found)

    def alternatives(
        self,
        text: str,
        prefix: str = "",
        *,
        count: SupportsIndex = 5,
        from_language: str = "",
        to_language: str = "",
    ) -> list[Alternative]:
        """What a translation might go on with behind ``prefix``: a translation for each of the ``count`` likeliest next
        tokens, 1 to 20, the likeliest first.

        An end token may be one; fewer come back where the model's files forbid some.
        Raises: InvalidArgumentError (a blank text, another count), UnsupportedConfigError, and as ``translate``.
        """
        source = _source(text, prefix, from_language, to_language)
        most = _inputs.uint(count, "count")
        return _alternatives(self._run(lambda stop: self._core.alternatives(source, most, stop)))

    async def alternatives_async(
        self,
        text: str,
        prefix: str = "",
        *,
        count: SupportsIndex = 5,
        from_language: str = "",
        to_language: str = "",
    ) -> list[Alternative]:
        """``alternatives`` in another thread."""
        source = _source(text, prefix, from_language, to_language)
        most = _inputs.uint(count, "count")
        return _alternatives(await self._run_async(lambda stop: self._core.alternatives(source, most, stop)))

    def attention(self, text: str, *, from_language: str = "", to_language: str = "") -> AttentionMaps:
        """Translates a text and, in a second pass, keeps what every head looked at. A blank text is a ValueError."""
        source = _source(text, "", from_language, to_language)
        return _maps(text, self._run(lambda stop: self._core.attention(source, stop)))

    async def attention_async(self, text: str, *, from_language: str = "", to_language: str = "") -> AttentionMaps:
        """``attention`` in another thread."""
        source = _source(text, "", from_language, to_language)
        return _maps(text, await self._run_async(lambda stop: self._core.attention(source, stop)))

    def check(self, text: str, *, from_language: str = "", to_language: str = "") -> None:
        """Raises InvalidArgumentError where ``translate`` does not take the text; runs nothing."""
        source = _source(text, "", from_language, to_language)
        self._run(lambda _: self._core.check(source))


_Source = tuple[str, str, str, str]  # text, prefix or translation, languages


def _source(text: str, prefix: str, from_language: str, to_language: str) -> _Source:
    return (
        _inputs.text(text, "the text"),
        _inputs.text(prefix, "prefix"),
        _inputs.text(from_language, "from_language"),
        _inputs.text(to_language, "to_language"),
    )


def _sources(
    texts: list[str],
    what: str,
    seconds: str | Iterable[str],
    from_language: str | Iterable[str],
    to_language: str | Iterable[str],
) -> list[_Source]:
    count = len(texts)
    return list(
        zip(
            texts,
            _each(seconds, what, what, count),
            _each(from_language, "from_language", "languages", count),
            _each(to_language, "to_language", "languages", count),
            strict=True,
        )
    )


def _each(values: str | Iterable[str], name: str, what: str, count: int) -> list[str]:
    given = [values] * count if isinstance(values, str) else _inputs.texts(values, name)
    if len(given) != count:
        raise ValueError(f"there are {len(given)} {what} for {count} texts")
    return given


def _pairs(
    texts: str | Iterable[str],
    translations: str | Iterable[str],
    from_language: str | Iterable[str],
    to_language: str | Iterable[str],
) -> list[_Source]:
    targets = [translations] if isinstance(translations, str) else _inputs.texts(translations, "translations")
    given = [texts] * len(targets) if isinstance(texts, str) else _inputs.texts(texts, "texts")
    if len(given) != len(targets):
        raise ValueError(f"there are {len(targets)} translations for {len(given)} texts")
    return _sources(given, "translations", targets, from_language, to_language)


def _alternatives(found: list[Any]) -> list[Alternative]:
    return [Alternative(*[*fields, _result(*translation)]) for *fields, translation in found]


def _results(found: list[Any], is_one: bool) -> Translation | list[Translation]:
    results = [_result(*fields) for fields in found]
    return results[0] if is_one else results


def _result(text: str, tokens: list[int], score: float | None, further: list[Any]) -> Translation:
    return Translation(text, tokens, score, [_result(*fields) for fields in further])


def _maps(text: str, found: tuple[Any, ...]) -> AttentionMaps:
    translation, source, read, written, weights = found
    # The decoder's queries are named by what it writes there: `read`, one step later.
    axes = {"encoder": (source, source), "decoder": (written, read), "cross": (written, source)}
    layers = [AttentionWeights(kind, layer, values, *axes[kind]) for kind, layer, values in weights]
    return AttentionMaps(text, _result(*translation), source, read, written, layers)
