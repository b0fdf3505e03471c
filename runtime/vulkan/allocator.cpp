// SPDX-License-Identifier: MIT
#include "vulkan/allocator.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "vulkan/device.hpp"

namespace vkformer::vulkan {
namespace {

std::string mebibytes(std::uint64_t bytes) {
    const std::uint64_t tenths = (bytes * 10 + (1u << 19)) >> 20;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

/// What may be in use where `used` bytes are.
std::optional<std::uint64_t> budget_beside(std::uint64_t used, std::uint64_t limit, const Device& device) {
    std::optional<std::uint64_t> most;
    if (limit > 0) most = limit;
    if (const auto left = device.free_bytes()) {
        const std::uint64_t all = used + *left;
        most = std::min(most.value_or(all), all);
    }
    return most;
}

Result<void> check_beside(std::uint64_t used, std::uint64_t limit, const Device& device, std::uint64_t bytes,
                          const std::string& label) {
    const auto most = budget_beside(used, limit, device);
    if (!most || (used <= *most && bytes <= *most - used)) return {};
    const bool is_own = *most == limit;
    return Error{ErrorCode::OutOfDeviceMemory,
                 label + " needs " + mebibytes(bytes) + " of device memory; " + mebibytes(used) + " are in use and " +
                     (is_own ? "the budget is " + mebibytes(limit)
                             : "the driver leaves " + mebibytes(*most - std::min(used, *most))) +
                     ". Raise the budget, free other memory, take smaller weights (float16, quantised) or a shorter "
                     "context, or offload weights to the host's memory"};
}

Result<MemoryRange> from_application(const MemoryCallbacks& callbacks, const MemoryRequest& request) {
    MemoryRange range;
    if (const VkResult r = callbacks.allocate(request, range); r != VK_SUCCESS)
        return vulkan_error(r, "the application's allocator",
                            "allocating " + mebibytes(request.requirements.size) + " for " + request.label);
    const bool is_usable =
        range.memory && range.offset % request.requirements.alignment == 0 && (range.mapped || !request.is_mapped);
    if (is_usable) return range;
    callbacks.free(range);
    return Error{ErrorCode::InvalidArgument, std::string("the application's allocator gave no usable memory for ") +
                                                 request.label + ": it must be aligned and, where asked for, mapped"};
}

}  // namespace

std::uint64_t Allocator::used() const {
    const std::lock_guard lock(mutex_);
    return used_;
}

std::uint64_t Allocator::peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
}

std::optional<std::uint64_t> Allocator::budget() const { return budget_beside(used(), limit_, *device_); }

Result<void> Allocator::check(std::uint64_t bytes, const std::string& label) const {
    return check_beside(used(), limit_, *device_, bytes, label);
}

Result<MemoryRange> Allocator::from_driver(const MemoryRequest& request) const {
    const DeviceTable& vk = device_->vk();
    const VkExportMemoryAllocateInfo exported{.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                              .handleTypes = export_.handle_types};
    const VkMemoryAllocateFlagsInfo addressed{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                              .pNext = export_.handle_types ? &exported : nullptr,
                                              .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const bool has_addresses = device_->capabilities().buffer_addresses;
    const VkMemoryAllocateInfo info{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                    .pNext = has_addresses ? &addressed : addressed.pNext,
                                    .allocationSize = request.requirements.size,
                                    .memoryTypeIndex = request.memory_type};
    MemoryRange range;
    if (const VkResult r = vk.vkAllocateMemory(device_->handle(), &info, nullptr, &range.memory); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateMemory",
                            "allocating " + mebibytes(request.requirements.size) + " for " + request.label);
    device_->set_name(VK_OBJECT_TYPE_DEVICE_MEMORY, range.memory, request.label);
    if (!request.is_mapped) return range;
    void* address = nullptr;
    if (const VkResult r = vk.vkMapMemory(device_->handle(), range.memory, 0, VK_WHOLE_SIZE, 0, &address);
        r != VK_SUCCESS) {
        vk.vkFreeMemory(device_->handle(), range.memory, nullptr);
        return vulkan_error(r, "vkMapMemory", std::string("making ") + request.label);
    }
    range.mapped = static_cast<std::byte*>(address);
    return range;
}

Result<MemoryRange> Allocator::allocate(const MemoryRequest& request) {
    const VkDeviceSize bytes = request.is_counted ? request.requirements.size : 0;
    if (request.is_counted) {
        const std::lock_guard lock(mutex_);
        VKFORMER_CHECK(check_beside(used_, limit_, *device_, bytes, request.label));
        used_ += bytes;  // from here on it counts for other threads
    }
    // Without the lock: an application's allocator may take its time, and may ask how much is in use.
    auto range = callbacks_.allocate ? from_application(callbacks_, request) : from_driver(request);
    const std::lock_guard lock(mutex_);
    if (range)
        peak_ = std::max(peak_, used_);
    else
        used_ -= bytes;
    return range;
}

void Allocator::free(const MemoryRange& range, VkDeviceSize bytes) noexcept {
    if (callbacks_.free)
        callbacks_.free(range);
    else
        device_->vk().vkFreeMemory(device_->handle(), range.memory, nullptr);
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
}

}  // namespace vkformer::vulkan
