// SPDX-License-Identifier: MIT
#include "serve/generation.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace vkformer::serve {
namespace {

/// The generations of a request under way. The engine calls from one thread;
/// the client goes on another.
struct Running : std::enable_shared_from_this<Running> {
    Running(TextModel& of, Call answered, std::vector<GenerationRequest> asked, GenerationSteps told,
            std::size_t per_prompt)
        : model(of),
          call(std::move(answered)),
          requests(std::move(asked)),
          steps(std::move(told)),
          choices(per_prompt),
          ended(requests.size()),
          left(requests.size()) {}

    TextModel& model;
    Call call;
    std::vector<GenerationRequest> requests;  // moved from where the engine has them
    GenerationSteps steps;
    std::size_t choices;
    std::vector<Generation> ended;
    std::size_t left;
    std::atomic<bool> has_failed{false};
    std::mutex mutex;
    std::set<std::size_t> waiting;  // numbers of generations that the others of their prompt wait for
    bool is_cancelled = false;
    std::vector<TextModel::Id> ids;

    void cancel() {
        std::vector<TextModel::Id> all;
        {
            const std::lock_guard lock(mutex);
            is_cancelled = true;
            all.swap(ids);
        }
        for (const auto id : all) model.cancel(id);
    }
    void keep(TextModel::Id id) {
        {
            const std::lock_guard lock(mutex);
            if (!is_cancelled) return ids.push_back(id);
        }
        model.cancel(id);
    }
    void fail(const Refusal& refusal) {
        if (!has_failed.exchange(true)) steps.on_error(refusal);
        cancel();
    }
    /// False: the engine refused it, and all have failed.
    bool submit(std::size_t index) {
        auto id = model.submit(
            std::move(requests[index]),
            [self = shared_from_this(), index](std::string_view text, std::int32_t) {
                return !self->has_failed && (!self->steps.on_text || self->steps.on_text(index, text));
            },
            [self = shared_from_this(), index](Result<Generation> result) { self->end(index, std::move(result)); },
            [self = shared_from_this(), index](const StepLogProbs& log_probs) {
                if (self->steps.on_log_probs) self->steps.on_log_probs(index, log_probs);
            },
            [self = shared_from_this(), index](std::span<const StepLogProbs> log_probs) {
                if (self->steps.on_prompt) self->steps.on_prompt(index, log_probs);
                self->submit_others(index);
            });
        if (id)
            keep(*id);
        else
            fail(call.failed(id.error()));
        return bool{id};
    }
    /// Of the prompt that the first of them has.
    void submit_others(std::size_t first) {
        {
            const std::lock_guard lock(mutex);
            if (is_cancelled || waiting.erase(first) == 0) return;
        }
        for (std::size_t i = first + 1; i < first + choices; ++i)
            if (!submit(i)) return;
    }
    void end(std::size_t index, Result<Generation> result) {
        --left;
        {
            const std::lock_guard lock(mutex);
            if (waiting.erase(index) > 0) left -= choices - 1;  // it was cancelled before they could follow
        }
        if (has_failed) return;
        if (!result) return fail(call.failed(result.error()));
        if (steps.on_end) steps.on_end(index, *result);
        ended[index] = *std::move(result);
        if (left == 0) steps.on_all(ended);
    }
};

}  // namespace

void generate(TextModel& model, const Call& call, std::vector<GenerationRequest> requests, GenerationSteps steps,
              std::size_t choices) {
    const auto running = std::make_shared<Running>(model, call, std::move(requests), std::move(steps), choices);
    for (std::size_t i = 0; i < running->requests.size(); i += choices) {
        const bool others_wait = choices > 1 && running->requests[i].prompt_log_probs;
        if (others_wait) {
            const std::lock_guard lock(running->mutex);
            running->waiting.insert(i);
        }
        const std::size_t now = others_wait ? 1 : choices;
        for (std::size_t k = i; k < i + now; ++k)
            if (!running->submit(k)) return;
    }
    call.exchange().on_gone([running] { running->cancel(); });
}

}  // namespace vkformer::serve
