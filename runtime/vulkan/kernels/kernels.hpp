// SPDX-License-Identifier: MIT
/// The kernels of every op, an array for each, made in a file or folder of the op's name. What runs where nothing was measured is the
/// first that fits; those of kernels/cpu_devices/, for Vulkan devices that are CPUs, come before them there.
#pragma once

#include <span>

#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

#define VKFORMER_KERNELS(Op) std::span<const Kernel<graph::Op>> kernels(const graph::Op&);
VKFORMER_OPS(VKFORMER_KERNELS)
#undef VKFORMER_KERNELS

}  // namespace vkformer::vulkan
