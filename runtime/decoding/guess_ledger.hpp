// SPDX-License-Identifier: MIT
/// Whether it pays to guess the tokens that follow and to check several in one pass of the model, by what all of it was measured to take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace vkformer::decoding {

/// Keeps what wrong guesses cost within a share of the time that all takes: but for the first check of all, which is not counted, and one
/// check of each call of a source that costs nothing, or kPatience and one of a model, until it is known not to pay.
class GuessLedger {
public:
    static constexpr double kMostLoss = 0.01;
    static constexpr int kPatience = 4;
    static constexpr std::uint32_t kMostChecks = 64;

    /// `guesses_cost`: they come from a model, so that fewer of them take less time, and one is right as likely behind another as alone.
    explicit GuessLedger(bool guesses_cost = false) noexcept : guesses_cost_(guesses_cost) {}

    /// Of another sequence: what was lost with those before is no longer counted.
    void begin() noexcept { all_ = lost_ = 0; }
    void took_steps(std::uint32_t count, double seconds) noexcept;
    /// Time of guessing that gives no token.
    void took_nothing(double seconds) noexcept;
    /// A check of so many guesses, found in `guess_seconds`, that has given so many tokens: each would have been a step.
    void took_check(std::size_t guesses, std::size_t tokens, double guess_seconds, double check_seconds) noexcept;

    /// Whether the next check, of up to `most` guesses, may be lost. Not where is_step_due().
    bool allows(std::size_t most) const noexcept;
    /// A step has to be measured: none was, or kMostChecks have followed each other.
    bool is_step_due() const noexcept { return !step_seconds_ || checks_ >= kMostChecks; }
    /// How many guesses, 1 to `most`, give the most tokens in a second.
    std::size_t best_count(std::size_t most) const noexcept;
    /// Steps that may run before the host looks at what they chose: the longer a step, the fewer.
    std::uint32_t steps_between() const noexcept;

private:
    double acceptance() const noexcept;
    double rate(std::size_t guesses) const noexcept;

    bool guesses_cost_;
    std::optional<double> step_seconds_, guess_seconds_, check_seconds_;  // each a mean of the last ones
    double tried_ = 0, right_ = 0;  // guesses whose like was chosen or not, of the last checks
    double all_ = 0;                // of steps, guesses and checks
    double lost_ =
        0;  // more than the same tokens would have taken in steps; of gains, what as many checks take as may be lost
    bool has_stepped_ = false, has_checked_ = false;
    std::uint32_t checks_ = 0;  // since the last step
};

}  // namespace vkformer::decoding
