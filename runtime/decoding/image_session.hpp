// SPDX-License-Identifier: MIT
/// Many images through an encoder, several at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "graph/program.hpp"
#include "models/vision.hpp"

namespace vkformer::decoding {

/// What follows the encoder: adds nodes that make f32 [batch, width] of the last hidden state.
using ImageHead = std::function<Result<graph::Value>(graph::Graph&, graph::Value hidden)>;

struct ImageSessionOptions {
    std::uint32_t batch = 32;  ///< images in one run at most; fewer where they are large: see kTokensPerRun
    DType dtype = DType::f32;
};

/// The graph of one run.
struct ImageGraph {
    graph::Graph graph;
    models::VisionTensors encoder;
    graph::Value result;
};
Result<ImageGraph> image_graph(const models::VisionEncoder& encoder, const ImageHead& head,
                               const models::VisionLayout& layout);

/// What a run gives for one image.
struct ImageResult {
    std::vector<float> values;
    std::vector<std::vector<float>> attention;  ///< of each layer, [heads, tokens, tokens], where asked for
};

/// Programs are made when a batch of their size is met, and the last few are kept. Not thread-safe.
class ImageSession {
public:
    /// Tokens of a run at most (but one image always fits): bounds the memory of activations.
    static constexpr std::uint32_t kTokensPerRun = 8192;

    /// Borrows backend and encoder.
    ImageSession(graph::Backend& backend, const models::VisionEncoder& encoder, ImageHead head,
                 const ImageSessionOptions& options)
        : ImageSession(backend, encoder, std::move(head), options, backend.make_store()) {}
    /// Another one with the same encoder and weights. `twin`: of its backend.
    ImageSession twin(graph::Backend& twin) const { return ImageSession(twin, *encoder_, head_, options_, weights_); }

    /// The normalised pixels of image i, [channels, height, width].
    using Pixels = std::function<Result<std::vector<float>>(std::size_t index)>;
    using Progress = std::function<void(std::size_t done, std::size_t total)>;

    /// A row of `width` for each image; pixels are asked for batch by batch. Errors: InvalidArgument (pixels of another number), those
    /// of `pixels` and the backend's.
    Result<std::vector<ImageResult>> run(std::size_t count, const Pixels& pixels, const Progress& progress = {});

    /// The same for one image, by the path that keeps the attention weights.
    Result<ImageResult> run_with_attention(std::span<const float> pixels);

private:
    ImageSession(graph::Backend& backend, const models::VisionEncoder& encoder, ImageHead head,
                 const ImageSessionOptions& options, std::shared_ptr<graph::TensorStore> weights);
    struct Prepared {
        models::VisionLayout layout;
        ImageGraph tensors;  ///< without the graph's nodes, which the program has
        std::unique_ptr<graph::Program> program;
    };
    static constexpr std::size_t kKeptPrograms = 6;

    std::size_t elements() const noexcept;
    Result<void> check(std::span<const float> pixels) const;
    Result<Prepared*> prepare(const models::VisionLayout& layout);
    /// The rows of what comes out, for as many images as the program takes.
    Result<std::vector<ImageResult>> run_batch(Prepared& prepared, std::span<const float> pixels);

    graph::Backend* backend_;
    const models::VisionEncoder* encoder_;
    ImageHead head_;
    ImageSessionOptions options_;
    std::shared_ptr<graph::TensorStore> weights_, states_;
    std::list<Prepared> prepared_;  ///< the last used first
};

}  // namespace vkformer::decoding
