// SPDX-License-Identifier: MIT
#include "serve/generation.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace vkformer::serve {
namespace {

/// The generations of a request under way. The engine calls from one thread;
/// the client goes on another.
struct Running {
    TextModel& model;
    Call call;
    GenerationSteps steps;
    std::vector<Generation> ended;
    std::size_t left = 0;
    std::atomic<bool> has_failed{false};
    std::mutex mutex;
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
    void end(std::size_t index, Result<Generation> result) {
        --left;
        if (has_failed) return;
        if (!result) return fail(told(result.error()));
        if (steps.on_end) steps.on_end(index, *result);
        ended[index] = *std::move(result);
        if (left == 0) steps.on_all(ended);
    }
};

}  // namespace

void generate(TextModel& model, const Call& call, std::vector<GenerationRequest> requests, GenerationSteps steps) {
    const auto running = std::make_shared<Running>(model, call, std::move(steps));
    running->ended.resize(requests.size());
    running->left = requests.size();
    for (std::size_t i = 0; i < requests.size(); ++i) {
        auto id = model.submit(
            std::move(requests[i]),
            [running, i](std::string_view text, std::int32_t) {
                return !running->has_failed && (!running->steps.on_text || running->steps.on_text(i, text));
            },
            [running, i](Result<Generation> result) { running->end(i, std::move(result)); },
            [running, i](const StepLogProbs& log_probs) {
                if (running->steps.on_log_probs) running->steps.on_log_probs(i, log_probs);
            },
            [running, i](std::span<const StepLogProbs> log_probs) {
                if (running->steps.on_prompt) running->steps.on_prompt(i, log_probs);
            });
        if (!id) return running->fail(told(id.error()));
        running->keep(*id);
    }
    call.exchange().on_gone([running] { running->cancel(); });
}

}  // namespace vkformer::serve
