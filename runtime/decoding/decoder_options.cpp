// SPDX-License-Identifier: MIT
#include "decoding/decoder_options.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/try.hpp"
#include "decoding/invalid.hpp"
#include "decoding/token_rules.hpp"

namespace vkformer::decoding {
namespace {

constexpr std::uint32_t kSmallestChunk = DecoderSessionOptions::kSmallestChunk;

}  // namespace

Result<void> check_penalties(const Penalties& penalties, std::uint32_t vocab) {
    for (const auto& [token, bias] : penalties.bias)
        if (token < 0 || static_cast<std::uint32_t>(token) >= vocab || std::isnan(bias) ||
            bias == std::numeric_limits<float>::infinity())
            return invalid("the logit bias of token " + std::to_string(token) + " is " + std::to_string(bias) +
                           "; tokens are 0 to " + std::to_string(vocab - 1) + ", biases are numbers below infinity");
    for (const std::int32_t token : penalties.ends)
        if (token < 0 || static_cast<std::uint32_t>(token) >= vocab)
            return invalid("the end token " + std::to_string(token) + " is none of the model's, which are 0 to " +
                           std::to_string(vocab - 1));
    return check_rules(penalties.rules, vocab);
}

Result<void> check_guesses(const models::Decoder& model, const DecoderSessionOptions& options) {
    if (options.guesses == 0) return {};
    const Penalties& penalties = options.penalties;
    const auto refused = [](const char* what) {
        return invalid(
            std::string("guessed tokens (of prompt look-up or a draft model) are checked before it is known what was "
                        "chosen before them, which ") +
            what +
            " would have to know: leave out one of the two (a model's generation_config.json may be what "
            "asks for the other)");
    };
    if (options.guesses > DecoderSessionOptions::kMostGuesses)
        return invalid(std::to_string(options.guesses) + " guesses of tokens were asked for, at most " +
                       std::to_string(DecoderSessionOptions::kMostGuesses) + " are checked at a time");
    if (model.config().keeps_states() && !options.hands_over)
        return invalid(
            "wrong guesses of tokens (of prompt look-up or a draft model) are taken back, and layers of this model "
            "keep a "
            "state of the sequence, which cannot: leave the guesses out, or let the model guess by its own multi-token "
            "head, if it has one");
    if (options.rows > 1)
        return invalid("prompt look-up and draft models are for one sequence at a time, not for a batch of them");
    if (penalties.counts()) return refused("a penalty of repetition, presence or frequency");
    if (penalties.no_repeat_ngram > 0) return refused("a ban of repeated n-grams");
    if (penalties.asks_sequences()) return refused("a ban or a bias of words of several tokens");
    if (penalties.asks_begins()) return refused("a least number of tokens, or a rule for the first one,");
    if (penalties.rules.forced_last >= 0) return refused("a forced last token");
    return {};
}

Result<DecoderSessionOptions> checked_options(const models::Decoder& model, const DecoderSessionOptions& options) {
    DecoderSessionOptions chosen = options;
    const std::uint32_t usual = model.config().max_positions, most = model.config().most_positions();
    if (chosen.context == 0) chosen.context = std::min(usual, DecoderSessionOptions::kDefaultContext);
    if (chosen.context > most)
        return invalid("a context of " + std::to_string(chosen.context) +
                       " tokens was asked for, the model takes at most " + std::to_string(most));
    if (chosen.rows == 0) return invalid("a session needs at least one row");
    if (chosen.rows > 1 && chosen.context > usual)
        return invalid("a context of " + std::to_string(chosen.context) + " tokens is beyond the model's original " +
                       std::to_string(usual) + ", where sequences are generated one by one, not " +
                       std::to_string(chosen.rows) + " together");
    VKFORMER_CHECK(model.check_cache(chosen.cache));
    VKFORMER_CHECK(check_penalties(chosen.penalties, model.config().vocab_size));
    VKFORMER_CHECK(check_guesses(model, chosen));
    chosen.chunk = std::clamp(chosen.chunk, kSmallestChunk, std::max(kSmallestChunk, chosen.context));
    return chosen;
}

}  // namespace vkformer::decoding
