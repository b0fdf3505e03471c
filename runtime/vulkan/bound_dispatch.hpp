// SPDX-License-Identifier: MIT
/// A dispatch with everything that it needs to be recorded: the one way in which pipelines, sets and push constants reach commands.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "vulkan/device.hpp"
#include "vulkan/kernels/dispatch.hpp"
#include "vulkan/memory.hpp"
#include "vulkan/table.hpp"

namespace vkformer::vulkan {

struct BoundDispatch {
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkDescriptorSet set = VK_NULL_HANDLE;
    PushConstants push{};
    std::array<std::uint32_t, 3> groups{};

    void record(const DeviceTable& vk, VkCommandBuffer commands) const;
};

/// A pool for sets whose number is known before.
class DescriptorSets {
public:
    struct Buffer {
        std::uint32_t binding;
        Slice slice;
    };

    DescriptorSets() = default;
    /// `doing` stands in the errors: "binding the tensors". Errors: Vulkan, out of memory.
    static Result<DescriptorSets> create(const Device& device, std::uint32_t sets,
                                         std::span<const VkDescriptorPoolSize> sizes, const char* doing);
    /// A set with these storage buffers bound. Errors: as create.
    Result<VkDescriptorSet> make(VkDescriptorSetLayout layout, std::span<const Buffer> buffers) const;

private:
    const Device* device_ = nullptr;
    const char* doing_ = "";
    UniqueDescriptorPool pool_;
};

}  // namespace vkformer::vulkan
