// SPDX-License-Identifier: MIT
/// An answer that comes in pieces, as what is said and what is called.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/tool_calls.hpp"
#include "serve/tools.hpp"

namespace vkformer::serve {

struct ToolCall {
    std::string id, name, arguments;
    bool is_broken = false;  ///< in streams alone, where the rest of it is given out
};

/// Keeps what has come, too.
class AnswerReader {
public:
    /// `id_prefix`: of the calls' ids, "call_".
    AnswerReader(const Tools& tools, bool streams, std::string_view id_prefix);

    std::vector<AnswerPart> push(std::string_view text) { return keep(reader_.push(text)); }
    std::vector<AnswerPart> finish() { return keep(reader_.finish()); }

    const std::string& content() const noexcept { return content_; }
    const std::vector<ToolCall>& calls() const noexcept { return calls_; }
    /// There are some to be done: who gets a broken one is told so by how the answer ends, and does none.
    bool has_whole_calls() const noexcept;
    /// The one call has come that was allowed: the rest is not wanted.
    bool is_enough() const noexcept { return one_call_ && ended_calls_ > 0; }

private:
    std::vector<AnswerPart> keep(std::vector<AnswerPart> parts);
    std::string make_id() const;

    CallReader reader_;
    CallFormat format_;
    bool one_call_;
    std::string id_prefix_;
    std::string content_;
    std::vector<ToolCall> calls_;
    std::size_t ended_calls_ = 0;
};

}  // namespace vkformer::serve
