# SPDX-License-Identifier: MIT
"""Vectors, scores and translations: of real clients and of plain requests."""

import base64
import json
import struct
import threading
import urllib.parse
from typing import Any

import openai
import pytest
from conftest import GOLDENS, KEY, MODELS, Server
from libretranslatepy import LibreTranslateAPI


def client_of(server: Server, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key, max_retries=0)


def test_vectors_are_the_models(server: Server) -> None:
    golden = json.loads((GOLDENS / "sentences" / "embedder" / "golden.json").read_text())
    texts, expected = golden["texts"], golden["embeddings"]
    for encoding in ("float", "base64"):
        made = client_of(server).embeddings.create(model="vectors", input=texts, encoding_format=encoding)  # type: ignore[call-overload]
        assert [item.index for item in made.data] == list(range(len(texts)))
        assert made.usage.prompt_tokens == made.usage.total_tokens > len(texts)
        for item, wanted in zip(made.data, expected, strict=True):
            values = item.embedding
            if isinstance(values, str):
                values = list(struct.unpack(f"<{len(wanted)}f", base64.b64decode(values)))
            assert values == pytest.approx(wanted, abs=1e-4)


def test_many_clients_share_calls_and_get_their_own(server: Server) -> None:
    texts = [f"the cat {number}" for number in range(24)]
    alone = [server.post("/v1/embeddings", {"input": text})["data"][0]["embedding"] for text in texts]
    calls, inputs = server.metric("vkformer_batch_inputs_count"), server.metric("vkformer_batch_inputs_sum")
    together: dict[int, list[float]] = {}

    def ask(number: int) -> None:
        together[number] = server.post("/v1/embeddings", {"input": texts[number]})["data"][0]["embedding"]

    threads = [threading.Thread(target=ask, args=[number]) for number in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, values in enumerate(alone):
        assert together[number] == pytest.approx(values, abs=1e-5)
    assert server.metric("vkformer_batch_inputs_sum") - inputs == len(texts)
    assert server.metric("vkformer_batch_inputs_count") - calls <= len(texts)


def test_what_embeddings_do_not_take_is_named(server: Server) -> None:
    assert "input" in server.refused("/v1/embeddings", {"model": "vectors"})
    assert "token ids" in server.refused("/v1/embeddings", {"model": "vectors", "input": [[1, 2]]})
    assert "dimensions" in server.refused("/v1/embeddings", {"model": "vectors", "input": "a", "dimensions": 2})
    assert "encoding_format" in server.refused("/v1/embeddings", {"model": "vectors", "input": "a", "encoding_format": "f8"})
    assert "colour" in server.refused("/v1/embeddings", {"model": "vectors", "input": "a", "colour": "red"})
    assert "at most 2048" in server.refused("/v1/embeddings", {"model": "vectors", "input": ["a"] * 2049})
    with pytest.raises(openai.NotFoundError) as unknown:
        client_of(server).embeddings.create(model="nothing", input="a")
    assert unknown.value.code == "model_not_found"
    assert "not for this route" in server.refused("/v1/embeddings", {"model": "scores", "input": "a"})
    server.post("/v1/embeddings", {"model": "vectors", "input": "a", "user": "me", "dimensions": None})


def test_documents_are_ordered(server: Server) -> None:
    golden = json.loads((GOLDENS / "sentences" / "cross_encoder" / "golden.json").read_text())
    query, document = golden["pairs"][0]
    documents = [document, "the dog", "on the mat"]
    answer = server.post("/v1/rerank", {"model": "scores", "query": query, "documents": documents, "return_documents": True})
    results = answer["results"]
    scores = [result["relevance_score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    assert sorted(result["index"] for result in results) == [0, 1, 2]
    assert all(result["document"]["text"] == documents[result["index"]] for result in results)
    first = next(result for result in results if result["index"] == 0)
    assert first["relevance_score"] == pytest.approx(golden["scores"][0][0], abs=1e-5)
    top = server.post("/v2/rerank", {"query": query, "documents": [{"text": text} for text in documents], "top_n": 1})
    assert top["results"] == [{"index": results[0]["index"], "relevance_score": pytest.approx(scores[0], abs=1e-6)}]
    assert "documents[0].title" in server.refused("/v1/rerank", {"query": "a", "documents": [{"text": "a", "title": "b"}]})
    assert "top_n" in server.refused("/v1/rerank", {"query": "a", "documents": ["b"], "top_n": -1})


def test_dates_are_translated(server: Server) -> None:
    body = {"q": "4. März 2021", "source": "dates", "target": "iso8601"}
    assert server.post("/translate", body) == {"translatedText": "2021-03-04"}
    several = server.post("/translate", {**body, "q": ["4. März 2021", "", "March 5, 2021"], "format": "text"})
    assert several == {"translatedText": ["2021-03-04", "", "2021-03-05"]}
    one = server.post("/translate", {**body, "alternatives": 2})
    assert one["translatedText"] == "2021-03-04"
    assert len(one["alternatives"]) == 2 and len({one["translatedText"], *one["alternatives"]}) == 3
    many = server.post("/translate", {**body, "q": ["4. März 2021", ""], "alternatives": 1})
    assert many == {"translatedText": ["2021-03-04", ""], "alternatives": [one["alternatives"][:1], []]}
    assert server.post("/translate", {**body, "alternatives": 0}) == {"translatedText": "2021-03-04"}
    listed = server.get("/languages")
    assert {"code": "dates", "name": "dates", "targets": ["iso8601"]} in listed
    assert {"code": "iso8601", "name": "iso8601", "targets": []} in listed
    # As a form, which LibreTranslate's own client sends.
    client = LibreTranslateAPI(f"http://127.0.0.1:{server.port}/")
    assert client.translate("4. März 2021", "dates", "iso8601") == "2021-03-04"
    assert client.languages() == listed
    for change, name in (
        ({"target": "de"}, "/languages"),
        ({"format": "html"}, "format"),
        ({"alternatives": -1}, "alternatives"),
        ({"alternatives": 32}, "alternatives"),
        ({"alternatives": 1.5}, "alternatives"),
        ({"alternatives": "1x"}, "alternatives"),
        ({"glossary": "a"}, "glossary"),
        ({"model": "dates", "source": "iso8601", "target": "dates"}, "model"),
    ):
        assert name in server.post("/translate", {**body, **change}, expect=400)["error"]
    assert "tokens" in server.post("/translate", {**body, "q": "4. März 2021 " * 500}, expect=400)["error"]


def test_a_model_of_many_languages_takes_each_pair(server: Server) -> None:
    cases = json.loads((GOLDENS / "nllb_texts" / "golden.json").read_text())
    asked = [case for case in cases if case["from"] != "eng_Latn" or case["beams"] == 1]
    alone = {}
    for case in asked:
        body = {"q": case["text"], "source": case["from"], "target": case["to"], "model": "nllb"}
        alone[json.dumps(body)] = server.post("/translate", body)["translatedText"]
        if case["beams"] == 1:  # what the model's folder says
            assert alone[json.dumps(body)] == case["translation"]
    made: dict[str, str] = {}

    def ask(body: str) -> None:
        made[body] = server.post("/translate", json.loads(body))["translatedText"]

    threads = [threading.Thread(target=ask, args=[body]) for body in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == alone
    english = next(language for language in server.get("/languages") if language["code"] == "eng_Latn")
    assert {"deu_Latn", "fra_Latn", "zho_Hans"} <= set(english["targets"])
    assert "nothing" in server.post("/translate", {"q": "a", "source": "eng_Latn", "target": "nothing"}, expect=400)["error"]


CHEROKEE = "ᏂᎦᏓ ᎠᏂᏴᏫ ᏂᎨᎫᏓᎸᎾ ᎠᎴ ᎤᏂᏠᏱ"


def test_languages_are_detected(server: Server) -> None:
    text = "Guten Morgen, wie geht es Ihnen heute?"
    found = server.post("/detect", {"q": text})
    assert found[0]["language"] == "deu_Latn" and 90 < found[0]["confidence"] <= 100  # as the model spells it
    assert server.post("/detect", {"q": CHEROKEE})[0]["language"] == "chr"  # no model has it
    assert server.post("/detect", {"q": "12345"}) == []
    client = LibreTranslateAPI(f"http://127.0.0.1:{server.port}/")
    assert client.detect(text) == found

    body = {"q": text, "source": "deu_Latn", "target": "fra_Latn", "model": "nllb"}
    told = server.post("/translate", body)
    guessed = server.post("/translate", {**body, "source": "auto"})
    assert guessed == {**told, "detectedLanguage": found[0]}
    several = server.post("/translate", {**body, "source": "auto", "q": [text, "Ja."]})
    assert several["detectedLanguage"] == [found[0], found[0]] and len(several["translatedText"]) == 2
    assert client.translate(text, "auto", "fra_Latn") == told["translatedText"]
    for change, names in (
        ({"q": CHEROKEE}, ("Cherokee", "fra_Latn")),
        ({"model": "dates"}, ("German",)),
        ({"q": "12345"}, ("source",)),
        ({"q": ["", ""]}, ("source",)),
        ({"target": "nothing"}, ("nothing",)),
    ):
        error = server.post("/translate", {**body, "source": "auto", **change}, expect=400)["error"]
        assert all(name in error for name in names), error
    assert "q" in server.post("/detect", {}, expect=400)["error"]
    assert "text" in server.post("/detect", {"q": "a", "text": "b"}, expect=400)["error"]
    titles = {language["code"]: language["name"] for language in server.get("/languages")}
    assert (titles["deu_Latn"], titles["zho_Hans"]) == ("German", "Chinese")


def test_a_translation_tells_its_attention(server: Server) -> None:
    body = {"q": "4. März 2021", "source": "dates", "target": "iso8601", "attention": True}
    answer = server.post("/translate", body)
    assert answer["translatedText"] == "2021-03-04"
    source, written, layers = (answer["attention"][name] for name in ("source", "written", "layers"))
    assert "".join(written).replace("</s>", "").replace("▁", "") == "2021-03-04"
    assert len(layers) == json.loads((MODELS["dates"] / "config.json").read_text())["decoder_layers"]
    for layer in layers:
        assert len(layer) == len(written)
        for row in layer:
            assert len(row) == len(source) and sum(row) == pytest.approx(1, abs=1e-2)
    assert len({tuple(row) for row in layers[0]}) > 1
    # The year is written from where it stands.
    mean = [sum(layer[0][column] for layer in layers) / len(layers) for column in range(len(source))]
    text = [piece.replace("▁", "") for piece in source]
    assert text[mean.index(max(mean))] in "2021", (source, mean)

    many = {"q": "eine Katze", "source": "deu_Latn", "target": "fra_Latn", "model": "nllb"}
    plain = server.post("/translate", many)
    assert server.post("/translate", {**many, "attention": True})["translatedText"] == plain["translatedText"]
    assert server.post("/translate", many) == plain
    blank = {**body, "q": " "}
    assert server.post("/translate", blank) == {**server.post("/translate", {**blank, "attention": False}), "attention": None}
    assert "attention" not in server.post("/translate", {**body, "attention": False})
    for change in ({"q": ["a"]}, {"q": "4. März 2021 " * 40}, {"attention": "yes"}):
        assert "attention" in server.post("/translate", {**body, **change}, expect=400)["error"]
    assert "attention" in server.post("/translate", {**body, "attention": "true"}, expect=400)["error"]
    # Both kinds of forms, whose fields are texts.
    fields = {**body, "attention": "true"}
    parts = "".join(f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items())
    multipart = "multipart/form-data; boundary=edge"
    for form, kind in ((urllib.parse.urlencode(fields), "application/x-www-form-urlencoded"), (parts + "--edge--\r\n", multipart)):
        assert send(server, form, kind) == (200, answer)
        assert "attention" not in send(server, form.replace("true", "false"), kind)[1]
    file = parts.replace('name="q"', 'name="q"; filename="q.txt"') + "--edge--\r\n"
    status, refused = send(server, file, multipart)
    assert status == 400 and "file" in refused["error"]


def send(server: Server, form: str, kind: str) -> tuple[int, Any]:
    status, _, content = server.request("POST", "/translate", form.encode(), {"content-type": kind})
    return status, json.loads(content)


def test_a_key_opens_the_routes(locked: Server) -> None:
    with pytest.raises(openai.AuthenticationError):
        client_of(locked, "wrong-key-wrong-key").embeddings.create(model="vectors", input="a")
    assert len(client_of(locked, KEY).embeddings.create(model="vectors", input="a").data) == 1
    body = {"q": "4. März 2021", "source": "dates", "target": "iso8601"}
    assert locked.post("/translate", body, expect=403)["error"]
    assert locked.post("/detect", {"q": "Guten Tag"}, expect=403)["error"]
    assert locked.post("/translate", {**body, "api_key": KEY[:-1]}, expect=403)["error"]
    assert locked.post("/translate", {**body, "api_key": KEY})["translatedText"] == "2021-03-04"
    client = LibreTranslateAPI(f"http://127.0.0.1:{locked.port}/", api_key=KEY)
    assert client.translate("4. März 2021", "dates", "iso8601") == "2021-03-04"
