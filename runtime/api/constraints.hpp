// SPDX-License-Identifier: MIT
/// The public constraints with a model's vocabulary.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "constraints/grammar.hpp"
#include "constraints/token_constraint.hpp"
#include "text/tokenizer.hpp"
#include "vkformer/constraint.hpp"

namespace vkformer {

struct Constraint::Impl {
    std::string key;  ///< what it was made of: equal for equal ones
    std::shared_ptr<const constraints::Grammar> grammar;
};

/// Makes those of any grammar, of which the public functions have four kinds.
struct ConstraintMaker {
    /// `grammar` is not null.
    static Constraint make(std::string key, std::shared_ptr<const constraints::Grammar> grammar) {
        return Constraint(std::make_shared<const Constraint::Impl>(Constraint::Impl{std::move(key), std::move(grammar)}));
    }
};

namespace api {

/// Of one model. What is found out about a constraint is kept for the next request that has it, of some that came last. Thread-safe.
class ConstraintCache {
public:
    /// `ends`: tokens that end a text; `vocab`: tokens that the model chooses from. The tokenizer's texts are read when they are first
    /// asked for. Errors: UnsupportedConfig (a tokenizer whose tokens have no text each).
    Result<std::shared_ptr<constraints::TokenConstraint>> get(const Constraint& constraint,
                                                              const text::Tokenizer& tokenizer,
                                                              const std::vector<std::int32_t>& ends, std::size_t vocab);

private:
    std::mutex mutex_;
    std::shared_ptr<const constraints::Vocabulary> vocabulary_;
    std::deque<std::pair<std::string, std::shared_ptr<constraints::TokenConstraint>>> kept_;  // the last one in front
};

}  // namespace api
}  // namespace vkformer
