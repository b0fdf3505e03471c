// SPDX-License-Identifier: MIT
/// Many texts through an encoder: batches of like length, results in the order of the texts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "decoding/recent_programs.hpp"
#include "graph/program.hpp"
#include "models/encoder.hpp"

namespace vkformer::decoding {

/// What follows the encoder: adds nodes that make f32 [batch, width] of its tensors.
using EncoderHead = std::function<Result<graph::Value>(graph::Graph&, const models::EncoderTensors&)>;

/// Borrows the tokens. `types`: one for each token, or none where all are of type 0.
struct EncoderText {
    std::span<const std::int32_t> tokens, types{};
};

struct EncoderSessionOptions {
    std::uint32_t batch = 32;  ///< texts in one run at most; of long texts fewer: see kTokensPerRun
    DType dtype = DType::f32;
};

/// The graph of one run.
struct EmbeddingGraph {
    graph::Graph graph;
    models::EncoderTensors encoder;
    graph::Value result;
};
Result<EmbeddingGraph> embedding_graph(const models::Encoder& encoder, const EncoderHead& head,
                                       const models::EncoderLayout& layout);

/// Programs are RecentPrograms. Not thread-safe.
class EncoderSession {
public:
    /// Tokens of a run at most (but one text always fits): bounds the memory of activations.
    static constexpr std::uint32_t kTokensPerRun = 8192;

    /// Borrows backend and encoder.
    EncoderSession(graph::Backend& backend, const models::Encoder& encoder, EncoderHead head,
                   const EncoderSessionOptions& options)
        : EncoderSession(backend, encoder, std::move(head), options, backend.make_store()) {}
    /// Another one with the same encoder and weights. `twin`: of its backend.
    EncoderSession twin(graph::Backend& twin) const {
        return EncoderSession(twin, *encoder_, head_, options_, programs_.weights());
    }

    using Progress = std::function<void(std::size_t done, std::size_t total)>;

    /// A row of `width` for each text. `adapters`: a scale of each of the model's, or nothing: none counts. Errors: InvalidArgument (a text
    /// without tokens, with too many, or with one that the model does not know; the adapters' scales), and the backend's.
    Result<std::vector<std::vector<float>>> run(std::span<const EncoderText> texts, const Progress& progress = {},
                                                std::span<const float> adapters = {});

private:
    using Programs = RecentPrograms<models::EncoderLayout, EmbeddingGraph>;

    EncoderSession(graph::Backend& backend, const models::Encoder& encoder, EncoderHead head,
                   const EncoderSessionOptions& options, std::shared_ptr<graph::TensorStore> weights);

    Result<void> check(std::span<const EncoderText> texts) const;
    Result<void> run_batch(const Programs::Prepared& prepared, std::span<const EncoderText> texts,
                           std::span<const std::size_t> chosen, std::span<const float> adapters,
                           std::vector<std::vector<float>>& results);

    graph::Backend* backend_;
    const models::Encoder* encoder_;
    EncoderHead head_;
    EncoderSessionOptions options_;
    Programs programs_;
};

}  // namespace vkformer::decoding
