// SPDX-License-Identifier: MIT
#include "constraints/choice.hpp"

#include "core/try.hpp"
#include "text/unicode.hpp"

namespace vkformer::constraints {

Result<std::shared_ptr<const Grammar>> choice_grammar(std::span<const std::string> texts) {
    for (const std::string& text : texts) {
        VKFORMER_CHECK(text::check_utf8(text));
        if (text.empty()) return Error{ErrorCode::InvalidArgument, "an empty text cannot be chosen"};
    }
    if (texts.empty()) return Error{ErrorCode::InvalidArgument, "there are no texts to choose from"};
    GrammarBuilder builder;
    const RuleId all = builder.add_rule();
    builder.empty(builder.one_of(builder.rule(all).begin, {texts.begin(), texts.end()}), builder.rule(all).end);
    auto made = builder.finish(all);
    if (!made) return Error{ErrorCode::InvalidArgument, "the choice: " + made.error().message};
    return made;
}

}  // namespace vkformer::constraints
