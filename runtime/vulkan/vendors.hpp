// SPDX-License-Identifier: MIT
/// Makers of GPUs, by the PCI ids that VkPhysicalDeviceProperties::vendorID gives.
#pragma once

#include <cstdint>

namespace vkformer::vulkan::vendors {

inline constexpr std::uint32_t kAmd = 0x1002, kNvidia = 0x10DE, kArm = 0x13B5, kQualcomm = 0x5143, kIntel = 0x8086;

}  // namespace vkformer::vulkan::vendors
