// SPDX-License-Identifier: MIT
/// Folders of BART, mBART, M2M100, PEGASUS, T5 and T5Gemma that are not quite: each gives an error that says what is wrong.
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "models/changed_golden.hpp"
#include "models/generation_config.hpp"
#include "models/seq2seq_loading.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using LoadSeq2Seq = Result<models::Seq2Seq> (*)(const formats::Config&, const formats::Weights&);

std::filesystem::path encoder_decoder_folder(const std::string& name) {
    return goldens_dir() / "encoder_decoders" / name;
}

LoadSeq2Seq loader_of(const std::string& name) {
    if (name.find("bart") != name.npos) return &models::load_bart;
    if (name.starts_with("pegasus")) return &models::load_pegasus;
    return name.starts_with("m2m100") ? &models::load_m2m100 : &models::load_t5;
}

Result<models::Seq2Seq> load_encoder_decoder_with(const std::string& name, const std::string& field,
                                                  const std::string& value) {
    std::ifstream file(encoder_decoder_folder(name) / "config.json");
    json config = json::parse(file);
    config[field] = json::parse(value);
    return loader_of(name)(must(formats::Config::parse(config.dump(), "config.json")),
                           must(formats::open_weights(encoder_decoder_folder(name))));
}

/// Its stacks have configs of their own: `path` is a JSON pointer.
Result<std::unique_ptr<models::EncoderDecoder>> load_t5gemma_with(const std::string& name, const std::string& path,
                                                                  const std::string& value) {
    std::ifstream file(encoder_decoder_folder(name) / "config.json");
    json config = json::parse(file);
    config[json::json_pointer(path)] = json::parse(value);
    return models::load_t5gemma(must(formats::Config::parse(config.dump(), "config.json")),
                                must(formats::open_weights(encoder_decoder_folder(name))));
}

}  // namespace

TEST_CASE("encoder-decoder configs that are not computed are refused by name", "[models][encoder_decoder][errors]") {
    const auto [name, field, value] = GENERATE(table<std::string, std::string, std::string>({
        {"bart_d21_h3_h7", "activation_function", R"("mish")"},
        {"bart_d21_h3_h7", "architectures", R"(["BartForSequenceClassification"])"},
        {"bart_d21_h3_h7", "normalize_before", "true"},
        {"bart_d21_h3_h7", "encoder_attention_heads", "4"},
        {"bart_d21_h3_h7", "is_encoder_decoder", "false"},
        {"bart_d21_h3_h7", "quantization_config", R"({"bits": 4})"},
        {"mbart_d20_h5_h2", "normalize_before", "false"},
        {"m2m100_d26_h2", "decoder_attention_heads", "7"},
        {"m2m100_d26_h2", "architectures", R"(["NllbMoeForConditionalGeneration"])"},
        {"pegasus_d27_h3_h9", "activation_function", R"("mish")"},
        {"pegasus_d27_h3_h9", "architectures", R"(["PegasusForCausalLM"])"},
        {"pegasus_d27_h3_h9", "decoder_attention_heads", "4"},
        {"pegasus_d27_h3_h9", "normalize_before", "false"},
        {"pegasus_d27_h3_h9", "normalize_embedding", "true"},
        {"pegasus_d27_h3_h9", "add_final_layer_norm", "false"},
        {"pegasus_d20_computed", "static_position_embeddings", "false"},
        {"t5_d22_relu", "feed_forward_proj", R"("gated-swish")"},
        {"t5_d22_relu", "relative_attention_max_distance", "4"},
        {"t5_d22_relu", "architectures", R"(["T5EncoderModel"])"},
    }));
    CAPTURE(name, field, value);
    const auto result = load_encoder_decoder_with(name, field, value);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::UnsupportedConfig);
    CHECK_THAT(result.error().message, ContainsSubstring(field));
}

TEST_CASE("encoder-decoder configs that contradict the weights are refused", "[models][encoder_decoder][errors]") {
    const auto [name, field, value, tensor] = GENERATE(table<std::string, std::string, std::string, std::string>({
        {"bart_d21_h3_h7", "encoder_ffn_dim", "30", "fc1.weight"},
        {"bart_d21_h3_h7", "vocab_size", "54", "shared.weight"},
        {"bart_d21_h3_h7", "max_position_embeddings", "25", "embed_positions.weight"},
        {"mbart_d20_h5_h2", "decoder_layers", "3", "decoder.layers.2"},
        {"pegasus_d27_h3_h9", "max_position_embeddings", "25", "embed_positions.weight"},
        {"pegasus_d27_h3_h9", "encoder_layers", "3", "encoder.layers.2"},
        {"pegasus_d20_computed", "vocab_size", "48", "shared.weight"},
        {"pegasus_d27_h3_h9", "tie_word_embeddings", "false", "lm_head.weight"},
        {"t5_d22_relu", "d_kv", "6", "SelfAttention.q.weight"},
        {"t5_d22_relu", "relative_attention_num_buckets", "10", "relative_attention_bias.weight"},
        {"t5_d22_relu", "is_gated_act", "true", "wi_0.weight"},
        {"t5_d22_relu", "tie_word_embeddings", "false", "lm_head.weight"},
    }));
    CAPTURE(name, field, value);
    const auto result = load_encoder_decoder_with(name, field, value);
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, ContainsSubstring(tensor));
}

TEST_CASE("T5Gemma's stacks are refused by what they have in other sizes or in another way",
          "[models][encoder_decoder][errors]") {
    const auto [name, path, value, words] = GENERATE(table<std::string, std::string, std::string, std::string>({
        {"t5gemma_e24_d28", "/architectures", R"(["T5GemmaEncoderModel"])", "architectures"},
        {"t5gemma_e24_d28", "/is_encoder_decoder", "false", "is_encoder_decoder"},
        {"t5gemma_e24_d28", "/encoder/hidden_activation", R"("mish")", "hidden_activation"},
        {"t5gemma_e24_d28", "/encoder/use_bidirectional_attention", "true", "use_bidirectional_attention"},
        {"t5gemma_e24_d28", "/decoder/cross_attention_hidden_size", "28", "cross_attention_hidden_size"},
        {"t5gemma_e24_d28", "/decoder/rope_parameters/rope_type", R"("dynamic")", "rope_type"},
        {"t5gemma_e24_d28", "/decoder/num_hidden_layers", "2", "layer_types"},
        {"t5gemma_e24_d28", "/encoder/vocab_size", "54", "encoder.embed_tokens.weight"},
        {"t5gemma_e24_d28", "/tie_word_embeddings", "false", "lm_head.out_proj.weight"},
        {"t5gemma_e24_d28", "/encoder/hidden_size", "27", "encoder.embed_tokens.weight"},
        {"t5gemma_e24_d28", "/decoder/attention_bias", "true", "q_proj.bias"},
    }));
    CAPTURE(name, path, value);
    const auto result = load_t5gemma_with(name, path, value);
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, ContainsSubstring(words));
}

TEST_CASE("T5Gemma takes no other mask than lengths", "[models][encoder_decoder][errors]") {
    const auto model = must(load_t5gemma_with("t5gemma_e24_d28", "/decoder/use_cache", "true"));
    CHECK_FALSE(model->limits().takes_any_mask);
    CHECK(model->limits().decoder_layers == 3);
    for (const models::ForwardOptions& options :
         {models::ForwardOptions{.source_mask = models::SourceMask::additive},
          models::ForwardOptions{.source_mask = models::SourceMask::lengths, .target_mask = true}}) {
        const auto refused = model->forward(options);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == ErrorCode::InvalidArgument);
    }
    graph::Graph graph;
    CHECK_FALSE(model->add_encoder(graph, {.masked_source = true}));
    const auto tokens = must(graph.input("tokens", DType::i32, {1, 2}));
    const std::uint32_t behind = 3;
    CHECK_FALSE(model->add_known_target(graph, {}, tokens, {&behind, 1}));
}

TEST_CASE("relative positions take no other mask than lengths", "[models][encoder_decoder][errors]") {
    const auto model = must(load_encoder_decoder_with("t5_d22_relu", "d_model", "22"));
    CHECK_FALSE(model.limits().takes_any_mask);
    const auto refused = model.forward({.source_mask = models::SourceMask::additive});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::InvalidArgument);
    graph::Graph graph;
    CHECK_FALSE(model.add_encoder(graph, {.masked_source = true}));
}

TEST_CASE("encoder-decoders of BART's kind have their families' activations and scales", "[models][encoder_decoder]") {
    std::ifstream file(goldens_dir() / "encoder_decoders/m2m100_d26_h2/config.json");
    json config = json::parse(file);
    for (const char* const field : {"activation_function", "scale_embedding"}) config.erase(field);
    const models::Seq2SeqConfig bart = must(models::read_bart_sizes(must(formats::Config::parse(config.dump(), "x"))));
    CHECK(bart.activation == graph::Activation::gelu_erf);
    CHECK(bart.embedding_scale == 1);
    const auto weights = must(formats::open_weights(goldens_dir() / "encoder_decoders/m2m100_d26_h2"));
    const auto model = must(models::load_m2m100(must(formats::Config::parse(config.dump(), "config.json")), weights));
    CHECK(model.config().activation == graph::Activation::relu);
    CHECK(model.config().embedding_scale == std::sqrt(26.0f));
}

namespace {

/// Of a folder without generation_config.json, with `changes` in its config.json.
Result<models::GenerationConfig> generation_of_config(const std::filesystem::path& folder, const json& changes) {
    const TemporaryFolder copy;
    std::filesystem::copy_file(folder / "config.json", copy / "config.json");
    write_config_with(copy.path(), changes);
    return models::load_generation_config(copy.path(), 64, 53);
}

}  // namespace

TEST_CASE("without a generation_config.json config.json counts, and not what its class has by default",
          "[models][encoder_decoder][generation_config]") {
    const auto [name, start, ends, forced] = GENERATE(table<std::string, std::int32_t, std::int32_t, std::int32_t>({
        {"marian/relu_d30_h5_h3", 52, 0, -1},
        {"encoder_decoders/bart_d21_h3_h7", 2, 2, 2},
        {"encoder_decoders/mbart_d20_h5_h2", 2, 2, -1},
        {"encoder_decoders/m2m100_d15_h3_odd", 2, 2, -1},
        {"encoder_decoders/pegasus_d20_computed", 0, 1, 1},
        {"encoder_decoders/t5_d22_relu", 0, 1, -1},
        {"encoder_decoders/umt5_d20_own_biases", 0, 1, -1},
        {"encoder_decoders/mt5_d18_gated_silu", 0, 1, -1},
        {"encoder_decoders/t5gemma_e24_d28", 2, 1, -1},
    }));
    CAPTURE(name);
    const auto folder = goldens_dir() / name;
    const auto full = must(generation_of_config(folder, json::object()));
    CHECK(full.decoder_start == start);
    CHECK(full.eos == ends);
    CHECK(full.rules.forced_last == forced);
    json bare = {{"bos_token_id", 5}};
    for (const char* const field : {"decoder_start_token_id", "eos_token_id", "pad_token_id", "forced_eos_token_id"})
        bare[field] = nullptr;
    if (name.find("t5gemma") != name.npos) bare["decoder"] = {{"eos_token_id", nullptr}, {"pad_token_id", nullptr}};
    const auto fallen = must(generation_of_config(folder, bare));  // BART's class would end, and force its end, by 2
    CHECK(fallen.decoder_start == 5);
    CHECK(fallen.eos == -1);
    CHECK(fallen.rules.forced_last == -1);
    if (name.find("t5gemma") != name.npos) return;
    bare["bos_token_id"] = nullptr;
    check_refused(generation_of_config(folder, bare), ErrorCode::UnsupportedConfig, "decoder_start_token_id");
}

TEST_CASE("what the config of T5Gemma's decoder alone says of generation is refused",
          "[models][encoder_decoder][generation_config]") {
    const std::string field = GENERATE("eos_token_id", "bos_token_id", "pad_token_id", "forced_eos_token_id");
    CAPTURE(field);
    const auto folder = goldens_dir() / "encoder_decoders/t5gemma_e24_d28";
    const auto refused = generation_of_config(folder, {{field, nullptr}, {"decoder", {{field, 7}}}});
    check_refused(refused, ErrorCode::UnsupportedConfig, field);
    CHECK_THAT(refused.error().message, ContainsSubstring("generation_config.json"));
    CHECK(must(generation_of_config(folder, {{field, 9}, {"decoder", {{field, 7}}}})) ==
          must(generation_of_config(folder, {{field, 9}})));
}

}  // namespace vkformer::tests
