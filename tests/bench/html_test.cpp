// SPDX-License-Identifier: MIT
#include "bench/html.hpp"

#include <regex>

#include "bench/markup.hpp"
#include "bench/roofline_plot.hpp"
#include "support/catch.h"

namespace vkformer::tests {
namespace {

using namespace vkformer::bench;
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
    CHECK(points[0].second == Approx(504 - (504 - 20) / 3.0).epsilon(0.001));
    CHECK(points[1].second > points[0].second);
    CHECK(points[2] == points[0]);

    // The numbers of the two points at one place do not lie on each other.
    static const std::regex number("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" class=\"number\">(\\d)</text>");
    std::map<std::string, std::string> places;
    for (auto at = std::sregex_iterator(svg.begin(), svg.end(), number); at != std::sregex_iterator(); ++at)
        places[(*at)[3]] = (*at)[1].str() + " " + (*at)[2].str();
    REQUIRE(places.size() == 3);
    CHECK(places["1"] != places["3"]);

    Report empty = plotted_report();
    empty.limits.clear();
    CHECK(roofline_svg(empty).empty());
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
