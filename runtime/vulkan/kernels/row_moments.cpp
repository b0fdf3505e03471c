// SPDX-License-Identifier: MIT
#include "row_moments/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/rows.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::RowMomentsPush) == 12);

Result<Dispatch> plan_row_moments(const graph::RowMoments& op, const RowForm& form, Module module,
                                  const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{.module = module, .groups = groups};
    dispatch.bind(shaders::kRowMomentsX, op.x)
        .bind(shaders::kRowMomentsLike, or_else(op.like, op.x))
        .bind(shaders::kRowMomentsY, op.y)
        .set(shaders::kWorkgroupConstant, form.workgroup)
        .set(shaders::kRowMomentsHasLike, !!op.like);
    if (form.loads == RowForm::Loads::vec4) dispatch.set(shaders::kRowMomentsKept, form.kept);
    dispatch.push.set(shaders::RowMomentsPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .bound = op.bound,
    });
    return dispatch;
}

}  // namespace

std::span<const Kernel<graph::RowMoments>> kernels(const graph::RowMoments&) {
    return kRowKernels<graph::RowMoments, &graph::RowMoments::x, plan_row_moments, modules::row_moments_row,
                       modules::row_moments_row_vec4, modules::row_moments_row_subgroup>;
}

}  // namespace vkformer::vulkan
