// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "mask_logits/contract.h"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kMaskLogitsWorkgroup = 128;

static_assert(sizeof(shaders::MaskLogitsPush) == 56);

Result<DispatchPlan> plan(const graph::MaskLogits& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    const std::uint64_t chunks = ceil_div(shape.back(), shaders::kMaskLogitsChunk);
    const std::uint64_t banned_count = op.banned ? context.graph.shape(op.banned).element_count() : 0;
    const std::uint64_t late_count = op.late ? context.graph.shape(op.late).element_count() : 0;
    const std::uint64_t capacity = op.sequences ? context.graph.shape(op.sequences)[1] : 0;
    const Shape source = op.source ? context.graph.shape(op.source) : Shape{1, 0};
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count() * chunks, context.device));
    Dispatch dispatch{.module = {&modules::mask_logits}, .groups = groups};
    dispatch.bind(shaders::kMaskLogitsX, op.x)
        .bind(shaders::kMaskLogitsStarts, op.starts)
        .bind(shaders::kMaskLogitsBanned, or_else(op.banned, op.starts))
        .bind(shaders::kMaskLogitsLate, or_else(op.late, op.starts))
        .bind(shaders::kMaskLogitsBegins, or_else(op.begins, op.starts))
        .bind(shaders::kMaskLogitsSequences, or_else(op.sequences, op.starts))
        .bind(shaders::kMaskLogitsSource, or_else(op.source, op.starts))
        .bind(shaders::kMaskLogitsY, op.y)
        .set(shaders::kWorkgroupConstant, kMaskLogitsWorkgroup);
    dispatch.push.set(shaders::MaskLogitsPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .banned_count = static_cast<std::uint32_t>(banned_count),
        .forced_first = op.forced_first,
        .forced_last = op.forced_last,
        .last_start = op.last_start,
        .late_count = static_cast<std::uint32_t>(late_count),
        .late_steps = op.late_steps,
        .has_begins = op.begins ? 1u : 0u,
        .ngram = op.ngram,
        .capacity = static_cast<std::uint32_t>(capacity),
        .source_ngram = op.source_ngram,
        .source_len = static_cast<std::uint32_t>(source[1]),
        .rows_per_source = static_cast<std::uint32_t>(shape.row_count() / source[0]),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Rows x vocab.
constexpr Edge kMaskLogitsEdges[] = {
    {1, 2}, {3, kMaskLogitsWorkgroup - 1}, {2, kMaskLogitsWorkgroup}, {3, kMaskLogitsWorkgroup + 1}, {2, 30011}};

}  // namespace

std::span<const Kernel<graph::MaskLogits>> kernels(const graph::MaskLogits&) {
    static constexpr Kernel<graph::MaskLogits> kKernels[] = {
        {.traits = {.name = "chunks", .edges = kMaskLogitsEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
