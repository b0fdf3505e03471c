// SPDX-License-Identifier: MIT
/// What the driver's compiler made of the shaders of a case.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "graph/plan.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::bench {

struct Code {
    std::string shader;
    std::uint32_t subgroup_size = 0;  ///< 0: the driver does not say
    double compile_ms = 0;
    std::optional<vulkan::PipelineSummary> summary;  ///< where the backend captures statistics
};

/// The code of every dispatch of the plan, its nodes run by their variants. Errors: those of VulkanBackend::report_pipeline.
Result<std::vector<Code>> code_of(const graph::Plan& plan, const vulkan::ChosenVariants& variants,
                                  vulkan::VulkanBackend& backend);

/// What the driver says, and nothing else.
nlohmann::json as_json(const vulkan::PipelineSummary& summary);
nlohmann::json as_json(const Code& code);

}  // namespace vkformer::bench
