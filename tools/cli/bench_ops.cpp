// SPDX-License-Identifier: MIT
/// vkformer bench ops: single ops with the shapes that models have, checked, then timed.
#include <cstdio>

#include "bench.hpp"
#include "bench_target.hpp"
#include "core/try.hpp"

namespace vkformer::cli {
namespace {

struct BenchOpsCommand {
    DeviceOptions device;
    cases::Choice choice;
    MeasureFlags flags;
    bool all_variants = false, list = false;
};

std::string list_text() {
    std::string text;
    for (const cases::Family& family : cases::families()) {
        text += std::string(family.name) + "  " + std::string(family.dims) + ", ";
        for (const cases::Types& types : family.types) text += types.name() + " ";
        text += "\n   ";
        for (const auto& shape : family.shapes) text.append(" ").append(cases::to_text(shape));
        if (!family.gpu_shapes.empty()) text += "; on GPUs also";
        for (const auto& shape : family.gpu_shapes) text.append(" ").append(cases::to_text(shape));
        text += "\n";
    }
    return text;
}

bench::CaseReport run_case(const cases::Case& c, const Result<bench::CheckedCase>& checked, const bench::Target& target,
                           const bench::MeasureOptions& options) {
    bench::CaseReport report{
        .op = c.op, .shape = c.shape, .dtype = c.dtype, .cache = std::string(to_string(options.cache)), .work = c.work};
    auto measured = checked ? bench::measure(*checked, target, options) : checked.error();
    if (measured)
        report.measured = std::move(*measured);
    else
        report.error = measured.error().message;
    if (report.measured.variant.empty()) report.measured.variant = options.variant;
    return report;
}

/// What one case is measured with: the variants, then hot and cold.
Result<std::vector<std::string>> variants_to_run(const cases::Case& c, const bench::Target& target,
                                                 const BenchOpsCommand& command) {
    if (!command.all_variants) return std::vector<std::string>{""};  // what the device would use
    VKFORMER_TRY(auto all, bench::variants_of(c, target));
    if (all.empty()) all.emplace_back();
    return all;
}

Result<void> run_cases(const std::vector<cases::Case>& chosen, const bench::Target& target,
                       const BenchOpsCommand& command, bench::Report& report) {
    bench::MeasureOptions options = command.flags.options(target);
    for (const cases::Case& c : chosen) {
        VKFORMER_TRY(const auto variants, variants_to_run(c, target, command));
        if (!command.device.quiet) std::fprintf(stderr, "vkformer: %s, what is right\n", c.name().c_str());
        const auto checked = bench::CheckedCase::make(c);
        for (options.variant.clear(); const std::string& variant : variants)
            for (const bench::Cache cache : command.flags.caches()) {
                options.variant = variant;
                options.cache = cache;
                if (!command.device.quiet)
                    std::fprintf(stderr, "vkformer: %s %s %s\n", c.name().c_str(), variant.c_str(),
                                 std::string(to_string(cache)).c_str());
                bench::CaseReport& done = report.cases.emplace_back(run_case(c, checked, target, options));
                done.hold_against(report.limits);
            }
    }
    return {};
}

Result<int> run(BenchOpsCommand& command) {
    if (command.list) {
        VKFORMER_CHECK(print(list_text()));
        return kOk;
    }
    VKFORMER_TRY(const OpenedTarget opened, open_target(command.device));
    const bench::Target& target = opened.target;
    command.choice.is_gpu = target.vulkan && target.vulkan->capabilities().type != "cpu";
    VKFORMER_TRY(const auto chosen, cases::choose_cases(command.choice));
    VKFORMER_TRY(bench::Report report, begin_report(target, command.flags, command.device.quiet));
    VKFORMER_CHECK(run_cases(chosen, target, command, report));
    return end_report(report, command.flags);
}

}  // namespace

void add_bench_ops(CLI::App& bench, Action& action) {
    auto options = std::make_shared<BenchOpsCommand>();
    CLI::App& command = *bench.add_subcommand("ops", "Single ops: right? how fast? how far from the device's limits?");
    options->device.add_device(command);
    command.add_option("--op", options->choice.ops, "An op (default: all; see --list); repeatable")
        ->allow_extra_args(false);
    command
        .add_option("--shape", options->choice.shapes, "A shape, as --list names its numbers: 1x576x49152; repeatable")
        ->allow_extra_args(false);
    command
        .add_option("--dtype", options->choice.dtypes, "Storage of the operands (default: each op's first); repeatable")
        ->allow_extra_args(false);
    command
        .add_flag("--all-variants", options->all_variants, "Every variant that can run the shape, one after the other")
        ->excludes("--plain")
        ->excludes("--variant");
    command.add_flag("--list", options->list, "Say which ops, shapes and dtypes there are; run nothing");
    options->flags.add(command);
    command.footer(
        "Every result is compared with the CPU in double precision before it is timed; a wrong one is reported and "
        "not\n"
        "timed, and the exit code is then 1. Times are the device's own, from timestamps; a GPU works for 0.3 s "
        "before\n"
        "they count.\n"
        "Examples:\n"
        "  vkformer bench ops --op linear --shape 1024x1024x1024 --dtype f32 --dtype f16\n"
        "  vkformer bench ops --device 0 --all-variants --cache both --json");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
