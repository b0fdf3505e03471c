// SPDX-License-Identifier: MIT
#include "text/jinja/text_functions.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "text/unicode.hpp"

namespace vkformer::text::jinja {
namespace {

/// Calls visit(code) for every character.
template <class Visit>
void for_each_character(std::string_view text, Visit visit) {
    while (!text.empty()) {
        const Character character = first_character(text);
        visit(character.code);
        text.remove_prefix(character.bytes);
    }
}

/// For a text like this with other letters, each of which is looked up.
std::string room_for(std::string_view text, Budget& budget) {
    budget.bytes(text.size());
    budget.step(text.size() / 4);
    std::string room;
    room.reserve(text.size());
    return room;
}

/// Letters that become one letter; of those that become several only ß.
void append_upper(std::string& out, char32_t code) {
    if (code == 0xDF) {
        out += "SS";
    } else {
        append_character(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))));
    }
}
void append_title(std::string& out, char32_t code) {
    if (code == 0xDF) {
        out += "Ss";
    } else {
        append_character(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))));
    }
}
void append_lower(std::string& out, char32_t code) {
    if (code == 0x130) {
        out += "i\u0307";
    } else {
        append_character(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    }
}

bool is_cased(char32_t code) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

}  // namespace

std::string upper(std::string_view text, Budget& budget) {
    std::string out = room_for(text, budget);
    for_each_character(text, [&](char32_t code) { append_upper(out, code); });
    return out;
}

std::string lower(std::string_view text, Budget& budget) {
    std::string out = room_for(text, budget);
    for_each_character(text, [&](char32_t code) { append_lower(out, code); });
    return out;
}

std::string capitalize(std::string_view text, Budget& budget) {
    std::string out = room_for(text, budget);
    for_each_character(text, [&](char32_t code) { out.empty() ? append_title(out, code) : append_lower(out, code); });
    return out;
}

std::string title(std::string_view text, Budget& budget) {
    std::string out = room_for(text, budget);
    bool after_letter = false;
    for_each_character(text, [&](char32_t code) {
        after_letter ? append_lower(out, code) : append_title(out, code);
        after_letter = is_cased(code);
    });
    return out;
}

std::string_view strip(std::string_view text, std::optional<std::string_view> set, Sides sides, Budget& budget) {
    const auto goes = [&](char32_t code) {
        budget.step();
        if (!set) return is_python_space(code);
        budget.scan(set->size());
        bool found = false;
        for_each_character(*set, [&](char32_t member) { found |= member == code; });
        return found;
    };
    while (sides.left && !text.empty() && goes(first_character(text).code))
        text.remove_prefix(first_character(text).bytes);
    while (sides.right && !text.empty() && goes(last_character(text).code))
        text.remove_suffix(last_character(text).bytes);
    return text;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to, std::int64_t count,
                    Budget& budget) {
    Text out(budget);
    if (from.empty()) refuse("replacing an empty text");
    for (std::size_t found; count != 0 && (found = search(text, from, false, budget)) != text.npos;) {
        (out += text.substr(0, found)) += to;
        text.remove_prefix(found + from.size());
        if (count > 0) --count;
    }
    out += text;
    return out.take();
}

std::optional<std::string_view> text_argument(const std::optional<Value>& value, std::string_view callee) {
    if (!value || value->is_none()) return std::nullopt;
    if (!value->text()) fail(std::string(callee) + ": a " + value->type_name() + " is no string");
    return *value->text();
}

std::int64_t integer_argument(const std::optional<Value>& value, std::int64_t fallback, std::string_view callee) {
    if (!value || value->is_none()) return fallback;
    if (!value->integer()) fail(std::string(callee) + ": a " + value->type_name() + " is no whole number");
    return *value->integer();
}

}  // namespace vkformer::text::jinja
