// SPDX-License-Identifier: MIT
/// The layers of a Transformer encoder (Vaswani et al. 2017, section 3.1), whatever its tokens are: words (encoder.hpp) or patches
/// of an image (vision.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/builders.hpp"
#include "models/adapter_products.hpp"
#include "models/layer_values.hpp"
#include "models/layer_weights.hpp"

namespace vkformer::models {

struct EncoderLayerConfig {
    std::uint32_t hidden_size = 0, intermediate_size = 0;
    std::uint32_t layers = 0, heads = 0;
    float norm_eps = 1e-12f;
    graph::Activation activation = graph::Activation::gelu_erf;
    NormPlace norm_place = NormPlace::behind;
    /// Disentangled attention (He et al. 2021): what the scores have beside query · key, with EncoderPass::relative. c2p: the query
    /// against rows for distances; p2c: such rows against the key.
    bool c2p = false, p2c = false;
};

/// Biases are optional.
struct EncoderLayerWeights {
    Projection query, key, value, output;
    Projection relative_query, relative_key;  ///< of the rows for distances; optional: query and key
    NormWeights attention_norm;
    Projection gate;  ///< optional: a gated linear unit, down(f(gate(x)) · up(x))
    Projection up, down;
    NormWeights feed_forward_norm;
};

/// What all layers of a stack have in common.
struct EncoderPass {
    graph::AttentionMask mask{};
    graph::Value turns{};      ///< a table for graph::rope: queries and keys are turned by it; absent: they are not
    graph::Value relative{};   ///< rows for distances, [1, rows, hidden_size]; absent: scores do not go by the distance
    graph::Value distances{};  ///< with them: the index of graph::relative_scores
    LayerChoice wanted{};
    LayerValues* values = nullptr;  ///< receives what is wanted
};

/// The pieces of an encoder's network for one graph. Borrows what it is made of.
class EncoderLayers {
public:
    /// `dtype`: of activations and of weights that are no matrices in a block format, f32 or f16. `adapter_scales`: as of AdapterProducts.
    EncoderLayers(const EncoderLayerConfig& config, graph::Graph& graph, DType dtype, graph::Value adapter_scales = {})
        : config_(config), graph_(graph), dtype_(dtype), adapters_(graph, dtype, adapter_scales) {}

    /// The whole stack over x [batch, len, hidden_size]; `name` begins the names of its weights: "encoder" gives
    /// "encoder.0.query.weight".
    Result<graph::Value> stack(const std::string& name, std::span<const EncoderLayerWeights> layers, graph::Value x,
                               const EncoderPass& pass) const;

    /// The weight of a product, or a table of tokens.
    Result<graph::Value> matrix(const std::string& name, const TensorData& data) const;
    Result<graph::Value> linear(const std::string& name, const Projection& projection, graph::Value x) const;
    /// As of AdapterProducts.
    Result<graph::Value> add_rows(const std::string& name, const LowRank& table, graph::Value ids,
                                  graph::Value y) const {
        return adapters_.add_rows(name, table, ids, y);
    }
    Result<graph::Value> norm(const std::string& name, const NormWeights& norm, graph::Value x) const;
    /// down(f(up(x))), or what `gate` makes of it.
    Result<graph::Value> feed_forward(const std::string& name, const EncoderLayerWeights& w, graph::Value x) const;
    /// A projection split into heads: [batch, len, heads, head_dim].
    Result<graph::Value> heads(const std::string& name, const Projection& projection, graph::Value x) const;

private:
    Result<graph::Value> self_attention(const std::string& name, const EncoderLayerWeights& w, graph::Value x,
                                        const EncoderPass& pass) const;
    /// What distances add to the scores of query and key, which `scale` multiplies.
    Result<graph::Value> relative_scores(const std::string& name, const EncoderLayerWeights& w, graph::Value query,
                                         graph::Value key, float scale, const EncoderPass& pass) const;
    Result<graph::Value> add(const std::string& name, graph::Value x, graph::Value y) const;

    const EncoderLayerConfig& config_;
    graph::Graph& graph_;
    DType dtype_;
    mutable AdapterProducts adapters_;  // keeps what it has made already
};

}  // namespace vkformer::models
