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

/// Dispatches that are equal in this take the same time.
struct DispatchKind {
    VkPipeline pipeline = VK_NULL_HANDLE;
    std::array<std::uint32_t, 3> groups{};
    double work =
        0;  ///< graph::work_of its node: depths and numbers of keys, which are push constants, are not seen in the grid
    friend auto operator<=>(const DispatchKind&, const DispatchKind&) = default;
};

struct BoundDispatch {
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkDescriptorSet set = VK_NULL_HANDLE;
    PushConstants push{};
    std::array<std::uint32_t, 3> groups{};

    std::uint64_t group_count() const noexcept { return std::uint64_t{groups[0]} * groups[1] * groups[2]; }
    void record(const DeviceTable& vk, VkCommandBuffer commands) const { record(vk, commands, 0, group_count()); }
    /// The workgroups `first` up to but not including `last`, counted along x, then y, then z.
    void record(const DeviceTable& vk, VkCommandBuffer commands, std::uint64_t first, std::uint64_t last) const;
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
