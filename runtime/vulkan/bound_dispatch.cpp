// SPDX-License-Identifier: MIT
#include "vulkan/bound_dispatch.hpp"

#include <vector>

namespace vkformer::vulkan {

void BoundDispatch::record(const DeviceTable& vk, VkCommandBuffer commands) const {
    vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    const auto bytes = push.bytes();
    if (!bytes.empty())
        vk.vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                              static_cast<std::uint32_t>(bytes.size()), bytes.data());
    vk.vkCmdDispatch(commands, groups[0], groups[1], groups[2]);
}

Result<DescriptorSets> DescriptorSets::create(const Device& device, std::uint32_t sets,
                                              std::span<const VkDescriptorPoolSize> sizes, const char* doing) {
    DescriptorSets result;
    result.device_ = &device;
    result.doing_ = doing;
    const VkDescriptorPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                          .maxSets = sets,
                                          .poolSizeCount = static_cast<std::uint32_t>(sizes.size()),
                                          .pPoolSizes = sizes.data()};
    VkDescriptorPool pool = VK_NULL_HANDLE;
    if (const VkResult r = device.vk().vkCreateDescriptorPool(device.handle(), &info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateDescriptorPool", doing);
    result.pool_ = UniqueDescriptorPool(device.vk(), device.handle(), pool);
    return result;
}

Result<VkDescriptorSet> DescriptorSets::make(VkDescriptorSetLayout layout, std::span<const Buffer> buffers) const {
    const VkDescriptorSetAllocateInfo info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                           .descriptorPool = pool_.get(),
                                           .descriptorSetCount = 1,
                                           .pSetLayouts = &layout};
    VkDescriptorSet set = VK_NULL_HANDLE;
    if (const VkResult r = device_->vk().vkAllocateDescriptorSets(device_->handle(), &info, &set); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateDescriptorSets", doing_);
    std::vector<VkDescriptorBufferInfo> infos;
    for (const auto& [binding, slice] : buffers) infos.push_back({slice.buffer, slice.offset, slice.bytes});
    std::vector<VkWriteDescriptorSet> writes;
    for (std::size_t i = 0; i < infos.size(); ++i)
        writes.push_back({.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                          .dstSet = set,
                          .dstBinding = buffers[i].binding,
                          .descriptorCount = 1,
                          .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                          .pBufferInfo = &infos[i]});
    device_->vk().vkUpdateDescriptorSets(device_->handle(), static_cast<std::uint32_t>(writes.size()), writes.data(), 0,
                                         nullptr);
    return set;
}

}  // namespace vkformer::vulkan
