// SPDX-License-Identifier: MIT
/// Chat templates against transformers' rendering, and against hostile ones.
#include "text/chat_template.hpp"

#include <clocale>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/temporary_folder.hpp"
#include "text/jinja/interpreter.hpp"
#include "text/jinja/parser.hpp"

namespace vkformer::tests {
namespace {

using namespace text;
using Catch::Matchers::Contains;
using nlohmann::ordered_json;

ordered_json golden() {
    std::ifstream file(std::filesystem::path(VKFORMER_SOURCE_DIR) / "tests/goldens/chat_templates.json");
    REQUIRE(file);
    return ordered_json::parse(file);
}

/// When the goldens were made.
std::tm golden_time() {
    std::tm time{};
    time.tm_year = 124;
    time.tm_mon = 6;
    time.tm_mday = 26;
    time.tm_hour = 9;
    time.tm_min = 5;
    time.tm_sec = 3;
    time.tm_wday = 5;
    time.tm_yday = 207;
    return time;
}

Result<std::string> render(const std::string& source, const std::vector<ChatMessage>& messages, bool prompt,
                           const std::string& variables) {
    auto chat = ChatTemplate::parse(source, "test");
    if (!chat) return chat.error();
    return chat->render(messages, {.add_generation_prompt = prompt,
                                   .bos_token = "<s>",
                                   .eos_token = "</s>",
                                   .variables = variables,
                                   .now = golden_time()});
}

std::string render_error(const std::string& source, ErrorCode code) {
    const auto text = render(source, {{"user", "Hi"}}, true, "{}");
    CAPTURE(source);
    if (text) FAIL("no error, but " << text->substr(0, 1000));
    CHECK(text.error().code == code);
    return text.error().message;
}

/// The steps that a template takes, which gets no conversation.
std::size_t steps_of(const std::string& source) {
    jinja::Budget budget;
    jinja::Scope scope;
    const auto space = std::make_shared<jinja::Namespace>();
    space->items.emplace_back(std::string(100'000, 'k'), std::int64_t{1});
    scope.names["space"] = space;
    std::size_t line = 1;
    const jinja::Body body = jinja::parse(source, line);
    jinja::Interpreter(scope, budget, line).run(body);
    return budget.steps();
}

}  // namespace

TEST_CASE("templates read what else there is of a message", "[text][chat]") {
    const std::string source =
        "{% for m in messages %}{{ m.role }}:{{ m.content }}"
        "{% if m.tool_calls is defined %}{% for c in m.tool_calls %}[{{ c.function.name }}{{ c.function.arguments | "
        "tojson }}]"
        "{% endfor %}{% endif %}{% if m.tool_call_id %}#{{ m.tool_call_id }}{% endif %};{% endfor %}";
    const std::vector<ChatMessage> messages = {
        {"user", "Hi"},
        {"assistant", "", R"({"tool_calls": [{"function": {"name": "f", "arguments": {"z": 1, "a": [true, null]}}}]})"},
        {"tool", "3", R"({"tool_call_id": "c1", "content": "no", "role": "no"})"},
    };
    const auto text = render(source, messages, true, "{}");
    if (!text) FAIL(text.error().message);
    CHECK(*text == "user:Hi;assistant:[f{\"z\": 1, \"a\": [true, null]}];tool:3#c1;");
    for (const std::string& wrong : {std::string("["), std::string("[]"), std::string("{\"a\": \"\xff\"}"),
                                     "{\"a\": " + std::string(1000, '[') + std::string(1000, ']') + "}"})
        CHECK(render(source, {{"user", "Hi", wrong}}, true, "{}").error().code == ErrorCode::InvalidArgument);
}

// Jinja 3 looks names of filters and tests up where they are reached.
TEST_CASE("what a template never reaches may have filters that there are not", "[text][chat]") {
    const auto rendered = [](const std::string& source) {
        const auto text = render(source, {{"user", "Hi"}}, true, R"({"none": null, "map": {"a": 1}, "no": false})");
        return text ? *text : "error: " + text.error().message;
    };
    CHECK(rendered("{{ (x|fromjson) if x is defined else 'ok' }}") == "ok");
    CHECK(rendered("{% if x is defined %}{{ x|batch(2) }}{% for a in x if a is odd_one %}{% endfor %}{% endif %}ok") ==
          "ok");
    CHECK(rendered("{% if x is defined and x|fromjson %}a{% elif y is strange %}b{% else %}{{ 1 if true else "
                   "(1|fromjson) }}{% endif %}")
              .find("the test strange") != std::string::npos);
    for (const char* const source :
         {"a\n{{ 1|fromjson }}", "a\n{% if 1 %}{% endif %}{{ 1 is strange }}", "a\n{{ (1 if true else 2)|fromjson }}",
          "a\n{{ [1 if true else 2] is strange }}"}) {
        const auto chat = ChatTemplate::parse(source, "test");
        REQUIRE_FALSE(chat);
        CHECK_THAT(chat.error().message, Contains("line 2"));
    }
    CHECK(rendered("{% if true %}{{ 1|fromjson }}{% endif %}").find("the filter fromjson") != std::string::npos);

    CHECK(rendered("{{ none|map('upper')|list }}{{ none|selectattr('a', 'equalto', 'b')|list }}{{ no|reject|list }}"
                   "{{ no|rejectattr('a')|list }}{{ none|select('odd')|list }}{{ none|map(attribute='a')|list }}") ==
          "[][][][][][]");
    CHECK(rendered("{{ messages is sameas none }}{{ map is sameas 1 }}{{ none is sameas none }}") == "FalseFalseTrue");
    CHECK(rendered("{{ none[1:] is defined }}{{ map[:-1] is defined }}") == "FalseFalse");
}

// An application that calls setlocale(LC_ALL, "") would have its desktop's names of months in prompts.
TEST_CASE("templates tell the time in English, whatever the application's locale", "[text][chat]") {
    const auto told = [](const std::string& format) {
        const auto text = render("{{ strftime_now('" + format + "') }}", {{"user", "Hi"}}, true, "{}");
        return text ? *text : "error: " + text.error().message;
    };
    const std::string before = std::setlocale(LC_TIME, nullptr);
    for (const char* const locale : {"C", "de_DE.UTF-8", "fr_FR.UTF-8"}) {
        if (!std::setlocale(LC_TIME, locale)) continue;  // not installed
        CAPTURE(locale);
        CHECK(told("%A %a %B %b %h %p") == "Friday Fri July Jul Jul AM");
        CHECK(told("%c|%x|%X|%r") == "Fri Jul 26 09:05:03 2024|07/26/24|09:05:03|09:05:03 AM");
        CHECK(told("%d %Y-%m-%dT%H:%M:%S %j %y %I") == "26 2024-07-26T09:05:03 208 24 09");
        CHECK(told("%D|%F|%R|%T|%e|%k|%l|%u") == "07/26/24|2024-07-26|09:05|09:05:03|26| 9| 9|5");
        CHECK(told("%-d %-m %-H %Ey %Od") == "26 7 9 24 26");
        CHECK(told("%f|%z|%Z|%%|%Q|%|100 %") == "000000|||%|%Q|%|100 %");
    }
    std::setlocale(LC_TIME, before.c_str());
}

TEST_CASE("templates tell hours of half a day, and numbers without what stands before them", "[text][chat]") {
    const auto chat = ChatTemplate::parse("{{ strftime_now('%l|%I|%-l|%-I|%p|%k|%-k|%e|%-e') }}", "test");
    REQUIRE(chat);
    const auto told = [&](int hour) {
        std::tm time = golden_time();
        time.tm_mday = 5;
        time.tm_hour = hour;
        return chat->render(std::vector<ChatMessage>{{"user", "Hi"}}, {.now = time}).value();
    };
    CHECK(told(0) == "12|12|12|12|AM| 0|0| 5|5");
    CHECK(told(11) == "11|11|11|11|AM|11|11| 5|5");
    CHECK(told(12) == "12|12|12|12|PM|12|12| 5|5");
    CHECK(told(13) == " 1|01|1|1|PM|13|13| 5|5");
}

TEST_CASE("templates of the families say what transformers says", "[text][chat][golden]") {
    const ordered_json all = golden();
    std::size_t count = 0;
    for (const ordered_json& family : all["families"]) {
        const auto chat = ChatTemplate::parse(family["template"].get<std::string>(), family["name"]);
        if (!chat) FAIL(chat.error().message);
        for (const ordered_json& entry : family["cases"]) {
            CAPTURE(family["name"].get<std::string>(), entry.dump());
            std::vector<ChatMessage> messages;
            for (const ordered_json& message : all["conversations"][entry[0].get<std::size_t>()])
                messages.push_back({message[0], message[1]});
            const std::string variables = all["extras"][entry[2].get<std::size_t>()].dump();
            const auto text = chat->render(messages, {.add_generation_prompt = entry[1].get<bool>(),
                                                      .bos_token = "<s>",
                                                      .eos_token = "</s>",
                                                      .variables = variables,
                                                      .now = golden_time()});
            ++count;
            if (entry[3].is_null()) {
                CHECK_FALSE(text);
                continue;
            }
            if (!text) FAIL_CHECK(text.error().message);
            if (text) CHECK(*text == entry[3].get<std::string>());
        }
    }
    CHECK(count > 200);
}

TEST_CASE("features of templates, one by one", "[text][chat][golden]") {
    const ordered_json all = golden();
    std::vector<ChatMessage> messages;
    for (const ordered_json& message : all["messages"]) messages.push_back({message["role"], message["content"]});
    const std::string variables = all["variables"].dump();
    REQUIRE(all["features"].size() > 80);
    for (const ordered_json& feature : all["features"]) {
        const std::string source = feature[0];
        CAPTURE(source);
        const auto text = render(source, messages, true, variables);
        if (!text) FAIL_CHECK(text.error().message);
        if (text) CHECK(*text == feature[1].get<std::string>());
    }
    REQUIRE(all["errors"].size() > 50);
    for (const std::string source : all["errors"]) {
        CAPTURE(source);
        const auto text = render(source, messages, true, variables);
        if (text) FAIL_CHECK("no error, but " << *text);
        if (!text) CHECK_THAT(text.error().message, Contains("test: line "));
    }
}

TEST_CASE("what templates may not use is refused by name and line", "[text][chat]") {
    const auto refused = [](const std::string& source) { return render_error(source, ErrorCode::UnsupportedConfig); };
    CHECK(refused("a\nb\n{% include 'x' %}") == "test: line 3: the tag {% include %} is not supported");
    CHECK_THAT(refused("{% call m() %}{% endcall %}"), Contains("{% call %}"));
    CHECK_THAT(refused("{{ x | urlize }}"), Contains("the filter urlize"));
    CHECK_THAT(refused("{{ [1] | map('urlize') | list }}"), Contains("the filter urlize"));
    CHECK_THAT(refused("{{ x is weird }}"), Contains("the test weird"));
    CHECK_THAT(refused("{{ 'x'.format(1) }}"), Contains("the method format"));
    CHECK_THAT(refused("{{ [].append(1) }}"), Contains("the method append"));
    CHECK_THAT(refused("{{ '%d' % 1 }}"), Contains("formatting with %"));
    CHECK_THAT(refused("{% for x in [1] recursive %}{% endfor %}"), Contains("recursive"));
    CHECK_THAT(refused("{{ f(*x) }}"), Contains("* or **"));
    CHECK_THAT(refused("{{ cycler(1) }}"), Contains("the name cycler"));
    CHECK_THAT(refused("{{ [raise_exception] }}"), Contains("a function inside a list"));
    CHECK_THAT(render_error("{{ 1 +\n\n }}", ErrorCode::CorruptFile),
               Contains("line 3: expected an expression, found }}"));
    CHECK_THAT(render_error("\n{% if x %}", ErrorCode::CorruptFile), Contains("{% endif %} is missing"));
    CHECK_THAT(render_error("\n{{ x", ErrorCode::CorruptFile), Contains("line 2: a tag has no end"));
    CHECK_THAT(render_error("\xFF", ErrorCode::CorruptFile), Contains("not UTF-8"));
    CHECK_THAT(render_error("\n{{ raise_exception('no system role') }}", ErrorCode::InvalidArgument),
               Contains("line 2: the template refuses the conversation: no system role"));
    CHECK_THAT(render_error("{{ nothing.at.all }}", ErrorCode::InvalidArgument), Contains("\"nothing\" is undefined"));
    CHECK_THAT(render_error("{{ messages[0].tool_calls[0] }}", ErrorCode::InvalidArgument),
               Contains("the member tool_calls of a mapping is undefined"));
}

TEST_CASE("hostile templates end in an error", "[text][chat]") {
    const auto stopped = [](const std::string& source) { return render_error(source, ErrorCode::InvalidArgument); };
    CHECK_THAT(stopped("{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}"),
               Contains("steps"));
    CHECK(render("{{ range(100000) | length }}", {{"user", "Hi"}}, true, "{}").value() == "100000");
    CHECK_THAT(stopped("{{ range(100001) | length }}"), Contains("a range of more than 100000 numbers"));
    CHECK_THAT(stopped("{{ 'x' * 10 ** 12 }}"), Contains("MiB"));
    CHECK_THAT(stopped("{{ [1, 2] * 10 ** 12 }}"), Contains("MiB"));
    CHECK_THAT(
        stopped("{% set n = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}"),
        Contains("MiB"));
    CHECK_THAT(stopped("{% set n = namespace(x='x' * 1000000) %}{{ n.x.replace('x', n.x) }}"), Contains("MiB"));
    CHECK_THAT(stopped("{% set s = 'x' * 1000000 %}{{ range(100000) | join(s) }}"), Contains("MiB"));
    CHECK_THAT(stopped("{{ [[1]] | tojson(indent=10 ** 12) }}"), Contains("MiB"));
    CHECK_THAT(stopped("{{ 'a\nb' | indent(10 ** 12) }}"), Contains("MiB"));
    CHECK_THAT(
        stopped("{% set n = namespace(x=[]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}"),
        Contains("more than"));
    CHECK_THAT(stopped("{% set n = namespace(x=[]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
                       "{% set m = namespace(x=[]) %}{% for i in range(60) %}{% set m.x = [m.x, m.x] %}{% endfor %}"
                       "{{ n.x == m.x }}"),
               Contains("steps"));
    CHECK_THAT(stopped("{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}"),
               Contains("nested deeper than 100"));
    CHECK_THAT(stopped("{% macro m(x) %}{{ m(x + 1) }}{% endmacro %}{{ m(0) }}"), Contains("calls itself"));
    std::string maps;
    for (int i = 0; i < 2000; ++i) maps += "'map', ";
    CHECK_THAT(stopped("{{ 'a' | map(" + maps + "'upper') }}"), Contains("nested"));
    CHECK_THAT(stopped("{{ 9223372036854775807 + 1 }}"), Contains("64 bits"));
    CHECK_THAT(stopped("{{ 10 ** 19 }}"), Contains("64 bits"));
    CHECK_THAT(render_error("{% set n = namespace() %}{% set n.n = n %}", ErrorCode::UnsupportedConfig),
               Contains("a namespace inside"));
}

TEST_CASE("what takes a template time is counted", "[text][chat]") {
    std::string members, parameters;
    for (int i = 0; i < 1000; ++i) {
        members += "'k" + std::to_string(i) + "': 1, ";
        parameters += (i > 0 ? ", k" : "k") + std::to_string(i) + "=1";
    }
    const std::string given =
        "{% set a = 'a' * 100000 %}{% set b = 'a' * 99999 ~ 'b' %}{% set c = 'a' * 100000 %}"
        "{% set spaces = ' ' * 100000 %}{% set k = 'k' * 100000 %}{% set d = {k ~ '0': 1} %}"
        "{% set m = {" +
        members + "} %}{% macro f(" + parameters + ") %}{% endmacro %}{% set list = [1] * 1000 %}";
    const std::size_t before = steps_of(given);
    const auto cost = [&](const std::string& expression) {
        CAPTURE(expression);
        return steps_of(given + "{% set x = " + expression + " %}") - before;
    };
    constexpr std::size_t kCompared = 100'000 / 256, kSearched = 100'000 / 32, kRead = 100'000 / 8;
    for (const char* compared :
         {"a == c", "a < b", "a in [c]", "a in (b,)", "k ~ '1' in d", "d[k ~ '1']", "a is eq c", "a.startswith(c)",
          "a.endswith((b,))", "[a, c] | unique", "a.removeprefix(c)", "a.removesuffix(c)", "space[k]",
          "[] | tojson(indent=a)", "[] | tojson(separators=(a, ':'))", "[] | tojson(separators=(',', a))"}) {
        CAPTURE(compared);
        CHECK(cost(compared) >= kCompared);
    }
    for (const char* searched : {"'z' in a", "a.find('z')", "a.rfind('z')", "a.count('z')", "a.split('z')",
                                 "a.rsplit('z')", "a.replace('z', '')", "a | replace('z', '')", "'z' is in a"}) {
        CAPTURE(searched);
        CHECK(cost(searched) >= kSearched);
        CHECK(cost(searched) < 2 * kRead);  // long messages are searched for "</think>" and the like
    }
    for (const char* read : {"a.upper()",
                             "a | lower",
                             "a.title()",
                             "a | title",
                             "a is lower",
                             "a | length",
                             "a[99999]",
                             "a[-99999]",
                             "a[1:]",
                             "a[::-1]",
                             "a.split()",
                             "a.splitlines()",
                             "a | int",
                             "a | float",
                             "spaces.strip()",
                             "spaces | trim",
                             "spaces.isspace()",
                             "a | tojson",
                             "a | list",
                             "a | first",
                             "[a] | sort",
                             "[a] | max",
                             "[1] | map(attribute=k)",
                             "a[-9:]",
                             "a[:-9]",
                             "a[9::-1]",
                             "('x' ~ a).find('a', ) ~ a.rfind('a')"}) {
        CAPTURE(read);
        CHECK(cost(read) >= kRead);
    }
    CHECK(cost("'aaaaaaaa'.strip('b' * 99999 ~ 'a')") >= 8 * kRead);
    CHECK(cost("a[:9]") < kCompared);
    CHECK(cost("a[1:9:2]") < kCompared);
    CHECK(cost("list[1:]") >= 1000 / 4);
    CHECK(cost("m.keys()") >= 1000);
    CHECK(cost("m.nothing") >= 1000 / 8);
    CHECK(cost("list | map(attribute=k) | list") >= 1000 * kCompared);
    CHECK(cost("f()") >= 4 * 1000);
    CHECK(cost("f(" + parameters + ")") >= 1000 * 1000 / 8);
    CHECK(steps_of("{% for i in [1, 2, 3] %}{% endfor %}") - steps_of("{% for i in [1] %}{% endfor %}") >= 2 * 3);
}

TEST_CASE("texts that almost fit everywhere are not searched for long", "[text][chat]") {
    const std::string given = "{% set a = 'a' * 1000000 %}{% set b = 'a' * 500000 ~ 'b' %}";
    for (const char* hard : {"b in a", "a.find(b)", "a.rfind(b)", "a.count(b)", "a.split(b)", "a.rsplit(b)",
                             "a.replace(b, '')", "a | replace(b, '')"}) {
        CAPTURE(hard);
        CHECK_THAT(render_error(given + "{{ " + hard + " }}", ErrorCode::InvalidArgument), Contains("steps"));
    }
    CHECK(*render("{{ [] * 10 ** 18 }}{{ () * 10 ** 18 }}", {}, true, "") == "[]()");
    CHECK_THAT(render_error("{{ " + std::string(257, 'x') + " }}", ErrorCode::CorruptFile),
               Contains("a name of more than 256 characters"));
}

TEST_CASE("parts of texts are those that Python takes", "[text][chat]") {
    const auto written = [](const std::string& expression) {
        CAPTURE(expression);
        auto text = render("{% set s = 'häßlich-ä' %}{{ " + expression + " }}", {}, true, "");
        REQUIRE(text);
        return *text;
    };
    CHECK(written("s[1] ~ s[-1] ~ s[8] ~ s[-9]") == "äääh");
    CHECK(written("s[9] is defined or s[-10] is defined") == "False");
    CHECK(written("s[::2] ~ ' ' ~ s[::-1] ~ ' ' ~ s[7:2:-2]") == "hßihä ä-hcilßäh -cl");
    CHECK(written("s[-3:] ~ ' ' ~ s[:-3] ~ ' ' ~ s[2:100] ~ s[5:2]") == "h-ä häßlic ßlich-ä");
    CHECK(written("s[:2] ~ ' ' ~ s[1:4] ~ ' ' ~ s[0:9:4] ~ s[:0] ~ s[3:1] ~ ' ' ~ s[7:9000000000000000000]") ==
          "hä äßl hiä -ä");
    CHECK(written("'😀😀a'[:1] ~ ' ' ~ 'aaaa😀'[:2] ~ ' ' ~ 'aä😀ß'[1:3] ~ ' ' ~ 'a😀'[:2]") == "😀 aa ä😀 a😀");
    CHECK(written("s[-100:3] ~ ' ' ~ s[8::-3] ~ ' ' ~ s[::9000000000000000000]") == "häß äcß h");
    CHECK(written("'aXbXc'.rsplit('X', 1) ~ 'aaa'.rsplit('aa') ~ ' a  b '.rsplit(none, 1)") ==
          "['aXb', 'c']['a', ''][' a', 'b']");
    CHECK(
        written("'aXbXc'.rfind('X') ~ 'aXbXc'.find('') ~ 'aXbXc'.rfind('') ~ 'abcab'.rfind('abc') ~ 'a'.find('ab')") ==
        "3050-1");
    CHECK(written("'aaaa'.count('aa') ~ 'aaaa'.replace('aa', 'b') ~ 'aaaa'.replace('a', 'b', 3)") == "2bbbbba");
    CHECK(written("['a\"\\\\\\n\\x01ä😀\\x7f'] | tojson") == "[\"a\\\"\\\\\\n\\u0001ä😀\x7f\"]");
    CHECK(written("'a\"ä😀\\x7f' | tojson(ensure_ascii=true)") == "\"a\\\"\\u00e4\\ud83d\\ude00\\u007f\"");
    CHECK(written("['\\x01\\x85\\u2028\\U0001fffe'] | string") == "['\\x01\\x85\\u2028\\U0001fffe']");
    CHECK(written("'xyz' * 5 ~ 'é' * 3 ~ 'x' * 0") == "xyzxyzxyzxyzxyzééé");
}

TEST_CASE("deeply nested templates end in an error", "[text][chat]") {
    const auto broken = [](const std::string& source) { return render_error(source, ErrorCode::CorruptFile); };
    const auto repeated = [](const char* text, int count) {
        std::string result;
        for (int i = 0; i < count; ++i) result += text;
        return result;
    };
    CHECK_THAT(broken("{{ " + repeated("(", 50'000) + repeated(")", 50'000) + "}}"), Contains("nested deeper"));
    CHECK_THAT(broken("{{ " + repeated("[", 50'000) + repeated("]", 50'000) + "}}"), Contains("nested deeper"));
    CHECK_THAT(broken("{{ " + repeated("not ", 50'000) + "x }}"), Contains("nested deeper"));
    CHECK_THAT(broken("{{ " + repeated("-", 50'000) + "x }}"), Contains("nested deeper"));
    CHECK_THAT(broken("{{ x" + repeated(" + x", 50'000) + " }}"), Contains("nested deeper"));
    CHECK_THAT(broken("{{ x" + repeated("|trim", 50'000) + " }}"), Contains("nested deeper"));
    CHECK_THAT(broken("{{ x" + repeated(".x", 50'000) + " }}"), Contains("nested deeper"));
    CHECK_THAT(broken("{{ x" + repeated(" if x else x", 50'000) + " }}"), Contains("nested deeper"));
    CHECK_THAT(broken(repeated("{% if x %}", 50'000)), Contains("nested deeper"));
    CHECK_THAT(broken("{% if x %}" + repeated("{% elif x %}", 20'000)), Contains("is missing"));
    const auto variables = repeated("[", 5000) + repeated("]", 5000);
    CHECK_FALSE(render("x", {}, true, "{\"a\": " + variables + "}"));
    CHECK_FALSE(render("x", {}, true, "[]"));
    CHECK_FALSE(render("x", {}, true, "{"));
    CHECK_FALSE(render("x", {{"user", "\xFF"}}, true, "{}"));
}

TEST_CASE("mutated templates never crash", "[text][chat]") {
    const ordered_json all = golden();
    std::mt19937 random(5);
    std::size_t rendered = 0;
    for (const ordered_json& family : all["families"]) {
        const std::string whole = family["template"];
        for (int round = 0; round < 150; ++round) {
            std::string source = whole;
            for (auto edits = 1 + random() % 3; edits > 0; --edits) {
                const std::size_t at = random() % source.size(), size = random() % 12;
                switch (random() % 3) {
                case 0: source.erase(at, size); break;
                case 1: source.insert(at, whole, random() % whole.size(), size); break;
                default: source[at] = static_cast<char>(random() % 128); break;
                }
            }
            const auto text =
                render(source, {{"system", "S"}, {"user", "Hi"}, {"assistant", "Yes"}}, true, all["extras"][1].dump());
            rendered += static_cast<bool>(text);
            if (!text) REQUIRE_FALSE(text.error().message.empty());
        }
    }
    CHECK(rendered > 100);
}

TEST_CASE("templates of model folders", "[text][chat]") {
    const TemporaryFolder folder;
    const auto load = [&](std::string_view variant = "default") { return load_chat_template(folder.path(), variant); };
    const std::vector<ChatMessage> messages = {{"user", "Hi"}};
    REQUIRE_FALSE(load());
    CHECK(load().error().code == ErrorCode::FileNotFound);
    CHECK_THAT(load().error().message, Contains("chat_template.jinja"));

    folder.write("tokenizer_config.json", R"({"bos_token": "<b>", "eos_token": {"content": "<e>"}, "pad_token": null,
        "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}"})");
    CHECK(load()->render(messages).value() == "<b>Hi<e>");
    CHECK(load()->render(messages, {.eos_token = "!"}).value() == "<b>Hi!");

    folder.write("tokenizer_config.json",
                 R"({"bos_token": false, "chat_template": "{{ bos_token }}x"})");  // there is none
    CHECK(load()->render(messages).value() == "x");

    folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "D{{ eos_token }}"},
        {"name": "tool_use", "template": "T"}]})");
    CHECK(load()->render(messages).value() == "D");
    CHECK(load("tool_use")->render(messages).value() == "T");
    CHECK_THAT(load("rag").error().message, Contains("no template \"rag\", only \"default\", \"tool_use\""));

    folder.write("chat_template.jinja", "J{% if add_generation_prompt %}p{% endif %}\n");
    CHECK(load()->render(messages).value() == "Jp");
    CHECK(load()->render(messages, {.add_generation_prompt = false}).value() == "J");
    folder.write("chat_template.jinja", "\n{% nonsense %}");
    CHECK(load().error().message == "chat_template.jinja: line 2: the tag {% nonsense %} is not supported");
    folder.write("chat_template.jinja", "");
    CHECK(load()->render(messages).value().empty());
    folder.write("tokenizer_config.json", R"({"chat_template": 5})");
    std::filesystem::remove(folder.path() / "chat_template.jinja");
    CHECK(load().error().code == ErrorCode::CorruptFile);
}

}  // namespace vkformer::tests
