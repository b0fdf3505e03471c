// SPDX-License-Identifier: MIT
#include "bench/code.hpp"

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::bench {

Result<std::vector<Code>> code_of(const graph::Plan& plan, const vulkan::ChosenVariants& variants,
                                  vulkan::VulkanBackend& backend) {
    std::vector<Code> all;
    const vulkan::KernelContext context = {.graph = plan.graph, .device = backend.capabilities()};
    for (std::size_t i = 0; i < plan.graph.nodes().size(); ++i) {
        VKFORMER_TRY(const auto planned, vulkan::plan_dispatches(plan.graph.nodes()[i].op, context, variants[i]));
        for (const vulkan::Dispatch& dispatch : planned.dispatches) {
            VKFORMER_TRY(const auto report, backend.report_pipeline(dispatch));
            Code& code = all.emplace_back(Code{.shader = dispatch.module.name(), .compile_ms = report.compile_ms});
            if (report.executables.empty()) continue;
            code.subgroup_size = report.executables.front().subgroup_size;
            code.summary = vulkan::summarise(report.executables.front());
        }
    }
    return all;
}

nlohmann::json as_json(const vulkan::PipelineSummary& s) {
    nlohmann::json out = nlohmann::json::object();
    const auto put = [&](const char* name, const std::optional<double>& value) {
        if (value) out[name] = *value;
    };
    put("registers", s.registers);
    put("scalar_registers", s.scalar_registers);
    put("spills", s.spills);
    put("scratch_bytes", s.scratch_bytes);
    put("shared_bytes", s.shared_bytes);
    put("waves", s.waves);
    put("instructions", s.instructions);
    put("code_bytes", s.code_bytes);
    put("cycles", s.cycles);
    put("throughput_cycles", s.throughput_cycles);
    put("stall_cycles", s.stall_cycles);
    return out;
}

nlohmann::json as_json(const Code& code) {
    nlohmann::json out = code.summary ? as_json(*code.summary) : nlohmann::json::object();
    out["shader"] = code.shader;
    out["compile_ms"] = code.compile_ms;
    if (code.subgroup_size) out["subgroup_size"] = code.subgroup_size;
    return out;
}

}  // namespace vkformer::bench
