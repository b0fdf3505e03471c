// SPDX-License-Identifier: MIT
#pragma once

#include "vulkan/kernels/rows.hpp"

namespace vkformer::vulkan {

/// `module` is one of the families layer_norm_row…, or the wing's.
Result<Dispatch> plan_layer_norm_rows(const graph::LayerNorm& op, const RowForm& form, Module module,
                                      const KernelContext& context);

}  // namespace vkformer::vulkan
