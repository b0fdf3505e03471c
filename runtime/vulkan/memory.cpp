// SPDX-License-Identifier: MIT
#include "vulkan/memory.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>

#include "core/ceil_div.hpp"
#include "core/try.hpp"

namespace vkformer::vulkan {
namespace {

constexpr VkDeviceSize kStagingBytes = 4 << 20;  // a copy of 4 MiB takes well under a millisecond on any bus
constexpr VkDeviceSize kBlockBytes = 256 << 20;  // blocks are not larger, so that a fragmented heap still serves them

constexpr VkBufferUsageFlags kUsage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
constexpr VkBufferUsageFlags kAddressedUsage = kUsage | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kMapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

/// The first memory type allowed by `type_bits` with the flags of the first preference that any type has, and none of `unwanted`.
std::optional<std::uint32_t> find_memory_type(const VkPhysicalDeviceMemoryProperties& memory, std::uint32_t type_bits,
                                              std::initializer_list<VkMemoryPropertyFlags> preferences,
                                              VkMemoryPropertyFlags unwanted = 0) {
    for (const VkMemoryPropertyFlags wanted : preferences)
        for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i)
            if ((type_bits & (1u << i)) && (memory.memoryTypes[i].propertyFlags & (wanted | unwanted)) == wanted)
                return i;
    return std::nullopt;
}

/// Where Buffer::Use has its memory.
std::optional<std::uint32_t> memory_type_for(Buffer::Use use, const Device& device, std::uint32_t type_bits) {
    const VkPhysicalDeviceMemoryProperties& memory = device.memory_properties();
    if (use == Buffer::Use::staging) return find_memory_type(memory, type_bits, {kMapped | kCached, kMapped});
    if (use == Buffer::Use::host_tensors) return find_memory_type(memory, type_bits, {kMapped}, kLocal);
    if (device.capabilities().unified_memory)
        return find_memory_type(memory, type_bits, {kLocal | kMapped | kCached, kLocal | kMapped});
    return find_memory_type(memory, type_bits, {kLocal, 0});
}

}  // namespace

Result<Buffer> Buffer::create(const Device& device, VkDeviceSize bytes, Use use, const std::string& label) {
    const Capabilities& c = device.capabilities();
    if (bytes > c.max_allocation_bytes)
        return Error{ErrorCode::MissingFeature, label + " needs " + std::to_string(bytes) +
                                                    " bytes in one piece; device \"" + c.name + "\" allows " +
                                                    std::to_string(c.max_allocation_bytes)};
    const DeviceTable& vk = device.vk();
    Buffer result;
    result.bytes_ = bytes;
    const VkExternalMemoryBufferCreateInfo external{.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                    .handleTypes = device.allocator().export_types()};
    const VkBufferCreateInfo info{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                  .pNext = external.handleTypes ? &external : nullptr,
                                  .size = bytes,
                                  .usage = c.buffer_addresses ? kAddressedUsage : kUsage,
                                  .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    VkBuffer buffer = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateBuffer(device.handle(), &info, nullptr, &buffer); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateBuffer", "making " + label);
    result.buffer_ = UniqueBuffer(vk, device.handle(), buffer);
    device.set_name(VK_OBJECT_TYPE_BUFFER, buffer, label);

    VkMemoryRequirements requirements{};
    vk.vkGetBufferMemoryRequirements(device.handle(), buffer, &requirements);
    if (use == Use::host_tensors)  // an application's allocator takes any that is left
        for (std::uint32_t i = 0; i < device.memory_properties().memoryTypeCount; ++i)
            if (device.memory_properties().memoryTypes[i].propertyFlags & kLocal)
                requirements.memoryTypeBits &= ~(1u << i);
    const bool mapped = use != Use::tensors || c.unified_memory;
    const auto type = memory_type_for(use, device, requirements.memoryTypeBits);
    if (!type) return Error{ErrorCode::MissingFeature, "device \"" + c.name + "\" has no memory type for " + label};
    const bool is_counted = (device.memory_properties().memoryTypes[*type].propertyFlags & kLocal) != 0;
    const MemoryRequest request{.requirements = requirements,
                                .memory_type = *type,
                                .required_flags = mapped ? kMapped : 0,
                                .is_mapped = mapped,
                                .label = label.c_str(),
                                .is_counted = is_counted};
    VKFORMER_TRY(const MemoryRange range, device.allocator().allocate(request));
    result.memory_ = Memory(device.allocator(), range, is_counted ? requirements.size : 0);
    if (const VkResult r = vk.vkBindBufferMemory(device.handle(), buffer, range.memory, range.offset); r != VK_SUCCESS)
        return vulkan_error(r, "vkBindBufferMemory", "making " + label);
    result.mapped_ = range.mapped;
    if (c.buffer_addresses) {
        const VkBufferDeviceAddressInfo address_info{.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                                     .buffer = buffer};
        result.address_ = vk.vkGetBufferDeviceAddress(device.handle(), &address_info);
    }
    return result;
}

namespace {

/// Where requests lie in blocks.
struct BlockLayout {
    struct Place {
        std::size_t block;
        VkDeviceSize offset;
    };
    std::vector<Place> places;
    std::vector<VkDeviceSize> block_bytes;
};

Result<BlockLayout> lay_out(const Device& device, std::span<const MemoryBlocks::Request> requests, bool guards) {
    const Capabilities& c = device.capabilities();
    const VkDeviceSize guard = guards ? kGuardBytes : 0;
    const VkDeviceSize alignment = slice_alignment(device);
    BlockLayout layout;
    auto& blocks = layout.block_bytes;
    for (const MemoryBlocks::Request& request : requests) {
        if (request.is_bound && request.bytes > c.max_storage_buffer_range)
            return Error{ErrorCode::MissingFeature, request.label + " has " + std::to_string(request.bytes) +
                                                        " bytes; device \"" + c.name + "\" binds at most " +
                                                        std::to_string(c.max_storage_buffer_range) +
                                                        " (maxStorageBufferRange)"};
        VkDeviceSize offset = blocks.empty() ? guard : round_up(blocks.back() + guard, alignment);
        if (blocks.empty() || offset + request.bytes + guard > std::min(kBlockBytes, c.max_allocation_bytes)) {
            blocks.push_back(0);
            offset = round_up(guard, alignment);
        }
        layout.places.push_back({blocks.size() - 1, offset});
        blocks.back() = round_up(offset + request.bytes + guard, 4);
    }
    return layout;
}

}  // namespace

Result<MemoryBlocks> MemoryBlocks::create(const Device& device, std::span<const Request> requests, bool guards,
                                          const std::string& label, Buffer::Use use) {
    VKFORMER_TRY(const BlockLayout layout, lay_out(device, requests, guards));
    MemoryBlocks result;
    for (const VkDeviceSize bytes : layout.block_bytes) {
        VKFORMER_TRY(result.buffers_.emplace_back(), Buffer::create(device, bytes, use, label));
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto [block, offset] = layout.places[i];
        const Buffer& buffer = result.buffers_[block];
        std::byte* const mapped = buffer.mapped() ? buffer.mapped() + offset : nullptr;
        const VkDeviceAddress address = buffer.address() ? buffer.address() + offset : 0;
        result.slices_.push_back({buffer.handle(), offset, requests[i].bytes, mapped, buffer.memory().memory,
                                  buffer.memory().offset, address});
    }
    return result;
}

Result<VkDeviceSize> MemoryBlocks::bytes_for(const Device& device, std::span<const Request> requests, bool guards) {
    VKFORMER_TRY(const BlockLayout layout, lay_out(device, requests, guards));
    return std::accumulate(layout.block_bytes.begin(), layout.block_bytes.end(), VkDeviceSize{0});
}

VkDeviceSize MemoryBlocks::total_bytes() const noexcept {
    VkDeviceSize total = 0;
    for (const Buffer& buffer : buffers_) total += buffer.bytes();
    return total;
}

bool has_host_memory(const Device& device) noexcept {
    return memory_type_for(Buffer::Use::host_tensors, device, ~0u).has_value();
}

VkDeviceSize largest_local_heap(const Device& device) noexcept {
    VkDeviceSize largest = 0;
    const VkPhysicalDeviceMemoryProperties& memory = device.memory_properties();
    for (const VkMemoryHeap& heap : std::span(memory.memoryHeaps).first(memory.memoryHeapCount))
        if (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) largest = std::max(largest, heap.size);
    return largest;
}

VkDeviceSize slice_alignment(const Device& device) {
    return std::max<VkDeviceSize>(device.capabilities().storage_buffer_alignment, 16);
}

namespace {

constexpr VkExternalMemoryHandleTypeFlagBits kHostMemory = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;

VkDeviceMemory import_pages(const Device& device, void* pages, VkDeviceSize bytes, std::uint32_t buffer_types) {
    const DeviceTable& vk = device.vk();
    VkMemoryHostPointerPropertiesEXT properties{.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    if (vk.vkGetMemoryHostPointerPropertiesEXT(device.handle(), kHostMemory, pages, &properties) != VK_SUCCESS)
        return VK_NULL_HANDLE;
    const auto type = find_memory_type(device.memory_properties(), properties.memoryTypeBits & buffer_types, {0});
    if (!type) return VK_NULL_HANDLE;
    const VkImportMemoryHostPointerInfoEXT imported{.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                                    .handleType = kHostMemory,
                                                    .pHostPointer = pages};
    const VkMemoryAllocateFlagsInfo addressed{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                              .pNext = &imported,
                                              .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const bool has_addresses = device.capabilities().buffer_addresses;
    const VkMemoryAllocateInfo info{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                    .pNext = has_addresses ? static_cast<const void*>(&addressed) : &imported,
                                    .allocationSize = bytes,
                                    .memoryTypeIndex = *type};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    return vk.vkAllocateMemory(device.handle(), &info, nullptr, &memory) == VK_SUCCESS ? memory : VK_NULL_HANDLE;
}

}  // namespace

std::optional<HostBuffer> HostBuffer::import(const Device& device, std::span<const std::byte> bytes,
                                             const std::string& label) {
    const Capabilities& c = device.capabilities();
    const DeviceTable& vk = device.vk();
    if (c.host_memory_alignment == 0 || !vk.vkGetMemoryHostPointerPropertiesEXT) return std::nullopt;
    const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
    const std::uintptr_t begin = first / c.host_memory_alignment * c.host_memory_alignment;
    const VkDeviceSize size = round_up(first - begin + bytes.size(), c.host_memory_alignment);
    HostBuffer result;
    result.begin_ = bytes.data() - (first - begin);
    const VkExternalMemoryBufferCreateInfo external{.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                    .handleTypes = kHostMemory};
    const VkBufferCreateInfo info{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                  .pNext = &external,
                                  .size = size,
                                  .usage = c.buffer_addresses ? kAddressedUsage : kUsage,
                                  .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    VkBuffer buffer = VK_NULL_HANDLE;
    if (vk.vkCreateBuffer(device.handle(), &info, nullptr, &buffer) != VK_SUCCESS) return std::nullopt;
    result.buffer_ = UniqueBuffer(vk, device.handle(), buffer);
    device.set_name(VK_OBJECT_TYPE_BUFFER, buffer, label);
    VkMemoryRequirements requirements{};
    vk.vkGetBufferMemoryRequirements(device.handle(), buffer, &requirements);
    if (requirements.size > size) return std::nullopt;
    const VkDeviceMemory memory =
        import_pages(device, const_cast<std::byte*>(result.begin_), size, requirements.memoryTypeBits);
    if (!memory) return std::nullopt;
    result.memory_ = UniqueDeviceMemory(vk, device.handle(), memory);
    if (vk.vkBindBufferMemory(device.handle(), buffer, memory, 0) != VK_SUCCESS) return std::nullopt;
    if (c.buffer_addresses) {
        const VkBufferDeviceAddressInfo address_info{.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                                     .buffer = buffer};
        result.address_ = vk.vkGetBufferDeviceAddress(device.handle(), &address_info);
    }
    return result;
}

Slice HostBuffer::slice(std::span<const std::byte> part) const {
    const auto offset = static_cast<VkDeviceSize>(part.data() - begin_);
    return {.buffer = buffer_.get(),
            .offset = offset,
            .bytes = part.size(),
            .mapped = const_cast<std::byte*>(part.data()),
            .memory = memory_.get(),
            .address = address_ ? address_ + offset : 0};
}

void Transfer::trim() { staging_ = Buffer(); }

Result<void> Transfer::prepare_commands() {
    const Device& device = *device_;
    if (commands_) return {};
    if (!device.can_submit())
        return Error{ErrorCode::MissingFeature,
                     "device \"" + device.capabilities().name +
                         "\" was adopted without a queue and its memory is not visible to the "
                         "host; pass a queue so that weights and inputs can be copied"};
    const VkCommandPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                            .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                            .queueFamilyIndex = device.queue_family()};
    VkCommandPool pool = VK_NULL_HANDLE;
    if (const VkResult r = device.vk().vkCreateCommandPool(device.handle(), &pool_info, nullptr, &pool);
        r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateCommandPool", "preparing copies");
    pool_ = UniqueCommandPool(device.vk(), device.handle(), pool);
    device.set_name(VK_OBJECT_TYPE_COMMAND_POOL, pool, "vkformer transfer");
    const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = pool,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = 1};
    if (const VkResult r = device.vk().vkAllocateCommandBuffers(device.handle(), &info, &commands_); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateCommandBuffers", "preparing copies");
    return {};
}

Result<void> Transfer::prepare() {
    VKFORMER_CHECK(prepare_commands());
    if (staging_.handle()) return {};
    const VkDeviceSize size = std::min<VkDeviceSize>(kStagingBytes, device_->capabilities().max_allocation_bytes);
    VKFORMER_TRY(staging_, Buffer::create(*device_, size, Buffer::Use::staging, "vkformer staging"));
    return {};
}

Result<void> Transfer::run(auto&& record) {
    const DeviceTable& vk = device_->vk();
    const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    if (const VkResult r = vk.vkBeginCommandBuffer(commands_, &begin); r != VK_SUCCESS)
        return vulkan_error(r, "vkBeginCommandBuffer", "copying");
    // Against what ran before on the queue, and for what the host or a later submission does next.
    const VkMemoryBarrier before{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                 .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                                 .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                            VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &before, 0, nullptr, 0, nullptr);
    record();
    const VkMemoryBarrier after{
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT,
                            VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &after, 0, nullptr,
                            0, nullptr);
    if (const VkResult r = vk.vkEndCommandBuffer(commands_); r != VK_SUCCESS)
        return vulkan_error(r, "vkEndCommandBuffer", "copying");
    VKFORMER_TRY(const std::uint64_t value, device_->submit({&commands_, 1}));
    auto done = device_->wait(value);
    if (!done) device_->drain(value);
    return done;
}

Result<void> Transfer::upload(const Slice& slice, VkDeviceSize offset, std::span<const std::byte> bytes) {
    assert(offset + bytes.size() <= slice.bytes);
    if (bytes.empty()) return {};  // whose null pointer memcpy must not be given: bf16 has no scales
    if (slice.mapped) {
        std::memcpy(slice.mapped + offset, bytes.data(), bytes.size());
        return {};
    }
    const std::lock_guard lock(mutex_);
    VKFORMER_CHECK(prepare());
    for (std::size_t done = 0; done < bytes.size();) {
        const std::size_t count = std::min<std::size_t>(staging_.bytes(), bytes.size() - done);
        std::memcpy(staging_.mapped(), bytes.data() + done, count);
        const VkBufferCopy region{.srcOffset = 0, .dstOffset = slice.offset + offset + done, .size = count};
        VKFORMER_CHECK(
            run([&] { device_->vk().vkCmdCopyBuffer(commands_, staging_.handle(), slice.buffer, 1, &region); }));
        done += count;
    }
    return {};
}

Result<void> Transfer::clear(const Slice& slice) {
    const VkDeviceSize bytes = slice.bytes / 4 * 4;
    if (slice.mapped) {
        std::memset(slice.mapped, 0, bytes);
        return {};
    }
    const std::lock_guard lock(mutex_);
    VKFORMER_CHECK(prepare_commands());
    return run([&] { device_->vk().vkCmdFillBuffer(commands_, slice.buffer, slice.offset, bytes, 0); });
}

Result<void> Transfer::download(const Slice& slice, VkDeviceSize offset, std::span<std::byte> bytes) {
    assert(offset + bytes.size() <= slice.bytes);
    if (bytes.empty()) return {};
    if (slice.mapped) {
        std::memcpy(bytes.data(), slice.mapped + offset, bytes.size());
        return {};
    }
    const std::lock_guard lock(mutex_);
    VKFORMER_CHECK(prepare());
    for (std::size_t done = 0; done < bytes.size();) {
        const std::size_t count = std::min<std::size_t>(staging_.bytes(), bytes.size() - done);
        const VkBufferCopy region{.srcOffset = slice.offset + offset + done, .dstOffset = 0, .size = count};
        VKFORMER_CHECK(
            run([&] { device_->vk().vkCmdCopyBuffer(commands_, slice.buffer, staging_.handle(), 1, &region); }));
        std::memcpy(bytes.data() + done, staging_.mapped(), count);
        done += count;
    }
    return {};
}

double Transfer::read_speed(const Slice& slice) {
    constexpr VkDeviceSize kMostBytes = 32 << 20;  // some milliseconds, beside which a submission is nothing
    const std::lock_guard lock(mutex_);
    const VkBufferCopy region{.srcOffset = slice.offset, .dstOffset = 0, .size = std::min(kMostBytes, slice.bytes)};
    if (!device_->can_submit() || !prepare_commands()) return 0;
    const auto target = Buffer::create(*device_, region.size, Buffer::Use::tensors, "vkformer bus speed");
    if (!target) return 0;
    double seconds = 0;
    for (int i = 0; i < 2; ++i) {  // the first time pages are mapped
        const auto begin = std::chrono::steady_clock::now();
        if (!run([&] { device_->vk().vkCmdCopyBuffer(commands_, slice.buffer, target->handle(), 1, &region); }))
            return 0;
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    return static_cast<double>(region.size) / seconds;
}

}  // namespace vkformer::vulkan
