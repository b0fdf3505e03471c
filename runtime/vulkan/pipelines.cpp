// SPDX-License-Identifier: MIT
#include "vulkan/pipelines.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/hash.hpp"
#include "core/mapped_file.hpp"
#include "core/output_file.hpp"
#include "core/tasks.hpp"
#include "core/try.hpp"

namespace vkformer::vulkan {
namespace {

/// What precedes the driver's data in the cache file. Vulkan's own header is checked beside it: a driver must ignore data
/// that is not its own, but not every driver survives data that is truncated or flipped.
struct FileHeader {
    char magic[8] = {'v', 'k', 'f', 'p', 'i', 'p', 'e', '1'};
    std::uint64_t data_bytes = 0;
    std::uint64_t checksum = 0;
    std::uint32_t driver_version = 0;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(FileHeader) == 32);

constexpr std::size_t kMaxCacheBytes = 256 << 20;

/// The driver's part of a cache file, or nothing if the file is not whole or not this driver's.
std::span<const std::byte> usable_data(std::span<const std::byte> file, const Capabilities& device) {
    FileHeader header;
    if (file.size() < sizeof(header) || file.size() > kMaxCacheBytes) return {};
    std::memcpy(&header, file.data(), sizeof(header));
    const auto data = file.subspan(sizeof(header));
    if (std::memcmp(header.magic, FileHeader{}.magic, sizeof(header.magic)) != 0 || header.data_bytes != data.size() ||
        header.checksum != hash_bytes(data) || header.driver_version != device.driver_version)
        return {};
    VkPipelineCacheHeaderVersionOne vulkan_header;
    if (data.size() < sizeof(vulkan_header)) return {};
    std::memcpy(&vulkan_header, data.data(), sizeof(vulkan_header));
    if (vulkan_header.headerVersion != VK_PIPELINE_CACHE_HEADER_VERSION_ONE ||
        vulkan_header.vendorID != device.vendor_id || vulkan_header.deviceID != device.device_id ||
        !std::ranges::equal(vulkan_header.pipelineCacheUUID, device.pipeline_cache_uuid))
        return {};
    return data;
}

VkPipelineCreateFlags capture_flags(PipelineCapture capture) {
    switch (capture) {
    case PipelineCapture::nothing: return 0;
    case PipelineCapture::statistics: return VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    case PipelineCapture::statistics_and_code:
        return VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
               VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    }
    return 0;
}

}  // namespace

bool can_run(const Capabilities& device, const ShaderBinary& shader) {
    return (shader.requires_mask & ~provided_by(device)) == 0;
}

Result<std::unique_ptr<Pipelines>> Pipelines::create(std::shared_ptr<Device> device, const Options& options) {
    auto result = std::unique_ptr<Pipelines>(new Pipelines(std::move(device)));
    const Device& d = *result->device_;
    if (options.cache) {
        result->cache_ = options.cache;
        return result;
    }
    std::shared_ptr<const MappedFile> file;
    std::span<const std::byte> data;
    if (!options.cache_folder.empty()) {
        result->file_ = options.cache_folder / ("pipelines-" + d.capabilities().uuid + ".bin");
        if (auto opened = MappedFile::open(result->file_)) {
            file = *opened;
            data = usable_data(file->bytes(), d.capabilities());
        }
    }
    const VkPipelineCacheCreateInfo info{.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                         .initialDataSize = data.size(),
                                         .pInitialData = data.empty() ? nullptr : data.data()};
    VkPipelineCache cache = VK_NULL_HANDLE;
    if (const VkResult r = d.vk().vkCreatePipelineCache(d.handle(), &info, nullptr, &cache); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreatePipelineCache", "preparing the pipelines");
    result->own_cache_ = UniquePipelineCache(d.vk(), d.handle(), cache);
    result->cache_ = cache;
    d.set_name(VK_OBJECT_TYPE_PIPELINE_CACHE, cache, "vkformer pipelines");
    return result;
}

Pipelines::Key::Key(const Dispatch& dispatch) : module(dispatch.module), constants(dispatch.constants) {
    std::ranges::sort(constants);
}

Pipelines::~Pipelines() { save(); }

Result<const Pipelines::Layout*> Pipelines::layout_for(std::vector<std::uint32_t> ids) {
    std::ranges::sort(ids);
    if (const auto found = layouts_.find(ids); found != layouts_.end()) return &found->second;
    const Device& d = *device_;
    std::vector<VkDescriptorSetLayoutBinding> bindings;
    for (const std::uint32_t id : ids)
        bindings.push_back({.binding = id,
                            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                            .descriptorCount = 1,
                            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                            .pImmutableSamplers = nullptr});
    const VkDescriptorSetLayoutCreateInfo set_info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                   .bindingCount = static_cast<std::uint32_t>(bindings.size()),
                                                   .pBindings = bindings.data()};
    Layout layout;
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    if (const VkResult r = d.vk().vkCreateDescriptorSetLayout(d.handle(), &set_info, nullptr, &set); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateDescriptorSetLayout", "preparing the pipelines");
    layout.set = UniqueDescriptorSetLayout(d.vk(), d.handle(), set);
    const VkPushConstantRange range{.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .offset = 0, .size = 128};
    const VkPipelineLayoutCreateInfo info{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                          .setLayoutCount = 1,
                                          .pSetLayouts = &set,
                                          .pushConstantRangeCount = 1,
                                          .pPushConstantRanges = &range};
    VkPipelineLayout pipeline = VK_NULL_HANDLE;
    if (const VkResult r = d.vk().vkCreatePipelineLayout(d.handle(), &info, nullptr, &pipeline); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreatePipelineLayout", "preparing the pipelines");
    layout.pipeline = UniquePipelineLayout(d.vk(), d.handle(), pipeline);
    return &layouts_.emplace(std::move(ids), std::move(layout)).first->second;
}

Result<Pipelines::Pipeline> Pipelines::get(const Dispatch& dispatch) {
    Pipeline result;
    const Key key(dispatch);
    std::vector<std::uint32_t> ids;
    for (const Dispatch::Binding& binding : dispatch.bindings) ids.push_back(binding.id);
    {
        const std::lock_guard lock(mutex_);
        VKFORMER_TRY(const Layout* layout, layout_for(std::move(ids)));
        result.layout = layout->pipeline.get();
        result.set_layout = layout->set.get();
        if (const auto found = pipelines_.find(key); found != pipelines_.end()) {
            result.handle = found->second.pipeline.get();
            result.compile_ms = found->second.compile_ms;
            return result;
        }
    }
    VKFORMER_TRY(Made made,
                 compile(dispatch, result.layout));  // not under the lock: several threads may compile at once
    const std::lock_guard lock(mutex_);
    const Made& kept = pipelines_.try_emplace(key, std::move(made)).first->second;
    changed_ = true;
    result.handle = kept.pipeline.get();
    result.compile_ms = kept.compile_ms;
    return result;
}

void Pipelines::prepare(std::span<const Dispatch> dispatches) {
    if (!device_->is_own()) return;
    std::map<Key, const Dispatch*> missing;
    {
        const std::lock_guard lock(mutex_);
        for (const Dispatch& dispatch : dispatches)
            if (Key key(dispatch); !pipelines_.contains(key)) missing.emplace(std::move(key), &dispatch);
    }
    std::vector<const Dispatch*> parts;
    for (const auto& [key, part] : missing) parts.push_back(part);
    run_tasks(parts.size(), [&](std::size_t i) { (void)get(*parts[i]); });
}

Result<Pipelines::Made> Pipelines::compile(const Dispatch& dispatch, VkPipelineLayout layout) const {
    const Device& d = *device_;
    const std::string name = dispatch.module.name();
    const ShaderBinary* const binary = dispatch.module.binary();
    if (!binary)
        return Error{ErrorCode::MissingFeature,
                     "this build lacks the shader module " + name + "; build with the pinned shader compiler"};
    if (!can_run(d.capabilities(), *binary))
        return Error{
            .code = ErrorCode::MissingFeature,
            .message = "device \"" + d.capabilities().name + "\" lacks a feature that the shader " + name + " needs",
            .hint = Hint::other_device};
    VKFORMER_TRY(const auto words, modules_.words(*binary));
    const VkShaderModuleCreateInfo module_info{
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = words.size_bytes(), .pCode = words.data()};
    VkShaderModule module_handle = VK_NULL_HANDLE;
    if (const VkResult r = d.vk().vkCreateShaderModule(d.handle(), &module_info, nullptr, &module_handle);
        r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateShaderModule", "loading the shader " + name);
    const UniqueShaderModule shader_module(d.vk(), d.handle(), module_handle);

    std::vector<VkSpecializationMapEntry> entries;
    std::vector<std::uint32_t> values;
    for (const auto& [id, value] : dispatch.constants) {
        entries.push_back({.constantID = id, .offset = static_cast<std::uint32_t>(values.size() * 4), .size = 4});
        values.push_back(value);
    }
    const VkSpecializationInfo constants{.mapEntryCount = static_cast<std::uint32_t>(entries.size()),
                                         .pMapEntries = entries.data(),
                                         .dataSize = values.size() * 4,
                                         .pData = values.data()};
    const VkComputePipelineCreateInfo info{.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                           .flags = capture_flags(d.capture()),
                                           .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                     .pNext = nullptr,
                                                     .flags = 0,
                                                     .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                     .module = module_handle,
                                                     .pName = "main",
                                                     .pSpecializationInfo = &constants},
                                           .layout = layout};
    VkPipeline pipeline = VK_NULL_HANDLE;
    const auto start = std::chrono::steady_clock::now();
    if (const VkResult r = d.vk().vkCreateComputePipelines(d.handle(), cache_, 1, &info, nullptr, &pipeline);
        r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateComputePipelines", "compiling the shader " + name);
    d.set_name(VK_OBJECT_TYPE_PIPELINE, pipeline, name);
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    return Made{UniquePipeline(d.vk(), d.handle(), pipeline), taken.count()};
}

void Pipelines::save() {
    if (!changed_ || file_.empty()) return;
    const Device& d = *device_;
    std::size_t bytes = 0;
    if (d.vk().vkGetPipelineCacheData(d.handle(), cache_, &bytes, nullptr) != VK_SUCCESS) return;
    std::vector<std::byte> data(bytes);
    if (d.vk().vkGetPipelineCacheData(d.handle(), cache_, &bytes, data.data()) != VK_SUCCESS) return;
    data.resize(bytes);
    if (bytes < sizeof(VkPipelineCacheHeaderVersionOne)) return;  // as lavapipe 26.2 gives it: nobody could read it
    FileHeader header;
    header.data_bytes = data.size();
    header.checksum = hash_bytes(data);
    header.driver_version = d.capabilities().driver_version;

    if (write_cache_file(file_, {std::as_bytes(std::span(&header, 1)), data})) changed_ = false;
}

}  // namespace vkformer::vulkan
