// SPDX-License-Identifier: MIT
#pragma once

#include "vulkan/kernels/rms_norm.hpp"

namespace vkformer::vulkan::cpu_devices {

/// The norm that other ops' plans begin with there.
Result<Dispatch> dispatch_rms_norm(const RmsNormRows& rows, DType dtype, const Capabilities& device);

}  // namespace vkformer::vulkan::cpu_devices
