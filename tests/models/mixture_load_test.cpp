// SPDX-License-Identifier: MIT
// Mixtures of experts whose files say what is not done, or what no model can have; and stacks of experts in older files.
#include <fstream>

#include <nlohmann/json.hpp>

#include "formats/gguf.hpp"
#include "formats/gguf_writer.hpp"
#include "formats/safetensors.hpp"
#include "models/changed_golden.hpp"
#include "models/decoder_loading.hpp"
#include "models/encoder_loading.hpp"
#include "models/gguf_export.hpp"
#include "models/open_model.hpp"
#include "models/sentence.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using enum ErrorCode;

std::uint64_t row_of_shape(const models::Decoder& model) {
    return model.weights().layers[0].experts.gate.at(0).shape[0];
}

}  // namespace

TEST_CASE("a mixture's folder is refused by the field that asks for something else", "[models][decoder][errors]") {
    check_refused(load_golden_with("olmoe", {{"clip_qkv", 8.0}}), UnsupportedConfig, R"("clip_qkv" is 8)");
    check_refused(load_golden_with("olmoe", {{"sliding_window", 8}}), UnsupportedConfig, R"("sliding_window" is 8)");
    check_refused(load_golden_with("qwen2_moe", {{"use_sliding_window", true}, {"sliding_window", 4}}),
                  UnsupportedConfig, R"("use_sliding_window" is true)");
    check_refused(load_golden_with("mixtral", {{"num_experts_per_tok", 6}}), CorruptFile, R"("num_experts_per_tok")");
    check_refused(load_golden_with("mixtral", {{"num_local_experts", 1025}}), CorruptFile, R"("num_local_experts")");
    check_refused(load_golden_with("mixtral", {{"num_local_experts", 6}}), ShapeMismatch, "block_sparse_moe.gate");
    check_refused(load_golden_with("qwen3_moe", {{"moe_intermediate_size", 15}}), ShapeMismatch, "experts.0.gate_proj");
    check_refused(load_golden_with("qwen2_moe", {{"decoder_sparse_step", 1}}), MissingTensor, "layers.0.mlp.gate");
    check_refused(load_golden_with("qwen2_moe", {{"decoder_sparse_step", 0}}), CorruptFile, "decoder_sparse_step");
}

TEST_CASE("gpt-oss is refused by the field that asks for something else", "[models][decoder][errors]") {
    const auto refused = [](const json& fields, ErrorCode code, const std::string& words) {
        check_refused(load_golden_with("gpt_oss", fields), code, words);
    };
    refused({{"swiglu_limit", 6.0}}, UnsupportedConfig, R"("swiglu_limit" is 6)");
    refused({{"hidden_act", "gelu"}}, UnsupportedConfig, R"("hidden_act" is "gelu")");
    refused({{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}}}, UnsupportedConfig,
            R"("quant_method" is "gptq")");
    refused({{"rope_parameters", nullptr}}, UnsupportedConfig, R"("rope_parameters" is missing)");
    for (const char* const field :
         {"head_dim", "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "sliding_window"})
        refused({{field, nullptr}}, UnsupportedConfig, field);
    refused({{"layer_types", {"full_attention", "chunked_attention", "full_attention", "full_attention"}}},
            UnsupportedConfig, "layer_types");
    refused({{"num_local_experts", 6}}, ShapeMismatch, "mlp.router.weight");
    refused({{"intermediate_size", 14}}, ShapeMismatch, "mlp.experts.gate_up_proj");
    CHECK(load_golden_with("gpt_oss", {{"swiglu_limit", 7.0}, {"attention_dropout", 0.1}}));
    check_refused(load_golden_with("gpt_oss_mxfp4", {{"intermediate_size", 64}}), ShapeMismatch, "gate_up_proj_blocks");
}

TEST_CASE("windows of gpt-oss are in every second layer, or where the config says", "[models][decoder]") {
    const auto windows_of = [](const json& fields) {
        std::vector<std::uint32_t> windows;
        const auto model = must(load_golden_with("gpt_oss", fields));
        for (const auto& layer : model.config().layers) windows.push_back(layer.window);
        return windows;
    };
    using Windows = std::vector<std::uint32_t>;
    CHECK(windows_of(json::object()) == Windows{5, 0, 5, 0});
    CHECK(windows_of({{"layer_types", nullptr}}) == Windows{5, 0, 5, 0});
    CHECK(windows_of({{"layer_types", {"full_attention", "full_attention", "full_attention", "sliding_attention"}}}) ==
          Windows{0, 0, 0, 5});
    const std::vector<std::string> all_full(4, "full_attention");
    CHECK(windows_of({{"layer_types", all_full}, {"sliding_window", nullptr}}) == Windows{0, 0, 0, 0});
    check_refused(load_golden_with("gpt_oss", {{"layer_types", nullptr}, {"sliding_window", nullptr}}),
                  UnsupportedConfig, R"("sliding_window" is missing)");
    check_refused(load_golden_with("gpt_oss", {{"sliding_window", 0}}), CorruptFile, R"("sliding_window" is 0)");
}

TEST_CASE("MXFP4 of gpt-oss is refused by the tensor whose rows are no whole blocks, or whose numbers are infinite",
          "[models][decoder][errors]") {
    const std::string experts = "model.layers.0.mlp.experts.";
    const auto bytes_with = [](const Shape& shape, int last) {
        const auto bytes = std::make_shared<std::vector<std::byte>>(shape.element_count(), std::byte{120});
        bytes->back() = static_cast<std::byte>(last);
        return TensorData{.dtype = DType::u8, .shape = shape, .bytes = *bytes, .owner = bytes};
    };
    const auto with_scale = [&](int scale) {
        return load_golden_with("gpt_oss_mxfp4", json::object(),
                                {{experts + "down_proj_scales", bytes_with({6, 64, 1}, scale)}});
    };
    CHECK(with_scale(252));
    check_refused(with_scale(253), CorruptFile, "down_proj_scales has a value of 253 or more");
    check_refused(with_scale(255), CorruptFile, "down_proj_scales has a value of 253 or more");
    const auto with_width_33 = load_golden_with("gpt_oss_mxfp4", {{"intermediate_size", 33}},
                                                {{experts + "gate_up_proj_blocks", bytes_with({6, 66, 2, 16}, 0)},
                                                 {experts + "gate_up_proj_scales", bytes_with({6, 66, 2}, 127)}});
    check_refused(with_width_33, ShapeMismatch, "down_proj_blocks has rows of 33 elements");
}

TEST_CASE("experts of gpt-oss in a folder are those of its GGUF file, block by block", "[models][decoder][gguf]") {
    const std::string name = GENERATE("gpt_oss", "gpt_oss_mxfp4");
    CAPTURE(name);
    const auto folder = must(models::load_decoder(goldens_dir() / "decoders" / name));
    const auto file = must(models::load_decoder(goldens_dir() / "gguf_decoders" / (name + ".gguf")));
    for (std::size_t layer = 0; layer < 4; ++layer) {
        const auto &found = folder.weights().layers[layer].experts, &wanted = file.weights().layers[layer].experts;
        REQUIRE(found.down.size() == wanted.down.size());
        for (std::size_t e = 0; e < found.down.size(); ++e) {
            CHECK(found.gate[e].dtype == (name == "gpt_oss" ? DType::f32 : DType::mxfp4));
            CHECK(std::ranges::equal(found.gate[e].bytes, wanted.gate[e].bytes));
            CHECK(std::ranges::equal(found.up[e].bytes, wanted.up[e].bytes));
            CHECK(std::ranges::equal(found.down[e].bytes, wanted.down[e].bytes));
        }
        CHECK(std::ranges::equal(found.gate_bias.bytes, wanted.gate_bias.bytes));
        CHECK(std::ranges::equal(found.up_bias.bytes, wanted.up_bias.bytes));
    }
}

TEST_CASE("gpt-oss's GGUF file is refused without what it needs", "[models][decoder][gguf][errors]") {
    const auto without = [](std::string_view end) {
        return load_gguf_with("gpt_oss", [&](models::GgufContents& contents) {
            std::erase_if(contents.tensors,
                          [&](const formats::OutputTensor& tensor) { return tensor.name.ends_with(end); });
        });
    };
    check_refused(without("attn_sinks.weight"), MissingTensor, "attn_sinks");
    check_refused(without("post_attention_norm.weight"), MissingTensor, "post_attention_norm");
    check_refused(without("ffn_up_exps.bias"), MissingTensor, "one has a bias, the other none");
    const auto with = [](const std::string& key, const auto& value) {
        return load_gguf_with("gpt_oss",
                              [&](models::GgufContents& contents) { contents.metadata.set("gpt-oss." + key, value); });
    };
    const auto without_window = load_gguf_with("gpt_oss", [](models::GgufContents& contents) {
        const auto file = must(formats::Gguf::open(goldens_dir() / "gguf_decoders" / "gpt_oss.gguf"));
        contents.metadata = {};
        for (const formats::GgufValue& value : file.values())
            if (value.key != "gpt-oss.attention.sliding_window") contents.metadata.set(value);
    });
    check_refused(without_window, CorruptFile, R"("gpt-oss.attention.sliding_window" is missing)");
    check_refused(with("attention.sliding_window", 0u), CorruptFile, R"("gpt-oss.attention.sliding_window" is 0)");
    check_refused(with("expert_gating_func", 2u), UnsupportedConfig, "expert_gating_func");
    CHECK(with("expert_gating_func", 3u));
    const auto rope_of = [&](bool truncates) {
        return must(with("rope.scaling.yarn_truncate", truncates)).config().ropes.front().frequencies;
    };
    check_refused(with("rope.scaling.yarn_ext_factor", 0.5f), UnsupportedConfig, "yarn_ext_factor");
    check_refused(with("rope.scaling.yarn_log_multiplier", 0.1f), UnsupportedConfig, "yarn_log_multiplier");
    const auto written = must(models::load_decoder(goldens_dir() / "gguf_decoders" / "gpt_oss.gguf"));
    CHECK(rope_of(false) == written.config().ropes.front().frequencies);
    CHECK(rope_of(true) != rope_of(false));
}

TEST_CASE("Granite's factors are those of its config, 1 where it says nothing", "[models][decoder]") {
    const auto config_with = [](const json& fields) { return must(load_golden_with("granite", fields)).config(); };
    const auto as_filed = config_with(json::object());
    CHECK(as_filed.attention_scale == 0.15f);
    CHECK(as_filed.logit_scale == Approx(1 / 7.0));
    CHECK(as_filed.embedding_scale == Approx(12 / 0.22));  // of x / r in place of x
    CHECK(as_filed.norm_eps == Approx(1e-3 / (0.22 * 0.22)));
    const auto plain = config_with({{"attention_multiplier", nullptr},
                                    {"logits_scaling", nullptr},
                                    {"embedding_multiplier", nullptr},
                                    {"residual_multiplier", nullptr}});
    CHECK(plain.attention_scale == 1);
    CHECK(plain.logit_scale == 1);
    CHECK(plain.embedding_scale == 1);
    CHECK(plain.norm_eps == Approx(1e-3));
}

TEST_CASE("Granite is refused by the field that makes no sense", "[models][decoder][errors]") {
    for (const char* const field :
         {"attention_multiplier", "logits_scaling", "embedding_multiplier", "residual_multiplier"})
        for (const double value : {0.0, -1.0})
            check_refused(load_golden_with("granite", {{field, value}}), CorruptFile, field);
    check_refused(load_golden_with("granite", {{"rope_parameters", {{"rope_type", "dynamic"}}}}), UnsupportedConfig,
                  "rope_type");
    check_refused(load_golden_with("granite_moe", {{"num_local_experts", 6}}), ShapeMismatch, "router.layer");
    check_refused(load_golden_with("granite_moe", {{"intermediate_size", 12}}), ShapeMismatch, "input_linear");
    check_refused(load_golden_with("granite_moe_shared", {{"shared_intermediate_size", 17}}), ShapeMismatch,
                  "shared_mlp.input_linear");
    const auto with = [](const std::string& key, const auto& value) {
        return load_gguf_with("granite",
                              [&](models::GgufContents& contents) { contents.metadata.set("granite." + key, value); });
    };
    check_refused(models::scorer_of(must(load_golden_with("granite", json::object())), {.yes = 7, .no = 9}),
                  UnsupportedConfig, "its logits have a scale");
    check_refused(with("residual_scale", 0.0f), CorruptFile, "residual_scale");
    check_refused(with("logit_scale", 0.0f), CorruptFile, "logit_scale");
    CHECK(must(with("rope.scaling.finetuned", true)).config().layers[0].rope == 0);
    CHECK_FALSE(must(with("rope.scaling.finetuned", false)).config().layers[0].rope);
    check_refused(with("expert_count", 4u), UnsupportedConfig, "expert_count");
    check_refused(with("attention.sliding_window", 4u), UnsupportedConfig, "attention.sliding_window");
}

TEST_CASE("LFM2-MoE chooses as its config says, and is refused by the field that makes no sense",
          "[models][decoder][errors]") {
    const auto refused = [](const json& fields, ErrorCode code, const std::string& words) {
        check_refused(load_golden_with("lfm2_moe", fields), code, words);
    };
    refused({{"num_dense_layers", 0}}, MissingTensor, "layers.0.feed_forward.gate");
    refused({{"num_dense_layers", 2}}, MissingTensor, "layers.1.feed_forward.w1");
    refused({{"moe_intermediate_size", 12}}, ShapeMismatch, "feed_forward.experts.0.w1");
    refused({{"num_experts_per_tok", 8}}, CorruptFile, "num_experts_per_tok");
    refused({{"routed_scaling_factor", 0.0}}, CorruptFile, "routed_scaling_factor");
    check_refused(load_golden_with("lfm2_moe_unbiased_scaled", {{"use_expert_bias", true}}), MissingTensor,
                  "layers.1.feed_forward.expert_bias");
    const auto as_filed = must(load_golden_with("lfm2_moe", json::object()));
    CHECK(as_filed.config().experts.scores == graph::RouteScores::sigmoid);
    CHECK(as_filed.config().experts.normalises);
    CHECK(as_filed.config().experts.least_sum == 1e-6f);
    CHECK_FALSE(as_filed.weights().layers[1].experts.choice_bias.bytes.empty());
    const auto unbiased = must(load_golden_with("lfm2_moe", {{"use_expert_bias", false}, {"norm_topk_prob", false}}));
    CHECK_FALSE(unbiased.config().experts.normalises);
    CHECK(unbiased.weights().layers[1].experts.choice_bias.bytes.empty());
    const auto with_gating = [](std::uint32_t function) {
        return load_gguf_with("lfm2_moe", [&](models::GgufContents& contents) {
            contents.metadata.set("lfm2moe.expert_gating_func", function);
        });
    };
    CHECK(with_gating(2));
    check_refused(with_gating(1), UnsupportedConfig, "expert_gating_func");
}

TEST_CASE("Phi-3.5-MoE is what its config says, or refused by the field", "[models][decoder][errors]") {
    const auto with = [](const json& fields) { return load_golden_with("phimoe", fields); };
    const auto as_filed = must(with(json::object())).config();
    CHECK(as_filed.norm == models::DecoderConfig::Norm::layer);
    CHECK(as_filed.experts.scores == graph::RouteScores::sparse_mixer);
    CHECK(as_filed.experts.jitter == 0.15f);
    CHECK_FALSE(as_filed.experts.normalises);
    CHECK(must(with({{"router_jitter_noise", nullptr}})).config().experts.jitter == 0.01f);
    CHECK(must(with({{"input_jitter_noise", 0.5}})).notes.empty());  // of training
    CHECK(must(with({{"sliding_window", 4}})).config().layers[1].window == 4);
    CHECK(must(with({{"lm_head_bias", false}})).weights().lm_head.bias.bytes.empty());
    check_refused(with({{"num_experts_per_tok", 1}}), UnsupportedConfig, "num_experts_per_tok");
    check_refused(with({{"router_jitter_noise", -0.1}}), CorruptFile, "router_jitter_noise");
    check_refused(with({{"rope_parameters", {{"rope_type", "linear"}, {"factor", 2}}}}), UnsupportedConfig,
                  "rope_type");
    check_refused(load_golden_with("phimoe_window_odd", {{"attention_bias", true}}), MissingTensor, "q_proj.bias");
    check_refused(load_golden_with("phimoe_window_odd", {{"lm_head_bias", true}}), MissingTensor, "lm_head.bias");
    check_refused(models::scorer_of(must(with(json::object())), {.yes = 7, .no = 9}), UnsupportedConfig, "bias");

    const auto with_rope = [](const char* field, const json& value) {
        return load_golden_with("phimoe_longrope", {{"rope_parameters", {{field, value}}}});
    };
    const auto stretched = must(with_rope("attention_factor", 7)).config();  // which the scales stand in place of
    CHECK(stretched.ropes[0].scale == 1.25);
    REQUIRE(stretched.extended_ropes.size() == 1);
    CHECK(stretched.extended_ropes[0].scale == 0.75);
    check_refused(with_rope("short_mscale", nullptr), CorruptFile, "short_mscale");
    check_refused(with_rope("long_mscale", nullptr), CorruptFile, "long_mscale");
    check_refused(with_rope("long_mscale", 0), CorruptFile, "long_mscale");
}

TEST_CASE("Phi-3.5-MoE's router is found under the name that transformers 5 has in memory", "[models][decoder]") {
    const auto as_filed = must(load_golden_with("phimoe", json::object()));
    const auto renamed = must(load_renamed("phimoe", [](std::string name) {
        for (const auto& [from, to] :
             {std::pair{"block_sparse_moe.gate", "mlp.router"}, std::pair{"block_sparse_moe.", "mlp."}})
            if (const auto at = name.find(from); at != name.npos) name.replace(at, std::string_view(from).size(), to);
        return name;
    }));
    CHECK(renamed.notes.empty());
    for (const auto part : {&models::ExpertWeights::gate, &models::ExpertWeights::down})
        CHECK(std::ranges::equal((renamed.weights().layers[1].experts.*part)[2].bytes,
                                 (as_filed.weights().layers[1].experts.*part)[2].bytes));
}

TEST_CASE("layers are those with experts that the config names", "[models][decoder]") {
    const auto layers_of = [](const std::string& name) {
        std::string layers;
        const auto model = must(models::load_decoder(goldens_dir() / "decoders" / name));
        for (const auto& layer : model.config().layers) layers += layer.has_experts ? 'e' : '-';
        return layers;
    };
    CHECK(layers_of("qwen2_moe") == "-e-e");
    CHECK(layers_of("qwen2_moe_normalised") == "e-e");
    CHECK(layers_of("qwen3_moe_dense_layers") == "-eee");
    CHECK(layers_of("mixtral") == "ee");
    CHECK(layers_of("lfm2_moe") == "-eee");
}

TEST_CASE("a mixture's GGUF file is refused by the key of a router that llama.cpp does not compute",
          "[models][decoder][gguf][errors]") {
    const auto refused = [](const std::string& name, const std::string& key, const auto& value) {
        return message_of(
            load_gguf_with(name, [&](models::GgufContents& contents) { contents.metadata.set(key, value); }),
            UnsupportedConfig);
    };
    using Catch::Matchers::ContainsSubstring;
    CHECK_THAT(refused("qwen3_moe", "qwen3moe.expert_weights_norm", false), ContainsSubstring("expert_weights_norm"));
    CHECK_THAT(refused("olmoe", "olmoe.expert_weights_norm", true), ContainsSubstring("expert_weights_norm"));
    CHECK_THAT(refused("mixtral", "llama.expert_weights_scale", 2.5f), ContainsSubstring("expert_weights_scale"));
    CHECK_THAT(refused("mixtral", "llama.expert_gating_func", 2u), ContainsSubstring("expert_gating_func"));
    CHECK_THAT(refused("qwen2_moe", "qwen2moe.expert_group_count", 2u), ContainsSubstring("expert_group_count"));
    CHECK_THAT(refused("mixtral", "llama.expert_count", 5000u), ContainsSubstring("expert_count"));
    CHECK_THAT(refused("qwen2", "qwen2.expert_count", 4u), ContainsSubstring("expert_count"));
    CHECK(load_gguf_with("mixtral", [](models::GgufContents& contents) {
        contents.metadata.set("llama.expert_weights_norm", true);
        contents.metadata.set("llama.expert_gating_func", 1u);
    }));
}

TEST_CASE("a shared expert of a GGUF file is whole or not there", "[models][decoder][gguf][errors]") {
    const auto without = [](std::string_view end) {
        return load_gguf_with("qwen2_moe", [&](models::GgufContents& contents) {
            std::erase_if(contents.tensors,
                          [&](const formats::OutputTensor& tensor) { return tensor.name.ends_with(end); });
        });
    };
    check_refused(without("ffn_up_shexp.weight"), MissingTensor, "ffn_up_shexp");
    check_refused(without("ffn_down_shexp.weight"), MissingTensor, "ffn_down_shexp");
}

TEST_CASE("experts of older GGUF files are tensors by themselves", "[models][decoder][gguf]") {
    const auto model = must(load_gguf_with("mixtral", [](models::GgufContents& contents) {
        std::vector<formats::OutputTensor> tensors;
        for (const formats::OutputTensor& tensor : contents.tensors) {
            const std::size_t end = tensor.name.find("_exps.weight");
            if (end == tensor.name.npos) {
                tensors.push_back(tensor);
                continue;
            }
            const auto matrices = models::matrices_of(tensor.source);
            for (std::size_t e = 0; e < matrices.size(); ++e)
                tensors.push_back({.name = tensor.name.substr(0, end) + "." + std::to_string(e) + ".weight",
                                   .dtype = tensor.dtype,
                                   .source = matrices[e]});
        }
        contents.tensors = std::move(tensors);
    }));
    const auto stacked = must(models::load_decoder(goldens_dir() / "gguf_decoders" / "mixtral.gguf"));
    CHECK(row_of_shape(model) == row_of_shape(stacked));
    for (std::size_t layer = 0; layer < 2; ++layer) {
        const auto &found = model.weights().layers[layer].experts, &wanted = stacked.weights().layers[layer].experts;
        REQUIRE(found.down.size() == wanted.down.size());
        for (std::size_t e = 0; e < found.down.size(); ++e) {
            CHECK(std::ranges::equal(found.gate[e].bytes, wanted.gate[e].bytes));
            CHECK(std::ranges::equal(found.up[e].bytes, wanted.up[e].bytes));
            CHECK(std::ranges::equal(found.down[e].bytes, wanted.down[e].bytes));
        }
    }
}

TEST_CASE("a mixture's GGUF file becomes another one", "[models][decoder][gguf][export]") {
    const auto changed = must(load_gguf_with("olmoe", [](models::GgufContents&) {}));
    CHECK(changed.config().experts.count == 8);
}

}  // namespace vkformer::tests
