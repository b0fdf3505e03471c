// SPDX-License-Identifier: MIT
#pragma once

#include "vulkan/kernels/rows.hpp"

namespace vkformer::vulkan {

/// `module` is one of the families masked_softmax_row…, or the wing's.
Result<Dispatch> plan_masked_softmax_rows(const graph::MaskedSoftmax& op, const RowForm& form, Module module,
                                          const KernelContext& context);

}  // namespace vkformer::vulkan
