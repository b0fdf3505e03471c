// SPDX-License-Identifier: MIT
#include "vulkan/strided_copy.hpp"

#include <algorithm>
#include <limits>

#include "core/try.hpp"
#include "interface/strided_copy.h"
#include "vulkan/kernels/kernel.hpp"
#include "vulkan/memory.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::StridedCopyPush) == 32);

constexpr std::uint32_t kWorkgroup = 64;
constexpr std::size_t kRank = 4;

struct Dimension {
    std::uint64_t size = 1, stride = 0;
};

Error invalid(const std::string& message) { return {ErrorCode::InvalidArgument, "strides: " + message}; }

/// Words from the first element to behind the last. Errors: InvalidArgument (two elements in one place, for a scatter; too far).
Result<std::uint64_t> extent(std::span<const Dimension> dimensions, StridedCopy::Direction direction) {
    std::vector<Dimension> sorted(dimensions.begin(), dimensions.end());
    std::erase_if(sorted, [](const Dimension& d) { return d.size <= 1; });
    std::ranges::sort(sorted, {}, &Dimension::stride);
    std::uint64_t words = 1;
    for (const Dimension& d : sorted) {
        if (direction == StridedCopy::Direction::scatter && d.stride < words)
            return invalid("two elements of an output would lie in one place");
        if (d.stride > std::numeric_limits<std::int32_t>::max() / (d.size - 1))
            return invalid(std::to_string(d.stride) + " words between " + std::to_string(d.size) +
                           " elements is too far");
        words += (d.size - 1) * d.stride;
    }
    return words;
}

}  // namespace

Result<StridedCopy> StridedCopy::create(std::shared_ptr<Device> device, Pipelines& pipelines, Direction direction,
                                        const Slice& dense, const Shape& shape, const Slice& strided,
                                        std::span<const std::uint64_t> strides) {
    if (shape.rank() > kRank || strides.size() != shape.rank())
        return invalid("there must be one for each of at most 4 dimensions");
    std::array<Dimension, kRank> dimensions;  // leading ones of size 1
    for (std::size_t i = 0; i < shape.rank(); ++i) dimensions[kRank - shape.rank() + i] = {shape[i], strides[i]};
    VKFORMER_TRY(const std::uint64_t words, extent(dimensions, direction));
    if (words > strided.bytes / 4)
        return invalid("they reach over " + std::to_string(words) + " words, the buffer has " +
                       std::to_string(strided.bytes / 4));
    const auto narrow = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
    StridedCopy copy;
    copy.device_ = std::move(device);
    const std::uint64_t count = shape.element_count();
    copy.push_.set(shaders::StridedCopyPush{.count = narrow(count),
                                            .size_1 = narrow(dimensions[1].size),
                                            .size_2 = narrow(dimensions[2].size),
                                            .size_3 = narrow(dimensions[3].size),
                                            .stride_0 = narrow(dimensions[0].stride),
                                            .stride_1 = narrow(dimensions[1].stride),
                                            .stride_2 = narrow(dimensions[2].stride),
                                            .stride_3 = narrow(dimensions[3].stride)});
    VKFORMER_TRY(copy.groups_, folded_grid((count + kWorkgroup - 1) / kWorkgroup, copy.device_->capabilities()));
    const bool scatters = direction == Direction::scatter;
    Dispatch dispatch;
    dispatch.shader = kStridedCopyShader;
    dispatch.bindings.resize(2);  // what pipelines look at is their number
    dispatch.constants = {kWorkgroup, scatters ? 1u : 0u};
    VKFORMER_TRY(copy.pipeline_, pipelines.get(dispatch));
    VKFORMER_CHECK(copy.make_set(scatters ? dense : strided, scatters ? strided : dense));
    return copy;
}

Result<void> StridedCopy::make_set(const Slice& source, const Slice& target) {
    const Device& d = *device_;
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2};
    const VkDescriptorPoolCreateInfo pool_info{
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
    VkDescriptorPool pool = VK_NULL_HANDLE;
    if (const VkResult r = d.vk().vkCreateDescriptorPool(d.handle(), &pool_info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateDescriptorPool", "binding a strided tensor");
    pool_ = UniqueDescriptorPool(d.vk(), d.handle(), pool);
    const VkDescriptorSetAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                               .descriptorPool = pool,
                                               .descriptorSetCount = 1,
                                               .pSetLayouts = &pipeline_.set_layout};
    if (const VkResult r = d.vk().vkAllocateDescriptorSets(d.handle(), &allocate, &set_); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateDescriptorSets", "binding a strided tensor");
    const VkDescriptorBufferInfo buffers[] = {{source.buffer, source.offset, source.bytes},
                                              {target.buffer, target.offset, target.bytes}};
    const VkWriteDescriptorSet write{.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                     .dstSet = set_,
                                     .dstBinding = shaders::kStridedCopyX,
                                     .descriptorCount = 2,  // goes on with the binding behind it
                                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                     .pBufferInfo = buffers};
    d.vk().vkUpdateDescriptorSets(d.handle(), 1, &write, 0, nullptr);
    return {};
}

void StridedCopy::record(VkCommandBuffer commands) const {
    const DeviceTable& vk = device_->vk();
    const VkMemoryBarrier barrier{
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    vk.vkCmdPipelineBarrier(
        commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
    device_->begin_label(commands, kStridedCopyShader);
    vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_.handle);
    vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_.layout, 0, 1, &set_, 0, nullptr);
    const auto push = push_.bytes();
    vk.vkCmdPushConstants(commands, pipeline_.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          static_cast<std::uint32_t>(push.size()), push.data());
    vk.vkCmdDispatch(commands, groups_[0], groups_[1], groups_[2]);
    device_->end_label(commands);
}

}  // namespace vkformer::vulkan
