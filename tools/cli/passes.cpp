// SPDX-License-Identifier: MIT
#include "passes.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>

#include "api/image_runner.hpp"
#include "core/try.hpp"
#include "decoding/encoder_session.hpp"
#include "decoding/image_session.hpp"
#include "models/ctc.hpp"
#include "models/sentence.hpp"

namespace vkformer::cli {
namespace {

template <class T, class Distribution>
std::vector<T> random_values(std::size_t count, Distribution distribution, std::uint32_t seed) {
    std::mt19937 generator(seed);
    std::vector<T> values(count);
    for (T& value : values) value = distribution(generator);
    return values;
}

std::vector<std::int32_t> random_ints(std::size_t count, std::uint32_t below, std::uint32_t seed) {
    const auto last = static_cast<std::int32_t>(below) - 1;
    return random_values<std::int32_t>(count, std::uniform_int_distribution<std::int32_t>(0, last), seed);
}

Result<Pass> text_pass(const models::Encoder& encoder, const decoding::EncoderHead& head, const PassOptions& options,
                       bool keeps_weights) {
    const models::EncoderConfig& config = encoder.config();
    const models::EncoderLayout layout = {.batch = options.batch,
                                          .len = std::min(options.length, config.max_positions),
                                          .dtype = options.dtype,
                                          .token_types = config.types > 1,
                                          .layers = {.attention = keeps_weights}};
    VKFORMER_TRY(auto made, decoding::embedding_graph(encoder, head, layout));
    const std::size_t tokens = std::size_t{layout.batch} * layout.len;
    std::vector<std::int32_t> lengths(layout.batch, static_cast<std::int32_t>(layout.len));
    for (std::uint32_t b = 1; b < layout.batch && !options.full_texts; b += 2)
        lengths[b] = static_cast<std::int32_t>(std::max(1u, layout.len - layout.len / 3));
    Pass pass = {.name = keeps_weights ? "texts, attention weights kept" : "texts",
                 .items = "texts",
                 .graph = std::move(made.graph),
                 .feeds = {}};
    pass.feeds["input_ids"] = random_ints(tokens, config.vocab_size, options.seed);
    if (layout.token_types) pass.feeds["token_type_ids"] = random_ints(tokens, config.types, options.seed + 1);
    pass.feeds["lengths"] = std::move(lengths);
    return pass;
}

Result<std::vector<Pass>> text_passes(const models::Encoder& encoder, const decoding::EncoderHead& head,
                                      const PassOptions& options) {
    std::vector<Pass> passes;
    for (const bool keeps_weights : {false, true}) {
        if (keeps_weights && !options.with_attention_weights) continue;
        VKFORMER_TRY(Pass pass, text_pass(encoder, head, options, keeps_weights));
        passes.push_back(std::move(pass));
    }
    return passes;
}

Result<Pass> image_pass(const models::VisionEncoder& encoder, const PassOptions& options, bool keeps_weights) {
    const models::VisionConfig& config = encoder.config();
    const decoding::ImageHead head = [&](graph::Graph& graph, graph::Value hidden) {
        return config.labels > 0 ? encoder.add_classifier(graph, hidden) : encoder.add_embedding(graph, hidden);
    };
    VKFORMER_TRY(
        auto made,
        decoding::image_graph(
            encoder, head, {.batch = options.batch, .dtype = options.dtype, .layers = {.attention = keeps_weights}}));
    Pass pass = {.name = keeps_weights ? "images, attention weights kept" : "images",
                 .items = "images",
                 .graph = std::move(made.graph),
                 .feeds = {}};
    const std::size_t pixels = std::size_t{options.batch} * config.channels * config.image_height * config.image_width;
    pass.feeds["pixel_values"] = random_values<float>(pixels, std::normal_distribution<float>(), options.seed);
    return pass;
}

Result<std::vector<Pass>> image_passes(const models::VisionEncoder& encoder, const PassOptions& options) {
    std::vector<Pass> passes;
    for (const bool keeps_weights : {false, true}) {
        if (keeps_weights && !options.with_attention_weights) continue;
        VKFORMER_TRY(Pass pass, image_pass(encoder, options, keeps_weights));
        passes.push_back(std::move(pass));
    }
    return passes;
}

}  // namespace

Result<std::vector<Pass>> passes_of(const models::Opened<models::Clip>& model, const PassOptions& options) {
    VKFORMER_TRY(const models::Clip clip, model.load());
    VKFORMER_TRY(auto passes, image_passes(clip.vision, options));
    const decoding::EncoderHead head = [&](graph::Graph& graph, const models::EncoderTensors& tensors) {
        return clip.add_text_embedding(graph, tensors);
    };
    PassOptions whole = options;
    if (clip.pads_texts) whole.length = clip.text.config().max_positions;  // as they always are
    VKFORMER_TRY(auto texts, text_passes(clip.text, head, whole));
    std::ranges::move(texts, std::back_inserter(passes));
    return passes;
}

Result<std::vector<Pass>> passes_of(const models::Opened<models::Encoder>& model, const PassOptions& options) {
    VKFORMER_TRY(const models::Encoder encoder, model.load());
    std::optional<models::SentenceModel> sentence;
    if (encoder.config().labels == 0) {
        VKFORMER_TRY(sentence, models::load_sentence_model(model.path));
    }
    const decoding::EncoderHead head = [&](graph::Graph& graph,
                                           const models::EncoderTensors& tensors) -> Result<graph::Value> {
        if (!sentence) return encoder.add_classifier(graph, tensors);
        return models::add_sentence(graph, *sentence, tensors);
    };
    return text_passes(encoder, head, options);
}

Result<std::vector<Pass>> passes_of(const models::Opened<models::VisionEncoder>& model, const PassOptions& options) {
    VKFORMER_TRY(auto loaded, model.load());
    VKFORMER_TRY(const auto encoder, api::fitted_to(model.path, std::move(loaded)));
    return image_passes(encoder, options);
}

Result<std::vector<Pass>> passes_of(const models::Opened<models::SpeechModel>& model, const PassOptions& options) {
    VKFORMER_TRY(const models::SpeechModel speech, model.load());
    const models::CtcModel& ctc = *speech.ctc;
    std::uint64_t samples = options.length;  // of the least sound with so many frames
    for (auto at = ctc.config.stem.rbegin(); at != ctc.config.stem.rend(); ++at)
        samples = (samples - 1) * at->stride + at->taps;
    if (samples * options.batch > graph::Graph::kMaxElements)
        return Error{ErrorCode::InvalidArgument, std::to_string(options.length) + " frames are more than go through"};
    const std::vector<float> sounds =
        random_values<float>(samples * options.batch, std::normal_distribution<float>(), options.seed);
    std::vector<std::uint32_t> lengths(options.batch, static_cast<std::uint32_t>(samples));
    for (std::uint32_t b = 1; b < options.batch && !options.full_texts; b += 2) lengths[b] -= lengths[b] / 3;
    std::vector<Pass> passes;
    for (const bool keeps_weights : {false, true}) {
        if (keeps_weights && !options.with_attention_weights) continue;
        Pass pass = {.name = keeps_weights ? "sounds, attention weights kept" : "sounds",
                     .items = "sounds",
                     .graph = {},
                     .feeds = {}};
        const models::CtcLayout layout = {.batch = options.batch,
                                          .samples = static_cast<std::uint32_t>(samples),
                                          .dtype = options.dtype,
                                          .layers = {.attention = keeps_weights}};
        VKFORMER_TRY(const auto tensors, ctc.add_encoder(pass.graph, layout));
        pass.graph.mark_output(tensors.logits);
        ctc.for_each_input(tensors, layout, {.samples = sounds, .lengths = lengths},
                           [&](graph::Value value, const auto& values) {
                               pass.feeds[pass.graph.tensor(value).name] = std::vector(values.begin(), values.end());
                           });
        passes.push_back(std::move(pass));
    }
    return passes;
}

}  // namespace vkformer::cli
