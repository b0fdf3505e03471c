// SPDX-License-Identifier: MIT
#include "serve/answer_reader.hpp"

#include <algorithm>

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
        case Kind::call_end: ++ended_calls_; break;
        }
    }
    return parts;
}

}  // namespace vkformer::serve
