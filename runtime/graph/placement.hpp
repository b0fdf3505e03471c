// SPDX-License-Identifier: MIT
/// Where the activations of a plan lie in its arena.
#pragma once

#include <vector>

#include "graph/plan.hpp"

namespace vkformer::graph {

struct Placement {
    std::uint64_t alignment = 256;  ///< as PlanOptions has it
    bool reuse_memory = true;       ///< likewise
    std::uint64_t block_bytes = 0;  ///< no tensor crosses a multiple of it; 0: the arena is one block
    std::vector<bool> elsewhere{};  ///< by tensor id: not in the arena; empty: all that can be there are
};

/// Gives the activations of plan.graph, whose barriers are known, their places. Requires block_bytes 0 or a multiple of the alignment that
/// holds the largest of them.
void place_activations(Plan& plan, const Placement& placement);

}  // namespace vkformer::graph
