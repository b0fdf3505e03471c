// SPDX-License-Identifier: MIT
/// Runs one compute shader by itself: buffers at the bindings of set 0, specialization and push constants, a grid.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/code.hpp"
#include "vulkan/device.hpp"
#include "vulkan/memory.hpp"

namespace vkformer::bench {

struct ShaderCode {
    std::string name;                                  ///< in messages and captures
    std::vector<std::uint32_t> words;                  ///< SPIR-V
    std::map<std::uint32_t, std::uint32_t> constants;  ///< specialization constants: bits by id
    std::string entry_point = "main";
};

struct BufferRequest {
    std::uint32_t binding = 0;
    std::uint64_t bytes = 0;  ///< a multiple of 4
    std::string label;
};

struct ShaderLaunch {
    std::array<std::uint32_t, 3> groups{1, 1, 1};
    std::vector<std::byte> push;  ///< at most 128 bytes, a multiple of 4
    std::uint32_t times = 1;      ///< dispatches, each after the one before has finished
};

/// A pipeline and its buffers. Around each buffer lie guard bands: run() finds what a shader writes beside its buffers (as far as
/// the driver's own bounds checks let it). Not thread-safe.
class ShaderRunner {
public:
    /// Errors: InvalidArgument (too many bindings or bytes of push constants), MissingFeature, out of memory, Vulkan.
    static Result<std::unique_ptr<ShaderRunner>> create(std::shared_ptr<vulkan::Device> device, const ShaderCode& code,
                                                        std::span<const BufferRequest> buffers);
    ~ShaderRunner();

    /// `index` counts the requests. Errors: DeviceLost, Vulkan.
    Result<void> write(std::size_t index, std::span<const std::byte> bytes);
    Result<void> read(std::size_t index, std::span<std::byte> bytes);

    struct Times {
        double device_ns = 0;  ///< of all dispatches together, from timestamps; 0 where the queue has none
        double wall_ns = 0;    ///< submission and waiting included
        double best() const noexcept { return device_ns > 0 ? device_ns : wall_ns; }
    };
    /// Runs and waits. Errors: InvalidArgument (a grid that the device does not allow), DeviceLost, Vulkan.
    Result<Times> run(const ShaderLaunch& launch);
    /// Errors: Vulkan (a guard band has changed), with the buffer's label.
    Result<void> check_guards();
    /// What the driver's compiler made of it.
    const Code& code() const noexcept { return code_; }

private:
    explicit ShaderRunner(std::shared_ptr<vulkan::Device> device) : device_(std::move(device)) {}
    Result<void> make_pipeline(const ShaderCode& code, std::span<const BufferRequest> buffers);
    Result<void> make_buffers(std::span<const BufferRequest> buffers);
    Result<void> make_commands();
    Result<void> record(const ShaderLaunch& launch);

    std::shared_ptr<vulkan::Device> device_;
    vulkan::MemoryBlocks memory_;
    std::vector<std::string> labels_;
    Code code_;
    vulkan::UniqueDescriptorSetLayout set_layout_;
    vulkan::UniquePipelineLayout layout_;
    vulkan::UniquePipeline pipeline_;
    vulkan::UniqueDescriptorPool sets_;
    vulkan::UniqueCommandPool pool_;
    vulkan::UniqueQueryPool queries_;
    VkDescriptorSet set_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    std::uint64_t submitted_ = 0;
};

}  // namespace vkformer::bench
