// SPDX-License-Identifier: MIT
#pragma once

#include "graph/graph.hpp"

namespace vkformer::validation {

/// The largest relative error ‖y − ŷ‖ / ‖ŷ‖ that the arithmetic of a right node may give against double precision, for the
/// result `written` of `node`. 0 where the result must be exact: choices, copies, flags.
double error_bound(const graph::Graph& graph, const graph::Node& node, graph::Value written);

}  // namespace vkformer::validation
