// SPDX-License-Identifier: MIT
/// vkformer bench compare: what changed between two reports of bench ops.
#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "bench/compare.hpp"
#include "core/try.hpp"
#include "named_file.hpp"

namespace vkformer::cli {
namespace {

struct BenchCompareCommand {
    std::string before, after;
    double noise = 3;
    bool force = false, json = false;
};

Result<bench::Report> read_report(const std::string& path) {
    VKFORMER_TRY(const auto report, read_json(path));
    return bench::report_from_json(report, path);
}

Result<int> run(const BenchCompareCommand& command) {
    VKFORMER_TRY(const auto before, read_report(command.before));
    VKFORMER_TRY(const auto after, read_report(command.after));
    if (const std::string difference = device_difference(before, after); !difference.empty() && !command.force)
        return Error{ErrorCode::InvalidArgument, difference + "; --force compares them nevertheless"};
    const auto comparison = bench::compare(before, after, command.noise / 100);
    VKFORMER_CHECK(command.json ? print_json(as_json(comparison)) : print(as_text(comparison)));
    return kOk;
}

}  // namespace

void add_bench_compare(CLI::App& bench, Action& action) {
    auto options = std::make_shared<BenchCompareCommand>();
    CLI::App& command = *bench.add_subcommand("compare", "What changed between two reports of bench ops, beyond noise");
    command.add_option("before", options->before, "JSON of bench ops")->required();
    command.add_option("after", options->after, "JSON of bench ops")->required();
    command.add_option("--noise", options->noise, "Per cent that differ from one process to the next anyway")
        ->check(CLI::Range(0.0, 100.0))
        ->capture_default_str();
    command.add_flag("--force", options->force, "Compare reports of different devices");
    command.add_flag("--json", options->json, "Print the comparison as JSON (docs/benchmark.md)");
    command.footer(
        "A case is faster or slower where the 95 % interval of the ratio of its times leaves 1 out and the ratio "
        "differs\n"
        "from 1 by more than --noise; else it is the same within noise. Exit code 0 whatever is found.\n"
        "Example:\n"
        "  vkformer bench compare before.json after.json");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
