// SPDX-License-Identifier: MIT
#include "activate/contract.h"
#include "core/try.hpp"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::ActivatePush) == 4);
static_assert(static_cast<std::uint32_t>(graph::Activation::none) == shaders::kActivationNone);
static_assert(static_cast<std::uint32_t>(graph::Activation::relu) == shaders::kActivationRelu);
static_assert(static_cast<std::uint32_t>(graph::Activation::gelu_erf) == shaders::kActivationGeluErf);
static_assert(static_cast<std::uint32_t>(graph::Activation::gelu_tanh) == shaders::kActivationGeluTanh);
static_assert(static_cast<std::uint32_t>(graph::Activation::silu) == shaders::kActivationSilu);
static_assert(static_cast<std::uint32_t>(graph::Activation::tanh) == shaders::kActivationTanh);
static_assert(static_cast<std::uint32_t>(graph::Activation::sigmoid) == shaders::kActivationSigmoid);
static_assert(static_cast<std::uint32_t>(graph::Activation::gelu_quick) == shaders::kActivationGeluQuick);
static_assert(static_cast<std::uint32_t>(graph::Activation::relu_squared) == shaders::kActivationReluSquared);

Result<DispatchPlan> plan(const graph::Activate& op, const KernelContext& context) {
    const std::uint64_t count = context.graph.shape(op.x).element_count();
    const std::uint64_t per_workgroup = std::uint64_t{kElementsWorkgroup} * shaders::kActivateElementsPerInvocation;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(count, per_workgroup), context.device));
    Dispatch dispatch{.module = {&modules::activate, storage_for(context.graph.dtype(op.x), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kActivateX, op.x)
        .bind(shaders::kActivateY, op.y)
        .set(shaders::kWorkgroupConstant, kElementsWorkgroup)
        .set(shaders::kActivateActivation, static_cast<std::uint32_t>(op.activation));
    dispatch.push.set(shaders::ActivatePush{.count = static_cast<std::uint32_t>(count)});
    return DispatchPlan(std::move(dispatch));
}

}  // namespace

std::span<const Kernel<graph::Activate>> kernels(const graph::Activate&) {
    static constexpr Kernel<graph::Activate> kKernels[] = {
        {.traits = {.name = "elements",
                    .edges = kElementEdges<kElementsWorkgroup * shaders::kActivateElementsPerInvocation>,
                    .is_reference = true},
         .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
