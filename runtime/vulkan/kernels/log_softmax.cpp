// SPDX-License-Identifier: MIT
#include "vulkan/kernels/log_softmax.hpp"

#include "core/try.hpp"
#include "log_softmax/contract.h"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::LogSoftmaxPush) == 8);

Result<Dispatch> plan_log_softmax_rows(const graph::LogSoftmax& op, const RowForm& form, Module module,
                                       const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{.module = module, .groups = groups};
    dispatch.bind(shaders::kLogSoftmaxX, op.x)
        .bind(shaders::kLogSoftmaxY, op.y)
        .set(shaders::kWorkgroupConstant, form.workgroup);
    dispatch.push.set(shaders::LogSoftmaxPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
    });
    return dispatch;
}

std::span<const Kernel<graph::LogSoftmax>> kernels(const graph::LogSoftmax&) {
    return kRowKernels<graph::LogSoftmax, &graph::LogSoftmax::x, plan_log_softmax_rows, modules::log_softmax_row,
                       modules::log_softmax_row_vec4, modules::log_softmax_row_subgroup>;
}

}  // namespace vkformer::vulkan
