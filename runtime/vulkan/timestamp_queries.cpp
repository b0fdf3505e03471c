// SPDX-License-Identifier: MIT
#include "vulkan/timestamp_queries.hpp"

namespace vkformer::vulkan {

Result<TimestampQueries> TimestampQueries::create(const Device& device, std::uint32_t count) {
    TimestampQueries queries;
    queries.device_ = &device;
    if (device.capabilities().timestamp_valid_bits == 0) return queries;
    const VkQueryPoolCreateInfo info{
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = count};
    VkQueryPool pool = VK_NULL_HANDLE;
    if (const VkResult r = device.vk().vkCreateQueryPool(device.handle(), &info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateQueryPool", "preparing timestamps");
    queries.pool_ = UniqueQueryPool(device.vk(), device.handle(), pool);
    return queries;
}

void TimestampQueries::record_reset(VkCommandBuffer commands, std::uint32_t first, std::uint32_t count) const {
    device_->vk().vkCmdResetQueryPool(commands, pool_.get(), first, count);
}

void TimestampQueries::record(VkCommandBuffer commands, std::uint32_t query) const {
    device_->vk().vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool_.get(), query);
}

Result<std::optional<std::vector<double>>> TimestampQueries::intervals_ns(std::uint32_t first, std::uint32_t count,
                                                                          std::uint32_t stride) const {
    const Capabilities& c = device_->capabilities();
    const std::uint64_t mask =
        c.timestamp_valid_bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << c.timestamp_valid_bits) - 1;
    std::vector<double> intervals;
    std::uint64_t before = 0;
    for (std::uint32_t i = 0; i <= count; ++i) {
        std::uint64_t ticks = 0;
        const VkResult r =
            device_->vk().vkGetQueryPoolResults(device_->handle(), pool_.get(), first + i * stride, 1, sizeof ticks,
                                                &ticks, sizeof ticks, VK_QUERY_RESULT_64_BIT);
        if (r == VK_NOT_READY) return std::optional<std::vector<double>>();
        if (r != VK_SUCCESS) return device_->error_of(r, "vkGetQueryPoolResults", "reading timestamps");
        if (i > 0)
            intervals.push_back(static_cast<double>((ticks - before) & mask) *
                                static_cast<double>(c.timestamp_period_ns));
        before = ticks;
    }
    return std::optional(std::move(intervals));
}

}  // namespace vkformer::vulkan
