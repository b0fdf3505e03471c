// SPDX-License-Identifier: MIT
/// How many tokens are guessed for each sequence of a batch, by what steps of so many rows were measured to take and how many guesses were
/// right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace vkformer::decoding {

/// What is known of one sequence's guesses.
struct GuessRecord {
    double tried = 0, right = 0;  ///< guesses whose like was chosen or not, of the last checks
    double all = 0;               ///< seconds of steps and checks that it was in
    /// Of these, more than its tokens would have taken in steps; of gains, what kPatience checks take at most.
    double lost = 0;

    /// How likely a guess is right behind right ones. Of nothing that was tried: two of three.
    double acceptance() const noexcept { return (right + 2) / (tried + 3); }
    /// Whether no more was lost than may be.
    bool may_guess() const noexcept;
};

/// Of steps of one kind. A check is a step in which a sequence has a row for its last token and one for each guess behind it; how many rows
/// there are in all is a power of two, so that few programs serve all. No sequence, one without guesses neither, is slower for checks than
/// without them by more than kMostLoss of its time and one check, but for the first run of each program, which is not counted.
class BatchGuesses {
public:
    static constexpr double kMostLoss = 0.01;
    static constexpr int kPatience = 4;
    static constexpr std::uint32_t kMostChecks = 64;   ///< between two measured steps of a size
    static constexpr std::uint32_t kKeptChecks = 256;  ///< for which what a size takes is not measured anew

    /// What `count` steps of so many rows took.
    void took_steps(std::uint32_t rows, std::uint32_t count, double seconds);
    /// How much longer `seconds` are than `count` steps of so many rows; 0: no, or it is not known.
    double longer_than_steps(std::uint32_t rows, std::uint32_t count, double seconds) const;
    /// A step of that size has to be measured before the next check.
    bool is_step_due(std::uint32_t rows) const;

    struct Candidate {
        const GuessRecord* record;
        std::size_t guesses;  ///< that there are for it
    };
    /// How many of them are worth checking together, of each; `step_rows`: those of the sequences' step, whose time is known;
    /// `most_rows`: of a check. All 0: none may be checked, or there are none.
    std::vector<std::size_t> counts(std::uint32_t step_rows, std::span<const Candidate> candidates,
                                    std::uint32_t most_rows) const;

    struct Checked {
        GuessRecord* record;
        std::size_t guesses;
        std::size_t tokens;  ///< of which each would have been a step; 0: the sequence has failed
    };
    /// What a check of so many rows took; no number where it was the first run of its program.
    void took_check(std::uint32_t step_rows, std::uint32_t rows, std::optional<double> seconds,
                    std::span<const Checked> sequences);

private:
    struct Mean {
        double seconds = 0;
        std::uint64_t checks = 0;  // checks_ when it was measured
    };
    static void measure(std::map<std::uint32_t, Mean>& means, std::uint32_t rows, double seconds, std::uint64_t checks);
    double check_seconds(std::uint32_t step_rows, std::uint32_t rows, bool& is_known) const;

    std::map<std::uint32_t, Mean> steps_, check_means_;  // by their rows
    std::uint64_t checks_ = 0;
};

}  // namespace vkformer::decoding
