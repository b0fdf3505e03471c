// SPDX-License-Identifier: MIT
/// Log-probabilities in the shapes of OpenAI's two routes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "serve/text_model.hpp"

namespace vkformer::serve {

/// How a model's tokens read, each found out once: lists of a long prompt have the same ones thousands of times. Of one
/// thread.
class TokenSpellings {
public:
    explicit TokenSpellings(const TextModel& model) : model_(&model) {}

    const GenerationEngine& engine() const noexcept { return model_->engine(); }
    /// Its bytes within a text.
    const std::string& bytes(std::int32_t token);
    /// Special tokens are left out of most texts.
    bool is_shown(std::int32_t token);

private:
    const TextModel* model_;
    std::unordered_map<std::int32_t, std::string> bytes_;
    std::unordered_map<std::int32_t, bool> shown_;
};

/// Of one generation whose text comes in pieces: which steps a piece covers.
class TokenScores {
public:
    TokenScores(std::shared_ptr<TokenSpellings> spellings, bool is_chat, const GenerateOptions& options)
        : spellings_(std::move(spellings)),
          is_chat_(is_chat),
          is_constrained_(options.constraint.has_value()),
          shows_special_(options.shows_special) {}

    /// The prompt before all else, which the text begins with: its first token, of which nothing is known, those behind it, in pieces, and
    /// its text. The token that ends the text is then told, too: who measures prompts counts on one of each that was generated.
    void echo(std::int32_t first) { add({.chosen = {.token = first}, .likeliest = {}}, false); }
    void echo(std::span<const StepLogProbs> piece);
    void echoed(std::string_view text);
    void push(const StepLogProbs& step);
    /// Of the steps whose text begins in all pieces so far, this one included. A chat's "content", or the lists of a completion. `is_last`:
    /// the text has its end, and what ended it, the last step, waits for end().
    void said(std::string_view piece, bool is_last);
    /// Of what is left, where the generation has ended so.
    void end(Finish finish);
    /// What has come since the last time; null where that is nothing.
    nlohmann::ordered_json take();

private:
    void add(const StepLogProbs& step, bool is_known = true);
    void add_said(std::size_t kept);
    /// Whether the last step that waits is the model's own end.
    bool ends() const;
    /// What a token adds to the text at this place.
    std::string text_of(std::int32_t token) const;

    struct Waiting {
        StepLogProbs step;
        std::size_t begin = 0;  ///< of its text in the whole as it is said, where what is no UTF-8 is U+FFFD
    };

    std::shared_ptr<TokenSpellings> spellings_;
    bool is_chat_, is_constrained_, shows_special_;
    std::function<std::string(std::int32_t)> stream_;  // made with the first step: copies from before have their own
    std::deque<Waiting> waiting_;
    std::size_t said_bytes_ = 0, spelled_bytes_ = 0, covered_characters_ = 0;
    bool is_first_ = true;
    bool tells_end_ = false;
    nlohmann::ordered_json made_;
};

/// As both routes spell a token: \xE2\x80 where it is no whole characters.
std::string spell_token(std::string_view bytes);

}  // namespace vkformer::serve
