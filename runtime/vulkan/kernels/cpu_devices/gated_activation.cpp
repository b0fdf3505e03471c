// SPDX-License-Identifier: MIT
#include "vulkan/kernels/gated_activation.hpp"

#include "core/try.hpp"
#include "cpu_devices/gated_activation/contract.h"
#include "vulkan/kernels/cpu_devices/kernels.hpp"
#include "vulkan/kernels/cpu_devices/lanes.hpp"

namespace vkformer::vulkan::cpu_devices {
namespace {

static_assert(PushConstants::kOwn + sizeof(shaders::GatedActivationPush) == shaders::kCpuGatedActivationGateAddress);

std::uint32_t word_elements(const graph::GatedActivation& op, const KernelContext& context) {
    return context.graph.dtype(op.gate) == DType::f16 ? 2 : 1;
}

bool fits_vectors(const graph::GatedActivation& op, const KernelContext& context) {
    const std::uint32_t width = gated_activation_layout(op, context.graph).width;
    return has_vector_loads(context.device) &&
           width % (word_elements(op, context) * shaders::kCpuGatedActivationStepWords) == 0;
}

Result<DispatchPlan> plan_vectors(const graph::GatedActivation& op, const KernelContext& context) {
    const Module module{&modules::cpu_gated_activation_vectors,
                        storage_for(context.graph.dtype(op.gate), context.device)};
    const std::uint64_t chunk = shaders::kCpuGatedActivationChunkWords * std::uint64_t{word_elements(op, context)};
    VKFORMER_TRY(Dispatch dispatch, dispatch_gated_activation(op, module, chunk, shaders::kCpuLanes, context));
    dispatch.point(shaders::kCpuGatedActivationGateAddress, op.gate)
        .point(shaders::kCpuGatedActivationUpAddress, or_else(op.up, op.gate));
    return DispatchPlan(std::move(dispatch));
}

/// Rows x width: words of float32, and of float16 where a step is two times as long.
constexpr Edge kVectorGateEdges[] = {
    {1, shaders::kCpuGatedActivationStepWords},
    {3, 2 * shaders::kCpuGatedActivationStepWords},
    {2, shaders::kCpuGatedActivationChunkWords},
    {3, 2 * shaders::kCpuGatedActivationChunkWords + 64},
    {1, shaders::kCpuGatedActivationChunkWords + shaders::kCpuGatedActivationStepWords}};

bool fits_wide(const graph::GatedActivation& op, const KernelContext& context) {
    return has_wide_loads(context.device) && gated_activation_layout(op, context.graph).width % 4 == 0;
}

Result<DispatchPlan> plan_wide(const graph::GatedActivation& op, const KernelContext& context) {
    return plan_gated_activation(op, modules::cpu_gated_activation_wide, context);
}

}  // namespace

std::span<const Kernel<graph::GatedActivation>> kernels(const graph::GatedActivation&) {
    static constexpr Kernel<graph::GatedActivation> kKernels[] = {
        {.traits = {.name = "cpu_wide", .edges = kVec4GateEdges, .device = DeviceClass::cpu},
         .fits = fits_wide,
         .plan = plan_wide},
        {.traits = {.name = "cpu_vectors",
                    .edges = kVectorGateEdges,
                    .device = DeviceClass::cpu,
                    .needs = needs(ShaderRequirement::addresses)},
         .fits = fits_vectors,
         .plan = plan_vectors},
    };
    return kKernels;
}

}  // namespace vkformer::vulkan::cpu_devices
