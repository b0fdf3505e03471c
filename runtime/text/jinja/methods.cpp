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

/// The parts of a text, each paid for.
class Parts {
public:
    explicit Parts(Budget& budget) : budget_(&budget) {}
    void add(std::string_view part) {
        budget_->step();
        budget_->bytes(2 * sizeof(Value) + part.size());
        items_.emplace_back(part);
    }
    Value list(bool is_backwards = false) {
        if (is_backwards) std::ranges::reverse(items_);
        return Value::list(std::move(items_), *budget_);
    }

private:
    Budget* budget_;
    std::vector<Value> items_;
};

template <bool Left, bool Right>
Value strip_method(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("strip", {"chars"});
    budget.bytes(self.size());
    return std::string(strip(self, text_argument(bound[0], "strip"), {.left = Left, .right = Right}, budget));
}

template <std::string (*Map)(std::string_view, Budget&)>
Value mapped(const std::string& self, const Arguments& arguments, Budget& budget) {
    arguments.bind("the method", {});
    return Map(self, budget);
}

/// str.split() without a separator: at runs of white space.
Value split_at_spaces(std::string_view text, std::int64_t most, bool from_right, Budget& budget) {
    Parts parts(budget);
    budget.scan(text.size());
    const auto trim = [&] { text = from_right ? trim_end(text, is_python_space) : trim_start(text, is_python_space); };
    for (trim(); !text.empty(); trim()) {
        if (most-- == 0) {
            parts.add(text);
            break;
        }
        std::string_view rest = text;
        while (!rest.empty()) {
            const Character c = from_right ? last_character(rest) : first_character(rest);
            if (is_python_space(c.code)) break;
            from_right ? rest.remove_suffix(c.bytes) : rest.remove_prefix(c.bytes);
        }
        parts.add(from_right ? text.substr(rest.size()) : text.substr(0, text.size() - rest.size()));
        text = rest;
    }
    return parts.list(from_right);
}

Value split_at(std::string_view text, std::string_view separator, std::int64_t most, bool from_right, Budget& budget) {
    if (separator.empty()) fail("split: the separator is empty");
    Parts parts(budget);
    for (; most != 0; --most) {
        const std::size_t found = search(text, separator, from_right, budget);
        if (found == text.npos) break;
        parts.add(from_right ? text.substr(found + separator.size()) : text.substr(0, found));
        text = from_right ? text.substr(0, found) : text.substr(found + separator.size());
    }
    parts.add(text);
    return parts.list(from_right);
}

template <bool FromRight>
Value split_method(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("split", {"sep", "maxsplit"});
    const auto separator = text_argument(bound[0], "split");
    const std::int64_t most = integer_argument(bound[1], -1, "split");
    return separator ? split_at(self, *separator, most, FromRight, budget)
                     : split_at_spaces(self, most, FromRight, budget);
}

Value splitlines(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("splitlines", {"keepends"});
    const bool keeps = bound[0] && is_true(*bound[0]);
    budget.scan(self.size());
    const auto is_end = [](char32_t c) {
        return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    };
    Parts lines(budget);
    const std::string_view text = self;
    for (std::size_t begin = 0, at = 0; at < text.size();) {
        const Character character = first_character(text.substr(at));
        const std::size_t line_end = at;
        at += character.bytes;
        const bool ends = is_end(character.code);
        if (character.code == '\r' && text.substr(at).starts_with('\n')) ++at;
        if (ends) lines.add(text.substr(begin, (keeps ? at : line_end) - begin));
        if (!ends && at == text.size()) lines.add(text.substr(begin));
        if (ends) begin = at;
    }
    return lines.list();
}

/// One text or a tuple of them.
template <bool AtEnd>
Value has_affix(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind(AtEnd ? "endswith" : "startswith", {"prefix"}, 1);
    const std::vector<Value> affixes =
        bound[0]->list() && bound[0]->list()->is_tuple ? elements(*bound[0], budget) : std::vector<Value>{*bound[0]};
    return std::ranges::any_of(affixes, [&](const Value& affix) {
        if (affix.is_none()) fail("startswith: none is no string");
        const std::string_view text = *text_argument(affix, AtEnd ? "endswith" : "startswith");
        budget.sweep(std::min(text.size(), self.size()));
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
    const std::size_t found = search(self, text_argument(bound[0], "find").value_or(""), FromRight, budget);
    if (found == self.npos) return std::int64_t{-1};
    budget.scan(found);
    return static_cast<std::int64_t>(count_characters(std::string_view(self).substr(0, found)));
}

Value count_text(const std::string& self, const Arguments& arguments, Budget& budget) {
    const auto bound = arguments.bind("count", {"sub"}, 1);
    const std::string_view part = text_argument(bound[0], "count").value_or("");
    std::string_view text = self;
    if (part.empty()) {
        budget.scan(text.size());
        return static_cast<std::int64_t>(count_characters(text) + 1);
    }
    std::int64_t count = 0;
    for (std::size_t at; (at = search(text, part, false, budget)) != text.npos; ++count)
        text.remove_prefix(at + part.size());
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
    const std::string_view affix = text_argument(bound[0], "removeprefix").value_or("");
    std::string_view text = self;
    budget.sweep(std::min(affix.size(), text.size()));
    if (Suffix ? text.ends_with(affix) : text.starts_with(affix))
        Suffix ? text.remove_suffix(affix.size()) : text.remove_prefix(affix.size());
    budget.bytes(text.size());
    return std::string(text);
}

/// At least one character, and all of them hold.
template <bool (*Holds)(char32_t)>
Value all_characters(const std::string& self, const Arguments& arguments, Budget& budget) {
    arguments.bind("the method", {});
    budget.scan(2 * self.size());
    std::string_view rest = self;
    while (!rest.empty() && Holds(first_character(rest).code)) rest.remove_prefix(first_character(rest).bytes);
    return !self.empty() && rest.empty();
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
    budget.step(4);
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
            budget.step(dict->items.size());
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

namespace {

/// The character at a place counted from the front, or from the back where it is negative; nothing beyond the ends.
std::string_view character_at(std::string_view text, std::int64_t at, Budget& budget) {
    const bool from_right = at < 0;
    auto passed = static_cast<std::uint64_t>(from_right ? -(at + 1) : at);
    budget.scan(std::min<std::uint64_t>(text.size(), 4 * std::min<std::uint64_t>(passed, text.size())));
    const auto bytes = [&] { return from_right ? last_character(text).bytes : first_character(text).bytes; };
    for (; passed > 0 && !text.empty(); --passed)
        from_right ? text.remove_suffix(bytes()) : text.remove_prefix(bytes());
    if (text.empty()) return {};
    return from_right ? text.substr(text.size() - bytes()) : text.substr(0, bytes());
}

}  // namespace

Value item_of(const Value& object, const Value& index, Budget& budget) {
    if (const auto* undefined = object.get<Undefined>()) fail(undefined->what() + " is undefined");
    const auto missing = [&] {
        return Value(Undefined{"the member " + to_text(index, budget) + " of a " + object.type_name()});
    };
    if (const auto* dict = object.dict()) {
        const Value* found = find(*dict, index, budget);
        return found ? *found : missing();
    }
    if (const auto* space = object.get<NamespacePointer>()) {
        budget.step((*space)->items.size() / 8);
        for (const auto& [name, value] : (*space)->items)
            if (index.text() && equal_texts(name, *index.text(), budget)) return value;
        return missing();
    }
    const auto at = index.integer();
    if (!at) return missing();
    if (const auto* list = object.list()) {
        const auto length = static_cast<std::int64_t>(list->items.size());
        if (*at >= length || *at < -length) return missing();
        return list->items[static_cast<std::size_t>(*at < 0 ? *at + length : *at)];
    }
    if (const auto* text = object.text())
        if (const std::string_view character = character_at(*text, *at, budget); !character.empty()) return character;
    return missing();
}

}  // namespace vkformer::text::jinja
