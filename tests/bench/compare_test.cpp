// SPDX-License-Identifier: MIT
#include "bench/compare.hpp"

#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using namespace bench;

CaseReport timed_case(const std::string& shape, double median, double half_width,
                      const std::string& variant = "plain") {
    CaseReport c{.op = "linear", .shape = shape, .dtype = "f32", .cache = "cold"};
    c.measured.variant = variant;
    c.measured.device_ns = {.median = median,
                            .mad = half_width / 2,
                            .interval = {median - half_width, median + half_width},
                            .runs = 30,
                            .stable = true};
    return c;
}

Report report_of(std::vector<CaseReport> cases, const std::string& uuid = std::string(32, 'a')) {
    Report report{.version = "1", .command = "vkformer bench ops", .date = "2026-01-01T00:00:00Z", .device_uuid = uuid};
    report.device = {{"device", "Test GPU"}};
    report.cases = std::move(cases);
    return report;
}

Change change_of(const CaseReport& before, const CaseReport& after) {
    const ComparisonReport report = compare(report_of({before}), report_of({after}), 0.03);
    REQUIRE(report.cases.size() == 1);
    return report.cases[0].change;
}

TEST_CASE("a ratio's interval comes from those of its two medians", "[bench][compare]") {
    const auto ratio =
        ratio_interval(timed_case("1x1x1", 100, 3).measured.device_ns, timed_case("1x1x1", 200, 8).measured.device_ns);
    // relative half widths of 3 % and 4 %: together 5 %
    CHECK(ratio.low == Approx(2 * 0.95).epsilon(0.003));
    CHECK(ratio.high == Approx(2 * 1.05).epsilon(0.003));
    const auto certain =
        ratio_interval(timed_case("1x1x1", 100, 0).measured.device_ns, timed_case("1x1x1", 50, 0).measured.device_ns);
    CHECK(certain.low == Approx(0.5));
    CHECK(certain.high == Approx(0.5));
}

TEST_CASE("compare calls a change only what is beyond noise", "[bench][compare]") {
    CHECK(change_of(timed_case("1x1x1", 100, 1), timed_case("1x1x1", 90, 1)) == Change::faster);
    CHECK(change_of(timed_case("1x1x1", 100, 1), timed_case("1x1x1", 111, 1)) == Change::slower);
    CHECK(change_of(timed_case("1x1x1", 100, 10), timed_case("1x1x1", 90, 10)) == Change::same);    // intervals hold 1
    CHECK(change_of(timed_case("1x1x1", 100, 0.1), timed_case("1x1x1", 98, 0.1)) == Change::same);  // below the noise
    CHECK(change_of(timed_case("1x1x1", 100, 1), timed_case("1x1x1", 100, 1)) == Change::same);
}

TEST_CASE("compare: of a few runs nothing is said", "[bench][compare]") {
    CaseReport before = timed_case("1x1x1", 100, 0), after = timed_case("1x1x1", 200, 0);
    CHECK(change_of(before, after) == Change::slower);
    after.measured.device_ns.runs = kMinRuns - 1;
    CHECK(change_of(before, after) == Change::too_few_runs);
    CHECK(change_of(after, before) == Change::too_few_runs);
    before.measured.device_ns = {};  // then it is the host's times that are compared
    before.measured.wall_ns = after.measured.wall_ns = timed_case("1x1x1", 100, 1).measured.device_ns;
    CHECK(change_of(before, after) == Change::same);
}

TEST_CASE("compare: wrong results are no times", "[bench][compare]") {
    const CaseReport good = timed_case("1x1x1", 100, 1);
    CaseReport wrong = good;
    wrong.measured.check.failure = "element 3 is 1, expected 2";
    CHECK(change_of(good, wrong) == Change::now_wrong);
    CHECK(change_of(wrong, good) == Change::now_right);
    CHECK(change_of(wrong, wrong) == Change::incomparable);
}

TEST_CASE("compare pairs the cases of two reports", "[bench][compare]") {
    const Report before = report_of({timed_case("1x1x1", 100, 1, "plain"), timed_case("1x1x1", 50, 1, "row"),
                                     timed_case("2x2x2", 100, 1, "plain"), timed_case("3x3x3", 1, 0.1)});
    const Report after = report_of({timed_case("1x1x1", 50, 1, "row"), timed_case("1x1x1", 100, 1, "plain"),
                                    timed_case("2x2x2", 10, 1, "row"), timed_case("4x4x4", 1, 0.1)});
    const ComparisonReport report = compare(before, after, 0.03);
    REQUIRE(report.cases.size() == 3);
    CHECK(report.cases[0].change == Change::same);
    CHECK(report.cases[1].change == Change::same);
    CHECK(report.cases[2].change == Change::faster);  // the only one of its kind, though another variant
    CHECK(report.cases[2].variant_before == "plain");
    CHECK(report.cases[2].variant_after == "row");
    CHECK(report.only_before == std::vector<std::string>{"linear 3x3x3 f32 cold plain"});
    CHECK(report.only_after == std::vector<std::string>{"linear 4x4x4 f32 cold plain"});
}

TEST_CASE("compare knows devices apart", "[bench][compare]") {
    CHECK(device_difference(report_of({}), report_of({})).empty());
    CHECK_FALSE(device_difference(report_of({}), report_of({}, std::string(32, 'b'))).empty());
    CHECK(device_difference(report_of({}, ""), report_of({}, "")).empty());
    Report other = report_of({}, "");
    other.device[0].second = "CPU";
    CHECK_FALSE(device_difference(report_of({}, ""), other).empty());
}

}  // namespace
}  // namespace vkformer::tests
