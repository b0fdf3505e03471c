// SPDX-License-Identifier: MIT
/// What the passes may fuse into one node is for the backend to say, by what its kernels do.
#pragma once

#include <cstdint>

#include "graph/graph.hpp"

namespace vkformer::graph {

/// What a node does besides its op: bits.
enum class Extra : std::uint32_t {
    activation = 1,
    residual = 2,  ///< behind a product, or before a norm
    gate = 4,      ///< of a product: Epilogue::End::gate
    rms_norm = 8,  ///< of a product's rows: Prologue
    batch = 16,    ///< a weight for each of a batch of products
};

template <class... Extras>
constexpr std::uint32_t bits_of(Extras... extras) noexcept {
    return (static_cast<std::uint32_t>(extras) | ... | 0u);
}

std::uint32_t extras_of(const Graph& graph, const Op& op);

class FusionRules {
public:
    virtual ~FusionRules() = default;
    /// Whether the backend rather has `fused` in one node than the nodes that it is made of. All its operands are tensors of the graph.
    virtual bool takes(const Graph& graph, const Op& fused) const = 0;
};

/// Those of who runs a node as it is defined, step by step, as the CPU backend does: a product has a norm where its rows are few
/// (kFewRows), and then no residual; a batch of products has neither norm nor gate.
const FusionRules& stepwise_fusions();

}  // namespace vkformer::graph
