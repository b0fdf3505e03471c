// SPDX-License-Identifier: MIT
#include "bench/report.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <tuple>

namespace vkformer::bench {
namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    return text;
}

/// Whether anything is wrong, in a word or two.
std::string verdict(const CaseReport& c) {
    if (!c.error.empty()) return "did not run: " + c.error;
    if (!c.measured.check.right()) return "WRONG: " + c.measured.check.failure;
    return "";
}

std::string row(const CaseReport& c) {
    std::string text = format("%-18s %-22s %-4s %-10s ", c.op.c_str(), c.shape.c_str(), c.dtype.c_str(),
                              c.measured.variant.empty() ? "-" : c.measured.variant.c_str());
    if (!c.timed()) return text + verdict(c) + "\n";
    const Summary& time = c.time();
    text += format("%-4s %10s ±%4.1f%% %5s%c %10.2f %9.2f", c.cache.c_str(), time_text(time.median).c_str(),
                   50 * (time.interval.high - time.interval.low) / time.median, std::to_string(time.runs).c_str(),
                   time.stable ? ' ' : '!', c.flops_per_second() * 1e-9, c.bytes_per_second() * 1e-9);
    if (c.share) text += format(" %5.1f %% of %s", 100 * c.share->share, c.share->limit.c_str());
    return text + "\n";
}

std::string limits_text(const std::vector<Limit>& limits) {
    std::string text = limits.empty() ? "" : "Measured limits of the device:\n";
    for (const Limit& limit : limits)
        text += limit.missing.empty()
                    ? format("  %-18s %12.2f %-8s (%s)\n", limit.name.c_str(), limit.value, limit.unit.c_str(),
                             limit.how.c_str())
                    : format("  %-18s %12s %-8s (%s)\n", limit.name.c_str(), "-", "", limit.missing.c_str());
    return text;
}

/// What was read before and after, side by side; nothing where the system says nothing.
std::string environment_text(const Report& report) {
    if (report.before.empty()) return "Clocks, temperatures: this system lets nobody read them.\n";
    std::string text = "Clocks and temperatures, before and after:\n";
    for (const Reading& before : report.before) {
        const auto after = std::ranges::find(report.after, before.name, &Reading::name);
        text += format("  %-36s %10.1f", before.name.c_str(), before.value);
        if (after != report.after.end()) text += format(" %10.1f", after->value);
        text += " " + before.unit + "\n";
    }
    return text;
}

/// What decides how fast a shader can be, for comparing.
auto figures(const Code& code) {
    return std::tie(code.shader, code.summary->registers, code.summary->spills, code.summary->instructions,
                    code.summary->shared_bytes);
}

/// Nothing where the driver says nothing.
std::string code_text(const Report& report) {
    const auto all = distinct_code(report);
    if (all.empty()) return "";
    std::string text = format("\n%-36s %9s %7s %8s %6s %8s %9s\n", "shader, as its compiler sees it", "registers",
                              "spills", "shared", "waves", "instr", "compile");
    for (const auto& [number, code] : all)
        text += format("%-36s %9s %7s %8s %6s %8s %6.1f ms\n", code->shader.c_str(),
                       count_text(code->summary->registers).c_str(), count_text(code->summary->spills).c_str(),
                       count_text(code->summary->shared_bytes).c_str(), count_text(code->summary->waves).c_str(),
                       count_text(code->summary->instructions).c_str(), code->compile_ms);
    return text;
}

}  // namespace

std::vector<NumberedCode> distinct_code(const Report& report) {
    std::vector<NumberedCode> all;
    for (std::size_t i = 0; i < report.cases.size(); ++i)
        for (const Code& code : report.cases[i].measured.code) {
            if (!code.summary) continue;
            const auto same = [&](const NumberedCode& other) { return figures(*other.code) == figures(code); };
            if (std::ranges::none_of(all, same)) all.push_back({i + 1, &code});
        }
    return all;
}

std::string count_text(const std::optional<double>& count) { return count ? format("%.0f", *count) : "-"; }

void CaseReport::hold_against(const std::vector<Limit>& limits) {
    if (timed()) share = share_of(roof_for(limits, work.arithmetic), work, time().median * 1e-9);
}

bool Report::all_right() const {
    return std::ranges::all_of(cases, [](const CaseReport& c) { return verdict(c).empty(); });
}

std::string time_text(double ns) {
    if (ns < 1e3) return format("%.0f ns", ns);
    if (ns < 1e6) return format("%.2f us", ns * 1e-3);
    if (ns < 1e9) return format("%.2f ms", ns * 1e-6);
    return format("%.2f s", ns * 1e-9);
}

std::string as_text(const Report& report) {
    std::string text;
    for (const auto& [name, value] : report.device) text += format("%-21s %s\n", name.c_str(), value.c_str());
    text.append("\n").append(limits_text(report.limits) + (report.limits.empty() ? "" : "\n") +
                             environment_text(report) + "\n");
    text += format("%-18s %-22s %-4s %-10s %-4s %10s %6s %6s %10s %9s %s\n", "op", "shape", "type", "variant", "mem",
                   "time", "±95%", "runs ", "GFLOP/s", "GB/s", "share of limit");
    for (const CaseReport& c : report.cases) text += row(c);
    text += "\nTimes are medians; ± is half the 95 % interval of the median; ! marks a time that had not settled.\n";
    return text + code_text(report);
}

}  // namespace vkformer::bench
