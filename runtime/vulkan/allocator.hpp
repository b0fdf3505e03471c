// SPDX-License-Identifier: MIT
/// Device memory: from the driver or from the application's own allocator, under a budget.
#pragma once

#include <vulkan/vulkan.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "vkformer/result.hpp"

namespace vkformer::vulkan {

class Device;

/// A range of a VkDeviceMemory.
struct MemoryRange {
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkDeviceSize offset = 0;      ///< bytes
    std::byte* mapped = nullptr;  ///< where the host sees it, if it was to be mapped
    void* handle = nullptr;       ///< the application's
};

struct MemoryRequest {
    VkMemoryRequirements requirements{};
    std::uint32_t memory_type = 0;
    VkMemoryPropertyFlags required_flags = 0;
    bool is_mapped = false;
    const char* label = "";
    bool is_counted = true;  ///< towards the budget, which is the device's own memory's
};

/// An application's allocator; both or none. Called by several threads at once.
struct MemoryCallbacks {
    std::function<VkResult(const MemoryRequest&, MemoryRange&)> allocate;
    std::function<void(const MemoryRange&)> free;
};

/// What memory is to be shared with: other APIs or processes import it.
struct MemoryExport {
    VkExternalMemoryHandleTypeFlags handle_types = 0;  ///< 0: nothing
};

/// Gives out memory and counts it. Thread-safe. Outlives what it gave out.
class Allocator {
public:
    /// `limit_bytes` 0: no limit but the driver's.
    Allocator(const Device& device, std::uint64_t limit_bytes, MemoryCallbacks callbacks, const MemoryExport& exported)
        : device_(&device), limit_(limit_bytes), callbacks_(std::move(callbacks)), export_(exported) {}

    /// Errors: OutOfDeviceMemory (the budget would be exceeded: the message has the numbers), and those of vkAllocateMemory.
    Result<MemoryRange> allocate(const MemoryRequest& request);
    void free(const MemoryRange& range, VkDeviceSize bytes) noexcept;

    /// Whether so much more fits now. Errors: OutOfDeviceMemory, with the numbers.
    Result<void> check(std::uint64_t bytes, const std::string& label) const;

    /// Buffers for the memory are to be made for these handle types.
    VkExternalMemoryHandleTypeFlags export_types() const noexcept { return export_.handle_types; }
    std::uint64_t used() const;
    std::uint64_t peak() const;
    /// Bytes that may be in use now: the limit, or what VK_EXT_memory_budget leaves if that is less. None where neither is known.
    std::optional<std::uint64_t> budget() const;

private:
    Result<MemoryRange> from_driver(const MemoryRequest& request) const;

    const Device* device_;
    std::uint64_t limit_;
    MemoryCallbacks callbacks_;
    MemoryExport export_;
    mutable std::mutex mutex_;
    std::uint64_t used_ = 0, peak_ = 0;
};

/// Owns a range.
class Memory {
public:
    Memory() = default;
    Memory(Allocator& allocator, const MemoryRange& range, VkDeviceSize bytes) noexcept
        : allocator_(&allocator), range_(range), bytes_(bytes) {}
    Memory(Memory&& other) noexcept
        : allocator_(std::exchange(other.allocator_, nullptr)), range_(other.range_), bytes_(other.bytes_) {}
    Memory& operator=(Memory&& other) noexcept {
        std::swap(allocator_, other.allocator_);
        std::swap(range_, other.range_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Memory() {
        if (allocator_) allocator_->free(range_, bytes_);
    }
    const MemoryRange& range() const noexcept { return range_; }

private:
    Allocator* allocator_ = nullptr;
    MemoryRange range_;
    VkDeviceSize bytes_ = 0;
};

}  // namespace vkformer::vulkan
