// SPDX-License-Identifier: MIT
/// What one program of a model costs on a device.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bench/statistics.hpp"
#include "graph/program.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::cli {

struct ProgramCost {
    std::string name;
    std::size_t nodes = 0, barriers = 0;
    std::uint64_t arena_bytes = 0, unshared_bytes = 0;
    std::uint32_t runs_per_submit = 1;
    bench::Summary wall_us, host_us;         // per run of the program
    std::vector<vulkan::NodeTime> nodes_ns;  // medians over the runs; empty without timestamps
};

struct ProgramMeasurement {
    std::string name;
    const graph::Graph* graph = nullptr;
    std::uint32_t runs_per_submit = 1;
    std::uint32_t runs = 15;                               ///< measured ones; two more come before
    std::function<Result<void>(graph::Program&)> prepare;  ///< writes inputs and states before each run
};

/// Wall and host time on `backend`; the times of the nodes in a copy on `profiler`, where no two nodes overlap (null: none).
Result<ProgramCost> measure(const ProgramMeasurement& wanted, graph::Backend& backend, vulkan::VulkanBackend* profiler);

nlohmann::json as_json(const ProgramCost& cost);
/// A few lines: totals, times by op, the `top` longest nodes.
std::string as_text(const ProgramCost& cost, std::size_t top);

}  // namespace vkformer::cli
