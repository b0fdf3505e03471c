// SPDX-License-Identifier: MIT
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "cpu/backend.hpp"
#include "formats/gguf.hpp"
#include "formats/gguf_writer.hpp"
#include "models/decoder_case.hpp"
#include "models/decoder_loading.hpp"
#include "models/gguf_export.hpp"
#include "models/run_in_pieces.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

std::vector<std::string> gguf_cases() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / "gguf_decoders"))
        names.push_back(entry.path().stem().string());
    std::ranges::sort(names);
    return names;
}

}  // namespace

TEST_CASE("a decoder in a GGUF file is the one of the Hugging Face folder", "[models][decoder][gguf][golden]") {
    const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Backend* const tested = GENERATE(from_range(test_backends()));
    graph::Backend& backend = tested == test_backends()[0] ? *floats_on_cpu : *tested;
    const std::string name = GENERATE(from_range(gguf_cases()));
    CAPTURE(backend.name(), name);
    const models::Decoder model = must(models::load_decoder(goldens_dir() / "gguf_decoders" / (name + ".gguf")));
    const Golden golden("decoders/" + name + "/golden.safetensors");
    const auto len = static_cast<std::uint32_t>(golden.shape("input_ids")[1]);
    const PiecewiseRun run = run_in_pieces(model, backend, golden, DType::f32, {len});
    const std::vector<double> expected = golden.doubles("logits");
    CHECK(relative_error(std::span<const double>(run.logits), std::span<const double>(expected)) < kModelBound);
}

// What llama-quantize makes of a model whose rows of 32 are no multiple of 256 (tests/goldens/make_gguf_mixtures.py): blocks of 32 beside
// those of 256.
TEST_CASE("a decoder of several block formats gives what its numbers give",
          "[models][decoder][gguf][quantized][golden]") {
    const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Backend* const tested = GENERATE(from_range(test_backends()));
    graph::Backend& backend = tested == test_backends()[0] ? *floats_on_cpu : *tested;
    const std::string name =
        GENERATE("gguf_mixtures/q4_k_m", "gguf_mixtures/q5_k_m", "gguf_mixtures/iq4_xs", "gguf_mixtures/q2_k",
                 "gguf_mixtures/q3_k_m", "gguf_mixtures/repacked", "gguf_decoders/gpt_oss_mxfp4");
    CAPTURE(backend.name(), name);
    if (!takes_case(*tested, 2)) return;
    const std::filesystem::path path = goldens_dir() / (name + ".gguf");
    const TemporaryFolder folder;
    const auto floats = must(models::requantized(must(formats::Gguf::open(path)), DType::f32));
    must(formats::write_gguf(folder / "f32.gguf", floats.metadata, floats.tensors));
    const models::Decoder model = must(models::load_decoder(path));
    const models::Decoder in_floats = must(models::load_decoder(folder / "f32.gguf"));

    const std::vector<std::int32_t> ids = {7, 0, 47, 12, 12, 3, 30, 21, 5, 44, 1, 9, 16, 2};
    const auto oracle = cpu::make_cpu_backend<double>();
    const auto run = [&](const models::Decoder& decoder, graph::Backend& on) {
        return run_in_pieces(decoder, on, ids, 1, DType::f32, {12, 1, 1}, models::WeightFormat::as_filed)
            .logits;  // a prompt, then two tokens
    };
    const std::vector<double> expected = run(in_floats, *oracle);
    CHECK(relative_error<double, double>(run(model, backend), expected) < kModelBound);
}

// What transformers computes in double precision from the numbers that the blocks stand for (tools/train/language_report.py).
TEST_CASE("the shipped language model has transformers' logits", "[models][decoder][gguf][verse][golden]") {
    const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Backend* const tested = GENERATE(from_range(test_backends()));
    graph::Backend& backend = tested == test_backends()[0] ? *floats_on_cpu : *tested;
    CAPTURE(backend.name());
    const models::Decoder model = must(models::load_decoder(std::filesystem::path(VKFORMER_SOURCE_DIR) /
                                                            "samples/models/verse-writer/verse-writer-q8_0.gguf"));
    std::ifstream file(goldens_dir() / "verse_writer.json");
    const auto cases = nlohmann::json::parse(file)["cases"];
    REQUIRE(cases.size() >= 4);
    for (const std::size_t index : {std::size_t{0}, cases.size() - 1}) {
        const auto& entry = cases[index];
        const auto ids = entry["input_ids"].get<std::vector<std::int32_t>>();
        CAPTURE(entry["prompt"].get<std::string>());
        const std::vector<std::uint32_t> pieces = {static_cast<std::uint32_t>(ids.size()) - 1, 1};
        const PiecewiseRun run =
            run_in_pieces(model, backend, ids, 1, DType::f32, pieces, models::WeightFormat::as_filed);
        const auto expected = entry["logits"].get<std::vector<double>>();
        const auto last = std::span<const double>(run.logits).last(expected.size());
        CHECK(relative_error(last, std::span<const double>(expected)) < kModelBound);
    }
}

TEST_CASE("a GGUF file whose decoder cannot be run is refused by name", "[models][decoder][gguf][errors]") {
    const TemporaryFolder folder;
    const auto refused = [&](const std::string& name, const std::string& what, const std::string& other) {
        const std::string path = (goldens_dir() / "gguf_decoders" / (name + ".gguf")).string();
        std::ifstream in(path, std::ios::binary);
        std::string bytes((std::istreambuf_iterator<char>(in)), {});
        const std::size_t at = bytes.find(what);
        REQUIRE(at != bytes.npos);
        REQUIRE(what.size() == other.size());
        bytes.replace(at, what.size(), other);
        std::ofstream(folder / "changed.gguf", std::ios::binary) << bytes;
        const auto model = models::load_decoder(folder / "changed.gguf");
        REQUIRE(!model);
        return model.error();
    };
    CHECK(refused("llama_gqa_odd", "general.architecture", "general.architecturX").code == ErrorCode::CorruptFile);
    CHECK(refused("llama_gqa_odd", "blk.1.attn_k.weight", "blk.1.attn_x.weight").code == ErrorCode::MissingTensor);
    CHECK(refused("qwen3", "qwen3.block_count", "qwen3.block_covnt").code == ErrorCode::CorruptFile);
    CHECK(refused("llama_yarn", "yarn", "yarm").code == ErrorCode::UnsupportedConfig);
    CHECK(refused("olmo2", "blk.1.post_ffw_norm", "blk.1.post_xfw_norm").code == ErrorCode::MissingTensor);
    CHECK(refused("gpt_neox_tanh", "use_parallel_residual", "use_parallel_residuam").code == ErrorCode::CorruptFile);
    CHECK(refused("gpt_neox_tanh", "blk.0.ffn_norm.weight", "blk.0.ffn_morm.weight").code == ErrorCode::MissingTensor);
    CHECK(refused("phi3_longrope", "rope_factors_short", "rope_factors_xhort").code == ErrorCode::MissingTensor);
}

TEST_CASE("which layers of a GGUF file have the window, a list or a number says", "[models][decoder][gguf]") {
    const TemporaryFolder folder;
    constexpr const char* kPattern = "olmo2.attention.sliding_window_pattern";
    const auto windows = [&](const auto& change) -> Result<std::vector<std::uint32_t>> {
        const auto file = must(formats::Gguf::open(goldens_dir() / "gguf_decoders" / "olmo3_yarn.gguf"));
        const auto contents = must(models::requantized(file, DType::f32));
        formats::GgufMetadata metadata;
        for (const auto& value : file.values())
            if (value.key != kPattern) metadata.set(value);
        change(metadata);
        must(formats::write_gguf(folder / "changed.gguf", metadata, contents.tensors));
        VKFORMER_TRY(const auto model, models::load_decoder(folder / "changed.gguf"));
        std::vector<std::uint32_t> found;
        for (const auto& layer : model.config().layers) found.push_back(layer.window);
        return found;
    };
    using Windows = std::vector<std::uint32_t>;
    const auto number = [&](std::uint32_t pattern) {
        return windows([&](formats::GgufMetadata& metadata) { metadata.set(kPattern, pattern); });
    };
    const auto list = [&](const std::vector<std::int32_t>& pattern) {
        return windows(
            [&](formats::GgufMetadata& metadata) { metadata.set(kPattern, std::span<const std::int32_t>(pattern)); });
    };
    CHECK(must(windows([](formats::GgufMetadata&) {})) == Windows{6, 6, 6, 0, 6});
    CHECK(must(number(3)) == Windows{6, 6, 0, 6, 6});
    CHECK(must(number(1)) == Windows{0, 0, 0, 0, 0});
    CHECK(must(number(0)) == Windows{6, 6, 6, 6, 6});
    CHECK(must(list({0, 1, 1, 0, 0})) == Windows{0, 6, 6, 0, 0});
    check_refused(list({0, 1, 1, 0}), ErrorCode::UnsupportedConfig, kPattern);

    // What follows from YaRN's factor may be said, and nothing else.
    const auto scaled = [&](float factor) {
        return windows(
            [&](formats::GgufMetadata& metadata) { metadata.set("olmo2.rope.scaling.yarn_attn_factor", factor); });
    };
    CHECK(scaled(1.1386294f));
    CHECK(scaled(1));
    check_refused(scaled(1.2f), ErrorCode::UnsupportedConfig, "yarn_attn_factor");
}

}  // namespace vkformer::tests
