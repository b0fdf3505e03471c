// SPDX-License-Identifier: MIT
#include "interface/gated_activation.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

/// Two tensors are one long row of each; one tensor has as many rows as it has.
shaders::GatedActivationPush layout_of(const graph::GatedActivation& op, const graph::Graph& graph) {
    const Shape& y = graph.shape(op.y);
    if (op.up) {
        const auto count = static_cast<std::uint32_t>(y.element_count());
        return {.rows = 1, .width = count, .stride = count, .up_offset = 0};
    }
    const auto width = static_cast<std::uint32_t>(y.back());
    return {.rows = static_cast<std::uint32_t>(y.row_count()), .width = width, .stride = 2 * width, .up_offset = width};
}

std::string_view shader_of(std::string_view variant, const Capabilities& device) {
    if (variant == "plain") return "gated_activation";
    return has_wide_loads(device) ? "gated_activation_quads_wide" : "gated_activation_quads";
}

}  // namespace

static_assert(sizeof(shaders::GatedActivationPush) == 16);

/// quads: four neighbours at a time, where rows are multiples of 4.
VariantNames variants(const graph::GatedActivation& op, const KernelContext& context) {
    if (layout_of(op, context.graph).width % 4 == 0) return {"quads", "plain"};
    return {"plain"};
}

Result<Dispatch> plan_dispatch(const graph::GatedActivation& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 128;
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const auto layout = layout_of(op, context.graph);
    const std::uint64_t chunks =
        ceil_div(layout.width, std::uint64_t{kWorkgroup} * shaders::kGatedActivationElementsPerInvocation);
    VKFORMER_TRY(const auto groups, folded_grid(layout.rows * chunks, context.device));
    Dispatch dispatch{
        .shader = variant_for(shader_of(variant, context.device), context.graph.dtype(op.gate), context.device),
        .bindings = {op.gate, or_else(op.up, op.gate), op.y},
        .constants = {kWorkgroup, static_cast<std::uint32_t>(op.activation)},
        .groups = groups,
    };
    dispatch.push.set(layout);
    return dispatch;
}

}  // namespace vkformer::vulkan
