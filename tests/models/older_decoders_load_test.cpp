// SPDX-License-Identifier: MIT
// GPT-NeoX, GPT-J, Phi, OPT, StarCoder2 and OLMo: what their files say that is not done, or in other words.
#include <nlohmann/json.hpp>

#include "models/changed_golden.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;
using enum ErrorCode;

}  // namespace

TEST_CASE("older decoders are refused by the field that asks for something else", "[models][decoder][errors]") {
    const auto refused = [](const char* golden, const json& fields, ErrorCode code, const std::string& words) {
        CAPTURE(golden, fields.dump());
        check_refused(load_golden_with(golden, fields), code, words);
    };
    refused("gpt_neox", {{"num_key_value_heads", 1}}, UnsupportedConfig, R"("num_key_value_heads" is 1)");
    refused("gpt_neox", {{"attention_bias", false}, {"intermediate_size", 34}}, ShapeMismatch, "dense_h_to_4h");
    refused("gpt_neox", {{"rope_parameters", nullptr}, {"rotary_pct", 0.5}, {"partial_rotary_factor", 0.25}},
            UnsupportedConfig, R"("partial_rotary_factor" is 0.25)");
    refused("gptj", {{"rotary_dim", 5}}, UnsupportedConfig, R"("rotary_dim" is 5)");
    refused("gptj", {{"rotary_dim", 12}}, UnsupportedConfig, R"("rotary_dim" is 12)");
    refused("gptj", {{"n_head", 4}}, UnsupportedConfig, R"("n_head" is 4)");
    refused("phi", {{"qk_layernorm", true}}, MissingTensor, "q_layernorm");
    refused("phi", {{"hidden_act", "swish_of_ours"}}, UnsupportedConfig, R"("hidden_act" is "swish_of_ours")");
    refused("opt", {{"word_embed_proj_dim", 16}}, UnsupportedConfig, R"("word_embed_proj_dim" is 16)");
    refused("opt", {{"layer_norm_elementwise_affine", false}}, UnsupportedConfig, "layer_norm_elementwise_affine");
    refused("opt", {{"num_attention_heads", 7}}, UnsupportedConfig, R"("num_attention_heads" is 7)");
    refused("starcoder2", {{"sliding_window", 0}}, CorruptFile, "sliding_window");
    refused("olmo3", {{"layer_types", {"full_attention"}}}, CorruptFile, "layer_types");
    refused("olmo3", {{"layer_types", json::array_t(5, "chunked_attention")}}, UnsupportedConfig, "layer_types");
    const json long_rope = {{"rope_type", "longrope"},
                            {"rope_theta", 1e4},
                            {"short_factor", {1, 1, 1}},
                            {"long_factor", {2, 2, 2}},
                            {"original_max_position_embeddings", 64}};
    refused("olmo3", {{"rope_parameters", long_rope}}, UnsupportedConfig, "rope_type");
}

TEST_CASE("older decoders' positions under the names of their time", "[models][decoder]") {
    const auto rope_of = [](const char* golden, const json& fields) {
        return must(load_golden_with(golden, fields)).config().ropes.at(0).frequencies;
    };
    const auto as_filed = rope_of("gpt_neox", json::object());
    CHECK(as_filed.size() == 2);  // half of a head of 8
    CHECK(rope_of("gpt_neox", {{"rope_parameters", nullptr}, {"rotary_pct", 0.5}}) == as_filed);
    CHECK(rope_of("gpt_neox", {{"rope_parameters", nullptr}}).size() == 1);  // a quarter
    const auto others =
        rope_of("gpt_neox", {{"rope_parameters", nullptr}, {"rotary_pct", 0.5}, {"rotary_emb_base", 9e4}});
    CHECK(others.back() < as_filed.back());
    CHECK(rope_of("phi", {{"rope_parameters", nullptr}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1e4}}).size() ==
          1);
    CHECK(rope_of("phi", {{"rope_parameters", nullptr}}).size() == 2);
    // Positions of layers with windows are those that nobody has scaled.
    const auto yarn = must(load_golden_with("olmo3_yarn", json::object())).config();
    REQUIRE(yarn.ropes.size() == 2);
    CHECK(yarn.ropes[0].frequencies.back() < yarn.ropes[1].frequencies.back());
    CHECK(yarn.ropes[1].scale == 1);
    for (std::size_t i = 0; i < yarn.layers.size(); ++i)
        CHECK(yarn.layers[i].rope == (yarn.layers[i].window > 0 ? 1u : 0u));
}

}  // namespace vkformer::tests
