// SPDX-License-Identifier: MIT
// DeepSeek's folders and files: what their fields and keys come to, and what is refused by them.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "cpu/backend.hpp"
#include "formats/safetensors.hpp"
#include "models/adapter_case.hpp"
#include "models/changed_golden.hpp"
#include "models/decoder_case.hpp"
#include "models/run_in_pieces.hpp"
#include "models/weight_reader.hpp"
#include "support/bounds.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;
using enum ErrorCode;

const std::vector<std::int32_t> kTokens = {5, 3, 9, 1, 7, 7, 40, 2};

std::vector<double> logits_of(const models::Decoder& model) {
    static const auto oracle = cpu::make_cpu_backend<double>();
    return run_in_pieces(model, *oracle, kTokens, 1, DType::f32, {8}).logits;
}

json rope_of(const std::string& name) {
    return read_json(goldens_dir() / "decoders" / name / "config.json")["rope_parameters"];
}

}  // namespace

TEST_CASE("a cache of DeepSeek has a latent vector and one key of a token", "[models][decoder]") {
    const auto model = load_decoder_case("deepseek_v3");
    const models::DecoderConfig& c = model.config();
    CHECK(c.latent.rank == 14);
    CHECK(c.kv_heads == 1);
    CHECK(c.head_dim == 14 + 4);
    CHECK(c.cached_numbers(false) == 18 * c.layers.size());
    CHECK(c.cached_numbers(true) == 0);
    CHECK(load_decoder_case("qwen3").config().cached_numbers(false) == 3 * 2 * 2 * 12);
    graph::Graph g;
    const auto caches = must(model.add_caches(g, {.rows = 3, .capacity = 7}));
    REQUIRE(caches.size() == c.layers.size());
    CHECK(to_string(g.shape(caches[2])) == "[3, 7, 1, 18]");
    check_refused(model.check_cache(models::CacheFormat::q8_0), InvalidArgument, "1 key heads of 18");
    CHECK(load_decoder_case("deepseek_v3_halves").check_cache(models::CacheFormat::q8_0));
}

TEST_CASE("DeepSeek's scores are scaled by mscale_all_dim, in the second family too", "[models][decoder]") {
    const auto scales = [](const char* name, const json& rope) {
        const auto model = must(load_golden_with(name, {{"rope_parameters", rope}}));
        return std::pair{
            model.config().attention_scale * std::sqrt(static_cast<float>(model.config().latent.query_dim())),
            model.config().ropes[0].scale};
    };
    const char* const name = GENERATE("deepseek_v2_groups", "deepseek_v3");
    json rope = rope_of(name);
    const auto of = [&](const json& all, const json& turned) {
        rope["mscale_all_dim"] = all;
        rope["mscale"] = turned;
        return scales(name, rope);
    };
    const double half = 0.05 * std::log(4.0) + 1, whole = 0.1 * std::log(4.0) + 1;
    CHECK(of(0.5, 1.0).first == Approx(half * half));
    CHECK(of(0.5, 1.0).second == Approx(whole / half));
    CHECK(of(0.5, 0.5).second == Approx(1));
    CHECK(of(nullptr, 1.0).first == Approx(1));
    CHECK(of(nullptr, 1.0).second == Approx(whole));  // as without both
    CHECK(scales(name, {{"rope_type", "default"}, {"rope_theta", 150.0}}).first == Approx(1));
}

TEST_CASE("DeepSeek's layers have experts from one on, or every n-th", "[models][decoder]") {
    const auto layers_of = [](const models::Decoder& model) {
        std::string text;
        for (const auto& layer : model.config().layers) text += layer.has_experts ? "e" : "-";
        return text;
    };
    CHECK(layers_of(load_decoder_case("deepseek_v2")) == "-ee");
    CHECK(layers_of(load_decoder_case("deepseek_v2_groups")) == "ee");
    CHECK(layers_of(load_decoder_case("deepseek_v3_halves")) == "e-e-");
    check_refused(load_golden_with("deepseek_v3", {{"first_k_dense_replace", 2}}), MissingTensor,
                  "layers.1.mlp.gate_proj");
}

TEST_CASE("DeepSeek is refused by the field that asks for something else", "[models][decoder][errors]") {
    const auto refused = [](const char* name, const json& fields, ErrorCode code, const std::string& words) {
        check_refused(load_golden_with(name, fields), code, words);
    };
    refused("deepseek_v2", {{"topk_method", "noaux_tc"}}, UnsupportedConfig, R"("topk_method" is "noaux_tc")");
    refused("deepseek_v2", {{"scoring_func", "sigmoid"}}, UnsupportedConfig, R"("scoring_func" is "sigmoid")");
    refused("deepseek_v2", {{"norm_topk_prob", true}}, UnsupportedConfig, R"("norm_topk_prob" is true)");
    refused("deepseek_v2", {{"num_experts_per_tok", nullptr}}, CorruptFile, "num_experts_per_tok");
    refused("deepseek_v2", {{"num_key_value_heads", 1}}, UnsupportedConfig, R"("num_key_value_heads" is 1)");
    refused("deepseek_v2", {{"kv_lora_rank", 12}}, ShapeMismatch, "kv_a_proj_with_mqa");
    refused("deepseek_v2", {{"v_head_dim", 8}}, ShapeMismatch, "o_proj");
    refused("deepseek_v2", {{"head_dim", 12}}, UnsupportedConfig, R"("head_dim" is 12)");
    refused("deepseek_v2", {{"q_lora_rank", 5}}, MissingTensor, "q_a_proj");
    refused("deepseek_v2_groups", {{"n_group", 5}}, UnsupportedConfig, R"("n_group" is 5)");
    refused("deepseek_v2_groups", {{"topk_group", 5}}, UnsupportedConfig, "topk_group");
    refused("deepseek_v2_groups", {{"n_group", 12}, {"topk_group", 2}}, UnsupportedConfig, "topk_group");
    refused("deepseek_v3", {{"n_group", 12}}, UnsupportedConfig, R"("n_group" is 12)");  // two of one expert
    refused("deepseek_v3", {{"topk_method", "greedy"}}, UnsupportedConfig, R"("topk_method" is "greedy")");
    refused("deepseek_v3", {{"scoring_func", "softmax"}}, UnsupportedConfig, R"("scoring_func" is "softmax")");
    refused("deepseek_v3", {{"rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2.0}}}}, UnsupportedConfig,
            R"("rope_type" is "dynamic")");
    CHECK(load_golden_with("deepseek_v3", {{"topk_method", "noaux_tc"}, {"scoring_func", "sigmoid"}}));
}

TEST_CASE("layers of DeepSeek that predict the token after the next one are passed over", "[models][passed_over]") {
    const TemporaryFolder folder;
    const auto source = goldens_dir() / "decoders/deepseek_v3";
    const auto load = [&](const json& fields, const std::string& further) {
        const auto model = folder.path() / "model";
        std::filesystem::create_directories(model);
        std::filesystem::copy_file(source / "config.json", model / "config.json",
                                   std::filesystem::copy_options::overwrite_existing);
        write_config_with(model, fields);
        const auto file = must(formats::Safetensors::open(source / "model.safetensors"));
        std::vector<formats::NamedTensor> tensors;
        for (const auto& [name, data] : file.tensors()) tensors.push_back({std::string(name), data});
        tensors.push_back({further, tensors.front().data});
        must(formats::write_safetensors(model / "model.safetensors", tensors));
        return must(models::load_decoder(model)).notes;
    };
    CHECK(load({{"num_nextn_predict_layers", 1}}, "model.layers.4.eh_proj.weight").empty());
    CHECK(load(json::object(), "model.layers.4.eh_proj.weight").size() == 1);
    CHECK(load({{"num_nextn_predict_layers", 1}}, "model.layers.5.eh_proj.weight").size() == 1);
}

TEST_CASE("adapters change DeepSeek's projections, but for those that are absorbed", "[models][adapter]") {
    const std::string self = "model.layers.1.self_attn.";
    const TemporaryFolder folder;
    write_adapter(folder / "adapter",
                  {{self + "q_a_proj", 19, 22},
                   {self + "q_b_proj", 5 * 11, 19},
                   {self + "kv_a_proj_with_mqa", 18, 22},
                   {self + "o_proj", 22, 45}},
                  3, 17);
    const auto model = must(with_adapters(base_folder("deepseek_v3"), {folder / "adapter"}));
    const auto oracle = cpu::make_cpu_backend<double>();
    const auto run = [&](float scale) {
        return run_in_pieces(model, *oracle, kTokens, 1, DType::f32, {8}, models::WeightFormat::as_computed, {{scale}})
            .logits;
    };

    const auto file = must(formats::Safetensors::open(base_folder("deepseek_v3") / "model.safetensors"));
    formats::TensorMap changed;
    const auto adapter = must(models::open_adapter(folder / "adapter"));
    for (const auto& [name, update] : adapter.updates) {
        const TensorData& weight = file.tensors().at(name);
        std::vector<float> values = must(models::floats_of(weight));
        const std::vector<float> down = must(models::floats_of(update.down)), up = must(models::floats_of(update.up));
        const std::size_t rank = update.down.shape[0], in = weight.shape[1];
        for (std::size_t i = 0; i < values.size(); ++i)
            for (std::size_t k = 0; k < rank; ++k)
                values[i] += update.scale * up[i / in * rank + k] * down[k * in + i % in];
        changed[name] = models::float_tensor(weight.shape, std::move(values));
    }
    CHECK(relative_error<double, double>(run(1), logits_of(must(load_golden_with("deepseek_v3", json::object(),
                                                                                 changed)))) < kRoundedAttributeBound);
    CHECK(relative_error<double, double>(run(0), logits_of(load_decoder_case("deepseek_v3"))) < 1e-12);

    const TemporaryFolder other;
    write_adapter(other / "adapter", {{self + "kv_b_proj", 5 * 16, 14}});
    check_refused(with_adapters(base_folder("deepseek_v3"), {other / "adapter"}), UnsupportedConfig,
                  "which takes none here");
}

TEST_CASE("DeepSeek in a GGUF file is what its keys say, or refused by them", "[models][decoder][gguf][errors]") {
    const auto with = [](const char* name, const std::string& key, const auto& value) {
        return load_gguf_with(
            name, [&](models::GgufContents& contents) { contents.metadata.set("deepseek2." + key, value); });
    };
    const auto scale = [&](const char* key, float value) {
        return must(with("deepseek_v3", key, value)).config().attention_scale * std::sqrt(11.0f);
    };
    CHECK(scale("rope.scaling.yarn_log_multiplier", 0.05f) == Approx(std::pow(0.05 * std::log(4.0) + 1, 2)));
    CHECK(scale("attention.scale", 1.0f) == Approx(std::sqrt(11.0) * std::pow(0.1 * std::log(4.0) + 1, 2)));
    CHECK(must(with("deepseek_v3", "expert_weights_scale", 1.5f)).config().experts.scale == 1.5f);
    CHECK(must(with("deepseek_v3", "expert_weights_norm", false)).config().experts.normalises == false);
    CHECK(must(with("deepseek_v3", "expert_group_count", 1u)).config().experts.groups == graph::RouteGroups());
    CHECK(must(with("deepseek_v2_groups", "expert_group_used_count", 3u)).config().experts.groups ==
          graph::RouteGroups{.count = 4, .kept = 3, .best = 1});
    check_refused(with("deepseek_v3", "expert_gating_func", 3u), CorruptFile, "expert_gating_func");
    check_refused(with("deepseek_v3", "expert_group_count", 5u), UnsupportedConfig, "expert_group_count");
    check_refused(with("deepseek_v3", "expert_group_used_count", 4u), UnsupportedConfig, "expert_group_used_count");
    check_refused(with("deepseek_v3", "rope.scaling.yarn_log_multiplier", 0.0f), UnsupportedConfig,
                  "yarn_log_multiplier");
    check_refused(with("deepseek_v3", "attention.key_length", 17u), UnsupportedConfig, "attention.key_length");
    check_refused(with("deepseek_v3", "attention.head_count_kv", 5u), UnsupportedConfig, "attention.head_count_kv");
    check_refused(with("deepseek_v2", "attention.head_count_kv", 1u), UnsupportedConfig, "attention.head_count_kv");
    check_refused(with("deepseek_v3", "rope.dimension_count", 11u), UnsupportedConfig, "rope.dimension_count");
    check_refused(with("deepseek_v3", "attention.key_length_mla", 12u), ShapeMismatch, "attn_q_b");
}

}  // namespace vkformer::tests
