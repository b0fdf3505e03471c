// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "vulkan/device.hpp"
#include "vulkan/kernels/kernel.hpp"
#include "vulkan/shader_module.hpp"

namespace vkformer::vulkan {

/// Whether the device has what the shader needs.
bool can_run(const Capabilities& device, const ShaderBinary& shader);

/// The compute pipelines of a device, each made once; backed by a VkPipelineCache that is kept on disk.
/// The file is used only if its own header (format, length, checksum) and the driver's (vendor, device, driver version,
/// pipelineCacheUUID) fit; any other is ignored and replaced. Thread-safe.
class Pipelines {
public:
    struct Pipeline {
        VkPipeline handle = VK_NULL_HANDLE;
        VkPipelineLayout layout = VK_NULL_HANDLE;
        VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
        double compile_ms = 0;  ///< what vkCreateComputePipelines took, when it was made
    };

    struct Options {
        std::filesystem::path cache_folder{};  ///< empty: nothing is read from or written to disk
        VkPipelineCache cache =
            VK_NULL_HANDLE;  ///< borrowed; taken in place of an own one, and cache_folder does not count
    };
    static Result<std::unique_ptr<Pipelines>> create(std::shared_ptr<Device> device, const Options& options);
    ~Pipelines();

    /// The pipeline for a dispatch. Errors: MissingFeature (the device or this build lacks the variant), Vulkan.
    Result<Pipeline> get(const Dispatch& dispatch);
    /// Makes those of the dispatches that are not there yet, several at a time; on an adopted device
    /// get() does, one by one. What cannot be made is left to get(), too, which tells why.
    void prepare(std::span<const Dispatch> dispatches);

    struct Made {
        UniquePipeline pipeline;
        double compile_ms = 0;
    };
    /// A pipeline of the caller's own, with a layout of its own; made with the same cache. Errors: as of get.
    Result<Made> compile(const Dispatch& dispatch, VkPipelineLayout layout) const;

    /// Writes the cache file if it lacks what was made here; an error costs time only. Not while another thread makes some.
    void save();

private:
    struct Layout {
        UniqueDescriptorSetLayout set;
        UniquePipelineLayout pipeline;
    };
    explicit Pipelines(std::shared_ptr<Device> device) : device_(std::move(device)) {}
    /// What makes one pipeline different from another.
    struct Key {
        explicit Key(const Dispatch& dispatch);
        Module module;
        std::vector<Dispatch::Constant> constants;  // by id
        friend auto operator<=>(const Key&, const Key&) = default;
    };
    /// `ids`: the bindings of set 0.
    Result<const Layout*> layout_for(std::vector<std::uint32_t> ids);

    std::shared_ptr<Device> device_;
    std::filesystem::path file_;
    UniquePipelineCache own_cache_;
    VkPipelineCache cache_ = VK_NULL_HANDLE;
    mutable ShaderModules modules_;
    std::mutex mutex_;
    std::map<std::vector<std::uint32_t>, Layout> layouts_;
    std::map<Key, Made> pipelines_;
    bool changed_ = false;
};

}  // namespace vkformer::vulkan
