// SPDX-License-Identifier: MIT
#include "bench/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vkformer::bench {
namespace {

std::string key_of(const CaseReport& c) { return c.name() + " " + c.cache; }

Change verdict(const Comparison& c, double noise) {
    if (c.interval.high < 1 && c.ratio <= 1 - noise) return Change::faster;
    if (c.interval.low > 1 && c.ratio >= 1 + noise) return Change::slower;
    return Change::same;
}

Comparison compare_case(const CaseReport& before, const CaseReport& after, double noise) {
    Comparison c{
        .name = key_of(after), .variant_before = before.measured.variant, .variant_after = after.measured.variant};
    if (!before.timed() || !after.timed()) {
        if (before.timed()) c.change = Change::now_wrong;
        if (after.timed()) c.change = Change::now_right;
        return c;
    }
    // A time of the device and one of the host are no pair: take what both have.
    const bool device = before.measured.device_ns.runs && after.measured.device_ns.runs;
    const Summary& a = device ? before.measured.device_ns : before.measured.wall_ns;
    const Summary& b = device ? after.measured.device_ns : after.measured.wall_ns;
    c.before_ns = a.median;
    c.after_ns = b.median;
    c.ratio = b.median / a.median;
    c.interval = ratio_interval(a, b);
    c.change = std::min(a.runs, b.runs) < kMinRuns ? Change::too_few_runs : verdict(c, noise);
    return c;
}

/// The partner of a case: the same variant if there is one, else the only one of its kind (the device may choose another now).
const CaseReport* partner(const CaseReport& c, const std::vector<CaseReport>& others) {
    const CaseReport* only = nullptr;
    std::size_t count = 0;
    for (const CaseReport& other : others) {
        if (key_of(other) != key_of(c)) continue;
        if (other.measured.variant == c.measured.variant) return &other;
        only = &other;
        ++count;
    }
    return count == 1 ? only : nullptr;
}

std::string full_name(const CaseReport& c) { return key_of(c) + " " + c.measured.variant; }

}  // namespace

std::string_view to_string(Change change) noexcept {
    switch (change) {
    case Change::faster: return "faster";
    case Change::slower: return "slower";
    case Change::same: return "same within noise";
    case Change::too_few_runs: return "too few runs to tell";
    case Change::now_wrong: return "now wrong";
    case Change::now_right: return "now right";
    case Change::incomparable: return "not comparable";
    }
    return "";
}

Interval ratio_interval(const Summary& before, const Summary& after) {
    const double a = std::log(before.median), a_low = std::log(before.interval.low),
                 a_high = std::log(before.interval.high);
    const double b = std::log(after.median), b_low = std::log(after.interval.low),
                 b_high = std::log(after.interval.high);
    return {std::exp(b - a - std::hypot(b - b_low, a_high - a)), std::exp(b - a + std::hypot(b_high - b, a - a_low))};
}

ComparisonReport compare(const Report& before, const Report& after, double noise) {
    ComparisonReport report;
    std::vector<const CaseReport*> met;
    for (const CaseReport& c : after.cases) {
        const CaseReport* const other = partner(c, before.cases);
        if (!other) {
            report.only_after.push_back(full_name(c));
            continue;
        }
        met.push_back(other);
        report.cases.push_back(compare_case(*other, c, noise));
    }
    for (const CaseReport& c : before.cases)
        if (std::ranges::find(met, &c) == met.end()) report.only_before.push_back(full_name(c));
    return report;
}

std::string device_difference(const Report& before, const Report& after) {
    const auto name = [](const Report& report) {
        const auto found = std::ranges::find(report.device, "device", &Card::value_type::first);
        return found == report.device.end() ? std::string("an unnamed device") : found->second;
    };
    if (before.device_uuid == after.device_uuid && (!before.device_uuid.empty() || name(before) == name(after)))
        return "";
    return "one report is of " + name(before) + " (" + before.device_uuid + "), the other of " + name(after) + " (" +
           after.device_uuid + ")";
}

std::string as_text(const ComparisonReport& report) {
    std::string text;
    char line[512];
    std::snprintf(line, sizeof line, "%-54s %-18s %11s %11s %7s  %-15s %s\n", "case", "variant", "before", "after",
                  "ratio", "95 %", "");
    text += line;
    for (const Comparison& c : report.cases) {
        const std::string variant =
            c.variant_before == c.variant_after ? c.variant_after : c.variant_before + " > " + c.variant_after;
        const std::string what(to_string(c.change));
        if (c.ratio > 0)
            std::snprintf(line, sizeof line, "%-54s %-18s %11s %11s %7.3f  %6.3f to %5.3f %s\n", c.name.c_str(),
                          variant.c_str(), time_text(c.before_ns).c_str(), time_text(c.after_ns).c_str(), c.ratio,
                          c.interval.low, c.interval.high, what.c_str());
        else
            std::snprintf(line, sizeof line, "%-54s %-18s %s\n", c.name.c_str(), variant.c_str(), what.c_str());
        text += line;
    }
    for (const std::string& name : report.only_before) text += "only before: " + name + "\n";
    for (const std::string& name : report.only_after) text += "only after: " + name + "\n";
    return text;
}

}  // namespace vkformer::bench
