# SPDX-License-Identifier: MIT
"""Bad input: exceptions that say what is wrong, never a crash, and models that work afterwards."""

import array
import json
import math
import os
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CLIP, DATES, GOLDENS, PICTURES, TEXTS, VIT, device_names

import vkformer

CLASSES: list[Any] = [
    vkformer.Translator,
    vkformer.Generator,
    vkformer.Chat,
    vkformer.Embedder,
    vkformer.Reranker,
    vkformer.Transcriber,
    vkformer.ImageClassifier,
    vkformer.ImageEmbedder,
]


@pytest.mark.parametrize("cls", CLASSES)
def test_paths(cls: Any, tmp_path: Path) -> None:
    for missing in ("no such folder", Path("no such folder"), b"no such folder", "", tmp_path / "\udcff"):
        with pytest.raises(vkformer.Error) as caught:
            cls(missing, "cpu")
        assert isinstance(caught.value, OSError | ValueError | NotImplementedError)
    for missing in ("no such folder", tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match=r"no such folder|none"):
            cls(missing, "cpu")
    with pytest.raises(ValueError, match="null character"):
        cls("nul\0", "cpu")
    for wrong in (None, 3, [str(DATES)], object()):
        with pytest.raises(TypeError):
            cls(wrong, "cpu")
    (tmp_path / "config.json").write_bytes(b"\xff{")
    with pytest.raises(vkformer.CorruptFileError) as corrupt:
        cls(tmp_path, "cpu")
    assert isinstance(corrupt.value, ValueError)
    assert corrupt.value.code == "corrupt_file"


def test_offload_is_a_size_or_auto() -> None:
    wrong: list[tuple[Any, type[Exception]]] = [
        ("much", TypeError), (1.5, TypeError), (None, TypeError), (-1, ValueError), (2**64 - 1, ValueError)
    ]  # fmt: skip
    for value, error in wrong:
        with pytest.raises(error, match="offload"):
            vkformer.Translator(DATES, "cpu", offload=value)
    for device in device_names():
        with vkformer.Translator(DATES, device, plain_shaders=True, beams=1, offload="auto") as translator:
            assert translator.translate("4. März 2021").text == "2021-03-04"
    for device in device_names()[1:2]:  # a CPU has no memory but the host's
        with pytest.raises(vkformer.MissingFeatureError, match="no memory but its own"):
            vkformer.Translator(DATES, device, plain_shaders=True, offload=1 << 20)


def test_what_nobody_knows_of_a_models_files(tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    shutil.copytree(DATES, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "attention_bend": 0.25}))
    with pytest.warns(vkformer.UnknownFieldWarning, match='"attention_bend", which is 0.25') as told:
        translator = vkformer.Translator(folder, "cpu", plain_shaders=True)
    assert len(told) == 1
    assert told[0].filename == __file__  # where it is loaded
    assert translator.translate("4. März 2021").text == "2021-03-04"
    translator.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", vkformer.UnknownFieldWarning)
        vkformer.Translator(DATES, "cpu", plain_shaders=True).close()
        with pytest.raises(vkformer.UnknownFieldWarning):
            vkformer.Translator(folder, "cpu", plain_shaders=True)


def test_paths_of_other_bytes_than_utf_8(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    shutil.copytree(os.fsencode(DATES), folder)
    for path in (folder, os.fsdecode(folder), Path(os.fsdecode(folder))):
        with vkformer.Translator(path, "cpu", plain_shaders=True) as translator:
            assert translator.translate("4. März 2021").text == "2021-03-04"
    os.remove(folder + b"/config.json")
    with pytest.raises(FileNotFoundError):
        vkformer.Translator(folder, "cpu")


@pytest.mark.parametrize("cls", CLASSES)
def test_options(cls: Any) -> None:
    with pytest.raises(ValueError, match="'f64'"):
        cls(DATES, "cpu", "f64")
    for device in (None, 1.5, b"cpu", True):
        with pytest.raises(TypeError, match="device"):
            cls(DATES, device)
    with pytest.raises(TypeError, match="color"):
        cls(DATES, "cpu", color=3)
    with pytest.raises(TypeError):
        cls(DATES, "cpu", "f32", 4)
    with pytest.raises(TypeError):
        cls()
    with pytest.raises(TypeError):
        cls(DATES, "cpu", shader_variants={"linear": 3})
    with pytest.raises(TypeError, match="shader_variants is of type list, expected a mapping"):
        cls(DATES, "cpu", shader_variants=["linear"])


def test_devices_that_are_not_there() -> None:
    for name in ("no such device", "99", "\ud800"):
        with pytest.raises((vkformer.NoDeviceError, vkformer.NoVulkanLoaderError, ValueError)):
            vkformer.Translator(DATES, name)


def test_models_of_another_kind() -> None:
    for cls, path in ((vkformer.Generator, DATES), (vkformer.Translator, TEXTS), (vkformer.ImageClassifier, TEXTS)):
        with pytest.raises(vkformer.Error) as caught:
            cls(path, "cpu")
        assert isinstance(caught.value, NotImplementedError | ValueError | FileNotFoundError)


@pytest.mark.parametrize(
    "arguments",
    [
        {"beams": -1},
        {"beams": 2**32},
        {"beams": 33},
        {"beams": "2"},
        {"beams": 1.0},
        {"batch": -1},
        {"from_language": 3},
        {"to_language": "xx"},
        {"to_language": "\ud800"},
    ],
)
def test_options_of_translators(arguments: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        with vkformer.Translator(DATES, "cpu", plain_shaders=True, **arguments) as translator:
            translator.translate("4. März 2021")


def test_texts(translator: vkformer.Translator, generator: vkformer.Generator) -> None:
    def refused(kind: type[Exception], match: str, value: Any) -> None:
        with pytest.raises(kind, match=match):
            translator.translate(value)

    refused(TypeError, r"texts\[1\] is of type bytes", ["a", b"b"])
    refused(TypeError, "bytes", b"abc")
    refused(TypeError, "NoneType", None)
    refused(TypeError, "int", 3)
    refused(TypeError, "dict", {"a": "b"})
    refused(UnicodeEncodeError, "surrogates", "a\ud800b")
    refused(UnicodeEncodeError, "surrogates", ["fine", "a\udcff"])
    refused(vkformer.InvalidArgumentError, "text 2", ["fine", "4. März 2021 " * 1000])
    assert translator.translate([]) == []
    assert translator.translate(["", " \n"])[1].text.strip() == ""
    assert translator.translate(iter(["4. März 2021"]))[0].text == "2021-03-04"
    assert isinstance(translator.translate("a\0b").text, str)
    with pytest.raises(UnicodeEncodeError):
        translator.attention("\ud800")
    with pytest.raises(ValueError, match="blank"):
        translator.attention(" ")
    with pytest.raises(vkformer.InvalidArgumentError):
        translator.check("4. März 2021 " * 1000)
    assert translator.translate("4. März 2021").text == "2021-03-04"

    with pytest.raises(UnicodeEncodeError):
        generator.generate("\ud800")
    with pytest.raises(vkformer.InvalidArgumentError, match="prompt 1"):
        generator.generate("x" * 100_000)
    with pytest.raises(vkformer.InvalidArgumentError):
        generator.generate("")


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_tokens": -1},
        {"max_tokens": 1.5},
        {"max_tokens": 2**40},
        {"min_tokens": -1},
        {"seed": -5},
        {"seed": 2**64},
        {"temperature": math.nan},
        {"temperature": -1},
        {"temperature": "hot"},
        {"temperature": 1e300},
        {"top_p": -0.1},
        {"top_p": math.nan},
        {"min_p": 2},
        {"top_k": -1},
        {"repetition_penalty": 0},
        {"presence_penalty": math.inf},
        {"logit_bias": {-1: 1.0}},
        {"logit_bias": {10**6: 1.0}},
        {"logit_bias": {2**40: 1.0}},
        {"logit_bias": {1: math.nan}},
        {"logit_bias": {"a": 1.0}},
        {"stop": [3]},
        {"stop": "\ud800"},
        {"max_length": 3},
    ],
)
def test_options_of_generations(generator: vkformer.Generator, arguments: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        generator.generate("Hello", **{"max_tokens": 4, "temperature": 1, **arguments})
    assert len(generator.generate("Hello", max_tokens=4, ignore_end=True).tokens) == 4


def test_mappings_are_mappings(generator: vkformer.Generator) -> None:
    with pytest.raises(TypeError, match="adapters is of type bool, expected a mapping"):
        vkformer.Generator(TEXTS, "cpu", adapters=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="logit_bias is of type str, expected a mapping"):
        generator.generate("Hello", logit_bias="")  # type: ignore[arg-type]


def test_misspelt_options_are_named_with_the_public_call(generator: vkformer.Generator) -> None:
    for load, call, wrong, near in (
        (vkformer.Translator, "Translator", "beems", "beams"),
        (vkformer.Generator, "Generator", "plain_shader", "plain_shaders"),
        (vkformer.Chat, "Generator", "contexts", "context"),
        (vkformer.Embedder, "Embedder", "normalise", "normalize"),
        (vkformer.Reranker, "Reranker", "max_lenght", "max_length"),
        (vkformer.Transcriber, "Transcriber", "vad_parameter", "vad_parameters"),
        (vkformer.ImageClassifier, "ImageClassifier", "onprogress", "on_progress"),
        (vkformer.ImageEmbedder, "ImageEmbedder", "Dtype", "dtype"),
    ):
        expected = rf"^{call}\(\) got an unexpected keyword argument '{wrong}'; did you mean '{near}'\?$"
        with pytest.raises(TypeError, match=expected):
            load("there is no such folder", **{wrong: 1})  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"^Translator\(\) got an unexpected keyword argument 'xyzzy'$"):
        vkformer.Translator("there is no such folder", xyzzy=1)  # type: ignore[call-arg]
    chat = vkformer.Chat(generator)
    messages = [("user", "Hello")]
    calls: list[tuple[Any, str, Any]] = [
        (generator.generate, "Generator.generate", "Hello"),
        (generator.generate_tokens, "Generator.generate_tokens", [[1]]),
        (generator.stream, "Generator.stream", "Hello"),
        (generator.stream_async, "Generator.stream_async", "Hello"),
        (generator.chat, "Generator.chat", messages),
        (generator.chat_stream, "Generator.chat_stream", messages),
        (generator.chat_stream_async, "Generator.chat_stream_async", messages),
        (chat.say, "Generator.chat", "Hello"),
        (chat.stream, "Chat.stream", "Hello"),
        (chat.stream_async, "Chat.stream_async", "Hello"),
    ]
    for use, name, given in calls:
        with pytest.raises(TypeError, match=rf"^{name}\(\) got an .* 'max_token'; did you mean 'max_tokens'\?$"):
            use(given, max_token=3)
    with pytest.raises(TypeError, match=r"^Generator.score\(\) got an .* 'likelyest'; did you mean 'likeliest'\?$"):
        generator.score("Hello", likelyest=3)  # type: ignore[call-overload]
    detector = vkformer.VoiceActivityDetector(GOLDENS / "vad" / "network.safetensors")
    near_pad = "got an .* 'speech_pad'; did you mean 'speech_pad_ms'"
    with pytest.raises(TypeError, match=rf"^VoiceActivityDetector.speech_timestamps\(\) {near_pad}"):
        detector.speech_timestamps(np.zeros(512, np.float32), speech_pad=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=f"^vad_parameters {near_pad}"):
        vkformer.Transcriber("no folder", "cpu", vad="x", vad_parameters={"speech_pad": 3})  # type: ignore[typeddict-unknown-key]


def test_tokens(generator: vkformer.Generator) -> None:
    for prompt in ([], [-1], [10**6], [2**40], [1.5], ["a"]):
        with pytest.raises((TypeError, ValueError)):
            generator.generate_tokens([prompt])
    with pytest.raises(TypeError):
        generator.generate_tokens([1, 2])  # type: ignore[list-item]
    found = generator.generate_tokens(np.array([[274, 270]]), max_tokens=3)
    assert found[0].tokens == generator.generate("Hello", max_tokens=3).tokens


def test_messages(generator: vkformer.Generator) -> None:
    for messages in (
        [{"role": "user"}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": "a", "name": "b"}],
        [("user",)],
        ["user"],
        [{"role": "user", "content": "\ud800"}],
    ):
        with pytest.raises((TypeError, ValueError)):
            generator.chat(messages)  # type: ignore[arg-type]
    by_tuple = generator.chat([("user", "Hello, world!")], max_tokens=4)
    assert by_tuple.text == generator.chat([{"role": "user", "content": "Hello, world!"}], max_tokens=4).text


def test_pairs() -> None:
    with vkformer.Reranker(GOLDENS / "sentences" / "cross_encoder", "cpu", plain_shaders=True) as reranker:
        for pairs in (["ab"], [("a",)], [("a", "b", "c")], [("a", 3)], [3], 3, [("a", "\ud800")]):
            with pytest.raises((TypeError, ValueError)):
                reranker.score(pairs)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected several"):
            reranker.rerank("a", "b")
        assert reranker.score([]).shape == (0,)
        assert reranker.rerank("a", []) == []


@pytest.fixture(scope="module")
def transcriber() -> Any:
    folder = GOLDENS / "speech" / "whisper_texts"
    with vkformer.Transcriber(folder, "cpu", plain_shaders=True, timestamps=False, temperatures=0) as loaded:
        yield loaded


SOUND = np.sin(np.arange(1600, dtype=np.float32) / 5) / 2


def read_only(values: Any) -> Any:
    copy = np.array(values)
    copy.flags.writeable = False
    return copy


class Borrowed:
    """What torch and JAX have."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.values.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class OnADevice(Borrowed):
    def __dlpack_device__(self) -> Any:
        return (2, 0)


def test_samples(transcriber: vkformer.Transcriber) -> None:
    expected = transcriber.transcribe(SOUND)
    for same in (read_only(SOUND), array.array("f", SOUND), memoryview(SOUND), Borrowed(SOUND), SOUND[:][::1]):
        assert transcriber.transcribe(same) == expected
    for wrong, kind, match in (
        (SOUND.astype(np.float64), TypeError, "float64.*astype"),
        ((SOUND * 1000).astype(np.int16), TypeError, "int16.*32768"),
        (SOUND.astype(np.float16), TypeError, "float16"),
        (SOUND.astype(">f4"), TypeError, ">f4"),
        (SOUND.astype(np.complex64), TypeError, "complex64"),
        (SOUND.reshape(2, -1), ValueError, r"\[2, 800\]"),
        (np.float32(0.5) * np.ones((), np.float32), ValueError, r"\[\]"),
        (SOUND[::2], ValueError, "ascontiguousarray"),
        (SOUND[::-1], ValueError, "ascontiguousarray"),
        (np.ma.masked_array(SOUND), TypeError, "masked"),
        (SOUND.tolist(), TypeError, "list"),
        (b"\0" * 64, TypeError, "uint8"),
        ("sound.wav", TypeError, "str"),
        (None, TypeError, "NoneType"),
        (OnADevice(SOUND), TypeError, "copy it to the CPU"),
        (np.array([object()] * 4), TypeError, "object"),
        (np.zeros(0, np.float32), ValueError, "no samples"),
        (np.array([0, math.nan], np.float32), ValueError, "finite"),
        (np.array([0, math.inf], np.float32), ValueError, "finite"),
    ):
        with pytest.raises(kind, match=match):
            transcriber.transcribe(wrong)
    assert transcriber.transcribe(SOUND) == expected


def test_samples_are_read_where_they_lie(transcriber: vkformer.Transcriber) -> None:
    seen: list[int] = []
    core = transcriber._core

    class Spy:
        def transcribe(self, samples: Any, *rest: Any) -> Any:
            seen.append(samples.ctypes.data)
            return core.transcribe(samples, *rest)

    transcriber._core = Spy()  # type: ignore[assignment]
    try:
        transcriber.transcribe(SOUND)
        transcriber.transcribe(memoryview(SOUND))
        transcriber.transcribe(Borrowed(SOUND))
    finally:
        transcriber._core = core
    assert seen == [SOUND.ctypes.data] * 3


@pytest.mark.parametrize(
    "arguments",
    [
        {"language": "xx"},
        {"task": "sing"},
        {"temperatures": []},
        {"temperatures": [math.nan]},
        {"temperatures": ["a"]},
        {"batch": 2},
        {"seed": -1},
        {"log_prob_threshold": math.nan},
    ],
)
def test_options_of_transcribers(arguments: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        vkformer.Transcriber(GOLDENS / "speech" / "whisper_times_414", "cpu", plain_shaders=True, **arguments)


def test_images(tmp_path: Path) -> None:
    picture = vkformer.load_image(PICTURES / "colour.png")
    assert picture.dtype == np.uint8
    assert picture.flags.c_contiguous
    with vkformer.ImageClassifier(VIT, "cpu", plain_shaders=True) as classifier:
        expected = classifier.classify(picture)
        for same in (read_only(picture), memoryview(picture), Borrowed(picture), str(PICTURES / "colour.png")):
            assert classifier.classify(same) == expected
        assert classifier.classify([]) == []
        for wrong, kind, match in (
            (picture.astype(np.float32), TypeError, "float32"),
            (picture.astype(np.int8), TypeError, "int8"),
            (picture[:, :, :2], ValueError, "red, green and blue"),
            (picture[:, :, 0], ValueError, "expected"),
            (np.dstack([picture, picture[:, :, :1]]), ValueError, "red, green and blue"),
            (picture[::2], ValueError, "ascontiguousarray"),
            (picture.transpose(1, 0, 2), ValueError, "ascontiguousarray"),
            (picture[:, :, ::-1], ValueError, "ascontiguousarray"),
            ([picture, picture[0]], ValueError, r"images\[1\]"),
            ([picture, 3], TypeError, r"images\[1\]"),
            (np.zeros((0, 5, 3), np.uint8), ValueError, "."),
            (np.zeros((5, 0, 3), np.uint8), ValueError, "."),
            (np.zeros((2, 5, 0, 3), np.uint8), ValueError, "."),
            (3, TypeError, "int"),
            (None, TypeError, "NoneType"),
            (b"png", TypeError, "|".join(["uint8", "bytes", "expected"])),
            ("no such picture.png", FileNotFoundError, "no such picture"),
            (PICTURES / "pixels.json", ValueError, "."),
        ):
            with pytest.raises((kind, ValueError) if kind is TypeError else kind, match=match):
                classifier.classify(wrong)
        assert classifier.classify(picture) == expected
    with vkformer.ImageEmbedder(CLIP, "cpu", plain_shaders=True) as embedder:
        with pytest.raises(UnicodeEncodeError):
            embedder.embed_texts("\ud800")
        assert embedder.embed_images([]).shape == (0, embedder.dimension)
        assert embedder.embed_texts([]).shape == (0, embedder.dimension)
        assert embedder.score([], []).shape == (0, 0)
        assert embedder.score([picture], []).shape == (1, 0)


def test_files_of_images(tmp_path: Path) -> None:
    good = (PICTURES / "colour.png").read_bytes()
    rng = random.Random(1)
    for _ in range(200):
        bad = bytearray(good[: rng.randrange(len(good))])
        for _ in range(3):
            if bad:
                bad[rng.randrange(len(bad))] = rng.randrange(256)
        try:
            vkformer.decode_image(bytes(bad))
        except vkformer.CorruptFileError:
            pass
    for wrong in ("text", None, 3, [1]):
        with pytest.raises(TypeError):
            vkformer.decode_image(wrong)  # type: ignore[arg-type]
    for empty in (b"", bytearray(), memoryview(b"")):
        with pytest.raises(ValueError):
            vkformer.decode_image(empty)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        vkformer.load_image(tmp_path / "none.png")
    with pytest.raises(vkformer.Error):
        vkformer.load_image(tmp_path)


def test_arrays_outlive_their_models() -> None:
    with vkformer.Embedder(GOLDENS / "sentences" / "embedder", "cpu", plain_shaders=True) as embedder:
        vectors = embedder.embed(["a cat", "a dog"])
    copy = vectors.copy()
    del embedder
    np.testing.assert_array_equal(vectors, copy)
    assert vectors.flags.writeable
    np.testing.assert_array_equal(np.from_dlpack(vectors), copy)
    with vkformer.Embedder(
        GOLDENS / "gguf_encoders" / "bert.gguf", "cpu", pooling="cls", plain_shaders=True
    ) as embedder:
        assert embedder.pooling.startswith("cls")
    with pytest.raises(ValueError):
        vkformer.Embedder(GOLDENS / "sentences" / "embedder", "cpu", pooling="most")  # type: ignore[arg-type]


VAD = GOLDENS / "vad" / "network.safetensors"


def test_voice_activity_is_asked_rightly(tmp_path: Path) -> None:
    for wrong, kind in ((None, TypeError), ("none", FileNotFoundError), (tmp_path / "none", vkformer.MissingFileError)):
        with pytest.raises(kind):
            vkformer.VoiceActivityDetector(wrong)  # type: ignore[arg-type]
    whole = VAD.read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-1])
    with pytest.raises(vkformer.CorruptFileError, match="cut"):
        vkformer.VoiceActivityDetector(tmp_path / "cut")
    (tmp_path / "other").write_bytes(whole.replace(b"conv2.bias", b"conv9.bias"))
    with pytest.raises(vkformer.MissingTensorError, match=r"conv2\.bias is missing"):
        vkformer.VoiceActivityDetector(tmp_path / "other")

    detector = vkformer.VoiceActivityDetector(VAD)
    assert detector.probabilities(np.zeros(0, np.float32)).shape == (0,)
    assert detector.speech_timestamps(np.zeros(0, np.float32)) == []
    for samples, kind, match in (
        (SOUND.astype(np.float64), TypeError, "float64"),
        (SOUND[::2], ValueError, "ascontiguousarray"),
        (np.array([0, math.nan], np.float32), ValueError, "finite"),
    ):
        with pytest.raises(kind, match=match):
            detector.probabilities(samples)
        with pytest.raises(kind, match=match):
            detector.speech_timestamps(samples)
    with pytest.raises(vkformer.InvalidArgumentError):
        detector.probabilities(np.tile(np.array([3e38, -3e38], np.float32), 600))
    for parameters, kind, match in (
        ({"threshold": 1.5}, vkformer.InvalidArgumentError, "0 to 1"),
        ({"threshold": "0.5"}, TypeError, "threshold is of type str"),
        ({"threshold": math.nan}, ValueError, "threshold"),
        ({"neg_threshold": 0.9}, vkformer.InvalidArgumentError, "neg_threshold"),
        ({"min_speech_duration_ms": -1}, ValueError, "min_speech_duration_ms is -1"),
        ({"min_silence_duration_ms": 0.5}, TypeError, "min_silence_duration_ms"),
        ({"max_speech_duration_s": 0.5}, vkformer.InvalidArgumentError, "two pads"),
        ({"speech_pad": 1}, TypeError, "speech_pad"),
    ):
        with pytest.raises(kind, match=match):
            detector.speech_timestamps(SOUND, **parameters)


def test_speech_alone_needs_a_file(transcriber: vkformer.Transcriber) -> None:
    with pytest.raises(vkformer.InvalidArgumentError, match="load with vad"):
        transcriber.transcribe(SOUND, vad_filter=True)
    with pytest.raises(ValueError, match="vad=FILE"):
        transcriber.transcribe(SOUND, vad_parameters={"threshold": 0.4})
    folder = GOLDENS / "speech" / "whisper_texts"
    for arguments, kind, match in (
        ({"vad": VAD}, vkformer.UnsupportedConfigError, "vad 16000"),
        ({"vad": ""}, ValueError, "names no file"),
        ({"vad": "none"}, FileNotFoundError, "none"),
        ({"vad_parameters": {"threshold": 0.4}}, ValueError, "vad=FILE"),
    ):
        with pytest.raises(kind, match=match):
            vkformer.Transcriber(folder, "cpu", plain_shaders=True, **arguments)
