// SPDX-License-Identifier: MIT
#pragma once

#include "gated_activation/contract.h"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

/// Elements of a row that a workgroup of elements.comp or vec4.comp has.
inline constexpr std::uint32_t kGatedActivationChunk =
    kElementsWorkgroup * shaders::kGatedActivationElementsPerInvocation;

/// Rows x width, four elements at a time.
inline constexpr Edge kVec4GateEdges[] = {{1, 4},
                                          {1, kGatedActivationChunk - 4},
                                          {1, kGatedActivationChunk},
                                          {3, kGatedActivationChunk + 4},
                                          {5, 2 * kGatedActivationChunk - 4}};

/// Two tensors are one long row of each; one tensor has as many rows as it has.
shaders::GatedActivationPush gated_activation_layout(const graph::GatedActivation& op, const graph::Graph& graph);

/// A workgroup of `workgroup` invocations has `chunk` elements of a row.
Result<Dispatch> dispatch_gated_activation(const graph::GatedActivation& op, Module module, std::uint64_t chunk,
                                           std::uint32_t workgroup, const KernelContext& context);

/// One of the families of elements.comp or vec4.comp.
Result<DispatchPlan> plan_gated_activation(const graph::GatedActivation& op, const ShaderFamily& family,
                                           const KernelContext& context);

}  // namespace vkformer::vulkan
