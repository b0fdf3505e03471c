// SPDX-License-Identifier: MIT
// What compilers tell of pipelines, and that every shader compiles on every driver there is.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "graph/builders.hpp"
#include "support/backends.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::tests {
namespace {

using namespace vulkan;

PipelineStatistic statistic(const char* name, std::uint64_t value, const char* description = "") {
    return {.name = name, .description = description, .value = value};
}

TEST_CASE("the statistics of five drivers are put under common names", "[vulkan][pipelines]") {
    // as Mesa 26.2.6 gives them
    const PipelineSummary radv = summarise(
        {.name = "compute",
         .description = "",
         .subgroup_size = 64,
         .statistics = {statistic("VGPRs", 72), statistic("SGPRs", 108), statistic("Spilled SGPRs", 3),
                        statistic("Spilled VGPRs", 2), statistic("Code size", 7788, "Code size in bytes"),
                        statistic("LDS size", 9216), statistic("Latency", 24704), statistic("Subgroups per SIMD", 14)},
         .representations = {}});
    CHECK(radv.registers == 72);
    CHECK(radv.scalar_registers == 108);
    CHECK(radv.spills == 5);
    CHECK(radv.code_bytes == 7788);
    CHECK(radv.shared_bytes == 9216);
    CHECK(radv.waves == 14);
    CHECK(radv.cycles == 24704);
    CHECK_FALSE(radv.scratch_bytes);  // not said is not zero

    const PipelineSummary turnip =
        summarise({.name = "CS",
                   .description = "",
                   .subgroup_size = 64,
                   .statistics = {statistic("Registers used", 32), statistic("STP Count", 1), statistic("LDP Count", 2),
                                  statistic("Code size", 3072,
                                            "Total number of dwords in the final generated shader executable."),
                                  statistic("Estimated cycles stalled on SS", 40),
                                  statistic("Estimated cycles stalled on SY", 250)},
                   .representations = {}});
    CHECK(turnip.registers == 128);
    CHECK(turnip.spills == 3);
    CHECK(turnip.code_bytes == 12288);
    CHECK(turnip.stall_cycles == 290);

    const PipelineSummary nvk =
        summarise({.name = "compute",
                   .description = "",
                   .subgroup_size = 32,
                   .statistics = {statistic("Number of GPRs", 48), statistic("Max warps/SM", 40),
                                  statistic("Spills to memory", 2), statistic("Fills from reg", 1)},
                   .representations = {}});
    CHECK(nvk.registers == 48);
    CHECK(nvk.waves == 40);
    CHECK(nvk.spills == 2);

    const PipelineSummary honeykrisp =
        summarise({.name = "compute",
                   .description = "",
                   .subgroup_size = 32,
                   .statistics = {statistic("GPRs", 93, "Number of 16-bit GPRs"), statistic("Threads", 1024)},
                   .representations = {}});
    CHECK(honeykrisp.registers == 46.5);
    CHECK(honeykrisp.waves == 32);

    const PipelineSummary anv =
        summarise({.name = "compute",
                   .description = "",
                   .subgroup_size = 16,
                   .statistics = {statistic("Instructions", 1300), statistic("Cycles", 85174), statistic("Spills", 3),
                                  statistic("Fills", 4), statistic("Scratch Memory Size", 2048),
                                  statistic("Max live registers", 240), statistic("Workgroup Memory Size", 10240)},
                   .representations = {}});
    CHECK(anv.registers == 120);
    CHECK(anv.spills == 7);
    CHECK(anv.scratch_bytes == 2048);
    CHECK(anv.shared_bytes == 10240);
    CHECK(anv.cycles == 85174);
}

TEST_CASE("statistics come where the driver has them, and an error where it has none", "[vulkan][pipelines]") {
    for (const std::string& index : vulkan_device_indices()) {
        graph::Graph graph;
        const auto x = must(graph.input("x", DType::f32, {8}));
        graph.mark_output(must(graph::activate(graph, x, graph::Activation::relu)));
        const auto backend = must(VulkanBackend::create(index, {.cache_folder = {}}));
        CAPTURE(backend->name());
        const KernelContext context{.graph = graph, .device = backend->capabilities()};
        const Dispatch dispatch = must(vulkan::plan_dispatches(graph.nodes()[0].op, context)).dispatches.front();

        const PipelineReport plain = must(backend->report_pipeline(dispatch));
        CHECK(plain.compile_ms > 0);
        CHECK(plain.executables.empty());  // nobody asked
        CHECK_FALSE(backend->capabilities().pipeline_statistics);

        const auto listed = must(list_devices())[std::stoul(index)];
        const auto capturing =
            VulkanBackend::create(index, {.capture = PipelineCapture::statistics, .cache_folder = {}});
        if (!listed.capabilities.pipeline_statistics) {
            REQUIRE_FALSE(capturing);
            CHECK(capturing.error().code == ErrorCode::MissingFeature);
            CHECK(capturing.error().message.find("VK_KHR_pipeline_executable_properties") != std::string::npos);
            continue;
        }
        const PipelineReport report = must((*capturing)->report_pipeline(dispatch));
        REQUIRE_FALSE(report.executables.empty());
        CHECK(report.executables[0].subgroup_size > 0);
        CHECK_FALSE(report.executables[0].statistics.empty());
    }
}

#ifdef VKFORMER_CLI

TEST_CASE("every shader that a device can run compiles on it", "[vulkan][pipelines][cli]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    if (case_stride(index, 2) > 1) return;  // SwiftShader takes two minutes for them all
    const TemporaryFolder folder;           // of this run alone: another may be at the same test
    const auto file = folder / "pipelines.json";
    const std::string command =
        std::string(VKFORMER_CLI) + " bench pipelines --all --json -q -d " + index + " > " + file.string();
    CAPTURE(command);
    const int status = std::system(command.c_str());
    std::ifstream in(file);
    const auto report = nlohmann::json::parse(in);
    CAPTURE(report["device"]);
    for (const auto& pipeline : report["pipelines"])
        if (pipeline.contains("error")) FAIL_CHECK(pipeline["shader"] << ": " << pipeline["error"].dump());
    CHECK(status == 0);
    CHECK(report["pipelines"].size() > 70);
    for (const auto& pipeline : report["pipelines"]) {
        CAPTURE(pipeline["shader"]);
        REQUIRE_FALSE(pipeline["uses"].empty());
        bool is_default = false;
        for (const auto& use : pipeline["uses"]) is_default = is_default || use["default"].get<bool>();
        CHECK(pipeline["default"] == is_default);
    }
    // A shader that is listed here needs a case in tools/cases.
    CHECK(report["without_case"] == nlohmann::json::array());
}

#endif

}  // namespace
}  // namespace vkformer::tests
