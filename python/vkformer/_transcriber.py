# SPDX-License-Identifier: MIT
from collections.abc import Callable, Iterable
from typing import Any, Literal, SupportsFloat, SupportsIndex, Unpack

from . import _core, _inputs
from ._inputs import ArrayLike, Dtype, Path
from ._model import CommonArguments, Model
from ._results import Segment, Transcription, Word
from ._voice_activity import VadParameters, vad_options


class Transcriber(Model[_core.Transcriber]):
    """A Whisper, Wav2Vec 2.0 or HuBERT (CTC) from a folder: speech in, text out.

    path: a folder with config.json, model.safetensors (or what ``vkformer convert`` makes of it), tokenizer.json and
        generation_config.json; of a Wav2Vec 2.0 or HuBERT vocab.json in place of the last two. These have no decoder: of the
        options below they take timestamps, word_timestamps, vad and vad_parameters.
    device, dtype, weights: as of Translator.
    language: what is spoken, as the model spells it ("de"). Empty: what the folder says, else what the model hears first.
    task: "transcribe", or "translate" into English. Empty: what the folder says, else "transcribe".
    timestamps: segments with times. Without: text alone, windows are decoded ``batch`` at a time and know nothing of each other.
    max_length: tokens to generate per window at most; 0: what the folder says.
    batch: windows decoded together at most, without timestamps; 0: as many as a call has, up to 8.
    beams: 2 to 32: at temperature 0 a search with so many beams, above it so many draws, of which the likeliest is taken.
        1: the likeliest token, always. 0: what the folder says, else 1.
    prompt: text that comes before what is said: names and words as they are to be spelled. The decoder is given its end before
        each window, or with condition_on_previous before the first, and then what was said.
    condition_on_previous: the decoder is given the text before. With timestamps only. None: what the folder says, else no.
    temperatures: a window is decoded at each until its text neither repeats itself nor is unlikely.
    compression_ratio_threshold, log_prob_threshold, no_speech_threshold: None: what the folder says, else 1.35, -1 and 0.6;
        infinity (-infinity for the logarithm): never.
    seed: of the draws.
    word_timestamps: when each word was said (``Segment.words``), in another pass of the decoder over each window; needs
        "alignment_heads" in the folder's generation_config.json, which published models have.
    vad: the file of a VoiceActivityDetector: only what it takes for speech is heard, joined without the silence between, and
        times are those of the whole sound. Sound without speech has no segments. None: all sound is heard.
    vad_parameters: what counts as speech: VadParameters.
    Further keyword arguments: vkformer.CommonArguments.

    Raises: as Translator; InvalidArgumentError for an unknown language or task, no temperature, an option that the model does not take, a batch with timestamps,
        times of words where the folder does not say by which heads, ``vad_parameters``; with ``vad`` as VoiceActivityDetector,
        and UnsupportedConfigError where the model does not hear 16000 samples a second.
    """

    def __init__(
        self,
        path: Path,
        device: str | int = "auto",
        dtype: Dtype = "f32",
        *,
        weights: Literal["model", "dtype"] = "model",
        language: str = "",
        task: Literal["", "transcribe", "translate"] = "",
        timestamps: bool = True,
        max_length: SupportsIndex = 0,
        batch: SupportsIndex = 0,
        beams: SupportsIndex = 0,
        prompt: str = "",
        condition_on_previous: bool | None = None,
        temperatures: SupportsFloat | Iterable[SupportsFloat] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        compression_ratio_threshold: SupportsFloat | None = None,
        log_prob_threshold: SupportsFloat | None = None,
        no_speech_threshold: SupportsFloat | None = None,
        seed: SupportsIndex = 0,
        word_timestamps: bool = False,
        vad: Path | None = None,
        vad_parameters: VadParameters | None = None,
        **common: Unpack[CommonArguments],
    ) -> None:
        options, on_progress = _inputs.common(Transcriber, device, dtype, common)
        file = b"" if vad is None else _inputs.path(vad)
        if vad is not None and not file:
            raise ValueError("vad names no file")
        if vad is None and vad_parameters is not None:
            raise ValueError("vad_parameters say what counts as speech, and all sound is heard: give vad=FILE, too")
        self._vad = vad_options("vad_parameters", vad_parameters or {})
        self._filters = vad is not None
        self._spoken = (
            _inputs.text(language, "language"),
            _inputs.text(task, "task"),
            _inputs.text(prompt, "prompt"),
        )
        several = temperatures if isinstance(temperatures, Iterable) else [temperatures]
        core = _core.Transcriber(
            _inputs.path(path),
            options,
            on_progress,
            convert_weights=_inputs.converts_weights(weights),
            language=self._spoken[0],
            task=self._spoken[1],
            timestamps=bool(timestamps),
            max_length=_inputs.uint(max_length, "max_length"),
            batch=_inputs.uint(batch, "batch"),
            beams=_inputs.uint(beams, "beams"),
            prompt=self._spoken[2],
            condition_on_previous=condition_on_previous,
            temperatures=[_inputs.real(t, f"temperatures[{i}]") for i, t in enumerate(several)],
            compression_ratio_threshold=_inputs.optional_real(
                compression_ratio_threshold, "compression_ratio_threshold"
            ),
            log_prob_threshold=_inputs.optional_real(log_prob_threshold, "log_prob_threshold"),
            no_speech_threshold=_inputs.optional_real(no_speech_threshold, "no_speech_threshold"),
            seed=_inputs.seed(seed),
            word_timestamps=bool(word_timestamps),
            vad=file,
            vad_parameters=self._vad,
        )
        super().__init__(core)
        self._sample_rate = core.sample_rate()

    def transcribe(
        self,
        samples: ArrayLike,
        *,
        on_progress: Callable[[float, float], object] | None = None,
        language: str | None = None,
        task: Literal["", "transcribe", "translate"] | None = None,
        prompt: str | None = None,
        vad_filter: bool | None = None,
        vad_parameters: VadParameters | None = None,
    ) -> Transcription:
        """What is said in sound of any length.

        samples: float32 [samples], one channel at ``sample_rate`` per second, full scale ±1, contiguous: a NumPy array, or
        what has DLPack or a buffer. Read where it lies; do not change it meanwhile.
        ``on_progress(done, total)`` counts seconds of sound.
        language, task, prompt: in place of the transcriber's, of this call; None: as it was loaded.
        vad_filter: whether speech alone is heard; None: where the transcriber was loaded with ``vad``.
        vad_parameters: in place of all of the transcriber's; those that are not given have their defaults.
        Raises: TypeError (another dtype), ValueError (another shape, lying in pieces), InvalidArgumentError (no samples, or
        one that is no finite number; a language, task or prompt that the
        model does not take; speech alone without ``vad``), DeviceLostError, VulkanError, MemoryError.
        """
        given, vad = _inputs.samples(samples), self._choice(vad_filter, vad_parameters)
        spoken = self._spoken_of(language, task, prompt)
        return _result(self._run(lambda stop: self._core.transcribe(given, on_progress, stop, *spoken, vad)))

    async def transcribe_async(
        self,
        samples: ArrayLike,
        *,
        on_progress: Callable[[float, float], object] | None = None,
        language: str | None = None,
        task: Literal["", "transcribe", "translate"] | None = None,
        prompt: str | None = None,
        vad_filter: bool | None = None,
        vad_parameters: VadParameters | None = None,
    ) -> Transcription:
        """``transcribe`` in another thread."""
        given, vad = _inputs.samples(samples), self._choice(vad_filter, vad_parameters)
        spoken = self._spoken_of(language, task, prompt)
        return _result(await self._run_async(lambda stop: self._core.transcribe(given, on_progress, stop, *spoken, vad)))

    def _spoken_of(self, *asked: str | None) -> tuple[str, ...]:
        """What is spoken, what is done with it, and the text before it."""
        names = ("language", "task", "prompt")
        return tuple(
            own if given is None else _inputs.text(given, name)
            for own, given, name in zip(self._spoken, asked, names, strict=True)
        )

    def _choice(self, vad_filter: bool | None, parameters: VadParameters | None) -> _core.VadOptions | None:
        """What counts as speech; None: all sound is heard."""
        filters = self._filters if vad_filter is None else bool(vad_filter)
        if parameters is not None and not filters:
            what_to_do = "leave one of vad_filter=False and them out" if self._filters else "load with vad=FILE"
            raise ValueError(f"vad_parameters say what counts as speech, and all sound is heard: {what_to_do}")
        if not filters:
            return None
        return self._vad if parameters is None else vad_options("vad_parameters", parameters)

    @property
    def sample_rate(self) -> int:
        """Samples per second that ``transcribe`` takes: 16000 of the published models."""
        return self._sample_rate


def _result(found: tuple[Any, ...]) -> Transcription:
    text, language, segments = found
    return Transcription(
        text,
        language,
        [Segment(*[*fields, [Word(*word) for word in words], heard_from]) for *fields, words, heard_from in segments],
    )
