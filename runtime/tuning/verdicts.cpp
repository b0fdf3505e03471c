// SPDX-License-Identifier: MIT
#include "tuning/verdicts.hpp"

#include <cstdio>

#include <nlohmann/json.hpp>

#include "core/hash.hpp"
#include "core/output_file.hpp"
#include "core/platform/process.hpp"
#include "formats/json.hpp"
#include "shader_table.hpp"

namespace vkformer::tuning {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;

json as_json(const Verdict& verdict) {
    json trials = json::array();
    for (const Trial& t : verdict.trials)
        trials.push_back(
            {{"variant", t.variant}, {"error", t.error}, {"bound", t.bound}, {"us", t.us}, {"fault", t.fault}});
    return {{"variant", verdict.variant}, {"trials", trials}};
}

/// Throws json::exception where the file was made by something else.
Verdict verdict_of(const json& object) {
    Verdict verdict{.variant = object.at("variant").get<std::string>()};
    for (const json& t : object.at("trials"))
        verdict.trials.push_back({.variant = t.at("variant").get<std::string>(),
                                  .error = t.at("error").is_number() ? t.at("error").get<double>() : 0,
                                  .bound = t.at("bound").get<double>(),
                                  .us = t.at("us").get<double>(),
                                  .fault = t.at("fault").get<std::string>()});
    return verdict;
}

constexpr int kPatience = 2;  // unfinished trials of a variant after which it is not tried again

std::string trial_name(std::string_view key, std::string_view variant) {
    return std::string(key) + " " + std::string(variant);
}

json process_as_json() {
    const int self = platform::process_id();
    return {{"process", self}, {"started", platform::process_start(self)}};
}

/// Whether the process that process_as_json() was called in still runs. Its number alone does not say so: in a container the next process
/// often has the same.
bool is_running(const json& object) {
    const int process = object.at("process").get<int>();
    if (!platform::process_exists(process)) return false;
    const std::uint64_t start = platform::process_start(process);
    return start == 0 || start == object.at("started").get<std::uint64_t>();
}

}  // namespace

const std::string& shader_hash() {
    static const std::string hash = [] {
        const auto table = vulkan::shader_table();
        std::uint64_t value = hash_bytes(std::as_bytes(table.front().module.xz), kHashStart);  // that of all
        for (const vulkan::ShaderBinary& shader : table)
            value = hash_bytes(std::as_bytes(std::span(shader.name)), value);
        char digits[17];
        std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(value));
        return std::string(digits);
    }();
    return hash;
}

VerdictFile::VerdictFile(std::filesystem::path folder, const vulkan::Capabilities& device)
    : stamp_(device.name + " | " + device.driver + " | " + std::to_string(device.driver_version) + " | " +
             shader_hash()) {
    if (folder.empty()) return;
    path_ = std::move(folder) / ("variants-" + device.uuid + ".json");
    read();
}

void VerdictFile::read() {
    std::error_code ignored;
    if (!std::filesystem::exists(path_, ignored)) return;
    const auto parsed = formats::read_json(path_);
    if (!parsed) return;
    try {
        const json& file = *parsed;
        if (file.at("format") != kFormat || file.at("stamp") != stamp_) return;
        std::map<std::string, Verdict> verdicts;
        for (const auto& [key, value] : file.at("verdicts").items()) verdicts.emplace(key, verdict_of(value));
        const auto timings = file.at("timings").get<std::map<std::string, std::map<std::string, double>>>();
        auto unfinished = file.at("unfinished").get<std::map<std::string, int>>();
        if (const json& trying = file.at("trying"); !trying.empty() && !is_running(trying.at("by")))
            ++unfinished[trying.at("trial").get<std::string>()];
        verdicts_ = std::move(verdicts);
        timings_ = timings;
        unfinished_ = std::move(unfinished);
    } catch (const json::exception&) {  // not ours, or damaged: as if it were not there
    }
}

const Verdict* VerdictFile::find(const std::string& key) const {
    const auto found = verdicts_.find(key);
    return found == verdicts_.end() ? nullptr : &found->second;
}

void VerdictFile::set(const std::string& key, Verdict verdict) { verdicts_[key] = std::move(verdict); }

bool VerdictFile::may_try(const std::string& key, std::string_view variant) const {
    const auto found = unfinished_.find(trial_name(key, variant));
    return found == unfinished_.end() || found->second < kPatience;
}

bool VerdictFile::begin(const std::string& key, std::string_view variant) {
    if (!may_try(key, variant)) return false;
    trying_ = trial_name(key, variant);
    save();
    return true;
}

void VerdictFile::end() {
    unfinished_.erase(trying_);
    trying_.clear();
}

bool VerdictFile::has_unfinished(const std::string& key) const {
    const auto found = unfinished_.lower_bound(trial_name(key, ""));
    return found != unfinished_.end() && found->first.starts_with(trial_name(key, ""));
}

std::map<std::string, double> VerdictFile::timings(const std::string& model) const {
    const auto found = timings_.find(model);
    return found == timings_.end() ? std::map<std::string, double>() : found->second;
}

void VerdictFile::set_timings(const std::string& model, const std::map<std::string, double>& us) {
    timings_[model] = us;
}

void VerdictFile::save() {
    if (path_.empty()) return;
    json verdicts = json::object();
    for (const auto& [key, verdict] : verdicts_) verdicts[key] = as_json(verdict);
    json file = {{"format", kFormat},   {"stamp", stamp_},           {"verdicts", std::move(verdicts)},
                 {"timings", timings_}, {"unfinished", unfinished_}, {"trying", json::object()}};
    if (!trying_.empty()) file["trying"] = {{"trial", trying_}, {"by", process_as_json()}};

    std::error_code ignored;
    std::filesystem::create_directories(path_.parent_path(), ignored);
    const std::string text = file.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
    (void)write_file(path_, std::as_bytes(std::span(text)));  // without it, the verdicts are found anew
}

}  // namespace vkformer::tuning
