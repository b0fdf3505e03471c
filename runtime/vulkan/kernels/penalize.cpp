// SPDX-License-Identifier: MIT
#include "interface/penalize.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::PenalizePush) == 20);

Result<Dispatch> plan_dispatch(const graph::Penalize& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 128;
    const Shape& shape = context.graph.shape(op.x);
    const std::uint64_t per_workgroup = std::uint64_t{kWorkgroup} * shaders::kPenalizeElementsPerInvocation;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(shape.element_count(), per_workgroup), context.device));
    Dispatch dispatch{
        .shader = "penalize",
        .bindings = {op.x, or_else(op.counts, op.x), or_else(op.bias, op.x), op.y},
        .constants = {kWorkgroup, op.counts ? 1u : 0u, op.bias ? 1u : 0u},
        .groups = groups,
    };
    dispatch.push.set(shaders::PenalizePush{
        .count = static_cast<std::uint32_t>(shape.element_count()),
        .vocab = static_cast<std::uint32_t>(shape.back()),
        .repetition = op.repetition,
        .presence = op.presence,
        .frequency = op.frequency,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
