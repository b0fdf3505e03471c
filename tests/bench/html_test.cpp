// SPDX-License-Identifier: MIT
#include "bench/html.hpp"

#include <regex>

#include "bench/markup.hpp"
#include "bench/roofline_plot.hpp"
#include "support/catch.h"

namespace vkformer::tests {
namespace {

using namespace bench;
using Catch::Matchers::ContainsSubstring;

Report plotted_report() {
    Report report{.version = "1", .command = "vkformer bench ops --op '<b>'", .date = "2026-01-01T00:00:00Z"};
    report.device = {{"device", "GPU <&> \"Co\""}};
    report.limits = {{.name = std::string(kCopyBandwidth), .unit = "GB/s", .how = "t", .value = 100},
                     {.name = std::string(kPeakF32), .unit = "GFLOP/s", .how = "t", .value = 1000},
                     {.name = std::string(kPeakF16), .unit = "GFLOP/s", .missing = "<none>"}};
    for (const double ns : {1000.0, 2000.0, 1000.0}) {
        CaseReport c{
            .op = "linear", .shape = "1x1x1", .dtype = "f32", .cache = "cold", .work = {.flops = 1e5, .read = 1e4}};
        c.measured.device_ns = {.median = ns, .mad = 1, .interval = {ns - 1, ns + 1}, .runs = 9};
        c.share = Share{.limit = "peak_f32", .seconds = 1e-7, .share = 1e-7 / (ns * 1e-9)};
        c.measured.code = {
            {.shader = "linear_<x>", .compile_ms = 1, .summary = vulkan::PipelineSummary{.registers = 64}}};
        report.cases.push_back(c);
    }
    report.cases.push_back({.op = "add", .shape = "9x9", .dtype = "f32", .cache = "cold", .error = "no <memory>"});
    return report;
}

/// Every element that is opened is closed, in order; void elements of HTML aside.
bool is_well_nested(const std::string& text) {
    static const std::regex tag("<(/?)([a-zA-Z0-9]+)([^>]*)>");
    std::vector<std::string> open;
    for (auto at = std::sregex_iterator(text.begin(), text.end(), tag); at != std::sregex_iterator(); ++at) {
        const std::string name = (*at)[2], rest = (*at)[3];
        if (rest.ends_with("/") || name == "meta" || name == "br") continue;
        if ((*at)[1].length() == 0) {
            open.push_back(name);
        } else {
            if (open.empty() || open.back() != name) return false;
            open.pop_back();
        }
    }
    return open.empty();
}

TEST_CASE("text becomes markup", "[bench][html]") {
    CHECK(escape("a<b & \"c\" 'd'>\x01") == "a&lt;b &amp; &quot;c&quot; &#39;d&#39;&gt;\xEF\xBF\xBD");
    CHECK(number_text(0) == "0");
    CHECK(number_text(1234.5) == "1234");
    CHECK(number_text(12.345) == "12.3");
    CHECK(number_text(0.012345) == "0.0123");
    CHECK(number_text(1.5e9) == "1.50e+09");
    CHECK(number_text(1e-9) == "1.00e-09");
}

TEST_CASE("the roofline has the limits as lines and the cases as points where they belong", "[bench][html]") {
    const std::string svg = roofline_svg(plotted_report());
    CHECK(is_well_nested(svg));
    CHECK_THAT(svg, ContainsSubstring("copy_bandwidth 100 GB/s"));
    CHECK_THAT(svg, ContainsSubstring("peak_f32 1000 GFLOP/s"));
    CHECK(svg.find("peak_f16") == std::string::npos);

    // 10 FLOP per byte on an axis of 1 to 100; 100 and 50 GFLOP/s on one of 10 to 10000
    static const std::regex circle("circle cx=\"([0-9.]+)\" cy=\"([0-9.]+)\" r=\"4.0\"");
    std::vector<std::pair<double, double>> points;
    for (auto at = std::sregex_iterator(svg.begin(), svg.end(), circle); at != std::sregex_iterator(); ++at)
        points.emplace_back(std::stod((*at)[1]), std::stod((*at)[2]));
    REQUIRE(points.size() == 3);  // not the case that did not run
    CHECK(points[0].first == Approx((70 + 940) / 2.0));
    CHECK(points[0].second == Approx(504 - (504 - 44) / 3.0).epsilon(0.001));
    CHECK(points[1].second > points[0].second);
    CHECK(points[2] == points[0]);

    Report empty = plotted_report();
    empty.limits.clear();
    CHECK(roofline_svg(empty).empty());
}

struct Box {
    double left, top, right, bottom;
    bool meets(const Box& other) const {
        return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
    }
    bool is_within(const Box& other) const {
        return left >= other.left && right <= other.right && top >= other.top && bottom <= other.bottom;
    }
};

/// What matches, as numbers and, last, text.
template <class Make>
void for_each_match(const std::string& svg, const char* pattern, Make make) {
    const std::regex regex(pattern);
    for (auto at = std::sregex_iterator(svg.begin(), svg.end(), regex); at != std::sregex_iterator(); ++at) make(*at);
}

TEST_CASE("nothing in the roofline lies on anything else, and the legend lies outside", "[bench][html]") {
    Report report = plotted_report();
    report.limits.push_back({.name = std::string(kReadBandwidth), .unit = "GB/s", .how = "t", .value = 104});
    report.limits.push_back({.name = std::string(kPeakIntDot), .unit = "Gop/s", .how = "t", .value = 1010});
    // Clusters near a bandwidth, near the peaks, and one point many times.
    for (int i = 0; i < 24; ++i) {
        CaseReport c = report.cases.front();
        c.dtype = i % 3 == 0 ? "f32" : i % 3 == 1 ? "f16" : "q8_0";
        c.work = {.flops = 1e5 * (1 + i % 4), .read = i < 12 ? 1e4 : 2e2};
        c.measured.device_ns.median = i < 12 ? 1000.0 + 40 * i : 110.0 + 4 * i;
        report.cases.push_back(c);
    }
    const std::string svg = roofline_svg(report);
    const auto number = [](const std::ssub_match& text) { return std::stod(text.str()); };

    Box plot{1e9, 1e9, -1e9, -1e9};
    for_each_match(svg, "<line x1=\"([0-9.]+)\" y1=\"([0-9.]+)\" x2=\"([0-9.]+)\" y2=\"([0-9.]+)\" class=\"grid\"",
                   [&](const std::smatch& m) {
                       plot = {std::min(plot.left, number(m[1])), std::min(plot.top, number(m[4])),
                               std::max(plot.right, number(m[3])), std::max(plot.bottom, number(m[2]))};
                   });
    REQUIRE(plot.right - plot.left > 500);

    std::vector<Box> points, words;
    for_each_match(svg, "circle cx=\"([0-9.]+)\" cy=\"([0-9.]+)\" r=\"4.0\"", [&](const std::smatch& m) {
        points.push_back({number(m[1]) - 4, number(m[2]) - 4, number(m[1]) + 4, number(m[2]) + 4});
    });
    for_each_match(svg, "<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" class=\"(number|roof-name end)\">([^<]*)</text>",
                   [&](const std::smatch& m) {
                       const double width = 6.5 * static_cast<double>(m[4].length()), x = number(m[1]);
                       const double left = m[3] == "number" ? x : x - width;
                       words.push_back({left, number(m[2]) - 8, left + width, number(m[2])});  // of the digits' height
                   });
    CHECK(points.size() == 27);
    REQUIRE(words.size() == 27 + 4);
    for (std::size_t i = 0; i < words.size(); ++i) {
        CAPTURE(i);
        CHECK(words[i].is_within(plot));
        for (std::size_t k = 0; k < i; ++k) CHECK_FALSE(words[i].meets(words[k]));
        for (const Box& point : points) CHECK_FALSE(words[i].meets(point));
    }

    std::size_t dots = 0;
    for_each_match(svg, "circle cx=\"([0-9.]+)\" cy=\"([0-9.]+)\" r=\"4\"", [&](const std::smatch& m) {
        CHECK(number(m[2]) + 4 < plot.top);
        ++dots;
    });
    CHECK(dots == 3);
    for_each_match(svg, "<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" class=\"tick legend\"",
                   [&](const std::smatch& m) { CHECK(number(m[2]) < plot.top); });
}

TEST_CASE("the page stands alone", "[bench][html]") {
    const std::string html = as_html(plotted_report());
    const std::string body = html.substr(html.find("</style>") + 8);
    CHECK(is_well_nested(html.substr(html.find("<html"), html.find("<style>") - html.find("<html")) + body));
    CHECK_THAT(body, ContainsSubstring("GPU &lt;&amp;&gt; &quot;Co&quot;"));
    CHECK_THAT(body, ContainsSubstring("did not run: no &lt;memory&gt;"));
    CHECK_THAT(body, ContainsSubstring("&lt;none&gt;"));
    CHECK_THAT(body, ContainsSubstring("<td>linear_&lt;x&gt;</td>"));
    CHECK(html.find("<script") == std::string::npos);
    CHECK(html.find("src=") == std::string::npos);
    CHECK(html.find("href=") == std::string::npos);
    CHECK(html.find("@import") == std::string::npos);
    CHECK(html.find("url(") == std::string::npos);
}

}  // namespace
}  // namespace vkformer::tests
