// SPDX-License-Identifier: MIT
#include "vulkan/features.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "vulkan/cooperative_matrix.hpp"

namespace vkformer::vulkan {
namespace {

constexpr const char* kIntegerDotExtension = "VK_KHR_shader_integer_dot_product";
constexpr const char* kSubgroupSizeExtension = "VK_EXT_subgroup_size_control";
constexpr const char* kMaintenance4Extension = "VK_KHR_maintenance4";
constexpr const char* kCooperativeMatrixExtension = "VK_KHR_cooperative_matrix";
constexpr const char* kCooperativeMatrix2Extension = "VK_NV_cooperative_matrix2";

constexpr FeatureInfo kFeatures[kFeatureCount] = {
    {Feature::timeline_semaphore, "timelineSemaphore", nullptr, "vkformer can submit to a queue itself"},
    {Feature::storage16, "storageBuffer16BitAccess", nullptr, "float16 tensors are read and written as such"},
    {Feature::float16, "shaderFloat16", nullptr, "cooperative matrices of float16"},
    {Feature::memory_model, "vulkanMemoryModel", nullptr, "cooperative matrices"},
    {Feature::memory_model_device_scope, "vulkanMemoryModelDeviceScope", nullptr, "cooperative matrices"},
    {Feature::integer_dot, "shaderIntegerDotProduct", kIntegerDotExtension,
     "products of quantised weights in integers"},
    {Feature::subgroup_size_control, "subgroupSizeControl", kSubgroupSizeExtension,
     "cooperative matrices where subgroups vary in size"},
    {Feature::full_subgroups, "computeFullSubgroups", kSubgroupSizeExtension,
     "cooperative matrices where subgroups vary in size"},
    {Feature::cooperative_matrix, "cooperativeMatrix", kCooperativeMatrixExtension,
     "matrix products on the device's matrix units"},
    {Feature::matrix2_reductions, "cooperativeMatrixReductions", kCooperativeMatrix2Extension,
     "attention on matrix units"},
    {Feature::matrix2_conversions, "cooperativeMatrixConversions", kCooperativeMatrix2Extension,
     "attention on matrix units"},
    {Feature::matrix2_per_element_operations, "cooperativeMatrixPerElementOperations", kCooperativeMatrix2Extension,
     "attention on matrix units"},
    {Feature::int64, "shaderInt64", nullptr, "wider loads", true},
    {Feature::maintenance4, "maintenance4", kMaintenance4Extension, "cooperative matrices 2, whose SPIR-V needs it"},
    {Feature::buffer_addresses, "bufferDeviceAddress", nullptr, "loads of whole vectors", true},
};

/// A place in a pNext struct where a feature can be switched on.
struct Location {
    Feature feature;
    VkStructureType type;
    std::size_t offset;
};
#define VKFORMER_AT(feature, type, structure, member) \
    { Feature::feature, type, offsetof(structure, member) }
constexpr Location kLocations[] = {
    VKFORMER_AT(timeline_semaphore, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
                VkPhysicalDeviceTimelineSemaphoreFeatures, timelineSemaphore),
    VKFORMER_AT(timeline_semaphore, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                VkPhysicalDeviceVulkan12Features, timelineSemaphore),
    VKFORMER_AT(storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
                VkPhysicalDevice16BitStorageFeatures, storageBuffer16BitAccess),
    VKFORMER_AT(storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, VkPhysicalDeviceVulkan11Features,
                storageBuffer16BitAccess),
    VKFORMER_AT(float16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
                VkPhysicalDeviceShaderFloat16Int8Features, shaderFloat16),
    VKFORMER_AT(float16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features,
                shaderFloat16),
    VKFORMER_AT(memory_model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
                VkPhysicalDeviceVulkanMemoryModelFeatures, vulkanMemoryModel),
    VKFORMER_AT(memory_model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features,
                vulkanMemoryModel),
    VKFORMER_AT(memory_model_device_scope, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
                VkPhysicalDeviceVulkanMemoryModelFeatures, vulkanMemoryModelDeviceScope),
    VKFORMER_AT(memory_model_device_scope, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                VkPhysicalDeviceVulkan12Features, vulkanMemoryModelDeviceScope),
    VKFORMER_AT(integer_dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
                VkPhysicalDeviceShaderIntegerDotProductFeatures, shaderIntegerDotProduct),
    VKFORMER_AT(integer_dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features,
                shaderIntegerDotProduct),
    VKFORMER_AT(subgroup_size_control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                VkPhysicalDeviceSubgroupSizeControlFeatures, subgroupSizeControl),
    VKFORMER_AT(subgroup_size_control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                VkPhysicalDeviceVulkan13Features, subgroupSizeControl),
    VKFORMER_AT(full_subgroups, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                VkPhysicalDeviceSubgroupSizeControlFeatures, computeFullSubgroups),
    VKFORMER_AT(full_subgroups, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features,
                computeFullSubgroups),
    VKFORMER_AT(cooperative_matrix, kCooperativeMatrixFeaturesType, CooperativeMatrixFeatures, cooperativeMatrix),
    VKFORMER_AT(matrix2_reductions, kCooperativeMatrix2FeaturesType, CooperativeMatrix2Features,
                cooperativeMatrixReductions),
    VKFORMER_AT(matrix2_conversions, kCooperativeMatrix2FeaturesType, CooperativeMatrix2Features,
                cooperativeMatrixConversions),
    VKFORMER_AT(matrix2_per_element_operations, kCooperativeMatrix2FeaturesType, CooperativeMatrix2Features,
                cooperativeMatrixPerElementOperations),
    VKFORMER_AT(int64, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, VkPhysicalDeviceFeatures2, features.shaderInt64),
    VKFORMER_AT(maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES,
                VkPhysicalDeviceMaintenance4Features, maintenance4),
    VKFORMER_AT(maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features,
                maintenance4),
    VKFORMER_AT(buffer_addresses, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
                VkPhysicalDeviceBufferDeviceAddressFeatures, bufferDeviceAddress),
    VKFORMER_AT(buffer_addresses, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                VkPhysicalDeviceVulkan12Features, bufferDeviceAddress),
};
#undef VKFORMER_AT

VkBool32& flag_at(VkBaseOutStructure& structure, const Location& location) {
    return *reinterpret_cast<VkBool32*>(reinterpret_cast<std::byte*>(&structure) + location.offset);
}

const FeatureInfo& info_of(Feature feature) { return kFeatures[static_cast<std::size_t>(feature)]; }

bool lists(std::span<const char* const> names, const char* name) {
    return std::ranges::any_of(names, [&](const char* n) { return std::strcmp(n, name) == 0; });
}

std::span<const char* const> listed(const VkDeviceCreateInfo& info) {
    return {info.ppEnabledExtensionNames, info.enabledExtensionCount};
}

/// Sets the feature wherever the chain has a place for it.
bool set_in_chain(VkBaseOutStructure* chain, Feature feature) {
    bool found = false;
    for (VkBaseOutStructure* s = chain; s; s = s->pNext)
        for (const Location& location : kLocations)
            if (location.feature == feature && location.type == s->sType) {
                flag_at(*s, location) = VK_TRUE;
                found = true;
            }
    return found;
}

void clear_chain(VkBaseOutStructure* chain) {
    for (VkBaseOutStructure* s = chain; s; s = s->pNext)
        for (const Location& location : kLocations)
            if (location.type == s->sType) flag_at(*s, location) = VK_FALSE;
}

/// Part of Vulkan 1.3, where a device need not list it.
bool is_core_of(const char* extension, std::uint32_t api_version) {
    return api_version >= VK_API_VERSION_1_3 &&
           (std::strcmp(extension, kIntegerDotExtension) == 0 || std::strcmp(extension, kSubgroupSizeExtension) == 0 ||
            std::strcmp(extension, kMaintenance4Extension) == 0);
}

/// What is set anywhere in the chain, with its extension in `extensions`.
FeatureSet set_features(const VkBaseOutStructure* chain, const auto& has_extension) {
    FeatureSet set;
    for (const VkBaseOutStructure* s = chain; s; s = s->pNext)
        for (const Location& location : kLocations) {
            if (location.type != s->sType || !flag_at(const_cast<VkBaseOutStructure&>(*s), location)) continue;
            const char* const extension = info_of(location.feature).extension;
            if (!extension || has_extension(extension)) set.set(location.feature);
        }
    return set;
}

CooperativeMatrix2 parts_of(const FeatureSet& features) {
    return {.reductions = features.has(Feature::matrix2_reductions),
            .conversions = features.has(Feature::matrix2_conversions),
            .per_element_operations = features.has(Feature::matrix2_per_element_operations)};
}

bool has_parts(const CooperativeMatrix2& parts) {
    return parts.reductions || parts.conversions || parts.per_element_operations;
}

}  // namespace

std::span<const FeatureInfo, kFeatureCount> feature_table() { return kFeatures; }

/// One struct for each group of features; the smallest there is, since the large ones exclude the small ones of the caller.
struct DevicePatch::Structs {
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    VkPhysicalDevice16BitStorageFeatures storage16{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
    VkPhysicalDevice8BitStorageFeatures storage8{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
    VkPhysicalDeviceShaderFloat16Int8Features float16{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES};
    VkPhysicalDeviceShaderIntegerDotProductFeatures integer_dot{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
    VkPhysicalDeviceMaintenance4Features maintenance4{.sType =
                                                          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES};
    VkPhysicalDeviceBufferDeviceAddressFeatures addresses{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES};
    CooperativeMatrixFeatures matrix{};
    CooperativeMatrix2Features matrix2{};
    VkPhysicalDeviceFeatures2 base{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDeviceFeatures enabled{};  ///< for a caller with pEnabledFeatures, which excludes `base`

    std::array<VkBaseOutStructure*, 12> all() {
        const auto of = [](auto& s) { return reinterpret_cast<VkBaseOutStructure*>(&s); };
        return {of(timeline),      of(storage16), of(storage8), of(float16), of(memory_model), of(integer_dot),
                of(subgroup_size), of(matrix),    of(matrix2),  of(base),    of(maintenance4), of(addresses)};
    }
    /// The struct of a feature, wherever it is linked.
    VkBaseOutStructure* of(Feature feature) {
        for (VkBaseOutStructure* s : all())
            for (const Location& location : kLocations)
                if (location.feature == feature && location.type == s->sType) return s;
        return nullptr;
    }
};

std::vector<std::string> device_extensions(const InstanceTable& vk, VkPhysicalDevice device) {
    std::uint32_t count = 0;
    if (vk.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr) != VK_SUCCESS) return {};
    std::vector<VkExtensionProperties> properties(count);
    if (vk.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, properties.data()) < 0) return {};
    properties.resize(count);
    std::vector<std::string> names;
    for (const VkExtensionProperties& p : properties) names.emplace_back(p.extensionName);
    return names;
}

FeatureSet supported_features(const InstanceTable& vk, VkPhysicalDevice device,
                              std::span<const std::string> extensions) {
    const auto has = [&](const char* name) { return std::ranges::count(extensions, name) > 0; };
    FeatureSet all;
    for (const FeatureInfo& info : kFeatures) all.set(info.feature, !info.extension || has(info.extension));
    all.set(Feature::int64, false);  // it is in the struct that the chain hangs from
    DevicePatch query(all, {});
    VkDeviceCreateInfo chain{};
    query.apply(chain);
    clear_chain(static_cast<VkBaseOutStructure*>(const_cast<void*>(chain.pNext)));
    VkPhysicalDeviceFeatures2 features{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                       .pNext = const_cast<void*>(chain.pNext)};
    vk.vkGetPhysicalDeviceFeatures2(device, &features);
    FeatureSet set = set_features(reinterpret_cast<const VkBaseOutStructure*>(&features), has);
    // Useless without, and validation layers of old warn of every shader of SPIR-V 1.5 on a device with it.
    if (!set.has(Feature::matrix2_per_element_operations)) set.set(Feature::maintenance4, false);
    return set;
}

FeatureSet enabled_features(const VkDeviceCreateInfo& info, std::uint32_t api_version) {
    FeatureSet set = set_features(static_cast<const VkBaseOutStructure*>(info.pNext), [&](const char* name) {
        return is_core_of(name, api_version) || lists(listed(info), name);
    });
    if (info.pEnabledFeatures && info.pEnabledFeatures->shaderInt64) set.set(Feature::int64);
    return set;
}

void set_features(Capabilities& c, const FeatureSet& features) {
    c.storage16 = features.has(Feature::storage16);
    c.float16 = features.has(Feature::float16);
    c.memory_model = features.has(Feature::memory_model) && features.has(Feature::memory_model_device_scope);
    c.int64 = features.has(Feature::int64);
    c.integer_dot = features.has(Feature::integer_dot);
    c.buffer_addresses = features.has(Feature::buffer_addresses);
    c.subgroup_size_control = c.max_subgroup_size > 0 && features.has(Feature::subgroup_size_control) &&
                              features.has(Feature::full_subgroups);
    if (!c.subgroup_size_control) c.min_subgroup_size = c.max_subgroup_size = 0;
    if (!features.has(Feature::cooperative_matrix) || !c.memory_model) c.cooperative_matrices.clear();
    c.cooperative_matrix = !c.cooperative_matrices.empty();
    c.cooperative_matrix2_parts = parts_of(features);
    c.cooperative_matrix2 = c.cooperative_matrix && c.api_version >= VK_API_VERSION_1_3 &&
                            features.has(Feature::maintenance4) && has_parts(c.cooperative_matrix2_parts);
}

DevicePatch::DevicePatch(const FeatureSet& wanted, std::span<const char* const> extensions)
    : wanted_(wanted), extensions_(extensions.begin(), extensions.end()), structs_(std::make_unique<Structs>()) {}

DevicePatch::~DevicePatch() = default;

void DevicePatch::apply(VkDeviceCreateInfo& info) {
    auto* const callers = static_cast<VkBaseOutStructure*>(const_cast<void*>(info.pNext));
    VkBaseOutStructure* chain = callers;
    for (const FeatureInfo& feature : kFeatures) {
        if (!wanted_.has(feature.feature)) continue;
        if (feature.extension && !lists(extensions_, feature.extension)) extensions_.push_back(feature.extension);
        if (feature.feature == Feature::int64 && info.pEnabledFeatures) {
            structs_->enabled = *info.pEnabledFeatures;
            structs_->enabled.shaderInt64 = VK_TRUE;
            info.pEnabledFeatures = &structs_->enabled;
            continue;
        }
        if (set_in_chain(chain, feature.feature)) continue;
        VkBaseOutStructure* const own = structs_->of(feature.feature);
        own->pNext = chain;
        chain = own;
        set_in_chain(own, feature.feature);
    }
    std::vector<const char*> names(listed(info).begin(), listed(info).end());
    for (const char* name : extensions_)
        if (!lists(names, name)) names.push_back(name);
    extensions_ = std::move(names);
    info.pNext = chain;
    info.enabledExtensionCount = static_cast<std::uint32_t>(extensions_.size());
    info.ppEnabledExtensionNames = extensions_.data();
}

}  // namespace vkformer::vulkan
