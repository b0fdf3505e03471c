// SPDX-License-Identifier: MIT
// vkformer tune: what it tries, prints and keeps, and who uses that.
#include <algorithm>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/temporary_folder.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

/// Where the program finds its cache.
std::string home(const TemporaryFolder& cache) { return "XDG_CACHE_HOME=" + cache.path().string() + " "; }

std::string golden_model(const std::string& name) { return " --model " + (goldens_dir() / name).string() + " "; }

/// Cases, and the variants that were tried of each in their order: what does not depend on the clock.
std::vector<std::pair<std::string, std::vector<std::string>>> tried(const json& report) {
    std::vector<std::pair<std::string, std::vector<std::string>>> cases;
    for (const json& verdict : report["verdicts"]) {
        auto& [key, variants] = cases.emplace_back(verdict["case"].get<std::string>(), std::vector<std::string>());
        for (const json& trial : verdict["trials"]) variants.push_back(trial["variant"].get<std::string>());
    }
    return cases;
}

}  // namespace

TEST_CASE("tune: every variant on the shapes of a model", "[cli][tuning]") {
    const Outcome list = run("tune --list");
    CHECK(list.exit_code == 0);
    CHECK_THAT(list.out, ContainsSubstring("\nlinear: ") && ContainsSubstring(" tile_vec4, "));
    const json listed = json::parse(run("tune --list --json").out);
    CHECK(std::ranges::count(listed["linear"], "tile") == 1);
    CHECK_FALSE(listed.contains("add"));  // it has but one
    if (vulkan_device_indices().empty()) return;

    const TemporaryFolder cache;
    const std::string device = "-d " + vulkan_device_indices().front() + " ";
    const auto run_cached = [&](const std::string& arguments) { return run(arguments, "", home(cache)); };
    const Outcome tuned = run_cached("tune --json --length 4 --steps 4 --beams 1 " + device);
    CAPTURE(tuned.err);
    REQUIRE(tuned.exit_code == 0);
    const json report = json::parse(tuned.out);
    CHECK(fs::exists(report["file"].get<std::string>()));
    REQUIRE(report["verdicts"].size() > 3);
    CHECK(report["not_kept"] == json::array());
    for (const json& verdict : report["verdicts"]) {
        CHECK(verdict["trials"].size() > 1);
        for (const json& trial : verdict["trials"]) CHECK(trial.contains("us"));
    }
    const json info = json::parse(run_cached("info --json").out);
    CHECK(info["devices"][std::stoul(vulkan_device_indices().front())]["verdicts"].size() == report["verdicts"].size());

    for (const std::string choice : {"--plain", "--variant linear=tile --variant attention=tile"}) {
        const Outcome plain = run_cached("translate --beams 1 'March 4, 2021' " + choice + " " + device);
        CHECK(plain.exit_code == 0);
        CHECK(plain.out == "2021-03-04\n");
    }
}

TEST_CASE("tune keeps its verdicts, and who meets the same shapes tries nothing", "[cli][tuning]") {
    if (vulkan_device_indices().empty()) return;
    const TemporaryFolder cache;
    const std::string shapes = " --length 4 --steps 4 --beams 1 -d " + vulkan_device_indices().front() +
                               golden_model("encoder_decoders/t5_d22_relu");
    const Outcome tuned = run("tune --json" + shapes, "", home(cache));
    CAPTURE(tuned.err);
    REQUIRE(tuned.exit_code == 0);
    const json report = json::parse(tuned.out);
    std::set<std::string> keys;
    for (const auto& [key, value] : report.items()) keys.insert(key);
    CHECK(keys == std::set<std::string>{"device", "driver", "file", "model", "not_kept", "verdicts"});
    REQUIRE(report["verdicts"].size() > 3);
    for (const json& verdict : report["verdicts"]) {
        CAPTURE(verdict.dump());
        const json* fastest = nullptr;
        for (const json& trial : verdict["trials"]) {
            if (trial.contains("fault")) continue;
            CHECK(trial["us"].get<double>() > 0);
            CHECK(trial["error"].get<double>() <= trial["bound"].get<double>());
            if (!fastest || trial["us"] < (*fastest)["us"]) fastest = &trial;
        }
        REQUIRE(fastest);
        CHECK(verdict["variant"] == (*fastest)["variant"]);
    }

    // The programs of a generation are those that were tuned: nothing is left to try, until a shape is another.
    const fs::path file = report["file"].get<std::string>();
    const std::string kept = read_file(file);
    for (const auto& [key, variants] : tried(report)) CHECK_THAT(kept, ContainsSubstring(json(key).dump()));
    CHECK(run("bench model -q --runs 1" + shapes, "", home(cache)).exit_code == 0);
    CHECK(read_file(file) == kept);
    CHECK(
        run("bench model -q --runs 1 --length 9" + shapes.substr(shapes.find(" --steps")), "", home(cache)).exit_code ==
        0);
    CHECK(read_file(file) != kept);

    // Tuned again, the same cases and variants.
    const Outcome again = run("tune --json" + shapes, "", home(cache));
    REQUIRE(again.exit_code == 0);
    CHECK(tried(json::parse(again.out)) == tried(report));
    const Outcome text = run("tune" + shapes, "", home(cache));
    CHECK(text.exit_code == 0);
    for (const auto& [key, variants] : tried(report)) CHECK_THAT(text.out, ContainsSubstring(key + "\n"));
    CHECK_THAT(text.out, ContainsSubstring("  * ") && ContainsSubstring("kept in " + file.string()));
}

TEST_CASE("tune: the step of a beam search", "[cli][tuning][beam]") {
    if (vulkan_device_indices().empty()) return;
    const TemporaryFolder cache;
    const Outcome tuned = run("tune --json --beams 3 --length 4 --steps 4 -d " + vulkan_device_indices().front() +
                                  golden_model("decoders/qwen2"),
                              "", home(cache));
    CAPTURE(tuned.err);
    REQUIRE(tuned.exit_code == 0);
    std::size_t of_three_rows = 0;
    for (const auto& [key, variants] : tried(json::parse(tuned.out)))
        of_three_rows += key.find("x=f32[3,") != key.npos ? 1 : 0;
    CHECK(of_three_rows > 1);
}

TEST_CASE("tune says where nothing could be kept", "[cli][tuning][cache]") {
    if (vulkan_device_indices().empty()) return;
    const TemporaryFolder folder;
    std::ofstream(folder / "file") << "no folder";
    const std::string shapes = " --length 4 --steps 2 --beams 1 -d " + vulkan_device_indices().front() +
                               golden_model("encoder_decoders/t5_d22_relu");
    const std::string unwritable = "XDG_CACHE_HOME=" + quoted(folder / "file/cache") + " ";
    const Outcome text = run("tune" + shapes, "", unwritable);
    CHECK(text.exit_code == 0);
    CHECK_THAT(text.err, ContainsSubstring("vkformer: nothing is kept for the next run"));
    CHECK_THAT(text.out, ContainsSubstring("\nnot kept: cannot write ") && !ContainsSubstring("kept in"));
    const Outcome report = run("tune --json" + shapes, "", unwritable);
    CHECK(report.exit_code == 0);
    CHECK(json::parse(report.out)["file"].is_null());

    // The folder alone is not all that can be in the way.
    const TemporaryFolder cache;
    const json kept = json::parse(run("tune --json" + shapes, "", home(cache)).out);
    const fs::path file = kept["file"].get<std::string>();
    fs::remove(file);
    fs::create_directory(file);
    CHECK_THAT(run("tune" + shapes, "", home(cache)).out, ContainsSubstring("\nnot kept: cannot write "));
}

TEST_CASE("tune refuses what it cannot tune", "[cli][tuning][errors]") {
    refuses("tune --device cpu", "choose a Vulkan device");
    refuses("tune --device no-such-device", vulkan_device_indices().empty() ? "no Vulkan driver" : "no-such-device");
    refuses("tune --model /nonexistent", "/nonexistent");
    refuses("tune --dtype f8", "dtype");
    refuses("tune --beams 33", "beams");
    refuses("tune --length 0", "length");
    refuses("tune --steps 0", "steps");
    refuses("tune --batch many", "batch");
    refuses("tune --cache-dtype q4_0", "cache-dtype");
    refuses("tune --beams 2" + golden_model("encoders/bert_pairs"), "answers in one pass");
}

}  // namespace vkformer::tests

#endif
