// SPDX-License-Identifier: MIT
#include "vulkan/strided_copy.hpp"

#include <algorithm>
#include <limits>

#include "core/try.hpp"
#include "strided_copy/contract.h"
#include "vulkan/kernels/kernel.hpp"
#include "vulkan/memory.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::StridedCopyPush) == 56);

constexpr std::uint32_t kCopyWorkgroup = 64;
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

WordPlaces dense_places(const std::array<std::uint64_t, 4>& sizes) noexcept {
    return {.first = 0, .strides = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}};
}

Result<Dispatch> plan_word_copy(const WordCopy& copy, const Capabilities& device) {
    const auto narrow = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
    const std::uint64_t count = copy.sizes[0] * copy.sizes[1] * copy.sizes[2] * copy.sizes[3];
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(count, kCopyWorkgroup), device));
    Dispatch dispatch{.module = {&modules::strided_copy}, .groups = groups};
    dispatch.bind(shaders::kStridedCopyX, copy.x)
        .bind(shaders::kStridedCopyY, copy.y)
        .set(shaders::kWorkgroupConstant, kCopyWorkgroup);
    dispatch.push.set(shaders::StridedCopyPush{.count = narrow(count),
                                               .size_1 = narrow(copy.sizes[1]),
                                               .size_2 = narrow(copy.sizes[2]),
                                               .size_3 = narrow(copy.sizes[3]),
                                               .x_first = narrow(copy.in_x.first),
                                               .x_stride_0 = narrow(copy.in_x.strides[0]),
                                               .x_stride_1 = narrow(copy.in_x.strides[1]),
                                               .x_stride_2 = narrow(copy.in_x.strides[2]),
                                               .x_stride_3 = narrow(copy.in_x.strides[3]),
                                               .y_first = narrow(copy.in_y.first),
                                               .y_stride_0 = narrow(copy.in_y.strides[0]),
                                               .y_stride_1 = narrow(copy.in_y.strides[1]),
                                               .y_stride_2 = narrow(copy.in_y.strides[2]),
                                               .y_stride_3 = narrow(copy.in_y.strides[3])});
    return dispatch;
}

Result<StridedCopy> StridedCopy::create(std::shared_ptr<Device> device, Pipelines& pipelines, Direction direction,
                                        const Slice& dense, const Shape& shape, const Slice& strided,
                                        std::span<const std::uint64_t> strides) {
    constexpr std::size_t kRank = 4;
    if (shape.rank() > kRank || strides.size() != shape.rank())
        return invalid("there must be one for each of at most 4 dimensions");
    std::array<Dimension, kRank> dimensions;  // leading ones of size 1
    for (std::size_t i = 0; i < shape.rank(); ++i) dimensions[kRank - shape.rank() + i] = {shape[i], strides[i]};
    VKFORMER_TRY(const std::uint64_t words, extent(dimensions, direction));
    if (words > strided.bytes / 4)
        return invalid("they reach over " + std::to_string(words) + " words, the buffer has " +
                       std::to_string(strided.bytes / 4));
    WordCopy words_copy;
    WordPlaces places;
    for (std::size_t i = 0; i < kRank; ++i) {
        words_copy.sizes[i] = dimensions[i].size;
        places.strides[i] = dimensions[i].stride;
    }
    const bool scatters = direction == Direction::scatter;
    (scatters ? words_copy.in_y : words_copy.in_x) = places;
    (scatters ? words_copy.in_x : words_copy.in_y) = dense_places(words_copy.sizes);
    StridedCopy copy;
    copy.device_ = std::move(device);
    VKFORMER_TRY(const Dispatch dispatch, plan_word_copy(words_copy, copy.device_->capabilities()));
    VKFORMER_TRY(const auto pipeline, pipelines.get(dispatch));
    constexpr VkDescriptorPoolSize kBuffers{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2};
    VKFORMER_TRY(copy.sets_, DescriptorSets::create(*copy.device_, 1, {&kBuffers, 1}, "binding a strided tensor"));
    const DescriptorSets::Buffer buffers[] = {{shaders::kStridedCopyX, scatters ? dense : strided},
                                              {shaders::kStridedCopyY, scatters ? strided : dense}};
    VKFORMER_TRY(const VkDescriptorSet set, copy.sets_.make(pipeline.set_layout, buffers));
    copy.dispatch_ = {.pipeline = pipeline.handle,
                      .layout = pipeline.layout,
                      .set = set,
                      .push = dispatch.push,
                      .groups = dispatch.groups};
    return copy;
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
    device_->begin_label(commands, std::string(modules::strided_copy.name));
    dispatch_.record(vk, commands);
    device_->end_label(commands);
}

}  // namespace vkformer::vulkan
