// SPDX-License-Identifier: MIT
// The shipped models of samples/models/history, through the public API (tools/train/history_report.py writes what they must say).
#include <algorithm>
#include <numeric>

#include "decoding/generate_case.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "vkformer/translator.hpp"

namespace vkformer::tests {
namespace {

const std::filesystem::path kModels = std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples" / "models" / "history";

/// The folders that the goldens name, with the texts of each.
std::map<std::string, std::vector<std::pair<std::string, std::string>>> goldens_by_model() {
    std::map<std::string, std::vector<std::pair<std::string, std::string>>> result;
    for (const json& golden : read_json(goldens_dir() / "history.json"))
        result[golden["model"]].emplace_back(golden["input"], golden["output"]);
    return result;
}

void check_model(const std::string& name, const std::vector<std::pair<std::string, std::string>>& golden,
                 const std::string& device, Precision precision) {
    CAPTURE(name, device);
    auto translator = must(Translator::load(kModels / name, {.device = device, .precision = precision}));
    std::vector<std::string> texts;
    for (const auto& [input, output] : golden) texts.push_back(input);
    const auto found = must(translator.translate(texts));
    for (std::size_t i = 0; i < golden.size(); ++i) {
        CAPTURE(golden[i].first);
        CHECK(found[i].text == golden[i].second);
    }
}

TEST_CASE("the models of history say what PyTorch says", "[decoding][history][golden]") {
    const auto goldens = goldens_by_model();
    REQUIRE(goldens.size() == 16);
    for (const auto& [name, golden] : goldens) check_model(name, golden, "cpu", Precision::f32);
    // A software device compiles a model's shaders for seconds, so each gets every eighth model; the small ones of
    // tests/goldens/seq2seq take all of their paths on all devices.
    std::size_t at = 0;
    for (const std::string& device : vulkan_device_indices()) {
        std::size_t i = at++;
        for (const auto& [name, golden] : goldens)
            if (i++ % 8 == 0) check_model(name, {golden.begin(), golden.begin() + 3}, device, Precision::f32);
    }
}

TEST_CASE("half precision changes nothing that the models of history say", "[decoding][history]") {
    for (const auto& [name, golden] : goldens_by_model())
        check_model(name, {golden.begin(), golden.begin() + 3}, "cpu", Precision::f16);
}

TEST_CASE("attention maps of any model come with the translation", "[decoding][history][attention]") {
    const std::string text = "3141592653";
    for (const char* name : {"copy/bahdanau", "copy/luong-general", "copy/luong-local-p", "copy/transformer"}) {
        CAPTURE(name);
        auto translator = must(Translator::load(kModels / name, {.device = "cpu"}));
        const AttentionMaps maps = must(translator.attention(text));
        CHECK(maps.translation.text == text);
        CHECK(maps.source.size() == text.size() + 1);
        REQUIRE(maps.written.size() == text.size() + 1);
        CHECK(maps.read.front() == "<s>");
        CHECK(maps.written.back() == "</s>");
        REQUIRE_FALSE(maps.weights.empty());
        for (const AttentionWeights& weights : maps.weights) {
            REQUIRE(weights.values.size() == weights.heads * weights.queries * weights.keys);
            if (weights.kind != AttentionKind::cross) continue;
            REQUIRE(weights.queries == maps.written.size());
            REQUIRE(weights.keys == maps.source.size());
            for (std::size_t row = 0; row < weights.heads * weights.queries; ++row) {
                const auto first = weights.values.begin() + static_cast<std::ptrdiff_t>(row * weights.keys);
                const float sum = std::accumulate(first, first + static_cast<std::ptrdiff_t>(weights.keys), 0.0f);
                CHECK(sum <= 1 + 1e-5f);
                if (std::string(name) != "copy/luong-local-p") CHECK(sum == Approx(1));
            }
        }
    }
    auto blind = must(Translator::load(kModels / "copy/lstm", {.device = "cpu"}));
    CHECK(must(blind.attention("12345")).weights.empty());
    CHECK_FALSE(blind.attention("  "));
}

// A copying model has learnt to look at the digit that it writes.
TEST_CASE("the map of a copied string is its diagonal", "[decoding][history][attention]") {
    auto translator = must(Translator::load(kModels / "copy/luong-general", {.device = "cpu"}));
    const AttentionMaps maps = must(translator.attention("8675309024681357"));
    const AttentionWeights& weights = maps.weights.front();
    for (std::size_t q = 0; q < weights.queries; ++q) {
        const auto row = weights.values.begin() + static_cast<std::ptrdiff_t>(q * weights.keys);
        CAPTURE(q);
        CHECK(static_cast<std::size_t>(std::max_element(row, row + static_cast<std::ptrdiff_t>(weights.keys)) - row) ==
              q);
    }
}

}  // namespace
}  // namespace vkformer::tests
