// SPDX-License-Identifier: MIT
#pragma once

#include "gated_activation/contract.h"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

/// Two tensors are one long row of each; one tensor has as many rows as it has.
shaders::GatedActivationPush gated_activation_layout(const graph::GatedActivation& op, const graph::Graph& graph);

/// A workgroup of `workgroup` invocations has `chunk` elements of a row.
Result<Dispatch> dispatch_gated_activation(const graph::GatedActivation& op, Module module, std::uint64_t chunk,
                                           std::uint32_t workgroup, const KernelContext& context);

/// One of the families of elements.comp or vec4.comp.
Result<DispatchPlan> plan_gated_activation(const graph::GatedActivation& op, const ShaderFamily& family,
                                           const KernelContext& context);

}  // namespace vkformer::vulkan
