// SPDX-License-Identifier: MIT
#include "api/constraints.hpp"

#include <algorithm>
#include <new>

#include "constraints/choice.hpp"
#include "constraints/json_schema.hpp"
#include "constraints/regex.hpp"

namespace vkformer {
namespace {

using Made = Result<std::shared_ptr<const constraints::Grammar>>;

/// What std::bad_alloc says, as an error.
template <class Make>
Made guarded(Make make) {
    try {
        return make();
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfHostMemory, "there is not enough memory for the constraint"};
    }
}

Result<Constraint> with_key(std::string key, Made grammar) {
    if (!grammar) return std::move(grammar).error();
    return ConstraintMaker::make(std::move(key), *std::move(grammar));
}

}  // namespace

Result<Constraint> Constraint::json_schema(std::string_view schema) {
    return with_key("schema " + std::string(schema), guarded([&] { return constraints::json_schema_grammar(schema); }));
}

Result<Constraint> Constraint::json() {
    return with_key("json", guarded([] { return constraints::json_object_grammar(); }));
}

Result<Constraint> Constraint::regex(std::string_view expression) {
    return with_key("regex " + std::string(expression),
                    guarded([&] { return constraints::regex_grammar(expression); }));
}

Result<Constraint> Constraint::choice(std::span<const std::string> texts) {
    std::string key = "choice";
    for (const std::string& text : texts) key += " " + std::to_string(text.size()) + " " + text;
    return with_key(std::move(key), guarded([&] { return constraints::choice_grammar(texts); }));
}

namespace api {

Result<std::shared_ptr<constraints::TokenConstraint>> ConstraintCache::get(const Constraint& constraint,
                                                                           const text::Tokenizer& tokenizer,
                                                                           const std::vector<std::int32_t>& ends,
                                                                           std::size_t vocab) {
    constexpr std::size_t kMostKept = 16;
    const Constraint::Impl& impl = constraint.impl();
    const std::scoped_lock lock(mutex_);
    if (!vocabulary_) {
        auto texts = tokenizer.token_texts();
        if (!texts)
            return Error{texts.error().code, "the model's texts cannot be constrained: " + texts.error().message};
        vocabulary_ = std::make_shared<const constraints::Vocabulary>(*std::move(texts), ends, vocab);
    }
    const auto found =
        std::ranges::find(kept_, impl.key, [](const auto& one) -> const std::string& { return one.first; });
    if (found != kept_.end()) {
        auto known = found->second;
        std::rotate(kept_.begin(), found, found + 1);
        return known;
    }
    auto made = std::make_shared<constraints::TokenConstraint>(impl.grammar, vocabulary_);
    kept_.emplace_front(impl.key, made);
    if (kept_.size() > kMostKept) kept_.pop_back();
    return made;
}

}  // namespace api
}  // namespace vkformer
