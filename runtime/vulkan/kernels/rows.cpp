// SPDX-License-Identifier: MIT
#include "vulkan/kernels/rows.hpp"

#include <algorithm>

#include "interface/types.h"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kCpuLanes = 8;  // of lavapipe; SwiftShader has 4

/// So many that most invocations have a quad and few have more than eight: a short row in 128 would leave most of them idle.
std::uint32_t workgroup_for(std::uint64_t quads) { return quads <= 64 ? 32 : 128; }

std::uint32_t kept_quads(std::uint64_t quads, std::uint32_t workgroup, std::uint64_t most) {
    return static_cast<std::uint32_t>(std::min(quads / workgroup, most));
}

}  // namespace

VariantNames row_variants(std::uint64_t width, const Capabilities& device) {
    const bool is_quads = width % 4 == 0;
    VariantNames names;
    if (device.type == "cpu") names.push_back("direct");
    if (is_quads) names.push_back("quads");
    if (is_quads && device.subgroup_arithmetic) names.push_back("subgroup");
    names.push_back("plain");
    return names;
}

RowTiling row_tiling(std::string_view variant, std::uint64_t width) {
    const bool is_quads = width % 4 == 0;
    const std::uint64_t quads = width / 4;
    if (variant == "direct") {
        if (!is_quads) return {.suffix = "", .workgroup = kCpuLanes, .kept = 0};
        return {.suffix = "_quads", .workgroup = kCpuLanes, .kept = kept_quads(quads, kCpuLanes, shaders::kMostKept)};
    }
    if (variant == "plain") return {.suffix = "", .workgroup = width <= 64 ? 32u : 128u, .kept = 0};
    constexpr std::uint64_t kMostRegisters = 8;  // quads, that is 32 registers: more would cost occupancy
    const std::uint32_t workgroup = workgroup_for(quads);
    return {.suffix = variant == "subgroup" ? "_subgroup" : "_quads",
            .workgroup = workgroup,
            .kept = kept_quads(quads, workgroup, kMostRegisters)};
}

std::string norm_shader(std::string_view op, std::string_view variant, const Shape& shape, DType dtype,
                        const Capabilities& device) {
    std::string name = std::string(op) + std::string(row_tiling(variant, shape.back()).suffix);
    if (variant == "direct" && shape.back() % 4 == 0 && has_wide_loads(device)) name += "_wide";
    return variant_for(name, dtype, device);
}

}  // namespace vkformer::vulkan
