#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes chat_templates.json: templates in the style of the common families, and small ones for each feature of Jinja,
rendered by transformers' own environment.

    venv/bin/python tests/goldens/make_chat_templates.py
"""
import datetime
import json
import pathlib

import transformers.utils.chat_template_utils as utils

NOW = datetime.datetime(2024, 7, 26, 9, 5, 3)


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


utils.datetime = FixedTime

# Written for this file in the manner of the families; none is a copy of a model's template.
FAMILIES = {
    "chatml": """{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""",
    "qwen-like": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nBe brief.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' ~ message.content ~ '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "llama2-like": """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate user/assistant') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""",
    "llama3-like": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message comes first. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}

{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("There is no first user message!") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}

{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "mistral-like": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}

{#- Checks that the roles take turns. #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" or message["role"] == "assistant" %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
            {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
""",
    "gemma-like": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
""",
    "phi3-like": """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}""",
    "smollm-like": """{# ───── defaults ───── #}
{%- if enable_thinking is not defined -%}
{%- set enable_thinking = true -%}
{%- endif -%}
{# ───── mode ───── #}
{%- if enable_thinking -%}
  {%- set reasoning_mode = "/think" -%}
{%- else -%}
  {%- set reasoning_mode = "/no_think" -%}
{%- endif -%}
{{- "<|im_start|>system\\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}
    {%- set reasoning_mode = "/no_think" -%}
  {%- elif "/think" in system_message -%}
    {%- set reasoning_mode = "/think" -%}
  {%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{%- set today = strftime_now("%d %B %Y") -%}
{{- "Today Date: " ~ today ~ "\\n" -}}
{{- "Reasoning Mode: " + reasoning_mode + "\\n\\n" -}}
{%- if custom_instructions -%}
    {{- custom_instructions + "\\n\\n" -}}
{%- elif reasoning_mode == "/think" -%}
    {{- "Think first.\\n\\n" -}}
{%- else -%}
    {{- "Be helpful.\\n\\n" -}}
{%- endif -%}
{{- "<|im_end|>\\n" -}}
{%- for message in messages -%}
    {%- set content = message.content if message.content is string else "" -%}
    {%- if message.role == "user" -%}
        {{ "<|im_start|>" + message.role + "\\n"  + content + "<|im_end|>\\n" }}
    {%- elif message.role == "assistant" -%}
        {% generation %}
        {%- if reasoning_mode == "/think" -%}
            {{ "<|im_start|>assistant\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
        {%- else -%}
            {{ "<|im_start|>assistant\\n" + "<think>\\n\\n</think>\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
        {%- endif -%}
        {% endgeneration %}
    {%- elif message.role == "tool" -%}
    {{ "<|im_start|>" + "user\\n"  + content + "<|im_end|>\\n" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {%- if reasoning_mode == "/think" -%}
        {{ "<|im_start|>assistant\\n" }}
    {%- else -%}
        {{ "<|im_start|>assistant\\n" + "<think>\\n\\n</think>\\n"  }}
    {%- endif -%}
{%- endif -%}
""",
    "zephyr-like": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "macros": """{%- macro render_extra_keys(json_dict, handled_keys) -%}
    {%- if json_dict is mapping %}
        {%- for json_key in json_dict if json_key not in handled_keys %}
            {%- if json_dict[json_key] is mapping or (json_dict[json_key] is sequence and json_dict[json_key] is not string) %}
                {{- '\\n<' ~ json_key ~ '>' ~ (json_dict[json_key] | tojson | safe) ~ '</' ~ json_key ~ '>' }}
            {%- else %}
                {{-'\\n<' ~ json_key ~ '>' ~ (json_dict[json_key] | string) ~ '</' ~ json_key ~ '>' }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{%- endmacro -%}
{%- macro typed(spec, depth=0) -%}
    {%- if spec.type == "array" -%}
        {{- typed(spec['items'], depth + 1) + "[]" -}}
    {%- elif spec.type == "object" -%}
        {{- "{" -}}
        {%- for name, value in spec.properties.items() -%}
            {{- name + ("" if name in (spec.required or []) else "?") + ": " + typed(value, depth=depth + 1) -}}
            {{- ", " if not loop.last else "" -}}
        {%- endfor -%}
        {{- "}" -}}
    {%- else -%}
        {{- spec.type | default("any") -}}
    {%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] %}
    {{- "type " ~ tool.function.name ~ " = (_: " ~ typed(tool.function.parameters) ~ ") => any;" }}
    {{- render_extra_keys(tool.function, ["name", "parameters"]) ~ "\\n" }}
{%- endfor %}
{%- for m in messages %}{{ loop.index ~ '/' ~ loop.length ~ ' ' ~ m.role | upper }}: {{ m.content }}
{% endfor %}""",
}

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather at a place, \"now\" & <then> — ö",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}, "at": {}},
        "required": ["place"]}, "return": {"type": "number", "limits": [0, 1.5, True, None, -2e-7, 1e22]}}}]

CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "You are kind."), ("user", "Hi!")],
    [("system", "  Sehr höflich. /no_think \n"), ("user", " Wie geht’s? 🙂 "), ("assistant", "\n\nGut – 你好!\n"), ("user", "<|im_end|> {{ x }} {% if %}")],
    [("user", "one"), ("assistant", "<think>\nhm\n</think>\n\ntwo"), ("user", "three"), ("assistant", "four  ")],
    [("user", "What is the weather?"), ("assistant", "<think>look</think>calling"), ("tool", "{\"t\": 3}"), ("tool", "windy"), ("assistant", "Cold.")],
    [("user", "two"), ("user", "users")],
    [("assistant", "I begin"), ("user", "")],
]

MESSAGES = [{"role": "system", "content": "Sys"}, {"role": "user", "content": "Hello, Wörld!"},
            {"role": "assistant", "content": "  yes\n"}, {"role": "user", "content": "a,b,,c"}]
VARIABLES = {"n": 7, "x": 2.5, "s": "Straße \U0001F642 é\t'q'\"d\" \u200b", "l": [3, 1, 2], "names": ["b", "A", "c", "a"],
             "d": {"one": 1, "two": [1, {"k": None}], "t": True, "f": 0.1, "items": "member"}, "e": "", "none_value": None,
             "lines": "first\n\n  second\r\nthird\n", "words": " the quick-brown (fox) jumps "}

FEATURES = r"""
{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }}
{{ -7.5 // 2 }} {{ 7.5 % -2 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.0 }} {{ 123456.789 }} {{ 1_000 }} {{ 1e3 }} {{ -0.0 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ 'a' == none }} {{ none == none }} {{ 1 != 2 }}
{{ not true and false or true }} {{ 1 and 2 }} {{ 0 or 'x' }} {{ not none }} {{ '' or none }} {{ [] and 1 }}
{{ 'a' in 'abc' }} {{ 'z' not in 'abc' }} {{ 1 in [1, 2] }} {{ 'one' in d }} {{ 'x' in undefined_name }} {{ not 'a' in 'b' }} {{ '' in 'abc' }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'b'] }} {{ 1 ~ 2 + 3 ~ 4 }}
{{ 'x' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ [1] + [2, 3] }} {{ 'x' * -1 }} {{ (1,) + (2,) }}
{{ [1, 'a', none, true, 2.5, {'k': 'v'}] }} {{ (1, 2) }} {{ (1,) }} {{ () }} {{ {} }} {{ {'a': 1, 'b': [1], 'a': 2} }} {{ 1, 2 }}
{{ "it's" }} {{ ["it's", 'say "hi"', 'both \' and "', 'tab\t', 'nl\n', '\\', 'é', '\u200b', '\x07', '🙂', '\ue000'] }}
{{ 'a\nb\tc\\d\'e\"f' }} {{ "\x41\u00e9\U0001F642\101" }} {{ 'un\known \d' }} {{ 'adj' 'acent' }}
{{ s[0] }}{{ s[7] }}{{ s[-1] == '\u200b' }}{{ s[1:4] }}|{{ s[::-1] }}|{{ s[-3:] }}|{{ s[:100] }}|{{ s[100] }}|{{ s[5:2] }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[:-1] }} {{ l[::2] }} {{ l[::-1] }} {{ l[2:0:-1] }} {{ l[9] }} {{ l[-9] }} {{ l[9:] }} {{ (1,2,3)[1:] }}
{{ d.one }} {{ d['two'] }} {{ d.two.1.k }} {{ d.missing }} {{ d['missing'] }} {{ d.get('one') }} {{ d.get('no') }} {{ d.get('no', 5) }} {{ d['items'] }}
{{ d.keys()|list }} {{ d.values()|list }} {{ d.items()|list }} {{ d|items|list }} {{ d|list }} {{ d|length }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }} {% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.cycle('a', 'b') }} {% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.index }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in [] %}x{% else %}empty{% endfor %}{% for x in l if x > 9 %}x{% else %}none{% endfor %}
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for a in range(2) %}{% for b in range(2, 8, 3) %}{{ a }}{{ b }}{{ loop.index }} {% endfor %}{{ loop.index }};{% endfor %}
{% for c in 'añ🙂' %}[{{ c }}]{% endfor %}{% for x in undefined_name %}x{% else %}nothing{% endfor %}
{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}-{{ b }} {% endfor %}{% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}
{% set a = 1 %}{% for x in l %}{% set a = a + x %}{{ a }} {% endfor %}{{ a }}
{% set ns = namespace(a=1, b='x') %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{% set ns.c = [] %}{{ ns.c }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set (p, q) = 'xy' %}{{ p }}{{ q }}
{% if e %}a{% elif none_value %}b{% elif l %}c{% else %}d{% endif %}{% if x %}{% set inner = 5 %}{% endif %}{{ inner }}
{% set block %}  {{ n }} {% set hidden = 1 %}{% endset %}[{{ block }}]{{ hidden }}{% set up | upper | trim %} abc {% endset %}[{{ up }}]
{% filter upper %}abc {{ s }}{% endfilter %}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{{ n }}{{ late }};{% endmacro %}{% set late = 'L' %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=5) }}{{ m(b=4, a=0) }}{{ m() }}{{ m(1)|length }}
{% macro fact(k) %}{{ 1 if k <= 1 else k * (fact(k - 1)|int) }}{% endmacro %}{{ fact(10) }}
{% macro outer(a) %}{% macro inner(b) %}{{ a }}{{ b }}{% endmacro %}{{ inner(a + 1) }}{% endmacro %}{{ outer(1) }}{{ inner }}
{% macro scope() %}{% set late = 'in' %}{{ late }}{% endmacro %}{% set late = 'out' %}{{ scope() }}{{ late }}{% for late in [1] %}{{ scope() }}{% endfor %}
{{ 'yes' if n > 5 else 'no' }} {{ 'yes' if n > 50 }}| {{ 1 if false else 2 if true else 3 }} {{ ('a' if x else 'b') ~ 'c' }}
{{ n is defined }} {{ nn is defined }} {{ nn is undefined }} {{ none_value is none }} {{ s is string }} {{ d is mapping }} {{ l is iterable }} {{ l is sequence }} {{ n is iterable }} {{ s is iterable }} {{ nn is iterable }} {{ nn is none }}
{{ n is number }} {{ x is float }} {{ n is integer }} {{ true is boolean }} {{ true is integer }} {{ true is number }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ m is callable }} {{ range is callable }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is eq 7 }} {{ n is ne 7 }} {{ n is equalto 7 }} {{ n is gt 6 }} {{ n is ge 7 }} {{ n is lt 7 }} {{ n is le 7 }} {{ n is in [7] }} {{ n is not in [7] }} {{ 'a' is lower }} {{ 'A' is upper }} {{ none is sameas none }} {{ true is sameas true }}
{{ n is not defined }} {{ n is not none and s is string }} {{ not n is defined }} {{ nn is defined and nn.foo }} {{ d.one is defined }} {{ d.nope is defined }}
{{ words | trim }}|{{ words | title }}|{{ words.title() }}|{{ words | upper }}|{{ words.strip().capitalize() }}|{{ 'xxaxx' | trim('x') }}|{{ s | lower }}|{{ s | upper }}
{{ l | length }} {{ s | length }} {{ d | count }} {{ nn | length }} {{ messages | length }}
{{ l | join }} {{ l | join(', ') }} {{ messages | join('|', attribute='role') }} {{ 'abc' | join('-') }} {{ nn | join }} {{ l | join(0) }}
{{ nn | default('d') }} {{ e | default('d') }} {{ e | default('d', true) }} {{ none_value | default('d') }} {{ none_value | d('x', boolean=true) }} {{ nn | default }}| {{ d.a.b | default('deep') if d.a is defined else 'no' }}
{{ d | tojson }} {{ s | tojson }} {{ l | tojson }} {{ none_value | tojson }} {{ 1.0 | tojson }} {{ '</script>&\x01\x7f' | tojson }} {{ (1, 2) | tojson }} {{ {1: 2, none: 3, true: 4} | tojson }}
{{ d | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ {} | tojson(indent=4) }} {{ d | tojson(separators=(',', ':')) }} {{ d | tojson(sort_keys=true) }} {{ s | tojson(ensure_ascii=true) }} {{ l | tojson(indent='--') }} {{ [[1], {'a': []}] | tojson(indent=0) }}
{{ l | first }} {{ l | last }} {{ [] | first }} {{ 'abc' | first }} {{ messages | last | tojson }} {{ d | first }}
{{ 'banana' | replace('a', 'o') }} {{ 'banana' | replace('a', 'o', 2) }} {{ 'banana'.replace('na', '') }} {{ 'banana'.replace('a', 'x', 1) }} {{ n | replace('7', 'seven') }} {{ 'banana' | replace(old='b', new='') }}
{{ n | string + 'x' }} {{ none | string }} {{ '42' | int + 1 }} {{ ' 4 ' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 2.9 | int }} {{ '2.9' | int }} {{ none | int }} {{ '1.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ true | int }} {{ '1e3' | int }} {{ -2.9 | int }}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb\n\nc' | indent(2, true) }}|{{ 'a\nb\n\nc' | indent(2, first=false, blank=true) }}|{{ 'a\nb' | indent('>> ') }}|{{ 'a\n' | indent(3) }}|{{ '' | indent(2, true) }}
{{ messages | map(attribute='role') | list }} {{ names | map('upper') | join }} {{ l | map('string') | list }} {{ names | map('replace', 'a', 'z') | list }} {{ messages | map(attribute='nope', default='?') | join }} {{ [[1, 2], [3]] | map('first') | list }} {{ [{'a': {'b': 5}}] | map(attribute='a.b') | list }} {{ [(1, 2)] | map(attribute=1) | list }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | list }} {{ messages | selectattr('nope', 'defined') | list }} {{ messages | selectattr('role', 'in', ['system', 'assistant']) | map(attribute='content') | list }} {{ messages | selectattr('content') | list | length }}
{{ l | select('gt', 1) | list }} {{ l | reject('odd') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ [0, 1] | reject | list }} {{ l | select('==', 2) | list }} {{ l | select('>=', 2) | list }} {{ ['a', 1] | select('string') | list }}
{{ l | sort }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ l | sort(reverse=true) }} {{ messages | sort(attribute='content') | map(attribute='role') | list }} {{ names | unique | list }} {{ ['a', 'A', 'b'] | unique | list }} {{ l | reverse | list }} {{ 'abc' | reverse }} {{ l | min }} {{ l | max }} {{ [] | max }} {{ d | dictsort | map('first') | list }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }}
{{ -5 | abs }} {{ (-5) | abs }} {{ -2.5 | abs }} {{ words | trim | length }} {{ (words | trim).split(' ') | length }} {{ s | safe }} {{ n | safe }}
{{ 'a b  c'.split() }} {{ ' a b '.split(' ') }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.split(none, 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a--b'.split('--')[-1] }} {{ 'a b c'.split(maxsplit=1) }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\x0bb\u2028c'.splitlines() }} {{ ''.splitlines() }} {{ 'abc'.splitlines() }} {{ '\n'.splitlines() }}
{{ '  a '.strip() }}|{{ '  a '.lstrip() }}|{{ '  a '.rstrip() }}|{{ 'xyaxy'.strip('xy') }}|{{ 'é a é'.strip('é') }}|{{ '\n\na\n'.strip('\n') }}|{{ '\u3000a\x1f'.strip() }}|{{ 'aaa'.rstrip('a') }}|
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith(('x', 'y')) }} {{ 'abc'.find('c') }} {{ 'ébc'.find('c') }} {{ 'abc'.find('z') }} {{ 'abcb'.rfind('b') }} {{ 'banana'.count('a') }} {{ 'aaa'.count('aa') }} {{ ', '.join(['a', 'b']) }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ '12'.isdigit() }} {{ ' '.isspace() }} {{ ''.isspace() }}
{{ 'ß'.upper() }} {{ 'ÀÉ'.lower() }} {{ "they're bill's".title() }} {{ 'hELLO wORLD'.capitalize() }} {{ "they're-bill's [x] <y" | title }} {{ 'ǆ'.title() }} {{ 'Σ'.lower() }} {{ 'İ' | lower | length }}
{{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }} {{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ range(3) | list }} {{ range(5, 0, -2) | list }} {{ namespace({'a': 1}).a }}
{{ strftime_now('%d %b %Y %H:%M:%S %j %A %%') }} {{ strftime_now('') }}|
{{ messages[0].role }} {{ messages[-1]['content'].split(',')[-1] }} {{ (messages | first).content }} {{ messages[1:][0].content | upper }} {{ messages[0]['role'][0] }} {{ messages.0.role }}
{{ none.foo }}|{{ none['foo'] }}|{{ n.foo }}|{{ s.foo }}|{{ l.foo }}|{{ l['foo'] }}|{{ d[1] }}|{{ nn }}|{{ n['x'] is defined }}
{{ bos_token }}{{ eos_token }}{{ unk_token is defined }}{{ add_generation_prompt }}{{ tools is none }}{{ documents is none }}
a {%- if true %} b {% endif -%} c
a  {{- 'b' -}}  c
{% raw %}{{ not }} {% evaluated %}{% endraw %} {%- raw -%}  a  {%- endraw -%} b
{{ '}}' }} {{ {'a': {'b': 1}}['a']['b'] }} {{ "{% x %}" }} {{- {} }}
{% set x = {'a': [1, 2, {'b': "}}"}]} %}{{ x.a[2].b }}
{{ {'role': 'user'} == messages[0] }} {{ {'role': 'system', 'content': 'Sys'} == messages[0] }} {{ [1, [2]] == [1, [2]] }} {{ (1, 2) == [1, 2] }} {{ messages[0] != messages[1] }}
{{ loop is defined }} {% for i in [1] %}{{ loop is defined }}{% endfor %} {{ true }} {{ True }} {{ none }} {{ None }} {{ false }} {{ False }}
{{ x if x is not none else 'n' }} {{ -n }} {{ +n }} {{ -n + 3 }} {{ - (1 + 2) }} {{ 2 - -2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}
{{ 'a' | upper ~ 'b' }} {{ 'a' ~ 'b' | upper }} {{ 1 + 2 | string | length }} {{ 'x' is string and 'y' }} {{ 'a' in 'b' or 'c' in 'c' }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ (1) }}
{% generation %} {{ n }} {% set g = 1 %}{% endgeneration %}{{ g }}
{% if n == 7 and (s is string or nn) and not e %}ok{% endif %}{% if not (n == 7) %}no{% endif %}{% if n in (1, 7) %}in{% endif %}
{{ undefined_name }}{{ undefined_name is string }}{{ undefined_name == undefined_other }}{{ undefined_name or 'or' }}{{ undefined_name ~ 'x' }}{{ undefined_name | list }}{{ undefined_name | string }}{{ undefined_name | upper }}
"""

# What must fail there and here.
ERRORS = r"""
{{ undefined_name.attribute }}
{{ undefined_name['x'] }}
{{ undefined_name() }}
{{ undefined_name + 1 }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ none + 'a' }}
{{ 1 < 'a' }}
{{ 1 in 5 }}
{{ 1 in 'a' }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ none | length }}
{{ 5 | length }}
{{ undefined_name | tojson }}
{{ raise_exception('no ' ~ n) }}
{{ raise_exception() }}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{{ n() }}
{{ 'x'.upper(1) }}
{{ l.append(1) }}
{{ d.update({}) }}
{{ d.pop('one') }}
{% set d.x = 1 %}
{{ -'a' }}
{{ range(1000000) }}
{{ range('a') }}
{{ range() }}
{{ [1].index(2) }}
{{ ','.join([1]) }}
{{ l['a':] }}
{{ l[::0] }}
{{ 'abc'.split('') }}
{{ 'abc'.startswith(1) }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}
{{ [3, 'a'] | sort }}
{{ 1 is divisibleby(0) }}
{{ 'a' is odd }}
{{
{% if %}{% endif %}
{% if x %}
{% endif %}
{% for x in l %}{% endif %}
{{ 1 + }}
{{ (1 }}
{{ [1 }}
{{ 'abc }}
{# abc
{{ x | nofilter }}
{{ x is notest }}
{% notag %}
{{ 1 2 }}
{{ a b }}
{{ ) }}
{{ f(a=1, 2) }}
{% set 1 = 2 %}
{% set true = 2 %}
{{ $ }}
{{ x. }}
{% else %}
{% for x l %}{% endfor %}
{{ 'a'.nothing() }}
{{ [] | first | upper | length + nn }}
{{ {'a' 1} }}
"""

# Features of one line each, but those that begin a group of lines with white space in play.
GROUPS = ["  {% if true %}\n    x\n  {% endif %}\ny\n", "  {%+ if true %}\n    x\n  {%+ endif %}\ny\n",
          "{% if true +%}\nx\n{% endif %}\n", "  {# comment #}\nz {# c #}\n w {#- c -#} v\n",
          "   {% raw %}\nx\n   {% endraw %}\ny\n", "a\r\nb\rc\n\n", "\n", "", "x", "{{ 'x' }}\n\n{{ 'y' }}\n",
          "{% set a = 1 %}\n\n{% set b = 2 %}\n{{ a }}\n{{ b }}\n", "{% if true -%}\n\n   x   \n\n{%- endif %}\n",
          "\t {% for x in l %}\n\t {{ x }}\n\t {% endfor %}\n", "a {% if true %} b\n {% endif %} c\n", "{#- a -#}\n{# b #}\n\n  {# c #} x\n",
          "{%- for m in messages -%}\n    {{- m.role }}: {{ m.content | trim -}}\n    {%- if not loop.last -%} | {%- endif -%}\n{%- endfor -%}\n",
          "{% filter replace('a', 'b') | indent(2, true) %}aaa\naa{% endfilter %}", "{{ n }}\u00a0 {%- if true %}\u00a0{% endif %}"]


def render(template, **variables):
    try:
        return utils._compile_jinja_template(template).render(**variables)
    except Exception:  # which one does not matter
        return None


def main():
    extras = [{}, {"tools": TOOLS}, {"enable_thinking": False, "tools_in_user_message": False, "tools": TOOLS}]
    families = []
    for name, template in FAMILIES.items():
        cases = []
        for index, conversation in enumerate(CONVERSATIONS):
            messages = [{"role": role, "content": content} for role, content in conversation]
            for prompt in (True, False):
                for extra_index, extra in enumerate(extras):
                    if extra and name not in ("qwen-like", "llama3-like", "mistral-like", "smollm-like", "macros"):
                        continue
                    variables = {"tools": None, "documents": None, **extra}
                    text = render(template, messages=messages, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>", **variables)
                    cases.append([index, prompt, extra_index, text])
        families.append({"name": name, "template": template, "cases": cases})

    features = []
    for template in FEATURES.strip("\n").split("\n") + GROUPS:
        text = render(template, messages=MESSAGES, add_generation_prompt=True, bos_token="<s>", eos_token="</s>", tools=None, documents=None, **VARIABLES)
        if text is None:
            print("no feature:", template)
            continue
        features.append([template, text])
    errors = []
    for template in ERRORS.strip("\n").split("\n"):
        text = render(template, messages=MESSAGES, add_generation_prompt=True, bos_token="<s>", eos_token="</s>", tools=None, documents=None, **VARIABLES)
        if text is not None:
            print("no error:", template, repr(text))
            continue
        errors.append(template)
    path = pathlib.Path(__file__).parent / "chat_templates.json"
    golden = {"messages": MESSAGES, "variables": VARIABLES, "conversations": CONVERSATIONS, "extras": extras, "families": families, "features": features, "errors": errors}
    path.write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n")
    print(len(families), "families,", sum(len(f["cases"]) for f in families), "cases,", len(features), "features,", len(errors), "errors")


main()
