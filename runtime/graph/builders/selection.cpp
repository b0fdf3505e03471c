// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "core/ceil_div.hpp"
#include "core/stable_order.hpp"
#include "graph/builders.hpp"
#include "graph/builders/check.hpp"
#include "graph/builders/constant.hpp"

namespace vkformer::graph {
namespace {

constexpr std::uint64_t kMaxTopK = 128, kMaxRoutedExperts = 32, kMaxRouteGroups = 64;
constexpr std::string_view kLogitsLayout = "[rows, vocab]";

Result<void> check_logits(const OperandCheck& check, Value x) {
    VKFORMER_CHECK(check.dtype("x", x, DType::f32));
    return check.rank("x", x, kLogitsLayout);
}

Result<void> check_token(const OperandCheck& check, std::string_view name, std::int32_t token, std::uint64_t vocab) {
    if (token >= 0 && static_cast<std::uint64_t>(token) < vocab) return {};
    return check.error(ErrorCode::InvalidArgument, std::string(name) + " token is " + std::to_string(token) +
                                                       ", expected 0 to " + std::to_string(vocab - 1));
}

Result<void> check_sequences(const OperandCheck& check, const Graph& graph, Value sequences, std::uint64_t rows) {
    VKFORMER_CHECK(check.dtype("sequences", sequences, DType::i32));
    VKFORMER_CHECK(check.rank("sequences", sequences, "[rows, capacity]"));
    return check.shape("sequences", sequences, {rows, graph.shape(sequences)[1]}, "rows of x");
}

Result<void> check_begins(const OperandCheck& check, Value begins, std::uint64_t rows) {
    VKFORMER_CHECK(check.dtype("begins", begins, DType::i32));
    return check.shape("begins", begins, {rows}, "rows of x");
}

/// The tokens as a weight; absent where there are none.
Result<Value> list_of(Graph& graph, const std::vector<std::int32_t>& list) {
    if (list.empty()) return Value{};
    return constant(graph, "mask_logits.banned", {list.size()}, list);
}

/// i32 [sources, len], a divisor of `rows` rows.
Result<void> check_source(const OperandCheck& check, const Graph& graph, Value source, std::uint64_t rows) {
    VKFORMER_CHECK(check.dtype("source", source, DType::i32));
    VKFORMER_CHECK(check.rank("source", source, "[sources, len]"));
    const Shape& shape = graph.shape(source);
    if (shape[0] > 0 && rows % shape[0] == 0) return {};
    return check.error(ErrorCode::ShapeMismatch, "source has shape " + to_string(shape) +
                                                     ", expected a divisor of the " + std::to_string(rows) +
                                                     " rows of x as its rows");
}

Result<void> check_phrases(const OperandCheck& check, std::span<const SequenceBias> phrases, std::uint64_t vocab) {
    if (phrases.empty()) return check.error(ErrorCode::InvalidArgument, "there are no phrases");
    for (const SequenceBias& phrase : phrases) {
        if (phrase.tokens.empty()) return check.error(ErrorCode::InvalidArgument, "a phrase has no tokens");
        for (const std::int32_t token : phrase.tokens) VKFORMER_CHECK(check_token(check, "phrase", token, vocab));
        if (std::isnan(phrase.bias)) return check.error(ErrorCode::InvalidArgument, "a bias is not a number");
    }
    return {};
}

Result<void> check_penalties(const OperandCheck& check, const PenalizeOptions& options) {
    if (!(options.repetition > 0) || !std::isfinite(options.repetition))
        return check.error(ErrorCode::InvalidArgument,
                           "repetition is " + std::to_string(options.repetition) + ", expected a positive number");
    for (const auto& [name, penalty] :
         {std::pair{"presence", options.presence}, std::pair{"frequency", options.frequency}})
        if (!std::isfinite(penalty))
            return check.error(ErrorCode::InvalidArgument,
                               std::string(name) + " is " + std::to_string(penalty) + ", expected a finite number");
    const bool counts = options.repetition != 1 || options.presence != 0 || options.frequency != 0;
    if (counts && !options.counts)
        return check.error(ErrorCode::InvalidArgument, "counts is absent, but there are penalties");
    return {};
}

/// Groups that leave at least k experts.
Result<void> check_groups(const OperandCheck& check, const RouteGroups& groups, std::uint64_t experts,
                          std::uint64_t k) {
    VKFORMER_CHECK(check.range("groups", groups.count, 1, kMaxRouteGroups));
    if (experts % groups.count != 0)
        return check.error(ErrorCode::ShapeMismatch, "x has " + std::to_string(experts) +
                                                         " experts, expected a multiple of the " +
                                                         std::to_string(groups.count) + " groups");
    const std::uint64_t each = experts / groups.count;
    VKFORMER_CHECK(check.range("kept groups", groups.kept, ceil_div(k, each), groups.count));
    return check.range("best experts of a group", groups.best, 1, std::min<std::uint64_t>(each, 2));
}

}  // namespace

Result<Value> log_softmax(Graph& graph, Value x) {
    const OperandCheck check(graph, LogSoftmax::kName);
    VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check.rank("x", x, kLogitsLayout));

    const Shape shape = graph.shape(x);
    VKFORMER_TRY(const Value y, graph.activation(LogSoftmax::kName, DType::f32, shape));
    graph.add_node(LogSoftmax{.x = x, .y = y});
    return y;
}

Result<Value> arg_max(Graph& graph, Value x) {
    const OperandCheck check(graph, ArgMax::kName);
    VKFORMER_CHECK(check_logits(check, x));

    VKFORMER_TRY(const Value y, graph.activation(ArgMax::kName, DType::i32, {graph.shape(x)[0]}));
    graph.add_node(ArgMax{.x = x, .y = y});
    return y;
}

Result<TopKResult> top_k(Graph& graph, Value x, std::uint32_t k) {
    const OperandCheck check(graph, TopK::kName);
    VKFORMER_CHECK(check_logits(check, x));
    VKFORMER_CHECK(check.range("k", k, 1, std::min(graph.shape(x)[1], kMaxTopK)));

    const Shape shape = graph.shape(x).with_back(k);
    VKFORMER_TRY(const Value values, graph.activation("top_k.values", DType::f32, shape));
    VKFORMER_TRY(const Value indices, graph.activation("top_k.indices", DType::i32, shape));
    graph.add_node(TopK{.x = x, .values = values, .indices = indices});
    return TopKResult{.values = values, .indices = indices};
}

Result<RouteResult> route_top_k(Graph& graph, Value x, const RouteOptions& options) {
    const OperandCheck check(graph, RouteTopK::kName);
    VKFORMER_CHECK(check.dtype("x", x, DType::f32));
    VKFORMER_CHECK(check.rank("x", x, "[rows, experts]"));
    const std::uint64_t experts = graph.shape(x)[1];
    VKFORMER_CHECK(check.range("k", options.k, 1, std::min(experts, kMaxRoutedExperts)));
    if (options.bias) {
        VKFORMER_CHECK(check.dtype("bias", options.bias, DType::f32));
        VKFORMER_CHECK(check.shape("bias", options.bias, {experts}, "experts of x"));
    }

    VKFORMER_CHECK(check_groups(check, options.groups, experts, options.k));
    const bool has_jitter = options.jitter >= 0 && options.jitter <= 1e3f;
    if (options.scores == RouteScores::sparse_mixer && (!has_jitter || options.bias || options.groups.count > 1))
        return check.error(ErrorCode::InvalidArgument,
                           "sparse_mixer has a jitter of 0 to 1000, and neither a bias nor groups");

    const Shape shape = graph.shape(x).with_back(options.k);
    VKFORMER_TRY(const Value weights, graph.activation("route_top_k.weights", DType::f32, shape));
    VKFORMER_TRY(const Value indices, graph.activation("route_top_k.indices", DType::i32, shape));
    graph.add_node(RouteTopK{.x = x,
                             .bias = options.bias,
                             .weights = weights,
                             .indices = indices,
                             .scores = options.scores,
                             .normalises = options.normalises,
                             .scale = options.scale,
                             .least_sum = options.least_sum,
                             .groups = options.groups,
                             .jitter = options.jitter});
    return RouteResult{.weights = weights, .indices = indices};
}

Result<Value> mask_logits(Graph& graph, Value x, Value starts, const MaskLogitsOptions& options) {
    const OperandCheck check(graph, MaskLogits::kName);
    VKFORMER_CHECK(check_logits(check, x));
    const Shape shape = graph.shape(x);
    VKFORMER_CHECK(check.dtype("starts", starts, DType::i32));
    VKFORMER_CHECK(check.shape("starts", starts, {shape[0]}, "rows of x"));
    for (const std::int32_t token : options.banned) VKFORMER_CHECK(check_token(check, "banned", token, shape[1]));
    if (options.forced_first != -1) VKFORMER_CHECK(check_token(check, "forced_first", options.forced_first, shape[1]));
    if (options.forced_last != -1) {
        VKFORMER_CHECK(check_token(check, "forced_last", options.forced_last, shape[1]));
        if (options.last_start < 0)
            return check.error(ErrorCode::InvalidArgument,
                               "forced_last needs last_start, which is " + std::to_string(options.last_start));
    }

    for (const std::int32_t token : options.late) VKFORMER_CHECK(check_token(check, "late", token, shape[1]));
    if (options.begins) VKFORMER_CHECK(check_begins(check, options.begins, shape[0]));
    const bool reads_sequences = options.ngram > 0 || options.source_ngram > 0;
    if (reads_sequences) VKFORMER_CHECK(check_sequences(check, graph, options.sequences, shape[0]));
    if (options.source_ngram > 0) VKFORMER_CHECK(check_source(check, graph, options.source, shape[0]));

    VKFORMER_TRY(const Value banned, list_of(graph, options.banned));
    constexpr std::uint32_t kForever = 1u << 30;  // a position may be added to it
    VKFORMER_TRY(const Value late, list_of(graph, options.late_steps > 0 ? options.late : std::vector<std::int32_t>()));
    VKFORMER_TRY(const Value y, graph.activation(MaskLogits::kName, DType::f32, shape));
    graph.add_node(MaskLogits{.x = x,
                              .starts = starts,
                              .banned = banned,
                              .late = late,
                              .begins = late ? options.begins : Value{},
                              .sequences = reads_sequences ? options.sequences : Value{},
                              .source = options.source_ngram > 0 ? options.source : Value{},
                              .y = y,
                              .forced_first = options.forced_first,
                              .forced_last = options.forced_last,
                              .last_start = options.last_start,
                              .late_steps = static_cast<std::int32_t>(std::min(options.late_steps, kForever)),
                              .ngram = options.ngram,
                              .source_ngram = options.source_ngram});
    return y;
}

Result<Value> mask_timestamps(Graph& graph, Value x, Value starts, Value begins, Value sequences,
                              const TimestampOptions& options) {
    const OperandCheck check(graph, MaskTimestamps::kName);
    VKFORMER_CHECK(check_logits(check, x));
    const Shape shape = graph.shape(x);
    VKFORMER_CHECK(check.dtype("starts", starts, DType::i32));
    VKFORMER_CHECK(check.shape("starts", starts, {shape[0]}, "rows of x"));
    VKFORMER_CHECK(check_begins(check, begins, shape[0]));
    VKFORMER_CHECK(check_sequences(check, graph, sequences, shape[0]));
    VKFORMER_CHECK(check_token(check, "first", options.first, shape[1]));
    VKFORMER_CHECK(check_token(check, "eos", options.eos, static_cast<std::uint64_t>(options.first)));
    VKFORMER_TRY(const Value y, graph.activation(MaskTimestamps::kName, DType::f32, shape));
    graph.add_node(MaskTimestamps{.x = x,
                                  .starts = starts,
                                  .begins = begins,
                                  .sequences = sequences,
                                  .y = y,
                                  .first = options.first,
                                  .eos = options.eos,
                                  .latest_initial = options.latest_initial});
    return y;
}

Result<void> count_tokens(Graph& graph, Value tokens, Value counts, TokenOrigin origin, Value lengths) {
    const OperandCheck check(graph, CountTokens::kName);
    VKFORMER_CHECK(check.dtype("tokens", tokens, DType::i32));
    const Shape& shape = graph.shape(tokens);
    if (shape.rank() != 1 && shape.rank() != 2)
        return check.error(ErrorCode::ShapeMismatch,
                           "tokens has shape " + to_string(shape) + ", expected [rows] or [rows, len]");
    VKFORMER_CHECK(check.present("counts", counts));
    VKFORMER_CHECK(check.rank("counts", counts, kLogitsLayout));
    VKFORMER_CHECK(check.i32_state("counts", counts, {shape[0], graph.shape(counts)[1]}, "rows of tokens"));
    VKFORMER_CHECK(check.distinct({{"tokens", tokens}, {"counts", counts}}));
    if (lengths) {
        VKFORMER_CHECK(check.dtype("lengths", lengths, DType::i32));
        VKFORMER_CHECK(check.shape("lengths", lengths, {shape[0]}, "rows of tokens"));
        VKFORMER_CHECK(check.distinct({{"lengths", lengths}, {"counts", counts}}));
    }
    graph.add_node(CountTokens{.tokens = tokens, .lengths = lengths, .counts = counts, .origin = origin});
    return {};
}

Result<Value> penalize(Graph& graph, Value x, const PenalizeOptions& options) {
    const OperandCheck check(graph, Penalize::kName);
    VKFORMER_CHECK(check_logits(check, x));
    VKFORMER_CHECK(check_penalties(check, options));
    const Shape shape = graph.shape(x);
    if (options.counts) {
        VKFORMER_CHECK(check.dtype("counts", options.counts, DType::i32));
        VKFORMER_CHECK(check.shape("counts", options.counts, shape, "as x"));
    }
    if (options.bias) {
        VKFORMER_CHECK(check.dtype("bias", options.bias, DType::f32));
        const bool per_row = graph.shape(options.bias).rank() == 2;
        VKFORMER_CHECK(per_row ? check.shape("bias", options.bias, shape, "as x")
                               : check.shape("bias", options.bias, {shape[1]}, "vocab of x"));
    }
    if (options.settings) {
        VKFORMER_CHECK(check.dtype("settings", options.settings, DType::f32));
        VKFORMER_CHECK(check.shape("settings", options.settings, {shape[0], kPenalizeSettings}, "rows of x"));
        const bool is_said_twice = options.repetition != 1 || options.presence != 0 || options.frequency != 0;
        if (is_said_twice || !options.counts)
            return check.error(ErrorCode::InvalidArgument,
                               is_said_twice ? "settings are each row's own, but there are penalties of all rows, too"
                                             : "counts is absent, but there are settings");
    }
    if (options.allowed) {
        VKFORMER_CHECK(check.dtype("allowed", options.allowed, DType::i32));
        VKFORMER_CHECK(check.shape("allowed", options.allowed, {shape[0], allowed_words(shape[1])},
                                   "rows of x, and a bit for each token in words of 32"));
    }
    VKFORMER_TRY(const Value y, graph.activation(Penalize::kName, DType::f32, shape));
    graph.add_node(Penalize{.x = x,
                            .counts = options.counts,
                            .bias = options.bias,
                            .settings = options.settings,
                            .allowed = options.allowed,
                            .y = y,
                            .repetition = options.repetition,
                            .presence = options.presence,
                            .frequency = options.frequency});
    return y;
}

Result<Value> bias_sequences(Graph& graph, Value x, Value starts, std::span<const SequenceBias> phrases,
                             Value sequences) {
    const OperandCheck check(graph, BiasSequences::kName);
    VKFORMER_CHECK(check_logits(check, x));
    const Shape shape = graph.shape(x);
    VKFORMER_CHECK(check.dtype("starts", starts, DType::i32));
    VKFORMER_CHECK(check.shape("starts", starts, {shape[0]}, "rows of x"));
    VKFORMER_CHECK(check_phrases(check, phrases, shape[1]));
    const bool looks_back = std::ranges::any_of(phrases, [](const auto& phrase) { return phrase.tokens.size() > 1; });
    if (looks_back) VKFORMER_CHECK(check_sequences(check, graph, sequences, shape[0]));

    std::vector<SequenceBias> sorted(phrases.begin(), phrases.end());
    const auto rank = [](const SequenceBias& phrase) {
        return std::pair(phrase.tokens.back(), phrase.tokens.size() > 1);
    };
    sort_stably(sorted, [&](const SequenceBias& a, const SequenceBias& b) { return rank(a) < rank(b); });
    std::vector<std::int32_t> words(sorted.size() * kPhraseWords), tokens;
    std::vector<float> biases;
    for (std::size_t k = 0; k < sorted.size(); ++k) {
        const auto before = std::span(sorted[k].tokens).first(sorted[k].tokens.size() - 1);
        std::int32_t* const phrase = &words[k * kPhraseWords];
        phrase[kPhraseLast] = sorted[k].tokens.back();
        phrase[kPhraseBegin] = static_cast<std::int32_t>(tokens.size());
        phrase[kPhraseLen] = static_cast<std::int32_t>(before.size());
        tokens.insert(tokens.end(), before.begin(), before.end());
        biases.push_back(sorted[k].bias);
    }
    const Shape words_shape = {sorted.size(), kPhraseWords}, biases_shape = {sorted.size()};
    VKFORMER_TRY(const Value list, constant(graph, "bias_sequences.phrases", words_shape, std::move(words)));
    VKFORMER_TRY(const Value added, constant(graph, "bias_sequences.biases", biases_shape, std::move(biases)));
    Value before;
    if (looks_back) {
        const Shape tokens_shape = {tokens.size()};
        VKFORMER_TRY(before, constant(graph, "bias_sequences.tokens", tokens_shape, std::move(tokens)));
    }
    VKFORMER_TRY(const Value y, graph.activation(BiasSequences::kName, DType::f32, shape));
    graph.add_node(BiasSequences{.x = x,
                                 .starts = starts,
                                 .sequences = looks_back ? sequences : Value{},
                                 .phrases = list,
                                 .tokens = before,
                                 .biases = added,
                                 .y = y});
    return y;
}

}  // namespace vkformer::graph
