// SPDX-License-Identifier: MIT
#include "decoding/batch_guesses.hpp"

#include <algorithm>
#include <bit>

namespace vkformer::decoding {
namespace {

/// Tokens that a check with so many guesses gives on average: the first wrong one, or the end, gives one more.
double expected_tokens(const GuessRecord& record, std::size_t guesses) {
    double tokens = 1, all_right = 1;
    for (std::size_t i = 0; i < guesses; ++i) tokens += all_right *= record.acceptance();
    return tokens;
}

/// Of each the guesses that are likeliest to be right behind right ones, `rows` in all at most.
std::vector<std::size_t> likeliest_guesses(std::span<const BatchGuesses::Candidate> candidates, std::size_t rows) {
    std::vector<std::size_t> counts(candidates.size(), 0);
    std::vector<double> next;  // how likely it is that one more is right
    for (const auto& candidate : candidates) next.push_back(candidate.guesses > 0 ? candidate.record->acceptance() : 0);
    for (; rows > 0; --rows) {
        const auto best = static_cast<std::size_t>(std::ranges::max_element(next) - next.begin());
        if (next[best] == 0) break;
        ++counts[best];
        next[best] *= counts[best] < candidates[best].guesses ? candidates[best].record->acceptance() : 0;
    }
    return counts;
}

}  // namespace

bool GuessRecord::may_guess() const noexcept { return lost <= BatchGuesses::kMostLoss * all; }

void BatchGuesses::measure(std::map<std::uint32_t, Mean>& means, std::uint32_t rows, double seconds,
                           std::uint64_t checks) {
    const auto [mean, is_new] = means.try_emplace(rows, Mean{seconds, checks});
    if (!is_new) mean->second = {(3 * mean->second.seconds + seconds) / 4, checks};
}

void BatchGuesses::took_steps(std::uint32_t rows, std::uint32_t count, double seconds) {
    measure(steps_, rows, seconds / count, checks_);
}

double BatchGuesses::longer_than_steps(std::uint32_t rows, std::uint32_t count, double seconds) const {
    const auto known = steps_.find(rows);
    return known == steps_.end() ? 0 : std::max(0.0, seconds - count * known->second.seconds);
}

bool BatchGuesses::is_step_due(std::uint32_t rows) const {
    const auto known = steps_.find(rows);
    return known == steps_.end() || checks_ - known->second.checks >= kMostChecks;
}

/// Of a size that was not measured lately: half of what the smaller ones let expect, so that it is tried where it may pay.
double BatchGuesses::check_seconds(std::uint32_t step_rows, std::uint32_t rows, bool& is_known) const {
    std::uint32_t last_rows = step_rows;
    double last = steps_.at(step_rows).seconds, slope = 0;
    for (const auto& [size, mean] : check_means_) {
        if (size < step_rows || size > rows || checks_ - mean.checks >= kKeptChecks) continue;
        if (size > last_rows) slope = std::max(0.0, (mean.seconds - last) / (size - last_rows));
        last_rows = size;
        last = mean.seconds;
    }
    is_known = last_rows == rows;
    return last + slope * (rows - last_rows) / 2;
}

std::vector<std::size_t> BatchGuesses::counts(std::uint32_t step_rows, std::span<const Candidate> candidates,
                                              std::uint32_t most_rows) const {
    const std::size_t sequences = candidates.size();
    const double step = steps_.at(step_rows).seconds;
    std::vector<std::size_t> best(sequences, 0);
    double best_rate = 0;
    bool is_known = true;  // nothing beyond the first size that is not
    for (std::size_t rows = std::bit_ceil(sequences + 1); rows <= most_rows && is_known; rows *= 2) {
        std::vector<std::size_t> counts = likeliest_guesses(candidates, rows - sequences);
        std::size_t used = sequences;
        for (const std::size_t count : counts) used += count;
        if (used == sequences || std::bit_ceil(used) != rows) break;
        const double seconds = check_seconds(step_rows, static_cast<std::uint32_t>(rows), is_known);
        double tokens = 0;
        bool may_lose = true;
        for (std::size_t i = 0; i < sequences; ++i) {
            const GuessRecord& record = *candidates[i].record;
            const double expected = expected_tokens(record, counts[i]);
            const double loss = std::max(0.0, seconds - expected * step);
            may_lose = may_lose && record.lost + loss <= kMostLoss * record.all;
            tokens += expected;
        }
        if (!may_lose || tokens / seconds <= best_rate) continue;
        best_rate = tokens / seconds;
        best = std::move(counts);
    }
    return best;
}

void BatchGuesses::took_check(std::uint32_t step_rows, std::uint32_t rows, std::optional<double> seconds,
                              std::span<const Checked> sequences) {
    ++checks_;
    if (seconds) measure(check_means_, rows, *seconds, checks_);
    const auto step = steps_.find(step_rows);  // there may be none where others had no pages and were left behind
    for (const auto& [record, guesses, tokens] : sequences) {
        constexpr double kKept = 0.9;  // of what was known before, with each check
        if (guesses > 0 && tokens > 0) {
            record->right = kKept * record->right + static_cast<double>(tokens - 1);
            record->tried = kKept * record->tried + static_cast<double>(std::min(tokens, guesses));
        }
        if (!seconds || step == steps_.end()) continue;
        record->all += *seconds;
        record->lost = std::max(record->lost + *seconds - static_cast<double>(tokens) * step->second.seconds,
                                -kPatience * *seconds);
    }
}

}  // namespace vkformer::decoding
