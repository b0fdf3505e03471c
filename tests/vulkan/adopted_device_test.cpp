// SPDX-License-Identifier: MIT
// vkformer as a guest: the test is a host application that owns instance, device, queue and command buffer.
#include <array>
#include <cstring>

#include "models/marian_case.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {
namespace {

using vulkan::DeviceTable;
using vulkan::InstanceTable;

/// What a graphics application has: its own instance and device, a buffer that the host can read, a queue. It uses
/// vkformer's function tables for brevity, and nothing else of vkformer.
class HostApplication {
public:
    explicit HostApplication(std::uint32_t device_index) {
        get = must(vulkan::open_loader());
        const VkApplicationInfo application{
            .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "host", .apiVersion = VK_API_VERSION_1_2};
        const VkInstanceCreateInfo info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                        .pApplicationInfo = &application};
        const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
        REQUIRE(create(&info, nullptr, &instance) == VK_SUCCESS);
        ivk = must(vulkan::load_instance_table(get, instance));

        std::uint32_t count = 0;
        ivk.vkEnumeratePhysicalDevices(instance, &count, nullptr);
        std::vector<VkPhysicalDevice> devices(count);
        ivk.vkEnumeratePhysicalDevices(instance, &count, devices.data());
        physical = devices.at(device_index);

        VkPhysicalDeviceVulkan11Features supported{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
        VkPhysicalDeviceFeatures2 query{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &supported};
        ivk.vkGetPhysicalDeviceFeatures2(physical, &query);
        storage16 = supported.storageBuffer16BitAccess;
        VkPhysicalDeviceVulkan11Features enabled{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                                 .storageBuffer16BitAccess = storage16};
        const float priority = 1;
        const VkDeviceQueueCreateInfo queue_info{
            .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
        const VkDeviceCreateInfo device_info{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                             .pNext = &enabled,
                                             .queueCreateInfoCount = 1,
                                             .pQueueCreateInfos = &queue_info};
        REQUIRE(ivk.vkCreateDevice(physical, &device_info, nullptr, &device) == VK_SUCCESS);
        dvk = must(vulkan::load_device_table(ivk, device));
        dvk.vkGetDeviceQueue(device, 0, 0, &queue);

        const VkCommandPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
        REQUIRE(dvk.vkCreateCommandPool(device, &pool_info, nullptr, &pool) == VK_SUCCESS);
        const VkCommandBufferAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                   .commandPool = pool,
                                                   .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                   .commandBufferCount = 1};
        REQUIRE(dvk.vkAllocateCommandBuffers(device, &allocate, &commands) == VK_SUCCESS);
    }
    HostApplication(const HostApplication&) = delete;
    HostApplication& operator=(const HostApplication&) = delete;
    ~HostApplication() {
        dvk.vkDeviceWaitIdle(device);
        dvk.vkDestroyBuffer(device, buffer, nullptr);
        dvk.vkFreeMemory(device, memory, nullptr);
        dvk.vkDestroyCommandPool(device, pool, nullptr);
        dvk.vkDestroyDevice(device, nullptr);
        ivk.vkDestroyInstance(instance, nullptr);
    }

    void make_buffer(VkDeviceSize bytes) {
        const VkBufferCreateInfo info{
            .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = bytes, .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT};
        REQUIRE(dvk.vkCreateBuffer(device, &info, nullptr, &buffer) == VK_SUCCESS);
        VkMemoryRequirements requirements{};
        dvk.vkGetBufferMemoryRequirements(device, buffer, &requirements);
        VkPhysicalDeviceMemoryProperties properties{};
        ivk.vkGetPhysicalDeviceMemoryProperties(physical, &properties);
        constexpr VkMemoryPropertyFlags kHost =
            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
        std::uint32_t type = 0;
        while (!((requirements.memoryTypeBits >> type) & 1u) ||
               (properties.memoryTypes[type].propertyFlags & kHost) != kHost)
            ++type;
        const VkMemoryAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                            .allocationSize = requirements.size,
                                            .memoryTypeIndex = type};
        REQUIRE(dvk.vkAllocateMemory(device, &allocate, nullptr, &memory) == VK_SUCCESS);
        REQUIRE(dvk.vkBindBufferMemory(device, buffer, memory, 0) == VK_SUCCESS);
        void* address = nullptr;
        REQUIRE(dvk.vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &address) == VK_SUCCESS);
        mapped = static_cast<std::byte*>(address);
    }

    void submit_and_wait() {
        const VkSubmitInfo info{
            .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
        REQUIRE(dvk.vkQueueSubmit(queue, 1, &info, VK_NULL_HANDLE) == VK_SUCCESS);
        REQUIRE(dvk.vkDeviceWaitIdle(device) == VK_SUCCESS);
    }

    AdoptedDevice lend(bool with_queue = false) const {
        return {.get_instance_proc_addr = get,
                .instance = instance,
                .physical_device = physical,
                .device = device,
                .queue = with_queue ? queue : VK_NULL_HANDLE,
                .storage16 = storage16};
    }

    PFN_vkGetInstanceProcAddr get = nullptr;
    InstanceTable ivk;
    DeviceTable dvk;
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    std::byte* mapped = nullptr;
    bool storage16 = false;
};

std::vector<float> floats_at(const std::byte* bytes, std::size_t count) {
    std::vector<float> values(count);
    std::memcpy(values.data(), bytes, count * sizeof(float));
    return values;
}

TEST_CASE("a whole forward pass is recorded between a host application's own commands and submitted twice",
          "[vulkan][guest]") {
    for (const std::string& index : vulkan_device_indices()) {
        HostApplication host(static_cast<std::uint32_t>(std::stoul(index)));
        auto guest = must(vulkan::VulkanBackend::adopt(host.lend(), {.cache_folder = {}}));
        auto own = must(vulkan::VulkanBackend::create(index, {.cache_folder = {}}));
        CAPTURE(guest->name());
        if (!guest->capabilities().unified_memory) continue;  // without a queue, only mapped weights can be uploaded

        const models::Seq2Seq model = load_marian("swish_d64_h4_opus");
        const Golden golden("marian/swish_d64_h4_opus/golden.safetensors");
        const TokenBatch source = token_batch(golden, "input_ids", "attention_mask");
        TokenBatch target = token_batch(golden, "decoder_input_ids", "");
        const auto forward = must(model.forward({.batch = source.batch,
                                                 .source_len = source.len,
                                                 .target_len = target.len,
                                                 .source_mask = models::SourceMask::additive}));
        auto program =
            must(guest->compile_program(graph::make_plan(forward.graph), guest->make_store(), guest->make_store()));
        CHECK(program->submit().error().code == ErrorCode::MissingFeature);  // no queue was lent

        // Commands: the host clears its buffer, vkformer runs, the host copies the logits into its buffer.
        const vulkan::Slice logits = must(program->slice(forward.logits));
        host.make_buffer(logits.bytes + 16);
        const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
        REQUIRE(host.dvk.vkBeginCommandBuffer(host.commands, &begin) == VK_SUCCESS);
        host.dvk.vkCmdFillBuffer(host.commands, host.buffer, 0, VK_WHOLE_SIZE, 0x7FC00000u);
        program->record(host.commands);
        const VkMemoryBarrier barrier{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                      .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                      .dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT};
        host.dvk.vkCmdPipelineBarrier(host.commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0,
                                      1, &barrier, 0, nullptr, 0, nullptr);
        const VkBufferCopy copy{.srcOffset = logits.offset, .dstOffset = 0, .size = logits.bytes};
        host.dvk.vkCmdCopyBuffer(host.commands, logits.buffer, host.buffer, 1, &copy);
        REQUIRE(host.dvk.vkEndCommandBuffer(host.commands) == VK_SUCCESS);

        // Twice, with other tokens the second time: what changes lives in buffers, not in the recording.
        for (int round = 0; round < 2; ++round) {
            CAPTURE(round);
            if (round == 1) std::ranges::reverse(target.tokens);
            const std::vector<float> mask = source.additive();
            must(program->write(forward.source_tokens, std::span<const std::int32_t>(source.tokens)));
            must(program->write(forward.target_tokens, std::span<const std::int32_t>(target.tokens)));
            must(program->write(forward.source_mask, std::span<const float>(mask)));
            host.submit_and_wait();
            const std::vector<float> found = floats_at(host.mapped, logits.bytes / 4);

            const ForwardRun expected =
                run_forward(model, *own, source, target, {.source_mask = models::SourceMask::additive});
            std::vector<float> values(found.size());
            must(expected.program->read(expected.forward.logits, std::span<float>(values)));
            CHECK(found == values);                                          // bit for bit what the own device gives
            CHECK(std::isnan(floats_at(host.mapped + logits.bytes, 1)[0]));  // the host's own bytes are as it left them
        }
    }
}

TEST_CASE("an adopted device states what it has", "[vulkan][guest]") {
    REQUIRE_FALSE(vulkan::VulkanBackend::adopt({}));
    CHECK(vulkan::VulkanBackend::adopt({}).error().code == ErrorCode::InvalidArgument);
    for (const std::string& index : vulkan_device_indices()) {
        const HostApplication host(static_cast<std::uint32_t>(std::stoul(index)));
        const auto refused = vulkan::VulkanBackend::adopt(host.lend(true), {.cache_folder = {}});
        REQUIRE_FALSE(refused);  // a queue without timelineSemaphore
        CHECK(refused.error().message.find("timelineSemaphore") != std::string::npos);

        AdoptedDevice without = host.lend();
        without.storage16 = false;
        const auto guest = must(vulkan::VulkanBackend::adopt(without, {.cache_folder = {}}));
        CHECK_FALSE(guest->capabilities().storage16);  // what the hardware could do does not count
    }
}

}  // namespace
}  // namespace vkformer::tests
