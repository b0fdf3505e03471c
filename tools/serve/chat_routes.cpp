// SPDX-License-Identifier: MIT
#include "serve/chat_routes.hpp"

#include <memory>
#include <span>
#include <utility>

#include "serve/completion_request.hpp"
#include "serve/completion_writer.hpp"
#include "serve/generation.hpp"

namespace vkformer::serve {
namespace {

/// What is answered where the prompts are all that is wanted: the engine has nothing to do.
void repeat_prompts(const CompletionRequest& request, CompletionWriter& writer) {
    std::vector<Generation> all(request.prompts.size() * request.choices);
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].finish = Finish::length;
        all[i].prompt_tokens = static_cast<std::uint32_t>(request.prompts[i / request.choices].size());
        if (request.streams) writer.end(i, all[i].finish);
    }
    if (request.streams)
        writer.all_ended(all);
    else
        writer.reply(all);
}

/// Each as often as it stands for a choice.
std::vector<Generation> repeated(const std::vector<Generation>& all, std::size_t times) {
    std::vector<Generation> choices;
    for (const Generation& one : all) choices.insert(choices.end(), times, one);
    return choices;
}

void run(const Call& call, const CompletionRequest& request, WorkThread& thread) {
    const auto writer = std::make_shared<CompletionWriter>(call, request, thread);
    if (request.is_prompt_alone && !request.options.log_probs) return repeat_prompts(request, *writer);
    const std::size_t per_prompt = request.requests_per_prompt(), times = request.choices / per_prompt;
    GenerationSteps steps{.on_error = [writer](const Refusal& refusal) { writer->fail(refusal); }};
    std::vector<GenerationRequest> requests = request.requests();
    steps.on_prompt = [writer, per_prompt](std::size_t index, std::span<const StepLogProbs> prompt) {
        writer->score_prompt(index / per_prompt, prompt);
    };
    if (request.options.log_probs)
        steps.on_log_probs = [writer](std::size_t index, const StepLogProbs& step) { writer->score(index, step); };
    if (request.streams) {
        steps.on_text = [writer](std::size_t index, std::string_view text) { return writer->piece(index, text); };
        steps.on_end = [writer, times](std::size_t index, const Generation& generation) {
            for (std::size_t i = 0; i < times; ++i) writer->end(index * times + i, generation.finish);
        };
        steps.on_all = [writer, times](const std::vector<Generation>& all) { writer->all_ended(repeated(all, times)); };
    } else {
        steps.on_text = [writer](std::size_t index, std::string_view text) { return writer->read(index, text); };
        steps.on_all = [writer, times](const std::vector<Generation>& all) { writer->reply(repeated(all, times)); };
    }
    generate(*request.model, call, std::move(requests), std::move(steps), per_prompt);
}

}  // namespace

std::vector<Route> chat_routes(const ModelSet& models, const Limits& limits, WorkThread& thread) {
    const auto route = [&](std::string_view path, std::string_view summary,
                           CompletionRequest (*read)(const ModelSet&, const Call&)) {
        return Route{.method = "POST",
                     .path = path,
                     .body_bytes = limits.body_bytes,
                     .is_work = true,
                     .summary = summary,
                     .gives = {"application/json", "text/event-stream"},
                     .answer = [&models, &thread, read](const Call& call) { run(call, read(models, call), thread); }};
    };
    return {route("/v1/chat/completions", "The answer to a conversation, as OpenAI's API has it", read_chat_completion),
            route("/v1/completions", "Texts continued, as OpenAI's API has it", read_completion)};
}

}  // namespace vkformer::serve
