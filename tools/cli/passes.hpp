// SPDX-License-Identifier: MIT
/// Models that answer in one pass, encoders of texts, of images and of sounds, for the commands that look at graphs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "graph/graph.hpp"
#include "models/open_model.hpp"
#include "validation/validate.hpp"

namespace vkformer::cli {

/// A graph with something random to put in.
struct Pass {
    std::string name;   ///< "texts", "images", "images, attention weights kept"
    std::string items;  ///< what it takes several of: "texts", "images"
    graph::Graph graph;
    validation::Feeds feeds;
};

struct PassOptions {
    std::uint32_t batch = 1;
    std::uint32_t length = 32;  ///< tokens of the texts, at most the model's
    DType dtype = DType::f32;
    std::uint32_t seed = 1;
    bool full_texts = true;               ///< false: every second one is shorter by a third
    bool with_attention_weights = false;  ///< the path that keeps them too, where there is one
};

// The encoder with what follows it: pooling and stages, or the head of a classifier; of CLIP and SigLIP both towers, of DINO for images
// of the size that its processor makes. Errors: those of loading, and of the processor's file.
Result<std::vector<Pass>> passes_of(const models::Opened<models::Encoder>& model, const PassOptions& options);
Result<std::vector<Pass>> passes_of(const models::Opened<models::VisionEncoder>& model, const PassOptions& options);
Result<std::vector<Pass>> passes_of(const models::Opened<models::Clip>& model, const PassOptions& options);
/// Of a Wav2Vec 2.0 or HuBERT; `length` are frames.
Result<std::vector<Pass>> passes_of(const models::Opened<models::SpeechModel>& model, const PassOptions& options);

/// A model that passes_of takes.
template <class Model>
concept OnePass = requires(const models::Opened<Model>& model, const PassOptions& options) {
    passes_of(model, options);
};

}  // namespace vkformer::cli
