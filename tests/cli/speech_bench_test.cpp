// SPDX-License-Identifier: MIT
// vkformer validate and vkformer bench model for a model that hears.
#include <set>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

std::string model_option(const std::string& name) {
    return " --model " + (goldens_dir() / "speech" / name).string() + " ";
}

}  // namespace

TEST_CASE("validate: every node of Whisper's encoder and decoder", "[cli][validate][speech]") {
    const std::string device = GENERATE(from_range(device_names()));
    const std::string name = GENERATE("whisper_d30_h3_h5", "whisper_english", "whisper_times_423");
    const std::string dtype = GENERATE("f32", "f16");
    CAPTURE(device, name, dtype);
    if (!takes_case(device, 3)) return;
    const Outcome outcome = run("validate -q --json --device " + device + " --dtype " + dtype + model_option(name));
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const json reports = json::parse(outcome.out)["reports"];
    REQUIRE(reports.size() == 5);
    const std::vector<std::string> names = {"forward", "forward, attention weights kept", "encoder of a generation",
                                            "greedy step", "beam step"};
    for (std::size_t i = 0; i < reports.size(); ++i) {
        CHECK(reports[i]["graph"] == names[i]);
        CHECK(reports[i]["checks"].size() > 10);
        CHECK(reports[i]["first_divergence"].is_null());
        for (const json& check : reports[i]["checks"])
            CHECK(check["error"].get<double>() <= check["bound"].get<double>());
    }
    std::set<std::string> ops;
    for (const json& check : reports[3]["checks"]) ops.insert(check["op"].get<std::string>());
    for (const char* const op : {"decode_attention", "mask_logits", "mask_timestamps", "log_softmax", "greedy_step"}) {
        CAPTURE(op);
        CHECK(ops.contains(op));
    }
    ops.clear();
    for (const json& check : reports[4]["checks"]) ops.insert(check["op"].get<std::string>());
    for (const char* const op : {"mask_timestamps", "top_k", "beam_step", "cache_append", "cache_reorder"}) {
        CAPTURE(op);
        CHECK(ops.contains(op));
    }
}

TEST_CASE("bench model: what a window of sound costs", "[cli][bench][speech]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    const std::string command =
        "bench model --device " + device + " --steps 6 --runs 1 --batch 2" + model_option("whisper_d30_h3_h5");
    const Outcome outcome = run(command + "-q --json");
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const json report = json::parse(outcome.out);
    const auto median = [&](const char* name) { return report[name]["median"].get<double>(); };
    const double window = report["window_seconds"], encoder = median("encoder_seconds"),
                 decoder = median("decoder_seconds");
    CHECK(encoder > 0);
    CHECK(decoder > 0);
    CHECK(report["generated_tokens"] == 6);
    // One run: all figures are of it.
    CHECK(median("real_time_factor") == Approx((2 * median("spectrogram_seconds") + encoder + decoder) / (2 * window)));
    const double steps = report["given_tokens"].get<double>() - 1 + 6;
    CHECK(median("decode_tokens_per_second") == Approx(2 * steps / decoder));
    CHECK(report["weight_gb_per_second"].get<double>() ==
          Approx(report["weight_bytes_per_step"].get<double>() * steps / decoder / 1e9));
    CHECK(report["encoder_gflop_per_second"].get<double>() == Approx(report["encoder_gflop"].get<double>() / encoder));
    CHECK(report["weight_bytes_per_step"].get<std::uint64_t>() > 0);
    CHECK(report["weight_bytes_per_step"].get<std::uint64_t>() < report["device_bytes"].get<std::uint64_t>());
    CHECK(report.contains("read_bandwidth_gb_per_second") == (device != "cpu"));
    CHECK(report.contains("peak_f32_gflop_per_second") == (device != "cpu"));

    if (device != "cpu") return;
    const Outcome text = run(command);
    CHECK(text.exit_code == 0);
    for (const char* const word : {"real-time factor ", "encoder ", "GFLOP/s", "tokens/s", "GB/s"})
        CHECK_THAT(text.out, ContainsSubstring(word));
}

TEST_CASE("bench model: a window of sound with beams", "[cli][bench][speech][beam]") {
    const std::string command = "bench model -q --json -d cpu --steps 6 --runs 1" + model_option("whisper_d30_h3_h5");
    const auto report = [&](const char* beams) {
        const Outcome outcome = run(command + beams);
        REQUIRE(outcome.exit_code == 0);
        return json::parse(outcome.out);
    };
    const json one = report(""), four = report("--beams 4");
    CHECK(one["beams"] == 1);
    CHECK(four["beams"] == 4);
    CHECK(four["cache_bytes"].get<std::uint64_t>() > one["cache_bytes"].get<std::uint64_t>());
    CHECK(four["decoder_seconds"]["median"].get<double>() > 0);
}

TEST_CASE("bench model: the nodes of Whisper's programs", "[cli][bench][speech]") {
    if (vulkan_device_indices().empty()) return;
    const Outcome outcome = run("bench model -q --json --nodes --steps 2 --runs 1 --device " +
                                vulkan_device_indices().front() + model_option("whisper_d20_untied"));
    REQUIRE(outcome.exit_code == 0);
    const json programs = json::parse(outcome.out)["programs"];
    REQUIRE(programs.size() == 2);
    CHECK(programs[0]["program"] == "encoder");
    CHECK(programs[1]["program"] == "decode step");
    for (const json& program : programs) CHECK(program["device_us"].size() > 10);
}

TEST_CASE("bench model: what Whisper does not take is refused", "[cli][bench][speech][errors]") {
    const std::string command = "bench model -q -d cpu" + model_option("whisper_d30_h3_h5");
    refuses(command + "--beams 33", "--beams");
    refuses(command + "--length 9", "leave out --length");
    refuses(command + "--steps 5000", "positions for");
}

}  // namespace vkformer::tests

#endif
