// SPDX-License-Identifier: MIT
/// What `bench ops` and `bench shader` share: the device, how to measure, and the report around the cases.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/report.hpp"
#include "cli.hpp"

namespace vkformer::cli {

struct OpenedTarget {
    std::unique_ptr<graph::Backend> backend;
    bench::Target target;
};
/// With profiling, and pipeline statistics where the driver has them. Errors: those of opening a backend.
Result<OpenedTarget> open_target(const DeviceOptions& options);

struct MeasureFlags {
    std::string cache = "cold", html, limits;
    double seconds = 2, bound = 2, rotate_mib = 0;
    bool no_limits = false, json = false;

    void add(CLI::App& command);
    bench::MeasureOptions options(const bench::Target& target) const;
    std::vector<bench::Cache> caches() const;
};

/// Says which device it is, unless `quiet`; measures its limits. Errors: DeviceLost.
Result<bench::Report> begin_report(const bench::Target& target, const MeasureFlags& flags, bool quiet);
/// Prints, and writes the page. The exit code. Errors: a file that cannot be written.
Result<int> end_report(bench::Report& report, const MeasureFlags& flags);

}  // namespace vkformer::cli
