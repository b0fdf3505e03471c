# SPDX-License-Identifier: MIT
"""Models of texts against the goldens that the C++ tests have, on every device."""

import asyncio
import json
import math
import re

import numpy as np
import pytest
from conftest import DATES, GOLDENS, PICTURES, ROOT, TEXTS, VIT, read_json, read_tensor, relative_error

import vkformer

BOUND = {"f32": 1e-5, "f16": 3e-3}


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
    assert (stopped.finish, stopped.stop) == ("stop_string", " frog")
    assert stopped.text == entries[0]["text"][: entries[0]["text"].index(" frog")]
    assert generator.generate(entries[0]["prompt"], max_tokens=48, stop=["never", " frog"]).stop == " frog"
    assert (drawn.finish, drawn.stop) == ("length", None)
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


def test_multi_token_head() -> None:
    path, prompt = GOLDENS / "multi_token" / "qwen3_5", [31, 53, 37, 17, 9, 40]
    with vkformer.Generator(path, "cpu") as plain, vkformer.Generator(path, "cpu", multi_token=True) as guessing:
        expected = plain.generate_tokens([prompt], max_tokens=32)[0].tokens
        assert guessing.generate_tokens([prompt], max_tokens=32)[0].tokens == expected
        assert guessing.timings.guessed_tokens > 0
    with pytest.raises(vkformer.Error, match="no multi-token head"):
        vkformer.Generator(TEXTS, "cpu", multi_token=True)


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
    assert [step.token for step in drawn.log_probs] == drawn.tokens and all(
        step.likeliest == [] for step in drawn.log_probs
    )
    assert sum(step.log_prob for step in drawn.log_probs) < sum(step.log_prob for step in found.log_probs)
    with pytest.raises(vkformer.InvalidArgumentError, match="0 to 20"):
        generator.generate("Hello", log_probs=21)


def test_what_a_text_has_to_be(generator: vkformer.Generator) -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["frog", "dog"]}, "legs": {"enum": [2, 4]}},
        "required": ["kind", "legs"],
    }
    for given in (schema, json.dumps(schema)):
        found = generator.generate("Hello", max_tokens=200, json_schema=given)
        value = json.loads(found.text)
        assert list(value) == ["kind", "legs"] and value["kind"] in ("frog", "dog") and value["legs"] in (2, 4)
        assert found.finish == "end_token"
    assert generator.generate("Hello", max_tokens=200, choice=["a red frog", "a dog"]).text in ("a red frog", "a dog")
    with pytest.raises(TypeError, match="choice is a str"):
        generator.generate("Hello", choice="a dog")
    for seed in range(4):
        drawn = generator.generate("Hello", max_tokens=200, temperature=3, seed=seed, regex="[ab]{3}-(x|yy)")
        assert re.fullmatch("[ab]{3}-(x|yy)", drawn.text)
    assert generator.generate("Hello", max_tokens=4, json_object=True).text.startswith("{")
    assert (
        generator.generate("Hello", max_tokens=8, json_object=False).tokens
        == generator.generate("Hello", max_tokens=8).tokens
    )
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
