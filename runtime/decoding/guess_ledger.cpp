// SPDX-License-Identifier: MIT
#include "decoding/guess_ledger.hpp"

#include <algorithm>

namespace vkformer::decoding {
namespace {

void move_mean(std::optional<double>& mean, double value) noexcept { mean = mean ? (3 * *mean + value) / 4 : value; }

}  // namespace

void GuessLedger::took_steps(std::uint32_t count, double seconds) noexcept {
    all_ += seconds;
    checks_ = 0;
    const bool is_first = !has_stepped_;  // devices take longer for a program's first run
    has_stepped_ = true;
    if (!is_first) move_mean(step_seconds_, seconds / count);
}

void GuessLedger::took_nothing(double seconds) noexcept {
    all_ += seconds;
    lost_ += seconds;
}

void GuessLedger::took_check(std::size_t guesses, std::size_t tokens, double guess_seconds,
                             double check_seconds) noexcept {
    const double seconds = guess_seconds + check_seconds;
    all_ += seconds;
    constexpr double kKept = 0.9;  // of what was known before, with each check
    right_ = kKept * right_ + static_cast<double>(tokens - 1);
    tried_ = kKept * tried_ + static_cast<double>(std::min(tokens, guesses));
    ++checks_;
    const bool is_first = !has_checked_;
    has_checked_ = true;
    if (is_first || !step_seconds_) return;
    move_mean(guess_seconds_, guess_seconds / static_cast<double>(guesses));
    move_mean(check_seconds_, check_seconds);
    const double most_gain = (guesses_cost_ ? kPatience : 1) * seconds;
    lost_ = std::max(lost_ + seconds - static_cast<double>(tokens) * *step_seconds_, -most_gain);
}

/// How likely a guess is right behind right ones. Of nothing that was tried: two of three.
double GuessLedger::acceptance() const noexcept { return (right_ + 2) / (tried_ + 3); }

/// Tokens a second with so many guesses in each check: the first wrong one, or the end, gives one more.
double GuessLedger::rate(std::size_t guesses) const noexcept {
    double tokens = 1, all_right = 1;
    for (std::size_t i = 0; i < guesses; ++i) tokens += all_right *= acceptance();
    return tokens / (static_cast<double>(guesses) * *guess_seconds_ + *check_seconds_);
}

bool GuessLedger::allows(std::size_t most) const noexcept {
    if (is_step_due()) return false;
    if (!guesses_cost_ || !check_seconds_) return lost_ <= kMostLoss * all_;
    const bool pays = rate(best_count(most)) * *step_seconds_ > 1;
    const double loss = *guess_seconds_ + *check_seconds_;  // of a check with one guess, at most
    return pays ? lost_ <= kMostLoss * all_ + kPatience * loss : lost_ + loss <= kMostLoss * all_;
}

std::size_t GuessLedger::best_count(std::size_t most) const noexcept {
    if (!guesses_cost_ || !check_seconds_) return most;
    std::size_t best = 1;
    for (std::size_t count = 2; count <= most; ++count)
        if (rate(count) > rate(best)) best = count;
    return best;
}

std::uint32_t GuessLedger::steps_between() const noexcept {
    constexpr double kLookSeconds = 0.01;  // a look takes a hundredth of that
    if (!step_seconds_ || *step_seconds_ >= kLookSeconds) return 1;
    return static_cast<std::uint32_t>(std::min(kLookSeconds / std::max(*step_seconds_, 1e-6), 1e3));
}

}  // namespace vkformer::decoding
