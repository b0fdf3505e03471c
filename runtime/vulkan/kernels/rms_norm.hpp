// SPDX-License-Identifier: MIT
#pragma once

#include "vulkan/kernels/rows.hpp"

namespace vkformer::vulkan {

/// What the kernels of rms_norm take; other ops' plans begin with it, too.
struct RmsNormRows {
    Operand x, y;
    const Shape& shape;
    float eps = 0, gain_offset = 0;
    std::uint32_t gain_rows = 1;  ///< of the gains, which the rows take by turns
    graph::Value residual{}, gain{}, sum{};  ///< absent: none
};

/// `module` is one of the families rms_norm_row…, or the wing's.
Result<Dispatch> dispatch_rms_norm(const RmsNormRows& rows, const RowForm& form, Module module,
                                   const Capabilities& device);
/// The one that runs where nothing was measured.
Result<Dispatch> untried_rms_norm(const RmsNormRows& rows, DType dtype, const Capabilities& device);
Result<Dispatch> plan_rms_norm_rows(const graph::RmsNorm& op, const RowForm& form, Module module,
                                    const KernelContext& context);

}  // namespace vkformer::vulkan
