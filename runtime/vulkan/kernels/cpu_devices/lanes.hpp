// SPDX-License-Identifier: MIT
/// What the kernels of the wing ask of a device.
#pragma once

#include <cstdint>

#include "cpu_devices/lib/lanes.h"
#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan::cpu_devices {

/// Whether shaders with loads of 64 bits run there.
inline bool has_wide_loads(const Capabilities& device) { return device.int64 && device.storage16; }

/// Whether those run there that spread such loads over the lanes: their subgroups have kCpuLanes.
inline bool has_shuffled_lanes(const Capabilities& device) {
    return has_wide_loads(device) && device.subgroup_shuffle && device.subgroup_size == shaders::kCpuLanes;
}

/// Whether those run there that load by addresses, as vectors.
inline bool has_vector_loads(const Capabilities& device) {
    return has_shuffled_lanes(device) && device.buffer_addresses;
}

/// How a shader loads: what it spreads over the lanes by shuffles, or vectors by addresses.
enum class Loads : std::uint8_t { shuffled, vectors };

/// Where there are no wide loads halves are words even if the device has 16-bit storage.
inline Module wide_or_words(const ShaderFamily& wide, const ShaderFamily& words, DType dtype,
                            const Capabilities& device) {
    if (has_wide_loads(device)) return {&wide, storage_for(dtype, device)};
    return {&words, dtype == DType::f16 ? Storage::f16_words : Storage::f32};
}

}  // namespace vkformer::vulkan::cpu_devices
