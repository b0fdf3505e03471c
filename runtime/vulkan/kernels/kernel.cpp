// SPDX-License-Identifier: MIT
#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

std::uint32_t provided_by(const Capabilities& device) noexcept {
    using enum ShaderRequirement;
    const auto bit = [](bool has, ShaderRequirement requirement) { return has ? bit_of(requirement) : 0; };
    const std::uint32_t device_has = bit(device.storage16, storage16) | bit(device.float16, float16) |
                                     bit(device.integer_dot, int_dot) | bit(device.subgroup_arithmetic, subgroup) |
                                     bit(device.cooperative_matrix, coopmat) |
                                     bit(device.cooperative_matrix2, coopmat2) | bit(device.int64, int64) |
                                     bit(device.subgroup_shuffle, shuffle) | bit(device.buffer_addresses, addresses);
    return device_has & ~kLackingRequirements;
}

Result<std::array<std::uint32_t, 3>> folded_grid(std::uint64_t count, const Capabilities& device) {
    const std::uint64_t widest = device.max_workgroup_count[0];
    const std::uint64_t rows = ceil_div(count, widest);
    if (rows > device.max_workgroup_count[1])
        return Error{ErrorCode::MissingFeature, "the work needs " + std::to_string(count) + " workgroups; device \"" +
                                                    device.name + "\" allows " + std::to_string(widest) + " × " +
                                                    std::to_string(device.max_workgroup_count[1])};
    const std::uint64_t columns = ceil_div(count, rows);
    return std::array{static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(rows), 1u};
}

}  // namespace vkformer::vulkan
