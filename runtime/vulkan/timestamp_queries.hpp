// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vulkan/device.hpp"

namespace vkformer::vulkan {

/// A pool of timestamps, and what lies between them. Empty where the queue has none.
class TimestampQueries {
public:
    TimestampQueries() = default;
    /// The device must outlive it. Errors: Vulkan.
    static Result<TimestampQueries> create(const Device& device, std::uint32_t count);

    explicit operator bool() const noexcept { return pool_.get() != VK_NULL_HANDLE; }
    VkQueryPool pool() const noexcept { return pool_.get(); }
    void record_reset(VkCommandBuffer commands, std::uint32_t first, std::uint32_t count) const;
    /// When everything before it is done.
    void record(VkCommandBuffer commands, std::uint32_t query) const;
    /// Nanoseconds between `first`, `first` + `stride`, …: `count` of them. Nothing where one was not taken yet. Errors: DeviceLost, Vulkan.
    Result<std::optional<std::vector<double>>> intervals_ns(std::uint32_t first, std::uint32_t count,
                                                            std::uint32_t stride = 1) const;

private:
    const Device* device_ = nullptr;
    UniqueQueryPool pool_;
};

}  // namespace vkformer::vulkan
