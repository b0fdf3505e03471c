// SPDX-License-Identifier: MIT
#include "vulkan/kernels/gated_activation.hpp"

#include "core/try.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::GatedActivationPush) == 24);

shaders::GatedActivationPush gated_activation_layout(const graph::GatedActivation& op, const graph::Graph& graph) {
    const Shape& y = graph.shape(op.y);
    const auto [limit, shift] = op.clamp;
    if (op.up) {
        const auto count = static_cast<std::uint32_t>(y.element_count());
        return {.rows = 1, .width = count, .stride = count, .up_offset = 0, .limit = limit, .up_shift = shift};
    }
    const auto width = static_cast<std::uint32_t>(y.back());
    return {.rows = static_cast<std::uint32_t>(y.row_count()),
            .width = width,
            .stride = 2 * width,
            .up_offset = width,
            .limit = limit,
            .up_shift = shift};
}

Result<Dispatch> dispatch_gated_activation(const graph::GatedActivation& op, Module module, std::uint64_t chunk,
                                           std::uint32_t workgroup, const KernelContext& context) {
    const auto layout = gated_activation_layout(op, context.graph);
    VKFORMER_TRY(const auto groups, folded_grid(layout.rows * ceil_div(layout.width, chunk), context.device));
    Dispatch dispatch{.module = module, .groups = groups};
    dispatch.bind(shaders::kGatedActivationGate, op.gate)
        .bind(shaders::kGatedActivationUp, or_else(op.up, op.gate))
        .bind(shaders::kGatedActivationY, op.y)
        .set(shaders::kWorkgroupConstant, workgroup)
        .set(shaders::kGatedActivationActivation, static_cast<std::uint32_t>(op.activation));
    dispatch.push.set(layout);
    return dispatch;
}

Result<DispatchPlan> plan_gated_activation(const graph::GatedActivation& op, const ShaderFamily& family,
                                           const KernelContext& context) {
    const Module module{&family, storage_for(context.graph.dtype(op.gate), context.device)};
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_gated_activation(op, module, kGatedActivationChunk, kElementsWorkgroup, context));
    return DispatchPlan(std::move(dispatch));
}

namespace {

bool fits_vec4(const graph::GatedActivation& op, const KernelContext& context) {
    return gated_activation_layout(op, context.graph).width % 4 == 0;
}

}  // namespace

std::span<const Kernel<graph::GatedActivation>> kernels(const graph::GatedActivation&) {
    using Op = graph::GatedActivation;
    static constexpr Kernel<Op> kKernels[] = {
        {.traits = {.name = "vec4", .edges = kVec4GateEdges},
         .fits = fits_vec4,
         .plan =
             [](const Op& op, const KernelContext& context) {
                 return plan_gated_activation(op, modules::gated_activation_vec4, context);
             }},
        {.traits = {.name = "elements", .edges = kElementEdges<kGatedActivationChunk>, .is_reference = true},
         .plan =
             [](const Op& op, const KernelContext& context) {
                 return plan_gated_activation(op, modules::gated_activation_elements, context);
             }},
    };
    return kKernels;
}

}  // namespace vkformer::vulkan
