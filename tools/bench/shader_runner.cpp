// SPDX-License-Identifier: MIT
#include "bench/shader_runner.hpp"

#include <algorithm>
#include <chrono>

#include "core/try.hpp"

namespace vkformer::bench {
namespace {

using namespace vulkan;

constexpr std::byte kGuardByte{0xA5};
constexpr std::uint32_t kPushBytes = 128;  // what every device has

Slice band(const Slice& slice, bool behind) {
    if (behind)
        return {slice.buffer, slice.offset + slice.bytes, kGuardBytes,
                slice.mapped ? slice.mapped + slice.bytes : nullptr};
    return {slice.buffer, slice.offset - kGuardBytes, kGuardBytes, slice.mapped ? slice.mapped - kGuardBytes : nullptr};
}

Result<void> check_limits(const Device& device, std::span<const BufferRequest> buffers) {
    const std::uint32_t most = device.capabilities().max_storage_buffers;
    if (buffers.size() > most)
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(buffers.size()) + " bindings; the device allows " + std::to_string(most)};
    for (const BufferRequest& buffer : buffers)
        if (buffer.bytes == 0 || buffer.bytes % 4 != 0)
            return Error{ErrorCode::InvalidArgument,
                         buffer.label + ": " + std::to_string(buffer.bytes) + " bytes, not a multiple of 4 above 0"};
    return {};
}

void barrier(const DeviceTable& vk, VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags source,
             VkPipelineStageFlags to, VkAccessFlags target) {
    const VkMemoryBarrier memory{
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = source, .dstAccessMask = target};
    vk.vkCmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

}  // namespace

Result<std::unique_ptr<ShaderRunner>> ShaderRunner::create(std::shared_ptr<Device> device, const ShaderCode& code,
                                                           std::span<const BufferRequest> buffers) {
    VKFORMER_CHECK(check_limits(*device, buffers));
    auto runner = std::unique_ptr<ShaderRunner>(new ShaderRunner(std::move(device)));
    VKFORMER_CHECK(runner->make_pipeline(code, buffers));
    VKFORMER_CHECK(runner->make_buffers(buffers));
    VKFORMER_CHECK(runner->make_commands());
    return runner;
}

ShaderRunner::~ShaderRunner() { (void)device_->wait(submitted_); }

Result<void> ShaderRunner::make_pipeline(const ShaderCode& code, std::span<const BufferRequest> buffers) {
    const DeviceTable& vk = device_->vk();
    const VkDevice device = device_->handle();
    std::vector<VkDescriptorSetLayoutBinding> bindings;
    for (const BufferRequest& buffer : buffers)
        bindings.push_back({.binding = buffer.binding,
                            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                            .descriptorCount = 1,
                            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                            .pImmutableSamplers = nullptr});
    const VkDescriptorSetLayoutCreateInfo set_info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                   .bindingCount = static_cast<std::uint32_t>(bindings.size()),
                                                   .pBindings = bindings.data()};
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateDescriptorSetLayout(device, &set_info, nullptr, &set); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateDescriptorSetLayout", "preparing " + code.name);
    set_layout_ = UniqueDescriptorSetLayout(vk, device, set);

    const VkPushConstantRange range{.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .offset = 0, .size = kPushBytes};
    const VkPipelineLayoutCreateInfo layout_info{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                                 .setLayoutCount = 1,
                                                 .pSetLayouts = &set,
                                                 .pushConstantRangeCount = 1,
                                                 .pPushConstantRanges = &range};
    VkPipelineLayout layout = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreatePipelineLayout(device, &layout_info, nullptr, &layout); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreatePipelineLayout", "preparing " + code.name);
    layout_ = UniquePipelineLayout(vk, device, layout);

    const VkShaderModuleCreateInfo module_info{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                               .codeSize = code.words.size() * 4,
                                               .pCode = code.words.data()};
    VkShaderModule handle = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateShaderModule(device, &module_info, nullptr, &handle); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateShaderModule", "loading " + code.name);
    const UniqueShaderModule shader(vk, device, handle);

    std::vector<VkSpecializationMapEntry> entries;
    std::vector<std::uint32_t> values;
    for (const auto& [id, bits] : code.constants) {
        entries.push_back({.constantID = id, .offset = static_cast<std::uint32_t>(values.size() * 4), .size = 4});
        values.push_back(bits);
    }
    const VkSpecializationInfo constants{.mapEntryCount = static_cast<std::uint32_t>(entries.size()),
                                         .pMapEntries = entries.data(),
                                         .dataSize = values.size() * 4,
                                         .pData = values.data()};
    const VkPipelineCreateFlags capture =
        device_->capture() == PipelineCapture::nothing ? 0 : VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    const VkComputePipelineCreateInfo info{.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                           .flags = capture,
                                           .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                     .pNext = nullptr,
                                                     .flags = 0,
                                                     .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                     .module = handle,
                                                     .pName = code.entry_point.c_str(),
                                                     .pSpecializationInfo = &constants},
                                           .layout = layout};
    VkPipeline pipeline = VK_NULL_HANDLE;
    const auto start = std::chrono::steady_clock::now();
    if (const VkResult r = vk.vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
        r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateComputePipelines", "compiling " + code.name);
    pipeline_ = UniquePipeline(vk, device, pipeline);
    device_->set_name(VK_OBJECT_TYPE_PIPELINE, pipeline, code.name);
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    code_ = {.shader = code.name, .compile_ms = elapsed.count()};
    if (!capture) return {};
    VKFORMER_TRY(const auto executables, pipeline_executables(*device_, pipeline));
    if (!executables.empty()) {
        code_.subgroup_size = executables.front().subgroup_size;
        code_.summary = vulkan::summarise(executables.front());
    }
    return {};
}

Result<void> ShaderRunner::make_buffers(std::span<const BufferRequest> buffers) {
    if (buffers.empty()) return {};
    const DeviceTable& vk = device_->vk();
    std::vector<MemoryBlocks::Request> requests;
    for (const BufferRequest& buffer : buffers) {
        requests.push_back({buffer.bytes, buffer.label});
        labels_.push_back(buffer.label);
    }
    VKFORMER_TRY(memory_, MemoryBlocks::create(*device_, requests, true, "vkformer benchmark"));
    const std::vector<std::byte> pattern(kGuardBytes, kGuardByte);
    for (const Slice& slice : memory_.slices())
        for (const bool behind : {false, true})
            VKFORMER_CHECK(device_->transfer().upload(band(slice, behind), 0, pattern));

    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, static_cast<std::uint32_t>(buffers.size())};
    const VkDescriptorPoolCreateInfo pool_info{
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
    VkDescriptorPool pool = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateDescriptorPool(device_->handle(), &pool_info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateDescriptorPool", "binding buffers");
    sets_ = UniqueDescriptorPool(vk, device_->handle(), pool);
    const VkDescriptorSetLayout layout = set_layout_.get();
    const VkDescriptorSetAllocateInfo info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                           .descriptorPool = pool,
                                           .descriptorSetCount = 1,
                                           .pSetLayouts = &layout};
    if (const VkResult r = vk.vkAllocateDescriptorSets(device_->handle(), &info, &set_); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateDescriptorSets", "binding buffers");
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const Slice& slice = memory_.slices()[i];
        const VkDescriptorBufferInfo range{slice.buffer, slice.offset, slice.bytes};
        const VkWriteDescriptorSet write{.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                         .dstSet = set_,
                                         .dstBinding = buffers[i].binding,
                                         .descriptorCount = 1,
                                         .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                         .pBufferInfo = &range};
        vk.vkUpdateDescriptorSets(device_->handle(), 1, &write, 0, nullptr);
    }
    return {};
}

Result<void> ShaderRunner::make_commands() {
    const DeviceTable& vk = device_->vk();
    const VkCommandPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                            .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                            .queueFamilyIndex = device_->queue_family()};
    VkCommandPool pool = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateCommandPool(device_->handle(), &pool_info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateCommandPool", "recording a shader");
    pool_ = UniqueCommandPool(vk, device_->handle(), pool);
    const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = pool,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = 1};
    if (const VkResult r = vk.vkAllocateCommandBuffers(device_->handle(), &info, &commands_); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateCommandBuffers", "recording a shader");
    if (device_->capabilities().timestamp_valid_bits == 0) return {};
    const VkQueryPoolCreateInfo query_info{
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 2};
    VkQueryPool queries = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateQueryPool(device_->handle(), &query_info, nullptr, &queries); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateQueryPool", "preparing timestamps");
    queries_ = UniqueQueryPool(vk, device_->handle(), queries);
    return {};
}

Result<void> ShaderRunner::record(const ShaderLaunch& launch) {
    const DeviceTable& vk = device_->vk();
    constexpr VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    constexpr VkPipelineStageFlags kOthers = VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT;
    constexpr VkAccessFlags kShader = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    if (const VkResult r = vk.vkBeginCommandBuffer(commands_, &begin); r != VK_SUCCESS)
        return vulkan_error(r, "vkBeginCommandBuffer", "recording a shader");
    if (queries_.get()) vk.vkCmdResetQueryPool(commands_, queries_.get(), 0, 2);
    barrier(vk, commands_, kOthers, VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT, kCompute, kShader);
    vk.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_.get());
    if (set_)
        vk.vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, layout_.get(), 0, 1, &set_, 0, nullptr);
    if (!launch.push.empty())
        vk.vkCmdPushConstants(commands_, layout_.get(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                              static_cast<std::uint32_t>(launch.push.size()), launch.push.data());
    if (queries_.get()) vk.vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_.get(), 0);
    for (std::uint32_t i = 0; i < launch.times; ++i) {
        if (i > 0) barrier(vk, commands_, kCompute, VK_ACCESS_SHADER_WRITE_BIT, kCompute, kShader);
        vk.vkCmdDispatch(commands_, launch.groups[0], launch.groups[1], launch.groups[2]);
    }
    if (queries_.get()) vk.vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_.get(), 1);
    barrier(vk, commands_, kCompute, VK_ACCESS_SHADER_WRITE_BIT, kOthers,
            VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
    if (const VkResult r = vk.vkEndCommandBuffer(commands_); r != VK_SUCCESS)
        return vulkan_error(r, "vkEndCommandBuffer", "recording a shader");
    return {};
}

Result<ShaderRunner::Times> ShaderRunner::run(const ShaderLaunch& launch) {
    const Capabilities& c = device_->capabilities();
    for (std::size_t axis = 0; axis < 3; ++axis)
        if (launch.groups[axis] == 0 || launch.groups[axis] > c.max_workgroup_count[axis])
            return Error{ErrorCode::InvalidArgument, "a grid of " + std::to_string(launch.groups[axis]) +
                                                         " workgroups; the device allows 1 to " +
                                                         std::to_string(c.max_workgroup_count[axis])};
    if (launch.push.size() > kPushBytes || launch.push.size() % 4 != 0)
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(launch.push.size()) + " bytes of push constants, not a multiple of 4 up to 128"};
    VKFORMER_CHECK(record(launch));
    const auto start = std::chrono::steady_clock::now();
    VKFORMER_TRY(submitted_, device_->submit({&commands_, 1}));
    VKFORMER_CHECK(device_->wait(submitted_));
    Times times{.wall_ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count()};
    if (!queries_.get()) return times;
    std::array<std::uint64_t, 2> ticks{};
    if (const VkResult r = device_->vk().vkGetQueryPoolResults(device_->handle(), queries_.get(), 0, 2, sizeof ticks,
                                                               ticks.data(), 8, VK_QUERY_RESULT_64_BIT);
        r != VK_SUCCESS)
        return vulkan_error(r, "vkGetQueryPoolResults", "reading timestamps");
    const std::uint64_t mask = c.timestamp_valid_bits >= 64 ? ~std::uint64_t{0} : (1ull << c.timestamp_valid_bits) - 1;
    times.device_ns = static_cast<double>((ticks[1] - ticks[0]) & mask) * static_cast<double>(c.timestamp_period_ns);
    return times;
}

Result<void> ShaderRunner::write(std::size_t index, std::span<const std::byte> bytes) {
    return device_->transfer().upload(memory_.slices()[index], 0, bytes);
}

Result<void> ShaderRunner::read(std::size_t index, std::span<std::byte> bytes) {
    return device_->transfer().download(memory_.slices()[index], 0, bytes);
}

Result<void> ShaderRunner::check_guards() {
    std::vector<std::byte> found(kGuardBytes);
    for (std::size_t i = 0; i < labels_.size(); ++i)
        for (const bool behind : {false, true}) {
            VKFORMER_CHECK(device_->transfer().download(band(memory_.slices()[i], behind), 0, found));
            if (std::ranges::any_of(found, [](std::byte b) { return b != kGuardByte; }))
                return Error{ErrorCode::Vulkan, "the shader wrote " + std::string(behind ? "behind" : "before") +
                                                    " the buffer of " + labels_[i] + ": its guard band has changed"};
        }
    return {};
}

}  // namespace vkformer::bench
