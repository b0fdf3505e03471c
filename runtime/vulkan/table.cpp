// SPDX-License-Identifier: MIT
#include "vulkan/table.hpp"

#include <string>

#include "core/lack_of_memory.hpp"
#include "core/platform/system.hpp"

namespace vkformer::vulkan {

Result<PFN_vkGetInstanceProcAddr> open_loader() {
    static void* const library = platform::open_vulkan_loader();
    void* const get = library ? platform::find_symbol(library, "vkGetInstanceProcAddr") : nullptr;
    if (!get)
        return Error{.code = ErrorCode::NoVulkanLoader,
                     .message = std::string(platform::kVulkanLoaderAdvice) + " or choose the CPU backend",
                     .hint = Hint::cpu_backend};
    return reinterpret_cast<PFN_vkGetInstanceProcAddr>(get);
}

Result<InstanceTable> load_instance_table(PFN_vkGetInstanceProcAddr get, VkInstance instance) {
    InstanceTable table{.vkGetInstanceProcAddr = get};
#define VKFORMER_LOAD(name) table.name = reinterpret_cast<PFN_##name>(get(instance, #name));
#define VKFORMER_REQUIRE(name) \
    if (!table.name) return Error{ErrorCode::Vulkan, "the Vulkan instance lacks " #name "; version 1.2 is needed"};
    VKFORMER_INSTANCE_FUNCTIONS(VKFORMER_LOAD)
    VKFORMER_OPTIONAL_INSTANCE_FUNCTIONS(VKFORMER_LOAD)
    VKFORMER_INSTANCE_FUNCTIONS(VKFORMER_REQUIRE)
#undef VKFORMER_LOAD
#undef VKFORMER_REQUIRE
    return table;
}

Result<DeviceTable> load_device_table(const InstanceTable& instance_table, VkDevice device) {
    DeviceTable table;
#define VKFORMER_LOAD(name) \
    table.name = reinterpret_cast<PFN_##name>(instance_table.vkGetDeviceProcAddr(device, #name));
#define VKFORMER_REQUIRE(name) \
    if (!table.name) return Error{ErrorCode::Vulkan, "the Vulkan device lacks " #name "; version 1.2 is needed"};
    VKFORMER_DEVICE_FUNCTIONS(VKFORMER_LOAD)
    VKFORMER_OPTIONAL_DEVICE_FUNCTIONS(VKFORMER_LOAD)
    VKFORMER_DEVICE_FUNCTIONS(VKFORMER_REQUIRE)
#undef VKFORMER_LOAD
#undef VKFORMER_REQUIRE
    return table;
}

const char* to_string(VkResult result) noexcept {
    switch (result) {
    case VK_SUCCESS: return "VK_SUCCESS";
    case VK_NOT_READY: return "VK_NOT_READY";
    case VK_TIMEOUT: return "VK_TIMEOUT";
    case VK_INCOMPLETE: return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_ERROR_FRAGMENTED_POOL: return "VK_ERROR_FRAGMENTED_POOL";
    default: return "a VkResult outside Vulkan 1.2's compute functions";
    }
}

Error vulkan_error(VkResult result, std::string_view call, std::string_view doing) {
    ErrorCode code = ErrorCode::Vulkan;
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY) code = ErrorCode::OutOfHostMemory;
    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY) code = ErrorCode::OutOfDeviceMemory;
    if (result == VK_ERROR_DEVICE_LOST) code = ErrorCode::DeviceLost;
    return Error{code,
                 std::string(call) + " failed while " + std::string(doing) + ": " + to_string(result) + " (" +
                     std::to_string(static_cast<int>(result)) + ")",
                 static_cast<std::int32_t>(result)};
}

Error with_advice(Error error, const char* advice, Hint hint) {
    if (is_lack_of_memory(error.code)) return error;
    error.message += advice;
    error.hint = hint;
    return error;
}

}  // namespace vkformer::vulkan
