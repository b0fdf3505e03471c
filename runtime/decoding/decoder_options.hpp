// SPDX-License-Identifier: MIT
/// What the sessions of decoder-only models are asked, and what they report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "graph/builders.hpp"
#include "models/decoder.hpp"
#include "models/generation_config.hpp"

namespace vkformer::decoding {

/// What is done to the logits before a token is chosen; graph::penalize and graph::mask_logits say how.
struct Penalties {
    float repetition = 1, presence = 0, frequency = 0;
    std::uint32_t no_repeat_ngram = 0;   ///< > 0: no run of so many tokens comes twice, the prompt counted
    std::map<std::int32_t, float> bias;  ///< added to a token's logit; −∞ forbids it
    std::uint32_t min_tokens = 0;        ///< so many tokens are generated before one of `ends`
    std::vector<std::int32_t> ends;
    models::TokenRules
        rules;  ///< forced_first: behind a prompt of one token; forced_last: where the request's tokens end

    bool has_least() const noexcept { return min_tokens > 0 && !ends.empty(); }
    /// Whether a rule asks how much of a sequence is its prompt, and what its tokens were.
    bool asks_begins() const noexcept { return has_least() || !rules.banned_first.empty(); }
    bool asks_sequences() const noexcept { return no_repeat_ngram > 0 || rules.looks_back(); }
    bool counts() const noexcept { return repetition != 1 || presence != 0 || frequency != 0; }
    friend bool operator==(const Penalties&, const Penalties&) = default;
};

struct DecoderSessionOptions {
    std::uint32_t rows = 1;  ///< sequences that are decoded together
    /// Tokens of a sequence at most, prompt included; 0: the model's max_positions, at most kDefaultContext. Beyond
    /// max_positions (of a model with extended_positions) there is one row: a sequence that grows longer has its keys computed
    /// anew, with the positions of long ones.
    std::uint32_t context = 0;
    std::uint32_t chunk = 512;  ///< tokens of a prompt that are computed in one submit at most
    /// > 0: such a submit shall take no longer. The first is the shortest there is; from then on its length follows what the longest that was
    /// allowed took per token, among a few lengths, so that few programs are made.
    double chunk_seconds = 0;
    /// What such a submit takes beside its tokens, in tokens: weights are read once more, and a GPU has cores for many at a time.
    std::uint32_t run_tokens = 16;
    static constexpr std::uint32_t kRunTokensOnGpus = 256;
    DType dtype = DType::f32;  ///< of activations
    models::WeightFormat weights = models::WeightFormat::as_computed;
    models::CacheFormat cache = models::CacheFormat::as_computed;
    graph::SampleOptions sample = {.temperature = 0};  ///< temperature 0: greedy
    Penalties penalties;
    bool masks = false;  ///< each step has what the sequences' constraints let follow
    /// Each pass has what the model's adapters add, though none may count: so that all that a guest's sequences need is made before them.
    bool adapters = false;
    /// > 0: so many tokens at most are guessed, and checked in one pass (speculative decoding: Leviathan et al. 2023). Of one row. Nothing is
    /// guessed of a sequence with a constraint or with log-probabilities, or beyond max_positions.
    std::uint32_t guesses = 0;
    static constexpr std::uint32_t kMostGuesses = 64;
    /// Hidden states of all tokens are kept for a model that guesses by them (models::HandoverWeights). Of one row; where layers keep a
    /// state, there is one more of it, for what wrong guesses made of it not to count.
    bool hands_over = false;
    /// Each step has the log-probabilities of what it chooses and of so many of the likeliest tokens, one of likeliest_for's numbers.
    std::optional<std::uint32_t> log_probs{};
    static constexpr std::uint32_t kDefaultContext = 4096, kSmallestChunk = 16;
};

/// What a run took, for reports. Seconds of wall time.
struct DecoderTimings {
    double prompt_seconds = 0, decode_seconds = 0;
    std::uint64_t prompt_tokens = 0;  ///< computed in chunks, those reused not counted
    std::uint64_t prompt_chunks = 0;
    std::uint64_t decode_steps = 0;  ///< checks of guesses among them
    std::uint64_t guessed_tokens = 0, accepted_tokens = 0;
};

/// Errors: InvalidArgument (a bias or an end of a token that the model does not know).
Result<void> check_penalties(const Penalties& penalties, std::uint32_t vocab);
/// Errors: InvalidArgument (guesses where there are several rows, or rules that look at what was chosen before, or layers with states, which
/// take no token back; says which).
Result<void> check_guesses(const models::Decoder& model, const DecoderSessionOptions& options);
/// The options with the context and the chunk that hold. Errors: InvalidArgument (a context beyond the model's, no rows, several
/// beyond max_positions, a cache format that the heads do not fit), and those of check_penalties and check_guesses.
Result<DecoderSessionOptions> checked_options(const models::Decoder& model, const DecoderSessionOptions& options);

}  // namespace vkformer::decoding
