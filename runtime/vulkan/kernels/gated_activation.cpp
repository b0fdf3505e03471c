// SPDX-License-Identifier: MIT
#include "interface/gated_activation.h"

#include "core/try.hpp"
#include "interface/wide.h"
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
    if (variant == "vectors") return "gated_activation_vectors";
    return has_wide_loads(device) ? "gated_activation_quads_wide" : "gated_activation_quads";
}

}  // namespace

static_assert(sizeof(shaders::GatedActivationPush) == shaders::kGatedActivationGateAddress);

/// quads: four neighbours at a time, where rows are multiples of 4; vectors: on devices that are CPUs.
VariantNames variants(const graph::GatedActivation& op, const KernelContext& context) {
    const Capabilities& device = context.device;
    const std::uint32_t width = layout_of(op, context.graph).width;
    const std::uint32_t word_elements = context.graph.dtype(op.gate) == DType::f16 ? 2 : 1;
    VariantNames names;
    if (width % 4 == 0) names.push_back("quads");
    if (has_broadcast_lanes(device) && device.buffer_addresses && (word_elements == 1 || device.storage16) &&
        width % (word_elements * shaders::kGatedActivationStepWords) == 0)
        names.push_back("vectors");
    names.push_back("plain");
    return names;
}

Result<Dispatch> plan_dispatch(const graph::GatedActivation& op, const KernelContext& context) {
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const bool by_vectors = variant == "vectors";
    const std::uint32_t workgroup = by_vectors ? shaders::kBroadcastLanes : 128;
    const auto layout = layout_of(op, context.graph);
    const std::uint64_t word_elements = context.graph.dtype(op.gate) == DType::f16 ? 2 : 1;
    const std::uint64_t chunk = by_vectors ? shaders::kGatedActivationChunkWords * word_elements
                                           : workgroup * shaders::kGatedActivationElementsPerInvocation;
    const std::uint64_t chunks = ceil_div(layout.width, chunk);
    VKFORMER_TRY(const auto groups, folded_grid(layout.rows * chunks, context.device));
    Dispatch dispatch{
        .shader = variant_for(shader_of(variant, context.device), context.graph.dtype(op.gate), context.device),
        .bindings = {op.gate, or_else(op.up, op.gate), op.y},
        .constants = {workgroup, static_cast<std::uint32_t>(op.activation)},
        .groups = groups,
    };
    dispatch.push.set(layout);
    if (by_vectors)
        dispatch.addressed = {{op.gate, shaders::kGatedActivationGateAddress},
                              {or_else(op.up, op.gate), shaders::kGatedActivationUpAddress}};
    return dispatch;
}

}  // namespace vkformer::vulkan
