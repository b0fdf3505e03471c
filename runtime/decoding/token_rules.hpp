// SPDX-License-Identifier: MIT
/// models::TokenRules as nodes of a step, for all kinds of models.
#pragma once

#include "graph/builders.hpp"
#include "models/generation_config.hpp"

namespace vkformer::decoding {

/// The end and the padding of graph::greedy_step where the host ends sequences, for it looks at every token anyway.
inline constexpr std::int32_t kNoToken = -1;

/// Where in its row a step stands.
struct StepPlace {
    graph::Value starts;     ///< i32 [rows], position of the step's input
    graph::Value begins;     ///< i32 [rows], position of a row's first token that is not given; absent: 1
    graph::Value sequences;  ///< i32 [rows, capacity], a row's tokens; absent where no rule looks back
};

/// Logits or log-probabilities f32 [rows, vocab] with rules.biases added.
Result<graph::Value> add_biases(graph::Graph& graph, graph::Value logits, const StepPlace& place,
                                const models::TokenRules& rules);

/// The same with −∞ for a token that would complete one of rules.banned_words, and for rules.banned_first in a row's first
/// `first_steps` steps. What is banned wherever it stands, and what is forced, is the caller's: graph::mask_logits does both at once.
Result<graph::Value> ban_words(graph::Graph& graph, graph::Value logits, const StepPlace& place,
                               const models::TokenRules& rules, std::uint32_t first_steps = 1);

/// The last token that a sequence may have, at a step that differs from row to row.
struct LastStep {
    graph::Value
        countdown;        ///< state i32 [rows, 1]: minus the steps that a row runs before its last one; a step adds 1
    graph::Value logits;  ///< with −∞ for all but rules.forced_last in a row's last step
};
Result<LastStep> force_last(graph::Graph& graph, graph::Value logits, const models::TokenRules& rules);

/// Errors: InvalidArgument (a token that is not below `vocab`, a bias that is no number).
Result<void> check_rules(const models::TokenRules& rules, std::uint64_t vocab);

}  // namespace vkformer::decoding
