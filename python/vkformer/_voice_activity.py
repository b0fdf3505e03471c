# SPDX-License-Identifier: MIT
"""Where in a sound somebody speaks."""

import math
from collections.abc import Mapping
from typing import Any, SupportsFloat, SupportsIndex, TypedDict, Unpack

from . import _core, _inputs
from ._inputs import ArrayLike, Path
from ._not_copied import NotCopied
from ._results import FloatArray


class VadParameters(TypedDict, total=False):
    """What counts as speech; names, defaults and meaning are those of faster-whisper's VadOptions.

    threshold: 0 to 1; a frame at least as probable is speech. 0.5.
    neg_threshold: a frame less probable ends speech, one between the two goes on as the frame before. None, which is the
        default: threshold - 0.15, at least 0.01 or the threshold.
    min_speech_duration_ms: shorter speech is passed over. 0.
    max_speech_duration_s: seconds; longer speech is cut where the last silence of more than 98 ms in it began, else as late
        as may be. More than 0.032 and the two pads. Infinity.
    min_silence_duration_ms: shorter silence does not end speech. 2000.
    speech_pad_ms: of sound that is kept at either side; half the silence where it is shorter. 400.
    """

    threshold: SupportsFloat
    neg_threshold: SupportsFloat | None
    min_speech_duration_ms: SupportsIndex
    max_speech_duration_s: SupportsFloat
    min_silence_duration_ms: SupportsIndex
    speech_pad_ms: SupportsIndex


def vad_options(where: str, given: Mapping[str, Any]) -> _core.VadOptions:
    """Of VadParameters that `where` was given."""
    for name in given:
        if name not in VadParameters.__annotations__:
            raise _inputs.unexpected(where, name, VadParameters.__annotations__)
    return _vad_options(**given)


def _vad_options(
    *,
    threshold: SupportsFloat = 0.5,
    neg_threshold: SupportsFloat | None = None,
    min_speech_duration_ms: SupportsIndex = 0,
    max_speech_duration_s: SupportsFloat = math.inf,
    min_silence_duration_ms: SupportsIndex = 2000,
    speech_pad_ms: SupportsIndex = 400,
) -> _core.VadOptions:
    return _core.VadOptions(
        threshold=_inputs.real(threshold, "threshold"),
        neg_threshold=_inputs.optional_real(neg_threshold, "neg_threshold"),
        min_speech_duration_ms=_inputs.uint(min_speech_duration_ms, "min_speech_duration_ms"),
        max_speech_duration_s=_inputs.real(max_speech_duration_s, "max_speech_duration_s"),
        min_silence_duration_ms=_inputs.uint(min_silence_duration_ms, "min_silence_duration_ms"),
        speech_pad_ms=_inputs.uint(speech_pad_ms, "speech_pad_ms"),
    )


class VoiceActivityDetector(NotCopied):
    """Silero VAD of versions 5 and 6 for 16 kHz, on the calling thread of the CPU.

    path: silero_vad/data/silero_vad_16k.safetensors of the package silero-vad 6.2, which is not shipped here.

    Samples are float32 [samples], one channel of 16 kHz, full scale ±1, contiguous: a NumPy array, or what has DLPack or a
    buffer. Several threads may call at once; the GIL is free meanwhile.

    Raises: MissingFileError, CorruptFileError, MissingTensorError, ShapeMismatchError, UnsupportedDtypeError,
        UnsupportedConfigError (a tensor that is not of this network).
    """

    _instead = "load it again where it is needed; threads may share one"
    sample_rate = 16000
    frame_samples = 512

    def __init__(self, path: Path) -> None:
        self._core = _core.VoiceActivityDetector(_inputs.path(path))

    def probabilities(self, samples: ArrayLike) -> FloatArray:
        """How probable speech is in each frame of 512 samples, the last filled up with zeros: float32 [frames].

        Raises: TypeError, ValueError (as ``Transcriber.transcribe``), InvalidArgumentError (a sample that is no finite number,
        or samples so large that there is no probability).
        """
        return self._core.probabilities(_inputs.samples(samples))

    def speech_timestamps(self, samples: ArrayLike, **parameters: Unpack[VadParameters]) -> list[tuple[int, int]]:
        """Where somebody speaks, in order: the first sample, and the one behind the last. Keywords: VadParameters.

        Raises: as ``probabilities``; InvalidArgumentError (parameters outside their range).
        """
        options = vad_options("VoiceActivityDetector.speech_timestamps()", parameters)
        return self._core.speech_timestamps(_inputs.samples(samples), options)
