// SPDX-License-Identifier: MIT
#pragma once

#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

/// From so many tokens on a workgroup has several heads of a token.
inline constexpr std::uint32_t kRopeManyTokens = 256, kRopeMostHeads = 8;

/// Len x heads x head_dim.
inline constexpr Edge kRopeEdges[] = {{1, 1, 2},
                                      {3, 3, 62},
                                      {5, 2, 66},
                                      {kRopeManyTokens, kRopeMostHeads + 1, 64},
                                      {kRopeManyTokens + 1, kRopeMostHeads, 6}};

/// An invocation has pairs of elements of a head. `workgroup`: invocations that share a head.
Result<DispatchPlan> plan_rope(const graph::Rope& op, std::uint32_t workgroup, const KernelContext& context);

}  // namespace vkformer::vulkan
