// SPDX-License-Identifier: MIT
#include "serve/answer_reader.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "serve/generation_fields.hpp"

namespace vkformer::serve {

AnswerReader::AnswerReader(const Tools& tools, bool streams, std::string_view id_prefix)
    : reader_(tools.format, tools.names, streams),
      format_(tools.format),
      one_call_(tools.one_call && tools),
      id_prefix_(id_prefix) {
    if (!tools.answer_prefix.empty()) push(tools.answer_prefix);
}

/// Mistral's templates take ids of nine letters and digits alone.
std::string AnswerReader::make_id() const {
    return format_ == CallFormat::listed ? new_id("").substr(0, 9) : new_id(id_prefix_);
}

bool AnswerReader::has_whole_calls() const noexcept {
    return !calls_.empty() && std::ranges::none_of(calls_, &ToolCall::is_broken);
}

/// Behind the one call that is allowed there is nothing.
std::vector<AnswerPart> AnswerReader::keep(std::vector<AnswerPart> parts) {
    using Kind = AnswerPart::Kind;
    for (auto part = parts.begin(); part != parts.end(); ++part) {
        if (is_enough()) {
            parts.erase(part, parts.end());
            break;
        }
        switch (part->kind) {
        case Kind::content: content_ += part->text; break;
        case Kind::call: calls_.push_back({.id = make_id(), .name = part->text, .arguments = {}}); break;
        case Kind::arguments: calls_.back().arguments += part->text; break;
        case Kind::call_end:
            part->is_broken = part->is_broken || !nlohmann::json::accept(calls_.back().arguments);
            calls_.back().is_broken = part->is_broken;
            ++ended_calls_;
            break;
        }
    }
    return parts;
}

}  // namespace vkformer::serve
