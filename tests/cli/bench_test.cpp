// SPDX-License-Identifier: MIT
/// vkformer bench as a user runs it. Times are looked at only for being there.
#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

void check_time(const json& time) {
    CHECK(time["median_ns"].get<double>() > 0);
    CHECK(time["low_ns"].get<double>() <= time["median_ns"].get<double>());
    CHECK(time["high_ns"].get<double>() >= time["median_ns"].get<double>());
    CHECK(time["runs"].get<int>() >= 1);
}

}  // namespace

TEST_CASE("bench ops: what there is", "[cli][bench]") {
    const Outcome outcome = run("bench ops --list");
    CHECK(outcome.exit_code == 0);
    CHECK_THAT(outcome.out, ContainsSubstring("linear  rows x in x out"));
    CHECK_THAT(outcome.out, ContainsSubstring("1024x1024x1024"));
}

TEST_CASE("bench ops: a case as JSON, on the CPU", "[cli][bench]") {
    const Outcome outcome =
        run("bench ops --device cpu -q --json --seconds 0.05 --op linear --shape 2x8x4 --cache both");
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.err.empty());
    const json report = json::parse(outcome.out);
    CHECK(report["schema"] == "vkformer-bench-ops/1");
    CHECK(report["limits"].empty());
    REQUIRE(report["cases"].size() == 2);
    const json& c = report["cases"][0];
    CHECK(c["cache"] == "cold");
    CHECK(report["cases"][1]["cache"] == "hot");
    CHECK(c["flops"] == 2 * 2 * 8 * 4);
    CHECK(c["bytes_read"] == 4 * (2 * 8 + 8 * 4));
    CHECK(c["bytes_written"] == 4 * 2 * 4);
    CHECK(c["right"] == true);
    CHECK(c["error"].get<double>() <= c["bound"].get<double>());
    CHECK(c["device_time"].is_null());
    check_time(c["wall_time"]);
    CHECK(c["copies"].get<int>() > 1);
    CHECK(report["cases"][1]["copies"] == 1);
}

TEST_CASE("bench ops: every variant on every Vulkan device", "[cli][bench]") {
    for (const std::string& device : vulkan_device_indices()) {
        CAPTURE(device);
        const Outcome outcome =
            run("bench ops -q --json --no-limits --seconds 0.05 --op linear --shape 3x16x8 --dtype f16 "
                "--all-variants --device " +
                device);
        REQUIRE(outcome.exit_code == 0);
        const json report = json::parse(outcome.out);
        CHECK(report["device_uuid"].get<std::string>().size() == 32);
        CHECK(report["cases"].size() > 1);
        for (const json& c : report["cases"]) {
            CHECK(c["right"] == true);
            CHECK_FALSE(c["variant"].get<std::string>().empty());
            CHECK_THAT(c["shader"].get<std::string>(), ContainsSubstring("linear"));
            check_time(c[c["device_time"].is_null() ? "wall_time" : "device_time"]);
        }
    }
}

TEST_CASE("bench ops: what it refuses", "[cli][bench][errors]") {
    const auto [arguments, what] = GENERATE(Catch::Generators::table<std::string, std::string>(
        {{"--op nothing", "there is no case for op nothing"},
         {"--op linear --shape 4x4", "takes the shape rows x in x out"},
         {"--op linear --shape 4x0x4", "is no shape"},
         {"--op linear --shape 4x4x4x", "is no shape"},
         {"--op linear --shape 4xx4", "is no shape"},
         {"--op linear --shape 99999999999x1x1", "is no shape"},
         {"--op linear --dtype f64", "linear has no dtype f64"},
         {"--op attention --shape 4x4x3x2x8", "no multiple of 2 key heads"},
         {"--cache warm", "warm"}}));
    CAPTURE(arguments);
    const Outcome outcome = run("bench ops --device cpu " + arguments);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("vkformer: error: "));
    CHECK_THAT(outcome.err, ContainsSubstring(what));
    CHECK(outcome.out.empty());
}

TEST_CASE("bench ops: a case that cannot run is reported, and the others are timed", "[cli][bench]") {
    const Outcome outcome =
        run("bench ops --device cpu -q --json --seconds 0.05 --op attention --shape 2x2x1x1x600 --shape 2x2x1x1x8");
    CHECK(outcome.exit_code == 1);
    const json report = json::parse(outcome.out);
    REQUIRE(report["cases"].size() == 2);
    CHECK(report["cases"][0]["right"] == false);
    CHECK_THAT(report["cases"][0]["failure"].get<std::string>(), ContainsSubstring("576"));
    CHECK(report["cases"][1]["right"] == true);
}

TEST_CASE("bench ops: a page with the roofline", "[cli][bench]") {
    const TemporaryFolder folder;
    const auto page = folder / "report.html";
    const Outcome outcome =
        run("bench ops --device cpu -q --seconds 0.05 --op add --shape 2x8 --html " + page.string());
    CHECK(outcome.exit_code == 0);
    CHECK_THAT(outcome.out, ContainsSubstring("add"));
    const std::string html = read_file(page);
    CHECK_THAT(html, ContainsSubstring("<!DOCTYPE html>") && ContainsSubstring("</html>"));
    CHECK_THAT(html, !ContainsSubstring("<script") && !ContainsSubstring("http-equiv"));
    CHECK(run("bench ops --device cpu -q --seconds 0.05 --op add --shape 2x8 --html /nonexistent/x.html").exit_code ==
          2);
}

TEST_CASE("bench compare: a report is the same as itself", "[cli][bench]") {
    const TemporaryFolder folder;
    const std::string path = (folder / "report.json").string();
    const Outcome report = run("bench ops --device cpu -q --json --seconds 0.05 --op add --shape 2x8");
    REQUIRE(report.exit_code == 0);
    std::ofstream(path) << report.out;
    const Outcome same = run("bench compare --json " + path + " " + path);
    REQUIRE(same.exit_code == 0);
    const json comparison = json::parse(same.out);
    REQUIRE(comparison["cases"].size() == 1);
    CHECK(comparison["cases"][0]["change"] == "same within noise");
    CHECK(comparison["cases"][0]["ratio"] == 1.0);
    CHECK(comparison["only_before"].empty());

    std::ofstream(folder / "other.json") << "{}";
    const Outcome refused = run("bench compare " + path + " " + (folder / "other.json").string());
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, ContainsSubstring("no report of `vkformer bench ops --json`"));
}

namespace {

const std::string kSample = std::string(VKFORMER_SOURCE_DIR) + "/samples/bench/rms_norm";

/// The sample's manifest, changed.
json sample_manifest() { return json::parse(read_file(kSample + ".json")); }

/// The sample with that manifest, on one device.
Outcome run_sample(const json& manifest, const std::string& device) {
    const TemporaryFolder folder;
    std::ofstream(folder / "m.json") << manifest.dump();
    return run("bench shader -q --json --no-limits --seconds 0.05 --device " + device + " " + kSample +
               ".comp --manifest " + (folder / "m.json").string());
}

}  // namespace

TEST_CASE("bench pipelines: what it passed over is refused", "[cli][bench][errors]") {
    refuses("bench pipelines --plain", "--plain");
    refuses("bench pipelines --variant linear=tile", "--variant");
    refuses("bench pipelines --first -1", "--first");
    refuses("bench pipelines --last -1", "--last");
    refuses("bench pipelines --first 5 --last 2", "--last 2");
    if (vulkan_device_indices().empty()) return;
    const std::string call = "bench pipelines -q --device " + vulkan_device_indices().front();
    refuses(call + " --only nosuch", "nosuch");
    refuses(call + " --first 99999", "--first 99999");
    const Outcome one = run(call + " --json --only arg_max --first 0 --last 0");
    CHECK(one.exit_code == 0);  // a part of the list may have none of that name: tests/drivers asks part by part
    CHECK(json::parse(one.out)["pipelines"].size() <= 1);
}

// The path comes from a file system, which takes any bytes.
TEST_CASE("bench and validate: reports of a model whose path is no UTF-8", "[cli][bench][validate]") {
    const TemporaryFolder folder;
    const auto linked = [&](const std::string& golden) {
        const fs::path link = folder.path() / (golden.substr(golden.find('/') + 1) + "\xff");
        fs::create_symlink(goldens_dir() / golden, link);
        return " -m " + quoted(link) + " ";
    };
    std::vector<std::string> commands = {
        "bench model -q --json --runs 1 --length 4 --steps 2 -d cpu" + linked("encoder_decoders/t5_d22_relu"),
        "bench model -q --json --runs 1 --length 4 --steps 2 -d cpu" + linked("decoders/qwen2"),
        "bench model -q --json --runs 1 --length 4 -d cpu" + linked("encoders/bert_h20")};
    if (!vulkan_device_indices().empty()) {
        const std::string device = " -d " + vulkan_device_indices().front();
        const std::string decoder = linked("decoders/gemma");
        commands.push_back("validate -q --json" + device + decoder);
        commands.push_back("bench guest --json --prompt 4 --tokens 4" + device + decoder);
    }
    for (const std::string& command : commands) {
        CAPTURE(command);
        const Outcome outcome = run(command);
        CAPTURE(outcome.err);
        REQUIRE(outcome.exit_code == 0);
        CHECK_THAT(json::parse(outcome.out)["model"].get<std::string>(), ContainsSubstring("\uFFFD"));
    }
}

TEST_CASE("bench shader: the sample is right and timed, and a wrong grid is found out", "[cli][bench][shader]") {
    for (const std::string& device : vulkan_device_indices()) {
        CAPTURE(device);
        json manifest = sample_manifest();
        manifest["reference"]["shape"] = "70x64";
        manifest["push"] = {70, 64, 1e-5};
        manifest["groups"] = {2};
        const Outcome right = run_sample(manifest, device);
        if (right.exit_code == 2) {  // built without shaderc
            CHECK_THAT(right.err, ContainsSubstring("shaderc"));
            return;
        }
        REQUIRE(right.exit_code == 0);
        const json c = json::parse(right.out)["cases"].at(0);
        CHECK(c["op"] == "rms_norm.comp");
        CHECK(c["right"] == true);
        check_time(c[c["device_time"].is_null() ? "wall_time" : "device_time"]);

        manifest["groups"] = {1};  // leaves rows 64 to 69 as they are
        const Outcome wrong = run_sample(manifest, device);
        CHECK(wrong.exit_code == 1);
        const json w = json::parse(wrong.out)["cases"].at(0);
        CHECK(w["right"] == false);
        CHECK_FALSE(w.contains("device_time"));
        CHECK_THAT(w["failure"].get<std::string>(), ContainsSubstring("element 4096 is nan"));
    }
}

TEST_CASE("bench shader: an operand may be in blocks, as GGUF has them", "[cli][bench][shader]") {
    const TemporaryFolder folder;
    std::ofstream(folder / "rows.comp") << R"(#version 450
layout(local_size_x = 8) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Weight { uint weight[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };
uint byte_at(uint i) { return weight[i / 4] >> 8 * (i % 4) & 255u; }
void main() {
    float sum = 0.0;
    for (uint block = 0; block < 2; ++block) {
        const uint begin = (gl_GlobalInvocationID.x * 2 + block) * 34;
        float part = 0.0;
        for (uint i = 0; i < 32; ++i) part += float(int(byte_at(begin + 2 + i) << 24) >> 24) * x[block * 32 + i];
        sum += unpackHalf2x16(byte_at(begin) | byte_at(begin + 1) << 8).x * part;
    }
    if (gl_GlobalInvocationID.x < 7) y[gl_GlobalInvocationID.x] = sum;
}
)";
    std::ofstream(folder / "rows.json")
        << R"({"reference": {"op": "linear", "shape": "1x64x7", "dtype": "q8_0"}, "groups": [1], "buffers":
        [{"binding": 0, "operand": "x"}, {"binding": 1, "operand": "weight"}, {"binding": 2, "result": 0}]})";
    for (const std::string& device : vulkan_device_indices()) {
        CAPTURE(device);
        const Outcome outcome = run("bench shader -q --json --no-limits --seconds 0.05 --device " + device + " " +
                                    (folder / "rows.comp").string() + " --manifest " + (folder / "rows.json").string());
        if (outcome.exit_code == 2 && outcome.err.find("shaderc") != std::string::npos) return;  // built without it
        CAPTURE(outcome.err);
        REQUIRE(outcome.exit_code == 0);
        CHECK(json::parse(outcome.out)["cases"].at(0)["right"] == true);
    }
}

TEST_CASE("bench shader: what it refuses", "[cli][bench][shader][errors]") {
    const TemporaryFolder folder;
    std::ofstream(folder / "none.spv") << "this is no SPIR-V, but it is long enough";
    std::ofstream(folder / "bad.json") << "{";
    std::ofstream(folder / "bad.comp") << "void main() { nonsense }";
    const auto refuses = [&](const std::string& arguments, const std::string& what) {
        CAPTURE(arguments);
        const Outcome outcome = run("bench shader " + arguments);
        CHECK(outcome.exit_code == 2);
        CHECK_THAT(outcome.err, ContainsSubstring("vkformer: error: ") && ContainsSubstring(what));
        CHECK(outcome.out.empty());
    };
    refuses(kSample + ".comp", "--manifest");
    refuses(kSample + ".comp --manifest " + (folder / "bad.json").string(), "bad.json");
    refuses(kSample + ".comp --manifest /nonexistent.json", "/nonexistent.json");
    refuses("--device cpu " + kSample + ".comp --manifest " + kSample + ".json", "the CPU backend runs no shaders");
    refuses((folder / "none.spv").string() + " --manifest " + kSample + ".json", "no SPIR-V");
    refuses((folder / "gone.comp").string() + " --manifest " + kSample + ".json", "cannot open");
    const Outcome outcome = run("bench shader " + (folder / "bad.comp").string() + " --manifest " + kSample + ".json");
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("nonsense") || ContainsSubstring("built without shaderc"));
    CHECK(outcome.out.empty());
}

}  // namespace vkformer::tests

#endif
