// SPDX-License-Identifier: MIT
#include "model_plans.hpp"

#include <algorithm>
#include <iterator>

#include "core/try.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_steps.hpp"
#include "decoding/speech_steps.hpp"
#include "decoding/steps.hpp"
#include "models/generation_config.hpp"
#include "models/open_model.hpp"
#include "models/speech_config.hpp"
#include "passes.hpp"

namespace vkformer::cli {
namespace {

constexpr std::uint32_t kSearchBeams = 4;  // of the search among every_program

using Plans = std::vector<graph::Plan>;

void append(Plans& plans, Plans more) { std::ranges::move(more, std::back_inserter(plans)); }

/// The programs of a generation.
Result<Plans> plans_of_kind(const models::EncoderDecoder& model, models::GenerationConfig generation,
                            const PlanOptions& options) {
    const auto limits = model.limits();
    if (options.beams > 0) generation.beams = options.beams;
    generation.max_steps = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.steps, limits.target_len));
    const auto source_len = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.length, limits.source_len));
    const models::DecodeLayout layout = {.batch = options.batch,
                                         .beams = generation.beams,
                                         .source_len = source_len,
                                         .max_steps = generation.max_steps,
                                         .dtype = options.dtype};
    VKFORMER_TRY(auto encoder, decoding::encoder_graph(model, layout));
    VKFORMER_TRY(auto step, decoding::step_graph(model, layout, generation));
    Plans plans;
    plans.push_back(graph::make_plan(std::move(encoder.graph), {.fusions = options.fusions}));
    plans.push_back(graph::make_plan(std::move(step.graph), {.fusions = options.fusions}));
    return plans;
}

/// Forward passes on both attention paths.
Result<Plans> forward_plans_of(const models::EncoderDecoder& model, const PlanOptions& options) {
    const auto limits = model.limits();
    const auto source_len = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.length, limits.source_len));
    const auto target_len = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.steps, limits.target_len));
    Plans plans;
    for (const bool weights : {false, true}) {
        VKFORMER_TRY(auto pass, model.forward({.source_len = source_len,
                                               .target_len = target_len,
                                               .dtype = options.dtype,
                                               .layers = {.attention = weights}}));
        plans.push_back(graph::make_plan(std::move(pass.graph), {.fusions = options.fusions}));
    }
    return plans;
}

/// The chunks of a prompt and the step of a language model; both lengths together are the context.
Result<Plans> plans_of_kind(const models::Decoder& model, const PlanOptions& wanted) {
    const decoding::DecoderSessionOptions options = {
        .rows = wanted.batch,
        .context = std::min(wanted.length + wanted.steps, model.config().max_positions),
        .dtype = wanted.dtype,
        .weights = models::WeightFormat::as_filed,
        .cache = wanted.cache};
    Plans plans;
    const std::uint32_t beams = wanted.beams > 1 ? wanted.beams : 0;
    VKFORMER_TRY(
        auto chunk,
        decoding::chunk_graph(model, options, std::min({wanted.length, options.chunk, options.context}), false, beams));
    plans.push_back(graph::make_plan(std::move(chunk.graph), {.fusions = wanted.fusions}));
    if (beams > 0) {
        VKFORMER_TRY(auto search, decoding::beam_step_graph(model, options, {.beams = beams}, 0, 0));
        plans.push_back(graph::make_plan(std::move(search.graph), {.fusions = wanted.fusions}));
        return plans;
    }
    VKFORMER_TRY(auto step, decoding::step_graph(model, options));
    plans.push_back(graph::make_plan(std::move(step.graph), {.fusions = wanted.fusions}));
    return plans;
}

/// A whole window of sound, a step of the decoder with the temperature that goes first, and with beams one of their search.
Result<Plans> speech_plans_of(const models::EncoderDecoder& model, const PlanOptions& options) {
    const auto limits = model.limits();
    const models::DecodeLayout layout = {.batch = options.batch,
                                         .beams = std::max(options.beams, 1u),
                                         .source_len = static_cast<std::uint32_t>(limits.source_len),
                                         .max_steps = static_cast<std::uint32_t>(limits.target_len),
                                         .dtype = options.dtype};
    decoding::SpeechRules rules;
    rules.generation.max_steps = layout.max_steps;
    VKFORMER_TRY(auto encoder, decoding::encoder_graph(model, layout));
    VKFORMER_TRY(auto step, decoding::speech_step_graph(model, layout, rules, 0));
    Plans plans;
    plans.push_back(graph::make_plan(std::move(encoder.graph), {.fusions = options.fusions}));
    plans.push_back(graph::make_plan(std::move(step.graph), {.fusions = options.fusions}));
    if (layout.beams > 1) {
        VKFORMER_TRY(auto search, decoding::speech_beam_graph(model, layout, rules));
        plans.push_back(graph::make_plan(std::move(search.graph), {.fusions = options.fusions}));
    }
    return plans;
}

PlanOptions as_search(PlanOptions options) {
    options.beams = kSearchBeams;
    return options;
}

template <OnePass Model>
Result<Plans> plans_of_kind(const models::Opened<Model>& opened, const PlanOptions& options) {
    if (options.beams > 1) return Error{ErrorCode::InvalidArgument, "the model answers in one pass: leave out --beams"};
    VKFORMER_TRY(auto passes, passes_of(opened, {.batch = options.batch,
                                                 .length = options.length,
                                                 .dtype = options.dtype,
                                                 .with_attention_weights = options.every_program}));
    Plans plans;
    for (Pass& pass : passes) plans.push_back(graph::make_plan(std::move(pass.graph), {.fusions = options.fusions}));
    return plans;
}

Result<Plans> plans_of_kind(const models::Opened<models::Decoder>& opened, const PlanOptions& options) {
    VKFORMER_TRY(const auto model, opened.load());
    VKFORMER_TRY(auto plans, plans_of_kind(model, options));
    if (options.every_program) {
        VKFORMER_TRY(auto more, plans_of_kind(model, as_search(options)));
        append(plans, std::move(more));
    }
    return plans;
}

Result<Plans> plans_of_kind(const models::Opened<models::SpeechModel>& opened, const PlanOptions& options) {
    VKFORMER_TRY(const auto speech, opened.load());
    if (speech.ctc) return plans_of_kind<models::SpeechModel>(opened, options);
    PlanOptions wanted = options;
    if (wanted.beams == 0) {
        const auto limits = speech.model->limits();
        VKFORMER_TRY(const auto config, models::load_speech_config(opened.path, limits.target_len, limits.target_vocab,
                                                                   {.timestamps = false}));
        wanted.beams = config.generation.beams;
    }
    VKFORMER_TRY(auto plans, speech_plans_of(*speech.model, wanted));
    if (options.every_program && wanted.beams <= 1) {
        VKFORMER_TRY(auto more, speech_plans_of(*speech.model, as_search(options)));
        append(plans, std::move(more));
    }
    return plans;
}

Result<Plans> plans_of_kind(const models::Opened<std::unique_ptr<models::EncoderDecoder>>& opened,
                            const PlanOptions& options) {
    VKFORMER_TRY(const auto model, opened.load());
    const auto limits = model->limits();
    VKFORMER_TRY(const auto generation,
                 models::load_generation_config(opened.path, limits.target_len, limits.target_vocab));
    VKFORMER_TRY(auto plans, plans_of_kind(*model, generation, options));
    if (options.every_program) {
        VKFORMER_TRY(auto more, plans_of_kind(*model, generation, as_search(options)));
        append(plans, std::move(more));
        VKFORMER_TRY(auto passes, forward_plans_of(*model, options));
        append(plans, std::move(passes));
    }
    return plans;
}

}  // namespace

Result<Plans> plans_of(const models::OpenedModel& model, const PlanOptions& options) {
    return std::visit([&](const auto& opened) { return plans_of_kind(opened, options); }, model);
}

}  // namespace vkformer::cli
