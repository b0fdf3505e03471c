// SPDX-License-Identifier: MIT
#include "interface/mask_logits.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::MaskLogitsPush) == 40);

Result<Dispatch> plan_dispatch(const graph::MaskLogits& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 128;
    const Shape& shape = context.graph.shape(op.x);
    const std::uint64_t chunks = ceil_div(shape.back(), shaders::kMaskLogitsChunk);
    const std::uint64_t banned_count = op.banned ? context.graph.shape(op.banned).element_count() : 0;
    const std::uint64_t capacity = op.sequences ? context.graph.shape(op.sequences)[1] : 0;
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count() * chunks, context.device));
    Dispatch dispatch{
        .shader = "mask_logits",
        .bindings = {op.x, op.starts, or_else(op.banned, op.starts), or_else(op.sequences, op.starts), op.y},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::MaskLogitsPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .banned_count = static_cast<std::uint32_t>(banned_count),
        .forced_first = op.forced_first,
        .forced_last = op.forced_last,
        .last_start = op.last_start,
        .late = op.late,
        .late_start = op.late_start,
        .ngram = op.ngram,
        .capacity = static_cast<std::uint32_t>(capacity),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
