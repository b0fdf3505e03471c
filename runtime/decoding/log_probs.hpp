// SPDX-License-Identifier: MIT
/// Log-probabilities of what steps choose, and of what they might have chosen, kept on the device for the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decoding/run_script.hpp"
#include "decoding/script.hpp"
#include "graph/builders.hpp"
#include "vkformer/log_probs.hpp"

namespace vkformer::decoding {

inline constexpr std::uint32_t kMostLikeliest = 20;
/// Steps that one job may have where likeliest tokens are kept.
inline constexpr std::uint32_t kRecordedSteps = StepQueue::kMost;

/// So many likeliest tokens does a step find that has to tell `asked`: one of few numbers, for each is a program of its own.
std::uint32_t likeliest_for(std::uint32_t asked, std::uint64_t vocab) noexcept;

/// Errors: InvalidArgument (more than kMostLikeliest).
Result<void> check_log_probs(std::optional<std::uint32_t> asked);

struct LogProbTensors {
    graph::Value log_probs;  ///< f32 [rows, vocab], for greedy_step
    graph::Value scores;     ///< state f32, as greedy_step's history, which writes it: of the chosen tokens
    // Absent where no likeliest are asked for. A row has `likeliest` places in each:
    graph::Value recorded;  ///< state i32 [places, 1]: steps since the job began
    graph::Value tokens;    ///< state i32 [places, kRecordedSteps]
    graph::Value values;    ///< state f32 [places, kRecordedSteps, 1, 1]
    std::uint64_t rows = 0;
    std::uint32_t likeliest = 0;

    explicit operator bool() const noexcept { return bool{log_probs}; }
    /// To be written before each job.
    void begin_job(std::vector<Write>& writes) const;
    /// Adds what a step leaves: of each row, whose place in the history `positions` says, the score; then of each the likeliest.
    void add_reads(std::span<const std::size_t> positions, std::vector<Read>& reads) const;
};
/// Of logits f32 [rows, vocab]; `history` is greedy_step's. `suffix` ends the names of the states: programs of one session have other ones
/// where the shapes differ.
Result<LogProbTensors> add_log_probs(graph::Graph& graph, graph::Value logits, graph::Value history,
                                     std::uint32_t likeliest, const std::string& suffix);

/// Where add_reads has put a row's words.
struct LogProbPlace {
    std::uint32_t step = 0;    ///< as of Records::get
    std::uint32_t in_job = 0;  ///< the same since the job began
    std::size_t first = 0;     ///< reads before those of add_reads
    std::size_t row = 0, rows = 0;
};
/// What the step left that chose `token`, with `asked` of the likeliest.
Result<StepLogProbs> read_log_probs(const LogProbTensors& tensors, Records& records, const LogProbPlace& place,
                                    std::int32_t token, std::uint32_t asked);

/// Log-probabilities of tokens that are given, behind whole passes.
struct GivenLogProbs {
    graph::Value places;  ///< input i32 [positions]: p · vocab + the token behind position p, as place() has it
    graph::Value scores;  ///< output f32 [positions, 1]
    // Absent where no likeliest are asked for, outputs [positions, likeliest]:
    graph::Value tokens;  ///< i32
    graph::Value values;  ///< f32
    std::uint64_t positions = 0, vocab = 0;
    std::uint32_t likeliest = 0;

    std::int32_t place(std::size_t position, std::int32_t token) const noexcept {
        return static_cast<std::int32_t>(position * vocab) + token;
    }
    void add_reads(std::vector<Read>& reads) const;
};
/// Of logits f32 [positions, vocab].
Result<GivenLogProbs> add_given_log_probs(graph::Graph& graph, graph::Value logits, std::uint32_t likeliest);
/// Positions of a pass that takes as many texts as fit, 16 at least: each has the log-probabilities of the whole vocabulary.
std::uint32_t most_given(std::uint64_t vocab) noexcept;
/// What add_reads has read: of the token that was given behind `position`, with `asked` of the likeliest there.
StepLogProbs given_log_probs(const GivenLogProbs& given, std::span<const std::int32_t> scores,
                             std::span<const std::int32_t> tokens, std::span<const std::int32_t> values,
                             std::size_t position, std::int32_t token, std::uint32_t asked);

}  // namespace vkformer::decoding
