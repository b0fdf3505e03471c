// SPDX-License-Identifier: MIT
/// Devices that are not there, for who asks kernels and runs none.
#pragma once

#include <vector>

#include "vulkan/capabilities.hpp"

namespace vkformer::tests {

/// GPUs and devices that are CPUs: those that reach all kernels, and those that lack one feature each or allow
/// shaders few storage buffers.
inline std::vector<vulkan::Capabilities> imagined_devices() {
    vulkan::Capabilities device;
    device.storage16 = device.float16 = device.integer_dot = device.int64 = true;
    device.subgroup_arithmetic = device.subgroup_shuffle = device.buffer_addresses = true;
    device.cooperative_matrix = device.cooperative_matrix2 = true;
    device.cooperative_matrix2_parts = {.reductions = true, .conversions = true, .per_element_operations = true};
    device.cooperative_matrices = {{16, 16, 16, 0, 0, 1, 1}};  // float16 operands, float32 sums
    device.subgroup_size = 8;
    device.max_workgroup_invocations = 1024;
    device.max_shared_memory_bytes = 65536;
    device.max_workgroup_count = {65535, 65535, 65535};
    device.max_storage_buffers = 16;
    std::vector<vulkan::Capabilities> devices;
    for (const char* type : {"discrete", "cpu"})
        for (const bool has_halves : {true, false})
            for (const bool has_matrices : {true, false}) {
                devices.push_back(device);
                devices.back().type = type;
                devices.back().storage16 = has_halves;
                devices.back().cooperative_matrix = devices.back().cooperative_matrix2 = has_matrices;
            }
    for (bool vulkan::Capabilities::*const feature :
         {&vulkan::Capabilities::float16, &vulkan::Capabilities::integer_dot, &vulkan::Capabilities::int64,
          &vulkan::Capabilities::subgroup_arithmetic, &vulkan::Capabilities::subgroup_shuffle,
          &vulkan::Capabilities::buffer_addresses, &vulkan::Capabilities::cooperative_matrix2})
        for (const char* type : {"discrete", "cpu"}) {
            devices.push_back(device);
            devices.back().type = type;
            devices.back().*feature = false;
        }
    devices.push_back(device);  // in wide subgroups a long row needs fewer registers of each invocation
    devices.back().type = "discrete";
    devices.back().subgroup_size = 32;
    devices.push_back(device);
    devices.back().type = "integrated";
    devices.back().max_storage_buffers = 8;
    return devices;
}

}  // namespace vkformer::tests
