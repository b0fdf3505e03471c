// SPDX-License-Identifier: MIT
// --device auto: what it takes is what `vkformer info` says that it takes.
#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "formats/safetensors.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "support/wav.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

/// The command with files of `folder` in place of their names.
std::string with_files(std::string command, const TemporaryFolder& folder) {
    const std::string sound = (folder / "sound.wav").string(), tensors = (folder / "in.safetensors").string();
    std::ofstream(sound, std::ios::binary) << wav(std::vector<float>(4000, 0.25f), 8000);
    const Golden golden("marian/relu_d30_h5_h3/golden.safetensors");
    must(formats::write_safetensors(tensors, {{{"input_ids", golden.tensor("input_ids")},
                                               {"decoder_input_ids", golden.tensor("decoder_input_ids")}}}));
    const auto put = [&](const std::string& name, const std::string& file) {
        if (const std::size_t at = command.find(name); at != command.npos) command.replace(at, name.size(), file);
    };
    put("SOUND", sound);
    put("TENSORS", tensors);
    put("OUTPUT", (folder / "out.safetensors").string());
    put("PICTURE", (goldens_dir() / "vision/pictures/colour.png").string());
    return command;
}

}  // namespace

TEST_CASE("info says what --device auto takes, and why", "[cli][info]") {
    const std::pair<std::string, std::string> commands[] = {
        {"", "translate x"},
        {"marian/relu_d30_h5_h3", "forward -o OUTPUT -i TENSORS"},
        {"decoder_text", "generate -n 1 cat"},
        {"sentences/embedder", "embed x"},
        {"sentences/cross_encoder", "rerank x y"},
        {"vision/vit", "classify PICTURE"},
        {"vision/clip", "classify --label 'a photo of a cat' --label 'zwei Katzen' PICTURE"},
        {"speech/whisper_texts", "transcribe --no-timestamps SOUND"},
        {"ctc/wav2vec2_base", "transcribe --no-timestamps SOUND"},
    };
    const TemporaryFolder cache;  // of all: what one model's trials have found, the next one does not try again
    const std::string home = "XDG_CACHE_HOME=" + cache.path().string() + " ";
    for (const auto& [model, command] : commands) {
        CAPTURE(model, command);
        const std::string option = model.empty() ? "" : " --model " + (goldens_dir() / model).string();
        const json before = json::parse(run("info --json" + option, "", home).out);
        if (!before.contains("auto")) return;  // no Vulkan device can be used
        const std::size_t index = before["auto"]["device"];
        const json& device = before["devices"][index];
        const bool is_measured = device["type"] == "cpu";
        CHECK(before["auto"]["f32"]["takes"] == (is_measured ? json() : json(index)));
        if (is_measured) {
            CHECK_THAT(before["auto"]["f32"]["why"].get<std::string>(), ContainsSubstring("not measured yet"));
            CHECK_THAT(run("info" + option, "", home).out, ContainsSubstring("takes cpu or " + std::to_string(index)));
        }

        const TemporaryFolder files;
        const Outcome outcome = run(with_files(command, files) + option, "", home);
        CAPTURE(outcome.err);
        REQUIRE(outcome.exit_code == 0);
        const json after = json::parse(run("info --json" + option, "", home).out)["auto"]["f32"];
        const bool took_cpu = outcome.err.find("device: CPU (float)") != std::string::npos;
        const bool took_device = outcome.err.find("device: " + device["name"].get<std::string>()) != std::string::npos;
        CHECK(took_cpu != took_device);
        CHECK(after["takes"] == (took_cpu ? json("cpu") : json(index)));
        if (!is_measured) continue;
        CHECK((after["cpu_us"].get<double>() < after["vulkan_us"].get<double>()) == took_cpu);
        CHECK_THAT(after["why"].get<std::string>(), ContainsSubstring("ms on the CPU backend"));
        CHECK_THAT(run("info" + option, "", home).out,
                   ContainsSubstring(std::string("takes ") + (took_cpu ? "cpu" : std::to_string(index)) +
                                     " for this model with --dtype f32"));
    }
}

}  // namespace vkformer::tests

#endif
