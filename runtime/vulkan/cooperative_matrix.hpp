// SPDX-License-Identifier: MIT
/// VK_KHR_cooperative_matrix and VK_NV_cooperative_matrix2 for headers that are older than they are (Debian 12 has 1.3.239).
/// Names, values and members: the Vulkan registry, https://registry.khronos.org/vulkan.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <iterator>

namespace vkformer::vulkan {

inline constexpr auto kCooperativeMatrixFeaturesType = static_cast<VkStructureType>(1000506000);
inline constexpr auto kCooperativeMatrixPropertiesType = static_cast<VkStructureType>(1000506001);
inline constexpr auto kCooperativeMatrix2FeaturesType = static_cast<VkStructureType>(1000593000);

/// VkPhysicalDeviceCooperativeMatrixFeaturesKHR
struct CooperativeMatrixFeatures {
    VkStructureType sType = kCooperativeMatrixFeaturesType;
    void* pNext = nullptr;
    VkBool32 cooperativeMatrix = VK_FALSE;
    VkBool32 cooperativeMatrixRobustBufferAccess = VK_FALSE;
};

/// VkCooperativeMatrixPropertiesKHR
struct CooperativeMatrixProperties {
    VkStructureType sType = kCooperativeMatrixPropertiesType;
    void* pNext = nullptr;
    std::uint32_t MSize = 0, NSize = 0, KSize = 0;
    std::uint32_t AType = 0, BType = 0, CType = 0, ResultType = 0;  // VkComponentTypeKHR
    VkBool32 saturatingAccumulation = VK_FALSE;
    std::uint32_t scope = 0;  // VkScopeKHR
};
inline constexpr std::uint32_t kComponentFloat16 = 0, kComponentFloat32 = 1, kComponentSint8 = 3, kComponentSint32 = 5;
inline constexpr std::uint32_t kScopeSubgroup = 3;

/// "f16" for VK_COMPONENT_TYPE_FLOAT16_KHR
constexpr const char* component_name(std::uint32_t type) noexcept {
    constexpr const char* kNames[] = {"f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
    return type < std::size(kNames) ? kNames[type] : type == 1000141000 ? "bf16" : "other";
}

/// VkPhysicalDeviceCooperativeMatrix2FeaturesNV
struct CooperativeMatrix2Features {
    VkStructureType sType = kCooperativeMatrix2FeaturesType;
    void* pNext = nullptr;
    VkBool32 cooperativeMatrixWorkgroupScope = VK_FALSE;
    VkBool32 cooperativeMatrixFlexibleDimensions = VK_FALSE;
    VkBool32 cooperativeMatrixReductions = VK_FALSE;
    VkBool32 cooperativeMatrixConversions = VK_FALSE;
    VkBool32 cooperativeMatrixPerElementOperations = VK_FALSE;
    VkBool32 cooperativeMatrixTensorAddressing = VK_FALSE;
    VkBool32 cooperativeMatrixBlockLoads = VK_FALSE;
};

/// vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR
using GetCooperativeMatrixProperties = VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t*,
                                                            CooperativeMatrixProperties*);

}  // namespace vkformer::vulkan
