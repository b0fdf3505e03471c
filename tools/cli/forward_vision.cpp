// SPDX-License-Identifier: MIT
/// Images, and texts beside them.
#include <algorithm>
#include <limits>
#include <numeric>

#include "api/encoder_heads.hpp"
#include "core/try.hpp"
#include "forward_pass.hpp"

namespace vkformer::cli {
namespace {

/// Images as Hugging Face's processors give them, normalised.
Result<Floats> images(const TensorInputs& file, const models::VisionConfig& config) {
    return file.floats("pixel_values", {config.channels, config.image_height, config.image_width});
}

/// The model for images of the input's size, where it takes several.
Result<models::VisionEncoder> fitted_to(const TensorInputs& file, const models::VisionEncoder& model) {
    const TensorData* const pixels = file.find("pixel_values");
    if (!pixels || pixels->shape.rank() != 4 || !model.is_resizable()) return model;
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
    return model.at_size(static_cast<std::uint32_t>(std::min(pixels->shape[2], kMost)),
                         static_cast<std::uint32_t>(std::min(pixels->shape[3], kMost)));
}

/// Up to the first end token of each text, which stands for it, and which there must be.
Result<std::vector<std::int32_t>> lengths_to_end(const IntegerMatrix& ids, std::int32_t end) {
    std::vector<std::int32_t> result;
    for (std::size_t b = 0; b < ids.batch; ++b) {
        const auto row = ids.row(b);
        const auto found = std::ranges::find(row, end);
        if (found == row.end())
            return Error{ErrorCode::InvalidArgument,
                         "input_ids has a text without the end token " + std::to_string(end)};
        result.push_back(static_cast<std::int32_t>(found - row.begin()) + 1);
    }
    return result;
}

/// How much of each text the model reads: up to what stands for it.
Result<std::vector<std::int32_t>> read_lengths(const models::Clip& clip, const TensorInputs& file,
                                               const IntegerMatrix& ids) {
    VKFORMER_TRY(const auto padding, file.right_padding(ids));
    const auto seen = padding.lengths();
    std::vector<std::int32_t> ends(ids.batch, static_cast<std::int32_t>(ids.len));
    if (!clip.pads_texts) {
        VKFORMER_TRY(ends, lengths_to_end(ids, clip.text.config().end_token));  // which sees nothing behind it
    }
    for (std::size_t b = 0; b < ends.size(); ++b)
        if (seen[b] < ends[b])
            return Error{ErrorCode::InvalidArgument,
                         clip.pads_texts
                             ? "attention_mask has a zero, and this model reads texts with their padding: leave it out"
                             : "attention_mask has a zero before or at the end token of a text, which stands for it"};
    return ends;
}

/// [images, texts], of the image_embeds and text_embeds among the outputs.
formats::NamedTensor logits_per_image(const ForwardOutputs& outputs, const models::Clip& clip) {
    const auto embeds = [&](std::string_view name) -> const TensorData& {
        return std::ranges::find(outputs.tensors, name, &formats::NamedTensor::name)->data;
    };
    const TensorData &images = embeds("image_embeds"), &texts = embeds("text_embeds");
    const auto row = [](const TensorData& of, std::size_t at) {
        return reinterpret_cast<const float*>(of.bytes.data()) + at * of.shape.back();
    };
    FloatTensor logits("logits_per_image", {images.shape[0], texts.shape[0]});
    for (std::size_t i = 0; i < images.shape[0]; ++i)
        for (std::size_t t = 0; t < texts.shape[0]; ++t)
            (*logits.values)[i * texts.shape[0] + t] = static_cast<float>(
                clip.logit_bias +
                clip.logit_scale * std::inner_product(row(images, i), row(images, i + 1), row(texts, t), 0.0));
    return std::move(logits.tensor);
}

}  // namespace

Result<ForwardOutputs> pass_of(const models::VisionEncoder& given, const ForwardRequest& request) {
    VKFORMER_TRY(const models::VisionEncoder model, fitted_to(request.inputs, given));
    VKFORMER_TRY(const auto pixels, images(request.inputs, model.config()));
    VKFORMER_CHECK(request.inputs.check_names({"pixel_values"}));
    struct Run {
        graph::Graph graph;
        models::VisionTensors pass;
        graph::Value logits;
    };
    const auto run_of = [&](std::uint32_t batch) -> Result<Run> {
        Run run;
        VKFORMER_TRY(run.pass,
                     model.add_encoder(run.graph, {.batch = batch, .dtype = request.dtype, .layers = request.layers}));
        run.graph.mark_output(run.pass.hidden);
        if (model.config().labels > 0) {
            VKFORMER_TRY(run.logits, model.add_classifier(run.graph, run.pass.hidden));
            run.graph.mark_output(run.logits);
        }
        return run;
    };
    VKFORMER_TRY(const auto backend, open_for(request, pixels.batch, run_of));
    VKFORMER_TRY(Run run, run_of(pixels.batch));
    NamedValues read = {{"last_hidden_state", run.pass.hidden}};
    if (run.logits) read.emplace_back("logits", run.logits);
    add_layers(read, "", run.pass.layers);
    return run_once(*backend, std::move(run.graph), read, [&](graph::Program& program) {
        return program.write(run.pass.pixels, std::span<const float>(pixels.values));
    });
}

Result<ForwardOutputs> pass_of(const models::Clip& clip, const ForwardRequest& request) {
    const TensorInputs& file = request.inputs;
    const bool has_images = file.find("pixel_values"), has_texts = file.find("input_ids");
    if (!has_images && !has_texts)
        return Error{ErrorCode::MissingTensor, "the input has neither pixel_values nor input_ids"};
    VKFORMER_CHECK(file.check_names({"pixel_values", "input_ids", "attention_mask"}));
    Floats pixels;
    IntegerMatrix ids;
    std::vector<std::int32_t> ends;
    if (has_images) {
        VKFORMER_TRY(pixels, images(file, clip.vision.config()));
    }
    if (has_texts) {
        const models::EncoderConfig& config = clip.text.config();
        VKFORMER_TRY(ids, file.tokens("input_ids", config.vocab_size, config.max_positions));
        VKFORMER_TRY(ends, read_lengths(clip, file, ids));
    }
    struct Run {
        graph::Graph graph;
        models::VisionTensors images;
        models::EncoderTensors texts;
        graph::Value image_embeds, text_embeds;
    };
    const auto run_of = [&](std::uint32_t most) -> Result<Run> {
        Run run;
        if (has_images) {
            VKFORMER_TRY(run.images, clip.vision.add_encoder(run.graph, {.batch = std::min(pixels.batch, most),
                                                                         .dtype = request.dtype,
                                                                         .layers = request.layers}));
            VKFORMER_TRY(run.image_embeds, api::image_vector_head(clip.vision, true)(run.graph, run.images.hidden));
            run.graph.mark_output(run.images.hidden);
            run.graph.mark_output(run.image_embeds);
        }
        if (has_texts) {
            VKFORMER_TRY(run.texts, clip.text.add_encoder(run.graph, {.batch = std::min(ids.batch, most),
                                                                      .len = ids.len,
                                                                      .dtype = request.dtype,
                                                                      .layers = request.layers}));
            VKFORMER_TRY(run.text_embeds, api::clip_text_head(clip, true)(run.graph, run.texts));
            run.graph.mark_output(run.texts.hidden);
            run.graph.mark_output(run.text_embeds);
        }
        return run;
    };
    const std::uint32_t most = std::max(pixels.batch, ids.batch);
    VKFORMER_TRY(const auto backend, open_for(request, most, run_of));
    VKFORMER_TRY(Run run, run_of(most));
    NamedValues read;
    if (has_images)
        read = {{"image_embeds", run.image_embeds}, {"vision_model_output.last_hidden_state", run.images.hidden}};
    add_layers(read, "vision_model_output.", run.images.layers);
    if (has_texts) {
        read.emplace_back("text_embeds", run.text_embeds);
        read.emplace_back("text_model_output.last_hidden_state", run.texts.hidden);
        add_layers(read, "text_model_output.", run.texts.layers);
    }
    const auto write = [&](graph::Program& program) -> Result<void> {
        if (has_images) VKFORMER_CHECK(program.write(run.images.pixels, std::span<const float>(pixels.values)));
        if (!has_texts) return {};
        VKFORMER_CHECK(program.write(run.texts.tokens, std::span<const std::int32_t>(ids.values)));
        return program.write(run.texts.lengths, std::span<const std::int32_t>(ends));
    };
    VKFORMER_TRY(auto outputs, run_once(*backend, std::move(run.graph), read, write));
    if (has_images && has_texts) outputs.tensors.push_back(logits_per_image(outputs, clip));
    return outputs;
}

}  // namespace vkformer::cli
