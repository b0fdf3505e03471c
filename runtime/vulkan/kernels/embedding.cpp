// SPDX-License-Identifier: MIT
#include "interface/embedding.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/kernels/weight_format.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::EmbeddingPush) == 16);

namespace {

std::string shader_of(DType table, DType y, const Capabilities& device) {
    if (is_weight_only(table)) return variant_for("embedding_quantized", y, device);
    if (table == y) return variant_for("embedding", y, device);
    if (table == DType::f32) return variant_for("embedding_f32_to", y, device);
    return variant_for("embedding", table, device) + "_to_f32";
}

}  // namespace

Result<Dispatch> plan_dispatch(const graph::Embedding& op, const KernelContext& context) {
    const Shape& table = context.graph.shape(op.table);
    const DType stored = context.graph.dtype(op.table);
    const std::uint64_t rows = context.graph.shape(op.tokens).element_count();
    constexpr std::uint32_t kWorkgroup =
        64;  // a row is copied, not reduced: idle invocations would cost more than passes
    VKFORMER_TRY(const auto groups, folded_grid(rows, context.device));
    Dispatch dispatch{
        .shader = shader_of(stored, context.graph.dtype(op.y), context.device),
        .bindings = {op.tokens, op.table, op.y},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    if (is_weight_only(stored)) dispatch.constants.push_back(weight_format(stored));
    dispatch.push.set(shaders::EmbeddingPush{
        .rows = static_cast<std::uint32_t>(rows),
        .vocab = static_cast<std::uint32_t>(table[0]),
        .width = static_cast<std::uint32_t>(table[1]),
        .scale = op.scale,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
