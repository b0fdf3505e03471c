// SPDX-License-Identifier: MIT
/// Guesses of the tokens that follow, for a model to check several in one pass (prompt lookup decoding: Saxena 2023; the
/// check: Leviathan et al. 2023): a text that says something again is likely to go on as it did before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vkformer::decoding {

/// What followed where the last tokens were seen before: at the place with the longest common run before it, of those the latest.
/// A text that repeats itself to its end is continued beyond it. Up to `most` tokens; none where no run of two is there twice.
/// O(tokens.size()).
std::vector<std::int32_t> look_up(std::span<const std::int32_t> tokens, std::size_t most);

/// Keeps what wrong guesses cost within a share of the time that all takes, by what steps and checks were measured to take: but for one
/// check of each call, and the first one of all, which is not counted.
class GuessLedger {
public:
    static constexpr double kMostLoss = 0.01;

    /// Of another sequence: what was lost with those before is no longer counted.
    void begin() noexcept { all_ = lost_ = 0; }
    void took_steps(std::uint32_t count, double seconds) noexcept;
    /// A check that has given so many tokens, each of which would have been a step.
    void took_check(std::size_t tokens, double seconds) noexcept;

    /// Whether the next check may be lost. Not before a step was measured.
    bool allows() const noexcept { return step_seconds_ && lost_ <= kMostLoss * all_; }
    /// Steps that may run before the host looks at what they chose: the longer a step, the fewer.
    std::uint32_t steps_between() const noexcept;

private:
    std::optional<double> step_seconds_;
    double all_ = 0;   // of steps and checks
    double lost_ = 0;  // more than the same tokens would have taken in steps; gains are kept for one check
    bool has_checked_ = false;
};

}  // namespace vkformer::decoding
