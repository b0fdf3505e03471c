// SPDX-License-Identifier: MIT
#include "vulkan/bound_dispatch.hpp"

#include <algorithm>
#include <vector>

namespace vkformer::vulkan {

void BoundDispatch::record(const DeviceTable& vk, VkCommandBuffer commands, std::uint64_t first,
                           std::uint64_t last) const {
    vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);

    // A range of workgroups is made of boxes: the rest of a row, the rest of a plane's rows, planes, and the same downwards. Shaders fold a
    // plane by the width of what is dispatched, which rows of one box have in common.
    const std::uint64_t row = groups[0], plane = row * groups[1];
    for (std::uint64_t at = first; at < last;) {
        const std::uint64_t left = last - at, x = at % row, y = at / row % groups[1];
        std::array<std::uint64_t, 3> box{row, groups[1], left / plane};
        if (x != 0 || left < row)
            box = {std::min(left, row - x), 1, 1};
        else if (y != 0 || left < plane)
            box = {row, std::min(left / row, groups[1] - y), 1};
        const auto word = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
        PushConstants part = push;
        part.begin_at(word(at % plane), word(at / plane));
        vk.vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, word(part.bytes().size()),
                              part.bytes().data());
        vk.vkCmdDispatch(commands, word(box[0]), word(box[1]), word(box[2]));
        at += box[0] * box[1] * box[2];
    }
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
