// SPDX-License-Identifier: MIT
#include <fstream>

#include "models/decoder_case.hpp"
#include "models/decoder_loading.hpp"
#include "models/run_in_pieces.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/temporary_folder.hpp"

using namespace vkformer;
using namespace vkformer::tests;

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
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE(from_range(gguf_cases()));
    CAPTURE(backend.name(), name);
    const models::Decoder model = must(models::load_decoder(goldens_dir() / "gguf_decoders" / (name + ".gguf")));
    const Golden golden("decoders/" + name + "/golden.safetensors");
    const auto len = static_cast<std::uint32_t>(golden.shape("input_ids")[1]);
    const PiecewiseRun run = run_in_pieces(model, backend, golden, DType::f32, {len});
    const std::vector<double> expected = golden.doubles("logits");
    CHECK(relative_error(std::span<const double>(run.logits), std::span<const double>(expected)) < kModelBound);
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
    CHECK(refused("phi3_longrope", "rope_factors_short", "rope_factors_xhort").code == ErrorCode::MissingTensor);
}
