// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "graph/graph.hpp"

namespace vkformer::validation {

/// The largest relative error ‖y − ŷ‖ / ‖ŷ‖ that the arithmetic of a right node may give against double precision, for the
/// result `written` of `node`. 0 where the result must be exact: choices, copies, flags. `variant` is what computed it: some
/// round their operands ("…int8").
double error_bound(const graph::Graph& graph, const graph::Node& node, graph::Value written,
                   std::string_view variant = {});

}  // namespace vkformer::validation
