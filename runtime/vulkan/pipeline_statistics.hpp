// SPDX-License-Identifier: MIT
/// What a driver's compiler tells about the code it made of a shader: VK_KHR_pipeline_executable_properties.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "vulkan/device.hpp"

namespace vkformer::vulkan {

/// One number, named as the driver names it.
struct PipelineStatistic {
    std::string name, description;
    std::variant<bool, std::int64_t, std::uint64_t, double> value;
    double as_double() const;
};

/// One form of the code, from the driver's intermediate language to the assembly.
struct PipelineRepresentation {
    std::string name, description, text;
};

/// What a pipeline was compiled to. A compute pipeline has one, though some drivers make several and choose by dispatch.
struct PipelineExecutable {
    std::string name, description;
    std::uint32_t subgroup_size = 0;
    std::vector<PipelineStatistic> statistics;
    std::vector<PipelineRepresentation> representations;  ///< PipelineCapture::statistics_and_code only
};

struct PipelineReport {
    double compile_ms = 0;
    std::vector<PipelineExecutable> executables;
};

/// What the driver made of a pipeline of `device`. Errors: MissingFeature (the device was opened without PipelineCapture), Vulkan.
Result<std::vector<PipelineExecutable>> pipeline_executables(const Device& device, VkPipeline pipeline);

/// The statistics that most vendors have under some name. Absent: the driver does not say.
struct PipelineSummary {
    std::optional<double> registers;         ///< vector registers of an invocation, of 32 bits
    std::optional<double> scalar_registers;  ///< of a subgroup, where the hardware has them apart
    std::optional<double> spills;            ///< registers, or loads and stores, that the compiler had no register for
    std::optional<double> scratch_bytes;     ///< private memory, of an invocation or (AMD) a subgroup
    std::optional<double> shared_bytes;      ///< of a workgroup
    std::optional<double> waves;  ///< subgroups that an AMD SIMD, an NVIDIA SM, another's core can hold at once
    std::optional<double> instructions;
    std::optional<double> code_bytes;
    std::optional<double> cycles;  ///< estimate of one subgroup's run; AMD and NVIDIA guess how often a loop runs
    std::optional<double> throughput_cycles;  ///< those in which it keeps the arithmetic units busy
    std::optional<double> stall_cycles;       ///< those in which it waits for a result
};
PipelineSummary summarise(const PipelineExecutable& executable);

}  // namespace vkformer::vulkan
