// SPDX-License-Identifier: MIT
/// What a forward pass gives of its layers besides its results, for who asks for it.
#pragma once

#include <vector>

#include "graph/graph.hpp"

namespace vkformer::models {

struct LayerChoice {
    bool attention = false;  ///< the weights of every attention, by the path that stores them
    bool hidden = false;     ///< the hidden states between the layers
    friend bool operator==(const LayerChoice&, const LayerChoice&) = default;
};

/// Outputs of the graph; empty where nobody asked for them.
struct LayerValues {
    /// Of each layer, f32 [batch, heads, queries, keys]; absent of a layer without attention.
    std::vector<graph::Value> attention;
    /// [batch, len, hidden_size]: what the first layer reads, then what each layer gives. The last is behind the final norm, unless it is
    /// an image encoder's or that of CLIP's and SigLIP's texts.
    std::vector<graph::Value> hidden;
};

inline void keep_output(graph::Graph& graph, graph::Value value, std::vector<graph::Value>& values) {
    graph.mark_output(value);
    values.push_back(value);
}

}  // namespace vkformer::models
