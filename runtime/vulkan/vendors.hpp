// SPDX-License-Identifier: MIT
/// Makers of GPUs, by the PCI ids that VkPhysicalDeviceProperties::vendorID gives.
#pragma once

#include <cstdint>

namespace vkformer::vulkan::vendors {

inline constexpr std::uint32_t kAmd = 0x1002, kNvidia = 0x10DE, kArm = 0x13B5, kQualcomm = 0x5143, kIntel = 0x8086,
                               kBroadcom = 0x14E4;

/// Mali and Raspberry Pi: 64 registers per invocation.
constexpr bool has_fewest_registers(std::uint32_t vendor) { return vendor == kArm || vendor == kBroadcom; }

/// Elements of an array that Raspberry Pi's compiler (V3DV) keeps in registers where a loop's counter is the index: it lays longer ones
/// into memory before it unrolls the loop. Those of PanVK may be of 256 bytes.
inline constexpr std::uint32_t kBroadcomArray = 2;

}  // namespace vkformer::vulkan::vendors
