// SPDX-License-Identifier: MIT
/// Which weights stay in the host's memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "vulkan/pieces.hpp"

namespace vkformer::vulkan {

/// A weight that is to be placed.
struct PlacedWeight {
    std::uint64_t bytes = 0;
    /// What a run of one row reads of it, 0 to 1: one row of a table that rows are looked up in, the chosen ones of a stack of experts, the
    /// whole of what anything else reads.
    double part_read = 1;
};

/// Weights of the plan, or pieces of such.
std::vector<PlacedWeight> placed_weights(const PiecedPlan& pieced, std::span<const graph::Tensor* const> weights);

/// Whether each of them stays in the host's memory, where so many bytes at least are to, or all. Those do first that a run reads the least
/// part of, of equal ones the larger as long as that is not too much. Small ones, whose reading is latency, do last.
std::vector<bool> choose_offloaded(std::span<const PlacedWeight> weights, std::uint64_t bytes);

/// What it costs that weights stay in the host's memory.
struct OffloadCost {
    std::uint64_t bytes = 0;      ///< that stay there
    double bytes_per_run = 0;     ///< that a run of one row reads of them
    double bytes_per_second = 0;  ///< of the bus; 0: not measured
};

/// "312.0 MiB of weights stay in the host's memory; a token reads 297.1 MiB of them over the bus, which takes 24.2 ms at 12.9 GB/s"
std::string to_string(const OffloadCost& cost);

}  // namespace vkformer::vulkan
