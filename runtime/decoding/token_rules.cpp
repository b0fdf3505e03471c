// SPDX-License-Identifier: MIT
#include "decoding/token_rules.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "core/try.hpp"
#include "decoding/script.hpp"
#include "graph/builders/constant.hpp"

namespace vkformer::decoding {
using graph::Graph;
using graph::Value;

Result<Value> add_biases(Graph& graph, Value logits, const StepPlace& place, const models::TokenRules& rules) {
    if (rules.biases.empty()) return logits;
    return graph::bias_sequences(graph, logits, place.starts, rules.biases, place.sequences);
}

Result<Value> ban_words(Graph& graph, Value logits, const StepPlace& place, const models::TokenRules& rules,
                        std::uint32_t first_steps) {
    if (!rules.banned_words.empty()) {
        std::vector<graph::SequenceBias> words;
        for (const auto& word : rules.banned_words)
            words.push_back({.tokens = word, .bias = -std::numeric_limits<float>::infinity()});
        VKFORMER_TRY(logits, graph::bias_sequences(graph, logits, place.starts, words, place.sequences));
    }
    if (rules.banned_first.empty()) return logits;
    return graph::mask_logits(graph, logits, place.starts,
                              {.late = rules.banned_first, .late_steps = first_steps, .begins = place.begins});
}

Result<LastStep> force_last(Graph& graph, Value logits, const models::TokenRules& rules) {
    const std::uint64_t rows = graph.shape(logits)[0];
    LastStep last;
    const std::string size = "." + std::to_string(rows);  // programs of other sizes may share the session
    VKFORMER_TRY(last.countdown, graph.state("countdown" + size, DType::i32, {rows, 1}));
    VKFORMER_TRY(const Value steps, graph.reshape(last.countdown, {rows}));
    VKFORMER_TRY(last.logits,
                 graph::mask_logits(graph, logits, steps, {.forced_last = rules.forced_last, .last_start = 0}));
    // A step counts as a token of a vocabulary of one.
    std::vector<std::int32_t> zeros(rows, 0);
    VKFORMER_TRY(const Value token, graph::constant(graph, "rules.zeros" + size, {rows}, std::move(zeros)));
    VKFORMER_CHECK(graph::count_tokens(graph, token, last.countdown, graph::TokenOrigin::generated));
    return last;
}

Result<void> check_rules(const models::TokenRules& rules, std::uint64_t vocab) {
    for (const std::int32_t token : rules.banned)
        VKFORMER_CHECK(check_token("a token of suppress_tokens or bad_words_ids", token, vocab));
    for (const auto& word : rules.banned_words)
        for (const std::int32_t token : word) VKFORMER_CHECK(check_token("a token of bad_words_ids", token, vocab));
    for (const std::int32_t token : rules.banned_first)
        VKFORMER_CHECK(check_token("a token of begin_suppress_tokens", token, vocab));
    for (const auto& [tokens, bias] : rules.biases) {
        for (const std::int32_t token : tokens) VKFORMER_CHECK(check_token("a token of sequence_bias", token, vocab));
        if (std::isnan(bias)) return Error{ErrorCode::InvalidArgument, "a bias of sequence_bias is not a number"};
    }
    if (rules.forced_first != -1) VKFORMER_CHECK(check_token("forced_bos_token_id", rules.forced_first, vocab));
    if (rules.forced_last != -1) VKFORMER_CHECK(check_token("forced_eos_token_id", rules.forced_last, vocab));
    return {};
}

}  // namespace vkformer::decoding
