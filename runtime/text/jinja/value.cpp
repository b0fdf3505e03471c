// SPDX-License-Identifier: MIT
#include "text/jinja/value.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/decimal.hpp"
#include "core/stable_order.hpp"
#include "text/unicode.hpp"

namespace vkformer::text::jinja {
namespace {

constexpr std::size_t kMaxValueNesting = 100;  // of lists and dictionaries
constexpr std::size_t kElementBytes = sizeof(Value);

std::size_t nesting(const Value& value) {
    if (const auto* list = value.list()) return list->depth;
    if (const auto* dict = value.dict()) return dict->depth;
    return 0;
}

void check_member(const Value& value, std::size_t& depth) {
    if (value.get<NamespacePointer>() || value.get<CallablePointer>() || value.get<const LoopState*>())
        refuse(std::string("a ") + value.type_name() + " inside a list or a mapping");
    depth = std::max(depth, nesting(value) + 1);
    if (depth > kMaxValueNesting) fail("lists are nested deeper than " + std::to_string(kMaxValueNesting) + " levels");
}

bool is_printable(char32_t code) {
    if (code == ' ') return true;
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

std::string hexadecimal(const char* prefix, unsigned code, int digits) {
    std::string text = prefix;
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text += "0123456789abcdef"[code >> shift & 15];
    return text;
}

/// Python's repr() of a text.
void append_quoted(Text& out, std::string_view text) {
    const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
    out += std::string_view(&quote, 1);
    while (!text.empty()) {
        const Character character = first_character(text);
        const std::string_view spelled = text.substr(0, character.bytes);
        text.remove_prefix(character.bytes);
        const char32_t code = character.code;
        if (code == '\n') {
            out += "\\n";
        } else if (code == '\r') {
            out += "\\r";
        } else if (code == '\t') {
            out += "\\t";
        } else if (code == '\\' || code == static_cast<unsigned char>(quote)) {
            (out += "\\") += spelled;
        } else if (is_printable(code)) {
            out += spelled;
        } else {
            out += code < 0x100     ? hexadecimal("\\x", code, 2)
                   : code < 0x10000 ? hexadecimal("\\u", code, 4)
                                    : hexadecimal("\\U", code, 8);
        }
    }
    out += std::string_view(&quote, 1);
}

void append_text(Text& out, const Value& value, bool is_nested, Budget& budget);

template <class Items, class Append>
void append_items(Text& out, const Items& items, const char* open, const char* close, Append append) {
    out += open;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out += ", ";
        append(items[i]);
    }
    out += close;
}

void append_list(Text& out, const List& list, Budget& budget) {
    const char* close = !list.is_tuple ? "]" : list.items.size() == 1 ? ",)" : ")";
    append_items(out, list.items, list.is_tuple ? "(" : "[", close,
                 [&](const Value& item) { append_text(out, item, true, budget); });
}

void append_text(Text& out, const Value& value, bool is_nested, Budget& budget) {
    budget.step();
    if (const std::string* text = value.text()) {
        if (is_nested) return append_quoted(out, *text);
        out += *text;
    } else if (const bool* truth = value.get<bool>()) {
        out += *truth ? "True" : "False";
    } else if (value.is_none()) {
        out += "None";
    } else if (const auto* integer = value.get<std::int64_t>()) {
        out += std::to_string(*integer);
    } else if (const auto* number = value.get<double>()) {
        out += float_text(*number);
    } else if (const List* list = value.list()) {
        append_list(out, *list, budget);
    } else if (const Dict* dict = value.dict()) {
        append_items(out, dict->items, "{", "}", [&](const auto& item) {
            append_text(out, item.first, true, budget);
            out += ": ";
            append_text(out, item.second, true, budget);
        });
    } else if (value.is_undefined()) {
        if (is_nested) out += "Undefined";
    } else {
        refuse(std::string("printing a ") + value.type_name());
    }
}

/// json.dumps
class JsonWriter {
public:
    JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget), out_(budget) {}

    void write(const Value& value) {
        budget_.step();
        if (const std::string* text = value.text()) {
            string(*text);
        } else if (const bool* truth = value.get<bool>()) {
            out_ += *truth ? "true" : "false";
        } else if (value.is_none()) {
            out_ += "null";
        } else if (const auto* integer = value.get<std::int64_t>()) {
            out_ += std::to_string(*integer);
        } else if (const auto* number = value.get<double>()) {
            out_ += json_number(*number);
        } else if (const List* list = value.list()) {
            sequence(list->items, '[', ']', [&](const Value& item) { write(item); });
        } else if (const Dict* dict = value.dict()) {
            mapping(*dict);
        } else {
            fail(std::string("tojson: a ") + value.type_name() + " has no JSON");
        }
    }
    std::string take() { return out_.take(); }

private:
    static std::string json_number(double number) {
        if (std::isnan(number)) return "NaN";
        if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
        return float_text(number);
    }
    void newline() {
        if (!style_.indent) return;
        out_ += "\n";
        out_.repeat(*style_.indent, level_);
    }
    template <class Items, class Write>
    void sequence(const Items& items, char open, char close, Write write_item) {
        out_ += std::string_view(&open, 1);
        ++level_;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i > 0) out_ += style_.item_separator;
            newline();
            write_item(items[i]);
        }
        --level_;
        if (!items.empty()) newline();
        out_ += std::string_view(&close, 1);
    }
    void mapping(const Dict& dict) {
        auto items = dict.items;
        if (style_.sort_keys)
            sort_stably(items, [&](const auto& a, const auto& b) { return compare(a.first, b.first, budget_) < 0; });
        sequence(items, '{', '}', [&](const auto& item) {
            if (item.first.text()) {
                write(item.first);
            } else {  // numbers, true, false and null become texts
                JsonWriter key(style_, budget_);
                key.write(item.first);
                ((out_ += "\"") += key.take()) += "\"";
            }
            out_ += style_.key_separator;
            write(item.second);
        });
    }
    /// What needs no escape is written a run at a time.
    void string(std::string_view text) {
        budget_.scan(text.size());
        out_ += "\"";
        std::size_t begin = 0;
        for (std::size_t at = 0; at < text.size();) {
            const Character character = first_character(text.substr(at));
            const char32_t code = character.code;
            const bool is_plain = code >= 0x20 && code != '"' && code != '\\' && !(style_.ensure_ascii && code > 0x7E);
            if (!is_plain) {
                out_ += text.substr(begin, at - begin);
                escape(code);
                begin = at + character.bytes;
            }
            at += character.bytes;
        }
        (out_ += text.substr(begin)) += "\"";
    }
    void escape(char32_t code) {
        constexpr std::string_view kNamed = "\"\\\n\r\t\f\b", kNames = "\"\\nrtfb";
        const auto named = code < 0x80 ? kNamed.find(static_cast<char>(code)) : kNamed.npos;
        if (named != kNamed.npos) {
            (out_ += "\\") += kNames.substr(named, 1);
        } else if (code < 0x10000) {
            out_ += hexadecimal("\\u", code, 4);
        } else {
            out_ += hexadecimal("\\u", 0xD800 + ((code - 0x10000) >> 10), 4);
            out_ += hexadecimal("\\u", 0xDC00 + ((code - 0x10000) & 0x3FF), 4);
        }
    }

    const JsonStyle& style_;
    Budget& budget_;
    Text out_;
    std::size_t level_ = 0;
};

bool equal_lists(const List& left, const List& right, Budget& budget) {
    return left.is_tuple == right.is_tuple &&
           std::ranges::equal(left.items, right.items,
                              [&](const Value& a, const Value& b) { return equal(a, b, budget); });
}

bool equal_dicts(const Dict& left, const Dict& right, Budget& budget) {
    return left.items.size() == right.items.size() && std::ranges::all_of(left.items, [&](const auto& item) {
               const Value* other = find(right, item.first, budget);
               return other && equal(item.second, *other, budget);
           });
}

template <class T>
int three_way(const T& left, const T& right) {
    return left < right ? -1 : right < left ? 1 : 0;
}

}  // namespace

void fail(std::string message) { throw Failure{ErrorCode::InvalidArgument, std::move(message)}; }
void refuse(std::string what) { throw Failure{ErrorCode::UnsupportedConfig, std::move(what) + " is not supported"}; }

void Budget::step(std::size_t count) {
    steps_ += count;
    if (steps_ > kMaxSteps) fail("it takes more than " + std::to_string(kMaxSteps) + " steps");
}

void Budget::bytes(std::size_t count) {
    step(1 + std::min(count, kMaxBytes) / 256);
    if (count > kMaxBytes - bytes_) fail("it makes more than " + std::to_string(kMaxBytes >> 20) + " MiB of text");
    bytes_ += count;
}

Budget::Depth::Depth(Budget& budget) : budget_(budget) {
    if (budget_.depth_ >= kMaxDepth)
        fail("it is nested, or calls itself, more than " + std::to_string(kMaxDepth) + " deep");
    ++budget_.depth_;
}

Value Value::list(std::vector<Value> items, Budget& budget, bool is_tuple) {
    budget.bytes(items.size() * kElementBytes);
    budget.step(items.size() / 4);
    auto list = std::make_shared<List>();
    for (const Value& item : items) check_member(item, list->depth);
    list->items = std::move(items);
    list->is_tuple = is_tuple;
    Value value;
    value.variant_ = ListPointer(std::move(list));
    return value;
}

Value Value::dict(std::vector<std::pair<Value, Value>> items, Budget& budget) {
    budget.bytes(2 * items.size() * kElementBytes);
    auto dict = std::make_shared<Dict>();
    for (auto& [key, item] : items) {
        if (!key.text() && !key.number() && !key.is_none()) refuse(std::string("a ") + key.type_name() + " as a key");
        check_member(item, dict->depth);
        if (const Value* same = find(*dict, key, budget)) {  // the last one counts, at the place of the first
            *const_cast<Value*>(same) = std::move(item);
        } else {
            dict->items.emplace_back(std::move(key), std::move(item));
        }
    }
    Value value;
    value.variant_ = DictPointer(std::move(dict));
    return value;
}

const std::string* Value::text() const noexcept {
    const auto* pointer = get<TextPointer>();
    return pointer ? pointer->get() : nullptr;
}
const List* Value::list() const noexcept {
    const auto* pointer = get<ListPointer>();
    return pointer ? pointer->get() : nullptr;
}
const Dict* Value::dict() const noexcept {
    const auto* pointer = get<DictPointer>();
    return pointer ? pointer->get() : nullptr;
}

std::optional<std::int64_t> Value::integer() const noexcept {
    if (const bool* truth = get<bool>()) return *truth;
    if (const auto* integer = get<std::int64_t>()) return *integer;
    return std::nullopt;
}

std::optional<double> Value::number() const noexcept {
    if (const auto whole = integer()) return static_cast<double>(*whole);
    if (const auto* number = get<double>()) return *number;
    return std::nullopt;
}

const char* Value::type_name() const noexcept {
    constexpr std::array kNames = {"undefined value", "none",      "boolean",  "number", "number", "string", "list",
                                   "mapping",         "namespace", "function", "loop"};
    static_assert(kNames.size() == std::variant_size_v<Variant>);
    return kNames[variant_.index()];
}

std::vector<std::optional<Value>> Arguments::bind(std::string_view callee,
                                                  std::initializer_list<std::string_view> parameters,
                                                  std::size_t required) const {
    if (positional.size() > parameters.size())
        fail(std::string(callee) + " takes at most " + std::to_string(parameters.size()) + " arguments, got " +
             std::to_string(positional.size()));
    std::vector<std::optional<Value>> bound(positional.begin(), positional.end());
    bound.resize(parameters.size());
    for (const auto& [name, value] : named) {
        const auto found = std::ranges::find(parameters, std::string_view(name));
        if (found == parameters.end()) fail(std::string(callee) + " has no parameter " + name);
        auto& place = bound[static_cast<std::size_t>(found - parameters.begin())];
        if (place) fail(std::string(callee) + ": " + name + " is given twice");
        place = value;
    }
    for (std::size_t i = 0; i < required; ++i)
        if (!bound[i]) fail(std::string(callee) + " lacks the argument " + std::string(parameters.begin()[i]));
    return bound;
}

void Text::repeat(std::string_view part, std::size_t count) {
    if (!part.empty() && count > Budget::kMaxBytes / part.size()) budget_->bytes(Budget::kMaxBytes + 1);
    const std::size_t begin = text_.size(), size = part.size() * count;
    budget_->bytes(size);
    if (size > 0) text_ += part;
    for (std::size_t made; (made = text_.size() - begin) < size;)
        text_.append(text_, begin, std::min(made, size - made));
}

bool is_true(const Value& value) {
    if (value.is_undefined() || value.is_none()) return false;
    if (const auto number = value.number()) return *number != 0;
    if (const auto* text = value.text()) return !text->empty();
    if (const auto* list = value.list()) return !list->items.empty();
    if (const auto* dict = value.dict()) return !dict->items.empty();
    return true;
}

bool equal_texts(const std::string& left, const std::string& right, Budget& budget) {
    if (left.size() != right.size()) return false;
    budget.sweep(left.size());
    return left == right;
}

bool equal(const Value& left, const Value& right, Budget& budget) {
    budget.step();
    if (left.get<std::int64_t>() && right.get<std::int64_t>()) return left.integer() == right.integer();
    if (const auto a = left.number(), b = right.number(); a && b) return *a == *b;
    if (const auto* a = left.text(), *b = right.text(); a && b) return equal_texts(*a, *b, budget);
    if (const auto* a = left.list(), *b = right.list(); a && b) return equal_lists(*a, *b, budget);
    if (const auto* a = left.dict(), *b = right.dict(); a && b) return equal_dicts(*a, *b, budget);
    if (left.is_none() && right.is_none()) return true;
    if (left.is_undefined() && right.is_undefined()) return true;
    if (const auto* a = left.get<NamespacePointer>(), *b = right.get<NamespacePointer>(); a && b) return *a == *b;
    return false;
}

int compare(const Value& left, const Value& right, Budget& budget) {
    budget.step();
    if (const auto a = left.integer(), b = right.integer(); a && b) return three_way(*a, *b);
    if (const auto a = left.number(), b = right.number(); a && b) return three_way(*a, *b);
    if (const auto* a = left.text(), *b = right.text(); a && b) {
        budget.sweep(std::min(a->size(), b->size()));
        return three_way(a->compare(*b), 0);
    }
    if (const auto* a = left.list(), *b = right.list(); a && b && a->is_tuple == b->is_tuple) {
        for (std::size_t i = 0; i < std::min(a->items.size(), b->items.size()); ++i)
            if (!equal(a->items[i], b->items[i], budget)) return compare(a->items[i], b->items[i], budget);
        return three_way(a->items.size(), b->items.size());
    }
    for (const Value* value : {&left, &right})
        if (const auto* undefined = value->get<Undefined>()) fail(undefined->what() + " is undefined");
    fail(std::string("a ") + left.type_name() + " and a " + right.type_name() + " have no order");
}

std::size_t search(std::string_view text, std::string_view part, bool from_right, Budget& budget) {
    constexpr std::size_t kBytesOfStep = 32;
    if (part.size() > text.size()) return text.npos;
    if (part.empty()) return from_right ? text.size() : 0;
    std::string_view places = text.substr(0, text.size() - part.size() + 1);  // where it may begin
    for (std::size_t begin = 0;;) {
        const std::size_t at = from_right ? places.rfind(part.front()) : places.find(part.front(), begin);
        const std::size_t passed = at == text.npos ? places.size() - begin
                                   : from_right    ? places.size() - at
                                                   : at - begin;
        budget.step(1 + passed / kBytesOfStep);
        if (at == text.npos) return at;
        const auto same = static_cast<std::size_t>(std::ranges::mismatch(part, text.substr(at)).in1 - part.begin());
        budget.step(same / kBytesOfStep);
        if (same == part.size()) return at;
        from_right ? places.remove_suffix(places.size() - at) : void(begin = at + 1);
    }
}

bool contains(const Value& container, const Value& item, Budget& budget) {
    if (const auto* text = container.text()) {
        const auto* part = item.text();
        if (!part) fail(std::string("a string does not contain a ") + item.type_name());
        return search(*text, *part, false, budget) != text->npos;
    }
    if (const auto* dict = container.dict()) return find(*dict, item, budget) != nullptr;
    if (const auto* list = container.list())
        return std::ranges::any_of(list->items, [&](const Value& value) { return equal(value, item, budget); });
    if (container.is_undefined()) return false;
    fail(std::string("a ") + container.type_name() + " contains nothing");
}

const Value* find(const Dict& dict, const Value& key, Budget& budget) {
    const std::string* text = key.text();
    budget.step(1 + dict.items.size() / 8);
    for (const auto& [other, value] : dict.items) {
        const std::string* other_text = other.text();
        if (text && other_text ? equal_texts(*text, *other_text, budget)
                               : !text && !other_text && equal(key, other, budget))
            return &value;
    }
    return nullptr;
}

std::vector<Value> elements(const Value& value, Budget& budget) {
    std::vector<Value> result;
    if (const auto* list = value.list()) {
        budget.step(list->items.size());
        return list->items;
    }
    if (const auto* dict = value.dict()) {
        budget.step(dict->items.size());
        for (const auto& item : dict->items) result.push_back(item.first);
    } else if (const auto* text = value.text()) {
        budget.bytes(text->size() * kElementBytes * 2);
        budget.step(text->size());
        for (std::string_view rest = *text; !rest.empty();) {
            const std::size_t size = first_character(rest).bytes;
            result.emplace_back(rest.substr(0, size));
            rest.remove_prefix(size);
        }
    } else if (!value.is_undefined()) {
        fail(std::string("a ") + value.type_name() + " cannot be looped over");
    }
    return result;
}

std::string to_text(const Value& value, Budget& budget) {
    Text out(budget);
    append_text(out, value, false, budget);
    return out.take();
}

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
    JsonWriter writer(style, budget);
    writer.write(value);
    return writer.take();
}

std::string float_text(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
    const double magnitude = std::fabs(number);
    const bool is_plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
    const auto decimal = vkformer::ShortestDecimal::of(number);
    std::string text = is_plain ? decimal.plain() : decimal.scientific();
    if (is_plain && text.find('.') == text.npos) text += ".0";
    return text;
}

}  // namespace vkformer::text::jinja
