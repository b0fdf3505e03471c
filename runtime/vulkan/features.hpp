// SPDX-License-Identifier: MIT
/// The device features that vkformer uses: one table, from which they are queried, enabled and read back.
#pragma once

#include <vulkan/vulkan.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vulkan/capabilities.hpp"
#include "vulkan/table.hpp"

namespace vkformer::vulkan {

enum class Feature : std::uint8_t {
    timeline_semaphore,
    storage16,
    float16,
    memory_model,
    memory_model_device_scope,  ///< for the atomics of all shaders, where the memory model is enabled
    integer_dot,
    subgroup_size_control,
    full_subgroups,
    cooperative_matrix,
    matrix2_reductions,
    matrix2_conversions,
    matrix2_per_element_operations,
    int64,
    maintenance4,
    buffer_addresses,
};
inline constexpr std::size_t kFeatureCount = 15;

/// Some of the features.
class FeatureSet {
public:
    bool has(Feature feature) const noexcept { return bits_[static_cast<std::size_t>(feature)]; }
    void set(Feature feature, bool value = true) noexcept { bits_[static_cast<std::size_t>(feature)] = value; }
    friend FeatureSet operator&(FeatureSet a, const FeatureSet& b) noexcept {
        a.bits_ &= b.bits_;
        return a;
    }

private:
    std::bitset<kFeatureCount> bits_;
};

struct FeatureInfo {
    Feature feature;
    const char* name;        ///< as Vulkan spells it
    const char* extension;   ///< that it needs to be enabled with; null: core in Vulkan 1.2
    const char* gain;        ///< what it is good for
    bool only_cpus = false;  ///< shaders for devices that are CPUs need it, and no others
};
/// All of them, in the order of the enum.
std::span<const FeatureInfo, kFeatureCount> feature_table();

/// The extensions of a physical device. Errors: Vulkan.
std::vector<std::string> device_extensions(const InstanceTable& vk, VkPhysicalDevice device);

/// What the physical device has. A feature whose extension is missing is not there.
FeatureSet supported_features(const InstanceTable& vk, VkPhysicalDevice device,
                              std::span<const std::string> extensions);
/// What a device that is created so has enabled: in pEnabledFeatures or any struct of the pNext chain that Vulkan has for a feature, with its
/// extension listed or part of `api_version`, the lesser of the device's and the application's.
FeatureSet enabled_features(const VkDeviceCreateInfo& info, std::uint32_t api_version);

/// What the capabilities say of features, where these are the ones that are there. Needs the fields that features do not decide.
void set_features(Capabilities& c, const FeatureSet& features);

/// Extends the info for vkCreateDevice by features and extensions: features are set in the structs that are in the chain already
/// (they are written to) or in a copy of pEnabledFeatures, else in structs that are put before the chain. `info` points into the patch, which must outlive its use.
class DevicePatch {
public:
    /// `info` stays as it is until apply().
    DevicePatch(const FeatureSet& wanted, std::span<const char* const> extensions);
    ~DevicePatch();
    DevicePatch(const DevicePatch&) = delete;
    DevicePatch& operator=(const DevicePatch&) = delete;
    void apply(VkDeviceCreateInfo& info);

private:
    struct Structs;
    FeatureSet wanted_;
    std::vector<const char*> extensions_;
    std::unique_ptr<Structs> structs_;
};

}  // namespace vkformer::vulkan
