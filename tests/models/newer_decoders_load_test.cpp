// SPDX-License-Identifier: MIT
// GLM-4, Seed-OSS, EXAONE 4, Hunyuan, ERNIE 4.5 and Cohere: what follows from their configs, and what their files say that is not done.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "models/changed_golden.hpp"
#include "models/decoder_case.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;
using enum ErrorCode;
using Catch::Matchers::ContainsSubstring;
using Windows = std::vector<std::uint32_t>;

/// Of each layer, with 100 more where its positions are turned.
Windows windows_of(const models::Decoder& model) {
    Windows windows;
    for (const auto& layer : model.config().layers) windows.push_back(layer.window + (layer.rope ? 100 : 0));
    return windows;
}

Windows windows_with(const char* golden, const json& fields) {
    return windows_of(must(load_golden_with(golden, fields)));
}

std::vector<bool> mixtures_of(const models::Decoder& model) {
    std::vector<bool> mixtures;
    for (const auto& layer : model.config().layers) mixtures.push_back(layer.has_experts);
    return mixtures;
}

constexpr const char* kWindow = "sliding_window";

/// The golden with some fields as they are given, nulls too, and without others.
Result<models::Decoder> load_with_nulls(const std::string& name, const json& fields,
                                        const std::vector<std::string>& missing = {}) {
    const TemporaryFolder folder;
    const std::filesystem::path model = folder.path() / name;
    std::filesystem::copy(goldens_dir() / "decoders" / name, model);
    std::ifstream file(model / "config.json");
    json config = json::parse(file);
    if (fields.is_object()) config.update(fields);
    for (const std::string& field : missing) config.erase(field);
    std::ofstream(model / "config.json") << config;
    return models::load_decoder(model);
}

models::DecoderConfig config_of(const std::string& name, const json& fields,
                                const std::vector<std::string>& missing = {}) {
    return must(load_with_nulls(name, fields, missing)).config();
}

/// How many layers have that window, and how many turn positions.
std::pair<std::ptrdiff_t, std::ptrdiff_t> windows_and_turns(const models::DecoderConfig& config, std::uint32_t window) {
    return {std::ranges::count(config.layers, window, &models::DecoderConfig::Layer::window),
            std::ranges::count_if(config.layers, [](const auto& layer) { return layer.rope.has_value(); })};
}

}  // namespace

TEST_CASE("newer decoders are refused by the field that asks for something else", "[models][decoder][errors]") {
    const auto refused = [](const char* golden, const json& fields, ErrorCode code, const std::string& words) {
        CAPTURE(golden, fields.dump());
        check_refused(load_golden_with(golden, fields), code, words);
    };
    refused("glm4", {{"attention_bias", false}, {"intermediate_size", 36}}, ShapeMismatch, "gate_up_proj");
    refused("glm4", {{"head_dim", nullptr}}, ShapeMismatch, "q_proj");  // 128 then
    refused("glm4_plain", {{"attention_bias", nullptr}}, MissingTensor, "q_proj.bias");
    refused("glm4_moe", {{"use_qk_norm", false}, {"n_routed_experts", 8}}, ShapeMismatch, "mlp.gate.weight");
    refused("glm4_moe", {{"n_group", 2}}, UnsupportedConfig, R"("n_group" is 2)");
    refused("glm4_moe", {{"scoring_func", "softmax"}}, UnsupportedConfig, R"("scoring_func" is "softmax")");
    refused("glm4_moe_groups", {{"n_shared_experts", 1}}, ShapeMismatch, "shared_experts");
    refused("glm4_moe_groups", {{"first_k_dense_replace", 3}}, MissingTensor, "layers.2.mlp.gate_proj");
    refused("seed_oss", {{"attention_out_bias", true}}, MissingTensor, "o_proj.bias");
    refused("seed_oss_biased", {{"attention_bias", nullptr}, {"head_dim", nullptr}}, ShapeMismatch, "q_proj");
    refused("seed_oss", {{"mlp_bias", true}}, MissingTensor, "gate_proj.bias");
    refused("exaone4", {{"layer_types", nullptr}, {"sliding_window_pattern", "LLLG"}}, CorruptFile,
            "sliding_window_pattern");
    refused("exaone4", {{"layer_types", {"full_attention"}}}, CorruptFile, "layer_types");
    refused("exaone4", {{"sliding_window", 0}}, CorruptFile, "sliding_window");
    const json growing = {{"rope_type", "dynamic"}, {"alpha", nullptr}, {"factor", 2.0}};
    refused("hunyuan_dense", {{"use_rotary_pos_emb", false}}, UnsupportedConfig, "use_rotary_pos_emb");
    refused("cohere", {{"use_parallel_block", false}}, UnsupportedConfig, "use_parallel_block");
    refused("cohere2", {{"use_gated_activation", false}}, UnsupportedConfig, "use_gated_activation");
    refused("hunyuan_dense", {{"rope_parameters", growing}}, UnsupportedConfig, R"("rope_type" is "dynamic")");
    refused("hunyuan_dense", {{"rope_parameters", {{"rope_type", "dynamic"}, {"alpha", 0}}}}, CorruptFile, "alpha");
    refused("hunyuan_dense_biased", {{"attention_bias", true}, {"pretraining_tp", 2}}, UnsupportedConfig,
            R"("pretraining_tp" is 2)");
    refused("ernie4_5", {{"use_bias", true}}, MissingTensor, "q_proj.bias");
    refused("ernie4_5_biased", {{"tie_word_embeddings", nullptr}, {"num_key_value_heads", 3}}, UnsupportedConfig,
            R"("num_key_value_heads" is 3)");
    refused("ernie4_5_moe", {{"moe_norm_min", 0.5}}, UnsupportedConfig, R"("moe_norm_min" is 0.5)");
    refused("ernie4_5_moe", {{"moe_k", 8}}, CorruptFile, "moe_k");
    refused("ernie4_5_moe", {{"moe_num_shared_experts", 1}}, ShapeMismatch, "shared_experts");
    refused("ernie4_5_moe_biased", {{"moe_layer_interval", 1}}, MissingTensor, "layers.2.mlp");
    refused("cohere", {{"use_qk_norm", true}}, MissingTensor, "q_norm");
    refused("cohere", {{"logit_scale", 0}}, CorruptFile, "logit_scale");
    refused("cohere2", {{"use_qk_norm", true}}, UnsupportedConfig, "use_qk_norm");
    refused("cohere2", {{"head_dim", 6}}, UnsupportedConfig, R"("head_dim" is 6)");
    refused("cohere2", {{"rotary_pct", 0.5}}, UnsupportedConfig, R"("rotary_pct" is 0.5)");
    refused("cohere2", {{"layer_types", json::array_t(5, "chunked_attention")}}, UnsupportedConfig, "layer_types");
}

TEST_CASE("newer decoders' windows, and the layers without positions", "[models][decoder]") {
    CHECK(windows_of(load_decoder_case("exaone4")) == Windows{105, 105, 105, 0, 105});
    CHECK(windows_of(load_decoder_case("exaone4_full")) == Windows{100, 100});
    CHECK(windows_of(load_decoder_case("exaone4_listed")) == Windows{0, 106, 0, 106});
    CHECK(windows_with("exaone4", {{"layer_types", nullptr}}) == Windows{105, 105, 105, 0, 105});
    CHECK(windows_with("exaone4", {{"layer_types", nullptr}, {"sliding_window_pattern", 2}}) ==
          Windows{105, 0, 105, 0, 105});
    CHECK(windows_with("exaone4", {{"sliding_window", nullptr}}) == Windows{4196, 4196, 4196, 0, 4196});
    // A window that no layer has: transformers turns nothing then.
    CHECK(windows_with("exaone4_full", {{"sliding_window", 9}}) == Windows{0, 0});
    CHECK(windows_of(load_decoder_case("cohere2")) == Windows{105, 105, 105, 0, 105});
    CHECK(windows_of(load_decoder_case("cohere2_listed")) == Windows{106, 0, 0, 106});
    CHECK(windows_with("cohere2", {{"layer_types", nullptr}, {"sliding_window_pattern", 3}}) ==
          Windows{105, 105, 0, 105, 105});
    CHECK(windows_with("cohere2", {{"layer_types", nullptr}}) == Windows{105, 105, 105, 0, 105});
    CHECK(windows_of(load_decoder_case("cohere")) == Windows{100, 100, 100});
}

TEST_CASE("newer decoders' positions under the names of their time", "[models][decoder]") {
    const auto rope_of = [](const char* golden, const json& fields) {
        return must(load_golden_with(golden, fields)).config().ropes.at(0);
    };
    using enum graph::RopePairing;
    CHECK(rope_of("glm4", json::object()).frequencies.size() == 3);  // half of a head of 12
    CHECK(rope_of("glm4", {{"rope_parameters", nullptr}, {"partial_rotary_factor", 1}}).frequencies.size() == 6);
    CHECK(rope_of("glm4", {{"rope_parameters", nullptr}}).frequencies.size() == 3);
    CHECK(rope_of("glm4", json::object()).pairing == interleaved);
    CHECK(rope_of("glm4_moe", json::object()).pairing == halves);
    CHECK(rope_of("glm4_moe", {{"rope_parameters", nullptr}}).frequencies.size() == 3);
    CHECK(rope_of("ernie4_5", json::object()).pairing == interleaved);
    CHECK(rope_of("ernie4_5_moe", json::object()).pairing == interleaved);
    CHECK(rope_of("cohere", json::object()).pairing == interleaved);
    const auto theta_of = [&](const char* golden, const json& fields) {
        const auto frequencies = rope_of(golden, fields).frequencies;
        return std::pow(frequencies.at(1), -static_cast<double>(frequencies.size()));
    };
    const auto is_near = [](double found, double expected) { return std::abs(found / expected - 1) < 1e-9; };
    CHECK(is_near(theta_of("ernie4_5", {{"rope_parameters", nullptr}}), 5e5));
    CHECK(is_near(theta_of("ernie4_5_moe", {{"rope_parameters", nullptr}}), 5e5));
    CHECK(is_near(theta_of("cohere", {{"rope_parameters", nullptr}}), 5e5));
    CHECK(is_near(theta_of("cohere2", {{"rope_parameters", nullptr}}), 1e4));
    CHECK(is_near(theta_of("seed_oss", {{"rope_parameters", nullptr}}), 1e4));
    const double stretched = 1e4 * std::pow(50.0, 10.0 / 8);
    CHECK(is_near(theta_of("hunyuan_dense", json::object()), stretched));
    const json older = {{"type", "dynamic"}, {"alpha", 50.0}, {"factor", 1.0}, {"mscale", 1.0}, {"beta_fast", 32}};
    CHECK(
        is_near(theta_of("hunyuan_dense", {{"rope_parameters", nullptr}, {"rope_theta", 1e4}, {"rope_scaling", older}}),
                stretched));
    CHECK(load_decoder_case("hunyuan_dense").config().turns_before_norms);
}

TEST_CASE("newer mixtures have experts where their configs say so", "[models][decoder]") {
    const models::Decoder glm = load_decoder_case("glm4_moe_groups");
    CHECK(mixtures_of(glm) == std::vector{false, false, true, true});
    CHECK(glm.config().experts.groups.count == 2);
    CHECK(glm.config().experts.shared_size == 26);
    CHECK(!glm.config().experts.normalises);
    CHECK(load_decoder_case("glm4_moe").config().experts.scale == 1.5f);
    const models::Decoder ernie = load_decoder_case("ernie4_5_moe_biased");
    CHECK(mixtures_of(ernie) == std::vector{false, false, false, true, false, false});
    CHECK(ernie.weights().layers[3].experts.choice_bias.shape == Shape{7});
    CHECK(!ernie.weights().layers[3].up);
    CHECK(mixtures_of(load_decoder_case("ernie4_5_moe")) == std::vector{false, true, true});
    CHECK(mixtures_of(must(load_golden_with("ernie4_5_moe", {{"moe_layer_end_index", -1}}))) ==
          std::vector{false, true, true});
}

TEST_CASE("GGUF files of newer decoders lack nothing in silence", "[models][decoder][gguf][errors]") {
    const auto without = [](const char* name, const std::string& what) {
        return load_gguf_with(name, [&](models::GgufContents& contents) {
            std::erase_if(contents.tensors, [&](const auto& tensor) { return tensor.name == what; });
        });
    };
    const std::pair<const char*, const char*> needed[] = {{"glm4", "blk.1.post_ffw_norm.weight"},
                                                          {"glm4", "blk.0.post_attention_norm.weight"},
                                                          {"glm4", "blk.2.ffn_norm.weight"},
                                                          {"glm4_moe", "blk.1.post_attention_norm.weight"},
                                                          {"seed_oss", "blk.0.post_attention_norm.weight"},
                                                          {"exaone4", "blk.2.post_attention_norm.weight"},
                                                          {"exaone4", "blk.4.post_ffw_norm.weight"},
                                                          {"ernie4_5_moe", "blk.1.ffn_up_shexp.weight"},
                                                          {"cohere", "blk.0.attn_norm.weight"}};
    for (const auto& [name, what] : needed) {
        CAPTURE(name, what);
        check_refused(without(name, what), MissingTensor, what);
    }
    // Of the layers some would be chosen with a bias and some without.
    check_refused(without("glm4_moe", "blk.2.exp_probs_b.bias"), MissingTensor, "exp_probs_b");
    check_refused(without("ernie4_5_moe", "blk.1.exp_probs_b.bias"), MissingTensor, "exp_probs_b");
}

TEST_CASE("GGUF files of newer decoders go by their keys", "[models][decoder][gguf]") {
    const auto with = [](const char* name, const std::string& key, auto value) {
        return load_gguf_with(name, [&](models::GgufContents& contents) { contents.metadata.set(key, value); });
    };
    const auto list = [](const std::vector<std::int32_t>& numbers) { return std::span<const std::int32_t>(numbers); };
    CHECK(windows_of(must(with("exaone4", "exaone4.attention.sliding_window_pattern", list({1, 0, 1, 0, 0})))) ==
          Windows{105, 0, 105, 0, 0});
    CHECK(windows_of(must(with("exaone4", "exaone4.attention.sliding_window", 0u))) == Windows(5, 100));
    CHECK(windows_of(must(with("exaone4_full", "exaone4.block_count", 1u))) == Windows{100});
    CHECK(windows_of(must(with("cohere2", "cohere2.attention.sliding_window_pattern", 2u))) ==
          Windows{105, 0, 105, 0, 105});
    check_refused(with("cohere2", "cohere2.attention.sliding_window", 0u), CorruptFile, "sliding_window");
    check_refused(with("cohere", "command-r.logit_scale", 0.0f), CorruptFile, "logit_scale");
    check_refused(with("glm4_moe", "glm4moe.expert_group_count", 2u), UnsupportedConfig, "expert_group_count");
    CHECK(must(with("glm4_moe", "glm4moe.expert_weights_scale", 2.5f)).config().experts.scale == 2.5f);
    CHECK(!must(with("glm4_moe", "glm4moe.expert_weights_norm", false)).config().experts.normalises);
    check_refused(with("ernie4_5_moe", "ernie4_5-moe.expert_gating_func", 2u), UnsupportedConfig, "expert_gating_func");
    // What the tensors say goes before what keys say.
    const auto contradicts = [&](const char* name, const std::string& prefix, const std::string& key,
                                 std::uint32_t value) {
        CAPTURE(name, key, value);
        check_refused(with(name, prefix + key, value), UnsupportedConfig, key);
    };
    for (const std::uint32_t dense : {0u, 2u}) {
        contradicts("glm4_moe", "glm4moe.", "leading_dense_block_count", dense);
        contradicts("ernie4_5_moe", "ernie4_5-moe.", "leading_dense_block_count", dense + dense / 2);
    }
    contradicts("ernie4_5_moe", "ernie4_5-moe.", "interleave_moe_layer_step", 3);
    const auto every_second = load_gguf_with("ernie4_5_moe", [](models::GgufContents& contents) {
        contents.metadata.set("ernie4_5-moe.block_count", 2u);
        contents.metadata.set("ernie4_5-moe.interleave_moe_layer_step", 2u);
    });
    CHECK(must(every_second).config().layers.at(1).has_experts);
    contradicts("ernie4_5_moe", "ernie4_5-moe.", "expert_shared_count", 7);
    contradicts("gpt_oss", "gpt-oss.", "feed_forward_length", 7);
    contradicts("deepseek_v2", "deepseek2.", "leading_dense_block_count", 2);
    const auto noted = must(with("cohere", "command-r.vocab_size", 7u)).notes;
    REQUIRE(noted.size() == 1);
    CHECK_THAT(noted.front(), ContainsSubstring("\"command-r.vocab_size\""));
    // A layer behind the others predicts the token after the next one.
    const models::Decoder shorter = must(with("glm4_moe", "glm4moe.nextn_predict_layers", 1u));
    CHECK(shorter.config().layers.size() == 2);
    CHECK(shorter.notes.empty());
}

// ---- fields that are missing, and nulls

TEST_CASE("soft caps of Gemma 2 are there unless they are null, and those of Gemma 3 are not asked for",
          "[models][decoder]") {
    const char *const scores = "attn_logit_softcapping", *const logits = "final_logit_softcapping";
    const models::DecoderConfig usual = config_of("gemma2", {}, {scores, logits});
    CHECK(usual.attention_soft_cap == 50);
    CHECK(usual.logit_soft_cap == 30);
    const models::DecoderConfig none = config_of("gemma2", {{scores, nullptr}, {logits, nullptr}});
    CHECK(none.attention_soft_cap == 0);
    CHECK(none.logit_soft_cap == 0);
    const models::DecoderConfig third = config_of("gemma3", {{logits, 20.0}}, {scores});
    CHECK(third.attention_soft_cap == 0);
    CHECK(third.logit_soft_cap == 20);
    check_refused(load_with_nulls("gemma3", {{scores, 20.0}}), UnsupportedConfig, scores);
}

TEST_CASE("windows are of the usual size where nothing is said, and none where null is", "[models][decoder]") {
    const auto all = [](const std::string& name) {
        return static_cast<std::ptrdiff_t>(config_of(name, {}).layers.size());
    };
    CHECK(windows_and_turns(config_of("mistral_window", {}, {kWindow}), 4096).first == all("mistral_window"));
    CHECK(windows_and_turns(config_of("mistral_window", {{kWindow, nullptr}}), 0).first == all("mistral_window"));
    // With a window somewhere in the model, layers without one have no positions.
    const std::ptrdiff_t layers = all("exaone4_full");
    CHECK(windows_and_turns(config_of("exaone4_full", {}, {kWindow}), 0) == std::pair(layers, std::ptrdiff_t{0}));
    CHECK(windows_and_turns(config_of("exaone4_full", {{kWindow, nullptr}}), 0) == std::pair(layers, layers));
    const json used = {{"use_sliding_window", true}, {"max_window_layers", 0}};
    for (const char* const name : {"qwen2", "qwen3", "qwen3_moe"}) {
        CAPTURE(name);
        json fields = used;
        CHECK(windows_and_turns(config_of(name, fields, {kWindow, "layer_types"}), 4096).first == all(name));
        fields[kWindow] = nullptr;
        CHECK(windows_and_turns(config_of(name, fields, {"layer_types"}), 0).first == all(name));
    }
}

TEST_CASE("a null window is refused beside layers that slide", "[models][decoder][errors]") {
    const char* const name = GENERATE("gemma2", "gemma3", "gemma3n", "gemma4", "cohere2", "cohere2_listed", "olmo3",
                                      "olmo3_listed", "exaone4", "exaone4_listed", "gpt_oss");
    CAPTURE(name);
    json fields = {{kWindow, nullptr}};
    check_refused(load_with_nulls(name, fields), UnsupportedConfig, kWindow);
}

TEST_CASE("a null window is refused beside layers that are said to slide", "[models][decoder][errors]") {
    const char* const name = GENERATE("qwen2", "qwen3", "qwen2_moe", "smollm3");
    CAPTURE(name);
    json fields = {{kWindow, nullptr}, {"use_sliding_window", true}};
    fields["layer_types"] = std::vector<std::string>(config_of(name, {}).layers.size(), "sliding_attention");
    check_refused(load_with_nulls(name, fields), UnsupportedConfig, kWindow);
}

}  // namespace vkformer::tests
