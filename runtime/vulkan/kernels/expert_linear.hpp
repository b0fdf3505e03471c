// SPDX-License-Identifier: MIT
/// What the kernels of expert_linear have in common.
#pragma once

#include "expert_linear/contract.h"
#include "vulkan/kernels/linear/linear.hpp"

namespace vkformer::vulkan {

struct ExpertProduct {
    shaders::ExpertLinearPush push;  ///< but for its tiles
    Product product;                 ///< of an expert, with the rows of x
};

ExpertProduct product_of(const graph::ExpertLinear& op, const KernelContext& context);

/// A dispatch with what all algorithms have: operands, the weight's format, push constants.
Dispatch dispatch_experts(const graph::ExpertLinear& op, const ExpertProduct& p, Module module);

/// Rows sorted by expert into tiles, and behind that the product: a dispatch of `module`, whose workgroups have a tile each. Its further
/// constants are the caller's to set.
Result<DispatchPlan> plan_sorted(const graph::ExpertLinear& op, ExpertProduct p, Module module, LinearTile tile,
                                 const KernelContext& context);

}  // namespace vkformer::vulkan
