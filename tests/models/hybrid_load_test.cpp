// SPDX-License-Identifier: MIT
// Hybrids of Mamba-2 whose files say what is not done, or what no model can have.
#include <cmath>

#include "models/changed_golden.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;
using enum ErrorCode;

TEST_CASE("a hybrid of Granite is what its config says, or refused by the field", "[models][decoder][errors]") {
    using Mixer = models::DecoderConfig::Mixer;
    const auto with = [](const json& fields) { return load_golden_with("granite_hybrid", fields); };
    const auto as_filed = must(with(json::object())).config();
    CHECK(as_filed.scan.norm_eps == 1e-3f);  // that of the norms of x is not
    CHECK(as_filed.scan.least_step == 0);
    CHECK(std::isinf(as_filed.scan.most_step));
    CHECK(as_filed.layers[0].mixer == Mixer::selective_scan);
    CHECK(as_filed.layers[2].mixer == Mixer::attention);
    CHECK_FALSE(as_filed.layers[2].rope);
    CHECK(as_filed.state_bytes() == 3 * 4 * (3 * (60 + 14) + 7 * 60));
    CHECK(must(with({{"mamba_d_head", "auto"}, {"time_step_limit", nullptr}})).config().scan.head_dim == 10);
    CHECK(must(with({{"position_embedding_type", "rope"}})).config().layers[2].rope == 0);

    check_refused(with({{"layer_types", {"mamba", "mamba", "attention"}}}), CorruptFile, "layer_types");
    check_refused(with({{"layer_types", {"mamba", "mamba2", "attention", "mamba"}}}), UnsupportedConfig, "layer_types");
    check_refused(with({{"layer_types", nullptr}}), MissingTensor, "layers.2.mamba");
    CHECK(must(with({{"layer_types", nullptr}, {"layers_block_type", {"mamba", "mamba", "attention", "mamba"}}}))
              .config()
              .layers[2]
              .mixer == Mixer::attention);
    check_refused(with({{"position_embedding_type", "alibi"}}), UnsupportedConfig, "position_embedding_type");
    check_refused(with({{"mamba_n_heads", 7}}), UnsupportedConfig, "mamba_n_heads");
    check_refused(with({{"mamba_n_heads", 0}}), CorruptFile, "mamba_n_heads");
    check_refused(with({{"mamba_n_groups", 4}}), UnsupportedConfig, "mamba_n_groups");
    check_refused(with({{"mamba_n_groups", 2}}), ShapeMismatch, "mamba.in_proj");
    check_refused(with({{"mamba_d_head", 12}}), UnsupportedConfig, "mamba_d_head");
    check_refused(with({{"mamba_d_head", "half"}}), CorruptFile, "mamba_d_head");
    check_refused(with({{"mamba_d_state", 257}}), CorruptFile, "mamba_d_state");
    check_refused(with({{"mamba_d_conv", 3}}), ShapeMismatch, "mamba.conv1d");
    check_refused(with({{"mamba_expand", 4}}), UnsupportedConfig, "mamba_d_head");
    check_refused(with({{"mamba_proj_bias", true}}), MissingTensor, "mamba.in_proj.bias");
    check_refused(with({{"hidden_act", "gelu"}}), UnsupportedConfig, "hidden_act");
    check_refused(with({{"time_step_limit", {-1, 2}}}), UnsupportedConfig, "time_step_limit");
    check_refused(with({{"time_step_limit", {3, 2}}}), CorruptFile, "time_step_limit");
    check_refused(with({{"shared_intermediate_size", 36}}), ShapeMismatch, "shared_mlp.input_linear");
    check_refused(with({{"shared_intermediate_size", 0}}), CorruptFile, "shared_intermediate_size");
    check_refused(with({{"num_local_experts", 2}}), MissingTensor, "block_sparse_moe");
}

TEST_CASE("Bamba is what its config says, or refused by the field", "[models][decoder][errors]") {
    using Mixer = models::DecoderConfig::Mixer;
    const auto with = [](const json& fields) { return load_golden_with("bamba", fields); };
    const auto as_filed = must(with(json::object())).config();
    CHECK(as_filed.layers[0].mixer == Mixer::selective_scan);
    CHECK(as_filed.layers[1].mixer == Mixer::attention);
    CHECK(as_filed.layers[1].rope == 0);
    CHECK(as_filed.ropes[0].frequencies.size() == 3);  // of 12 elements six are turned
    const json published = {{"attn_rotary_emb", 6},
                            {"partial_rotary_factor", 0.5},
                            {"use_mamba_kernels", true},
                            {"mamba_d_head", "auto"},
                            {"time_step_limit", nullptr}};
    CHECK(must(with(published)).notes.empty());

    check_refused(with({{"attn_rotary_emb", 12}}), UnsupportedConfig, "attn_rotary_emb");
    check_refused(with({{"rope_parameters", {{"partial_rotary_factor", 1.0}}}}), UnsupportedConfig,
                  "partial_rotary_factor");
    check_refused(with({{"rope_parameters", nullptr}, {"partial_rotary_factor", 1}}), UnsupportedConfig,
                  "partial_rotary_factor");
    check_refused(with({{"attn_layer_indices", {1, 2}}}), MissingTensor, "layers.2.self_attn");
    check_refused(with({{"attn_layer_indices", nullptr}}), MissingTensor, "layers.1.mamba");
    check_refused(with({{"mamba_n_groups", 5}}), ShapeMismatch, "mamba.in_proj");
    check_refused(with({{"hidden_act", "gelu"}}), UnsupportedConfig, "hidden_act");
    check_refused(with({{"mlp_bias", true}}), MissingTensor, "feed_forward.gate_proj.bias");
    check_refused(with({{"attention_bias", true}}), MissingTensor, "q_proj.bias");
    check_refused(with({{"mamba_proj_bias", true}}), MissingTensor, "mamba.in_proj.bias");
    const auto limited = must(load_golden_with("bamba_grouped_biased", json::object())).config().scan;
    CHECK(limited.least_step == 0.4f);
    CHECK(limited.most_step == 0.9f);
    CHECK(limited.norm_groups == 1);
}

TEST_CASE("Nemotron-H is what its config says, or refused by the field", "[models][decoder][errors]") {
    using Mixer = models::DecoderConfig::Mixer;
    const auto with = [](const json& fields) { return load_golden_with("nemotron_h", fields); };
    const auto with_experts = [](const json& fields) { return load_golden_with("nemotron_h_moe", fields); };
    const auto mixers_of = [](const models::Decoder& model) {
        std::vector<Mixer> mixers;
        for (const auto& layer : model.config().layers) mixers.push_back(layer.mixer);
        return mixers;
    };
    const auto as_filed = must(with(json::object()));
    CHECK(mixers_of(as_filed) == std::vector{Mixer::selective_scan, Mixer::none, Mixer::selective_scan,
                                             Mixer::attention, Mixer::none, Mixer::selective_scan});
    CHECK(as_filed.config().attention_layers() == 1);
    CHECK(as_filed.config().scan.norm_groups == 3);
    const json older = {{"layers_block_type", nullptr}, {"hybrid_override_pattern", "M-M*-M"},
                        {"n_groups", nullptr},          {"mamba_n_groups", 3},
                        {"head_dim", nullptr},          {"attention_head_dim", 10},
                        {"num_hidden_layers", 6}};
    CHECK(mixers_of(must(with(older))) == mixers_of(as_filed));
    const auto mixture = must(with_experts(json::object())).config().experts;
    CHECK(mixture.scale == 2.5f);
    CHECK(mixture.normalises);
    CHECK(mixture.scores == graph::RouteScores::sigmoid);

    const auto limited = must(with({{"time_step_limit", {0.25, 0.75}}})).config().scan;
    CHECK(limited.least_step == 0.25f);
    CHECK(limited.most_step == 0.75f);
    CHECK(std::isinf(must(with({{"time_step_limit", {0.25, 1e300}}})).config().scan.most_step));
    // Where there are both, the older name holds.
    CHECK(must(with({{"mamba_dt_limit", {0.5, 2}}})).config().scan.most_step == 2);
    check_refused(with({{"mamba_d_conv", 3}}), ShapeMismatch, "conv1d");
    check_refused(with({{"mamba_n_groups", 6}}), ShapeMismatch, "in_proj");
    CHECK(must(with({{"mamba_conv_bias", false}})).weights().layers[0].state.taps_bias.bytes.empty());

    check_refused(with({{"layers_block_type", {"mamba", "mlp", "mamba", "attn", "mlp", "mamba"}}}), UnsupportedConfig,
                  "layers_block_type");
    check_refused(with({{"layers_block_type", nullptr}}), CorruptFile, "hybrid_override_pattern");
    check_refused(with({{"layers_block_type", nullptr}, {"hybrid_override_pattern", "M-Mx-M"}}), UnsupportedConfig,
                  "hybrid_override_pattern");
    check_refused(with({{"layers_block_type", {"mamba", "mlp"}}}), UnsupportedConfig,
                  "no layer of the model has attention");
    check_refused(with({{"num_hidden_layers", 7}}), UnsupportedConfig, "num_hidden_layers");
    check_refused(with({{"n_groups", 4}}), UnsupportedConfig, "n_groups");
    check_refused(with({{"mamba_hidden_act", "gelu"}}), UnsupportedConfig, "mamba_hidden_act");
    check_refused(with({{"mlp_hidden_act", "relu3"}}), UnsupportedConfig, "mlp_hidden_act");
    check_refused(with({{"sliding_window", 8}}), UnsupportedConfig, "sliding_window");
    check_refused(with({{"mamba_num_heads", 9}}), ShapeMismatch, "mixer.in_proj");
    check_refused(with({{"time_step_limit", {-0.5, 1}}}), UnsupportedConfig, "time_step_limit");
    check_refused(with({{"time_step_limit", {1e300, 1e301}}}), UnsupportedConfig, "time_step_limit");
    check_refused(with({{"use_bias", true}}), MissingTensor, "in_proj.bias");
    check_refused(with_experts({{"n_group", 2}}), UnsupportedConfig, "n_group");
    check_refused(with_experts({{"moe_latent_size", 12}}), UnsupportedConfig, "moe_latent_size");
    check_refused(with_experts({{"num_experts_per_tok", 8}}), CorruptFile, "num_experts_per_tok");
    check_refused(with_experts({{"n_routed_experts", 6}}), ShapeMismatch, "mixer.gate");
    check_refused(with_experts({{"moe_shared_expert_intermediate_size", 17}}), ShapeMismatch, "shared_experts");
}

TEST_CASE("Nemotron-H is found under the names of published files", "[models][decoder]") {
    const auto replaced = [](std::string name, const std::string& from, const std::string& to) {
        if (name.starts_with(from)) name.replace(0, from.size(), to);
        return name;
    };
    const auto as_filed = must(load_golden_with("nemotron_h", json::object()));
    const auto is_same = [&](const models::Decoder& model) {
        return std::ranges::equal(model.weights().embedding.bytes, as_filed.weights().embedding.bytes) &&
               std::ranges::equal(model.weights().layers[3].query.weight.bytes,
                                  as_filed.weights().layers[3].query.weight.bytes);
    };
    CHECK(is_same(must(load_renamed("nemotron_h", [&](const std::string& name) {
        return replaced(name, "backbone.embedding.", "backbone.embeddings.");
    }))));
    CHECK(is_same(must(
        load_renamed("nemotron_h", [&](const std::string& name) { return replaced(name, "backbone.", "model."); }))));
}

TEST_CASE("Nemotron-H in a GGUF file is what its keys say, or refused by them", "[models][decoder][gguf][errors]") {
    const auto with = [](const std::string& key, const auto& value) {
        return load_gguf_with("nemotron_h_moe", [&](models::GgufContents& contents) {
            contents.metadata.set("nemotron_h_moe." + key, value);
        });
    };
    CHECK(must(with("expert_weights_scale", 1.5f)).config().experts.scale == 1.5f);
    CHECK_FALSE(must(with("expert_weights_norm", false)).config().experts.normalises);
    CHECK(must(with("attention.layer_norm_epsilon", 0.5f)).config().norm_eps == 1e-4f);
    // A layer behind the last one that predicts the token after the next.
    const auto predicting = load_gguf_with("nemotron_h_moe", [&](models::GgufContents& contents) {
        const std::string prefix = "nemotron_h_moe.";
        contents.metadata.set(prefix + "block_count", 7u);
        contents.metadata.set(prefix + "nextn_predict_layers", 1u);
        contents.metadata.set(prefix + "attention.head_count_kv", std::vector<std::int32_t>{0, 0, 2, 0, 0, 0, 2});
        contents.metadata.set(prefix + "feed_forward_length", std::vector<std::int32_t>{0, 13, 0, 13, 0, 13, 13});
    });
    CHECK(must(predicting).config().layers.size() == 6);
    check_refused(with("moe_latent_size", 8u), UnsupportedConfig, "moe_latent_size");
    check_refused(with("expert_group_count", 2u), UnsupportedConfig, "expert_group_count");
    check_refused(with("expert_gating_func", 1u), UnsupportedConfig, "expert_gating_func");
    check_refused(with("ssm.group_count", 2u), ShapeMismatch, "ssm_");
    check_refused(with("feed_forward_length", std::vector<std::int32_t>{0, 13, 0, 12, 0, 13}), UnsupportedConfig,
                  "feed_forward_length");
    check_refused(with("feed_forward_length", std::vector<std::int32_t>{0, 0, 0, 0, 0, 0}), UnsupportedConfig,
                  "feed_forward_length");
}

TEST_CASE("a hybrid of Granite in a GGUF file is refused by the key", "[models][decoder][gguf][errors]") {
    const auto with = [](const std::string& key, const auto& value) {
        return load_gguf_with("granite_hybrid", [&](models::GgufContents& contents) {
            contents.metadata.set("granitehybrid." + key, value);
        });
    };
    CHECK(must(with("rope.scaling.finetuned", true)).config().layers[2].rope == 0);
    // llama-quantize drops a first dimension of 1.
    const auto as_row = must(load_gguf_with("granite_hybrid", [](models::GgufContents& contents) {
        for (formats::OutputTensor& tensor : contents.tensors)
            if (tensor.name.ends_with("ssm_norm.weight")) tensor.source.shape = {tensor.source.shape[1]};
    }));
    CHECK(as_row.weights().layers[0].state.norm.gain.shape == Shape{60});
    check_refused(with("ssm.group_count", 2u), UnsupportedConfig, "ssm.group_count");
    check_refused(with("ssm.group_count", 0u), CorruptFile, "ssm.group_count");
    check_refused(with("ssm.time_step_rank", 7u), UnsupportedConfig, "ssm.inner_size");
    check_refused(with("ssm.inner_size", 120u), ShapeMismatch, "ssm_in");
    check_refused(with("ssm.state_size", 257u), CorruptFile, "ssm.state_size");
    check_refused(with("ssm.conv_kernel", 3u), ShapeMismatch, "ssm_conv1d");
    check_refused(with("attention.head_count_kv", std::vector<std::int32_t>{0, 1, 1, 0}), UnsupportedConfig,
                  "attention.head_count_kv");
}

}  // namespace
}  // namespace vkformer::tests
