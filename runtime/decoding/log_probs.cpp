// SPDX-License-Identifier: MIT
#include "decoding/log_probs.hpp"

#include <algorithm>
#include <bit>

#include "core/try.hpp"
#include "decoding/invalid.hpp"
#include "graph/builders/constant.hpp"

namespace vkformer::decoding {

using graph::Value;

std::uint32_t likeliest_for(std::uint32_t asked, std::uint64_t vocab) noexcept {
    constexpr std::uint32_t kFew = 5;
    if (asked == 0) return 0;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(asked <= kFew ? kFew : kMostLikeliest, vocab));
}

Result<void> check_log_probs(std::optional<std::uint32_t> asked) {
    if (asked.value_or(0) <= kMostLikeliest) return {};
    return invalid("the log-probabilities of the " + std::to_string(*asked) +
                   " likeliest tokens were asked for, 0 to " + std::to_string(kMostLikeliest) + " are given");
}

Result<LogProbTensors> add_log_probs(graph::Graph& graph, Value logits, Value history, std::uint32_t likeliest,
                                     const std::string& suffix) {
    LogProbTensors tensors = {.rows = graph.shape(logits)[0], .likeliest = likeliest};
    VKFORMER_TRY(tensors.log_probs, graph::log_softmax(graph, logits));
    VKFORMER_TRY(tensors.scores, graph.state("scores" + suffix, DType::f32, graph.shape(history)));
    if (likeliest == 0) return tensors;
    // Every place counts its own steps, so that the ops that keep keys and tokens by position keep these.
    const std::uint64_t places = tensors.rows * likeliest;
    const std::string size = suffix + "." + std::to_string(likeliest);
    VKFORMER_TRY(tensors.recorded, graph.state("recorded" + size, DType::i32, {places, 1}));
    VKFORMER_TRY(tensors.tokens, graph.state("likeliest" + size, DType::i32, {places, kRecordedSteps}));
    VKFORMER_TRY(tensors.values, graph.state("log_probs" + size, DType::f32, {places, kRecordedSteps, 1, 1}));
    VKFORMER_TRY(const auto best, graph::top_k(graph, tensors.log_probs, likeliest));
    VKFORMER_TRY(const Value indices, graph.reshape(best.indices, {places, 1}));
    VKFORMER_TRY(const Value values, graph.reshape(best.values, {places, 1, 1, 1}));
    VKFORMER_TRY(const Value steps, graph.reshape(tensors.recorded, {places}));
    VKFORMER_CHECK(graph::cache_append(graph, indices, steps, tensors.tokens));
    VKFORMER_CHECK(graph::cache_append(graph, values, steps, tensors.values));
    // A step counts as a token of a vocabulary of one.
    VKFORMER_TRY(const Value one,
                 graph::constant(graph, "recorded.zeros" + size, {places}, std::vector<std::int32_t>(places, 0)));
    VKFORMER_CHECK(graph::count_tokens(graph, one, tensors.recorded, graph::TokenOrigin::generated));
    return tensors;
}

void LogProbTensors::begin_job(std::vector<Write>& writes) const {
    if (recorded) writes.push_back({recorded, std::vector<std::int32_t>(rows * likeliest, 0)});
}

void LogProbTensors::add_reads(std::span<const std::size_t> positions, std::vector<Read>& reads) const {
    if (!log_probs) return;
    for (std::size_t r = 0; r < positions.size(); ++r) reads.push_back({scores, positions[r] * rows + r, 1});
    if (!recorded) return;
    const std::uint64_t words = std::uint64_t{likeliest} * kRecordedSteps;
    for (std::size_t r = 0; r < positions.size(); ++r) reads.push_back({tokens, r * words, words});
    for (std::size_t r = 0; r < positions.size(); ++r) reads.push_back({values, r * words, words});
}

Result<StepLogProbs> read_log_probs(const LogProbTensors& tensors, Records& records, const LogProbPlace& place,
                                    std::int32_t token, std::uint32_t asked) {
    const auto read = [&](std::size_t kind) {
        return records.get(place.step, place.first + kind * place.rows + place.row);
    };
    VKFORMER_TRY(const auto score, read(0));
    StepLogProbs found = {.chosen = {token, std::bit_cast<float>(score[0])}, .likeliest = {}};
    const std::uint32_t count = std::min(asked, tensors.likeliest);
    if (count == 0) return found;
    VKFORMER_TRY(const auto tokens, read(1));
    VKFORMER_TRY(const auto values, read(2));
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t word = i * kRecordedSteps + place.in_job;
        found.likeliest.push_back({tokens[word], std::bit_cast<float>(values[word])});
    }
    return found;
}

void GivenLogProbs::add_reads(std::vector<Read>& reads) const {
    const std::uint64_t others = positions * likeliest;
    reads.push_back({scores, 0, positions});
    reads.push_back({tokens, 0, others});
    reads.push_back({values, 0, others});
}

Result<GivenLogProbs> add_given_log_probs(graph::Graph& graph, Value logits, std::uint32_t likeliest) {
    const Shape shape = graph.shape(logits);
    GivenLogProbs given = {.positions = shape[0], .vocab = shape[1], .likeliest = likeliest};
    VKFORMER_TRY(const Value log_probs, graph::log_softmax(graph, logits));
    VKFORMER_TRY(given.places, graph.input("places", DType::i32, {given.positions}));
    // A table of all of them, one a row, of which those are looked up that are asked for.
    VKFORMER_TRY(const Value table, graph.reshape(log_probs, {shape.element_count(), 1}));
    VKFORMER_TRY(given.scores, graph::embedding(graph, given.places, table));
    graph.mark_output(given.scores);
    if (likeliest == 0) return given;
    VKFORMER_TRY(const auto best, graph::top_k(graph, log_probs, likeliest));
    given.tokens = best.indices;
    given.values = best.values;
    graph.mark_output(given.tokens);
    graph.mark_output(given.values);
    return given;
}

std::uint32_t most_given(std::uint64_t vocab) noexcept {
    constexpr std::uint64_t kMostNumbers = 1 << 24;  // 64 MiB
    const auto most = static_cast<std::uint32_t>(std::bit_floor(std::max<std::uint64_t>(kMostNumbers / vocab, 1)));
    return std::max(most, 16u);
}

StepLogProbs given_log_probs(const GivenLogProbs& given, std::span<const std::int32_t> scores,
                             std::span<const std::int32_t> tokens, std::span<const std::int32_t> values,
                             std::size_t position, std::int32_t token, std::uint32_t asked) {
    StepLogProbs found = {.chosen = {token, std::bit_cast<float>(scores[position])}, .likeliest = {}};
    for (std::size_t i = 0; i < std::min(asked, given.likeliest); ++i) {
        const std::size_t word = position * given.likeliest + i;
        found.likeliest.push_back({tokens[word], std::bit_cast<float>(values[word])});
    }
    return found;
}

}  // namespace vkformer::decoding
