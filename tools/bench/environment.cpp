// SPDX-License-Identifier: MIT
#include "bench/environment.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

namespace vkformer::bench {
namespace {

namespace fs = std::filesystem;

std::optional<double> number_in(const fs::path& path) {
    std::ifstream file(path);
    double value = 0;
    if (file >> value) return value;
    return std::nullopt;
}

std::string word_in(const fs::path& path) {
    std::ifstream file(path);
    std::string word;
    std::getline(file, word);
    return word;
}

/// The entries of a folder whose names begin so, sorted; none if there is no such folder.
std::vector<fs::path> entries(const fs::path& folder, std::string_view prefix) {
    std::vector<fs::path> found;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder, missing))
        if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
}

void add(std::vector<Reading>& readings, std::string name, const char* unit, const fs::path& path, double scale) {
    if (const auto value = number_in(path)) readings.push_back({std::move(name), unit, *value * scale});
}

void add_cpu(std::vector<Reading>& readings, const fs::path& root) {
    double slowest = 0, fastest = 0, throttled = -1;
    for (const fs::path& cpu : entries(root / "sys/devices/system/cpu", "cpu")) {
        if (const auto khz = number_in(cpu / "cpufreq/scaling_cur_freq")) {
            slowest = slowest == 0 ? *khz : std::min(slowest, *khz);
            fastest = std::max(fastest, *khz);
        }
        if (const auto count = number_in(cpu / "thermal_throttle/core_throttle_count"))
            throttled = std::max(throttled, 0.0) + *count;
    }
    if (fastest > 0) {
        readings.push_back({"cpu clock, slowest core", "MHz", slowest * 1e-3});
        readings.push_back({"cpu clock, fastest core", "MHz", fastest * 1e-3});
    }
    if (throttled >= 0) readings.push_back({"cpu throttled, all cores since boot", "events", throttled});
}

void add_thermal_zones(std::vector<Reading>& readings, const fs::path& root) {
    for (const fs::path& zone : entries(root / "sys/class/thermal", "thermal_zone"))
        add(readings, word_in(zone / "type") + " temperature", "°C", zone / "temp", 1e-3);
}

void add_hwmon(std::vector<Reading>& readings, const std::string& card, const fs::path& hwmon) {
    const std::string chip = card + " " + word_in(hwmon / "name");
    for (const fs::path& input : entries(hwmon, "temp")) {
        const std::string file = input.filename().string();
        if (!file.ends_with("_input")) continue;
        const std::string label = word_in(hwmon / (file.substr(0, file.size() - 5) + "label"));
        add(readings, chip + (label.empty() ? "" : " " + label) + " temperature", "°C", input, 1e-3);
    }
    add(readings, chip + " clock", "MHz", hwmon / "freq1_input", 1e-6);
    add(readings, chip + " memory clock", "MHz", hwmon / "freq2_input", 1e-6);
    add(readings, chip + " power", "W", hwmon / "power1_average", 1e-6);
}

void add_cards(std::vector<Reading>& readings, const fs::path& root) {
    for (const fs::path& card : entries(root / "sys/class/drm", "card")) {
        const std::string name = card.filename().string();
        if (name.find('-') != std::string::npos) continue;  // a connector: card0-DP-1
        for (const fs::path& hwmon : entries(card / "device/hwmon", "hwmon")) add_hwmon(readings, name, hwmon);
        add(readings, name + " clock", "MHz", card / "gt_cur_freq_mhz", 1);
        add(readings, name + " throttled", "", card / "gt/gt0/throttle_reason_status", 1);
    }
}

}  // namespace

std::vector<Reading> read_environment(const fs::path& root) {
    std::vector<Reading> readings;
    add_cpu(readings, root);
    add_thermal_zones(readings, root);
    add_cards(readings, root);
    return readings;
}

}  // namespace vkformer::bench
