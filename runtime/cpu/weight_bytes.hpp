// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"

namespace vkformer::cpu {

/// By tensor id, what a float program of the graph alone holds of its weights: the bytes of the file, where they stay as they are, or
/// those of floats; 0 for a weight that no node uses and for every other tensor.
std::vector<std::uint64_t> weight_bytes(const graph::Graph& graph);

}  // namespace vkformer::cpu
