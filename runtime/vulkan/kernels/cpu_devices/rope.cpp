// SPDX-License-Identifier: MIT
#include "vulkan/kernels/rope.hpp"

#include "vulkan/kernels/cpu_devices/kernels.hpp"

namespace vkformer::vulkan::cpu_devices {

/// As many invocations as such a device has lanes.
std::span<const Kernel<graph::Rope>> kernels(const graph::Rope&) {
    static constexpr Kernel<graph::Rope> kKernels[] = {
        {.traits = {.name = "cpu_pairs", .edges = kRopeEdges, .device = DeviceClass::cpu},
         .plan = [](const graph::Rope& op, const KernelContext& context) { return plan_rope(op, 8, context); }}};
    return kKernels;
}

}  // namespace vkformer::vulkan::cpu_devices
