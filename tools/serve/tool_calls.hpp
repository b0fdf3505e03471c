// SPDX-License-Identifier: MIT
/// Calls of tools, as models write them into their answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace vkformer::serve {

/// How a family of models writes them.
enum class CallFormat : std::uint8_t {
    none,
    tagged,  ///< <tool_call>{"name": …, "arguments": {…}}</tool_call>, of Hermes and Qwen
    listed,  ///< [TOOL_CALLS][{"name": …, "arguments": {…}}, …] or [TOOL_CALLS]name[CALL_ID]id[ARGS]{…}, of Mistral; id and marks may lack
    bare,    ///< {"name": …, "parameters": {…}}, perhaps behind <|python_tag|>, as a whole answer: of Llama 3
};
/// By what the model's chat template writes before the calls of a conversation.
CallFormat call_format(std::string_view chat_template);
/// Whether a template of CallFormat::listed writes each call behind a mark of its own, by its tool's name, rather than a list.
bool names_calls(std::string_view chat_template);
/// What a call begins with. Requires a format.
std::string_view call_mark(CallFormat format) noexcept;

/// A piece of an answer.
struct AnswerPart {
    enum class Kind : std::uint8_t {
        content,
        call,       ///< begins: `text` is the tool's name
        arguments,  ///< a piece of the JSON object
        call_end,
    };
    Kind kind = Kind::content;
    std::string text;
    std::size_t call = 0;    ///< which, counted from 0
    bool is_broken = false;  ///< of call_end: its arguments are cut, or no JSON
};

/// Parts what is said from what is called. A call that is broken is content, as it was written. Time is in proportion to the text.
class CallReader {
public:
    /// `names`: of the tools that there are. `streams`: arguments come as they are written, once the name is known: what turns out to be
    /// broken then stays in the arguments. Else a call comes when it is whole.
    CallReader(CallFormat format, std::set<std::string> names, bool streams);

    std::vector<AnswerPart> push(std::string_view text);
    /// What was held back. Nothing may be pushed after it.
    std::vector<AnswerPart> finish();
    std::size_t calls() const noexcept { return calls_; }

private:
    enum class State : std::uint8_t { text, opening, object, closing, spoiled };

    bool step(bool is_end);
    bool read_text(bool is_end);
    bool read_opening(bool is_end);
    bool read_object(bool is_end);
    bool read_closing(bool is_end);
    bool read_spoiled(bool is_end);
    bool scan(char c);
    bool begin_call();
    bool end_object();
    void give(AnswerPart::Kind kind, std::string text);
    void give_arguments(std::size_t end);
    void end_arguments();
    void break_off();
    void end_broken();
    void return_to_text();
    std::size_t blank_end(std::size_t from) const;
    std::size_t word_end(std::size_t from) const;
    bool read_name(bool is_end);
    std::string_view marker() const noexcept { return call_mark(format_); }

    CallFormat format_;
    std::set<std::string> names_;
    bool streams_;
    std::vector<AnswerPart> parts_;
    std::size_t calls_ = 0;

    State state_ = State::text;
    std::string held_;        // what was not given out yet
    std::size_t at_ = 0;      // of it, what was looked at
    bool is_first_ = true;    // nothing but blanks was said
    bool is_tagged_ = false;  // the call has a marker, not only the form
    bool is_listed_ = false;  // more calls may follow in the list
    bool is_begun_ = false;   // the call was given out

    // The object at hand; places are in held_.
    struct Object {
        std::size_t begin = 0, depth = 0, string_begin = 0;
        bool in_string = false, is_escaped = false, has_colon = false, has_open_arguments = false;
        std::string key;
        std::optional<std::string> name;
        std::optional<std::size_t> arguments_begin, arguments_end;
        std::size_t given = 0;      // up to here arguments were given out
        bool is_arguments = false;  // the object itself
    };
    Object object_;
};

}  // namespace vkformer::serve
