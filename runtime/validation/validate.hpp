// SPDX-License-Identifier: MIT
/// Compares every node of a graph on a device with the same node in double precision.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/program.hpp"

namespace vkformer::validation {

/// What the host writes before the run, by the names of inputs and states. A state without an entry starts with zeros.
using HostValues = std::variant<std::vector<float>, std::vector<std::int32_t>>;
using Feeds = std::map<std::string, HostValues, std::less<>>;

/// One result of one node.
struct NodeCheck {
    std::string node, op, tensor;
    DType dtype = DType::f32;
    std::uint64_t elements = 0;
    /// ‖y − ŷ‖ / ‖ŷ‖, where ŷ is the node in double precision on the device's own operands. Integers: the share of wrong ones.
    double error = 0;
    double bound = 0;
    /// The same against a whole run in double precision: what has added up so far. Integers: no claim, nearly equal
    /// candidates may change places.
    double accumulated = 0;
    std::uint64_t worst_element = 0;
    double worst_found = 0, worst_expected = 0;  ///< of the element with the largest absolute difference

    /// A NaN is a divergence wherever it comes from.
    bool diverges() const noexcept { return !(error <= bound); }
};

struct Report {
    std::string graph, device;
    std::vector<NodeCheck> checks;  ///< in order of execution

    /// The first check that diverges; nullptr if none does.
    const NodeCheck* first_divergence() const noexcept;
};

/// Runs the graph once on `device`, then every node by itself on `oracle` (the CPU in double precision) with the operands
/// that the device had: an error is thus the node's own, whatever came before it. A state that several nodes update is
/// compared after the last of them. Errors: those of the backends; InvalidArgument where an input has no entry in `feeds`.
Result<Report> validate(const graph::Graph& graph, std::string graph_name, const Feeds& feeds, graph::Backend& device,
                        graph::Backend& oracle);

}  // namespace vkformer::validation
