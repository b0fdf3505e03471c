// SPDX-License-Identifier: MIT
// Choosing tokens from logits.
#include <algorithm>

#include "cases/families.hpp"
#include "core/try.hpp"

namespace vkformer::cases {
namespace {

Result<Case> arg_max_case(const Family::Dims& shape, const Types& types) {
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = "arg_max",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = elements, .read = 4 * elements, .written = 4 * static_cast<double>(shape[0])},
                .build = [shape](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", DType::f32, {shape[0], shape[1]}));
                    VKFORMER_TRY(const auto y, graph::arg_max(b.graph, x));
                    b.result(y);
                    return {};
                }};
}

Result<Case> top_k_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t rows = shape[0], vocab = shape[1], k = shape[2];
    const double elements = static_cast<double>(rows * vocab);
    return Case{.op = "top_k",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = elements, .read = 4 * elements, .written = 8 * static_cast<double>(rows * k)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", DType::f32, {rows, vocab}));
                    VKFORMER_TRY(const auto best, graph::top_k(b.graph, x, static_cast<std::uint32_t>(k)));
                    b.result(best.values);
                    b.result(best.indices);
                    return {};
                }};
}

/// Mixtral's and Qwen's router, DeepSeek's, or Phi-3.5-MoE's.
template <graph::RouteScores kScores>
Result<Case> route_case(const Family::Dims& shape, const Types& types) {
    constexpr bool kHasBias = kScores == graph::RouteScores::sigmoid,
                   kIsSparse = kScores == graph::RouteScores::sparse_mixer;
    const std::uint64_t rows = shape[0], experts = shape[1], k = std::min(shape[2], shape[1]);
    const double elements = static_cast<double>(rows * experts), chosen = static_cast<double>(rows * k);
    return Case{.op = kIsSparse  ? "route_top_k_sparse_mixer"
                      : kHasBias ? "route_top_k_sigmoid"
                                 : "route_top_k",
                .shape = to_text({rows, experts, k}),
                .dtype = types.name(),
                .work = {.flops = 3 * elements + 2 * chosen, .read = 4 * elements, .written = 8 * chosen},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", DType::f32, {rows, experts}, 4));
                    graph::RouteOptions options{
                        .k = static_cast<std::uint32_t>(k), .scores = kScores, .normalises = !kIsSparse};
                    if (kIsSparse) options.jitter = 0.01f;
                    if (kHasBias) {
                        options.scale = 2.5f;
                        VKFORMER_TRY(options.bias, b.weight("bias", DType::f32, {experts}));
                    }
                    VKFORMER_TRY(const auto route, graph::route_top_k(b.graph, x, options));
                    b.result(route.weights);
                    b.result(route.indices);
                    return {};
                }};
}

/// top_k 1: whatever is drawn, the token is the same on every device, so that it can be checked.
Result<Case> sample_case(const Family::Dims& shape, const Types& types) {
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = "sample",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 5 * elements, .read = 4 * elements, .written = 4 * static_cast<double>(shape[0])},
                .build = [shape](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", DType::f32, {shape[0], shape[1]}, 4));
                    VKFORMER_TRY(const auto random, b.int_state("random", {shape[0], 3}));
                    VKFORMER_TRY(const auto y, graph::sample(b.graph, x, random, {.temperature = 0.8f, .top_k = 1}));
                    b.result(y);
                    return {};
                }};
}

Result<Case> mask_logits_case(const Family::Dims& shape, const Types& types) {
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = "mask_logits",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 0, .read = 4 * elements, .written = 4 * elements},
                .build = [shape](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", DType::f32, {shape[0], shape[1]}));
                    VKFORMER_TRY(const auto starts,
                                 b.ints("starts", {shape[0]}, std::vector<std::int32_t>(shape[0], 1)));
                    VKFORMER_TRY(const auto y, graph::mask_logits(b.graph, x, starts, {.banned = {0}}));
                    b.result(y);
                    return {};
                }};
}

Result<Case> mask_timestamps_case(const Family::Dims& shape, const Types& types) {
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = "mask_timestamps",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 0, .read = 4 * elements, .written = 4 * elements},
                .build = [shape](CaseBuilder& b) -> Result<void> {
                    constexpr std::uint64_t kPositions = 448, kTimes = 1501;  // Whisper's
                    const std::uint64_t rows = shape[0], vocab = shape[1];
                    const auto first = static_cast<std::int32_t>(vocab - std::min(vocab / 2, kTimes));
                    VKFORMER_TRY(const auto x, b.input("x", DType::f32, {rows, vocab}));
                    VKFORMER_TRY(const auto starts, b.ints("starts", {rows}, std::vector<std::int32_t>(rows, 90)));
                    VKFORMER_TRY(const auto begins, b.ints("begins", {rows}, std::vector<std::int32_t>(rows, 3)));
                    VKFORMER_TRY(const auto sequences, b.ints("sequences", {rows, kPositions},
                                                              std::vector<std::int32_t>(rows * kPositions, 1)));
                    VKFORMER_TRY(const auto y, graph::mask_timestamps(b.graph, x, starts, begins, sequences,
                                                                      {.first = first, .eos = first - 1}));
                    b.result(y);
                    return {};
                }};
}

Result<Case> penalize_case(const Family::Dims& shape, const Types& types) {
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = "penalize",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 2 * elements, .read = 8 * elements, .written = 4 * elements},
                .build = [shape](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", DType::f32, {shape[0], shape[1]}));
                    VKFORMER_TRY(const auto counts, b.random_ints("counts", {shape[0], shape[1]}, 0, 2));
                    VKFORMER_TRY(
                        const auto y,
                        graph::penalize(b.graph, x,
                                        {.repetition = 1.1f, .presence = 0.5f, .frequency = 0.5f, .counts = counts}));
                    b.result(y);
                    return {};
                }};
}

Result<Case> bias_sequences_case(const Family::Dims& shape, const Types& types) {
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{
        .op = "bias_sequences",
        .shape = to_text(shape),
        .dtype = types.name(),
        .work = {.flops = 0, .read = 4 * elements, .written = 4 * elements},
        .build = [shape](CaseBuilder& b) -> Result<void> {
            constexpr std::uint64_t kPositions = 1024;
            const std::uint64_t rows = shape[0], vocab = shape[1], count = shape[2];
            std::vector<graph::SequenceBias> phrases;  // of three tokens, of which two stand in the sequence
            for (std::uint64_t i = 0; i < count; ++i)
                phrases.push_back({.tokens = {1, 1, static_cast<std::int32_t>(i * vocab / count)}, .bias = 0.5f});
            VKFORMER_TRY(const auto x, b.input("x", DType::f32, {rows, vocab}));
            VKFORMER_TRY(const auto starts, b.ints("starts", {rows}, std::vector<std::int32_t>(rows, 90)));
            VKFORMER_TRY(const auto sequences,
                         b.ints("sequences", {rows, kPositions}, std::vector<std::int32_t>(rows * kPositions, 1)));
            VKFORMER_TRY(const auto y, graph::bias_sequences(b.graph, x, starts, phrases, sequences));
            b.result(y);
            return {};
        }};
}

Result<Case> count_tokens_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t rows = shape[0], len = shape[1], vocab = shape[2];
    const double tokens = static_cast<double>(rows * len);
    return Case{.op = "count_tokens",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = tokens, .read = 8 * tokens, .written = 4 * tokens},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto next,
                                 b.random_ints("tokens", {rows, len}, 0, static_cast<std::int32_t>(vocab) - 1));
                    VKFORMER_TRY(const auto counts, b.int_state("counts", {rows, vocab}));
                    VKFORMER_CHECK(graph::count_tokens(b.graph, next, counts, graph::TokenOrigin::generated));
                    b.result(counts);
                    return {};
                }};
}

// Steps that the histories have room for: more than a submission runs, since a full one ends the generation.
constexpr std::uint64_t kSteps = 512;

// Both steps below move a few words per row: what is measured is how long the smallest of dispatches take.
Result<Case> greedy_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t rows = shape[0];
    const double words = static_cast<double>(rows);
    return Case{.op = "greedy_step",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 0, .read = 12 * words, .written = 16 * words},
                .build = [rows](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto next, b.ints("next", {rows}, std::vector<std::int32_t>(rows, 5)));
                    graph::GreedyStates states;
                    VKFORMER_TRY(states.tokens, b.int_state("tokens", {rows, 1}));
                    VKFORMER_TRY(states.starts, b.int_state("starts", {rows}));
                    VKFORMER_TRY(states.finished, b.int_state("finished", {rows}));
                    VKFORMER_TRY(states.history, b.int_state("history", {kSteps, rows}));
                    VKFORMER_CHECK(graph::greedy_step(b.graph, next, states, 2, 0));
                    b.result(states.tokens);
                    b.result(states.history);
                    return {};
                }};
}

Result<graph::BeamStates> beam_states(CaseBuilder& b, std::uint64_t batch, std::uint64_t rows) {
    graph::BeamStates s;
    VKFORMER_TRY(s.tokens, b.int_state("tokens", {rows, 1}));
    VKFORMER_TRY(s.starts, b.int_state("starts", {rows}));
    VKFORMER_TRY(s.parents, b.int_state("parents", {rows}));
    VKFORMER_TRY(s.running_scores, b.state("running_scores", DType::f32, {rows}));
    VKFORMER_TRY(s.token_history, b.int_state("token_history", {kSteps, rows}));
    VKFORMER_TRY(s.parent_history, b.int_state("parent_history", {kSteps, rows}));
    VKFORMER_TRY(s.final_scores, b.state("final_scores", DType::f32, {rows}, 0));
    VKFORMER_TRY(s.final_steps, b.int_state("final_steps", {rows}));
    VKFORMER_TRY(s.final_rows, b.int_state("final_rows", {rows}));
    VKFORMER_TRY(s.final_tokens, b.int_state("final_tokens", {rows}));
    std::vector<std::int32_t> open(batch + 3, 1);  // every sequence may still improve; not done, step 0
    open[batch] = open[batch + 1] = 0;
    open[batch + 2] = static_cast<std::int32_t>(kSteps);
    VKFORMER_TRY(s.state, b.int_state("state", {batch + 3}, std::move(open)));
    return s;
}

Result<Case> beam_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t batch = shape[0], beams = shape[1], rows = batch * beams, candidates = 2 * beams;
    const double words = static_cast<double>(rows);
    return Case{.op = "beam_step",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 2 * words * static_cast<double>(candidates),
                         .read = 8 * words * static_cast<double>(candidates) + 16 * words,
                         .written = 24 * words},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto scores, b.input("scores", DType::f32, {rows, candidates}));
                    VKFORMER_TRY(const auto tokens, b.random_ints("candidates", {rows, candidates}, 3, 1000));
                    VKFORMER_TRY(const auto states, beam_states(b, batch, rows));
                    VKFORMER_CHECK(graph::beam_step(b.graph, scores, tokens, states,
                                                    {.beams = static_cast<std::uint32_t>(beams),
                                                     .max_steps = static_cast<std::uint32_t>(kSteps),
                                                     .eos = 2}));
                    b.result(states.tokens);
                    b.result(states.running_scores);
                    return {};
                }};
}

}  // namespace

void add_selection_cases(std::vector<Family>& families) {
    families.push_back({.name = "arg_max",
                        .op = "arg_max",
                        .dims = "rows x vocab",
                        .types = {DType::f32},
                        .shapes = {{1, 49152}},
                        .gpu_shapes = {{1, 128256}},
                        .make = arg_max_case});
    families.push_back({.name = "top_k",
                        .op = "top_k",
                        .dims = "rows x vocab x k",
                        .types = {DType::f32},
                        .shapes = {{4, 49152, 8}},
                        .gpu_shapes = {{1, 128256, 64}},
                        .make = top_k_case});
    families.push_back({.name = "route_top_k",
                        .op = "route_top_k",
                        .dims = "rows x experts x k",
                        .types = {DType::f32},
                        .shapes = {{1, 128, 8}, {512, 128, 8}},
                        .gpu_shapes = {{4096, 256, 8}},
                        .make = route_case<graph::RouteScores::softmax>});
    families.push_back({.name = "route_top_k_sigmoid",
                        .op = "route_top_k",
                        .dims = "rows x experts x k",
                        .types = {DType::f32},
                        .compiled = {{{512, 256, 8}, {DType::f32}}},
                        .make = route_case<graph::RouteScores::sigmoid>});
    families.push_back({.name = "route_top_k_sparse_mixer",
                        .op = "route_top_k",
                        .dims = "rows x experts x k",
                        .types = {DType::f32},
                        .compiled = {{{512, 16, 2}, {DType::f32}}},
                        .make = route_case<graph::RouteScores::sparse_mixer>});
    families.push_back({.name = "mask_logits",
                        .op = "mask_logits",
                        .dims = "rows x vocab",
                        .types = {DType::f32},
                        .shapes = {{1, 49152}},
                        .make = mask_logits_case});
    families.push_back({.name = "mask_timestamps",
                        .op = "mask_timestamps",
                        .dims = "rows x vocab",
                        .types = {DType::f32},
                        .shapes = {{1, 51865}},
                        .make = mask_timestamps_case});
    families.push_back({.name = "penalize",
                        .op = "penalize",
                        .dims = "rows x vocab",
                        .types = {DType::f32},
                        .shapes = {{1, 49152}},
                        .gpu_shapes = {{1, 128256}},
                        .make = penalize_case});
    families.push_back({.name = "bias_sequences",
                        .op = "bias_sequences",
                        .dims = "rows x vocab x phrases",
                        .types = {DType::f32},
                        .shapes = {{1, 49152, 100}},
                        .gpu_shapes = {{1, 128256, 10000}},
                        .make = bias_sequences_case});
    families.push_back({.name = "count_tokens",
                        .op = "count_tokens",
                        .dims = "rows x len x vocab",
                        .types = {DType::f32},
                        .shapes = {{1, 1, 49152}},
                        .make = count_tokens_case});
    families.push_back({.name = "sample",
                        .op = "sample",
                        .dims = "rows x vocab",
                        .types = {DType::f32},
                        .shapes = {{1, 49152}},
                        .gpu_shapes = {{1, 128256}},
                        .make = sample_case});
    families.push_back({.name = "greedy_step",
                        .op = "greedy_step",
                        .dims = "rows",
                        .types = {DType::f32},
                        .shapes = {{32}},
                        .make = greedy_case});
    families.push_back({.name = "beam_step",
                        .op = "beam_step",
                        .dims = "sequences x beams",
                        .types = {DType::f32},
                        .shapes = {{8, 4}},
                        .make = beam_case});
}

}  // namespace vkformer::cases
