// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace vkformer::vulkan {

/// One shape of VK_KHR_cooperative_matrix that a subgroup multiplies: result [m, n] = a [m, k] · b [k, n] + c [m, n].
struct CooperativeMatrix {
    std::uint32_t m = 0, n = 0, k = 0;
    std::uint32_t a = 0, b = 0, c = 0, result = 0;  ///< component types: vulkan/cooperative_matrix.hpp
    friend bool operator==(const CooperativeMatrix&, const CooperativeMatrix&) = default;
};

/// What a driver has of the parts of VK_NV_cooperative_matrix2 that shaders use; the names of the extension's features.
struct CooperativeMatrix2 {
    bool reductions = false, conversions = false, per_element_operations = false;
};

/// What a device is and what it can do: looked up once, before any shader is chosen. A plain value.
/// For an adopted device it says what the application has enabled, not what the hardware could do.
struct Capabilities {
    std::string name;    ///< as the driver says: "llvmpipe (LLVM 15.0.6, 256 bits)"
    std::string driver;  ///< driver's name and version
    std::string uuid;    ///< 32 hexadecimal digits
    std::string type;    ///< "discrete", "integrated", "virtual", "cpu", "other"
    bool is_cpu() const { return type == "cpu"; }
    std::uint32_t vendor_id = 0, device_id = 0, driver_version = 0;
    std::array<std::uint8_t, 16> pipeline_cache_uuid{};
    std::uint32_t api_version = 0;  ///< as VK_MAKE_API_VERSION packs it

    bool unified_memory = false;  ///< device-local memory that the host can map: no staging
    bool storage16 = false;       ///< storageBuffer16BitAccess
    bool float16 = false;         ///< shaderFloat16
    bool int64 = false;           ///< shaderInt64. Only on devices that are CPUs.
    bool integer_dot = false;     ///< shaderIntegerDotProduct
    /// bufferDeviceAddress, and all device memory comes from vkformer itself. Only on devices that are CPUs.
    bool buffer_addresses = false;
    /// Memory of the host that the device reads in place begins at a multiple of so many bytes (VK_EXT_external_memory_host); 0: it
    /// reads none. Only on devices that are CPUs, where all device memory comes from vkformer itself.
    std::uint64_t host_memory_alignment = 0;
    bool subgroup_arithmetic = false;
    bool subgroup_shuffle = false;
    bool subgroup_size_control = false;  ///< subgroupSizeControl and computeFullSubgroups
    bool memory_model = false;           ///< vulkanMemoryModel and vulkanMemoryModelDeviceScope
    bool cooperative_matrix = false;     ///< VK_KHR_cooperative_matrix, for compute shaders
    bool cooperative_matrix2 = false;    ///< VK_NV_cooperative_matrix2; which parts of it: cooperative_matrix2_parts
    CooperativeMatrix2 cooperative_matrix2_parts{};
    std::vector<CooperativeMatrix>
        cooperative_matrices{};        ///< of subgroup scope, without saturation, in the driver's order
    bool pipeline_statistics = false;  ///< VK_KHR_pipeline_executable_properties
    std::uint32_t subgroup_size = 0;
    std::uint32_t min_subgroup_size = 0, max_subgroup_size = 0;  ///< what subgroup_size_control can ask for; else 0

    std::uint32_t max_workgroup_invocations = 0;
    std::uint32_t max_shared_memory_bytes = 0;
    std::array<std::uint32_t, 3> max_workgroup_count{};
    std::uint64_t max_storage_buffer_range = 0;  ///< bytes of one binding
    std::uint32_t max_storage_buffers = 0;       ///< bindings of one shader (maxPerStageDescriptorStorageBuffers)
    std::uint64_t max_allocation_bytes = 0;
    std::uint64_t storage_buffer_alignment = 0;  ///< bytes
    std::uint32_t timestamp_valid_bits = 0;      ///< 0: no timestamps on the chosen queue
    float timestamp_period_ns = 0;
};

}  // namespace vkformer::vulkan
