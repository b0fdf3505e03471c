// SPDX-License-Identifier: MIT
#include "bench/report.hpp"

#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "core/try.hpp"

namespace vkformer::bench {
namespace {

using nlohmann::json;

json limit_json(const Limit& limit) {
    if (!limit.missing.empty()) return {{"name", limit.name}, {"unit", limit.unit}, {"missing", limit.missing}};
    return {{"name", limit.name},
            {"unit", limit.unit},
            {"value", limit.value},
            {"how", limit.how},
            {"time", as_json(limit.ns)}};
}

json as_json(const std::vector<Reading>& readings) {
    json list = json::array();
    for (const Reading& r : readings) list.push_back({{"name", r.name}, {"unit", r.unit}, {"value", r.value}});
    return list;
}

json case_json(const CaseReport& c) {
    const Check& check = c.measured.check;
    json object = {{"op", c.op},
                   {"shape", c.shape},
                   {"dtype", c.dtype},
                   {"variant", c.measured.variant},
                   {"shader", c.measured.shader},
                   {"cache", c.cache},
                   {"copies", c.measured.copies},
                   {"flops", c.work.flops},
                   {"bytes_read", c.work.read},
                   {"bytes_written", c.work.written},
                   {"arithmetic", to_string(c.work.arithmetic)},
                   {"right", c.error.empty() && check.right()},
                   {"error", check.error},
                   {"bound", check.bound}};
    for (const Code& code : c.measured.code) object["pipelines"].push_back(as_json(code));
    if (!c.error.empty()) object["failure"] = c.error;
    if (!check.right()) object["failure"] = check.failure;
    if (!c.timed()) return object;
    object["device_time"] = as_json(c.measured.device_ns);
    object["wall_time"] = as_json(c.measured.wall_ns);
    object["gflops"] = c.flops_per_second() * 1e-9;
    object["gbps"] = c.bytes_per_second() * 1e-9;
    if (c.share)
        object["roofline"] = {
            {"limit", c.share->limit}, {"least_ns", c.share->seconds * 1e9}, {"share", c.share->share}};
    return object;
}

/// A field that must be there and of the type. nlohmann throws where it is not: caught in report_from_json.
Summary summary_from(const json& object) {
    if (object.is_null()) return {};
    const Summary summary{.median = object.at("median_ns").get<double>(),
                          .mad = object.at("mad_ns").get<double>(),
                          .interval = {object.at("low_ns").get<double>(), object.at("high_ns").get<double>()},
                          .runs = object.at("runs").get<std::size_t>(),
                          .stable = object.at("stable").get<bool>()};
    const bool in_order = 0 < summary.interval.low && summary.interval.low <= summary.median &&
                          summary.median <= summary.interval.high && std::isfinite(summary.interval.high);
    if (!in_order) throw std::invalid_argument("a time is not low_ns <= median_ns <= high_ns above 0");
    return summary;
}

CaseReport case_from(const json& object) {
    CaseReport c{.op = object.at("op").get<std::string>(),
                 .shape = object.at("shape").get<std::string>(),
                 .dtype = object.at("dtype").get<std::string>(),
                 .cache = object.at("cache").get<std::string>()};
    c.measured.variant = object.at("variant").get<std::string>();
    c.measured.copies = object.at("copies").get<std::size_t>();
    c.work = {.flops = object.at("flops").get<double>(),
              .read = object.at("bytes_read").get<double>(),
              .written = object.at("bytes_written").get<double>()};
    if (!object.at("right").get<bool>()) c.measured.check.failure = object.at("failure").get<std::string>();
    if (object.contains("device_time")) c.measured.device_ns = summary_from(object["device_time"]);
    if (object.contains("wall_time")) c.measured.wall_ns = summary_from(object["wall_time"]);
    return c;
}

}  // namespace

json as_json(const Summary& summary) {
    if (summary.runs == 0) return nullptr;
    return {{"median_ns", summary.median},      {"mad_ns", summary.mad},
            {"least_ns", summary.least},        {"low_ns", summary.interval.low},
            {"high_ns", summary.interval.high}, {"runs", summary.runs},
            {"stable", summary.stable}};
}

json as_json(const Report& report) {
    json device = json::object(), limits = json::array(), cases = json::array();
    for (const auto& [name, value] : report.device) device[name] = value;
    for (const Limit& limit : report.limits) limits.push_back(limit_json(limit));
    for (const CaseReport& c : report.cases) cases.push_back(case_json(c));
    return {{"schema", kSchema},
            {"vkformer", report.version},
            {"command", report.command},
            {"date", report.date},
            {"device_uuid", report.device_uuid},
            {"device", device},
            {"environment", {{"before", as_json(report.before)}, {"after", as_json(report.after)}}},
            {"limits", limits},
            {"cases", cases}};
}

Result<Report> report_from_json(const json& root, const std::string& file_name) {
    const auto corrupt = [&](const std::string& what) {
        return Error{ErrorCode::CorruptFile, file_name + ": " + what};
    };
    if (!root.is_object() || !root.contains("schema") || root["schema"] != kSchema)
        return corrupt(std::string("no report of `vkformer bench ops --json` (schema ") + kSchema + ")");
    try {
        Report report{.version = root.at("vkformer").get<std::string>(),
                      .command = root.at("command").get<std::string>(),
                      .date = root.at("date").get<std::string>(),
                      .device_uuid = root.at("device_uuid").get<std::string>()};
        for (const auto& [name, value] : root.at("device").items())
            report.device.emplace_back(name, value.get<std::string>());
        for (const json& object : root.at("limits")) {
            Limit& limit = report.limits.emplace_back();
            limit.name = object.at("name").get<std::string>();
            limit.unit = object.at("unit").get<std::string>();
            if (object.contains("missing")) {
                limit.missing = object["missing"].get<std::string>();
                continue;
            }
            limit.how = object.at("how").get<std::string>();
            limit.value = object.at("value").get<double>();
        }
        for (const json& c : root.at("cases")) report.cases.push_back(case_from(c));
        return report;
    } catch (const std::exception& failure)  // of the JSON library, and of summary_from
    {
        return corrupt(failure.what());
    }
}

}  // namespace vkformer::bench
