// SPDX-License-Identifier: MIT
/// Products whose depth is cut into parts, and what those parts are made of.
#pragma once

#include "vulkan/kernels/linear/linear.hpp"

namespace vkformer::vulkan {

/// linear/tile_vec4.comp: rows of an invocation, of the small tiles.
inline constexpr std::uint32_t kVec4LaneRows = 8;
inline std::uint32_t vec4_lane_rows(const Capabilities& device) {
    return has_fewest_registers(device) ? kVec4LaneRows / 2 : kVec4LaneRows;
}

/// What a workgroup computes.
constexpr LinearTile tile_vec4(std::uint32_t lane_rows) noexcept {
    return {std::uint64_t{lane_rows} * shaders::kLinearVec4RowLanes, shaders::kLinearTileColumns};
}
/// The tile of row_vec4.comp and quantized_row.comp.
LinearTile row_sums_tile(const graph::Linear& op, const Product& product, const Capabilities& device);
/// Elements of the depth that an invocation of theirs takes at a time.
std::uint64_t row_sums_step(const Product& product);

// The algorithms that can leave the sums of `splits` parts: plans without what says where these go, which whole() or combine_parts() adds.
Result<DispatchPlan> plan_parts_of_tile_vec4(const graph::Linear& op, Operand x, std::uint32_t lane_rows,
                                             std::uint32_t splits, const KernelContext& context);
/// `family`: row_vec4.comp's or quantized_row.comp's.
Result<DispatchPlan> plan_parts_of_row_sums(const graph::Linear& op, Operand x, const ShaderFamily& family,
                                            LinearTile tile, std::uint32_t splits, const KernelContext& context);

/// One part: the last dispatch finishes the results itself.
Result<DispatchPlan> whole(Result<DispatchPlan> plan, const graph::Linear& op);

/// How many parts fill the device, or 0 where there are enough tiles, the depth is shorter than two times `least_depth`, or op is a batch or
/// norms x. Devices that are CPUs are full with a few workgroups: there it is for narrow results only, which models have not, and tests.
std::uint32_t parts_of_depth(const graph::Linear& op, LinearTile tile, std::uint64_t least_depth,
                             const KernelContext& context);

/// `partial`, whose last dispatch leaves the sums of `splits` parts in scratch memory behind what it holds already, has them added up and the
/// results finished by a further dispatch.
Result<DispatchPlan> combine_parts(Result<DispatchPlan> partial, std::uint32_t splits, const graph::Linear& op,
                                   const KernelContext& context);

}  // namespace vkformer::vulkan
