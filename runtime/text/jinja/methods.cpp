// SPDX-License-Identifier: MIT
/// "…".strip(), {…}.items(), …
#include <algorithm>
#include <array>
#include <map>

#include "text/jinja/builtins.hpp"
#include "text/jinja/text_functions.hpp"
#include "text/unicode.hpp"

namespace vkformer::text::jinja {
namespace {

using TextMethod = Value (*)(const std::string& self, const Arguments& arguments, Budget& budget);

Value texts(std::vector<std::string_view> parts, Budget& budget) {
    std::vector<Value> items;
    for (const std::string_view part : parts) {
        budget.bytes(part.size());
        items.emplace_back(part);
    }
    return Value::list(std::move(items), budget);
}

template <bool Left, bool Right>
Value strip_method(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("strip", {"chars"});
    budget.bytes(self.size());
    return std::string(strip(self, text_argument(bound[0], "strip"), {.left = Left, .right = Right}));
}

template <std::string (*Map)(std::string_view)>
Value mapped(const std::string& self, const Arguments& arguments, Budget& budget) {
    arguments.bind("the method", {});
    budget.bytes(self.size());
    return Map(self);
}

/// str.split() without a separator: at runs of white space.
std::vector<std::string_view> split_at_spaces(std::string_view text, std::int64_t most, bool from_right) {
    std::vector<std::string_view> parts;
    const auto trim = [&] { text = from_right ? trim_end(text, is_python_space) : trim_start(text, is_python_space); };
    for (trim(); !text.empty(); trim()) {
        if (most-- == 0) {
            parts.push_back(text);
            break;
        }
        std::string_view rest = text;
        while (!rest.empty()) {
            const Character c = from_right ? last_character(rest) : first_character(rest);
            if (is_python_space(c.code)) break;
            from_right ? rest.remove_suffix(c.bytes) : rest.remove_prefix(c.bytes);
        }
        parts.push_back(from_right ? text.substr(rest.size()) : text.substr(0, text.size() - rest.size()));
        text = rest;
    }
    return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t most,
                                       bool from_right) {
    if (separator.empty()) fail("split: the separator is empty");
    std::vector<std::string_view> parts;
    for (; most != 0; --most) {
        const std::size_t found = from_right ? text.rfind(separator) : text.find(separator);
        if (found == text.npos) break;
        parts.push_back(from_right ? text.substr(found + separator.size()) : text.substr(0, found));
        text = from_right ? text.substr(0, found) : text.substr(found + separator.size());
    }
    parts.push_back(text);
    return parts;
}

template <bool FromRight>
Value split_method(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("split", {"sep", "maxsplit"});
    const auto separator = text_argument(bound[0], "split");
    const std::int64_t most = integer_argument(bound[1], -1, "split");
    budget.bytes(self.size() * sizeof(Value));  // as many parts as characters, perhaps
    auto parts = separator ? split_at(self, *separator, most, FromRight) : split_at_spaces(self, most, FromRight);
    if (FromRight) std::ranges::reverse(parts);
    return texts(std::move(parts), budget);
}

Value splitlines(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("splitlines", {"keepends"});
    const bool keeps = bound[0] && is_true(*bound[0]);
    budget.bytes(self.size() * sizeof(Value));
    const auto is_end = [](char32_t c) {
        return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    };
    std::vector<std::string_view> lines;
    const std::string_view text = self;
    for (std::size_t begin = 0, at = 0; at < text.size();) {
        const Character character = first_character(text.substr(at));
        const std::size_t line_end = at;
        at += character.bytes;
        const bool ends = is_end(character.code);
        if (character.code == '\r' && text.substr(at).starts_with('\n')) ++at;
        if (ends) lines.push_back(text.substr(begin, (keeps ? at : line_end) - begin));
        if (!ends && at == text.size()) lines.push_back(text.substr(begin));
        if (ends) begin = at;
    }
    return texts(std::move(lines), budget);
}

/// One text or a tuple of them.
template <bool AtEnd>
Value has_affix(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind(AtEnd ? "endswith" : "startswith", {"prefix"}, 1);
    const std::vector<Value> affixes =
        bound[0]->list() && bound[0]->list()->is_tuple ? elements(*bound[0], budget) : std::vector<Value>{*bound[0]};
    return std::ranges::any_of(affixes, [&](const Value& affix) {
        const std::string text = text_argument(affix, AtEnd ? "endswith" : "startswith").value_or("");
        if (affix.is_none()) fail("startswith: none is no string");
        return AtEnd ? self.ends_with(text) : self.starts_with(text);
    });
}

Value replace_method(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("replace", {"old", "new", "count"}, 2);
    const auto from = text_argument(bound[0], "replace"), to = text_argument(bound[1], "replace");
    if (!from || !to) fail("replace: none is no string");
    return replace(self, *from, *to, integer_argument(bound[2], -1, "replace"), budget);
}

/// The place counted in characters, -1 where there is none.
template <bool FromRight>
Value find_text(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("find", {"sub"}, 1);
    const std::string part = text_argument(bound[0], "find").value_or("");
    budget.step(self.size() / 64);
    const std::size_t found = FromRight ? self.rfind(part) : self.find(part);
    if (found == self.npos) return std::int64_t{-1};
    return static_cast<std::int64_t>(count_characters(std::string_view(self).substr(0, found)));
}

Value count_text(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("count", {"sub"}, 1);
    const std::string part = text_argument(bound[0], "count").value_or("");
    if (part.empty()) return static_cast<std::int64_t>(count_characters(self) + 1);
    budget.step(self.size() / 64);
    std::int64_t count = 0;
    for (std::size_t at = 0; (at = self.find(part, at)) != self.npos; at += part.size()) ++count;
    return count;
}

Value join_method(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("join", {"iterable"}, 1);
    Text out(budget);
    bool is_first = true;
    for (const Value& item : elements(*bound[0], budget)) {
        if (!item.text()) fail(std::string("join: a ") + item.type_name() + " is no string");
        if (!std::exchange(is_first, false)) out += self;
        out += *item.text();
    }
    return out.take();
}

template <bool Suffix>
Value remove_affix(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("removeprefix", {"affix"}, 1);
    const std::string affix = text_argument(bound[0], "removeprefix").value_or("");
    std::string_view text = self;
    if (Suffix ? text.ends_with(affix) : text.starts_with(affix))
        Suffix ? text.remove_suffix(affix.size()) : text.remove_prefix(affix.size());
    budget.bytes(text.size());
    return std::string(text);
}

/// At least one character, and all of them hold.
template <bool (*Holds)(char32_t)>
Value all_characters(const std::string& self, const Arguments& arguments, Budget& budget) {
    arguments.bind("the method", {});
    const auto parts = characters(self, budget);
    return !parts.empty() &&
           std::ranges::all_of(parts, [](std::string_view part) { return Holds(first_character(part).code); });
}
bool is_ascii_digit(char32_t code) {
    if (code >= 0x80) refuse("isdigit beyond ASCII");
    return code >= '0' && code <= '9';
}

const std::map<std::string_view, TextMethod>& text_methods() {
    static const std::map<std::string_view, TextMethod> kMethods = {
        {"strip", strip_method<true, true>},
        {"lstrip", strip_method<true, false>},
        {"rstrip", strip_method<false, true>},
        {"split", split_method<false>},
        {"rsplit", split_method<true>},
        {"splitlines", splitlines},
        {"startswith", has_affix<false>},
        {"endswith", has_affix<true>},
        {"replace", replace_method},
        {"upper", mapped<upper>},
        {"lower", mapped<lower>},
        {"title", mapped<title>},
        {"capitalize", mapped<capitalize>},
        {"find", find_text<false>},
        {"rfind", find_text<true>},
        {"count", count_text},
        {"join", join_method},
        {"removeprefix", remove_affix<false>},
        {"removesuffix", remove_affix<true>},
        {"isdigit", all_characters<is_ascii_digit>},
        {"isspace", all_characters<is_python_space>},
    };
    return kMethods;
}

constexpr std::array kOtherTextMethods = {"format",     "format_map", "encode",       "center",     "ljust",
                                          "rjust",      "zfill",      "partition",    "rpartition", "swapcase",
                                          "isalpha",    "isalnum",    "isupper",      "islower",    "istitle",
                                          "isnumeric",  "isdecimal",  "isidentifier", "index",      "rindex",
                                          "expandtabs", "translate",  "casefold",     "isascii",    "isprintable"};

Value method(std::string_view name, std::function<Value(const Arguments&)> function) {
    return std::make_shared<const Callable>(Callable{std::string(name), std::move(function)});
}

std::optional<Value> find_text_method(const Value& object, std::string_view name, Budget& budget) {
    const auto found = text_methods().find(name);
    if (found == text_methods().end()) {
        if (std::ranges::find(kOtherTextMethods, name) != kOtherTextMethods.end())
            refuse("the method " + std::string(name) + " of a string");
        return std::nullopt;
    }
    return method(name, [self = *object.get<TextPointer>(), call = found->second, &budget](const Arguments& arguments) {
        return call(*self, arguments, budget);
    });
}

std::optional<Value> find_dict_method(const Value& object, std::string_view name, Budget& budget) {
    for (const char* other : {"pop", "popitem", "update", "setdefault", "clear"})
        if (name == other) refuse("the method " + std::string(name) + ": values do not change here, it");
    const DictPointer dict = *object.get<DictPointer>();
    const auto listing = [&](auto part) {
        return method(name, [dict, part, &budget](const Arguments& arguments) {
            arguments.bind("the method", {});
            std::vector<Value> items;
            for (const auto& item : dict->items) items.push_back(part(item));
            return Value::list(std::move(items), budget);
        });
    };
    using Item = std::pair<Value, Value>;
    if (name == "keys") return listing([](const Item& item) { return item.first; });
    if (name == "values") return listing([](const Item& item) { return item.second; });
    if (name == "items")
        return listing([&budget](const Item& item) { return Value::list({item.first, item.second}, budget, true); });
    if (name == "copy") return method(name, [object](const Arguments&) { return object; });
    if (name != "get") return std::nullopt;
    return method(name, [dict, &budget](const Arguments& arguments) {
        const auto bound = arguments.bind("get", {"key", "default"}, 1);
        const Value* found = find(*dict, *bound[0], budget);
        return found ? *found : bound[1].value_or(None());
    });
}

std::optional<Value> find_list_method(const Value& object, std::string_view name, Budget& budget) {
    for (const char* other : {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"})
        if (name == other) refuse("the method " + std::string(name) + ": values do not change here, it");
    if (name == "copy") return method(name, [object](const Arguments&) { return object; });
    if (name != "index" && name != "count") return std::nullopt;
    return method(name,
                  [list = *object.get<ListPointer>(), counts = name == "count", &budget](const Arguments& arguments) {
                      const auto bound = arguments.bind("index", {"value"}, 1);
                      std::int64_t count = 0;
                      for (std::size_t i = 0; i < list->items.size(); ++i) {
                          if (!equal(list->items[i], *bound[0], budget)) continue;
                          if (!counts) return Value(static_cast<std::int64_t>(i));
                          ++count;
                      }
                      if (!counts) fail("index: the list does not contain the value");
                      return Value(count);
                  });
}

}  // namespace

std::optional<Value> find_method(const Value& object, std::string_view name, Budget& budget) {
    if (object.text()) return find_text_method(object, name, budget);
    if (object.dict()) return find_dict_method(object, name, budget);
    if (object.list()) return find_list_method(object, name, budget);
    return std::nullopt;
}

Value item_of(const Value& object, const Value& index, Budget& budget) {
    if (const auto* undefined = object.get<Undefined>()) fail(undefined->what + " is undefined");
    const auto missing = [&] {
        return Value(Undefined{"the member " + to_text(index, budget) + " of a " + object.type_name()});
    };
    if (const auto* dict = object.dict()) {
        const Value* found = find(*dict, index, budget);
        return found ? *found : missing();
    }
    if (const auto* space = object.get<NamespacePointer>()) {
        for (const auto& [name, value] : (*space)->items)
            if (index.text() && name == *index.text()) return value;
        return missing();
    }
    const auto at = index.integer();
    if (!at) return missing();
    const auto place = [&](std::size_t size) -> std::optional<std::size_t> {
        const auto length = static_cast<std::int64_t>(size);
        if (*at >= length || *at < -length) return std::nullopt;
        return static_cast<std::size_t>(*at < 0 ? *at + length : *at);
    };
    if (const auto* list = object.list()) {
        const auto i = place(list->items.size());
        return i ? list->items[*i] : missing();
    }
    if (const auto* text = object.text()) {
        const auto parts = characters(*text, budget);
        const auto i = place(parts.size());
        return i ? Value(parts[*i]) : missing();
    }
    return missing();
}

}  // namespace vkformer::text::jinja
