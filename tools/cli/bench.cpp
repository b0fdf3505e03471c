// SPDX-License-Identifier: MIT
#include "bench.hpp"

#include "bench_pipelines.hpp"
#include "core/try.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::cli {

void add_bench(CLI::App& app, Action& action) {
    CLI::App& bench = *app.add_subcommand("bench", "Measure ops, models and shaders");
    bench.require_subcommand(1);
    bench.footer(
        "Each of them has a --help of its own.\n"
        "Examples:\n"
        "  vkformer bench ops --op linear\n"
        "  vkformer bench model --model smollm-135m.gguf\n"
        "  vkformer bench compare before.json after.json\n"
        "  vkformer bench pipelines");
    add_bench_ops(bench, action);
    add_bench_model(bench, action);
    add_bench_shader(bench, action);
    add_bench_compare(bench, action);
    add_bench_pipelines(bench, action);
    add_bench_guest(bench, action);
}

Result<vulkan::PipelineCapture> statistics_of(const std::string& choice) {
    VKFORMER_TRY(const auto devices, vulkan::list_devices());
    VKFORMER_TRY(const auto index, vulkan::choose_device(devices, choice));
    return devices[index].capabilities.pipeline_statistics ? vulkan::PipelineCapture::statistics
                                                           : vulkan::PipelineCapture::nothing;
}

}  // namespace vkformer::cli
