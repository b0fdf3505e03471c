// SPDX-License-Identifier: MIT
/// Models that answer in one pass, encoders of texts and of images, for the commands that look at graphs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "graph/graph.hpp"
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

/// Whether the model is of that kind. Errors: FileNotFound, CorruptFile.
Result<bool> is_one_pass(const std::filesystem::path& path);

/// The encoder with what follows it: pooling and stages, or the head of a classifier; of CLIP both towers. Errors: those of
/// loading.
Result<std::vector<Pass>> passes_of(const std::filesystem::path& path, const PassOptions& options);

}  // namespace vkformer::cli
