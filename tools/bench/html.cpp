// SPDX-License-Identifier: MIT
#include "bench/html.hpp"

#include <algorithm>

#include "bench/markup.hpp"
#include "bench/roofline_plot.hpp"

namespace vkformer::bench {
namespace {

constexpr const char* kStyle = R"(
body { font: 15px/1.45 system-ui, sans-serif; color: #1b1f24; background: #fff; max-width: 1080px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; margin-bottom: .2em; } h2 { font-size: 1.15em; margin: 1.8em 0 .5em; }
p.meta, td.note { color: #57606a; } code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th { text-align: left; border-bottom: 2px solid #8c959f; padding: 4px 8px; } td { padding: 3px 8px; border-bottom: 1px solid #d8dee4; }
td.n, th.n { text-align: right; white-space: nowrap; } tr.wrong td { background: #ffebe9; } .wide { overflow-x: auto; }
.bar { display: inline-block; width: 80px; height: 9px; background: #eaeef2; vertical-align: baseline; margin-right: 6px; }
.bar span { display: block; height: 9px; background: #2f6fb0; }
svg.roofline { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg .grid { stroke: #e3e7eb; } svg .tick { fill: #57606a; } svg .axis { fill: #1b1f24; font-size: 13px; }
svg .middle { text-anchor: middle; } svg .end { text-anchor: end; }
svg .roof { stroke: #57606a; stroke-width: 1.5; } svg .leader { stroke: #8c959f; stroke-width: .7; } svg .roof-name { fill: #57606a; font-size: 11px; }
svg .number { font-size: 11px; fill: #1b1f24; } svg .point circle { stroke: #fff; stroke-width: 1; }
svg .f32 circle { fill: #2f6fb0; } svg .f16 circle { fill: #c8641b; } svg .quantised circle { fill: #2e8049; }
@media print { body { margin: 0; max-width: none; font-size: 11px; } table { font-size: 9px; } h2 { break-after: avoid; }
  tr, svg { break-inside: avoid; } .wide { overflow: visible; } * { print-color-adjust: exact; } }
)";

std::string cell(const std::string& text, bool number = false) {
    return std::string(number ? "<td class=\"n\">" : "<td>") + escape(text) + "</td>";
}

std::string device_table(const Card& card) {
    std::string html = "<h2>Device</h2>\n<table>\n";
    for (const auto& [name, value] : card) html += "<tr>" + cell(name) + cell(value) + "</tr>\n";
    return html + "</table>\n";
}

std::string limits_table(const std::vector<Limit>& limits) {
    if (limits.empty()) return "<h2>Limits</h2>\n<p>Not measured.</p>\n";
    std::string html =
        "<h2>Measured limits</h2>\n<table>\n<tr><th>limit</th><th "
        "class=\"n\">value</th><th>unit</th><th>how</th></tr>\n";
    for (const Limit& limit : limits) {
        html += "<tr>" + cell(limit.name);
        if (limit.missing.empty())
            html += cell(number_text(limit.value), true) + cell(limit.unit) + cell(limit.how) + "</tr>\n";
        else
            html += cell("–", true) + cell("") + "<td class=\"note\">" + escape(limit.missing) + "</td></tr>\n";
    }
    return html + "</table>\n";
}

std::string share_cell(const CaseReport& c) {
    if (!c.share) return "<td></td>";
    const double percent = 100 * c.share->share;
    return "<td><span class=\"bar\"><span style=\"width:" + coordinate(std::clamp(percent, 0.0, 100.0)) +
           "%\"></span></span>" + number_text(percent) + " % of " + escape(c.share->limit) + "</td>";
}

std::string case_row(const CaseReport& c, std::size_t number) {
    std::string html = cell(std::to_string(number), true) + cell(c.op) + cell(c.shape) + cell(c.dtype) +
                       cell(c.measured.variant) + cell(c.cache);
    if (!c.timed())
        return "<tr class=\"wrong\">" + html + "<td colspan=\"6\">" +
               escape(c.error.empty() ? "wrong: " + c.measured.check.failure : "did not run: " + c.error) +
               "</td></tr>\n";
    const Summary& time = c.time();
    const double spread = 50 * (time.interval.high - time.interval.low) / time.median;
    return "<tr>" + html + cell(time_text(time.median), true) + cell("±" + number_text(spread) + " %", true) +
           cell(std::to_string(time.runs) + (time.stable ? "" : " !"), true) +
           cell(number_text(c.flops_per_second() * 1e-9), true) + cell(number_text(c.bytes_per_second() * 1e-9), true) +
           share_cell(c) + "</tr>\n";
}

std::string case_table(const std::vector<CaseReport>& cases) {
    std::string html =
        "<h2>Cases</h2>\n<div class=\"wide\"><table>\n<tr><th class=\"n\">#</th><th>op</th><th>shape</th><th>dtype</th>"
        "<th>variant</th><th>cache</th><th class=\"n\">median</th><th class=\"n\">95 %</th><th class=\"n\">runs</th>"
        "<th class=\"n\">GFLOP/s</th><th class=\"n\">GB/s</th><th>share of the limit</th></tr>\n";
    for (std::size_t i = 0; i < cases.size(); ++i) html += case_row(cases[i], i + 1);
    return html +
           "</table></div>\n<p class=\"meta\">Times are medians of the device's own timestamps (wall times where it "
           "has "
           "none); 95 % is half the confidence interval of the median; ! marks a time that had not settled. Every "
           "result was "
           "compared with double precision before it was timed.</p>\n";
}

std::string code_table(const Report& report) {
    const auto all = distinct_code(report);
    if (all.empty()) return "";
    std::string html =
        "<h2>What the driver's compiler made of the shaders</h2>\n<div class=\"wide\"><table>\n<tr><th "
        "class=\"n\">first "
        "case</th><th>shader</th><th class=\"n\">subgroup</th><th class=\"n\">registers</th><th "
        "class=\"n\">spills</th><th "
        "class=\"n\">shared bytes</th><th class=\"n\">waves</th><th class=\"n\">instructions</th><th "
        "class=\"n\">compile "
        "ms</th></tr>\n";
    for (const auto& [number, code] : all) {
        html += "<tr>" + cell(std::to_string(number), true) + cell(code->shader) +
                cell(std::to_string(code->subgroup_size), true);
        for (const auto& count : {code->summary->registers, code->summary->spills, code->summary->shared_bytes,
                                  code->summary->waves, code->summary->instructions})
            html += cell(count_text(count), true);
        html += cell(number_text(code->compile_ms), true) + "</tr>\n";
    }
    return html + "</table></div>\n";
}

std::string environment_table(const Report& report) {
    if (report.before.empty()) return "<h2>Clocks and temperatures</h2>\n<p>This system lets nobody read them.</p>\n";
    std::string html =
        "<h2>Clocks and temperatures</h2>\n<table>\n<tr><th></th><th class=\"n\">before</th><th class=\"n\">after</th>"
        "<th>unit</th></tr>\n";
    for (const Reading& before : report.before) {
        const auto after = std::ranges::find(report.after, before.name, &Reading::name);
        html += "<tr>" + cell(before.name) + cell(number_text(before.value), true) +
                cell(after == report.after.end() ? "" : number_text(after->value), true) + cell(before.unit) +
                "</tr>\n";
    }
    return html + "</table>\n";
}

}  // namespace

std::string as_html(const Report& report) {
    const std::string device = report.device.empty() ? "" : report.device.front().second;
    std::string html =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>vkformer bench: " +
        escape(device) + "</title>\n<style>" + kStyle + "</style></head>\n<body>\n<h1>" + escape(device) +
        "</h1>\n<p class=\"meta\">vkformer " + escape(report.version) + ", " + escape(report.date) + "<br><code>" +
        escape(report.command) + "</code></p>\n";
    if (const std::string plot = roofline_svg(report); !plot.empty())
        html +=
            "<h2>Roofline</h2>\n" + plot +
            "<p class=\"meta\">Numbers are those of the cases below. A point on a line has reached that limit.</p>\n";
    return html + case_table(report.cases) + limits_table(report.limits) + code_table(report) +
           device_table(report.device) + environment_table(report) + "</body></html>\n";
}

}  // namespace vkformer::bench
