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

// Members one by one, by one function: a json's initializer lists, and at() of each length of a name, are three times the code.

json as_json(const Verdict& verdict) {
    json trials(json::value_t::array);
    for (const Trial& t : verdict.trials) {
        json& trial = trials.emplace_back();
        trial["variant"] = t.variant;
        trial["error"] = t.error;
        trial["bound"] = t.bound;
        trial["us"] = t.us;
        trial["fault"] = t.fault;
    }
    json object;
    object["variant"] = verdict.variant;
    object["trials"] = std::move(trials);
    return object;
}

/// These throw json::exception where the file was made by something else.
const json& member(const json& object, const char* name) { return object.at(std::string(name)); }
const json::object_t& members(const json& object, const char* name) {
    return member(object, name).get_ref<const json::object_t&>();
}
std::string text(const json& object, const char* name) { return member(object, name).get<std::string>(); }
double number(const json& object, const char* name) { return member(object, name).get<double>(); }

Verdict verdict_of(const json& object) {
    Verdict verdict{.variant = text(object, "variant")};
    for (const json& t : member(object, "trials"))
        verdict.trials.push_back({.variant = text(t, "variant"),
                                  .error = member(t, "error").is_number() ? number(t, "error") : 0,
                                  .bound = number(t, "bound"),
                                  .us = number(t, "us"),
                                  .fault = text(t, "fault")});
    return verdict;
}

constexpr int kPatience = 2;  // unfinished trials of a variant after which it is not tried again

std::string trial_name(std::string_view key, std::string_view variant) {
    return std::string(key) + " " + std::string(variant);
}

json process_as_json() {
    const int self = platform::process_id();
    json object;
    object["process"] = self;
    object["started"] = platform::process_start(self);
    return object;
}

/// Whether the process that process_as_json() was called in still runs. Its number alone does not say so: in a container the next process
/// often has the same.
bool is_running(const json& object) {
    const int process = member(object, "process").get<int>();
    if (!platform::process_exists(process)) return false;
    const std::uint64_t start = platform::process_start(process);
    return start == 0 || start == member(object, "started").get<std::uint64_t>();
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
        if (member(file, "format") != kFormat || member(file, "stamp") != stamp_) return;
        std::map<std::string, Verdict> verdicts;
        for (const auto& [key, value] : members(file, "verdicts")) verdicts.emplace(key, verdict_of(value));
        std::map<std::string, std::map<std::string, double>> timings;
        for (const auto& [model, value] : members(file, "timings"))
            for (const auto& [backend, us] : value.get_ref<const json::object_t&>())
                timings[model][backend] = us.get<double>();
        std::map<std::string, int> unfinished;
        for (const auto& [trial, value] : members(file, "unfinished")) unfinished[trial] = value.get<int>();
        if (const json& trying = member(file, "trying"); !trying.empty() && !is_running(member(trying, "by")))
            ++unfinished[text(trying, "trial")];
        verdicts_ = std::move(verdicts);
        timings_ = std::move(timings);
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
    json file;
    file["format"] = kFormat;
    file["stamp"] = stamp_;
    for (const char* name : {"verdicts", "timings", "unfinished", "trying"}) file[name] = json::value_t::object;
    for (const auto& [key, verdict] : verdicts_) file["verdicts"][key] = as_json(verdict);
    for (const auto& [model, times] : timings_)
        for (const auto& [backend, us] : times) file["timings"][model][backend] = us;
    for (const auto& [trial, count] : unfinished_) file["unfinished"][trial] = count;
    if (!trying_.empty()) {
        file["trying"]["trial"] = trying_;
        file["trying"]["by"] = process_as_json();
    }

    std::error_code ignored;
    std::filesystem::create_directories(path_.parent_path(), ignored);
    const std::string text = file.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
    (void)write_file(path_, std::as_bytes(std::span(text)));  // without it, the verdicts are found anew
}

}  // namespace vkformer::tuning
