# SPDX-License-Identifier: MIT
"""Tools: what the clients of OpenAI and Anthropic get of models of three families, and that nothing of it is lost."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from conftest import MODELS, Server
from scripted import Scripted

GREEDY = {"temperature": 0}
WEATHER = {
    "name": "weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]},
}
ADD = {"name": "add", "description": "A sum", "parameters": {"type": "object", "properties": {}}}
TOOLS: list[Any] = [{"type": "function", "function": WEATHER}, {"type": "function", "function": ADD}]
FLAT: list[Any] = [{"type": "function", "strict": False, **tool} for tool in (WEATHER, ADD)]
BLOCKS: list[Any] = [{"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]} for tool in (WEATHER, ADD)]

CITY = '{"city": "Köln", "days": 2}'
ROME = '{"city": "Rom"}'
SUM = '{"a": 1, "b": [2, {"c": "}"}]}'
BROKEN = '<tool_call>\n{"name": "weather", "arguments": [1]}\n</tool_call>'
QWEN = {
    "hello": "Hello there.",
    "call": f'Let me see.\n<tool_call>\n{{"name": "weather", "arguments": {CITY}}}\n</tool_call>',
    "two": f'<tool_call>\n{{"name": "weather", "arguments": {ROME}}}\n</tool_call>\n<tool_call>\n{{"name": "add", "arguments": {SUM}}}\n</tool_call>',
    "broken": BROKEN,
    "cut": '<tool_call>\n{"name": "weather", "arguments": {"city": "Graz',
    "odd": '<tool_call>\n{"name": "weather", "arguments": {"city" "Ulm"}}\n</tool_call>',
    "stopped": "Well,<|stop|>bye.",
    "sunny": "It is sunny.",
    "again": "Once more: hello.",
}
MISTRAL = {"call": f'[TOOL_CALLS] [{{"name": "weather", "arguments": {CITY}}}, {{"name": "add", "arguments": {SUM}}}]', "hello": "Bonjour."}
#: The first plan has what forced calls are spelled with.
DEVSTRAL = {"letters": '{}":, adwethrciyonsRmKöl12', "call": f"[TOOL_CALLS]weather[ARGS]{CITY}", "hello": "Salut."}
#: A decoder whose tokens' texts depend on their neighbours.
WORDS = {"type": "WordPiece", "prefix": "##", "cleanup": True}
LLAMA = {"call": f'{{"name": "weather", "parameters": {CITY}}}', "tag": f'<|python_tag|>{{"name": "add", "parameters": {SUM}}}', "hello": "Howdy."}


@pytest.fixture(scope="session")
def families(_cache_of_its_own: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, Scripted]]]:
    models = {
        "qwen": Scripted(tmp_path_factory.mktemp("qwen"), QWEN, "calls are <tool_call>", ("<|stop|>",)),
        "mistral": Scripted(tmp_path_factory.mktemp("mistral"), MISTRAL, "calls are [TOOL_CALLS]", ("[TOOL_CALLS]",)),
        "devstral": Scripted(tmp_path_factory.mktemp("devstral"), DEVSTRAL, "calls are [TOOL_CALLS]name[ARGS]", ("[TOOL_CALLS]", "[ARGS]")),
        "llama": Scripted(tmp_path_factory.mktemp("llama"), LLAMA, "calls are <|python_tag|>", ("<|python_tag|>",)),
        "plain": Scripted(tmp_path_factory.mktemp("plain"), {"hello": "Hi."}, "there are no calls"),
        "words": Scripted(tmp_path_factory.mktemp("words"), {"hello": "Hi."}, "calls are <tool_call>", decoder=WORDS),
    }
    named = [word for name, model in models.items() for word in ("--model", f"{name}={model.folder}")]
    running = Server(*named, models=("texts",))
    yield running, models
    assert running.stop() == 0


@pytest.fixture(scope="session")
def tooled(families: tuple[Server, dict[str, Scripted]]) -> Server:
    return families[0]


@pytest.fixture(scope="session")
def gpt(tooled: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{tooled.port}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="session")
def claude(tooled: Server) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=f"http://127.0.0.1:{tooled.port}", api_key="none", max_retries=0)


def asked(plan: str) -> list[Any]:
    return [{"role": "user", "content": f"What about it? <|{plan}|>"}]


def calls_of(message: Any) -> list[tuple[str, str]]:
    return [(call.function.name, call.function.arguments) for call in message.tool_calls or []]


def streamed(gpt: openai.OpenAI, **fields: Any) -> tuple[str, list[tuple[str, str]], str, list[Any]]:
    """Content, calls, and the reason of the end, put together from deltas."""
    content, calls, reason = "", [], ""
    chunks = list(gpt.chat.completions.create(temperature=0, stream=True, **fields))
    for chunk in chunks:
        delta = chunk.choices[0].delta
        content += delta.content or ""
        for call in delta.tool_calls or []:
            if call.id:
                assert call.index == len(calls) and call.function.name and call.function.arguments == ""
                calls.append((call.function.name, ""))
            else:
                name, arguments = calls[call.index]
                calls[call.index] = (name, arguments + call.function.arguments)
        reason = chunk.choices[0].finish_reason or reason
    return content, calls, reason, chunks


@pytest.mark.parametrize(
    ("model", "plan", "content", "calls"),
    [
        ("qwen", "hello", "Hello there.", []),
        ("qwen", "call", "Let me see.", [("weather", CITY)]),
        ("qwen", "two", None, [("weather", ROME), ("add", SUM)]),
        ("mistral", "call", None, [("weather", CITY), ("add", SUM)]),
        ("mistral", "hello", "Bonjour.", []),
        ("devstral", "call", None, [("weather", CITY)]),
        ("devstral", "hello", "Salut.", []),
        ("llama", "call", None, [("weather", CITY)]),
        ("llama", "tag", None, [("add", SUM)]),
        ("llama", "hello", "Howdy.", []),
    ],
)
def test_calls_of_each_family(gpt: openai.OpenAI, model: str, plan: str, content: str | None, calls: list[tuple[str, str]]) -> None:
    given: dict[str, Any] = {"model": model, "messages": asked(plan), "tools": TOOLS}
    made = gpt.chat.completions.create(temperature=0, **given).choices[0]
    reason = "tool_calls" if calls else "stop"
    assert (made.message.content, calls_of(made.message), made.finish_reason) == (content, calls, reason)
    ids = [call.id for call in made.message.tool_calls or []]
    assert len(set(ids)) == len(ids) and all((len(name) == 9 if model in ("mistral", "devstral") else name.startswith("call_")) for name in ids)
    assert streamed(gpt, **given)[:3] == (content or "", calls, reason)


def test_arguments_come_in_pieces(gpt: openai.OpenAI) -> None:
    chunks = streamed(gpt, model="qwen", messages=asked("call"), tools=TOOLS)[3]
    pieces = [call.function.arguments for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert len(pieces) > 4 and pieces[0] == ""


def test_broken_calls_are_content(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    given: dict[str, Any] = {"model": "qwen", "messages": asked("broken"), "tools": TOOLS}
    made = gpt.chat.completions.create(temperature=0, **given).choices[0]
    assert (made.message.content, made.message.tool_calls, made.finish_reason) == (BROKEN, None, "stop")
    assert streamed(gpt, **given)[:3] == (BROKEN, [], "stop")
    message = claude.messages.create(model="qwen", max_tokens=200, messages=asked("broken"), tools=BLOCKS, extra_body=GREEDY)
    assert message.content[0].text == BROKEN and message.stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("plan", "fields", "reason"),
    [("cut", {}, "stop"), ("odd", {}, "stop"), ("call", {"stop": ["days"]}, "stop"), ("two", {"max_tokens": 4}, "length")],
)
def test_broken_calls_in_streams_are_not_to_be_done(gpt: openai.OpenAI, claude: anthropic.Anthropic, plan: str, fields: dict[str, Any], reason: str) -> None:
    _, calls, ended, _ = streamed(gpt, model="qwen", messages=asked(plan), tools=TOOLS, **fields)
    assert ended == reason and len(calls) <= 1
    stops, limit = fields.get("stop", []), fields.get("max_tokens", 200)
    given: dict[str, Any] = {"model": "qwen", "max_tokens": limit, "messages": asked(plan), "tools": BLOCKS, "stop_sequences": stops}
    ends = [event.delta for event in claude.messages.create(**given, stream=True, extra_body=GREEDY) if event.type == "message_delta"]
    assert ends[0].stop_reason == ("stop_sequence" if stops else "max_tokens" if reason == "length" else "end_turn")
    assert ends[0].stop_sequence == (stops[0] if stops else None)
    if stops:
        return
    events = list(gpt.responses.create(model="qwen", input=asked(plan)[0]["content"], tools=FLAT, max_output_tokens=limit, temperature=0, stream=True))
    assert "response.function_call_arguments.done" not in [event.type for event in events]
    items = events[-1].response.output
    assert all(item.status == "incomplete" for item in items if item.type == "function_call")


def test_a_special_token_that_ends_an_answer_is_told(claude: anthropic.Anthropic) -> None:
    given: dict[str, Any] = {"model": "qwen", "max_tokens": 200, "messages": asked("stopped"), "tools": BLOCKS, "extra_body": GREEDY}
    message = claude.messages.create(**given, stop_sequences=["bye", "<|stop|>"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "<|stop|>")
    with claude.messages.stream(**given, stop_sequences=["<|stop|>"]) as stream:
        assert stream.get_final_message().stop_sequence == "<|stop|>"


def test_an_answer_that_is_cut_is_not_whole(gpt: openai.OpenAI) -> None:
    given: dict[str, Any] = {"model": "qwen", "messages": asked("two"), "tools": TOOLS}
    whole = gpt.chat.completions.create(temperature=0, **given)
    assert whole.usage
    for limit in range(1, whole.usage.completion_tokens):
        made = gpt.chat.completions.create(temperature=0, max_tokens=limit, **given).choices[0]
        assert made.finish_reason == "length"
        calls = calls_of(made.message)
        assert calls == [("weather", ROME), ("add", SUM)][: len(calls)]
        if not calls:
            assert QWEN["two"].startswith(made.message.content or "")


def test_one_call_at_a_time(gpt: openai.OpenAI) -> None:
    given: dict[str, Any] = {"model": "qwen", "messages": asked("two"), "tools": TOOLS, "parallel_tool_calls": False}
    made = gpt.chat.completions.create(temperature=0, **given)
    assert calls_of(made.choices[0].message) == [("weather", ROME)] and made.choices[0].finish_reason == "tool_calls"
    assert streamed(gpt, **given)[:3] == ("", [("weather", ROME)], "tool_calls")
    both = gpt.chat.completions.create(temperature=0, **{**given, "parallel_tool_calls": True})
    assert made.usage and both.usage and made.usage.completion_tokens < both.usage.completion_tokens


#: What calls of it can be is finite, and spelled with what the models' texts have.
STRICT = {
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/city"}, "const": {"$ref": "#/$defs/days"}},
        "required": ["city", "const"],
        "additionalProperties": False,
        "$defs": {"city": {"enum": ["Rom", "Köln"]}, "days": {"enum": [1, 2]}},
    },
}
NOTHING = {"name": "add", "parameters": {"properties": {}, "additionalProperties": False}}
FORCED: list[Any] = [{"type": "function", "function": tool} for tool in (STRICT, NOTHING)]


def fits(name: str, arguments: Any) -> bool:
    if name == "add":
        return bool(arguments == {})
    return name == "weather" and list(arguments) == ["city", "const"] and arguments["city"] in ("Rom", "Köln") and arguments["const"] in (1, 2)


@pytest.mark.parametrize("model", ["qwen", "mistral", "devstral", "llama"])
@pytest.mark.parametrize("plan", ["hello", "call"])
def test_calls_that_have_to_be(gpt: openai.OpenAI, claude: anthropic.Anthropic, model: str, plan: str) -> None:
    given: dict[str, Any] = {"model": model, "messages": asked(plan), "tools": FORCED, "max_tokens": 200, "parallel_tool_calls": False}
    free = gpt.chat.completions.create(temperature=0, **given)
    assert plan == "call" or free.choices[0].message.tool_calls is None
    named = {"type": "function", "function": {"name": "add"}}
    for choice, names in (("required", {"weather", "add"}), (named, {"add"})):
        made = gpt.chat.completions.create(temperature=0, tool_choice=choice, **given).choices[0]
        calls = calls_of(made.message)
        assert (made.message.content, made.finish_reason, len(calls)) == (None, "tool_calls", 1)
        assert calls[0][0] in names and fits(calls[0][0], json.loads(calls[0][1]))
        assert streamed(gpt, tool_choice=choice, **given)[:3] == ("", calls, "tool_calls")
    for seed in range(4):
        drawn = gpt.chat.completions.create(temperature=2, seed=seed, tool_choice="required", **given).choices[0].message
        assert all(fits(name, json.loads(arguments)) for name, arguments in calls_of(drawn)) and drawn.tool_calls
    flat = [{"type": "function", **tool} for tool in (STRICT, NOTHING)]
    for choice in ("required", {"type": "function", "name": "weather"}):
        output = gpt.responses.create(model=model, input=asked(plan), tools=flat, tool_choice=choice, temperature=0, parallel_tool_calls=False).output
        assert [item.type for item in output] == ["function_call"] and fits(output[0].name, json.loads(output[0].arguments))
        assert choice == "required" or output[0].name == "weather"
    blocks = [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in (STRICT, NOTHING)]
    for wanted in ({"type": "any"}, {"type": "tool", "name": "weather"}):
        message = claude.messages.create(
            model=model, max_tokens=200, messages=asked(plan), tools=blocks, tool_choice={**wanted, "disable_parallel_tool_use": True}, extra_body=GREEDY
        )
        assert [block.type for block in message.content] == ["tool_use"] and message.stop_reason == "tool_use"
        assert fits(message.content[0].name, message.content[0].input) and message.content[0].name in (wanted.get("name") or "weather add")


@pytest.mark.parametrize(("model", "form"), [("mistral", '[{"name":"add","arguments":{}}'), ("devstral", "add[ARGS]{}")])
def test_forced_calls_have_the_form_of_the_template(gpt: openai.OpenAI, model: str, form: str) -> None:
    named: Any = {"type": "function", "function": {"name": "add"}}
    for one_call in (True, False):
        given: dict[str, Any] = {"messages": asked("hello"), "tools": FORCED, "tool_choice": named, "parallel_tool_calls": not one_call, "max_tokens": 60}
        made = gpt.chat.completions.create(model=model, temperature=0, logprobs=True, **given).choices[0]
        assert made.logprobs and made.logprobs.content
        written = "".join(token.token for token in made.logprobs.content).replace("</s>", "").replace(" ", "")
        assert written == form if one_call else written.startswith(form), written
        name, arguments = calls_of(made.message)[0]
        assert (name, json.loads(arguments)) == ("add", {})


STRICT_TOOLS: list[Any] = [{"type": "function", "function": {"strict": True, **tool}} for tool in (STRICT, NOTHING)]


@pytest.mark.parametrize("model", ["qwen", "mistral", "devstral", "llama"])
def test_strict_tools_are_obeyed_where_they_are_called(gpt: openai.OpenAI, claude: anthropic.Anthropic, model: str) -> None:
    """The models write arguments that do not fit: "Köln" for 2 "days"."""
    plans = {"qwen": ("call", "two"), "mistral": ("call",), "devstral": ("call",), "llama": ("call", "tag")}[model]
    one = model in ("mistral", "devstral")  # its list would go on until the limit
    given: dict[str, Any] = {"model": model, "tools": STRICT_TOOLS, "max_tokens": 300, "parallel_tool_calls": not one}
    for plan in plans:
        free = gpt.chat.completions.create(temperature=0, messages=asked(plan), **{**given, "tools": FORCED}).choices[0].message
        assert not all(fits(name, json.loads(arguments)) for name, arguments in calls_of(free)), "they obey without being told"
        made = gpt.chat.completions.create(temperature=0, messages=asked(plan), **given).choices[0]
        calls = calls_of(made.message)
        assert made.finish_reason == "tool_calls" and [name for name, _ in calls][:1] == [calls_of(free)[0][0]]
        assert all(fits(name, json.loads(arguments)) for name, arguments in calls), calls
        assert made.message.content == ("Let me see." if (model, plan) == ("qwen", "call") else None)
        assert streamed(gpt, messages=asked(plan), **given)[:3] == (made.message.content or "", calls, "tool_calls")
        for seed in range(6):
            drawn = gpt.chat.completions.create(temperature=1.5, seed=seed, messages=asked(plan), **given).choices[0]
            whole = calls_of(drawn.message)  # one that is cut is content
            assert all(fits(name, json.loads(arguments)) for name, arguments in whole), whole
        flat = [{"type": "function", "strict": True, **tool} for tool in (STRICT, NOTHING)]
        output = gpt.responses.create(model=model, input=asked(plan), tools=flat, temperature=0, parallel_tool_calls=not one).output
        assert [(item.name, item.arguments) for item in output if item.type == "function_call"] == calls
        blocks = [{"name": tool["name"], "input_schema": tool["parameters"], "strict": True} for tool in (STRICT, NOTHING)]
        auto: Any = {"type": "auto", "disable_parallel_tool_use": one}
        message = claude.messages.create(model=model, max_tokens=300, messages=asked(plan), tools=blocks, tool_choice=auto, extra_body=GREEDY)
        used = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
        assert used == [(name, json.loads(arguments)) for name, arguments in calls] and message.stop_reason == "tool_use"
    said = gpt.chat.completions.create(temperature=0, messages=asked("hello"), **given).choices[0]
    assert (said.message.content, said.message.tool_calls, said.finish_reason) == (
        {"qwen": "Hello there.", "mistral": "Bonjour.", "devstral": "Salut.", "llama": "Howdy."}[model],
        None,
        "stop",
    )


def test_tools_that_are_not_strict_stay_free(gpt: openai.OpenAI) -> None:
    """Beside one that is: what the model writes of the one is as it was."""
    mixed = [STRICT_TOOLS[0], FORCED[1]]
    made = gpt.chat.completions.create(model="llama", temperature=0, messages=asked("tag"), tools=mixed, max_tokens=300).choices[0]
    assert calls_of(made.message) == [("add", SUM)] and not fits("add", json.loads(SUM))
    broken = gpt.chat.completions.create(model="qwen", temperature=0, messages=asked("broken"), tools=STRICT_TOOLS, max_tokens=300).choices[0]
    assert broken.finish_reason == "tool_calls" and all(fits(name, json.loads(arguments)) for name, arguments in calls_of(broken.message))


def test_strict_tools_that_cannot_be_obeyed(tooled: Server) -> None:
    odd = {"name": "odd", "parameters": {"type": "object", "not": {}}}
    body = {"messages": asked("hello"), "max_tokens": 4}
    for strict, status in ((False, 200), (True, 400)):
        tools = [{"type": "function", "function": {**odd, "strict": strict}}]
        tooled.post("/v1/chat/completions", {"model": "qwen", **body, "tools": tools}, expect=status)
    for fields, words in (
        ({"tools": tools}, ("tools", "odd", "not")),
        ({"tools": [{"type": "function", "function": {**STRICT, "strict": 1}}]}, ("tools[0].function.strict",)),
        ({"tools": STRICT_TOOLS, "ignore_eos": True}, ("ends where it is whole",)),
        ({"tools": STRICT_TOOLS, "response_format": {"type": "json_object"}}, ("tools", "another form")),
        ({"model": "words", "tools": STRICT_TOOLS}, ("cannot be constrained", "depends on its neighbours")),
    ):
        message = tooled.refused("/v1/chat/completions", {"model": "qwen", **body, **fields})
        assert all(word in message for word in words), (fields, message)
    assert tooled.post("/v1/chat/completions", {"model": "words", **body, "tools": FORCED})
    blocks = [{"name": "odd", "input_schema": odd["parameters"], "strict": True}]
    assert "odd" in tooled.post("/v1/messages", {"model": "qwen", **body, "tools": blocks}, expect=400)["error"]["message"]


def test_calls_that_cannot_be_forced(tooled: Server) -> None:
    required = {"tools": FORCED, "tool_choice": "required"}
    unknown = {"name": "odd", "parameters": {"type": "object", "properties": {"a": {"type": "string", "contentEncoding": "base64"}}, "not": {}}}
    for fields, words in (
        ({"tool_choice": "required"}, ("tool_choice", "no tools")),
        ({"tools": FORCED, "tool_choice": {"type": "function", "function": {"name": "sub"}}}, ("tool_choice", "no tool has that name")),
        ({"tools": FORCED, "tool_choice": {"type": "custom"}}, ("tool_choice.type",)),
        ({"tools": FORCED, "tool_choice": {"type": "function", "function": {}}}, ("tool_choice.function.name",)),
        ({"tools": FORCED, "tool_choice": 1}, ("tool_choice",)),
        ({"tools": [{"type": "function", "function": unknown}], "tool_choice": "required"}, ("tools", "odd", "not")),
        ({"tools": [{"type": "function", "function": {"name": "odd", "parameters": {"type": "array"}}}], "tool_choice": "required"}, ("odd", "another type")),
        ({**required, "response_format": {"type": "json_object"}}, ("tools", "another form")),
        ({"tools": FORCED, "guided_regex": "a+"}, ("tools", "another form")),
        ({**required, "messages": [*asked("hello"), {"role": "assistant", "content": "So"}], "continue_final_message": True}, ("tool_choice", "begun")),
    ):
        message = tooled.refused("/v1/chat/completions", {"model": "qwen", "messages": asked("hello"), **fields})
        assert all(word in message for word in words), (fields, message)
    for choice, word in (({"type": "any"}, "no tools"), ({"type": "tool", "name": "a"}, "no tools"), ({"type": "perhaps"}, "none of auto")):
        message = tooled.refused("/v1/messages", {"model": "qwen", "max_tokens": 4, "messages": asked("hello"), "tool_choice": choice})
        assert word in message, message


def shown(server: Server, body: Any, path: str = "/v1/chat/completions") -> Any:
    """What the model's template was given."""
    message = server.post(path, body, expect=400)["error"]["message"]
    return json.loads(message[message.index("{") :])


def test_the_template_gets_what_was_asked(tooled: Server) -> None:
    arguments = {"z": 1, "a": {"y": [2], "b": None}}
    messages = [
        {"role": "system", "content": "show"},
        {"role": "user", "content": "Well?", "name": "Ada"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": json.dumps(arguments)}}]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3"}]},
    ]
    seen = shown(tooled, {"model": "qwen", "messages": messages, "tools": TOOLS})
    assert seen["tools"] == TOOLS
    assert list(seen["tools"][0]["function"]) == ["name", "description", "parameters"], "in the order of the request"
    assert list(seen["tools"][0]["function"]["parameters"]["properties"]) == ["city", "days"]
    assert seen["messages"] == [
        {"role": "system", "content": "show"},
        {"role": "user", "content": "Well?", "name": "Ada"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments}}]},
        {"role": "tool", "content": "3", "name": "add", "tool_call_id": "c1"},
    ]
    assert list(seen["messages"][2]["tool_calls"][0]["function"]["arguments"]) == ["z", "a"]
    for fields in ({}, {"tools": []}, {"tools": TOOLS, "tool_choice": "none"}):
        assert shown(tooled, {"model": "qwen", "messages": messages, **fields})["tools"] is None
    assert "tools" in shown(tooled, {"model": "qwen", "messages": messages, "chat_template_kwargs": {"enable_thinking": False}})


def test_blocks_become_messages(tooled: Server) -> None:
    body = {
        "model": "qwen",
        "max_tokens": 9,
        "system": "show",
        "tools": BLOCKS,
        "messages": [
            {"role": "user", "content": "Well?"},
            {"role": "assistant", "content": [{"type": "text", "text": "Hm."}, {"type": "tool_use", "id": "t1", "name": "add", "input": {"z": 1, "a": 2}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "3"}]},
                    {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": "no"},
                    {"type": "text", "text": "So?"},
                ],
            },
        ],
    }
    seen = shown(tooled, body, "/v1/messages")
    assert seen["tools"] == TOOLS
    call = {"id": "t1", "type": "function", "function": {"name": "add", "arguments": {"z": 1, "a": 2}}}
    assert seen["messages"] == [
        {"role": "system", "content": "show"},
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": "Hm.", "tool_calls": [call]},
        {"role": "tool", "content": "3", "name": "add", "tool_call_id": "t1"},
        {"role": "tool", "content": "Error: no", "tool_call_id": "t2"},
        {"role": "user", "content": "So?"},
    ]
    assert list(seen["messages"][2]["tool_calls"][0]["function"]["arguments"]) == ["z", "a"]


def test_a_conversation_with_a_tool(gpt: openai.OpenAI) -> None:
    messages: list[Any] = asked("call")
    first = gpt.chat.completions.create(model="qwen", messages=messages, tools=TOOLS, temperature=0).choices[0].message
    assert first.tool_calls
    messages += [first, {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "sun<|sunny|>"}]
    last = gpt.chat.completions.create(model="qwen", messages=messages, tools=TOOLS, temperature=0).choices[0]
    assert (last.message.content, last.finish_reason) == ("It is sunny.", "stop")


def test_messages_of_anthropic(claude: anthropic.Anthropic) -> None:
    given: dict[str, Any] = {"model": "qwen", "max_tokens": 300, "tools": BLOCKS, "extra_body": GREEDY}
    message = claude.messages.create(messages=asked("call"), **given)
    assert [block.type for block in message.content] == ["text", "tool_use"] and message.stop_reason == "tool_use"
    text, use = message.content
    assert text.text == "Let me see." and (use.name, use.input) == ("weather", json.loads(CITY)) and use.id.startswith("toolu_")
    with claude.messages.stream(messages=asked("two"), **given) as stream:
        events = list(stream)
        final = stream.get_final_message()
    assert [(block.type, block.name, block.input) for block in final.content] == [
        ("tool_use", "weather", json.loads(ROME)),
        ("tool_use", "add", json.loads(SUM)),
    ]
    assert final.stop_reason == "tool_use" and sum(event.type == "input_json" for event in events) > 4
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "sun<|sunny|>"}
    answered = claude.messages.create(
        messages=[*asked("call"), {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}], **given
    )
    assert answered.content[0].text == "It is sunny." and answered.stop_reason == "end_turn"
    counted = claude.messages.count_tokens(model="qwen", messages=asked("call"), tools=BLOCKS)
    without = claude.messages.count_tokens(model="qwen", messages=asked("call"))
    assert counted.input_tokens == without.input_tokens + 1


def test_responses_of_openai(gpt: openai.OpenAI) -> None:
    given: dict[str, Any] = {"model": "qwen", "tools": FLAT, "temperature": 0}
    made = gpt.responses.create(input=asked("call"), **given)
    assert [item.type for item in made.output] == ["message", "function_call"] and made.output_text == "Let me see."
    call = made.output[1]
    assert (call.name, call.arguments) == ("weather", CITY) and made.status == "completed"
    with gpt.responses.stream(input=asked("two"), **given) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [(item.name, item.arguments) for item in final.output] == [("weather", ROME), ("add", SUM)]
    kinds = [event.type for event in events]
    assert kinds.count("response.function_call_arguments.done") == 2 and kinds.count("response.function_call_arguments.delta") > 4
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "sun<|sunny|>"}
    assert gpt.responses.create(input=[*asked("call"), *made.output, output], **given).output_text == "It is sunny."
    assert gpt.responses.create(input=[output], previous_response_id=made.id, **given).output_text == "It is sunny."


def test_responses_are_kept(gpt: openai.OpenAI, tooled: Server) -> None:
    first = gpt.responses.create(model="qwen", input="Hi <|hello|>", temperature=0)
    assert first.store is True and gpt.responses.retrieve(first.id).output_text == "Hello there."
    body = {"model": "qwen", "input": "Well?", "instructions": "show", "previous_response_id": first.id}
    assert [(message["role"], message["content"]) for message in shown(tooled, body, "/v1/responses")["messages"]] == [
        ("system", "show"),
        ("user", "Hi <|hello|>"),
        ("assistant", "Hello there."),
        ("user", "Well?"),
    ]
    second = gpt.responses.create(model="qwen", input="Well? <|sunny|>", previous_response_id=first.id, temperature=0)
    assert (second.output_text, second.previous_response_id) == ("It is sunny.", first.id)
    third = gpt.responses.create(model="qwen", input="So? <|hello|>", previous_response_id=second.id, store=False, temperature=0)
    for unknown in ("resp_1", third.id, ""):
        with pytest.raises(openai.BadRequestError, match="previous_response_id") as refused:
            gpt.responses.create(model="qwen", input="a", previous_response_id=unknown)
        assert refused.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        gpt.responses.retrieve(third.id)


def test_answers_that_go_on(gpt: openai.OpenAI, claude: anthropic.Anthropic, tooled: Server) -> None:
    begun: list[Any] = [*asked("hello"), {"role": "assistant", "content": "So <|sunny|>"}]
    body = {"model": "qwen", "messages": begun, **GREEDY}
    goes_on = gpt.chat.completions.create(
        model="qwen", messages=begun, temperature=0, extra_body={"continue_final_message": True, "add_generation_prompt": False}
    )
    assert goes_on.choices[0].message.content == "It is sunny."
    assert gpt.chat.completions.create(model="qwen", messages=begun, temperature=0).choices[0].message.content == "Once more: hello."
    message = claude.messages.create(model="qwen", max_tokens=99, messages=begun, extra_body=GREEDY)
    assert message.content[0].text == "It is sunny."
    for fields, name in (
        ({"messages": asked("hello"), "continue_final_message": True}, "continue_final_message"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "add_generation_prompt"),
        ({"add_generation_prompt": False}, "add_generation_prompt"),
        ({"continue_final_message": "yes"}, "continue_final_message"),
    ):
        assert name in tooled.refused("/v1/chat/completions", {**body, **fields})


def test_what_is_wrong_with_tools_is_named(tooled: Server) -> None:
    for fields, name in (
        ({"model": "plain", "tools": TOOLS}, "tools"),
        ({"model": "texts", "tools": TOOLS, "messages": [{"role": "user", "content": "a"}]}, "tools"),
        ({"tools": {}}, "tools"),
        ({"tools": [1]}, "tools[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a" * 65}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameters": 1}}]}, "tools[0].function.parameters"),
        ({"tools": [{"type": "function", "function": {"name": "a", "more": 1}}]}, "tools[0].function.more"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "name"),
        ({"tools": TOOLS * 65}, "tools"),
        ({"tools": TOOLS, "tool_choice": "perhaps"}, "tool_choice"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "tool", "tool_call_id": 1, "content": "a"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "assistant"}]}, "messages[0].content"),
        ({"messages": [{"role": "assistant", "content": "a", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].id"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "a", "arguments": "{"}}]}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "a", "arguments": '{"a":' * 99 + "1" + "}" * 99}}]}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "a", "arguments": json.dumps({str(i): i for i in range(5000)})}}]}]},
            "4096 members",
        ),
        ({"messages": [{"role": "function", "name": "a", "content": "a"}]}, "messages[0].role"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"add_generation_prompt": False}}, "chat_template_kwargs"),
    ):
        message = tooled.refused("/v1/chat/completions", {"model": "qwen", "messages": asked("hello"), **fields})
        assert name in message, (fields, message)
    for fields, name in (
        ({"model": "plain", "tools": BLOCKS}, "tools"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"name": "a"}]}, "tools[0].input_schema"),
        ({"tool_choice": {"type": "perhaps"}}, "tool_choice"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "a", "input": {}}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "a"}]}]}, "messages[0].content[0].tool_use_id"),
        ({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "a", "input": []}]}]}, "messages[0].content[0].input"),
        ({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "a", "input": {}}]}]}, "messages"),
    ):
        message = tooled.refused("/v1/messages", {"model": "qwen", "max_tokens": 4, "messages": asked("hello"), **fields})
        assert name in message, (fields, message)
    for fields, name in (
        ({"input": [{"type": "reasoning", "summary": []}]}, "input[0].type"),
        ({"input": [{"type": "function_call", "call_id": "a", "name": "a", "arguments": "[]"}]}, "input[0].arguments"),
        ({"input": [{"type": "function_call_output", "output": "a"}]}, "input[0].call_id"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"model": "plain", "tools": FLAT}, "tools"),
    ):
        message = tooled.refused("/v1/responses", {"model": "qwen", "input": "a", **fields})
        assert name in message, (fields, message)
    assert MODELS
