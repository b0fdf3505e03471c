// SPDX-License-Identifier: MIT
#include "bench/environment.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

namespace fs = std::filesystem;

class FakeSystem {
public:
    void put(const std::string& path, const std::string& text) const {
        fs::create_directories((root / path).parent_path());
        std::ofstream(root / path) << text << '\n';
    }

    const TemporaryFolder folder;
    const fs::path& root = folder.path();
};

TEST_CASE("clocks and temperatures are read where the system has them", "[bench][environment]") {
    const FakeSystem system;
    CHECK(bench::read_environment(system.root).empty());
    system.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000");
    system.put("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000");
    system.put("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "4");
    system.put("sys/devices/system/cpu/cpufreq/policy0", "");
    system.put("sys/class/thermal/thermal_zone0/type", "acpitz");
    system.put("sys/class/thermal/thermal_zone0/temp", "45500");
    system.put("sys/class/thermal/thermal_zone1/type", "broken");
    system.put("sys/class/thermal/thermal_zone1/temp", "nothing");
    system.put("sys/class/drm/card0/device/hwmon/hwmon3/name", "amdgpu");
    system.put("sys/class/drm/card0/device/hwmon/hwmon3/temp1_input", "61000");
    system.put("sys/class/drm/card0/device/hwmon/hwmon3/temp1_label", "edge");
    system.put("sys/class/drm/card0/device/hwmon/hwmon3/freq1_input", "1500000000");
    system.put("sys/class/drm/card0-DP-1/device/hwmon/hwmon9/temp1_input", "1000");

    const auto readings = bench::read_environment(system.root);
    const auto value = [&](const std::string& name) {
        const auto found = std::ranges::find(readings, name, &bench::Reading::name);
        return found == readings.end() ? -1.0 : found->value;
    };
    CHECK(value("cpu clock, slowest core") == 2000);
    CHECK(value("cpu clock, fastest core") == 3000);
    CHECK(value("cpu throttled, all cores since boot") == 4);
    CHECK(value("acpitz temperature") == 45.5);
    CHECK(value("card0 amdgpu edge temperature") == 61);
    CHECK(value("card0 amdgpu clock") == 1500);
    CHECK(readings.size() == 6);
}

}  // namespace
}  // namespace vkformer::tests
