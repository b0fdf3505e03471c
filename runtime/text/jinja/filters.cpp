// SPDX-License-Identifier: MIT
/// value | filter(arguments). Where Jinja gives a generator, a list comes out.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <system_error>

#include "core/stable_order.hpp"
#include "text/jinja/builtins.hpp"
#include "text/jinja/text_functions.hpp"
#include "text/unicode.hpp"

namespace vkformer::text::jinja {
namespace {

using Function = Value (*)(const Value& value, const Arguments& arguments, Budget& budget);

template <std::string (*Map)(std::string_view, Budget&)>
Value mapped(const Value& value, const Arguments& arguments, Budget& budget) {
    arguments.bind("the filter", {});
    return Map(to_text(value, budget), budget);
}

Value trim(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("trim", {"chars"});
    return std::string(strip(to_text(value, budget), text_argument(bound[0], "trim"), {}, budget));
}

/// A capital behind white space, -, and opening brackets.
std::string word_title(std::string_view text, Budget& budget) {
    budget.scan(text.size());
    std::string out;
    std::string word;
    const auto flush = [&] {
        if (!word.empty()) {
            const std::size_t first = first_character(word).bytes;
            out += upper(word.substr(0, first), budget) + lower(word.substr(first), budget);
        }
        word.clear();
    };
    while (!text.empty()) {
        const Character character = first_character(text);
        const std::string_view spelled = text.substr(0, character.bytes);
        text.remove_prefix(character.bytes);
        if (is_python_space(character.code) || std::string_view("-({[<").find(spelled) != std::string_view::npos) {
            flush();
            out += spelled;
        } else {
            word += spelled;
        }
    }
    flush();
    return out;
}

Value length(const Value& value, const Arguments& arguments, Budget& budget) {
    arguments.bind("length", {});
    if (const auto* text = value.text()) {
        budget.scan(text->size());
        return static_cast<std::int64_t>(count_characters(*text));
    }
    if (const auto* list = value.list()) return static_cast<std::int64_t>(list->items.size());
    if (const auto* dict = value.dict()) return static_cast<std::int64_t>(dict->items.size());
    if (value.is_undefined()) return std::int64_t{0};
    budget.step();
    fail(std::string("a ") + value.type_name() + " has no length");
}

/// "a.b" or 0: what is looked up in the elements.
Value attribute_of(Value value, const Value& path, Budget& budget) {
    if (!path.text()) return item_of(value, path, budget);
    if (value.is_undefined()) return value;
    std::string_view rest = *path.text();
    budget.scan(rest.size());
    while (true) {
        const std::size_t dot = rest.find('.');
        const std::string_view part = rest.substr(0, dot);
        std::int64_t number = 0;
        const auto parsed = std::from_chars(part.data(), part.data() + part.size(), number);
        const bool is_number = !part.empty() && parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
        budget.bytes(part.size());
        value = item_of(value, is_number ? Value(number) : Value(part), budget);
        if (dot == rest.npos || value.is_undefined()) return value;
        rest.remove_prefix(dot + 1);
    }
}

Value join(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("join", {"d", "attribute"});
    const std::string separator = bound[0] ? to_text(*bound[0], budget) : "";
    Text out(budget);
    bool is_first = true;
    for (const Value& item : elements(value, budget)) {
        if (!std::exchange(is_first, false)) out += separator;
        out += to_text(bound[1] ? attribute_of(item, *bound[1], budget) : item, budget);
    }
    return out.take();
}

Value fallback(const Value& value, const Arguments& arguments, Budget&) {
    const auto bound = arguments.bind("default", {"default_value", "boolean"});
    const bool falsy_too = bound[1] && is_true(*bound[1]);
    const bool replaces = value.is_undefined() || (falsy_too && !is_true(value));
    return replaces ? bound[0].value_or(Value("")) : value;
}

Value tojson(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
    const auto copied = [&](const std::string& text) {
        budget.bytes(text.size());
        return text;
    };
    JsonStyle style;
    style.ensure_ascii = bound[0] && is_true(*bound[0]);
    if (bound[1] && !bound[1]->is_none()) {
        style.item_separator = ",";
        if (const auto* text = bound[1]->text()) {
            style.indent = copied(*text);
        } else {
            Text spaces(budget);
            const auto width = integer_argument(bound[1], 0, "tojson");
            spaces.repeat(" ", static_cast<std::size_t>(std::max<std::int64_t>(0, width)));
            style.indent = spaces.take();
        }
    }
    if (bound[2] && !bound[2]->is_none()) {
        const auto separators = elements(*bound[2], budget);
        if (separators.size() != 2 || !separators[0].text() || !separators[1].text())
            fail("tojson: separators are two strings");
        style.item_separator = copied(*separators[0].text());
        style.key_separator = copied(*separators[1].text());
    }
    style.sort_keys = bound[3] && is_true(*bound[3]);
    return to_json(value, style, budget);
}

Value list(const Value& value, const Arguments& arguments, Budget& budget) {
    arguments.bind("list", {});
    return Value::list(elements(value, budget), budget);
}

Value items(const Value& value, const Arguments& arguments, Budget& budget) {
    arguments.bind("items", {});
    if (!value.is_undefined() && !value.dict()) fail(std::string("a ") + value.type_name() + " has no items");
    std::vector<Value> pairs;
    if (const Dict* dict = value.dict())
        for (const auto& [key, item] : dict->items) pairs.push_back(Value::list({key, item}, budget, true));
    return Value::list(std::move(pairs), budget);
}

/// The arguments behind the first `count`.
Arguments behind(const Arguments& arguments, std::size_t count) {
    Arguments rest;
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                           arguments.positional.end());
    rest.named = arguments.named;
    return rest;
}

/// Of none, false and the like, nothing.
Value map(const Value& value, const Arguments& arguments, Budget& budget) {
    std::vector<Value> results;
    if (!is_true(value)) return Value::list(std::move(results), budget);
    if (arguments.positional.empty()) {
        const auto bound = arguments.bind("map", {"attribute", "default"}, 1);
        for (const Value& item : elements(value, budget)) {
            Value part = attribute_of(item, *bound[0], budget);
            results.push_back(part.is_undefined() && bound[1] ? *bound[1] : std::move(part));
        }
        return Value::list(std::move(results), budget);
    }
    const std::string name = to_text(arguments.positional.front(), budget);
    if (!has_filter(name)) refuse("the filter " + name);
    const Arguments rest = behind(arguments, 1);
    for (const Value& item : elements(value, budget)) results.push_back(apply_filter(name, item, rest, budget));
    return Value::list(std::move(results), budget);
}

/// select, reject, selectattr, rejectattr: what passes a test (or is true), itself or an attribute.
template <bool Keeps, bool HasAttribute>
Value select(const Value& value, const Arguments& arguments, Budget& budget) {
    const std::size_t own = HasAttribute;
    if (arguments.positional.size() < own) fail("selectattr lacks the argument attribute");
    const bool has_test_name = arguments.positional.size() > own;
    const std::string name = has_test_name ? to_text(arguments.positional[own], budget) : "";
    if (has_test_name && !has_test(name)) refuse("the test " + name);
    const Arguments rest = has_test_name ? behind(arguments, own + 1) : Arguments();
    std::vector<Value> kept;
    if (!is_true(value)) return Value::list(std::move(kept), budget);
    for (const Value& item : elements(value, budget)) {
        const Value tested = HasAttribute ? attribute_of(item, arguments.positional[0], budget) : item;
        const bool passes = has_test_name ? apply_test(name, tested, rest, budget) : is_true(tested);
        if (passes == Keeps) kept.push_back(item);
    }
    return Value::list(std::move(kept), budget);
}

template <bool Last>
Value end_element(const Value& value, const Arguments& arguments, Budget& budget) {
    arguments.bind(Last ? "last" : "first", {});
    const auto all = elements(value, budget);
    if (all.empty()) return Undefined{Last ? "the last of no elements" : "the first of no elements"};
    return Last ? all.back() : all.front();
}

Value replace_filter(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("replace", {"old", "new", "count"}, 2);
    return replace(to_text(value, budget), to_text(*bound[0], budget), to_text(*bound[1], budget),
                   integer_argument(bound[2], -1, "replace"), budget);
}

Value string(const Value& value, const Arguments& arguments, Budget& budget) {
    arguments.bind("string", {});
    return to_text(value, budget);
}

template <class Number>
std::optional<Number> parse_number(std::string_view text, Budget& budget) {
    text = strip(text, std::nullopt, {}, budget);
    budget.scan(text.size());
    if (text.starts_with('+')) text.remove_prefix(1);
    Number number{};
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
    return number;
}

Value truncated(double number, const Value& otherwise) {
    if (std::isnan(number)) return otherwise;
    if (!(std::fabs(number) < 9e18)) fail("a number leaves the 64 bits that it may have");
    return static_cast<std::int64_t>(number);
}

Value to_integer(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("int", {"default", "base"});
    const Value otherwise = bound[0].value_or(std::int64_t{0});
    if (integer_argument(bound[1], 10, "int") != 10) refuse("the filter int with another base");
    if (const auto whole = value.integer()) return *whole;
    if (const auto number = value.number()) return truncated(*number, otherwise);
    if (const auto* undefined = value.get<Undefined>()) fail(undefined->what() + " is undefined");
    if (!value.text()) return otherwise;
    if (const auto whole = parse_number<std::int64_t>(*value.text(), budget)) return *whole;
    const auto number = parse_number<double>(*value.text(), budget);
    return number ? truncated(*number, otherwise) : otherwise;
}

Value to_float(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("float", {"default"});
    if (const auto number = value.number()) return *number;
    if (const auto* undefined = value.get<Undefined>()) fail(undefined->what() + " is undefined");
    const auto number = value.text() ? parse_number<double>(*value.text(), budget) : std::nullopt;
    return number ? Value(*number) : bound[0].value_or(0.0);
}

/// Nothing here escapes anything, so that marking a text as safe changes nothing.
Value safe(const Value& value, const Arguments& arguments, Budget& budget) {
    arguments.bind("safe", {});
    return to_text(value, budget);
}

Value indent(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("indent", {"width", "first", "blank"});
    Text unit(budget);
    if (bound[0] && bound[0]->text()) {
        unit += *bound[0]->text();
    } else {
        unit.repeat(" ", static_cast<std::size_t>(std::max<std::int64_t>(0, integer_argument(bound[0], 4, "indent"))));
    }
    const std::string indention = unit.take();
    const bool first = bound[1] && is_true(*bound[1]), blank = bound[2] && is_true(*bound[2]);
    const std::string text = to_text(value, budget);
    Text out(budget);
    std::string_view rest = text;
    for (bool is_first = true;; is_first = false) {
        const std::size_t end = rest.find('\n');
        const std::string_view line = rest.substr(0, end);
        if (is_first ? first : (blank || !line.empty())) out += indention;
        out += line;
        if (end == rest.npos) break;
        out += "\n";
        rest.remove_prefix(end + 1);
    }
    return out.take();
}

Value absolute(const Value& value, const Arguments& arguments, Budget&) {
    arguments.bind("abs", {});
    if (const auto whole = value.integer()) {
        if (*whole == INT64_MIN) fail("a number leaves the 64 bits that it may have");
        return *whole < 0 ? -*whole : *whole;
    }
    if (!value.number()) fail(std::string("a ") + value.type_name() + " is no number");
    return std::fabs(*value.number());
}

/// Texts are ordered without regard to case, unless asked for.
Value sort_key(const Value& value, const std::optional<Value>& attribute, bool case_sensitive, Budget& budget) {
    Value key = attribute ? attribute_of(value, *attribute, budget) : value;
    return key.text() && !case_sensitive ? Value(lower(*key.text(), budget)) : key;
}

Value sort(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("sort", {"reverse", "case_sensitive", "attribute"});
    const bool backwards = bound[0] && is_true(*bound[0]), case_sensitive = bound[1] && is_true(*bound[1]);
    std::vector<std::pair<Value, Value>> keyed;
    for (const Value& item : elements(value, budget))
        keyed.emplace_back(sort_key(item, bound[2], case_sensitive, budget), item);
    sort_stably(keyed, [&](const auto& a, const auto& b) {
        const int sign = compare(a.first, b.first, budget);
        return backwards ? sign > 0 : sign < 0;
    });
    std::vector<Value> sorted;
    for (auto& item : keyed) sorted.push_back(std::move(item.second));
    return Value::list(std::move(sorted), budget);
}

Value dictsort(const Value& value, const Arguments& arguments, Budget& budget) {
    budget.step(16);
    const auto bound = arguments.bind("dictsort", {"case_sensitive", "by", "reverse"});
    const std::string_view by = text_argument(bound[1], "dictsort").value_or("key");
    if (by != "key" && by != "value") fail("dictsort: by is \"key\" or \"value\"");
    const Arguments order{{},
                          {{"reverse", bound[2].value_or(false)},
                           {"case_sensitive", bound[0].value_or(false)},
                           {"attribute", Value(std::int64_t{by == "value"})}}};
    return sort(items(value, {}, budget), order, budget);
}

Value unique(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("unique", {"case_sensitive", "attribute"});
    const bool case_sensitive = bound[0] && is_true(*bound[0]);
    std::vector<Value> kept, keys;
    for (const Value& item : elements(value, budget)) {
        Value key = sort_key(item, bound[1], case_sensitive, budget);
        if (std::ranges::any_of(keys, [&](const Value& other) { return equal(key, other, budget); })) continue;
        keys.push_back(std::move(key));
        kept.push_back(item);
    }
    return Value::list(std::move(kept), budget);
}

Value reverse(const Value& value, const Arguments& arguments, Budget& budget) {
    arguments.bind("reverse", {});
    auto all = elements(value, budget);
    std::ranges::reverse(all);
    if (!value.text()) return Value::list(std::move(all), budget);
    std::string text;
    for (const Value& character : all) text += *character.text();
    return text;
}

template <int Sign>
Value extreme(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind(Sign < 0 ? "min" : "max", {"case_sensitive", "attribute"});
    const bool case_sensitive = bound[0] && is_true(*bound[0]);
    std::optional<Value> best, best_key;
    for (const Value& item : elements(value, budget)) {
        Value key = sort_key(item, bound[1], case_sensitive, budget);
        if (best && compare(key, *best_key, budget) != Sign) continue;
        best = item;
        best_key = std::move(key);
    }
    return best ? *best : Value(Undefined{"the least or greatest of no elements"});
}

Value attr(const Value& value, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("attr", {"name"}, 1);
    if (value.dict()) return Undefined{"the attribute of a mapping"};  // members do not count
    return item_of(value, *bound[0], budget);
}

const std::map<std::string_view, Function>& functions() {
    static const std::map<std::string_view, Function> kFunctions = {
        {"trim", trim},
        {"length", length},
        {"count", length},
        {"join", join},
        {"default", fallback},
        {"d", fallback},
        {"upper", mapped<upper>},
        {"lower", mapped<lower>},
        {"capitalize", mapped<capitalize>},
        {"title", mapped<word_title>},
        {"tojson", tojson},
        {"list", list},
        {"items", items},
        {"map", map},
        {"select", select<true, false>},
        {"reject", select<false, false>},
        {"selectattr", select<true, true>},
        {"rejectattr", select<false, true>},
        {"first", end_element<false>},
        {"last", end_element<true>},
        {"replace", replace_filter},
        {"string", string},
        {"int", to_integer},
        {"float", to_float},
        {"safe", safe},
        {"indent", indent},
        {"abs", absolute},
        {"sort", sort},
        {"dictsort", dictsort},
        {"unique", unique},
        {"reverse", reverse},
        {"min", extreme<-1>},
        {"max", extreme<1>},
        {"attr", attr},
    };
    return kFunctions;
}

}  // namespace

bool has_filter(std::string_view name) { return functions().contains(name); }

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget) {
    const Budget::Depth depth(budget);
    budget.step();
    const auto found = functions().find(name);
    if (found == functions().end()) refuse("the filter " + std::string(name));
    return found->second(value, arguments, budget);
}

}  // namespace vkformer::text::jinja
