// SPDX-License-Identifier: MIT
/// Which of two backends is faster for what a model does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/program.hpp"
#include "tuning/verdicts.hpp"

namespace vkformer::tuning {

/// A graph and how often it runs: an encoder once, a decode step once per token.
struct Workload {
    graph::Graph graph;
    std::uint32_t times = 1;
    std::map<std::string, std::vector<std::int32_t>> inputs{};  ///< by name; all others are zeros
};

/// Whether `cpu` runs the workload faster than `device`: measured once, then known from the file, by the shapes of all nodes.
/// States are zeros. Errors: those of the backends.
Result<bool> is_faster(graph::Backend& cpu, graph::Backend& device, const std::vector<Workload>& workload,
                       VerdictFile& file);

}  // namespace vkformer::tuning
