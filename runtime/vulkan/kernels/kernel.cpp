// SPDX-License-Identifier: MIT
#include "vulkan/kernels/kernel.hpp"

#include <algorithm>

#include "interface/wide.h"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

std::string variant_for(std::string_view shader, DType dtype, const Capabilities& device) {
    std::string name(shader);
    if (dtype == DType::f16) return name + (device.storage16 ? "_f16" : "_f16_words");
    return name + "_f32";
}

std::string copy_variant_for(std::string_view shader, DType dtype, const Capabilities& device) {
    return dtype == DType::f16 ? variant_for(shader, dtype, device) : std::string(shader) + "_b32";
}

bool has_wide_loads(const Capabilities& device) { return device.type == "cpu" && device.int64 && device.storage16; }

std::string wide_variant_for(std::string_view shader, DType dtype, const Capabilities& device) {
    if (has_wide_loads(device)) return variant_for(std::string(shader) + "_wide", dtype, device);
    return std::string(shader) + (dtype == DType::f16 ? "_f16_words" : "_f32");
}

bool has_broadcast_lanes(const Capabilities& device) {
    return has_wide_loads(device) && device.subgroup_shuffle && device.subgroup_size == shaders::kBroadcastLanes;
}

Result<std::string_view> pick_variant(std::string_view op, const VariantNames& names, std::string_view wanted) {
    if (wanted.empty()) return names.front();
    if (const auto found = std::ranges::find(names, wanted); found != names.end()) return *found;
    std::string known;
    for (const std::string_view name : names) known += (known.empty() ? "" : ", ") + std::string(name);
    return Error{ErrorCode::InvalidArgument, std::string(op) + " has no variant \"" + std::string(wanted) +
                                                 "\" for these shapes on this device; it has: " + known};
}

Result<std::array<std::uint32_t, 3>> folded_grid(std::uint64_t count, const Capabilities& device) {
    const std::uint64_t widest = device.max_workgroup_count[0];
    const std::uint64_t rows = (count + widest - 1) / widest;
    if (rows > device.max_workgroup_count[1])
        return Error{ErrorCode::MissingFeature, "the work needs " + std::to_string(count) + " workgroups; device \"" +
                                                    device.name + "\" allows " + std::to_string(widest) + " × " +
                                                    std::to_string(device.max_workgroup_count[1])};
    const std::uint64_t columns = (count + rows - 1) / rows;
    return std::array{static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(rows), 1u};
}

}  // namespace vkformer::vulkan
