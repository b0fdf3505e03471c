// SPDX-License-Identifier: MIT
#include "tuning/verdicts.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>
#include <span>
#include <thread>

#include <nlohmann/json.hpp>

#include "core/hash.hpp"
#include "core/mapped_file.hpp"
#include "core/output_file.hpp"
#include "core/platform/files.hpp"
#include "core/platform/process.hpp"
#include "core/try.hpp"
#include "formats/json.hpp"
#include "shader_table.hpp"

namespace vkformer::tuning {
namespace {

using nlohmann::json;

constexpr int kFormat = 2;

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

/// No other process has it while this lives, of those that wait as this does. Who is stopped while he has it is not waited for for ever.
class Lock {
public:
    explicit Lock(const std::filesystem::path& path) {
        constexpr int kMostMilliseconds = 1000;
        for (int i = 0; (file_ = platform::lock_file(path)) < 0 && errno == EAGAIN && i < kMostMilliseconds; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
        if (is_held()) platform::close_file(file_);
    }
    bool is_held() const noexcept { return file_ >= 0; }

private:
    int file_ = -1;
};

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
    path_ = std::move(folder) / ("variants-" + device.uuid + "-" + shader_hash() + ".json");
    read();
}

VerdictFile::Mark VerdictFile::mark_of(const std::string& trial) {
    const int self = platform::process_id();
    return {trial, self, platform::process_start(self)};
}

/// The process's number alone does not say so: in a container the next process often has the same.
bool VerdictFile::is_running(const Mark& mark) {
    if (!platform::process_exists(mark.process)) return false;
    const std::uint64_t start = platform::process_start(mark.process);
    return start == 0 || start == mark.started;
}

void VerdictFile::read() {
    const auto opened = MappedFile::open(path_);
    const auto bytes = opened ? (*opened)->bytes() : std::span<const std::byte>();
    const std::uint64_t hash = opened ? hash_bytes(bytes) : 0;
    if (hash == hash_) return;
    hash_ = hash;
    others_.clear();
    const auto parsed = formats::parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "verdicts");
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
        std::vector<Mark> others;
        const Mark own = mark_of(marked_);
        for (const json& trying : member(file, "trying")) {
            Mark mark{text(trying, "trial"), member(trying, "process").get<int>(),
                      member(trying, "started").get<std::uint64_t>()};
            if (mark == own) continue;
            if (is_running(mark))
                others.push_back(std::move(mark));
            else
                ++unfinished[mark.trial];
        }
        for (auto& [key, verdict] : verdicts)
            if (!changed_.contains(key)) verdicts_[key] = std::move(verdict);
        for (auto& [model, us] : timings)
            if (!changed_.contains(model)) timings_[model] = std::move(us);
        for (const std::string& trial : ended_) unfinished.erase(trial);
        unfinished_ = std::move(unfinished);
        others_ = std::move(others);
    } catch (const json::exception&) {  // not ours, or damaged: as if it were not there
    }
}

const Verdict* VerdictFile::find(const std::string& key) const {
    const auto found = verdicts_.find(key);
    return found == verdicts_.end() ? nullptr : &found->second;
}

void VerdictFile::set(const std::string& key, Verdict verdict) {
    verdicts_[key] = std::move(verdict);
    changed_.insert(key);
}

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
    ended_.insert(trying_);
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
    changed_.insert(model);
}

void VerdictFile::save() {
    if (path_.empty()) return;
    const auto written = write();
    failure_ = written ? std::string() : written.error().message;
}

Result<void> VerdictFile::write() {
    const std::filesystem::path folder = path_.parent_path();
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    std::optional<Lock> lock;
    if (may_lock_) may_lock_ = lock.emplace(folder / "variants.lock").is_held();  // without it, some may be lost
    read();
    json file;
    file["format"] = kFormat;
    file["stamp"] = stamp_;
    for (const char* name : {"verdicts", "timings", "unfinished"}) file[name] = json::value_t::object;
    for (const auto& [key, verdict] : verdicts_) file["verdicts"][key] = as_json(verdict);
    for (const auto& [model, times] : timings_)
        for (const auto& [backend, us] : times) file["timings"][model][backend] = us;
    for (const auto& [trial, count] : unfinished_) file["unfinished"][trial] = count;
    std::vector<Mark> marks = others_;
    if (const Mark own = mark_of(trying_); !trying_.empty() && std::ranges::find(marks, own) == marks.end())
        marks.push_back(own);
    json& trying = file["trying"] = json::value_t::array;
    for (const Mark& mark : marks) {
        json& object = trying.emplace_back();
        object["trial"] = mark.trial;
        object["process"] = mark.process;
        object["started"] = mark.started;
    }
    const std::string text = file.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
    const auto bytes = std::as_bytes(std::span(text));
    VKFORMER_CHECK(write_cache_file(path_, {bytes}));
    hash_ = hash_bytes(bytes);
    marked_ = trying_;
    changed_.clear();
    ended_.clear();
    return {};
}

}  // namespace vkformer::tuning
