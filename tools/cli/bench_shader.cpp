// SPDX-License-Identifier: MIT
/// vkformer bench shader: somebody's own shader, checked and timed like the built-in ones.
#include <filesystem>

#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "bench/glsl.hpp"
#include "bench/in_child.hpp"
#include "bench/shader_case.hpp"
#include "bench_target.hpp"
#include "core/mapped_file.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "named_file.hpp"

namespace vkformer::cli {
namespace {

namespace fs = std::filesystem;

struct BenchShaderCommand {
    DeviceOptions device;
    MeasureFlags flags;
    std::string shader, manifest;
    double timeout = 120;
};

Result<bench::SpirvModule> load(const BenchShaderCommand& command, const bench::ShaderManifest& manifest) {
    if (utf8_path(command.shader).extension() == ".spv") {
        VKFORMER_TRY(const auto file, MappedFile::read(utf8_path(command.shader)));
        return bench::read_spirv(file->bytes(), manifest.entry_point, command.shader);
    }
    VKFORMER_TRY(const auto bytes, bench::compile_glsl(utf8_path(command.shader), manifest.defines));
    return bench::read_spirv(bytes, manifest.entry_point, command.shader);
}

Result<int> measure_module(const BenchShaderCommand& command, const bench::SpirvModule& module,
                           const bench::ShaderManifest& manifest) {
    VKFORMER_TRY(const OpenedTarget opened, open_target(command.device));
    const bench::Target& target = opened.target;
    VKFORMER_TRY(bench::Report report, begin_report(target, command.flags, command.device.quiet));
    bench::MeasureOptions options = command.flags.options(target);
    for (const bench::Cache cache : command.flags.caches()) {
        options.cache = cache;
        VKFORMER_TRY(auto done,
                     bench::measure_shader(target.vulkan->device(), utf8_path(command.shader).filename().string(),
                                           module, manifest, options));
        done.hold_against(report.limits);
        report.cases.push_back(std::move(done));
    }
    return end_report(report, command.flags);
}

Result<int> run(const BenchShaderCommand& command) {
    if (command.device.device == "cpu")
        return Error{ErrorCode::InvalidArgument, "bench shader: the CPU backend runs no shaders"};
    VKFORMER_TRY(const auto described, read_json(command.manifest));
    VKFORMER_TRY(const auto manifest, bench::parse_shader_manifest(described, command.manifest));
    VKFORMER_TRY(const auto module, load(command, manifest));
    VKFORMER_CHECK(bench::check_fit(module, manifest));
    return bench::in_child([&] { return measure_module(command, module, manifest); }, command.timeout);
}

}  // namespace

void add_bench_shader(CLI::App& bench, Action& action) {
    auto options = std::make_shared<BenchShaderCommand>();
    CLI::App& command =
        *bench.add_subcommand("shader", "A compute shader of your own: right? how fast? how far from the limits?");
    command.add_option("shader", options->shader, "GLSL, or SPIR-V where the name ends in .spv")->required();
    command
        .add_option("--manifest", options->manifest, "JSON: buffers, constants, grid, reference (docs/benchmark.md)")
        ->required();
    options->device.add_device(command);
    options->flags.add(command);
    command.add_option("--timeout", options->timeout, "Seconds for all of it; then it is ended")
        ->check(CLI::Range(1.0, 86400.0))
        ->capture_default_str();
    command.footer(
        "The result is compared with the reference op that the manifest names, if it names one, before it is timed; a "
        "wrong\n"
        "one is reported and not timed, and the exit code is then 1. The shader runs in a process of its own, so that "
        "a "
        "driver\n"
        "that crashes on it is reported too.\n"
        "Example:\n"
        "  vkformer bench shader my.comp --manifest my.json");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
