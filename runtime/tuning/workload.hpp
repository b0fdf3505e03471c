// SPDX-License-Identifier: MIT
/// Which of two backends is faster for what a model does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

/// What the CPU backend and a Vulkan device take for a workload, in microseconds.
struct BackendTimes {
    double cpu_us = 0, vulkan_us = 0;

    bool cpu_is_faster() const noexcept { return cpu_us < vulkan_us; }
};

/// What was measured before, by the shapes of all nodes.
std::optional<BackendTimes> known_times(const std::vector<Workload>& workload, const VerdictFile& file);

/// The same, measured where it is not known and then kept. States are zeros. Errors: those of the backends.
Result<BackendTimes> times_of(graph::Backend& cpu, graph::Backend& device, const std::vector<Workload>& workload,
                              VerdictFile& file);

}  // namespace vkformer::tuning
