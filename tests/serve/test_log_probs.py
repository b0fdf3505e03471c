# SPDX-License-Identifier: MIT
"""Log-probabilities in the shapes of OpenAI's two routes, against a double-precision softmax of logits that are known."""

import json
import math
import socket
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from conftest import Server, read_all
from scripted import Scripted

TEXTS = {"hello": "Hello there, Köln.", "stop": "One. Two! Three?"}
PLAN = "<|hello|>"


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    return Scripted(tmp_path_factory.mktemp("scores"), TEXTS, "no calls")


@pytest.fixture(scope="module")
def scored(scripted: Scripted, _cache_of_its_own: None) -> Iterator[Server]:
    running = Server("--model", f"scores={scripted.folder}", models=("texts",))
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def gpt(scored: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{scored.port}/v1", api_key="none", max_retries=0)


def log_probs(model: Scripted, token: int) -> list[float]:
    """Of what follows the token."""
    logits = model.logits(token)
    total = math.log(sum(math.exp(logit) for logit in logits))
    return [logit - total for logit in logits]


def steps(model: Scripted, plan: str) -> list[tuple[int, list[float]]]:
    """The tokens of a plan's text, the end excluded, with what was likely in their place."""
    found, token = [], model.vocabulary[f"<|{plan}|>"]
    while (chosen := model.successors[token]) != 1:
        found.append((chosen, log_probs(model, token)))
        token = chosen
    return found


def near(found: float, expected: float) -> bool:
    return abs(found - expected) < 1e-4


def check_chat(content: list[Any], model: Scripted, plan: str, count: int) -> None:
    spelling = list(model.vocabulary)
    expected = steps(model, plan)
    assert [entry.token for entry in content] == [spelling[token] for token, _ in expected]
    assert b"".join(bytes(entry.bytes) for entry in content).decode() == TEXTS[plan]
    for entry, (token, likely) in zip(content, expected, strict=True):
        assert near(entry.logprob, likely[token])
        assert len(entry.top_logprobs) == count
        best = sorted(likely, reverse=True)[:count]
        assert all(near(other.logprob, value) for other, value in zip(entry.top_logprobs, best, strict=True))
        assert all(near(other.logprob, likely[model.vocabulary[other.token]]) for other in entry.top_logprobs)
        assert all(bytes(other.bytes).decode() == other.token for other in entry.top_logprobs)


@pytest.mark.parametrize("count", [0, 3, 20])
def test_chats_tell_how_likely_tokens_were(gpt: openai.OpenAI, scripted: Scripted, count: int) -> None:
    given: dict[str, Any] = {"model": "scores", "messages": [{"role": "user", "content": PLAN}], "logprobs": True, "top_logprobs": count}
    made = gpt.chat.completions.create(temperature=0, n=2, **given)
    for choice in made.choices:
        assert choice.message.content == TEXTS["hello"] and choice.logprobs
        check_chat(choice.logprobs.content or [], scripted, "hello", count)
    content, text = [], ""
    for chunk in gpt.chat.completions.create(temperature=0, stream=True, **given):
        text += chunk.choices[0].delta.content or ""
        if chunk.choices[0].logprobs:
            content += chunk.choices[0].logprobs.content or []
            # No token comes before its text.
            assert len("".join(entry.token for entry in content[:-1])) < len(text)
    assert text == TEXTS["hello"]
    check_chat(content, scripted, "hello", count)


def test_completions_tell_it_in_lists(gpt: openai.OpenAI, scripted: Scripted) -> None:
    spelling = list(scripted.vocabulary)
    expected = steps(scripted, "hello")
    given: dict[str, Any] = {"model": "scores", "prompt": PLAN, "max_tokens": 100, "logprobs": 2}
    whole = gpt.completions.create(temperature=0, **given).choices[0].logprobs
    assert whole and whole.tokens and whole.token_logprobs and whole.top_logprobs and whole.text_offset
    assert whole.tokens == [spelling[token] for token, _ in expected]
    assert "".join(whole.tokens) == TEXTS["hello"]
    assert whole.text_offset == [len("".join(whole.tokens[:i])) for i in range(len(whole.tokens))]
    for found, top, (token, likely) in zip(whole.token_logprobs, whole.top_logprobs, expected, strict=True):
        assert near(found, likely[token])
        assert 2 <= len(top) <= 3 and spelling[token] in top
        assert all(near(value, likely[scripted.vocabulary[name]]) for name, value in top.items())
    parts: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for chunk in gpt.completions.create(temperature=0, stream=True, **given):
        if chunk.choices[0].logprobs:
            for name, values in parts.items():
                values += getattr(chunk.choices[0].logprobs, name)
    assert parts == {name: getattr(whole, name) for name in parts}
    none = gpt.completions.create(temperature=0, **{**given, "logprobs": 0}).choices[0].logprobs
    assert none and none.token_logprobs == whole.token_logprobs and none.top_logprobs == [None] * len(whole.tokens)


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("limit", [0, 1, 100])
def test_echoed_prompts_are_scored(gpt: openai.OpenAI, scripted: Scripted, count: int, limit: int) -> None:
    """As OpenAI's API does it: the prompt's tokens first, of which the first has no log-probability."""
    spelling = list(scripted.vocabulary)
    prompt = [scripted.vocabulary[PLAN], *(token for token, _ in steps(scripted, "stop")), scripted.vocabulary[PLAN]]
    given: dict[str, Any] = {"model": "scores", "prompt": prompt, "echo": True, "max_tokens": limit, "logprobs": count}
    made = gpt.completions.create(temperature=0, n=2, **given)
    assert made.usage and made.usage.prompt_tokens == len(prompt)
    answer = [*(token for token, _ in steps(scripted, "hello")), 1][:limit]  # the end token is told, too
    assert made.usage.completion_tokens == 2 * len(answer)
    for choice in made.choices:
        scores = choice.logprobs
        assert scores and scores.tokens and scores.token_logprobs and scores.top_logprobs and scores.text_offset is not None
        assert choice.text == TEXTS["stop"] + "".join(spelling[token] for token in answer if token != 1)
        assert choice.finish_reason == ("stop" if 1 in answer else "length")
        assert scores.tokens == [spelling[token] for token in [*prompt, *answer]]
        assert scores.token_logprobs[0] is None and scores.top_logprobs[0] is None
        for before, token, found, top in zip([*prompt, *answer], [*prompt, *answer][1:], scores.token_logprobs[1:], scores.top_logprobs[1:], strict=False):
            likely = log_probs(scripted, before)
            assert near(found, likely[token])
            assert (top is None) == (count == 0)
            assert count == 0 or (near(max(top.values()), max(likely)) and count <= len(top) <= count + 1 and top[spelling[token]] == found)
        shown = [spelling[token] if token in range(scripted.vocabulary["<|stop|>"] + 1, len(spelling)) else "" for token in [*prompt, *answer]]
        assert scores.text_offset == [len("".join(shown[:i])) for i in range(len(shown))]
    parts: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    text = ""
    for chunk in gpt.completions.create(temperature=0, stream=True, **given):
        text += chunk.choices[0].text
        assert not chunk.choices[0].text or chunk.choices[0].logprobs, "they come with their text"
        if chunk.choices[0].logprobs:
            for name, values in parts.items():
                values += getattr(chunk.choices[0].logprobs, name)
    assert text == made.choices[0].text
    assert parts == {name: getattr(made.choices[0].logprobs, name) for name in parts}


def test_echo_alone_repeats_the_prompt(gpt: openai.OpenAI) -> None:
    for limit in (0, 100):
        made = gpt.completions.create(model="scores", prompt=["<|stop|>", PLAN], echo=True, max_tokens=limit, temperature=0)
        texts = [TEXTS["stop"], TEXTS["hello"]] if limit else ["", ""]
        assert [choice.text for choice in made.choices] == ["<|stop|>" + texts[0], PLAN + texts[1]]
        assert all(choice.logprobs is None for choice in made.choices)
        streamed = {0: "", 1: ""}
        for chunk in gpt.completions.create(model="scores", prompt=["<|stop|>", PLAN], echo=True, max_tokens=limit, temperature=0, stream=True):
            streamed[chunk.choices[0].index] += chunk.choices[0].text
        assert list(streamed.values()) == [choice.text for choice in made.choices]


def test_a_prompt_is_scored_once_for_all_its_choices(scored: Server) -> None:
    """The other choices find it in the cache; where nothing is generated there are no others, and without log-probabilities nothing at all."""
    asked: dict[str, Any] = {"model": "texts", "prompt": "a small frog and the dog " * 12, "echo": True, "n": 4, "temperature": 0}

    def counted(**fields: Any) -> tuple[Any, float, float]:
        names = ("vkformer_prompt_tokens_total", "vkformer_cached_tokens_total")
        before = [scored.metric(name) for name in names]
        made = scored.post("/v1/completions", {**asked, **fields})
        prompt, cached = (scored.metric(name) - value for name, value in zip(names, before, strict=True))
        assert [choice["index"] for choice in made["choices"]] == [0, 1, 2, 3]
        return made, prompt, cached

    made, prompt, cached = counted(logprobs=1, max_tokens=1)
    tokens = made["usage"]["prompt_tokens"]
    assert tokens > 64 and prompt == 4 * tokens and cached >= 3 * 64
    assert made["usage"]["completion_tokens"] == 4
    first = made["choices"][0]["logprobs"]
    for choice in made["choices"]:
        assert len(choice["logprobs"]["tokens"]) == tokens + 1
        assert all(choice["logprobs"][name][:tokens] == first[name][:tokens] for name in first)
    alone, prompt, cached = counted(logprobs=1, max_tokens=0)
    assert (prompt, cached) == (tokens, 0)
    for choice in alone["choices"]:
        assert choice["text"] == asked["prompt"] and choice["logprobs"]["tokens"] == first["tokens"][:tokens]
    silent, prompt, cached = counted(max_tokens=0)
    assert (prompt, cached) == (0, 0)
    assert silent["usage"] == {**alone["usage"], "prompt_tokens_details": silent["usage"]["prompt_tokens_details"]}
    assert all(choice["text"] == asked["prompt"] and choice["logprobs"] is None for choice in silent["choices"])


@pytest.mark.parametrize("limit", [0, 3])
def test_streamed_choices_share_their_prompts_scores(gpt: openai.OpenAI, scripted: Scripted, limit: int) -> None:
    prompts = [[scripted.vocabulary[PLAN], scripted.vocabulary["<|stop|>"]], [scripted.vocabulary["<|stop|>"]]]
    given: dict[str, Any] = {"model": "scores", "prompt": prompts, "echo": True, "max_tokens": limit, "logprobs": 0, "n": 3, "temperature": 0}
    whole = gpt.completions.create(**given)
    told: dict[int, list[Any]] = {i: [] for i in range(6)}
    ends: dict[int, str | None] = {}
    for chunk in gpt.completions.create(stream=True, **given):
        choice = chunk.choices[0]
        told[choice.index] += (choice.logprobs.tokens or []) if choice.logprobs else []
        if choice.finish_reason:
            ends[choice.index] = choice.finish_reason
    assert ends == {i: "length" for i in range(6)}
    assert [told[i] for i in range(6)] == [choice.logprobs.tokens for choice in whole.choices if choice.logprobs]
    assert [len(told[i]) for i in range(6)] == [len(prompts[i // 3]) + limit for i in range(6)]


def test_prompts_without_tokens_are_refused(scored: Server) -> None:
    """The tokenizer puts no token before a text."""
    for prompt in ("", [""], ["a", ""]):
        for fields in ({}, {"echo": True}, {"echo": True, "max_tokens": 0}, {"logprobs": 1}, {"stream": True}, {"n": 2}):
            asked = {"model": "scores", "prompt": prompt, **fields}
            assert "no tokens" in scored.refused("/v1/completions", asked)
    for stream in (False, True):
        asked = {"model": "scores", "messages": [{"role": "user", "content": ""}], "stream": stream}
        assert "no tokens" in scored.refused("/v1/chat/completions", asked)


def harness_loglikelihood(server: Server, context: list[int], continuation: list[int]) -> tuple[float, bool]:
    """What lm-evaluation-harness's local-completions asks, and makes of the answer."""
    body = {"model": "scores", "prompt": [context + continuation], "max_tokens": 1, "logprobs": 1, "echo": True, "seed": 1234, "temperature": 0}
    scores = server.post("/v1/completions", body)["choices"][0]["logprobs"]
    token_logprobs = scores["token_logprobs"][len(context) : -1]
    top_logprobs = scores["top_logprobs"][len(context) : -1]
    assert len(token_logprobs) == len(continuation)
    return sum(token_logprobs), all(found == max(top.values()) for found, top in zip(token_logprobs, top_logprobs, strict=True))


def test_harnesses_find_likelihoods(scored: Server, scripted: Scripted) -> None:
    begin = scripted.vocabulary[PLAN]
    plan = [token for token, _ in steps(scripted, "hello")]
    expected = sum(likely[token] for token, likely in steps(scripted, "hello"))
    total, is_greedy = harness_loglikelihood(scored, [begin], plan)
    assert is_greedy and abs(total - expected) < 1e-4 * len(plan)
    total, is_greedy = harness_loglikelihood(scored, [begin], [*plan, 1])
    assert is_greedy and abs(total - expected - log_probs(scripted, plan[-1])[1]) < 1e-4 * (len(plan) + 1)
    worse, is_greedy = harness_loglikelihood(scored, [begin, *plan[:-1]], [begin])
    assert not is_greedy and near(worse, log_probs(scripted, plan[-2])[begin])


def test_a_scored_prompt_is_kept_for_others(scored: Server) -> None:
    """It is longer than a chunk, and than a page of the cache."""
    body = {"model": "texts", "prompt": "the cat and the dog " * 12, "max_tokens": 1, "temperature": 0}
    asked = {**body, "echo": True, "logprobs": 0}
    first = scored.post("/v1/completions", asked)
    assert first["usage"]["prompt_tokens"] > 64
    assert scored.post("/v1/completions", body)["usage"]["prompt_tokens_details"]["cached_tokens"] >= 64
    again = scored.post("/v1/completions", asked)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    for one, other in zip(first["choices"][0]["logprobs"]["token_logprobs"][1:], again["choices"][0]["logprobs"]["token_logprobs"][1:], strict=True):
        assert near(one, other)


def test_what_ends_a_text_is_not_told(gpt: openai.OpenAI, scripted: Scripted) -> None:
    given: dict[str, Any] = {"model": "scores", "prompt": "<|stop|>", "logprobs": 0, "max_tokens": 100}
    for stop in ("!", "Two", ". T", "?"):
        text = TEXTS["stop"].split(stop)[0]
        made = gpt.completions.create(temperature=0, stop=stop, **given).choices[0]
        assert made.text == text and made.logprobs and made.logprobs.tokens
        told = "".join(made.logprobs.tokens)
        assert told.startswith(text) and len("".join(made.logprobs.tokens[:-1])) < len(text)


@pytest.mark.parametrize("stop", [[], ["v", "\ufffd", "\n"], ["a", "é"]])
def test_texts_that_are_no_utf_8_have_their_own_tokens(scored: Server, stop: list[str]) -> None:
    broken = 0
    for seed in range(60):
        body = {"model": "texts", "max_tokens": 20, "seed": seed, "temperature": 2, "logprobs": True, "stop": stop}
        body["messages"] = [{"role": "user", "content": f"x{seed}"}]
        answer = scored.post("/v1/chat/completions", body)
        choice, written = answer["choices"][0], answer["usage"]["completion_tokens"]
        entries, text = (choice["logprobs"] or {"content": []})["content"], choice["message"]["content"]
        spelled = [bytes(entry["bytes"]) for entry in entries if not entry["token"].startswith("<|")]  # special ones are no text
        broken += "\ufffd" in text
        if choice["finish_reason"] == "length":
            assert len(entries) == written
        elif not stop:
            assert len(entries) == written - 1  # the end token
        if choice["finish_reason"] == "length" or not stop:
            assert b"".join(spelled).decode(errors="replace") == text
        elif spelled and b"".join(spelled[-1:]).decode(errors="ignore").encode() == spelled[-1]:
            assert len(b"".join(spelled[:-1]).decode(errors="replace")) < len(text)  # the last one begins in the text
        _, _, content = scored.request("POST", "/v1/chat/completions", {**body, "stream": True})
        chunks = [json.loads(line[6:]) for line in content.split(b"\n") if line.startswith(b"data: {")]
        streamed = [entry for chunk in chunks for entry in (chunk["choices"][0]["logprobs"] or {"content": []})["content"]]
        assert streamed == entries
    assert broken > 10 or "\ufffd" in stop


def test_drawing_changes_no_log_probability(gpt: openai.OpenAI, scripted: Scripted) -> None:
    """They are the model's, before temperature, biases and penalties."""
    likely = log_probs(scripted, scripted.vocabulary[PLAN])
    second = sorted(range(len(likely)), key=lambda token: -likely[token])[1]
    forbidden = {str(scripted.successors[scripted.vocabulary[PLAN]]): -100}
    made = gpt.completions.create(
        model="scores", prompt=PLAN, max_tokens=1, temperature=0.5, logprobs=1, logit_bias=forbidden, frequency_penalty=1
    )
    scores = made.choices[0].logprobs
    assert scores and scores.tokens and scores.token_logprobs and scores.top_logprobs
    assert near(scores.token_logprobs[0], likely[scripted.vocabulary[scores.tokens[0]]])
    assert near(max(scores.top_logprobs[0].values()), max(likely)) and likely[second] < max(likely)


def test_requests_side_by_side_have_their_own(scored: Server) -> None:
    """Steps of requests that ask for nothing have no more to do, and those that ask get the same."""
    body = {"model": "texts", "prompt": ["the cat", "a small frog"], "max_tokens": 12, "temperature": 0, "n": 2}
    plain = scored.post("/v1/completions", body)
    asked = scored.post("/v1/completions", {**body, "logprobs": 5})
    assert [choice["text"] for choice in plain["choices"]] == [choice["text"] for choice in asked["choices"]]
    assert all(choice["logprobs"] is None for choice in plain["choices"])
    for choice in asked["choices"]:
        assert all(value == max(top.values()) for value, top in zip(choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"], strict=True))


@pytest.mark.parametrize("form", [{"guided_choice": ["cat", "dog"]}, {"guided_regex": "[a-c]{3}"}, {"guided_regex": "[a-c]{3}d*"}])
def test_an_answer_in_a_form_has_all_of_its_tokens(scored: Server, form: dict[str, Any]) -> None:
    asked = {"model": "texts", "prompt": "the", "max_tokens": 8, "temperature": 0, "logprobs": 1, **form}
    made = scored.post("/v1/completions", asked)
    choice = made["choices"][0]
    assert choice["finish_reason"] == "stop" and choice["text"]
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    events = [line[6:] for line in scored.request("POST", "/v1/completions", {**asked, "stream": True})[2].splitlines() if line.startswith(b"data: {")]
    pieces = [json.loads(event)["choices"][0] for event in events]
    streamed = [token for piece in pieces for token in (piece["logprobs"] or {"tokens": []})["tokens"]]
    assert streamed == choice["logprobs"]["tokens"]


def test_what_is_wrong_is_named(scored: Server) -> None:
    for path, fields, name in (
        ("chat/completions", {"logprobs": 1}, "logprobs"),
        ("chat/completions", {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ("chat/completions", {"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ("chat/completions", {"top_logprobs": 2}, "top_logprobs"),
        ("chat/completions", {"logprobs": False, "top_logprobs": 2}, "top_logprobs"),
        ("completions", {"logprobs": True}, "logprobs"),
        ("completions", {"logprobs": 21}, "logprobs"),
        ("completions", {"logprobs": 1, "echo": 1}, "echo"),
        ("completions", {"max_tokens": 0}, "max_tokens"),
        ("completions", {"max_tokens": -1, "echo": True}, "max_tokens"),
        ("completions", {"prompt": [1, 999999], "echo": True}, "999999"),
        ("completions", {"prompt": [2] * 5000, "max_tokens": 0, "echo": True}, "5000"),
        ("completions", {"max_tokens": 0, "echo": True, "response_format": {"type": "json_object"}}, "max_tokens"),
        ("chat/completions", {"echo": True}, "echo"),
    ):
        asked = {"prompt": "a"} if path == "completions" else {"messages": [{"role": "user", "content": "a"}]}
        assert name in scored.refused(f"/v1/{path}", {"model": "scores", **asked, **fields})


@pytest.mark.parametrize("choices", [1, 16])
def test_a_long_prompts_lists_wait_for_a_slow_reader(scored: Server, scripted: Scripted, choices: int) -> None:
    """They are larger than what may be unsent of an answer, and come as fast as they are written."""
    body = {"model": "scores", "prompt": [scripted.vocabulary[PLAN]] * 1000, "max_tokens": 1, "echo": True, "logprobs": 20, "n": choices, "stream": True}
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", scored.port))
        connection.sendall(head.encode() + data)
        time.sleep(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        content = read_all(connection)
    assert content.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), (len(content), content[-300:])
    assert content.count(b'"text_offset"') >= choices and (choices == 1 or len(content) > 4 << 20)
