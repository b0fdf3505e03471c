// SPDX-License-Identifier: MIT
#pragma once

#include "graph/fusion.hpp"

namespace vkformer::tests {

/// The rules of a backend that lacks some of the extras.
class Without final : public graph::FusionRules {
public:
    explicit Without(std::uint32_t extras) : lacks_(extras) {}
    bool takes(const graph::Graph& graph, const graph::Op& fused) const override {
        return (graph::extras_of(graph, fused) & lacks_) == 0 && graph::stepwise_fusions().takes(graph, fused);
    }

private:
    std::uint32_t lacks_;
};

/// All that the nodes have.
inline std::uint32_t extras_in(const graph::Graph& graph) {
    std::uint32_t extras = 0;
    for (const graph::Node& node : graph.nodes()) extras |= graph::extras_of(graph, node.op);
    return extras;
}

}  // namespace vkformer::tests
