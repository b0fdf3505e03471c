// SPDX-License-Identifier: MIT
/// Folders as transformers 5 saves them against its forward passes: tests/goldens/transformers_5.
#include <fstream>

#include <nlohmann/json.hpp>

#include "models/decoder_loading.hpp"
#include "models/model_case.hpp"
#include "models/open_model.hpp"
#include "models/run_in_pieces.hpp"
#include "models/seq2seq_loading.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

const fs::path kTransformers5 = goldens_dir() / "transformers_5";

json read_config(const std::string& name) {
    std::ifstream file(kTransformers5 / name / "config.json");
    return json::parse(file);
}

/// The model with one field changed.
Result<models::Decoder> load_decoder_with(const std::string& name, const std::string& field, const json& value) {
    const TemporaryFolder folder;
    const fs::path model = folder.path() / name;
    fs::copy(kTransformers5 / name, model);
    json config = read_config(name);
    config[field] = value;
    std::ofstream(model / "config.json") << config;
    return models::load_decoder(model);
}

}  // namespace

TEST_CASE("decoders that transformers 5 saved give its logits", "[models][decoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name =
        GENERATE("llama_own_head", "phi3_own_head", "gpt2_own_head", "llama_linear_beside", "qwen2_yarn_beside",
                 "qwen2_theta_outside", "qwen2_theta_inside", "gemma3_linear_beside", "llama_partial", "phi3_partial",
                 "gemma_activations", "gemma_exact_gelu", "mixtral", "mixtral_in_memory", "qwen2_moe_window",
                 "qwen3_moe", "olmoe");
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), name, to_string(dtype));
    const models::Decoder model = must(models::load_decoder(kTransformers5 / name));
    const Golden golden("transformers_5/" + name + "/golden.safetensors");
    const auto len = static_cast<std::uint32_t>(golden.shape("input_ids")[1]);
    const PiecewiseRun run = run_in_pieces(model, backend, golden, dtype, {len});
    check_golden(run.logits, golden, "logits", rotary_bound(backend, dtype));
    check_golden(run.hidden, golden, "last_hidden_state", rotary_bound(backend, dtype));
}

TEST_CASE("encoder-decoders that transformers 5 saved give its logits", "[models][encoder_decoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("t5_own_head", "t5_untied", "t5_tied", "mt5_tied", "mt5_own_head", "umt5_tied",
                                      "umt5_own_head", "bart_own_head", "marian_own_head");
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), name, to_string(dtype));
    const auto model = must(models::load_encoder_decoder(kTransformers5 / name));
    const Golden golden("transformers_5/" + name + "/golden.safetensors");
    const ForwardRun run =
        run_forward(*model, backend, token_batch(golden, "input_ids", ""), token_batch(golden, "decoder_input_ids", ""),
                    {.dtype = dtype, .source_mask = models::SourceMask::lengths});
    check_golden(run.read(run.forward.logits), golden, "logits", rotary_bound(backend, dtype));
    check_golden(run.read(run.forward.decoder_hidden), golden, "decoder_last_hidden_state",
                 rotary_bound(backend, dtype));
}

TEST_CASE("a head that has the table's bytes is the table", "[models][decoder]") {
    const auto is_tied = [](const fs::path& path) {
        const auto model = must(models::load_decoder(path));
        return models::is_same(model.weights().lm_head.weight, model.weights().embedding);
    };
    CHECK_FALSE(is_tied(kTransformers5 / "llama_own_head"));
    CHECK(is_tied(kTransformers5 / "gemma_activations"));  // whose file has no head

    // The same folder with the table stored a second time, as the head.
    const TemporaryFolder folder;
    const fs::path model = folder.path() / "model";
    fs::copy(kTransformers5 / "llama_own_head", model);
    std::fstream file(model / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
    std::uint64_t header_bytes = 0;
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
    std::string header(header_bytes, ' ');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    const json tensors = json::parse(header);
    const auto begin = [&](const char* name) {
        return 8 + header_bytes + tensors.at(name).at("data_offsets").at(0).get<std::uint64_t>();
    };
    std::string table(static_cast<std::size_t>(29 * 12 * 4), ' ');
    file.seekg(static_cast<std::streamoff>(begin("model.embed_tokens.weight")));
    file.read(table.data(), static_cast<std::streamsize>(table.size()));
    file.seekp(static_cast<std::streamoff>(begin("lm_head.weight")));
    file.write(table.data(), static_cast<std::streamsize>(table.size()));
    file.close();
    CHECK(is_tied(model));
}

TEST_CASE("rope_scaling beside rope_parameters is an error where either makes no sense or a base would be lost",
          "[models][decoder][errors]") {
    const json kLinear = {{"rope_type", "linear"}, {"factor", 2.0}};
    const auto refused = [](const std::string& name, const std::string& field, const json& value) {
        const auto model = load_decoder_with(name, field, value);
        return model ? std::string("loaded") : model.error().message;
    };
    CHECK_THAT(refused("llama_partial", "rope_scaling", "yarn"), ContainsSubstring("\"rope_scaling\" is \"yarn\""));
    CHECK_THAT(refused("llama_partial", "rope_scaling", {{"type", "yard"}}), ContainsSubstring("\"yard\""));
    CHECK_THAT(refused("llama_linear_beside", "rope_parameters", {{"rope_type", "yard"}}),
               ContainsSubstring("\"rope_parameters\": \"rope_type\" is \"yard\""));
    CHECK_THAT(refused("llama_linear_beside", "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}),
               ContainsSubstring("an object with a \"rope_theta\" of its own"));
    CHECK_THAT(refused("llama_linear_beside", "rope_parameters", {{"rope_theta", -1}}),
               ContainsSubstring("\"rope_theta\" is -1"));
    json scaled = read_config("gemma3_linear_beside")["rope_parameters"];
    scaled["full_attention"]["rope_type"] = "linear";
    scaled["full_attention"]["factor"] = 8.0;
    CHECK_THAT(refused("gemma3_linear_beside", "rope_parameters", scaled),
               ContainsSubstring("scales positions already"));
    CHECK(refused("qwen2_theta_inside", "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}) ==
          "loaded");
}

TEST_CASE("part of a head is turned for Phi-3 alone", "[models][decoder][errors]") {
    const auto rope_dims = [](const std::string& name) {
        return 2 * must(models::load_decoder(kTransformers5 / name)).config().ropes.at(0).frequencies.size();
    };
    CHECK(rope_dims("phi3_partial") == 4);
    CHECK(rope_dims("llama_partial") == 8);
    const auto scaled = load_decoder_with("llama_linear_beside", "partial_rotary_factor", 0.5);
    REQUIRE_FALSE(scaled);
    CHECK_THAT(scaled.error().message, ContainsSubstring("\"partial_rotary_factor\" is 0.5"));
}

TEST_CASE("the version of transformers decides on the head's scale where no field does", "[models][encoder_decoder]") {
    const auto is_scaled = [](const std::string& name, const json& version) {
        json config = read_config(name);
        config["transformers_version"] = version;
        const auto parsed = must(formats::Config::parse(config.dump(), "config.json"));
        return static_cast<bool>(
            must(models::load_t5(parsed, must(formats::open_weights(kTransformers5 / name)))).weights().logits_norm);
    };
    CHECK(is_scaled("mt5_tied", "4.57.6"));
    CHECK(is_scaled("mt5_tied", nullptr));
    CHECK_FALSE(is_scaled("mt5_tied", "5.0.0.dev0"));
    CHECK(is_scaled("umt5_tied", "4.57.6"));
    CHECK(is_scaled("umt5_own_head", "10.2"));
    json config = read_config("mt5_tied");
    config["transformers_version"] = "five";
    const auto refused = models::load_t5(must(formats::Config::parse(config.dump(), "config.json")),
                                         must(formats::open_weights(kTransformers5 / "mt5_tied")));
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, ContainsSubstring("\"transformers_version\" is \"five\""));
}

}  // namespace vkformer::tests
