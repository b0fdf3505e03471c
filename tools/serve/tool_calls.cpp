// SPDX-License-Identifier: MIT
#include "serve/tool_calls.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view kTag = "<tool_call>", kEndTag = "</tool_call>", kList = "[TOOL_CALLS]",
                           kPython = "<|python_tag|>", kId = "[CALL_ID]", kArguments = "[ARGS]";
constexpr std::size_t kMostDepth = 64, kMostNameBytes = 256;  // and of an id
constexpr std::size_t kMostBlanks = 256;  // that are held back because a call or its arguments may follow

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
}

/// What JSON has outside of texts.
bool is_json_character(char c) {
    return is_blank(c) || (c >= '0' && c <= '9') ||
           std::string_view("{}[]:,+-.eEtrufalsn").find(c) != std::string_view::npos;
}

/// The length of the longest end of `text` that `pattern` begins with.
std::size_t open_end(std::string_view text, std::string_view pattern) {
    for (std::size_t size = std::min(text.size(), pattern.size() - 1); size > 0; --size)
        if (text.ends_with(pattern.substr(0, size))) return size;
    return 0;
}

/// Whether more of a text may make it begin with the pattern.
bool may_become(std::string_view text, std::string_view pattern) {
    return text.size() < pattern.size() && pattern.starts_with(text);
}

/// The value, or one that is discarded; nested no deeper than kMostDepth, for the scanner has seen to that.
json parse(std::string_view text) { return json::parse(text, nullptr, false); }

}  // namespace

CallFormat call_format(std::string_view chat_template) {
    const auto has = [&](std::string_view text) { return chat_template.find(text) != chat_template.npos; };
    if (has(kTag)) return CallFormat::tagged;
    if (has(kList)) return CallFormat::listed;
    if (has(kPython) || (has("\"parameters\"") && has("\"name\""))) return CallFormat::bare;
    return CallFormat::none;
}

bool names_calls(std::string_view chat_template) { return chat_template.find(kArguments) != chat_template.npos; }

std::string_view call_mark(CallFormat format) noexcept {
    switch (format) {
    case CallFormat::tagged: return kTag;
    case CallFormat::listed: return kList;
    default: return kPython;
    }
}

CallReader::CallReader(CallFormat format, std::set<std::string> names, bool streams)
    : format_(format), names_(std::move(names)), streams_(streams) {}

std::vector<AnswerPart> CallReader::push(std::string_view text) {
    if (format_ == CallFormat::none) {
        if (!text.empty()) give(AnswerPart::Kind::content, std::string(text));
    } else {
        held_ += text;
        while (step(false)) {
        }
    }
    return std::exchange(parts_, {});
}

std::vector<AnswerPart> CallReader::finish() {
    while (step(true)) {
    }
    return std::exchange(parts_, {});
}

/// One state's work; false: it waits for more text.
bool CallReader::step(bool is_end) {
    switch (state_) {
    case State::text: return read_text(is_end);
    case State::opening: return read_opening(is_end);
    case State::object: return read_object(is_end);
    case State::closing: return read_closing(is_end);
    case State::spoiled: return read_spoiled(is_end);
    }
    return false;
}

void CallReader::give(AnswerPart::Kind kind, std::string text) {
    if (kind == AnswerPart::Kind::content && !parts_.empty() && parts_.back().kind == kind)
        parts_.back().text += text;
    else
        parts_.push_back({.kind = kind, .text = std::move(text), .call = calls_ == 0 ? 0 : calls_ - 1});
}

/// Where the blanks end that begin there.
std::size_t CallReader::blank_end(std::size_t from) const {
    while (from < held_.size() && is_blank(held_[from])) ++from;
    return from;
}

/// Where the name or id ends that begins there.
std::size_t CallReader::word_end(std::size_t from) const {
    while (from < held_.size() && is_name_character(held_[from])) ++from;
    return from;
}

void CallReader::return_to_text() {
    state_ = State::text;
    at_ = 0;
    is_tagged_ = is_listed_ = is_begun_ = false;
}

/// What was looked at of a call is content.
void CallReader::break_off() {
    give(AnswerPart::Kind::content, held_.substr(0, at_));
    held_.erase(0, at_);
    is_first_ = false;
    return_to_text();
}

/// What was given out of a call is broken.
void CallReader::end_broken() {
    give(AnswerPart::Kind::call_end, {});
    parts_.back().is_broken = true;
}

/// Gives out what is said, but for blanks that may be before a call.
bool CallReader::read_text(bool is_end) {
    const std::size_t first = blank_end(0);
    if (format_ == CallFormat::bare && is_first_ && first < held_.size() && held_[first] == '{') {
        at_ = first;
        state_ = State::opening;
        return true;
    }
    const std::size_t found = held_.find(marker());
    const bool is_found = found != held_.npos;
    std::size_t end = is_found ? found : is_end ? held_.size() : held_.size() - open_end(held_, marker());
    const std::size_t marker_begin = end;
    if (is_found || !is_end || calls_ > 0)
        while (end > 0 && marker_begin - end < kMostBlanks && is_blank(held_[end - 1])) --end;
    if (end > 0) {
        give(AnswerPart::Kind::content, held_.substr(0, end));
        is_first_ = false;
    }
    if (!is_found) {
        held_.erase(0, is_end ? held_.size() : end);
        return false;
    }
    held_.erase(0, end);
    at_ = marker_begin - end + marker().size();
    is_tagged_ = true;
    state_ = State::opening;
    return true;
}

/// Up to the arguments of a call that begins with its name; false: it waits for more text. What is none stays before.
bool CallReader::read_name(bool is_end) {
    const std::size_t name_begin = at_, name_end = word_end(at_);
    std::size_t end = name_end;
    // Whether a mark is there, or nothing that may become one, at `end`.
    const auto is_settled = [&](std::string_view mark) {
        const std::string_view rest = std::string_view(held_).substr(end);
        return is_end || (!rest.empty() && !may_become(rest, mark));
    };
    const auto has = [&](std::string_view mark) { return std::string_view(held_).substr(end).starts_with(mark); };
    if (name_end - name_begin > kMostNameBytes) return true;
    if (!is_settled(kId) || !is_settled(kArguments)) return false;
    if (has(kId)) {
        const std::size_t id_begin = end + kId.size();
        end = word_end(id_begin);
        if (end - id_begin > kMostNameBytes) return true;
        if (!is_settled(kArguments)) return false;
    }
    if (has(kArguments)) end += kArguments.size();
    const std::size_t blanks = end;
    end = blank_end(end);
    if (end - blanks > kMostBlanks) return true;
    if (end == held_.size() && !is_end) return false;
    object_.name = held_.substr(name_begin, name_end - name_begin);
    object_.is_arguments = true;
    at_ = end;
    return true;
}

/// Behind a marker, or between the calls of a list.
bool CallReader::read_opening(bool is_end) {
    at_ = blank_end(at_);
    if (at_ == held_.size()) {
        if (is_end) break_off();
        return false;
    }
    if (held_[at_] == '[' && format_ == CallFormat::listed && !is_listed_) {
        is_listed_ = true;
        ++at_;
        return true;
    }
    object_ = {};
    is_begun_ = false;
    const bool may_be_named = format_ == CallFormat::listed && !is_listed_ && is_name_character(held_[at_]);
    if (may_be_named && !read_name(is_end)) return false;
    if (at_ == held_.size() || held_[at_] != '{') {
        break_off();
        return true;
    }
    object_.begin = at_;
    if (object_.is_arguments) object_.arguments_begin = object_.given = at_;
    state_ = State::object;
    return true;
}

bool CallReader::read_object(bool is_end) {
    while (at_ < held_.size()) {
        if (!scan(held_[at_])) {
            if (!is_begun_)
                break_off();
            else if (object_.arguments_end)
                end_arguments();
            else
                state_ = State::spoiled;
            return true;
        }
        ++at_;
        if (object_.depth == 0) return end_object();
        const bool is_known = object_.name && !object_.name->empty() && object_.arguments_begin;
        if (streams_ && !is_begun_ && is_known && !begin_call()) return true;
    }
    if (is_begun_) give_arguments(std::min(at_, object_.arguments_end.value_or(at_)));
    if (!is_end) return false;
    if (is_begun_) {
        end_broken();
        held_.clear();
        return_to_text();
    } else {
        break_off();
    }
    return true;
}

/// Takes a character of the object; false: it is none of JSON's.
bool CallReader::scan(char c) {
    Object& o = object_;
    if (o.in_string) {
        if (static_cast<unsigned char>(c) < 0x20) return false;
        if (std::exchange(o.is_escaped, !o.is_escaped && c == '\\') || c != '"') return true;
        o.in_string = false;
        if (o.depth != 1 || o.is_arguments) return true;
        const std::string_view text = std::string_view(held_).substr(o.string_begin, at_ + 1 - o.string_begin);
        if (!o.has_colon) {
            o.key = text;
        } else if (o.key == "\"name\"" && !o.name) {
            const json name = parse(text);
            if (!name.is_string()) return false;
            o.name = name.get<std::string>();
        }
        return true;
    }
    if (c == '"') {
        o.in_string = true;
        o.string_begin = at_;
        return true;
    }
    if (!is_json_character(c)) return false;
    if (c == '{' || c == '[') {
        if (++o.depth > kMostDepth) return false;
        const bool is_value = o.depth == 2 && o.has_colon && !o.is_arguments && !o.arguments_begin;
        if (is_value && c == '{' && (o.key == "\"arguments\"" || o.key == "\"parameters\"")) {
            o.arguments_begin = o.given = at_;
            o.has_open_arguments = true;
        }
    } else if (c == '}' || c == ']') {
        --o.depth;
        if (o.depth == 1 && std::exchange(o.has_open_arguments, false)) o.arguments_end = at_ + 1;
        if (o.depth == 0 && o.is_arguments) o.arguments_end = at_ + 1;
    } else if (o.depth == 1 && (c == ':' || c == ',')) {
        o.has_colon = c == ':';
    }
    return true;
}

/// Gives the name out; false: there is no such tool, and what has only the form of a call is none.
bool CallReader::begin_call() {
    if (!is_tagged_ && !names_.contains(*object_.name)) {
        break_off();
        return false;
    }
    ++calls_;
    is_begun_ = true;
    give(AnswerPart::Kind::call, *object_.name);
    return true;
}

/// The arguments up to there, and nothing of what is around them.
void CallReader::give_arguments(std::size_t end) {
    Object& o = object_;
    if (end > o.given) give(AnswerPart::Kind::arguments, held_.substr(o.given, end - o.given));
    o.given = std::max(o.given, end);
    // A long text is not kept twice. What scan() needs are places from here on.
    constexpr std::size_t kKept = 4096;
    const std::size_t drop = o.in_string ? std::min(o.given, o.string_begin) : o.given;
    if (drop < kKept) return;
    held_.erase(0, drop);
    at_ -= drop;
    o.given -= drop;
    o.string_begin -= std::min(o.string_begin, drop);
    if (o.arguments_end) *o.arguments_end -= drop;
}

/// They are whole, and what follows belongs to no call.
void CallReader::end_arguments() {
    give_arguments(*object_.arguments_end);
    give(AnswerPart::Kind::call_end, {});
    is_first_ = false;
    held_.erase(0, *object_.arguments_end);
    return_to_text();
}

/// The object is whole.
bool CallReader::end_object() {
    Object& o = object_;
    if (!is_begun_) {
        const json whole = parse(std::string_view(held_).substr(o.begin, at_ - o.begin));
        std::string arguments = "{}";
        const auto given = [&]() -> const json* {
            for (const char* const name : {"arguments", "parameters"})
                if (const auto found = whole.find(name); found != whole.end()) return &*found;
            return nullptr;
        };
        bool is_call = whole.is_object() && o.name && !o.name->empty();
        if (is_call && o.arguments_begin) {
            arguments = held_.substr(*o.arguments_begin, *o.arguments_end - *o.arguments_begin);
        } else if (const json* const text = is_call ? given() : nullptr; text && !text->is_null()) {
            if (text->is_string()) arguments = text->get<std::string>();  // an object in a text
            is_call = text->is_string() && parse(arguments).is_object();
        }
        if (!is_call) {
            break_off();
            return true;
        }
        if (!begin_call()) return true;
        give(AnswerPart::Kind::arguments, std::move(arguments));
    } else {
        give_arguments(o.arguments_end.value_or(at_));
    }
    give(AnswerPart::Kind::call_end, {});
    is_first_ = false;
    held_.erase(0, at_);
    at_ = 0;
    state_ = State::closing;
    return true;
}

/// Behind a call: its end tag, or the next one of a list.
bool CallReader::read_closing(bool is_end) {
    const std::size_t first = blank_end(0);
    const std::string_view rest = std::string_view(held_).substr(first);
    if (rest.empty() && first < kMostBlanks) {
        if (is_end) held_.clear();
        return false;
    }
    if (rest.empty()) {
        return_to_text();
        return true;
    }
    const char c = rest[0];
    if (format_ == CallFormat::tagged) {
        if (!is_end && may_become(rest, kEndTag)) return false;
        if (rest.starts_with(kEndTag)) held_.erase(0, first + kEndTag.size());
        return_to_text();
        return true;
    }
    if (format_ == CallFormat::listed && is_listed_ && (c == ',' || c == ']')) {
        if (c == ']') {
            held_.erase(0, first + 1);
            return_to_text();
            return true;
        }
    } else if (format_ != CallFormat::bare || (c != ';' && c != ',' && c != '{')) {
        return_to_text();
        return true;
    }
    at_ = c == '{' ? first : first + 1;
    state_ = State::opening;
    return true;
}

/// The rest of a call that was begun and is broken: to its end tag, or to the end.
bool CallReader::read_spoiled(bool is_end) {
    const std::size_t found = format_ == CallFormat::tagged ? held_.find(kEndTag, object_.given) : held_.npos;
    std::size_t end = found;
    if (found == held_.npos) end = is_end ? held_.size() : held_.size() - open_end(held_, kEndTag);
    if (end > object_.given) give(AnswerPart::Kind::arguments, held_.substr(object_.given, end - object_.given));
    held_.erase(0, std::max(end, object_.given));
    object_.given = 0;
    if (found == held_.npos && !is_end) return false;
    end_broken();
    if (found != std::string::npos) held_.erase(0, kEndTag.size());
    is_first_ = false;
    return_to_text();
    return !held_.empty();
}

}  // namespace vkformer::serve
