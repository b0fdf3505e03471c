# SPDX-License-Identifier: MIT
"""Sound files over HTTP."""

import io
import json
import shutil
import struct
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from conftest import GOLDENS, MODELS, Server, program


def clip(name: str = "timed1") -> bytes:
    """A golden's sound as a WAV file."""
    data = (MODELS["ears"] / "golden.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    first, last = json.loads(data[8 : 8 + length])[name]["data_offsets"]
    samples = struct.unpack(f"<{(last - first) // 4}f", data[8 + length + first : 8 + length + last])
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(8000)
        writer.writeframes(b"".join(struct.pack("<h", round(max(-1, min(1, x)) * 32767)) for x in samples))
    return file.getvalue()


def form(fields: dict[str, bytes], boundary: bytes = b"edge") -> bytes:
    parts = []
    for name, value in fields.items():
        file = b'; filename="a.wav"' if name == "file" else b""
        parts.append(b"--" + boundary + b'\r\nContent-Disposition: form-data; name="' + name.encode() + b'"' + file + b"\r\n\r\n" + value + b"\r\n")
    return b"".join(parts) + b"--" + boundary + b"--\r\n"


def send(server: Server, body: bytes, path: str = "/v1/audio/transcriptions", kind: str = "multipart/form-data; boundary=edge") -> tuple[int, bytes]:
    status, _, content = server.request("POST", path, body, {"content-type": kind})
    return status, content


@pytest.fixture(scope="session")
def ears(server: Server) -> Iterator[openai.OpenAI]:
    yield openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)


def by_program(file: Path, *options: str) -> str:
    command = [program(), "transcribe", "-q", "--device", "cpu", "--plain", "--model", str(MODELS["ears"]), *options, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_formats(server: Server, ears: openai.OpenAI, tmp_path: Path) -> None:
    sound = clip()
    (tmp_path / "a.wav").write_bytes(sound)
    expected = json.loads(by_program(tmp_path / "a.wav", "--json", "--task", "transcribe", "--language", "en"))
    plain = ears.audio.transcriptions.create(model="ears", file=("a.wav", sound), language="en")
    assert plain.text == expected["text"] != ""
    verbose = ears.audio.transcriptions.create(model="ears", file=("a.wav", sound), response_format="verbose_json", language="en")
    assert (verbose.text, verbose.language) == (expected["text"], expected["language"])
    assert verbose.segments
    assert [(segment.start, segment.end, segment.text) for segment in verbose.segments] == [
        (segment["start"], segment["end"], segment["text"]) for segment in expected["segments"]
    ]
    for name in ("text", "srt", "vtt"):
        status, content = send(server, form({"file": sound, "language": b"en", "response_format": name.encode()}))
        assert (status, content.decode()) == (200, by_program(tmp_path / "a.wav", "--format", name, "--language", "en", "--task", "transcribe"))
    translated = json.loads(by_program(tmp_path / "a.wav", "--json", "--task", "translate"))
    assert ears.audio.translations.create(model="ears", file=("a.wav", sound)).text == translated["text"]
    for temperature, expects in ((b"0", 200), (b"0.00", 200), (b"0e1", 200), (b"0.1", 400), (b"", 400), (b"0 ", 400), (b"nan", 400)):
        assert send(server, form({"file": sound, "temperature": temperature}))[0] == expects, temperature
    # What was asked for before says nothing of the next.
    heard = json.loads(by_program(tmp_path / "a.wav", "--json", "--task", "transcribe"))
    assert ears.audio.transcriptions.create(model="ears", file=("a.wav", sound)).text == heard["text"]


def test_segments_say_where_their_window_begins(ears: openai.OpenAI) -> None:
    once, file = clip(), io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(8000)
        writer.writeframes(once[44:] * 8)
    found = ears.audio.transcriptions.create(model="ears", file=("a.wav", file.getvalue()), response_format="verbose_json", language="en")
    assert found.segments
    seeks = [segment.seek for segment in found.segments]
    assert seeks[0] == 0 and seeks == sorted(seeks) and seeks[-1] > 0
    assert all(segment.seek / 100 <= segment.start + 0.01 for segment in found.segments)


def test_times_of_words(ears: openai.OpenAI, tmp_path: Path) -> None:
    sound = clip()
    (tmp_path / "a.wav").write_bytes(sound)
    expected = json.loads(by_program(tmp_path / "a.wav", "--json", "--word-timestamps", "--task", "transcribe", "--language", "en"))
    words = [(word["word"].lstrip(" "), word["start"], word["end"], word["probability"]) for segment in expected["segments"] for word in segment["words"]]
    for granularities in (["word"], ["segment", "word"]):
        found = ears.audio.transcriptions.create(
            model="ears", file=("a.wav", sound), response_format="verbose_json", language="en", timestamp_granularities=granularities
        )
        assert found.words
        assert [(word.word, word.start, word.end, word.model_extra["probability"]) for word in found.words] == words
        assert (found.segments is None) == (granularities == ["word"])
    without = ears.audio.transcriptions.create(model="ears", file=("a.wav", sound), response_format="verbose_json", language="en")
    assert without.words is None and without.segments and without.text == found.text


def test_speech_alone(server: Server, tmp_path: Path) -> None:
    folder, vad = tmp_path / "model", str(GOLDENS / "vad" / "network.safetensors")
    shutil.copytree(MODELS["ears"], folder)
    config = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps({**config, "sampling_rate": 16000}))
    silence = clip()[:44] + bytes(32000)
    silence = silence[:24] + struct.pack("<II", 16000, 32000) + silence[32:40] + struct.pack("<I", 32000) + silence[44:]

    def heard(of: Server, **fields: bytes) -> tuple[int, dict[str, Any]]:
        status, content = send(of, form({"file": silence, "response_format": b"verbose_json", **fields}))
        return status, json.loads(content)

    filtering = Server("--vad", vad, "--vad-threshold", "0.6", "--model", f"sixteen={folder}", models=())
    try:
        status, body = heard(filtering)
        assert (status, body["text"], body["segments"], body["duration"]) == (200, "", [], 1.0)
        assert heard(filtering, vad_filter=b"false")[1]["segments"]
        assert heard(filtering, vad_filter=b"true")[1]["segments"] == []
    finally:
        assert filtering.stop() == 0
    status, body = heard(server, vad_filter=b"true")
    assert (status, "load with vad" in body["error"]["message"]) == (400, True)
    assert heard(server, vad_filter=b"false")[0] == 200
    for arguments, words in (
        ((vad, "--model", f"dates={MODELS['dates']}"), "leave it out"),
        (("no_such_file", "--load", "on-demand", "--model", f"sixteen={folder}"), "no_such_file"),
        ((vad, "--vad-threshold", "7", "--load", "on-demand", "--model", f"sixteen={folder}"), "threshold is 7"),
    ):
        ended = subprocess.run([program(), "serve", "--check", "-d", "cpu", "--vad", *arguments], capture_output=True, text=True)
        assert ended.returncode != 0 and words in ended.stderr, ended.stderr


def test_model_without_decoder(tmp_path: Path) -> None:
    folder = GOLDENS / "ctc" / "wav2vec2_base"
    golden = json.loads((folder / "text.json").read_text())
    state, samples = 7, []
    for i in range(golden["samples"]):
        state = (1664525 * state + 1013904223) % 2**32
        samples.append(((state >> 16) - 32768) // (1 << (i // 300 % 4 * 2)))
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(1000)
        writer.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    sound = file.getvalue()
    letters = Server("--model", f"letters={folder}", models=())
    try:
        status, content = send(letters, form({"file": sound, "response_format": b"verbose_json", "timestamp_granularities[]": b"word"}))
        body = json.loads(content)
        assert (status, body["text"], body["duration"]) == (200, golden["text"], golden["samples"] / 1000)
        assert [(word["word"], word["start"]) for word in body["words"]] == [(word["word"], word["start"]) for word in golden["words"]]
        for fields, path in (({"language": b"en"}, "transcriptions"), ({}, "translations")):
            status, content = send(letters, form({"file": sound, **fields}), f"/v1/audio/{path}")
            assert (status, b"without a decoder" in content) == (400, True)
    finally:
        assert letters.stop() == 0


def test_prompts_come_before_what_is_said(server: Server, ears: openai.OpenAI, tmp_path: Path) -> None:
    sound = clip()
    (tmp_path / "a.wav").write_bytes(sound)
    options = ("--json", "--task", "transcribe", "--language", "en")
    without, expected = (json.loads(by_program(tmp_path / "a.wav", *options, *more))["text"] for more in ((), ("--prompt", "The cat, der Hund.")))
    assert without != expected
    found = ears.audio.transcriptions.create(model="ears", file=("a.wav", sound), language="en", prompt="The cat, der Hund.")
    assert found.text == expected
    assert ears.audio.transcriptions.create(model="ears", file=("a.wav", sound), language="en").text == without


def test_bad_forms(server: Server) -> None:
    sound = clip()
    for body, what in (
        (form({"model": b"ears"}), "file"),
        (form({"file": b"", "model": b"ears"}), "libsndfile"),
        (form({"file": b"\0" * 5000}), "libsndfile"),
        (form({"file": sound[:30]}), "libsndfile"),
        (form({"file": sound, "language": b"xx"}), "xx"),
        (form({"file": sound, "prompt": b"<|en|>"}), "special token"),
        (form({"file": sound, "prompt": b"\xff"}), "UTF-8"),
        (form({"file": sound, "temperature": b"0.5"}), "temperature"),
        (form({"file": sound, "response_format": b"mp3"}), "response_format"),
        (form({"file": sound, "timestamp_granularities[]": b"word"}), "verbose_json"),
        (form({"file": sound, "timestamp_granularities[]": b"line", "response_format": b"verbose_json"}), "neither"),
        (form({"file": sound, "vad_filter": b"1"}), "vad_filter"),
        (form({"file": sound, "model": b"vectors"}), "not for this route"),
        (form({"file": sound})[:-30], "ends within a part"),
        (b"--edge--", "file"),
        (b"--edge\r\n\r\n\r\n--edge--", "a part has no head"),
        (b"--edge\r\nX: a\r\n\r\n\r\n--edge--", "content-disposition"),
        (b"nothing", "boundary"),
        (form({"a": b""}), "does not know"),
        (form({"language": b"xx"})[: -len(b"--edge--\r\n")] + form({"file": sound, "language": b"en"}), "language: there are two"),
        (form({f"a{number}": b"" for number in range(100)}), "more than 64 parts"),
    ):
        status, content = send(server, body)
        message = json.loads(content)["error"]["message"]
        assert status == 400 and what in message, (body[:100], message)
        assert "/" not in message.replace("multipart/form-data", ""), "a path of the machine"
    assert send(server, form({"file": sound}), kind="multipart/form-data")[0] == 400
    assert send(server, form({"file": sound}), kind="application/json")[0] == 415
    assert send(server, form({"file": sound}), kind='multipart/form-data; charset=utf-8; boundary="edge"')[0] == 200
    # Sound that grows: an hour of silence of 2 bits a sample is small, a header that promises all of memory smaller.
    promise = sound[:24] + struct.pack("<II", 4_000_000_000, 4_000_000_000) + sound[32:]
    assert send(server, form({"file": promise}))[0] in (200, 400)
