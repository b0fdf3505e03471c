// SPDX-License-Identifier: MIT
#pragma once

#include "vulkan/kernels/rows.hpp"

namespace vkformer::vulkan {

/// `module` is one of the families log_softmax_row…, or the wing's.
Result<Dispatch> plan_log_softmax_rows(const graph::LogSoftmax& op, const RowForm& form, Module module,
                                       const KernelContext& context);

}  // namespace vkformer::vulkan
