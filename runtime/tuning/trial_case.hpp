// SPDX-License-Identifier: MIT
/// One node of a plan as a graph of its own, with operands to try its variants on.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.hpp"
#include "vkformer/result.hpp"

namespace vkformer::tuning {

struct TrialCase {
    graph::Graph graph;  ///< one node
    std::vector<std::pair<graph::Value, std::variant<std::vector<float>, std::vector<std::int32_t>>>> contents;
    std::vector<graph::Value> results;
};

/// What the choice of a variant may depend on: op, dtypes, shapes and mask. With `exact` false widths are rounded up to a
/// power of two and counts (rows, lengths, heads) to one of eight, so that one verdict serves all nodes of like size.
std::string case_key(const graph::Graph& graph, const graph::Node& node, bool exact);

/// What gives way first in a product with too many multiplications.
enum class Fewer : std::uint8_t {
    rows,     ///< they share the weights: what a variant takes stays like what it takes in the model
    columns,  ///< what variants there are depends on the rows
};

/// The node with random operands of its own shapes: floats uniform in ±1, tokens and starts 0, lengths whole. Products with
/// more than `max_work` multiplications get fewer rows and columns. Errors: out of memory.
Result<TrialCase> make_trial_case(const graph::Graph& graph, const graph::Node& node, double max_work,
                                  Fewer first = Fewer::rows);

}  // namespace vkformer::tuning
