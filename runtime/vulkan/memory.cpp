// SPDX-License-Identifier: MIT
#include "vulkan/memory.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>

#include "core/try.hpp"

namespace vkformer::vulkan {
namespace {

constexpr VkDeviceSize kStagingBytes = 4 << 20;  // a copy of 4 MiB takes well under a millisecond on any bus
constexpr VkDeviceSize kBlockBytes = 256 << 20;  // blocks are not larger, so that a fragmented heap still serves them

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kMapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

/// The first memory type allowed by `type_bits` with the flags of the first preference that any type has.
std::optional<std::uint32_t> find_memory_type(const VkPhysicalDeviceMemoryProperties& memory, std::uint32_t type_bits,
                                              std::initializer_list<VkMemoryPropertyFlags> preferences) {
    for (const VkMemoryPropertyFlags wanted : preferences)
        for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i)
            if ((type_bits & (1u << i)) && (memory.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
    return std::nullopt;
}

VkDeviceSize round_up(VkDeviceSize value, VkDeviceSize multiple) {
    return (value + multiple - 1) / multiple * multiple;
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
    const VkBufferCreateInfo info{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                  .size = bytes,
                                  .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                           VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                                  .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    VkBuffer buffer = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateBuffer(device.handle(), &info, nullptr, &buffer); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateBuffer", "making " + label);
    result.buffer_ = UniqueBuffer(vk, device.handle(), buffer);
    device.set_name(VK_OBJECT_TYPE_BUFFER, buffer, label);

    VkMemoryRequirements requirements{};
    vk.vkGetBufferMemoryRequirements(device.handle(), buffer, &requirements);
    const bool mapped = use == Use::staging || c.unified_memory;
    const auto type = use == Use::staging ? find_memory_type(device.memory_properties(), requirements.memoryTypeBits,
                                                             {kMapped | kCached, kMapped})
                      : mapped            ? find_memory_type(device.memory_properties(), requirements.memoryTypeBits,
                                                             {kLocal | kMapped | kCached, kLocal | kMapped})
                               : find_memory_type(device.memory_properties(), requirements.memoryTypeBits, {kLocal, 0});
    if (!type) return Error{ErrorCode::MissingFeature, "device \"" + c.name + "\" has no memory type for " + label};
    const VkMemoryAllocateInfo allocate{
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = requirements.size, .memoryTypeIndex = *type};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkAllocateMemory(device.handle(), &allocate, nullptr, &memory); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateMemory",
                            "allocating " + std::to_string(requirements.size) + " bytes for " + label);
    result.memory_ = UniqueMemory(vk, device.handle(), memory);
    device.set_name(VK_OBJECT_TYPE_DEVICE_MEMORY, memory, label);
    if (const VkResult r = vk.vkBindBufferMemory(device.handle(), buffer, memory, 0); r != VK_SUCCESS)
        return vulkan_error(r, "vkBindBufferMemory", "making " + label);
    if (mapped) {
        void* address = nullptr;
        if (const VkResult r = vk.vkMapMemory(device.handle(), memory, 0, VK_WHOLE_SIZE, 0, &address); r != VK_SUCCESS)
            return vulkan_error(r, "vkMapMemory", "making " + label);
        result.mapped_ = static_cast<std::byte*>(address);
    }
    return result;
}

Result<MemoryBlocks> MemoryBlocks::create(const Device& device, std::span<const Request> requests, bool guards,
                                          const std::string& label) {
    const VkDeviceSize guard = guards ? kGuardBytes : 0;
    const VkDeviceSize alignment = std::max<VkDeviceSize>(device.capabilities().storage_buffer_alignment, 16);
    struct Place {
        std::size_t block;
        VkDeviceSize offset;
    };
    std::vector<Place> places;
    std::vector<VkDeviceSize> block_bytes;
    for (const Request& request : requests) {
        if (request.bytes > device.capabilities().max_storage_buffer_range)
            return Error{ErrorCode::MissingFeature, request.label + " has " + std::to_string(request.bytes) +
                                                        " bytes; device \"" + device.capabilities().name +
                                                        "\" binds at most " +
                                                        std::to_string(device.capabilities().max_storage_buffer_range) +
                                                        " (maxStorageBufferRange)"};
        VkDeviceSize offset = block_bytes.empty() ? guard : round_up(block_bytes.back() + guard, alignment);
        if (block_bytes.empty() ||
            offset + request.bytes + guard > std::min(kBlockBytes, device.capabilities().max_allocation_bytes)) {
            block_bytes.push_back(0);
            offset = round_up(guard, alignment);
        }
        places.push_back({block_bytes.size() - 1, offset});
        block_bytes.back() = round_up(offset + request.bytes + guard, 4);
    }
    MemoryBlocks result;
    for (const VkDeviceSize bytes : block_bytes) {
        VKFORMER_TRY(result.buffers_.emplace_back(), Buffer::create(device, bytes, Buffer::Use::tensors, label));
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const Buffer& buffer = result.buffers_[places[i].block];
        std::byte* const mapped = buffer.mapped() ? buffer.mapped() + places[i].offset : nullptr;
        result.slices_.push_back({buffer.handle(), places[i].offset, requests[i].bytes, mapped});
    }
    return result;
}

VkDeviceSize MemoryBlocks::total_bytes() const noexcept {
    VkDeviceSize total = 0;
    for (const Buffer& buffer : buffers_) total += buffer.bytes();
    return total;
}

Result<Transfer> Transfer::create(std::shared_ptr<Device> device) {
    Transfer transfer;
    transfer.device_ = std::move(device);
    return transfer;
}

Result<void> Transfer::prepare() {
    if (commands_) return {};
    const Device& device = *device_;
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
    VKFORMER_TRY(staging_, Buffer::create(device, kStagingBytes, Buffer::Use::staging, "vkformer staging"));
    const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = pool,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = 1};
    if (const VkResult r = device.vk().vkAllocateCommandBuffers(device.handle(), &info, &commands_); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateCommandBuffers", "preparing copies");
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
    return device_->wait(value);
}

Result<void> Transfer::upload(const Slice& slice, VkDeviceSize offset, std::span<const std::byte> bytes) {
    assert(offset + bytes.size() <= slice.bytes);
    if (slice.mapped) {
        std::memcpy(slice.mapped + offset, bytes.data(), bytes.size());
        return {};
    }
    VKFORMER_CHECK(prepare());
    for (std::size_t done = 0; done < bytes.size();) {
        const std::size_t count = std::min<std::size_t>(kStagingBytes, bytes.size() - done);
        std::memcpy(staging_.mapped(), bytes.data() + done, count);
        const VkBufferCopy region{.srcOffset = 0, .dstOffset = slice.offset + offset + done, .size = count};
        VKFORMER_CHECK(
            run([&] { device_->vk().vkCmdCopyBuffer(commands_, staging_.handle(), slice.buffer, 1, &region); }));
        done += count;
    }
    return {};
}

Result<void> Transfer::download(const Slice& slice, VkDeviceSize offset, std::span<std::byte> bytes) {
    assert(offset + bytes.size() <= slice.bytes);
    if (slice.mapped) {
        std::memcpy(bytes.data(), slice.mapped + offset, bytes.size());
        return {};
    }
    VKFORMER_CHECK(prepare());
    for (std::size_t done = 0; done < bytes.size();) {
        const std::size_t count = std::min<std::size_t>(kStagingBytes, bytes.size() - done);
        const VkBufferCopy region{.srcOffset = slice.offset + offset + done, .dstOffset = 0, .size = count};
        VKFORMER_CHECK(
            run([&] { device_->vk().vkCmdCopyBuffer(commands_, slice.buffer, staging_.handle(), 1, &region); }));
        std::memcpy(bytes.data() + done, staging_.mapped(), count);
        done += count;
    }
    return {};
}

}  // namespace vkformer::vulkan
