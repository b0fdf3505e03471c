// SPDX-License-Identifier: MIT
#include "api/encoder_heads.hpp"

#include "core/try.hpp"
#include "formats/weights.hpp"
#include "graph/builders.hpp"

namespace vkformer::api {
namespace {

Result<graph::Value> finish(graph::Graph& graph, graph::Value x, bool normalize) {
    if (!normalize) return x;
    return graph::l2_normalize(graph, x);
}

}  // namespace

decoding::EncoderHead embedding_head(models::SentenceModel sentence) {
    return [model = std::move(sentence)](graph::Graph& graph, const models::EncoderTensors& tensors) {
        return models::add_sentence(graph, model, tensors);
    };
}

Result<decoding::EncoderHead> score_head(const std::filesystem::path& path, const models::Encoder& encoder) {
    // A GGUF file does not say what the scores go through: as a folder that does not.
    const std::uint32_t labels = encoder.config().labels;
    VKFORMER_TRY(const auto nothing, formats::Config::parse("{}", path.filename().string()));
    VKFORMER_TRY(const auto activation, formats::is_file(path) ? models::read_score_activation(nothing, nothing, labels)
                                                               : models::read_score_activation(path, labels));
    return decoding::EncoderHead(
        [encoder, activation](graph::Graph& graph, const models::EncoderTensors& tensors) -> Result<graph::Value> {
            VKFORMER_TRY(const graph::Value logits, encoder.add_classifier(graph, tensors));
            if (activation == graph::Activation::none) return logits;
            return graph::activate(graph, logits, activation);
        });
}

decoding::ImageHead label_head(const models::VisionEncoder& encoder) {
    return [encoder](graph::Graph& graph, graph::Value hidden) { return encoder.add_classifier(graph, hidden); };
}

decoding::ImageHead image_vector_head(const models::VisionEncoder& encoder, bool normalize) {
    return [encoder, normalize](graph::Graph& graph, graph::Value hidden) -> Result<graph::Value> {
        VKFORMER_TRY(const graph::Value x, encoder.add_embedding(graph, hidden));
        return finish(graph, x, normalize);
    };
}

decoding::EncoderHead clip_text_head(const models::Clip& clip, bool normalize) {
    return [clip, normalize](graph::Graph& graph, const models::EncoderTensors& tensors) -> Result<graph::Value> {
        VKFORMER_TRY(const graph::Value x, clip.add_text_embedding(graph, tensors));
        return finish(graph, x, normalize);
    };
}

}  // namespace vkformer::api
