// SPDX-License-Identifier: MIT
/// What a benchmark found, as data; and as JSON (docs/benchmark.md describes it) and text.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bench/card.hpp"
#include "bench/environment.hpp"
#include "bench/limits.hpp"
#include "bench/measure.hpp"
#include "bench/roofline.hpp"
#include "vkformer/result.hpp"

namespace vkformer::bench {

/// One case, measured or found wrong.
struct CaseReport {
    std::string op, shape, dtype, cache;
    cases::Work work;
    Measurement measured;
    std::string error;  ///< why it could not run; empty: it ran
    std::optional<Share> share;

    std::string name() const { return op + " " + shape + " " + dtype; }
    /// Device time where there is one (above 0: some clocks are coarse), else wall time.
    const Summary& time() const noexcept {
        return measured.device_ns.median > 0 ? measured.device_ns : measured.wall_ns;
    }
    double flops_per_second() const noexcept { return work.flops / time().median * 1e9; }
    double bytes_per_second() const noexcept { return work.bytes() / time().median * 1e9; }
    /// Sets `share`, where the case was timed and its limits are known.
    void hold_against(const std::vector<Limit>& limits);
    bool timed() const noexcept { return error.empty() && measured.check.right() && time().median > 0; }
};

struct Report {
    std::string version, command, date;  ///< date: ISO 8601, UTC
    std::string device_uuid;             ///< empty: the CPU backend
    Card device;
    std::vector<Reading> before, after;  ///< clocks and temperatures
    std::vector<Limit> limits;
    std::vector<CaseReport> cases;

    /// Whether every case ran and is right.
    bool all_right() const;
};

/// A shader with what the driver's compiler says of it, and the number of the first case that ran it, from 1.
struct NumberedCode {
    std::size_t number;
    const Code* code;
};
/// Each shader and what was said of it, once. Empty where the driver says nothing.
std::vector<NumberedCode> distinct_code(const Report& report);
/// A whole number, "-" where the driver is silent.
std::string count_text(const std::optional<double>& count);

inline constexpr const char* kSchema = "vkformer-bench-ops/1";

nlohmann::json as_json(const Summary& summary_ns);
nlohmann::json as_json(const Report& report);
/// What compare and other reports need of a report: cases with their times, and limits. Errors: CorruptFile (another schema, a field that is missing or of
/// another type), with the file's name.
Result<Report> report_from_json(const nlohmann::json& json, const std::string& file_name);

/// For a terminal.
std::string as_text(const Report& report);
/// "12.3 us", "4.56 ms"
std::string time_text(double ns);

}  // namespace vkformer::bench
