// SPDX-License-Identifier: MIT
/// What a model takes of memory, and how `bench model` writes its figures.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bench/statistics.hpp"
#include "graph/plan.hpp"
#include "line.hpp"

namespace vkformer::cli {

/// By tensor id, what the device holds of the weights.
std::vector<std::uint64_t> weight_bytes(const graph::Graph& graph, bool is_vulkan);

/// What one run of the graph reads of its weights; of an embedding only the rows that are asked for.
std::uint64_t weight_bytes_read(const graph::Graph& graph, std::span<const std::uint64_t> weights);

/// What weights, activations and states take.
std::uint64_t device_bytes(const graph::Plan& plan, std::span<const std::uint64_t> weights);

/// What keys and values take.
std::uint64_t cache_bytes(const graph::Graph& graph);

inline double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// median, mad, low, high, runs
nlohmann::json summary_json(const bench::Summary& summary);

}  // namespace vkformer::cli
