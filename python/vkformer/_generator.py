# SPDX-License-Identifier: MIT
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypedDict, Unpack, overload

from . import _core, _inputs
from ._inputs import AdapterChoice, Dtype, Path
from ._model import CommonArguments, Model, Progress
from ._results import Generation, GenerationTimings, StepLogProbs, TextScores, text_scores
from ._streams import AsyncTextStream, OnText, TextStream, Work

#: A turn of a conversation: {"role": "user", "content": "…"} or ("user", "…").
Message = Mapping[str, str] | tuple[str, str]

_EARLY_STOPPING = {"heuristic": 0, "always": 1, "never": 2}


class GenerateArguments(TypedDict, total=False):
    """Keyword arguments of everything that generates.

    max_tokens: to generate at most; 0: what the folder's generation_config.json says, else until the model ends or the
        context is full.
    min_tokens: to generate before an end token is chosen.
    temperature: logits are divided by it, 1e-4 to 1e4; 0: the likeliest token, always.
    top_k, top_p, min_p: only the k likeliest; only the likeliest that make up this share of the probability; only those at
        least this share as probable as the likeliest.
    repetition_penalty, presence_penalty, frequency_penalty, no_repeat_ngram: against repetition, as transformers and
        OpenAI's interface have them.
    logit_bias: token → what is added to its logit; -inf forbids it.
    seed: of the draws.
    stop: texts that end the generation and are no part of it.
    ignore_end: the model's end token ends nothing.
    prompt_lookup: so many tokens at a time are guessed from what prompt and answer have said before and checked in one pass
        of the model, 64 at most; the text is the same, and comes sooner where it repeats what it has read. Not with
        batches, beams, log_probs, constraints, min_tokens and penalties.
    draft_tokens: so many tokens at a time are guessed at most by the Generator's draft model or head, 64 at most; 0: none.
        None: as many as pay, wherever nothing is asked for that prompt_lookup does not go with.
    log_probs: how likely the model found each token, and so many of the likeliest in its place, 0 to 20; None: nothing of
        that. Not with beams.
    json_schema, json_object, regex, choice: what the text has to be, one of them: JSON that a schema (a dict or its text)
        accepts; any JSON object (True); what a regular expression matches as a whole; one of some texts. Not with
        ignore_end, min_tokens or beams.
    adapters: which of the Generator's adapters count, by name: one, some, or a mapping to how much each counts, -1000 to
        1000 (1: as it was trained). None of them: the model alone.

    Where none of those from temperature to logit_bias is given, the folder's generation_config.json says how tokens are
    chosen; where one is, the others are off.
    """

    max_tokens: SupportsIndex
    min_tokens: SupportsIndex | None
    temperature: SupportsFloat
    top_k: SupportsIndex
    top_p: SupportsFloat
    min_p: SupportsFloat
    repetition_penalty: SupportsFloat
    presence_penalty: SupportsFloat
    frequency_penalty: SupportsFloat
    no_repeat_ngram: SupportsIndex
    logit_bias: Mapping[int, float]
    seed: SupportsIndex
    stop: str | Iterable[str]
    ignore_end: bool
    prompt_lookup: SupportsIndex
    draft_tokens: SupportsIndex | None
    log_probs: SupportsIndex | None
    json_schema: Mapping[str, Any] | str
    json_object: bool
    regex: str
    choice: Iterable[str]
    adapters: AdapterChoice


class ScoreArguments(TypedDict, total=False):
    """Keyword arguments of ``Generator.score``.

    likeliest: in each place so many of the likeliest tokens, 0 to 20.
    stride: where it is not 0, a text longer than ``score_context`` is read in windows of so many tokens, each ``stride``
        behind the one before, and a token's probability is that in the first window that has it: at least
        score_context − stride tokens are before it. What the tokenizer puts before every text, each window begins with.
    adapters: as of GenerateArguments.
    on_progress: ``on_progress(done, total)`` counts texts, or windows of them.
    """

    likeliest: SupportsIndex
    stride: SupportsIndex
    adapters: AdapterChoice
    on_progress: Progress | None


_SAMPLING_REALS = (
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)
_SAMPLING_UINTS = ("top_k", "no_repeat_ngram")
_CONSTRAINTS = ("json_schema", "json_object", "regex", "choice")


def _constraint(name: str, value: Any) -> _core.Constraint | None:
    if name == "json_schema":
        return _core.Constraint.json_schema(value if isinstance(value, str) else json.dumps(value))
    if name == "json_object":
        return _core.Constraint.json() if value else None
    if name == "regex":
        return _core.Constraint.regex(_inputs.text(value, name))
    if isinstance(value, str):  # whose letters would be the choices
        raise TypeError(f"{name} is a str, expected an iterable of them")
    return _core.Constraint.choice(_inputs.texts(value, name))


def _options(call: str, arguments: Mapping[str, Any]) -> _core.GenerateOptions:
    options = _core.GenerateOptions()
    sampling: _core.Sampling | None = None
    for name, value in arguments.items():
        if name in _SAMPLING_REALS or name in _SAMPLING_UINTS or name == "logit_bias":
            sampling = sampling or _core.Sampling()
            if name in _SAMPLING_REALS:
                setattr(sampling, name, _inputs.real(value, name))
            elif name in _SAMPLING_UINTS:
                setattr(sampling, name, _inputs.uint(value, name))
            else:
                given = _inputs.mapping(value, "logit_bias")
                sampling.logit_bias = {
                    token: _inputs.real(bias, f"logit_bias[{token}]")
                    for token, bias in zip(_inputs.tokens(given, "logit_bias"), given.values(), strict=True)
                }
        elif name == "max_tokens":
            options.max_tokens = _inputs.uint(value, name)
        elif name == "prompt_lookup":
            options.prompt_lookup = _inputs.uint(value, name)
        elif name in ("min_tokens", "log_probs", "draft_tokens"):
            setattr(options, name, None if value is None else _inputs.uint(value, name))
        elif name == "seed":
            options.seed = _inputs.seed(value)
        elif name == "stop":
            options.stop = [value] if isinstance(value, str) else _inputs.texts(value, name)
        elif name == "ignore_end":
            options.ignore_end = bool(value)
        elif name == "adapters":
            options.adapters = _inputs.adapter_scales(value)
        elif name in _CONSTRAINTS:
            if options.constraint is not None:
                raise ValueError(f"{name} is given beside another constraint")
            options.constraint = _constraint(name, value)
        else:
            raise _inputs.unexpected(f"{call}()", name, GenerateArguments.__annotations__)
    if sampling is not None:
        options.sampling = sampling
    return options


def _messages(messages: Iterable[Message]) -> list[tuple[str, str]]:
    result = []
    for i, message in enumerate(messages):
        if isinstance(message, Mapping):
            if set(message) != {"role", "content"}:
                raise ValueError(f'messages[{i}] has {sorted(message)}, expected "role" and "content"')
            role, content = message["role"], message["content"]
        else:
            if isinstance(message, str) or len(message) != 2:
                raise ValueError(f"messages[{i}] is {message!r}, expected a role and a content")
            role, content = message
        result.append(
            (_inputs.text(role, f"role of messages[{i}]"), _inputs.text(content, f"content of messages[{i}]"))
        )
    return result


class Generator(Model[_core.Generator]):
    """A language model (Llama, Mistral, Qwen, Gemma, Phi-3, GPT-2, …) on a device.

    path: a folder with config.json, safetensors files and tokenizer.json, or a GGUF file.
    device, dtype, weights: as of Translator.
    cache: "dtype": keys and values stored as activations are; "q8_0": rounded to 8 bits, a quarter of float32's memory.
    context: tokens of a sequence at most, prompt included; 0: the model's, at most 4096.
    batch: sequences that are generated together.
    adapters: low-rank adapters (LoRA) that are loaded beside the weights: name → a folder of PEFT's, or a GGUF file for a
        GGUF model. Each call says which of them count.
    beams, length_penalty, early_stopping: beam search as Hugging Face's generate() has it; 1: none; 0 and None: what the
        model folder says. early_stopping is "heuristic", "always" or "never".
    draft: a smaller model of the same vocabulary, a folder or a GGUF file, that guesses what follows; this model checks
        several guesses in one pass. The text is the same, and comes sooner where the two agree. Not with a batch or beams.
    multi_token: the model guesses what follows by its own multi-token head, which files of DeepSeek-V3, Qwen3-Next and Qwen 3.5
        may have; refused where there is none. Not with a draft, a batch or beams.
    Further keyword arguments: vkformer.CommonArguments.

    Raises: as Translator; InvalidArgumentError also for a context, a cache or a beam search that does not fit the model.
    """

    def __init__(
        self,
        path: Path,
        device: str | int = "auto",
        dtype: Dtype = "f32",
        *,
        weights: Literal["model", "dtype"] = "model",
        cache: Literal["dtype", "q8_0"] = "dtype",
        context: SupportsIndex = 0,
        batch: SupportsIndex = 1,
        beams: SupportsIndex = 0,
        length_penalty: SupportsFloat | None = None,
        early_stopping: Literal["heuristic", "always", "never"] | None = None,
        draft: Path | None = None,
        multi_token: bool = False,
        adapters: Mapping[str, Path] | None = None,
        **common: Unpack[CommonArguments],
    ) -> None:
        options, on_progress = _inputs.common(Generator, device, dtype, common)
        super().__init__(
            _core.Generator(
                _inputs.path(path),
                options,
                on_progress,
                convert_weights=_inputs.converts_weights(weights),
                cache_q8_0=_inputs.choice(cache, "cache", ("dtype", "q8_0")) == "q8_0",
                context=_inputs.uint(context, "context"),
                batch=_inputs.uint(batch, "batch"),
                beams=_inputs.uint(beams, "beams"),
                length_penalty=_inputs.optional_real(length_penalty, "length_penalty"),
                early_stopping=None
                if early_stopping is None
                else _EARLY_STOPPING[_inputs.choice(early_stopping, "early_stopping", tuple(_EARLY_STOPPING))],
                draft=None if draft is None else _inputs.path(draft),
                multi_token=bool(multi_token),
                adapters=_inputs.adapters(adapters),
            )
        )

    @overload
    def generate(self, prompts: str, **arguments: Unpack[GenerateArguments]) -> Generation: ...  # type: ignore[overload-overlap]
    @overload
    def generate(self, prompts: Iterable[str], **arguments: Unpack[GenerateArguments]) -> list[Generation]: ...
    def generate(
        self, prompts: str | Iterable[str], **arguments: Unpack[GenerateArguments]
    ) -> Generation | list[Generation]:
        """Continues a prompt, or several: a Generation, or a list of them in order.

        A prompt's beginning that the call before has computed is not computed again. Prompts draw with seed, seed + 1, …
        Raises: InvalidArgumentError (an empty prompt, one longer than the context, an option outside its range, a
        temperature or a stop text with beams), MissingFileError (no tokenizer), DeviceLostError, VulkanError, MemoryError.
        """
        given = [prompts] if isinstance(prompts, str) else _inputs.texts(prompts, "prompts")
        options = _options("Generator.generate", arguments)
        found = _generations(self._run(lambda stop: self._core.generate(given, options, None, stop)))
        return found[0] if isinstance(prompts, str) else found

    @overload
    async def generate_async(self, prompts: str, **arguments: Unpack[GenerateArguments]) -> Generation: ...  # type: ignore[overload-overlap]
    @overload
    async def generate_async(
        self, prompts: Iterable[str], **arguments: Unpack[GenerateArguments]
    ) -> list[Generation]: ...
    async def generate_async(
        self, prompts: str | Iterable[str], **arguments: Unpack[GenerateArguments]
    ) -> Generation | list[Generation]:
        """``generate`` in another thread."""
        given = [prompts] if isinstance(prompts, str) else _inputs.texts(prompts, "prompts")
        options = _options("Generator.generate_async", arguments)
        found = _generations(await self._run_async(lambda stop: self._core.generate(given, options, None, stop)))
        return found[0] if isinstance(prompts, str) else found

    def generate_tokens(
        self, prompts: Iterable[Iterable[SupportsIndex]], **arguments: Unpack[GenerateArguments]
    ) -> list[Generation]:
        """``generate`` for prompts that are token ids. A model without a tokenizer gives tokens, and empty texts."""
        given = _token_prompts(prompts)
        options = _options("Generator.generate_tokens", arguments)
        return _generations(self._run(lambda stop: self._core.generate_tokens(given, options, None, stop)))

    async def generate_tokens_async(
        self, prompts: Iterable[Iterable[SupportsIndex]], **arguments: Unpack[GenerateArguments]
    ) -> list[Generation]:
        """``generate_tokens`` in another thread."""
        given = _token_prompts(prompts)
        options = _options("Generator.generate_tokens_async", arguments)
        return _generations(await self._run_async(lambda stop: self._core.generate_tokens(given, options, None, stop)))

    def stream(self, prompt: str, **arguments: Unpack[GenerateArguments]) -> TextStream:
        """``for piece in generator.stream(prompt)``: the text as it comes, in whole characters; with beams at the end."""
        return TextStream(self, self._work("Generator.stream", prompt, arguments))

    def stream_async(self, prompt: str, **arguments: Unpack[GenerateArguments]) -> AsyncTextStream:
        """``async for piece in generator.stream_async(prompt)``."""
        return AsyncTextStream(self, self._work("Generator.stream_async", prompt, arguments))

    def chat(self, messages: Iterable[Message], **arguments: Unpack[GenerateArguments]) -> Generation:
        """Answers a conversation, put into words by the model's own template. ``Chat`` keeps one.

        What the conversation shares with the one before is not computed again.
        Raises: as ``generate``; InvalidArgumentError also where the template refuses the conversation, MissingFileError
        where the model has none.
        """
        given, options = _messages(messages), _options("Generator.chat", arguments)
        return _generations(self._run(lambda stop: self._core.chat(given, options, None, stop)))[0]

    async def chat_async(self, messages: Iterable[Message], **arguments: Unpack[GenerateArguments]) -> Generation:
        """``chat`` in another thread."""
        given, options = _messages(messages), _options("Generator.chat_async", arguments)
        return _generations(await self._run_async(lambda stop: self._core.chat(given, options, None, stop)))[0]

    def chat_stream(self, messages: Iterable[Message], **arguments: Unpack[GenerateArguments]) -> TextStream:
        """``chat``, as it comes."""
        return TextStream(self, self._chat_work("Generator.chat_stream", messages, arguments))

    def chat_stream_async(self, messages: Iterable[Message], **arguments: Unpack[GenerateArguments]) -> AsyncTextStream:
        """``chat``, as it comes, for ``async for``."""
        return AsyncTextStream(self, self._chat_work("Generator.chat_stream_async", messages, arguments))

    @overload
    def score(self, texts: str, **arguments: Unpack[ScoreArguments]) -> TextScores: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, texts: Iterable[str], **arguments: Unpack[ScoreArguments]) -> list[TextScores]: ...
    def score(self, texts: str | Iterable[str], **arguments: Unpack[ScoreArguments]) -> TextScores | list[TextScores]:
        """How likely the model finds a text: TextScores, or a list of them for several, in order.

        Keyword arguments: vkformer.ScoreArguments. Texts are read together, in caches of their own.
        Raises: InvalidArgumentError (a text without tokens, one longer than the context and no stride; says which),
        NotANumberError, MissingFileError (no tokenizer), DeviceLostError, VulkanError, MemoryError.
        """
        given = [texts] if isinstance(texts, str) else _inputs.texts(texts, "texts")
        asked = _score_arguments("Generator.score", arguments)
        found = text_scores(self._run(lambda stop: self._core.score(given, *asked, stop)))
        return found[0] if isinstance(texts, str) else found

    @overload
    async def score_async(self, texts: str, **arguments: Unpack[ScoreArguments]) -> TextScores: ...  # type: ignore[overload-overlap]
    @overload
    async def score_async(self, texts: Iterable[str], **arguments: Unpack[ScoreArguments]) -> list[TextScores]: ...
    async def score_async(
        self, texts: str | Iterable[str], **arguments: Unpack[ScoreArguments]
    ) -> TextScores | list[TextScores]:
        """``score`` in another thread."""
        given = [texts] if isinstance(texts, str) else _inputs.texts(texts, "texts")
        asked = _score_arguments("Generator.score_async", arguments)
        found = text_scores(await self._run_async(lambda stop: self._core.score(given, *asked, stop)))
        return found[0] if isinstance(texts, str) else found

    def score_tokens(
        self, texts: Iterable[Iterable[SupportsIndex]], **arguments: Unpack[ScoreArguments]
    ) -> list[TextScores]:
        """``score`` for texts that are token ids: no window begins with a token that was not given."""
        given = [_inputs.tokens(text, f"texts[{i}]") for i, text in enumerate(texts)]
        asked = _score_arguments("Generator.score_tokens", arguments)
        return text_scores(self._run(lambda stop: self._core.score_tokens(given, *asked, stop)))

    async def score_tokens_async(
        self, texts: Iterable[Iterable[SupportsIndex]], **arguments: Unpack[ScoreArguments]
    ) -> list[TextScores]:
        """``score_tokens`` in another thread."""
        given = [_inputs.tokens(text, f"texts[{i}]") for i, text in enumerate(texts)]
        asked = _score_arguments("Generator.score_tokens_async", arguments)
        return text_scores(await self._run_async(lambda stop: self._core.score_tokens(given, *asked, stop)))

    def tokenize(self, text: str) -> list[int]:
        """Text to ids, the tokenizer's special tokens included."""
        _inputs.text(text, "the text")
        return self._run(lambda _: self._core.tokenize(text))

    def tokenize_chat(self, messages: Iterable[Message]) -> list[int]:
        """A conversation to ids, as ``chat`` reads it: how much of the context it takes."""
        given = _messages(messages)
        return self._run(lambda _: self._core.tokenize_chat(given))

    @property
    def has_tokenizer(self) -> bool:
        return self._core.has_tokenizer()

    @property
    def context(self) -> int:
        """Tokens of a sequence at most, prompt included."""
        return self._core.context()

    @property
    def score_context(self) -> int:
        """The same for ``score``: no more than the model's original positions where they can be extended."""
        return self._core.score_context()

    @property
    def timings(self) -> GenerationTimings:
        """Of the last call that has ended."""
        return GenerationTimings(*self._run(lambda _: self._core.timings()))

    def _work(self, call: str, prompt: str, arguments: Mapping[str, Any]) -> Work:
        given, options = [_inputs.text(prompt, "the prompt")], _options(call, arguments)
        core = self._core

        def work(on_text: OnText, stop: _core.Stop) -> Generation:
            return _generations(core.generate(given, options, on_text, stop))[0]

        return work

    def _chat_work(self, call: str, messages: Iterable[Message], arguments: Mapping[str, Any]) -> Work:
        given, options = _messages(messages), _options(call, arguments)
        core = self._core

        def work(on_text: OnText, stop: _core.Stop) -> Generation:
            return _generations(core.chat(given, options, on_text, stop))[0]

        return work


def _token_prompts(prompts: Iterable[Iterable[SupportsIndex]]) -> list[list[int]]:
    return [_inputs.tokens(prompt, f"prompts[{i}]") for i, prompt in enumerate(prompts)]


def _score_arguments(
    call: str, arguments: Mapping[str, Any]
) -> tuple[int, int, list[tuple[str, float]], Progress | None]:
    asked: dict[str, Any] = {"likeliest": 0, "stride": 0, "adapters": (), "on_progress": None}
    for name, value in arguments.items():
        if name not in asked:
            raise _inputs.unexpected(f"{call}()", name, asked)
        asked[name] = value
    return (
        _inputs.uint(asked["likeliest"], "likeliest"),
        _inputs.uint(asked["stride"], "stride"),
        _inputs.adapter_scales(asked["adapters"]),
        asked["on_progress"],
    )


def _generations(found: list[Any]) -> list[Generation]:
    return [Generation(*[*fields, [StepLogProbs(*step) for step in steps], stop]) for *fields, steps, stop in found]
