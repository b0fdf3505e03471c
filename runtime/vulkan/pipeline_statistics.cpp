// SPDX-License-Identifier: MIT
#include "vulkan/pipeline_statistics.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/try.hpp"

namespace vkformer::vulkan {
namespace {

/// The two calls by which Vulkan gives a list whose length is not known: once for the length, once for the elements.
template <class T>
Result<std::vector<T>> enumerate(std::string_view call, const T& element, auto&& function) {
    std::uint32_t count = 0;
    if (const VkResult r = function(&count, static_cast<T*>(nullptr)); r != VK_SUCCESS)
        return vulkan_error(r, call, "asking for the statistics of a pipeline");
    std::vector<T> elements(count, element);
    if (const VkResult r = function(&count, elements.data()); r < 0)
        return vulkan_error(r, call, "asking for the statistics of a pipeline");
    elements.resize(count);
    return elements;
}

PipelineStatistic statistic_of(const VkPipelineExecutableStatisticKHR& s) {
    PipelineStatistic result{.name = s.name, .description = s.description, .value = {}};
    switch (s.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: result.value = s.value.b32 == VK_TRUE; break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: result.value = s.value.i64; break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: result.value = s.value.f64; break;
    default: result.value = s.value.u64; break;
    }
    return result;
}

Result<std::vector<PipelineStatistic>> statistics_of(const Device& device,
                                                     const VkPipelineExecutableInfoKHR& executable) {
    VKFORMER_TRY(const auto found,
                 enumerate("vkGetPipelineExecutableStatisticsKHR",
                           VkPipelineExecutableStatisticKHR{
                               .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR, .pNext = nullptr},
                           [&](std::uint32_t* count, VkPipelineExecutableStatisticKHR* elements) {
                               return device.vk().vkGetPipelineExecutableStatisticsKHR(device.handle(), &executable,
                                                                                       count, elements);
                           }));
    std::vector<PipelineStatistic> statistics;
    for (const auto& s : found) statistics.push_back(statistic_of(s));
    return statistics;
}

Result<std::vector<PipelineRepresentation>> representations_of(const Device& device,
                                                               const VkPipelineExecutableInfoKHR& executable) {
    using Native = VkPipelineExecutableInternalRepresentationKHR;
    const auto get = [&](std::uint32_t* count, Native* elements) {
        return device.vk().vkGetPipelineExecutableInternalRepresentationsKHR(device.handle(), &executable, count,
                                                                             elements);
    };
    constexpr std::string_view kCall = "vkGetPipelineExecutableInternalRepresentationsKHR";
    // Without pData a driver fills in the sizes; then it is asked once more for the texts.
    VKFORMER_TRY(
        auto found,
        enumerate(kCall,
                  Native{.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR, .pNext = nullptr},
                  get));
    std::vector<std::string> texts;
    for (const Native& r : found) texts.emplace_back(r.dataSize, '\0');
    for (std::size_t i = 0; i < found.size(); ++i) found[i].pData = texts[i].data();
    auto count = static_cast<std::uint32_t>(found.size());
    if (const VkResult r = get(&count, found.data()); r < 0)
        return vulkan_error(r, kCall, "asking for the code of a pipeline");

    std::vector<PipelineRepresentation> representations;
    for (std::size_t i = 0; i < count; ++i) {
        if (!found[i].isText) continue;
        representations.push_back({found[i].name, found[i].description, texts[i].c_str()});
    }
    return representations;
}

struct KnownStatistic {
    std::string_view name;
    std::optional<double> PipelineSummary::*field;
    double factor = 1;
};

/// The names that Mesa 26.2's drivers use; several of one field add up. Registers of RADV and NVK are 32 bits wide, those of
/// Turnip are four of that, those of Honeykrisp half (unit_of).
constexpr KnownStatistic kKnownStatistics[] = {
    // RADV (AMD)
    {"VGPRs", &PipelineSummary::registers},
    {"SGPRs", &PipelineSummary::scalar_registers},
    {"Spilled VGPRs", &PipelineSummary::spills},
    {"Spilled SGPRs", &PipelineSummary::spills},
    {"Scratch size", &PipelineSummary::scratch_bytes},
    {"LDS size", &PipelineSummary::shared_bytes},
    {"Subgroups per SIMD", &PipelineSummary::waves},
    {"Instructions", &PipelineSummary::instructions},
    {"Code size", &PipelineSummary::code_bytes},
    {"Latency", &PipelineSummary::cycles},
    {"Inverse Throughput", &PipelineSummary::throughput_cycles},
    // Turnip (Adreno); its instruction count has the NOPs that wait for results: one cycle each
    {"Registers used", &PipelineSummary::registers, 4},
    {"STP Count", &PipelineSummary::spills},
    {"LDP Count", &PipelineSummary::spills},
    {"Max Waves Per Core", &PipelineSummary::waves},
    {"Instruction Count", &PipelineSummary::instructions},
    {"Estimated cycles stalled on SS", &PipelineSummary::stall_cycles},
    {"Estimated cycles stalled on SY", &PipelineSummary::stall_cycles},
    // NVK (NVIDIA); what it spills to registers of another kind stays on the chip and is no spill here
    {"Number of GPRs", &PipelineSummary::registers},
    {"Spills to memory", &PipelineSummary::spills},
    {"Fills from memory", &PipelineSummary::spills},
    {"SLM size", &PipelineSummary::scratch_bytes},
    {"Max warps/SM", &PipelineSummary::waves},
    {"Instruction count", &PipelineSummary::instructions},
    {"Static cycle count", &PipelineSummary::cycles},
    // Honeykrisp (Apple)
    {"GPRs", &PipelineSummary::registers},
    {"Spills", &PipelineSummary::spills},
    {"Fills", &PipelineSummary::spills},
    {"Scratch", &PipelineSummary::scratch_bytes},
    {"ALU", &PipelineSummary::throughput_cycles},
    // ANV (Intel); instructions, spills and fills are called as by the others
    {"Scratch Memory Size", &PipelineSummary::scratch_bytes},
    {"Workgroup Memory Size", &PipelineSummary::shared_bytes},
    {"Cycles", &PipelineSummary::cycles},
};

/// Two drivers count in other units than bytes and 32-bit registers, under names that others use, and say so.
double unit_of(const PipelineStatistic& statistic) {
    if (statistic.description.find("dwords") != std::string::npos) return 4;
    if (statistic.description.find("16-bit GPRs") != std::string::npos) return 0.5;
    return 1;
}

}  // namespace

double PipelineStatistic::as_double() const {
    return std::visit([](auto v) { return static_cast<double>(v); }, value);
}

Result<std::vector<PipelineExecutable>> pipeline_executables(const Device& device, VkPipeline pipeline) {
    if (device.capture() == PipelineCapture::nothing)
        return Error{ErrorCode::MissingFeature,
                     "the device was opened without PipelineCapture, so its pipelines have no statistics"};
    const VkPipelineInfoKHR info{.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pNext = nullptr, .pipeline = pipeline};
    VKFORMER_TRY(const auto properties,
                 enumerate("vkGetPipelineExecutablePropertiesKHR",
                           VkPipelineExecutablePropertiesKHR{
                               .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR, .pNext = nullptr},
                           [&](std::uint32_t* count, VkPipelineExecutablePropertiesKHR* elements) {
                               return device.vk().vkGetPipelineExecutablePropertiesKHR(device.handle(), &info, count,
                                                                                       elements);
                           }));
    std::vector<PipelineExecutable> executables;
    for (std::uint32_t i = 0; i < properties.size(); ++i) {
        const VkPipelineExecutableInfoKHR which{.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                                .pNext = nullptr,
                                                .pipeline = pipeline,
                                                .executableIndex = i};
        PipelineExecutable executable{.name = properties[i].name,
                                      .description = properties[i].description,
                                      .subgroup_size = properties[i].subgroupSize,
                                      .statistics = {},
                                      .representations = {}};
        VKFORMER_TRY(executable.statistics, statistics_of(device, which));
        if (device.capture() == PipelineCapture::statistics_and_code) {
            VKFORMER_TRY(executable.representations, representations_of(device, which));
        }
        executables.push_back(std::move(executable));
    }
    return executables;
}

PipelineSummary summarise(const PipelineExecutable& executable) {
    PipelineSummary summary;
    for (const PipelineStatistic& statistic : executable.statistics) {
        const auto known = std::ranges::find(kKnownStatistics, statistic.name, &KnownStatistic::name);
        if (known == std::end(kKnownStatistics)) continue;
        std::optional<double>& field = summary.*known->field;
        field = field.value_or(0) + statistic.as_double() * known->factor * unit_of(statistic);
    }
    if (!summary.waves) {
        const auto threads = std::ranges::find(executable.statistics, "Threads", &PipelineStatistic::name);
        if (threads != executable.statistics.end() && executable.subgroup_size > 0)
            summary.waves = threads->as_double() / executable.subgroup_size;
    }
    // ANV counts registers of 32 bytes, which hold a value of eight invocations.
    const auto live = std::ranges::find(executable.statistics, "Max live registers", &PipelineStatistic::name);
    if (live != executable.statistics.end() && executable.subgroup_size > 0)
        summary.registers = live->as_double() * 8 / executable.subgroup_size;
    return summary;
}

}  // namespace vkformer::vulkan
