// SPDX-License-Identifier: MIT
/// How much an op has to do.
#pragma once

#include <cstdint>

#include "graph/graph.hpp"

namespace vkformer::graph {

/// Multiply–adds of a product or of attention, elements that are read and written of anything else; weights count by their products
/// alone. Of what depends on the values (masks, lengths, positions) it is the most that the shapes allow.
double work_of(const Op& op, const Graph& graph);

}  // namespace vkformer::graph
