// SPDX-License-Identifier: MIT
/// The single measurements that limits.cpp chooses from.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "bench/effort.hpp"
#include "bench/limits.hpp"
#include "bench/shader_runner.hpp"
#include "vkformer/result.hpp"

namespace vkformer::bench {

/// The sizes that fill a device, by what it is.
struct Sizes {
    std::uint32_t workgroup, groups;  ///< of the arithmetic shaders
    std::uint64_t bytes;              ///< of the source of copy and read, at most: no cache holds it
    double memory_seconds;            ///< what a dispatch of copy and read should take, if it is not of all bytes
    double peak_seconds;              ///< what a dispatch of the arithmetic shaders should take
};

Sizes sizes_for(const vulkan::Capabilities& device);

/// A shader of shaders/bench/modules.json. Errors: MissingFeature (this build has no such shader, or the device cannot run it).
Result<ShaderCode> limit_shader(std::string_view name, const vulkan::Device& device);

/// Nanoseconds of a dispatch, sampled until they are stable or the part is used up. It has run before: there is no warm-up.
Result<Summary> sample(ShaderRunner& runner, const ShaderLaunch& launch, Stopping stopping, const Part& part);

Result<std::vector<std::uint32_t>> read_words(ShaderRunner& runner, std::size_t index, std::size_t count);
Error wrong_result(std::string_view name);

template <class T>
std::vector<std::byte> push_bytes(const T& value) {
    std::vector<std::byte> bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
}

/// Reads a buffer larger than the caches; copies it or sums it.
struct MemoryProbe {
    const char* shader;
    std::uint32_t element_bytes;
    bool writes;  ///< copies; else reads only
    std::uint32_t
        apart;  ///< 0, or the workgroup's size where each walks through a piece of its own (shaders/bench/walk.glsl)
};
Result<Limit> measure_memory(const std::shared_ptr<vulkan::Device>& device, const MemoryProbe& probe,
                             const Stopping& stopping, const Part& part);

/// Multiply-adds on registers.
struct PeakProbe {
    const char* shader;
    std::uint32_t operand;  ///< the bits of one; of the bytes −1, 0, 0, 0 for integers
    double operations;      ///< per step and chain
    const char* unit;
};
Result<Limit> measure_peak(const std::shared_ptr<vulkan::Device>& device, const PeakProbe& probe,
                           const Stopping& stopping, const Part& part);

/// Products of one shape of cooperative matrices, float16 in and float32 out.
Result<Limit> measure_matrix(const std::shared_ptr<vulkan::Device>& device, const vulkan::CooperativeMatrix& matrix,
                             const Stopping& stopping, const Part& part);

/// A dispatch that does nothing, after another one.
Result<Limit> measure_launch(const std::shared_ptr<vulkan::Device>& device, const Stopping& stopping, const Part& part);

}  // namespace vkformer::bench
