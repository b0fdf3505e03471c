# SPDX-License-Identifier: MIT
"""Language models: what OpenAI's and Anthropic's clients get, and that nobody gets what is another's."""

import json
import re
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from conftest import GOLDENS, MODELS, Server, read_all

EXPECTED = json.loads((MODELS["texts"] / "expected.json").read_text())
HELLO = EXPECTED["prompts"][0]
TALK = EXPECTED["conversations"][0]
GREEDY = {"temperature": 0}


@pytest.fixture(scope="session")
def open_ai(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="session")
def claude(server: Server) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", api_key="none", max_retries=0)


def complete(server: Server, **fields: Any) -> Any:
    return server.post("/v1/completions", {"model": "texts", "prompt": HELLO["prompt"], "max_tokens": 48, **GREEDY, **fields})


def events_of(server: Server, path: str, body: Any) -> list[Any]:
    status, headers, content = server.request("POST", path, {**body, "stream": True})
    assert status == 200 and headers["content-type"].startswith("text/event-stream"), content
    return [json.loads(line[6:]) for line in content.decode().split("\n") if line.startswith("data: ") and line != "data: [DONE]"]


def test_texts_are_those_of_transformers(server: Server, open_ai: openai.OpenAI) -> None:
    for case in EXPECTED["prompts"]:
        made = open_ai.completions.create(model="texts", prompt=case["prompt"], max_tokens=48, temperature=0)
        ended = case["ids"][-1] in (0, 2)
        assert made.choices[0].text == case["text"]
        assert made.choices[0].finish_reason == ("stop" if ended else "length")
        assert made.usage and made.usage.completion_tokens == len(case["ids"])
        assert made.usage.prompt_tokens == len(case["prompt_ids"])
        from_ids = open_ai.completions.create(model="texts", prompt=case["prompt_ids"], max_tokens=48, temperature=0)
        assert from_ids.choices[0].text == case["text"]
    several = complete(server, prompt=[case["prompt"] for case in EXPECTED["prompts"]], n=2)
    assert [choice["index"] for choice in several["choices"]] == list(range(10))
    assert [choice["text"] for choice in several["choices"]] == [case["text"] for case in EXPECTED["prompts"] for _ in range(2)]
    assert several["usage"]["prompt_tokens"] == sum(len(case["prompt_ids"]) for case in EXPECTED["prompts"])


def test_conversations_are_those_of_transformers(open_ai: openai.OpenAI) -> None:
    for case in EXPECTED["conversations"]:
        made = open_ai.chat.completions.create(model="texts", messages=case["messages"], max_tokens=48, temperature=0)
        assert made.choices[0].message.content == case["text"]
        assert made.usage and made.usage.prompt_tokens == len(case["prompt_ids"])
        assert made.object == "chat.completion" and made.choices[0].message.role == "assistant"
        stream = open_ai.chat.completions.create(
            model="texts", messages=case["messages"], max_completion_tokens=48, temperature=0, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        assert chunks[0].choices[0].delta.role == "assistant"
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == case["text"]
        reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
        assert reasons == [made.choices[0].finish_reason]
        assert chunks[-1].choices == [] and chunks[-1].usage
        assert chunks[-1].usage.completion_tokens == made.usage.completion_tokens
        assert len({chunk.id for chunk in chunks}) == 1


def test_guessed_tokens_change_no_text_and_are_counted(server: Server) -> None:
    guessing = Server("--prompt-lookup", "7", models=("texts",))
    body = {"model": "texts", "prompt": "the cat sat and " * 8 + "the cat", "max_tokens": 96, "ignore_eos": True}
    ways: list[dict[str, Any]] = [GREEDY, {"temperature": 0.5, "top_k": 5, "seed": 3, "n": 2}, {**GREEDY, "frequency_penalty": 0.2, "logprobs": 2}]
    answers: list[Any] = [None] * len(ways)

    def ask(i: int) -> None:
        answers[i] = guessing.post("/v1/completions", {**body, **ways[i]})

    # The first guesses are made however long they take, and those of the greedy text are right; whether more pay, its times say.
    ask(0)
    accepted = guessing.metric("vkformer_accepted_tokens_total")
    assert 0 < accepted <= guessing.metric("vkformer_guessed_tokens_total")
    asking = [threading.Thread(target=ask, args=(i,)) for i in range(len(ways))]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    for way, answer in zip(ways, answers, strict=True):
        expected = server.post("/v1/completions", {**body, **way})
        assert [choice["text"] for choice in answer["choices"]] == [choice["text"] for choice in expected["choices"]]
        assert answer["usage"]["completion_tokens"] == expected["usage"]["completion_tokens"]
    assert accepted <= guessing.metric("vkformer_accepted_tokens_total") <= guessing.metric("vkformer_guessed_tokens_total")
    assert server.metric("vkformer_guessed_tokens_total") == 0
    assert guessing.stop() == 0


def test_it_says_of_which_model_nothing_is_guessed(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        shutil.copy(GOLDENS / "decoders" / "lfm2" / name, tmp_path)
    shutil.copy(GOLDENS.parents[1] / "samples" / "models" / "history" / "copy" / "transformer" / "tokenizer.json", tmp_path)
    server = Server("--model", f"keeps={tmp_path}", "--prompt-lookup", "4", models=("texts",))
    said = [line for line in server.lines if line["event"] == "no guesses"]
    assert [line["model"] for line in said] == ["keeps"]
    assert said[0]["what"] == "each sequence keeps a state: nothing is guessed"
    assert server.stop() == 0


def test_a_common_beginning_is_counted_as_cached(server: Server) -> None:
    body = {"model": "texts", "messages": [{"role": "user", "content": "the small frog is a frog " * 9}], "max_tokens": 4, **GREEDY}
    first = server.post("/v1/chat/completions", body)["usage"]
    again = server.post("/v1/chat/completions", body)["usage"]
    assert first["prompt_tokens"] == again["prompt_tokens"] > 64
    assert again["prompt_tokens_details"]["cached_tokens"] >= 64


def test_parts_of_text_are_joined(server: Server) -> None:
    text = TALK["messages"][0]["content"]
    parts = [{"type": "text", "text": text[:5]}, {"type": "text", "text": text[5:]}]
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 48, **GREEDY}
    assert server.post("/v1/chat/completions", body)["choices"][0]["message"]["content"] == TALK["text"]


def test_stop_texts_end_an_answer(server: Server, claude: anthropic.Anthropic) -> None:
    stop = HELLO["text"][10:12]
    made = complete(server, stop=["never in it", stop])
    assert made["choices"][0]["text"] == HELLO["text"].split(stop)[0]
    assert made["choices"][0]["finish_reason"] == "stop"
    streamed = events_of(server, "/v1/completions", {"prompt": HELLO["prompt"], "max_tokens": 48, "stop": stop, **GREEDY})
    assert "".join(chunk["choices"][0]["text"] for chunk in streamed) == made["choices"][0]["text"]
    talk_stop = TALK["text"][8:10]
    message = claude.messages.create(
        model="texts", max_tokens=48, messages=TALK["messages"], stop_sequences=["zzz", talk_stop], extra_body=GREEDY
    )
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", talk_stop)
    assert message.content[0].text == TALK["text"].split(talk_stop)[0]


def test_seeds_and_rules(server: Server) -> None:
    hot = {"temperature": 1.5, "max_tokens": 24}
    one, same, other = (complete(server, **hot, seed=seed)["choices"][0]["text"] for seed in (7, 7, 8))
    assert one == same != other
    drawn = {complete(server, **hot)["choices"][0]["text"] for _ in range(4)}
    assert len(drawn) > 1
    choices = complete(server, **hot, seed=7, n=3)["choices"]
    assert choices[0]["text"] == one and choices[1]["text"] == other
    assert complete(server, top_p=0, temperature=2)["choices"][0]["text"] == HELLO["text"]
    assert complete(server, temperature=1, top_k=1)["choices"][0]["text"] == HELLO["text"]
    forbidden = complete(server, logit_bias={str(HELLO["ids"][0]): -100}, max_tokens=1)["choices"][0]["text"]
    assert forbidden != complete(server, max_tokens=1)["choices"][0]["text"]


def test_messages_of_anthropic(claude: anthropic.Anthropic) -> None:
    for case in EXPECTED["conversations"]:
        system = [message["content"] for message in case["messages"] if message["role"] == "system"]
        turns = [message for message in case["messages"] if message["role"] != "system"]
        given: dict[str, Any] = {"model": "texts", "max_tokens": 48, "messages": turns, "extra_body": GREEDY}
        if system:
            given["system"] = system[0]
        message = claude.messages.create(**given)
        assert message.content[0].text == case["text"]
        usage = message.usage
        assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == len(case["prompt_ids"])
        assert usage.output_tokens == len(case["ids"])
        assert message.stop_reason in ("end_turn", "max_tokens")
        with claude.messages.stream(**given) as stream:
            assert "".join(stream.text_stream) == case["text"]
            final = stream.get_final_message()
        assert (final.stop_reason, final.usage.output_tokens) == (message.stop_reason, usage.output_tokens)
        counted = claude.messages.count_tokens(**{name: value for name, value in given.items() if name not in ("max_tokens", "extra_body")})
        assert counted.input_tokens == len(case["prompt_ids"])
    assert [model.id for model in claude.models.list()] == list(MODELS)
    for change, name in (
        ({"tools": [{"name": "a", "input_schema": {"type": "object"}}]}, "tools"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
        ({"extra_body": {"temperature": 1.5}}, "temperature"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages[0].content[0].type"),
    ):
        with pytest.raises(anthropic.BadRequestError, match=name.replace("[", r"\[")):
            claude.messages.create(**{"model": "texts", "max_tokens": 4, "messages": TALK["messages"], **change})
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.create(model="nothing", max_tokens=4, messages=TALK["messages"])


def test_responses(open_ai: openai.OpenAI) -> None:
    given: dict[str, Any] = {"model": "texts", "max_output_tokens": 48, "temperature": 0}
    made = open_ai.responses.create(input=TALK["messages"][0]["content"], **given)
    assert made.output_text == TALK["text"]
    assert made.usage and made.usage.input_tokens == len(TALK["prompt_ids"])
    case = EXPECTED["conversations"][1]
    listed = open_ai.responses.create(instructions=case["messages"][0]["content"], input=case["messages"][1:], **given)
    assert listed.output_text == case["text"]
    with open_ai.responses.stream(input=TALK["messages"], **given) as stream:
        events = list(stream)
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created" and kinds.count("response.output_text.done") == 1
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TALK["text"]
    assert kinds[-1] == ("response.completed" if TALK["ids"][-1] in (0, 2) else "response.incomplete")
    assert events[-1].response.output_text == TALK["text"] == made.output_text
    for name, value in (("previous_response_id", "resp_1"), ("tools", [{"type": "web_search"}]), ("reasoning", {"effort": "low"})):
        with pytest.raises(openai.BadRequestError, match=name):
            open_ai.responses.create(input="a", **{**given, name: value})


def test_what_is_not_done_is_named(server: Server) -> None:
    for name, value in (
        ("logprobs", 3),
        ("top_logprobs", 2),
        ("tools", [{"type": "function", "function": {"name": "a"}}]),
        ("tool_choice", "required"),
        ("response_format", {"type": "xml"}),
        ("response_format", {"type": "json_schema"}),
        ("response_format", {"type": "json_object", "mode": 1}),
        ("guided_grammar", "root ::= [a-z]"),
        ("functions", [{}]),
        ("modalities", ["audio"]),
        ("reasoning_effort", "high"),
        ("stop", [""]),
        ("stop", ["a"] * 17),
        ("n", 0),
        ("n", 1000),
        ("n", -1),
        ("max_tokens", 0),
        ("max_tokens", -5),
        ("max_tokens", 1e300),
        ("temperature", -0.1),
        ("temperature", "hot"),
        ("top_p", 1.1),
        ("top_k", -1),
        ("presence_penalty", 3),
        ("seed", 1.5),
        ("seed", 2**64),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {"1": 1000}),
        ("logit_bias", {"-1": 1}),
        ("logit_bias", {"99999999": 1}),
        ("stream", "yes"),
        ("stream_options", {"include_usage": True}),
        ("grammar", "root ::= [a-z]"),
    ):
        message = server.refused("/v1/chat/completions", {"model": "texts", "messages": TALK["messages"], name: value})
        assert name in message or "token" in message, (name, value, message)
    for bad, name in (
        ([], "messages"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "function", "content": "a"}], "messages[0].role"),
        ([{"role": "user", "content": "a", "name": 1}], "messages[0].name"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}], "messages[0].content[0].type"),
        ([{"role": "assistant", "content": "a", "tool_calls": [{}]}], "messages[0].tool_calls"),
        ("hello", "messages"),
    ):
        assert name in server.refused("/v1/chat/completions", {"messages": bad})
    assert "context" in server.refused("/v1/completions", {"prompt": "the small frog " * 200})
    assert "prompt" in server.refused("/v1/completions", {"prompt": []})
    assert "prompt" in server.refused("/v1/completions", {"prompt": [[1, -1]]})
    assert "token" in server.refused("/v1/completions", {"prompt": [1, 2_000_000]})
    assert "not for this route" in server.refused("/v1/completions", {"model": "vectors", "prompt": "a"})
    # Nothing, and what asks for nothing else.
    harmless = {"user": "me", "metadata": {}, "logprobs": None, "tools": [], "n": 1, "response_format": {"type": "text"}, "parallel_tool_calls": True}
    server.post("/v1/chat/completions", {"model": "texts", "messages": TALK["messages"], "max_tokens": 1, **harmless})


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "colour": {"enum": ["red", "green"]},
    },
    "required": ["name", "age", "colour"],
    "additionalProperties": False,
}


def check_person(text: str) -> None:
    value = json.loads(text)
    assert list(value) == ["name", "age", "colour"], value
    assert isinstance(value["name"], str) and len(value["name"]) <= 6
    assert isinstance(value["age"], int) and 0 <= value["age"] <= 130 and value["colour"] in ("red", "green")


def test_answers_are_what_a_schema_says(server: Server, open_ai: openai.OpenAI) -> None:
    given: dict[str, Any] = {"model": "texts", "messages": TALK["messages"], "max_tokens": 120}
    schema = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    for seed in range(6):
        made = open_ai.chat.completions.create(**given, response_format=schema, temperature=1.5, seed=seed)
        assert made.choices[0].finish_reason == "stop"
        check_person(made.choices[0].message.content)
    stream = open_ai.chat.completions.create(**given, response_format=schema, stream=True, temperature=1, seed=1)
    check_person("".join(chunk.choices[0].delta.content or "" for chunk in stream))
    listed = open_ai.chat.completions.create(**given, response_format=schema, n=3, temperature=1, seed=1)
    for choice in listed.choices:
        check_person(choice.message.content)
    response = open_ai.responses.create(
        model="texts", input=TALK["messages"], max_output_tokens=120, text={"format": {"type": "json_schema", "name": "p", "schema": PERSON}}
    )
    check_person(response.output_text)
    assert response.text.format.type == "json_schema"
    for seed in range(3):
        body = {**given, "response_format": {"type": "json_object"}, "max_tokens": 60, "temperature": 1, "seed": seed}
        choice = server.post("/v1/chat/completions", body)["choices"][0]
        assert choice["message"]["content"].startswith("{")
        if choice["finish_reason"] == "stop":
            assert isinstance(json.loads(choice["message"]["content"]), dict)


def test_pydantic_models_are_parsed(open_ai: openai.OpenAI) -> None:
    pydantic = pytest.importorskip("pydantic")
    pet = pydantic.create_model("Pet", kind=(str, pydantic.Field(max_length=4)), legs=(int, pydantic.Field(ge=0, le=9)))
    house = pydantic.create_model("House", street=(str, pydantic.Field(max_length=5)), pets=(list[pet], pydantic.Field(max_length=2)))
    made = open_ai.chat.completions.parse(model="texts", messages=TALK["messages"], response_format=house, max_tokens=140, temperature=1, seed=3)
    assert isinstance(made.choices[0].message.parsed, house)


def test_other_constraints(server: Server) -> None:
    for constraint, fits in (
        ({"guided_choice": ["yes", "no", "it depends"]}, "yes|no|it depends"),
        ({"guided_regex": "[a-c]{3}-\\d+ (x|y)"}, "[a-c]{3}-\\d+ (x|y)"),
        ({"guided_json": {"type": "integer", "minimum": 10, "maximum": 20}}, "1\\d|20"),
        ({"guided_json": '{"enum": ["a", 7]}'}, '"a"|7'),
        ({"structured_outputs": {"regex": "a{5}"}}, "aaaaa"),
        ({"structured_outputs": {"choice": ["a", "b"]}}, "a|b"),
        ({"structured_outputs": {"json": {"type": "null"}}}, "null"),
    ):
        for seed in range(3):
            choice = complete(server, **constraint, temperature=2, seed=seed, max_tokens=100)["choices"][0]
            assert choice["finish_reason"] == "length" or re.fullmatch(fits, choice["text"]), (constraint, choice)
    both = {"guided_regex": "a", "guided_choice": ["b"]}
    assert "guided_choice" in server.refused("/v1/completions", {"prompt": "a", **both})
    assert "ignore_end" in server.refused("/v1/completions", {"prompt": "a", "guided_regex": "a", "ignore_eos": True})


def test_hostile_schemas_are_refused(server: Server) -> None:
    deep: Any = {"type": "integer"}
    for _ in range(30):
        deep = {"type": "array", "items": deep, "minItems": 300}
    recursive = {"$ref": "#"}
    wide = {"enum": [f"{number} {'x' * 100}" for number in range(2000)]}
    for schema, says in (
        (recursive, "begins with itself"),
        (wide, "too large"),
        ({"type": "string", "pattern": "a{1,1000000}"}, "too large"),
        ({"type": "string", "pattern": "(?=a)"}, "(?="),
        ({"type": "object", "properties": {"a": {"not": {}}}}, "/properties/a"),
        ({"type": "array", "minItems": 1e18}, "minItems"),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "no text"),
        ("{", "schema"),
        (7, "schema"),
    ):
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        message = server.refused("/v1/chat/completions", {"messages": TALK["messages"], "response_format": form})
        assert says in message and "response_format.json_schema.schema" in message, (schema, message)
    # What is large, but not too large, is answered.
    for schema in (deep, {"type": "string", "pattern": "(a*)*b"}, {"type": "array", "items": {"$ref": "#"}}):
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        server.post("/v1/chat/completions", {"messages": TALK["messages"], "response_format": form, "max_tokens": 8})
    assert "ambiguous" in server.refused("/v1/completions", {"prompt": "a", "guided_regex": "(a{0,3000}){0,3000}b"})


def test_tokens(server: Server) -> None:
    assert server.post("/tokenize", {"content": HELLO["prompt"]}) == {"tokens": HELLO["prompt_ids"]}
    assert server.post("/detokenize", {"tokens": HELLO["prompt_ids"]}) == {"content": HELLO["prompt"]}
    assert "a token of the text is 2000000" in server.refused("/detokenize", {"tokens": [2_000_000]})
    assert "tokens" in server.refused("/detokenize", {"tokens": [-1]})


def test_many_clients_get_their_own(server: Server) -> None:
    """Each answer is that of the same request alone, greedy and seeded, streamed and not."""
    bodies = [
        {"prompt": f"The small frog {number} " * (number % 5 + 1), "max_tokens": 8 + number, "temperature": 0 if number % 2 else 1.2, "seed": number}
        for number in range(24)
    ]
    alone = [server.post("/v1/completions", body)["choices"][0]["text"] for body in bodies]
    together: dict[int, str] = {}

    def ask(number: int) -> None:
        if number % 3:
            together[number] = server.post("/v1/completions", bodies[number])["choices"][0]["text"]
        else:
            events = events_of(server, "/v1/completions", bodies[number])
            together[number] = "".join(chunk["choices"][0]["text"] for chunk in events)

    threads = [threading.Thread(target=ask, args=[number]) for number in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[number] for number in range(len(bodies))] == alone


def test_who_goes_takes_the_generation_along(server: Server) -> None:
    body = json.dumps({"prompt": "Hello", "max_tokens": 140, "ignore_eos": True, "stream": True, "n": 16}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(8):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(head + body)
            assert connection.recv(16).startswith(b"HTTP/1.1 200")
    end = time.monotonic() + 30
    while server.metric("vkformer_queue_requests") > 0:
        assert time.monotonic() < end, "a generation that nobody reads goes on"
        time.sleep(0.02)
    assert complete(server)["choices"][0]["text"] == HELLO["text"]


def test_who_does_not_read_holds_nothing(server: Server) -> None:
    body = json.dumps({"prompt": "Hello", "max_tokens": 140, "ignore_eos": True, "stream": True, "n": 16}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    connections = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(4)]
    for connection in connections:
        connection.sendall(head + body)
    assert complete(server)["choices"][0]["text"] == HELLO["text"]
    end = time.monotonic() + 60
    while server.metric("vkformer_queue_requests") > 0:
        assert time.monotonic() < end
        time.sleep(0.02)
    for connection in connections:
        connection.close()


def test_errors_within_a_stream_are_events(server: Server) -> None:
    """A request that fails before its first token is refused as any other."""
    message = server.refused("/v1/completions", {"prompt": "the small frog " * 200, "stream": True})
    assert "context" in message


def test_a_stream_is_one_http_message(server: Server) -> None:
    body = json.dumps({"prompt": "Hello", "max_tokens": 4, "stream": True}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(head + body)
        connection.sendall(last)
        answer = read_all(connection)
    first, second = answer.split(b"\r\n0\r\n\r\n", 1) if b"\r\n0\r\n\r\n" in answer else (answer, b"")
    assert b"data: [DONE]" in first and second.endswith(b'{"status":"ok"}')


def test_times_are_measured(server: Server) -> None:
    complete(server)
    for name in ("vkformer_first_token_seconds_count", "vkformer_next_token_seconds_count", "vkformer_generated_tokens_total"):
        assert server.metric(name) > 0
