// SPDX-License-Identifier: MIT
#include "bench_target.hpp"

#include <cstdio>
#include <ctime>

#include <nlohmann/json.hpp>

#include "api/open_backend.hpp"
#include "bench.hpp"
#include "bench/html.hpp"
#include "core/output_file.hpp"
#include "core/paths.hpp"
#include "core/platform/system.hpp"
#include "core/try.hpp"
#include "device.hpp"
#include "formats/json.hpp"
#include "limit_options.hpp"

namespace vkformer::cli {
namespace {

std::string utc_now() {
    const std::tm now = platform::utc_time(std::time(nullptr));
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &now);
    return text;
}

/// Of an earlier report. Errors: those of the file, InvalidArgument (it is another device's).
Result<std::vector<bench::Limit>> limits_of(const std::string& file, const std::string& device_uuid) {
    VKFORMER_TRY(const auto contents, formats::read_json(utf8_path(file)));
    VKFORMER_TRY(auto report, bench::report_from_json(contents, file));
    if (report.device_uuid != device_uuid)
        return Error{ErrorCode::InvalidArgument, file + " is a report of another device; leave --limits out"};
    return std::move(report.limits);
}

}  // namespace

Result<OpenedTarget> open_target(const DeviceOptions& options) {
    OpenedTarget opened;
    VKFORMER_TRY(const auto open, open_options(options));
    if (options.device == "cpu") {
        VKFORMER_TRY(auto cpu, api::open_backend(open));
        opened.backend = std::move(cpu.backend);
    } else {
        VKFORMER_TRY(auto chooser, api::make_chooser(open));
        VKFORMER_TRY(const auto capture, statistics_of(options.device));
        VKFORMER_TRY(auto vulkan,
                     vulkan::VulkanBackend::create(
                         options.device, {.profile = true,
                                          .capture = capture,
                                          .offload = {.bytes = open.offload.bytes},
                                          .chooser = std::move(chooser)}));
        opened.target.vulkan = vulkan.get();
        opened.backend = std::move(vulkan);
    }
    opened.target.backend = opened.backend.get();
    return opened;
}

void MeasureFlags::add(CLI::App& command) {
    command.add_option("--cache", cache, "cold: operands rotate over copies that no cache holds; hot; both")
        ->check(CLI::IsMember({"cold", "hot", "both"}))
        ->capture_default_str();
    command.add_option("--rotate-mib", rotate_mib, "What the copies take together (default: past the caches)")
        ->check(CLI::Range(0.0, 65536.0));
    command.add_option("--seconds", seconds, "Longest time per case")
        ->check(CLI::Range(0.01, 3600.0))
        ->capture_default_str();
    command.add_option("--bound", bound, "Per cent: stop when the median is known as well as this")
        ->check(CLI::Range(0.01, 100.0))
        ->capture_default_str();
    command.add_flag("--no-limits", no_limits, "Do not measure the device's limits first (seconds)");
    command.add_option("--limits", limits, "Take them from an earlier report (--json) of the same device")
        ->check(CLI::ExistingFile)
        ->excludes("--no-limits");
    command.add_flag("--json", json, "Print everything as JSON (docs/benchmark.md)");
    command.add_option("--html", html, "Write the report as one HTML page, with the roofline as a picture");
}

bench::MeasureOptions MeasureFlags::options(const bench::Target& target) const {
    return {.cold_bytes =
                rotate_mib > 0 ? static_cast<std::uint64_t>(rotate_mib * (1 << 20)) : bench::default_cold_bytes(target),
            .stopping = {.relative_bound = bound / 100, .min_seconds = seconds / 4, .max_seconds = seconds},
            .warm_up_seconds = bench::warm_up_seconds_for(*target.backend)};
}

std::vector<bench::Cache> MeasureFlags::caches() const {
    if (cache == "both") return {bench::Cache::cold, bench::Cache::hot};
    return {cache == "hot" ? bench::Cache::hot : bench::Cache::cold};
}

Result<bench::Report> begin_report(const bench::Target& target, const MeasureFlags& flags, bool quiet) {
    if (!quiet) std::fprintf(stderr, "vkformer: device: %s\n", target.backend->name().c_str());
    bench::Report report{.version = VKFORMER_VERSION, .command = command_line(), .date = utc_now()};
    report.device =
        target.vulkan ? bench::device_card(target.vulkan->capabilities()) : bench::cpu_card(target.backend->name());
    if (target.vulkan) report.device_uuid = target.vulkan->capabilities().uuid;
    report.before = bench::read_environment();
    if (!flags.limits.empty()) {
        VKFORMER_TRY(report.limits, limits_of(flags.limits, report.device_uuid));
    } else if (target.vulkan && !flags.no_limits) {
        VKFORMER_TRY(report.limits, bench::measure_limits(target.vulkan->device(), limit_options(quiet)));
    }
    return report;
}

Result<int> end_report(bench::Report& report, const MeasureFlags& flags) {
    report.after = bench::read_environment();
    if (!flags.html.empty()) {
        const std::string page = bench::as_html(report);
        VKFORMER_CHECK(write_file(utf8_path(flags.html), std::as_bytes(std::span(page))));
    }
    VKFORMER_CHECK(flags.json ? print_json(as_json(report)) : print(as_text(report)));
    return report.all_right() ? kOk : kDivergence;
}

}  // namespace vkformer::cli
