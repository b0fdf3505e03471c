// SPDX-License-Identifier: MIT
#pragma once

#include "graph/graph.hpp"
#include "graph/rounding.hpp"

namespace vkformer::validation {

/// The largest relative error ‖y − ŷ‖ / ‖ŷ‖ that the arithmetic of a right node may give against double precision, for the
/// result `written` of `node`. 0 where the result must be exact: choices, copies, flags. `rounding` is that of what
/// computed it.
double error_bound(const graph::Graph& graph, const graph::Node& node, graph::Value written,
                   graph::Rounding rounding = graph::Rounding::none);

}  // namespace vkformer::validation
