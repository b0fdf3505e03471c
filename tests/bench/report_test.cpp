// SPDX-License-Identifier: MIT
#include "bench/report.hpp"

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using namespace bench;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

std::vector<Limit> some_limits() {
    return {{.name = std::string(kCopyBandwidth), .unit = "GB/s", .how = "test", .value = 100},
            {.name = std::string(kReadBandwidth), .unit = "GB/s", .how = "test", .value = 80},
            {.name = std::string(kPeakF32), .unit = "GFLOP/s", .how = "test", .value = 1000},
            {.name = std::string(kPeakF16), .unit = "GFLOP/s", .how = "test", .value = 1500},
            {.name = std::string(kPeakIntDot), .unit = "Gop/s", .missing = "the device lacks the feature"},
            {.name = std::string(kPeakMatrixF16), .unit = "GFLOP/s", .how = "test", .value = 8000}};
}

Report some_report() {
    Report report{.version = "1.2.3",
                  .command = "vkformer bench ops --json",
                  .date = "2026-01-01T00:00:00Z",
                  .device_uuid = std::string(32, 'c'),
                  .device = {{"device", "Test <GPU>"}, {"driver", "1 & 2"}},
                  .before = {{"cpu clock", "MHz", 1000}},
                  .after = {{"cpu clock", "MHz", 900}},
                  .limits = some_limits()};
    CaseReport c{.op = "linear",
                 .shape = "1x2x3",
                 .dtype = "f16",
                 .cache = "hot",
                 .work = {.flops = 2e6, .read = 3e3, .written = 1e3, .arithmetic = cases::Arithmetic::f16}};
    c.measured.variant = "row";
    c.measured.device_ns = {.median = 1000, .mad = 5, .interval = {990, 1020}, .runs = 40, .stable = true};
    c.measured.wall_ns = {.median = 3000, .mad = 50, .interval = {2900, 3100}, .runs = 4, .stable = false};
    c.share = share_of(roof_for(report.limits, c.work.arithmetic), c.work, 1e-6);
    report.cases.push_back(c);
    CaseReport wrong{.op = "add", .shape = "1x1", .dtype = "f32", .cache = "cold"};
    wrong.measured.check = {.error = 1, .bound = 1e-6, .failure = "element 0 is 2, expected 1"};
    report.cases.push_back(wrong);
    return report;
}

TEST_CASE("the roof over a case is the lower of arithmetic and memory", "[bench][roofline]") {
    const auto limits = some_limits();
    CHECK(roof_for(limits, cases::Arithmetic::f32).peak == 1e12);
    CHECK(roof_for(limits, cases::Arithmetic::f16).peak == 8e12);
    CHECK(roof_for(limits, cases::Arithmetic::integer).peak_name == kPeakMatrixF16);  // int_dot is missing
    CHECK(roof_for(limits, cases::Arithmetic::f32).bandwidth == 1e11);
    CHECK(roof_for({}, cases::Arithmetic::f32).peak == 0);

    const Roof roof = roof_for(limits, cases::Arithmetic::f32);  // ridge: 10 FLOP per byte
    const auto compute = share_of(roof, {.flops = 1e9, .read = 1e6}, 2e-3);
    REQUIRE(compute);
    CHECK(compute->limit == kPeakF32);
    CHECK(compute->share == Approx(0.5));  // 1 ms of 2
    const auto memory = share_of(roof, {.flops = 1e6, .read = 6e5, .written = 4e5}, 2e-5);
    REQUIRE(memory);
    CHECK(memory->limit == kCopyBandwidth);
    CHECK(memory->share == Approx(0.5));  // 10 us of 20
    CHECK_FALSE(share_of(roof_for({}, cases::Arithmetic::f32), {.flops = 1, .read = 1}, 1));
}

TEST_CASE("a report survives JSON", "[bench][report]") {
    const Report report = some_report();
    const json text = as_json(report);
    CHECK(text["cases"][0]["gflops"].get<double>() == Approx(2000));
    CHECK(text["cases"][0]["gbps"].get<double>() == Approx(4));
    CHECK(text["cases"][0]["roofline"]["share"].get<double>() == Approx(0.25));
    CHECK(text["cases"][1]["right"] == false);
    CHECK_FALSE(text["cases"][1].contains("device_time"));
    CHECK(text["limits"][4]["missing"] == "the device lacks the feature");
    CHECK(text["environment"]["after"][0]["value"] == 900);

    const auto back = report_from_json(json::parse(text.dump()), "report.json");
    REQUIRE(back);
    REQUIRE(back->cases.size() == 2);
    CHECK(back->cases[0].timed());
    CHECK(back->cases[0].measured.device_ns.interval.high == 1020);
    CHECK(back->cases[0].measured.device_ns.stable);
    CHECK(back->cases[0].measured.wall_ns.runs == 4);
    CHECK_FALSE(back->cases[1].timed());
    CHECK(back->device_uuid == report.device_uuid);
    REQUIRE(back->limits.size() == report.limits.size());
    for (std::size_t i = 0; i < report.limits.size(); ++i) {
        CHECK(back->limits[i].name == report.limits[i].name);
        CHECK(back->limits[i].unit == report.limits[i].unit);
        CHECK(back->limits[i].value == report.limits[i].value);
        CHECK(back->limits[i].missing == report.limits[i].missing);
    }
    CHECK_FALSE(back->all_right());
}

TEST_CASE("a report that is none, or is damaged, is refused by name", "[bench][report]") {
    const auto refused = [](const json& damaged) {
        const auto result = report_from_json(damaged, "some.json");
        REQUIRE_FALSE(result);
        CHECK(result.error().code == ErrorCode::CorruptFile);
        CHECK_THAT(result.error().message, ContainsSubstring("some.json"));
    };
    refused(json::array());
    refused(json::object());
    refused({{"schema", "vkformer-bench-ops/2"}});
    const json good = as_json(some_report());
    for (const char* field : {"device", "cases", "device_uuid", "limits"}) {
        json damaged = good;
        damaged.erase(field);
        refused(damaged);
        damaged = good;
        damaged[field] = 7;
        refused(damaged);
    }
    json damaged = good;
    damaged["cases"][0]["device_time"].erase("median_ns");
    refused(damaged);
    damaged = good;
    damaged["cases"][0]["device_time"]["median_ns"] = 0;  // a logarithm is taken of it
    refused(damaged);
    damaged = good;
    damaged["cases"][0]["device_time"]["low_ns"] = -5;
    refused(damaged);
}

TEST_CASE("the table tells right from wrong", "[bench][report]") {
    const std::string text = as_text(some_report());
    CHECK_THAT(text, ContainsSubstring("WRONG: element 0 is 2, expected 1"));
    CHECK_THAT(text, ContainsSubstring("25.0 % of peak_matrix_f16"));
    CHECK_THAT(text, ContainsSubstring("cpu clock"));
    CHECK(time_text(999) == "999 ns");
    CHECK(time_text(1.5e6) == "1.50 ms");
}

TEST_CASE("what a compiler says of a shader is told once", "[bench][report]") {
    Report report = some_report();
    CHECK(distinct_code(report).empty());
    CHECK(as_text(report).find("registers") == std::string::npos);
    const Code spilling{.shader = "linear_x",
                        .subgroup_size = 32,
                        .compile_ms = 2,
                        .summary = vulkan::PipelineSummary{.registers = 255, .spills = 17}};
    Code other = spilling;
    other.summary->spills = 0;
    report.cases[0].measured.code = {spilling, spilling, other};
    report.cases[1].measured.code = {{.shader = "silent"}, spilling};
    const auto all = distinct_code(report);
    REQUIRE(all.size() == 2);
    CHECK(all[0].number == 1);
    CHECK(all[1].code->summary->spills == 0);
    CHECK_THAT(as_text(report), ContainsSubstring("linear_x                                   255      17        -"));
    const json pipelines = as_json(report)["cases"][0]["pipelines"];
    REQUIRE(pipelines.size() == 3);
    CHECK(pipelines[0]["registers"] == 255);
    CHECK_FALSE(pipelines[0].contains("waves"));
}

}  // namespace
}  // namespace vkformer::tests
