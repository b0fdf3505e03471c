// SPDX-License-Identifier: MIT
/// Memory that a model has on its device.
#pragma once

#include <cstdint>
#include <optional>

namespace vkformer {

/// Bytes, now. A model's weights and caches are made by its first call, further caches by calls with another number of texts or windows.
struct DeviceMemory {
    /// Copied to the device, or read where the host has them (by the CPU backend, by Vulkan devices that are CPUs, and what Offload says).
    std::uint64_t weights = 0;
    std::uint64_t caches = 0;  ///< keys and values, and what else stays from step to step
    std::uint64_t other = 0;   ///< activations, copies under way; the CPU backend does not count its own
    /// What all three may come to, by what the driver says is left (VK_EXT_memory_budget); none where it says nothing.
    std::optional<std::uint64_t> budget{};
};

}  // namespace vkformer
