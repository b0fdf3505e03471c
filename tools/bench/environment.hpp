// SPDX-License-Identifier: MIT
/// Clocks, temperatures and throttling, as far as the system lets anyone read them: what may have disturbed a measurement.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace vkformer::bench {

struct Reading {
    std::string name;  ///< "cpu clock, slowest core", "amdgpu edge temperature"
    std::string unit;  ///< "MHz", "°C", "W", "events"
    double value = 0;
};

/// Linux: cpufreq, thermal zones, the hwmon folders of graphics cards, Intel's graphics clock and throttle flag, x86 throttle
/// counts. What is not there is left out; nothing is an error. `root` is "/" but in tests.
std::vector<Reading> read_environment(const std::filesystem::path& root = "/");

}  // namespace vkformer::bench
