// SPDX-License-Identifier: MIT
/// What /v1/chat/completions and /v1/completions answer, whole or as events, OpenAI's shape.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "serve/answer_reader.hpp"
#include "serve/completion_request.hpp"
#include "serve/refusal.hpp"
#include "serve/sse.hpp"
#include "serve/token_scores.hpp"
#include "serve/work_thread.hpp"

namespace vkformer::serve {

/// Answers with log-probabilities, lists as long as the prompt with numbers for twenty others of each token, are written on `thread`, since
/// the engine's would keep all its other sequences waiting for them. All functions are called on the engine's thread, or on the one thread
/// that is left where it has nothing to do.
class CompletionWriter : public std::enable_shared_from_this<CompletionWriter> {
public:
    CompletionWriter(const Call& call, const CompletionRequest& request, WorkThread& thread);

    /// Of all the prompt's choices, before anything of theirs.
    void score_prompt(std::size_t prompt, std::span<const StepLogProbs> log_probs);
    void score(std::size_t index, const StepLogProbs& log_probs) { choices_[index].steps.push_back(log_probs); }
    /// Of an answer that is not streamed; false: it is complete.
    bool read(std::size_t index, std::string_view text);
    void reply(std::vector<Generation> all);

    /// False: nobody reads it, or the answer is complete.
    bool piece(std::size_t index, std::string_view text);
    void end(std::size_t index, Finish finish);
    void all_ended(std::vector<Generation> all);
    void fail(const Refusal& refusal);

private:
    using json = nlohmann::ordered_json;
    struct Choice {
        AnswerReader reader;              // of the engine's thread
        std::vector<StepLogProbs> steps;  // the same: told since the last piece
        std::optional<TokenScores> scores;
        std::int32_t first_token = 0;  // of the prompt
        bool is_echoed = false;        // the prompt has been streamed
    };

    template <class Work>
    void later(Work work);
    void give_up() noexcept;
    std::vector<StepLogProbs> take_steps(std::size_t index);
    void said(std::size_t index, std::span<const StepLogProbs> steps, std::string_view text, bool is_last);
    void write(std::string events);
    void write(std::size_t index, const std::vector<json>& deltas);
    void begin();
    std::string_view prompt_of(std::size_t index) const;
    void echo(std::size_t index);
    json whole(std::size_t index, const Generation& generation);
    json take_scores(std::size_t index);
    std::vector<json> deltas_of(std::size_t index, const std::vector<AnswerPart>& parts) const;
    json delta(std::size_t index, const AnswerPart& part) const;
    json chunk_head() const;
    std::string chunk(std::size_t index, const json& delta, std::string_view text, const json& finish);

    WorkThread* thread_;  // nullptr: the engine's
    Call call_;
    EventStream stream_;
    std::atomic<bool> is_gone_{false};  // nobody reads the answer, or it has failed
    bool is_chat_, has_usage_;
    std::size_t choices_per_prompt_;
    std::vector<std::string> echoed_;  // as of CompletionRequest
    json head_;
    std::vector<Choice> choices_;
    bool has_begun_ = false;
};

}  // namespace vkformer::serve
