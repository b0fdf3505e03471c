# SPDX-License-Identifier: MIT
"""Each class against the goldens that the C++ tests have, on every device."""

import asyncio
import json
import math
import re
import shutil
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CLIP, DATES, GOLDENS, PICTURES, ROOT, TEXTS, VIT, read_json, read_tensor, relative_error

import vkformer

BOUND = {"f32": 1e-5, "f16": 3e-3}
NEVER = float("inf")


def test_devices_are_named_by_index_uuid_and_name() -> None:
    try:
        devices = vkformer.devices()
    except (vkformer.NoVulkanLoaderError, vkformer.NoDeviceError):
        pytest.skip("there is no Vulkan device")
    for device in devices:
        assert len(device.uuid) == 32
        for choice in (device.index, str(device.index), device.uuid):
            with vkformer.Embedder(GOLDENS / "sentences" / "embedder", choice, plain_shaders=True) as embedder:
                assert embedder.device == f"{device.name} ({device.type}, {device.driver})"


def test_the_version_is_the_librarys() -> None:
    assert f"project(vkformer VERSION {vkformer.__version__} " in (ROOT / "CMakeLists.txt").read_text()


@pytest.mark.parametrize("beams", [1, 4])
def test_dates(device: str, beams: int) -> None:
    cases = read_json("date_normalizer.json")["cases"]
    with vkformer.Translator(DATES, device, beams=beams, plain_shaders=True) as translator:
        found = translator.translate([case["input"] for case in cases])
        assert translator.translate(cases[0]["input"]).text == found[0].text
    for case, translation in zip(cases, found, strict=True):
        assert translation.tokens == case["beam_ids" if beams > 1 else "greedy_ids"]
        assert str(translation) == translation.text
        if beams > 1:
            assert translation.text == case["text"]
            assert translation.score == pytest.approx(case["beam_score"], abs=1e-4)
        else:
            assert translation.score is None


def test_the_next_best(device: str) -> None:
    text = "4. März 2021"
    with vkformer.Translator(DATES, device, beams=4, plain_shaders=True) as translator:
        best = translator.translate(text)
        assert best.further == []
    with vkformer.Translator(DATES, device, beams=4, hypotheses=3, plain_shaders=True) as translator:
        one, other, blank = translator.translate([text, "May 1, 1968", " "])
    assert (one.text, one.tokens, one.score) == (best.text, best.tokens, pytest.approx(best.score))
    assert blank.further == []
    for found in (one, other):
        ranked = [found, *found.further]
        assert len(ranked) == 3
        assert len({tuple(t.tokens) for t in ranked}) == 3
        scores = [t.score for t in ranked if t.score is not None]
        assert scores == sorted(scores, reverse=True)
        assert all(t.further == [] for t in found.further)
    for beams, hypotheses in ((1, 2), (4, 5)):
        with pytest.raises(vkformer.InvalidArgumentError, match="translations of each text"):
            vkformer.Translator(DATES, device, beams=beams, hypotheses=hypotheses, plain_shaders=True)


def test_weights_are_kept_or_converted(device: str) -> None:
    text = "Donnerstag, den 4. März 2021"
    with vkformer.Translator(DATES, device, weights="dtype", plain_shaders=True) as translator:
        assert translator.translate(text).text == "2021-03-04"
    for make in (vkformer.Translator, vkformer.Transcriber):
        with pytest.raises(ValueError, match="weights is 'q8_0', expected one of 'model', 'dtype'"):
            make(DATES, device, weights="q8_0")  # type: ignore[arg-type]


def test_translations_go_on_from_prefixes(device: str) -> None:
    text = "Donnerstag, den 4. März 2021"
    with vkformer.Translator(DATES, device, beams=1, plain_shaders=True) as translator:
        whole = translator.translate(text)
        assert translator.translate(text, prefixes="2021-") == whole
        first, second = translator.translate([text, text], prefixes=["1999-03", ""])
        assert first.text.startswith("1999-03")
        assert second == whole
        with pytest.raises(ValueError, match="there are 1 prefixes for 2 texts"):
            translator.translate([text, text], prefixes=["2021"])
        with pytest.raises(vkformer.InvalidArgumentError, match="its prefix has"):
            translator.translate(text, prefixes="1" * 400)


def test_languages(device: str) -> None:
    for entry in read_json("nllb_texts", "golden.json"):
        with vkformer.Translator(
            GOLDENS / "nllb_texts",
            device,
            beams=entry["beams"],
            from_language=entry["from"],
            to_language=entry["to"],
            plain_shaders=True,
        ) as translator:
            found = translator.translate(entry["text"])
        assert found.tokens == entry["tokens"]
        assert found.text == entry["translation"]


def test_texts_of_several_languages_are_translated_together(device: str) -> None:
    pairs = [("eng_Latn", "fra_Latn"), ("deu_Latn", "zho_Hans"), ("", ""), ("fra_Latn", "")]
    text, default = "the cat sat on the mat", ("eng_Latn", "deu_Latn")
    languages = {"from_language": [one for one, _ in pairs], "to_language": [one for _, one in pairs]}
    with vkformer.Translator(
        GOLDENS / "nllb_texts", device, from_language=default[0], to_language=default[1], plain_shaders=True
    ) as translator:
        together = translator.translate([text] * 4, **languages)
        assert asyncio.run(translator.translate_async([text] * 4, **languages)) == together
        for (source, target), found in zip(pairs, together, strict=True):
            one = {"from_language": source or default[0], "to_language": target or default[1]}
            assert translator.translate(text, **one) == found
            assert translator.attention(text, **one).translation == found
            assert translator.alternatives(text, count=1, **one)[0].translation.tokens[:2] == found.tokens[:2]
            assert translator.score(text, "an apple", **one).tokens[1] == found.tokens[1]
        assert len({tuple(found.tokens[:2]) for found in together}) == 3
        with pytest.raises(ValueError, match="there are 1 languages for 2 texts"):
            translator.translate([text] * 2, to_language=["deu_Latn"])
        with pytest.raises(vkformer.InvalidArgumentError, match="text 2: the model knows no language"):
            translator.translate([text] * 2, to_language=["deu_Latn", "de"])
        with pytest.raises(vkformer.InvalidArgumentError, match='no language "Deutsch"'):
            translator.check(text, from_language="Deutsch")
    with vkformer.Translator(DATES, device, plain_shaders=True) as translator:
        with pytest.raises(vkformer.InvalidArgumentError, match="no model of many languages"):
            translator.translate(text, to_language="deu_Latn")


def test_attention_of_a_translation(device: str) -> None:
    with vkformer.Translator(DATES, device, beams=1, plain_shaders=True) as translator:
        maps = translator.attention("March 4, 2021")
        assert maps.translation == translator.translate("March 4, 2021")
    kinds = {
        "encoder": (maps.source, maps.source),
        "decoder": (maps.read, maps.read),
        "cross": (maps.read, maps.source),
    }
    assert {layer.kind for layer in maps.weights} == set(kinds)
    assert len(maps.read) == len(maps.written)
    for layer in maps.weights:
        queries, keys = kinds[layer.kind]
        assert layer.weights.shape[1:] == (len(queries), len(keys))
        assert layer.keys == keys
        assert layer.queries == (maps.source if layer.kind == "encoder" else maps.written)
        assert layer.weights.dtype == np.float32
        np.testing.assert_allclose(layer.weights.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 3])
def test_prompts(device: str, batch: int) -> None:
    entries = read_json("decoder_text", "expected.json")["prompts"]
    with vkformer.Generator(TEXTS, device, batch=batch, plain_shaders=True) as generator:
        found = generator.generate([entry["prompt"] for entry in entries], max_tokens=48)
        by_tokens = generator.generate_tokens([entry["prompt_ids"] for entry in entries], max_tokens=48)
        for entry, generation in zip(entries, found, strict=True):
            assert generation.tokens == entry["ids"]
            assert generation.text == entry["text"]
            assert generation.prompt_tokens == len(entry["prompt_ids"])
            assert generation.finish == ("end_token" if len(entry["ids"]) < 48 else "length")
            assert generator.tokenize(entry["prompt"]) == entry["prompt_ids"]
        assert [g.text for g in by_tokens] == [g.text for g in found]
        assert generator.timings.decode_steps > 0


def test_rules(generator: vkformer.Generator) -> None:
    expected = read_json("decoder_text", "expected.json")
    prompt = expected["prompts"][0]["prompt"]
    for name, arguments in {
        "penalised": {"repetition_penalty": 1.4},
        "unrepeated": {"no_repeat_ngram": 2},
        "biased": {"logit_bias": {145: -50.0, 270: 1.5}},
    }.items():
        found = generator.generate(prompt, max_tokens=48, **arguments)  # type: ignore[arg-type]
        assert found.tokens == expected[name]["ids"], name


def test_sampling_and_ends(generator: vkformer.Generator) -> None:
    drawn = generator.generate("Hello", max_tokens=16, temperature=2, seed=5)
    assert generator.generate("Hello", max_tokens=16, temperature=2, seed=5).tokens == drawn.tokens
    assert generator.generate("Hello", max_tokens=16, temperature=2, seed=6).tokens != drawn.tokens
    entries = read_json("decoder_text", "expected.json")["prompts"]
    stopped = generator.generate(entries[0]["prompt"], max_tokens=48, stop=" frog")
    assert stopped.finish == "stop_string"
    assert stopped.text == entries[0]["text"][: entries[0]["text"].index(" frog")]
    assert len(generator.generate(entries[1]["prompt"], max_tokens=48, ignore_end=True).tokens) == 48


def test_prompt_lookup(generator: vkformer.Generator) -> None:
    prompt = read_json("decoder_text", "expected.json")["prompts"][0]["prompt"]
    plain = generator.generate(prompt * 3, max_tokens=32)
    assert generator.generate(prompt * 3, max_tokens=32, prompt_lookup=6).tokens == plain.tokens
    timings = generator.timings
    assert timings.guessed_tokens >= timings.accepted_tokens
    assert timings.decode_steps + timings.accepted_tokens == 32
    with pytest.raises(vkformer.InvalidArgumentError, match="presence"):
        generator.generate(prompt, max_tokens=4, prompt_lookup=6, presence_penalty=1)


def test_draft_model(generator: vkformer.Generator) -> None:
    prompt = read_json("decoder_text", "expected.json")["prompts"][0]["prompt"]
    drawn: vkformer.GenerateArguments = {"temperature": 1, "seed": 3}
    with vkformer.Generator(TEXTS, "cpu", draft=TEXTS) as drafting:
        for arguments in (vkformer.GenerateArguments(), drawn):
            plain = generator.generate(prompt, max_tokens=32, **arguments)
            assert drafting.generate(prompt, max_tokens=32, **arguments).tokens == plain.tokens
            assert drafting.timings.guessed_tokens > 0
            assert drafting.generate(prompt, max_tokens=32, draft_tokens=0, **arguments).tokens == plain.tokens
            assert drafting.timings.guessed_tokens == 0
        with pytest.raises(vkformer.InvalidArgumentError, match="presence"):
            drafting.generate(prompt, max_tokens=4, draft_tokens=6, presence_penalty=1)
    with pytest.raises(vkformer.InvalidArgumentError, match="none was named"):
        generator.generate(prompt, max_tokens=4, draft_tokens=6)


def test_log_probabilities(generator: vkformer.Generator) -> None:
    plain = generator.generate("Hello", max_tokens=12)
    assert plain.log_probs == []
    found = generator.generate("Hello", max_tokens=12, log_probs=3)
    assert (found.tokens, [step.token for step in found.log_probs]) == (plain.tokens, plain.tokens)
    for step in found.log_probs:
        assert len(step.likeliest) == 3 and step.likeliest[0] == (step.token, step.log_prob) and step.log_prob < 0
        values = [value for _, value in step.likeliest]
        assert values == sorted(values, reverse=True)
    drawn = generator.generate("Hello", max_tokens=12, temperature=2, seed=5, log_probs=0)
    assert [step.token for step in drawn.log_probs] == drawn.tokens and all(step.likeliest == [] for step in drawn.log_probs)
    assert sum(step.log_prob for step in drawn.log_probs) < sum(step.log_prob for step in found.log_probs)
    with pytest.raises(vkformer.InvalidArgumentError, match="0 to 20"):
        generator.generate("Hello", log_probs=21)


def test_what_a_text_has_to_be(generator: vkformer.Generator) -> None:
    schema = {"type": "object", "properties": {"kind": {"enum": ["frog", "dog"]}, "legs": {"enum": [2, 4]}}, "required": ["kind", "legs"]}
    for given in (schema, json.dumps(schema)):
        found = generator.generate("Hello", max_tokens=200, json_schema=given)
        value = json.loads(found.text)
        assert list(value) == ["kind", "legs"] and value["kind"] in ("frog", "dog") and value["legs"] in (2, 4)
        assert found.finish == "end_token"
    assert generator.generate("Hello", max_tokens=200, choice=["a red frog", "a dog"]).text in ("a red frog", "a dog")
    for seed in range(4):
        drawn = generator.generate("Hello", max_tokens=200, temperature=3, seed=seed, regex="[ab]{3}-(x|yy)")
        assert re.fullmatch("[ab]{3}-(x|yy)", drawn.text)
    assert generator.generate("Hello", max_tokens=4, json_object=True).text.startswith("{")
    assert generator.generate("Hello", max_tokens=8, json_object=False).tokens == generator.generate("Hello", max_tokens=8).tokens
    for arguments, error, words in (
        ({"json_schema": {"type": "object", "not": {}}}, vkformer.InvalidArgumentError, "not"),
        ({"json_schema": "{"}, vkformer.InvalidArgumentError, "schema"),
        ({"regex": "(?=a)b"}, vkformer.InvalidArgumentError, "not supported"),
        ({"choice": []}, vkformer.InvalidArgumentError, "no texts"),
        ({"choice": ["a", ""]}, vkformer.InvalidArgumentError, "empty"),
        ({"choice": ["a"], "regex": "a"}, ValueError, "beside another"),
        ({"choice": ["a"], "ignore_end": True}, vkformer.InvalidArgumentError, "ignore_end"),
    ):
        with pytest.raises(error, match=words):
            generator.generate("Hello", max_tokens=4, **arguments)  # type: ignore[arg-type]


def test_beams(device: str) -> None:
    for entry in read_json("decoders", "gemma3", "beams.json")[:2]:
        options = entry["options"]
        with vkformer.Generator(
            GOLDENS / "decoders" / "gemma3",
            device,
            beams=options["num_beams"],
            length_penalty=options.get("length_penalty"),
            plain_shaders=True,
        ) as generator:
            assert not generator.has_tokenizer
            (found,) = generator.generate_tokens([entry["prompt"]], max_tokens=options["max_new_tokens"])
        assert found.tokens == entry["continuation"]
        assert found.score == pytest.approx(entry["score"], rel=1e-4)


def test_a_gguf_file(device: str) -> None:
    golden = read_json("gguf_encoders", "golden.json")
    with vkformer.Embedder(GOLDENS / "gguf_encoders" / "bert.gguf", device, plain_shaders=True) as embedder:
        assert embedder.pooling == "mean, normalised"
        assert relative_error(embedder.embed(golden["texts"]), golden["mean"]) < 1e-5


def test_conversations(device: str) -> None:
    with vkformer.Generator(TEXTS, device, plain_shaders=True) as generator:
        for entry in read_json("decoder_text", "expected.json")["conversations"]:
            found = generator.chat(entry["messages"], max_tokens=48)
            assert found.tokens == entry["ids"]
            assert found.text == entry["text"]
            assert generator.tokenize_chat(entry["messages"]) == entry["prompt_ids"]


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_vectors(device: str, dtype: "vkformer._inputs.Dtype") -> None:
    golden = read_json("sentences", "embedder", "golden.json")
    folder = GOLDENS / "sentences" / "embedder"
    with vkformer.Embedder(folder, device, dtype, plain_shaders=True) as embedder:
        found = embedder.embed(golden["texts"])
        assert found.dtype == np.float32
        assert found.shape == (len(golden["texts"]), embedder.dimension)
        for row, expected in zip(found, golden["embeddings"], strict=True):
            assert relative_error(row, expected) < BOUND[dtype]
        one = embedder.embed(golden["texts"][0])
        assert one.shape == (embedder.dimension,)
        assert relative_error(one, golden["embeddings"][0]) < BOUND[dtype]
        assert embedder.embed([]).shape == (0, embedder.dimension)
        details = embedder.embed_details(golden["texts"])
        assert max(details.tokens) == embedder.max_length
        assert max(details.cut) > 0
    with vkformer.Embedder(folder, device, dtype, prompt_name="query", plain_shaders=True) as embedder:
        for row, expected in zip(embedder.embed(golden["texts"]), golden["query"], strict=True):
            assert relative_error(row, expected) < BOUND[dtype]


def test_scores_of_pairs(device: str) -> None:
    for name, labels in (("cross_encoder", 1), ("cross_encoder_labels", 3)):
        golden = read_json("sentences", name, "golden.json")
        pairs = [(first, second) for first, second in golden["pairs"]]
        with vkformer.Reranker(GOLDENS / "sentences" / name, device, plain_shaders=True) as reranker:
            assert reranker.labels == labels
            found = reranker.score(pairs)
            expected = np.array(golden["scores"]).reshape(len(pairs), labels)
            np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-5)
            assert found.ndim == (1 if labels == 1 else 2)
            if labels > 1:
                with pytest.raises(ValueError, match="3 scores"):
                    reranker.rerank("the cat", ["the dog"])
                continue
            passages = ["on the mat", "the dog", "A cat sat on the mat."]
            ranked = reranker.rerank("the cat", passages)
            scores = reranker.score([("the cat", passage) for passage in passages])
            assert [r.index for r in ranked] == list(np.argsort(-scores))
            assert [passages[r.index] for r in ranked] == [r.text for r in ranked]
            assert reranker.rerank("the cat", passages, top_k=1) == ranked[:1]


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


def test_pictures_are_pillows() -> None:
    pixels = read_json("vision", "pictures", "pixels.json")
    for name in ("alpha.png", "palette.png", "bits.png"):
        expected = pixels[name]
        rgb = np.frombuffer(bytes.fromhex(expected["rgb"]), np.uint8).reshape(expected["height"], expected["width"], 3)
        np.testing.assert_array_equal(vkformer.load_image(PICTURES / name), rgb)
        np.testing.assert_array_equal(vkformer.decode_image((PICTURES / name).read_bytes()), rgb)


def test_labels_of_images(device: str) -> None:
    golden = read_json("vision", "vit", "golden.json")
    with vkformer.ImageClassifier(VIT, device, plain_shaders=True) as classifier:
        found = classifier.classify([PICTURES / name for name in golden["images"]])
        for ranked, logits, probabilities in zip(found, golden["logits"], golden["probabilities"], strict=True):
            by_index = sorted(ranked, key=lambda label: label.index)
            assert relative_error([label.logit for label in by_index], logits) < 1e-5
            assert relative_error([label.probability for label in by_index], probabilities) < 3e-5
            assert [label.logit for label in ranked] == sorted((label.logit for label in ranked), reverse=True)
            assert [label.label for label in by_index] == classifier.labels
        image = vkformer.load_image(PICTURES / golden["images"][0])
        assert classifier.classify(image) == found[0] or classifier.classify(image)[0].label == found[0][0].label
        assert len(classifier.classify(image, top_k=2)) == 2
        assert len(classifier.classify(np.stack([image, image]))) == 2
        layers = classifier.attention(image)
        assert relative_error(layers[1].weights, golden["attention.1"]) < 1e-5
        assert layers[1].weights.shape[1] == classifier.patch_rows * classifier.patch_columns + 1


def test_images_and_texts_in_one_space(device: str) -> None:
    golden = read_json("vision", "clip", "golden.json")
    images = [vkformer.load_image(PICTURES / name) for name in golden["images"]]
    with vkformer.ImageEmbedder(CLIP, device, plain_shaders=True) as embedder:
        assert relative_error(embedder.embed_images(images), golden["image_embeds"]) < 1e-5
        assert relative_error(embedder.embed_texts(golden["texts"]), golden["text_embeds"]) < 1e-5
        assert relative_error(embedder.score(images, golden["texts"]), golden["logits_per_image"]) < 3e-5
        assert embedder.embed_images(images[0]).shape == (embedder.dimension,)
        assert embedder.embed_texts("a cat").shape == (embedder.dimension,)
        assert embedder.reads_texts
        shares = embedder.probabilities(golden["logits_per_image"])
        assert np.allclose(shares.sum(-1), 1, atol=1e-6)
    with vkformer.ImageEmbedder(CLIP, device, normalize=False, plain_shaders=True) as embedder:
        assert relative_error(embedder.embed_images(images), golden["image_features"]) < 1e-5


def test_images_and_texts_with_siglip(device: str) -> None:
    golden = read_json("modern_vision", "siglip", "golden.json")
    images = [PICTURES / name for name in golden["images"]]
    with vkformer.ImageEmbedder(GOLDENS / "modern_vision" / "siglip", device, plain_shaders=True) as embedder:
        assert relative_error(embedder.embed_images(images), golden["image_embeds"]) < 1e-5
        assert relative_error(embedder.embed_texts(golden["texts"]), golden["text_embeds"]) < 1e-5
        scores = embedder.score(images, golden["texts"])
        assert relative_error(scores, golden["logits_per_image"]) < 3e-5
        assert relative_error(embedder.probabilities(scores), golden["probabilities"]) < 1e-4
        assert embedder.probabilities(scores[0]).shape == scores[0].shape
        assert embedder.probabilities(np.zeros((2, 0), np.float32)).shape == (2, 0)


def test_images_alone_with_dino(device: str) -> None:
    golden = read_json("modern_vision", "dino", "golden.json")
    images = [PICTURES / name for name in golden["images"]]
    folder = GOLDENS / "modern_vision" / "dino"
    with vkformer.ImageEmbedder(folder, device, normalize=False, plain_shaders=True) as embedder:
        assert relative_error(embedder.embed_images(images), golden["class_token"]) < 1e-5
        assert not embedder.reads_texts
        assert embedder.max_length == 0
        with pytest.raises(vkformer.UnsupportedConfigError, match="images only"):
            embedder.embed_texts("a cat")
    with vkformer.ImageClassifier(folder, device, plain_shaders=True) as classifier:
        found = sorted(classifier.classify(images[0]), key=lambda label: label.index)
        assert relative_error([label.logit for label in found], golden["logits"][0]) < 1e-5


def test_every_device_says_the_same(any_device: str) -> None:
    """One model of each family; the other tests run on the CPU alone, but for VKFORMER_TEST_THOROUGH=1."""
    with vkformer.Translator(DATES, any_device, beams=1, plain_shaders=True) as translator:
        case = read_json("date_normalizer.json")["cases"][0]
        assert translator.translate(case["input"]).tokens == case["greedy_ids"]
    with vkformer.Generator(TEXTS, any_device, plain_shaders=True) as generator:
        entry = read_json("decoder_text", "expected.json")["prompts"][0]
        assert generator.generate(entry["prompt"], max_tokens=24).tokens == entry["ids"][:24]
    golden = read_json("gguf_encoders", "golden.json")
    with vkformer.Embedder(GOLDENS / "gguf_encoders" / "bert.gguf", any_device, plain_shaders=True) as embedder:
        assert relative_error(embedder.embed(golden["texts"]), golden["mean"]) < 1e-5
    whisper = GOLDENS / "speech" / "whisper_texts"
    sound = read_tensor(whisper / "golden.safetensors", "clip0").astype(np.float32)
    texts = []
    for device in ("cpu", any_device):
        with vkformer.Transcriber(whisper, device, plain_shaders=True, temperatures=0) as transcriber:
            texts.append(transcriber.transcribe(sound))
    assert [s.tokens for s in texts[0].segments] == [s.tokens for s in texts[1].segments]
    timed = GOLDENS / "speech" / "whisper_times_423"
    for entry in read_json("speech", "whisper_times_423", "beams.json")["timed"]:
        asked = entry["options"]
        if "length_penalty" in asked:
            continue
        with vkformer.Transcriber(
            timed,
            any_device,
            plain_shaders=True,
            temperatures=0,
            beams=asked["num_beams"],
            prompt=asked.get("prompt", ""),
            condition_on_previous=asked.get("condition_on_prev_tokens", False),
            compression_ratio_threshold=math.inf,
            log_prob_threshold=-math.inf,
            no_speech_threshold=math.inf,
        ) as transcriber:
            found = transcriber.transcribe(read_tensor(timed / "golden.safetensors", entry["clip"]).astype(np.float32))
        assert [s.tokens for s in found.segments] == [s["tokens"] for s in entry["segments"]]
    labels = []
    for device in ("cpu", any_device):
        with vkformer.ImageClassifier(VIT, device, plain_shaders=True) as classifier:
            labels.append(classifier.classify(PICTURES / "colour.png"))
    assert [label.index for label in labels[0]] == [label.index for label in labels[1]]


def svg_of(picture: str) -> tuple[list[str], int]:
    """Its texts, and how many cells have a colour."""
    root = xml.etree.ElementTree.fromstring(picture)
    texts = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    return texts, sum(path.get("d", "").count("M") for path in root.iter("{http://www.w3.org/2000/svg}path"))


def test_attention_maps_show_themselves(translator: vkformer.Translator) -> None:
    text = "March 4, 2021"
    maps = translator.attention(text)
    texts, cells = svg_of(maps._repr_svg_())
    assert texts[0] == f"{text} → {maps.translation.text}"
    heads = [f"layer {layer + 1}, head {head + 1}" for layer in range(2) for head in range(4)]
    assert [text for text in texts if text.startswith("layer ")] == heads * 3
    assert [text for text in texts if text.endswith("ttention")] == [
        "Cross-attention",
        "Encoder self-attention",
        "Decoder self-attention",
    ]
    assert cells == sum(int((np.rint(layer.weights * 63) > 0).sum()) for layer in maps.weights)

    one = maps.only("cross", 1, 2)
    (layer,) = one.weights
    (whole,) = maps.only("cross", layer=1).weights
    assert (layer.weights == whole.weights[2:3]).all()
    assert layer.heads == (2,)
    assert layer.only(2).weights.shape == layer.weights.shape
    for shown in (one._repr_svg_(), layer._repr_svg_()):
        texts, cells = svg_of(shown)
        assert [text for text in texts if text.startswith("layer ")] == ["layer 2, head 3"]
        assert cells == int((np.rint(layer.weights * 63) > 0).sum())
        assert all(token in texts for token in maps.source + maps.written)
    for wrong in ({"kind": "self"}, {"layer": 2}, {"head": 4}, {"head": -1}):
        with pytest.raises(IndexError, match="there are no weights|has no head"):
            maps.only(**wrong)  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        layer.only(1)


def test_pictures_of_strange_weights() -> None:
    weights = np.array([[[np.nan, 2, -1], [0, 1, 0.5]]], np.float32)
    strange = vkformer.AttentionWeights("cross", 0, weights, ["<&>", "\0\x1b"], ["'\"", "\ud800", "ok"])
    texts, cells = svg_of(strange._repr_svg_())
    assert cells == 5
    assert "<&>" in texts
    assert "\N{REPLACEMENT CHARACTER}" * 2 in texts
    assert strange._repr_svg_().count("#d91a1a") == 1
    patches = vkformer.AttentionWeights("encoder", 0, np.eye(3, dtype=np.float32)[None])
    assert svg_of(patches._repr_svg_())[1] == 3


def test_adapters(device: str) -> None:
    folders = {name: GOLDENS / "adapters" / name for name in ("llama_gqa_odd", "llama_gqa_odd_second")}
    base = GOLDENS / "decoders" / "llama_gqa_odd"
    with vkformer.Generator(base, device, adapters=folders, plain_shaders=True) as generator:

        def check(golden: Path, **arguments: Any) -> None:
            expected = read_json(golden, "greedy.json")
            found = generator.generate_tokens([expected["prompt"]], max_tokens=24, **arguments)[0].tokens
            assert found == expected["continuation"][:24]

        check(folders["llama_gqa_odd"], adapters="llama_gqa_odd")
        check(base)
        check(folders["llama_gqa_odd_second"], adapters=["llama_gqa_odd_second"])
        check(folders["llama_gqa_odd"], adapters={"llama_gqa_odd": 1, "llama_gqa_odd_second": 0.0})
        with pytest.raises(vkformer.InvalidArgumentError, match='no adapter "x" is loaded; there are: llama_gqa_odd'):
            generator.generate_tokens([[1]], adapters="x")
        with pytest.raises(vkformer.InvalidArgumentError, match="1000"):
            generator.generate_tokens([[1]], adapters={"llama_gqa_odd": 2000})
        with pytest.raises(TypeError, match="expected a number"):
            generator.generate_tokens([[1]], adapters={"llama_gqa_odd": "much"})  # type: ignore[dict-item]
    with pytest.raises(vkformer.MissingFileError, match=r"adapter_config\.json"):
        vkformer.Generator(base, device, adapters={"x": GOLDENS})


def write_adapter(folder: Path, module: str, width: int) -> Path:
    """A random one of a square weight."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none"}')
    rng = np.random.default_rng(1)
    tensors = {"lora_A": rng.standard_normal((2, width)), "lora_B": rng.standard_normal((width, 2))}
    header, data = {}, b""
    for half, values in tensors.items():
        begin, data = len(data), data + values.astype(np.float32).tobytes()
        header[f"base_model.model.{module}.{half}.weight"] = {
            "dtype": "F32",
            "shape": values.shape,
            "data_offsets": [begin, len(data)],
        }
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return folder


def numbers_of(model: vkformer.Embedder | vkformer.Reranker, **arguments: Any) -> Any:
    text = "a cat and a dog"
    if isinstance(model, vkformer.Embedder):
        return model.embed([text], **arguments)
    return model.score([(text, "x")], **arguments)


@pytest.mark.parametrize(("name", "kind"), [("embedder", vkformer.Embedder), ("cross_encoder", vkformer.Reranker)])
def test_adapters_of_encoders(device: str, tmp_path: Path, name: str, kind: Any) -> None:
    prefix = "" if name == "embedder" else "bert."
    query = write_adapter(tmp_path / "query", prefix + "encoder.layer.0.attention.self.query", 20)
    base = GOLDENS / "sentences" / name
    with kind(base, device, plain_shaders=True) as model:
        plain = numbers_of(model)
    with kind(base, device, adapters={"query": query}, plain_shaders=True) as model:
        assert (numbers_of(model) == plain).all()
        assert (numbers_of(model, adapters={"query": 0}) == plain).all()
        assert np.abs(numbers_of(model, adapters="query") - plain).max() > 1e-4
        with pytest.raises(vkformer.InvalidArgumentError, match='no adapter "x" is loaded; there are: query'):
            numbers_of(model, adapters=["x"])
