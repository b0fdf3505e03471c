// SPDX-License-Identifier: MIT
// Gemma 3n: what follows from its config, and what its files say that is not done.
#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "models/adapter_case.hpp"
#include "models/changed_golden.hpp"
#include "models/decoder_case.hpp"
#include "models/model_case.hpp"
#include "models/run_in_pieces.hpp"
#include "models/weight_reader.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;
using enum ErrorCode;

std::vector<std::uint32_t> windows_of(const models::Decoder& model) {
    std::vector<std::uint32_t> windows;
    for (const auto& layer : model.config().layers) windows.push_back(layer.window);
    return windows;
}

}  // namespace

TEST_CASE("layers of Gemma 3n are what its lists say", "[models][decoder]") {
    const models::Decoder model = load_decoder_case("gemma3n");
    const models::DecoderConfig& c = model.config();
    CHECK(c.streams == 3);
    CHECK(windows_of(model) == std::vector<std::uint32_t>{5, 5, 0, 5, 0});
    for (const auto& layer : c.layers) CHECK(layer.rope == (layer.window > 0 ? 1u : 0u));
    CHECK(!c.layers[2].shared_cache);
    CHECK(c.layers[3].shared_cache == 1u);
    CHECK(c.layers[4].shared_cache == 2u);
    const std::vector<std::uint64_t> inner = {23, 23, 19, 27, 23};
    // The numbers that 0.6, 0.8 and 0.3 of what is normally distributed lie below.
    const std::vector<std::optional<double>> cutoffs = {0.2533471, 0.8416212, {}, {}, -0.5244005};
    for (std::size_t i = 0; i < 5; ++i) {
        CAPTURE(i);
        const auto& layer = model.weights().layers[i];
        CHECK(layer.up.weight.shape == Shape{inner[i], 35});
        REQUIRE(layer.gate_cutoff.has_value() == cutoffs[i].has_value());
        if (cutoffs[i]) CHECK(std::abs(double{*layer.gate_cutoff} - *cutoffs[i]) < 1e-6);
        CHECK(layer.streams.predict.shape == Shape{i == 0 ? 9u : 12u, 3});
    }
}

TEST_CASE("Gemma 3n's layers are the usual ones where nothing is said", "[models][decoder]") {
    const models::Decoder model = must(load_golden_with("gemma3n_own", {{"layer_types", nullptr},
                                                                        {"sliding_window", nullptr},
                                                                        {"activation_sparsity_pattern", nullptr},
                                                                        {"intermediate_size", 33},
                                                                        {"altup_coef_clip", 1e-3}}));
    CHECK(windows_of(model) == std::vector<std::uint32_t>{512, 512, 512});
    for (const auto& layer : model.weights().layers) CHECK(!layer.gate_cutoff);
    check_refused(load_golden_with("gemma3n_own", {{"num_kv_shared_layers", nullptr}}), UnsupportedConfig,
                  R"("num_kv_shared_layers")");
}

TEST_CASE("Gemma 3n is refused by the field that asks for something else", "[models][decoder][errors]") {
    const auto refused = [](const char* golden, const json& fields, ErrorCode code, const std::string& words) {
        CAPTURE(golden, fields.dump());
        check_refused(load_golden_with(golden, fields), code, words);
    };
    refused("gemma3n", {{"altup_active_idx", 1}}, UnsupportedConfig, R"("altup_active_idx" is 1)");
    refused("gemma3n", {{"altup_num_inputs", 1}}, CorruptFile, "altup_num_inputs");
    refused("gemma3n", {{"altup_num_inputs", 4}}, ShapeMismatch, "altup.modality_router");
    refused("gemma3n", {{"altup_num_inputs", 100}}, CorruptFile, "altup_num_inputs");
    refused("gemma3n", {{"laurel_rank", 8}}, ShapeMismatch, "laurel.linear_left");
    refused("gemma3n", {{"laurel_rank", 0}}, CorruptFile, "laurel_rank");
    refused("gemma3n", {{"activation_sparsity_pattern", {0.5, 0.5}}}, UnsupportedConfig, "one for each layer");
    refused("gemma3n", {{"activation_sparsity_pattern", 0.5}}, CorruptFile, "a list of numbers");
    refused("gemma3n", {{"activation_sparsity_pattern", json::array_t(5, 1)}}, UnsupportedConfig, "less than 1");
    refused("gemma3n", {{"activation_sparsity_pattern", json::array_t(5, -0.1)}}, UnsupportedConfig, "from 0");
    refused("gemma3n", {{"intermediate_size", {23, 23}}}, UnsupportedConfig, "one for each layer");
    refused("gemma3n", {{"intermediate_size", 23}}, ShapeMismatch, "layers.2.mlp.gate_proj");
    refused("gemma3n", {{"intermediate_size", json::array_t(5, -1)}}, UnsupportedConfig, "intermediate_size");
    refused("gemma3n", {{"intermediate_size", "23"}}, CorruptFile, "intermediate_size");
    refused("gemma3n", {{"num_kv_shared_layers", 5}}, UnsupportedConfig, R"("num_kv_shared_layers" is 5)");
    refused("gemma3n", {{"num_kv_shared_layers", 4}}, UnsupportedConfig, R"("num_kv_shared_layers" is 4)");
    refused("gemma3n", {{"num_kv_shared_layers", 1}}, MissingTensor, "layers.3.self_attn.k_proj");
    refused("gemma3n", {{"vocab_size_per_layer_input", 60}}, ShapeMismatch, "embed_tokens_per_layer");
    refused("gemma3n", {{"hidden_size_per_layer_input", 15}}, ShapeMismatch, "per_layer");
    refused("gemma3n", {{"hidden_size_per_layer_input", 0}}, CorruptFile, "hidden_size_per_layer_input");
    refused("gemma3n", {{"final_logit_softcapping", nullptr}}, CorruptFile, "final_logit_softcapping");
    refused("gemma3n", {{"layer_types", json::array_t(5, "chunked_attention")}}, UnsupportedConfig, "layer_types");
    refused("gemma3n_whole", {{"text_config", {{"laurel_rank", 31}}}}, ShapeMismatch,
            "model.language_model.layers.0.laurel");
    for (const std::string missing : {"altup_projections.1", "altup_unembed_projections.0", "laurel.post_laurel_norm",
                                      "altup.correction_coefs", "altup.correct_output_scale", "per_layer_input_gate"}) {
        CAPTURE(missing);
        check_refused(load_renamed("gemma3n",
                                   [&](std::string name) {
                                       const auto found = name.find(missing);
                                       return found == std::string::npos ? name : name.insert(found, "no_");
                                   }),
                      MissingTensor, missing);
    }
}

TEST_CASE("a GGUF file of Gemma 3n lacks nothing in silence", "[models][decoder][gguf][errors]") {
    for (const std::string missing :
         {"blk.0.attn_v.weight", "blk.1.post_ffw_norm.weight", "blk.0.attn_q_norm.weight", "blk.4.laurel_l.weight",
          "blk.3.altup_correct_scale.weight", "blk.2.altup_router.weight", "altup_proj.weight",
          "altup_unembd_proj.weight", "per_layer_token_embd.weight"}) {
        CAPTURE(missing);
        const auto lacking = load_gguf_with("gemma3n", [&](models::GgufContents& contents) {
            std::erase_if(contents.tensors, [&](const auto& tensor) { return tensor.name == missing; });
        });
        check_refused(lacking, MissingTensor, missing);
    }
    const auto refused = [](const std::string& key, const auto& value, ErrorCode code) {
        CAPTURE(key);
        check_refused(
            load_gguf_with("gemma3n",
                           [&](models::GgufContents& contents) { contents.metadata.set("gemma3n." + key, value); }),
            code, key);
    };
    refused("altup.active_idx", 1u, UnsupportedConfig);
    refused("altup.num_inputs", 1u, CorruptFile);
    refused("attention.shared_kv_layers", 5u, CorruptFile);
    refused("embedding_length_per_layer_input", 0u, CorruptFile);
    refused("activation_sparsity_scale", std::span<const float>(std::array{0.5f}), UnsupportedConfig);
    refused("activation_sparsity_scale", std::span<const float>(std::array{0.5f, 1.f, NAN, 0.f, 0.f}),
            UnsupportedConfig);
}

TEST_CASE("what Gemma 3n has no embeddings of layers for gives no numbers", "[models][decoder]") {
    const auto table = must(formats::Safetensors::open(base_folder("gemma3n") / "model.safetensors"));
    const std::string name = "model.embed_tokens_per_layer.weight";
    const models::Decoder model = must(load_golden_with("gemma3n", {{"vocab_size_per_layer_input", 50}},
                                                        {{name, models::rows_of(*table.find(name), 0, 50)}}));
    for (graph::Backend* const backend : test_backends()) {
        CAPTURE(backend->name());
        const PiecewiseRun run = run_in_pieces(model, *backend, {3, 49, 50}, 1, DType::f32, {3});
        for (std::size_t i = 0; i < run.logits.size(); ++i)
            CHECK(std::isnan(run.logits[i]) == (i >= 2 * std::size_t{61}));
    }
}

TEST_CASE("adapters add to what Gemma 3n has beside other models' weights", "[models][adapter]") {
    const std::vector<AdaptedModule> modules = {{"model.layers.1.laurel.linear_left", 5, 27},
                                                {"model.layers.2.laurel.linear_right", 27, 5},
                                                {"model.layers.0.per_layer_input_gate", 9, 27},
                                                {"model.altup_projections.0", 27, 27},
                                                {"model.altup_unembed_projections.0", 27, 27}};
    const TemporaryFolder folder;
    const auto base = must(formats::Safetensors::open(base_folder("gemma3n_own") / "model.safetensors"));
    const auto logits = [](const models::Decoder& model, const std::vector<std::vector<float>>& scales) {
        return run_in_pieces(model, exact_backend(test_backends()[0]), prompt_of(6), 1, DType::f32, {6},
                             models::WeightFormat::as_computed, scales)
            .logits;
    };
    const std::vector<double> plain = logits(load_decoder_case("gemma3n_own"), {});
    for (const AdaptedModule& module : modules) {
        CAPTURE(module.name);
        const std::filesystem::path adapter = folder.path() / module.name;
        write_adapter(adapter, {module}, 2);
        const auto halves = must(formats::Safetensors::open(adapter / "adapter_model.safetensors"));
        const auto a = must(models::floats_of(*halves.find(peft_name(module.name, 'A')))),
                   b = must(models::floats_of(*halves.find(peft_name(module.name, 'B'))));
        auto merged = must(models::floats_of(*base.find(module.name + ".weight")));
        for (std::size_t i = 0; i < merged.size(); ++i)
            for (std::size_t k = 0; k < 2; ++k)
                merged[i] += 2 * b[i / module.in * 2 + k] * a[k * module.in + i % module.in];
        const models::Decoder beside = must(with_adapters(base_folder("gemma3n_own"), {adapter})),
                              within = must(load_golden_with(
                                  "gemma3n_own", json::object(),
                                  {{module.name + ".weight",
                                    models::float_tensor({module.out, module.in}, std::move(merged))}}));
        const std::vector<double> expected = logits(within, {}), found = logits(beside, {{1}});
        CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < 1e-5);
        CHECK(relative_error(std::span<const double>(plain), std::span<const double>(expected)) > 1e-3);
    }
}

}  // namespace vkformer::tests
