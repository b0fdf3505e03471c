// SPDX-License-Identifier: MIT
/// Device memory: blocks that hold many tensors, and the ways between them and the host.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vulkan/device.hpp"

namespace vkformer::vulkan {

/// A range of a buffer. Borrowed: it is valid while its MemoryBlocks live. `mapped` is null without unified memory.
struct Slice {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceSize offset = 0;  ///< bytes, a multiple of minStorageBufferOffsetAlignment
    VkDeviceSize bytes = 0;
    std::byte* mapped = nullptr;             ///< where the host sees the slice
    VkDeviceMemory memory = VK_NULL_HANDLE;  ///< the buffer's; null for a caller's
    VkDeviceSize memory_offset = 0;          ///< bytes, of the buffer's beginning there
    VkDeviceAddress address = 0;  ///< of the slice; 0 without Capabilities::buffer_addresses, and of a caller's
};

/// One VkBuffer with memory of its own, mapped where the host can see it.
class Buffer {
public:
    enum class Use : std::uint8_t {
        tensors,       ///< device-local; host-visible too on unified memory
        staging,       ///< host-visible, for copies
        host_tensors,  ///< host-visible, not device-local: the device reads it over its bus; no part of the budget
    };
    /// Errors: OutOfDeviceMemory, OutOfHostMemory, MissingFeature (larger than the device allows), Vulkan.
    static Result<Buffer> create(const Device& device, VkDeviceSize bytes, Use use, const std::string& label);

    VkBuffer handle() const noexcept { return buffer_.get(); }
    VkDeviceSize bytes() const noexcept { return bytes_; }
    std::byte* mapped() const noexcept { return mapped_; }
    const MemoryRange& memory() const noexcept { return memory_.range(); }
    /// 0 without Capabilities::buffer_addresses.
    VkDeviceAddress address() const noexcept { return address_; }

private:
    Memory memory_;
    UniqueBuffer buffer_;
    VkDeviceSize bytes_ = 0;
    std::byte* mapped_ = nullptr;
    VkDeviceAddress address_ = 0;
};

/// Guard bands: on request every slice has this many bytes of a known pattern before and behind it (tests).
inline constexpr VkDeviceSize kGuardBytes = 256;

/// Some slices allocated together, in as few blocks as the device's limits allow.
class MemoryBlocks {
public:
    struct Request {
        VkDeviceSize bytes = 0;
        std::string label;     ///< in messages and captures
        bool is_bound = true;  ///< as a whole; else only slices of it are, which the device's binding limit is for
    };
    /// Slices in the order of the requests. Errors: as Buffer::create.
    static Result<MemoryBlocks> create(const Device& device, std::span<const Request> requests, bool guards,
                                       const std::string& label, Buffer::Use use = Buffer::Use::tensors);
    /// Bytes of the blocks that create() would make. Errors: MissingFeature (a request is larger than the device allows).
    static Result<VkDeviceSize> bytes_for(const Device& device, std::span<const Request> requests, bool guards);
    std::span<const Slice> slices() const noexcept { return slices_; }
    VkDeviceSize total_bytes() const noexcept;

private:
    std::vector<Buffer> buffers_;
    std::vector<Slice> slices_;
};

/// Memory of the host that the device reads in place, as one buffer. Borrowed: it must outlive this and must not change meanwhile.
class HostBuffer {
public:
    /// `bytes` with the rest of the pages that they touch. Nothing where the device takes no such memory: copy it then.
    static std::optional<HostBuffer> import(const Device& device, std::span<const std::byte> bytes,
                                            const std::string& label);
    /// A part of what was imported, which begins at a multiple of slice_alignment().
    Slice slice(std::span<const std::byte> part) const;

private:
    UniqueDeviceMemory memory_;
    UniqueBuffer buffer_;
    const std::byte* begin_ = nullptr;
    VkDeviceAddress address_ = 0;
};

/// What the beginning of every slice is a multiple of, in bytes: what the device asks for, and what vector loads do.
VkDeviceSize slice_alignment(const Device& device);

/// Whether the device reads memory that is the host's alone: without it nothing can be offloaded.
bool has_host_memory(const Device& device) noexcept;
/// Bytes of the largest heap of the device's own memory.
VkDeviceSize largest_local_heap(const Device& device) noexcept;

/// Copies between host and slices, through a staging buffer where the host cannot see the slice. Each call submits and
/// waits. Thread-safe: one copy at a time. Belongs to a Device. Errors: MissingFeature (staging on a device that cannot submit),
/// DeviceLost, Vulkan.
class Transfer {
public:
    explicit Transfer(Device& device) : device_(&device) {}
    Result<void> upload(const Slice& slice, VkDeviceSize offset, std::span<const std::byte> bytes);
    /// Zeros, as many bytes as the slice has rounded down to whole words. Without staging.
    Result<void> clear(const Slice& slice);
    Result<void> download(const Slice& slice, VkDeviceSize offset, std::span<std::byte> bytes);
    /// How fast the device reads the slice, in bytes per second: some of it is copied to the device's own memory. 0: it cannot be told.
    double read_speed(const Slice& slice);
    /// Gives the staging buffer back; the next copy that needs one makes it anew. To be called while nothing is copied.
    void trim();

private:
    Result<void> prepare_commands();
    Result<void> prepare();
    Result<void> run(auto&& record);

    Device* device_;
    std::mutex mutex_;
    UniqueCommandPool pool_;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    Buffer staging_;
};

}  // namespace vkformer::vulkan
