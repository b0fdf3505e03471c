// SPDX-License-Identifier: MIT
#pragma once

#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

/// An invocation has pairs of elements of a head. `workgroup`: invocations that share a head.
Result<DispatchPlan> plan_rope(const graph::Rope& op, std::uint32_t workgroup, const KernelContext& context);

}  // namespace vkformer::vulkan
