# SPDX-License-Identifier: MIT
"""What transcribers hear, against the goldens that the C++ tests have, on every device."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDENS, read_json, read_tensor

import vkformer

NEVER = float("inf")


@pytest.mark.parametrize("name", ["whisper_texts", "whisper_english"])
def test_speech(device: str, name: str) -> None:
    folder = GOLDENS / "speech" / name
    config = json.loads((folder / "generation_config.json").read_text())
    for entry in read_json("speech", name, "generate.json")[:3]:
        clip = read_tensor(folder / "golden.safetensors", f"clip{entry['clip']}").astype(np.float32)
        with vkformer.Transcriber(
            folder,
            device,
            language=entry["options"].get("language", ""),
            task=entry["options"].get("task", ""),
            max_length=entry["max_length"],
            timestamps=False,
            temperatures=0,
            compression_ratio_threshold=NEVER,
            log_prob_threshold=-NEVER,
            no_speech_threshold=NEVER,
            plain_shaders=True,
        ) as transcriber:
            found = transcriber.transcribe(clip)
            assert transcriber.sample_rate == 8000
        tokens = entry["tokens"][entry["tokens"].index(config["no_timestamps_token_id"]) + 1 :]
        assert found.segments[0].tokens == [token for token in tokens if token != config["eos_token_id"]]
        assert found.segments[0].text == entry["text"]
        assert str(found) == found.text == entry["text"].strip()


@pytest.mark.parametrize("name", ["wav2vec2_base", "hubert_large"])
def test_speech_without_decoder(device: str, name: str) -> None:
    golden = read_json("ctc", name, "text.json")
    state, samples = 7, np.zeros(golden["samples"], np.float32)
    for i in range(len(samples)):
        state = (1664525 * state + 1013904223) % 2**32
        samples[i] = ((state >> 16) - 32768) // (1 << (i // 300 % 4 * 2)) / 32768
    with vkformer.Transcriber(GOLDENS / "ctc" / name, device, word_timestamps=True, plain_shaders=True) as transcriber:
        assert transcriber.sample_rate == 1000
        found = transcriber.transcribe(samples)
    assert found.text == golden["text"]
    assert [segment.heard_from for segment in found.segments] == [segment.start for segment in found.segments]
    words = [word for segment in found.segments for word in segment.words]
    assert [word.text.strip() for word in words] == [word["word"] for word in golden["words"]]
    assert [word.start for word in words] == pytest.approx([word["start"] for word in golden["words"]])
    with pytest.raises(vkformer.InvalidArgumentError, match="leave out language"):
        vkformer.Transcriber(GOLDENS / "ctc" / name, device, language="en", plain_shaders=True)


def test_speech_with_times(device: str) -> None:
    folder = GOLDENS / "speech" / "whisper_times_414"
    entry = read_json("speech", "whisper_times_414", "timed.json")[0]
    sound = read_tensor(folder / "golden.safetensors", f"timed{entry['clip']}").astype(np.float32)
    told: list[tuple[float, float]] = []
    with vkformer.Transcriber(
        folder,
        device,
        temperatures=0,
        compression_ratio_threshold=NEVER,
        log_prob_threshold=-NEVER,
        no_speech_threshold=NEVER,
        plain_shaders=True,
    ) as transcriber:
        rate = transcriber.sample_rate
        found = transcriber.transcribe(sound, on_progress=lambda done, total: told.append((done, total)))
    seconds = len(sound) / rate
    assert told[-1] == (seconds, seconds)
    for segment, expected in zip(found.segments, entry["segments"], strict=True):
        assert (segment.start, segment.end) == pytest.approx(
            (expected["start"], min(expected["end"], seconds)), abs=1e-6
        )
        assert segment.tokens == expected["tokens"]
        assert 0 <= segment.heard_from <= segment.start
    assert found.segments[0].heard_from == 0 < found.segments[-1].heard_from


def test_times_of_words(device: str) -> None:
    folder = GOLDENS / "speech" / "whisper_texts"
    for entry in read_json("speech", "whisper_texts", "words.json"):
        sound = read_tensor(folder / "golden.safetensors", entry["clip"]).astype(np.float32)
        with vkformer.Transcriber(
            folder, device, timestamps=False, max_length=24, temperatures=0, word_timestamps=True, plain_shaders=True
        ) as transcriber:
            (segment,) = transcriber.transcribe(sound).segments
        expected = [(text, start * 0.04, end * 0.04, p) for text, start, end, p in entry["segments"][0]["words"]]
        assert [word.text for word in segment.words] == [text for text, *_ in expected]
        for word, (_, start, end, probability) in zip(segment.words, expected, strict=True):
            assert isinstance(word, vkformer.Word)
            assert (word.start, word.end) == pytest.approx((start, end), abs=1e-6)
            assert word.probability == pytest.approx(probability, abs=1e-5)
        assert "".join(word.text for word in segment.words) == segment.text


def test_what_is_spoken_is_said_for_a_call() -> None:
    folder = GOLDENS / "speech" / "whisper_times_414"
    sound = read_tensor(folder / "golden.safetensors", "timed0").astype(np.float32)
    options: dict[str, Any] = {"temperatures": 0, "log_prob_threshold": -NEVER, "no_speech_threshold": NEVER}

    def alone(**spoken: Any) -> vkformer.Transcription:
        with vkformer.Transcriber(folder, "cpu", **options, **spoken) as transcriber:
            return transcriber.transcribe(sound)

    with vkformer.Transcriber(folder, "cpu", **options) as transcriber:
        for spoken in ({"prompt": "a cat"}, {"language": "de"}, {"language": "fr", "task": "translate"}, {}):
            assert transcriber.transcribe(sound, **spoken) == alone(**spoken)  # type: ignore[arg-type]
        assert asyncio.run(transcriber.transcribe_async(sound, language="de")) == alone(language="de")
        with pytest.raises(vkformer.InvalidArgumentError, match="xx"):
            transcriber.transcribe(sound, language="xx")
        with pytest.raises(TypeError, match="prompt is of type int"):
            transcriber.transcribe(sound, prompt=3)  # type: ignore[arg-type]


def test_voice_activity(tmp_path: Path) -> None:
    vad = GOLDENS / "vad"
    samples = read_tensor(vad / "golden.safetensors", "samples")
    detector = vkformer.VoiceActivityDetector(vad / "network.safetensors")
    found = detector.probabilities(samples)
    assert (found.dtype, found.shape) == (np.float32, (-(-len(samples) // detector.frame_samples),))
    np.testing.assert_allclose(found, read_tensor(vad / "golden.safetensors", "probabilities"), rtol=0, atol=1e-5)
    (first, second) = detector.speech_timestamps(samples, min_silence_duration_ms=500, speech_pad_ms=0)
    assert all(found[i] > 0.5 for i in (first[0] // 512, second[0] // 512))
    assert first[0] % 512 == second[0] % 512 == 0
    assert detector.speech_timestamps(samples, threshold=1) == []

    shutil.copytree(GOLDENS / "speech" / "whisper_times_414", tmp_path / "model")
    sound = json.loads((tmp_path / "model" / "preprocessor_config.json").read_text())
    (tmp_path / "model" / "preprocessor_config.json").write_text(json.dumps({**sound, "sampling_rate": 16000}))
    with vkformer.Transcriber(
        tmp_path / "model",
        "cpu",
        temperatures=0,
        log_prob_threshold=-NEVER,
        no_speech_threshold=NEVER,
        plain_shaders=True,
        vad=vad / "network.safetensors",
        vad_parameters={"min_silence_duration_ms": 500, "speech_pad_ms": 0},
    ) as transcriber:
        heard = transcriber.transcribe(samples)
        for segment in heard.segments:  # none begins or ends in silence
            assert any(a / 16000 - 1e-6 < segment.start < b / 16000 for a, b in (first, second))
            assert any(a / 16000 < segment.end < b / 16000 + 1e-6 for a, b in (first, second))
        assert heard.segments[-1].end > second[0] / 16000
        assert asyncio.run(transcriber.transcribe_async(samples)) == heard
        padded = transcriber.transcribe(samples, vad_parameters={"speech_pad_ms": 30})
        assert padded.segments != heard.segments
        assert transcriber.transcribe(samples, vad_filter=False).segments[0].start < first[0] / 16000
        assert transcriber.transcribe(samples) == heard
        silent = transcriber.transcribe(np.zeros(32000, np.float32))
        assert (silent.text, silent.segments) == ("", [])
