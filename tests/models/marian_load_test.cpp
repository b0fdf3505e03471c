// SPDX-License-Identifier: MIT
/// Folders that are no Marian model, or not quite: each gives an error that says what is wrong.
#include <fstream>

#include <nlohmann/json.hpp>

#include "formats/safetensors.hpp"
#include "models/generation_config.hpp"
#include "models/marian_case.hpp"
#include "models/open_model.hpp"
#include "support/files.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

const std::string kBase = "relu_d30_h5_h3";

json marian_json() { return read_json(goldens_dir() / "marian" / kBase / "config.json"); }

formats::Weights marian_weights() { return must(formats::open_weights(goldens_dir() / "marian" / kBase)); }

Result<models::Seq2Seq> parse_marian(const json& config) {
    return models::load_marian(must(formats::Config::parse(config.dump(), "config.json")), marian_weights());
}

/// The model with its weights changed.
Result<models::Seq2Seq> create(const std::function<void(formats::TensorMap&)>& change) {
    const auto original = marian_weights();
    formats::TensorMap tensors = original.tensors();
    change(tensors);
    return models::load_marian(must(formats::Config::parse(marian_json().dump(), "config.json")),
                               formats::Weights("model.safetensors", std::move(tensors)));
}

}  // namespace

TEST_CASE("a config that Marian does not compute is refused by name", "[models][marian][errors]") {
    const auto [name, value] = GENERATE(table<std::string, std::string>({{"activation_function", R"("mish")"},
                                                                         {"model_type", R"("bart")"},
                                                                         {"architectures", R"(["BartModel"])"},
                                                                         {"is_encoder_decoder", "false"},
                                                                         {"tie_encoder_decoder", "true"},
                                                                         {"normalize_before", "true"},
                                                                         {"normalize_embedding", "true"},
                                                                         {"add_final_layer_norm", "true"},
                                                                         {"static_position_embeddings", "false"},
                                                                         {"pruned_heads", R"({"0": [1]})"},
                                                                         {"encoder_attention_heads", "7"},
                                                                         {"decoder_attention_heads", "4"}}));
    CAPTURE(name, value);
    json config = marian_json();
    config[name] = json::parse(value);
    const auto result = parse_marian(config);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::UnsupportedConfig);
    CHECK_THAT(result.error().message, ContainsSubstring(name));
}

TEST_CASE("a config that contradicts itself is corrupt", "[models][marian][errors]") {
    const auto [name, value] = GENERATE(table<std::string, std::string>({{"d_model", "0"},
                                                                         {"d_model", "-8"},
                                                                         {"d_model", "1.5"},
                                                                         {"d_model", "null"},
                                                                         {"encoder_layers", R"("two")"},
                                                                         {"decoder_ffn_dim", "4294967296"},
                                                                         {"vocab_size", "[]"},
                                                                         {"scale_embedding", "1"}}));
    CAPTURE(name, value);
    json config = marian_json();
    config[name] = json::parse(value);
    const auto result = parse_marian(config);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::CorruptFile);
    CHECK_THAT(result.error().message, ContainsSubstring(name));
}

TEST_CASE("every missing tensor is named", "[models][marian][errors]") {
    const formats::Weights original = marian_weights();
    for (const std::string_view name : original.names()) {
        if (name == "final_logits_bias") continue;  // absent: zeros
        CAPTURE(name);
        const auto result = create([&](formats::TensorMap& tensors) { tensors.erase(tensors.find(name)); });
        REQUIRE_FALSE(result);
        CHECK(result.error().code == ErrorCode::MissingTensor);
        if (name != "model.shared.weight") CHECK_THAT(result.error().message, ContainsSubstring(std::string(name)));
    }
}

TEST_CASE("every wrong shape is named with what was expected", "[models][marian][errors]") {
    const formats::Weights original = marian_weights();
    for (const std::string_view name : original.names()) {
        CAPTURE(name);
        const auto result = create([&](formats::TensorMap& tensors) {
            TensorData& tensor = tensors.find(name)->second;
            const std::uint64_t fewer = tensor.shape[0] > 1 ? tensor.shape[0] - 1 : 2;
            std::vector<std::uint64_t> dims(tensor.shape.dims().begin(), tensor.shape.dims().end());
            dims[0] = fewer;
            tensor.shape = Shape(dims);
        });
        REQUIRE_FALSE(result);
        CHECK(result.error().code == ErrorCode::ShapeMismatch);
        CHECK_THAT(result.error().message, ContainsSubstring(std::string(name)));
        CHECK_THAT(result.error().message, ContainsSubstring("asks for ["));
    }
}

TEST_CASE("a weight of integers is refused", "[models][marian][errors]") {
    const auto result = create([](formats::TensorMap& tensors) {
        tensors.at("model.encoder.layers.0.fc1.bias").dtype = DType::i32;  // as wide as f32
    });
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::UnsupportedDtype);
    CHECK_THAT(result.error().message, ContainsSubstring("fc1.bias"));
}

TEST_CASE("a folder that is not there is an error", "[models][marian][errors]") {
    const auto result = models::load_encoder_decoder("/nonexistent/model");
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::FileNotFound);
}

TEST_CASE("positions that the file stores win over computed ones", "[models][marian]") {
    const auto plain = must(create([](formats::TensorMap&) {}));
    const Shape shape = {plain.limits().source_len, plain.config().d_model};
    auto values = std::make_shared<std::vector<float>>(shape.element_count(), 0.25f);
    const auto stored = create([&](formats::TensorMap& tensors) {
        tensors.emplace(
            "model.encoder.embed_positions.weight",
            TensorData{
                .dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*values)), .owner = values});
    });
    REQUIRE(stored);
    const auto f = must(stored->forward({}));
    const auto table = f.graph.find("encoder.positions");
    REQUIRE(table);
    CHECK(f.graph.tensor(*table).data[0].bytes.data() == std::as_bytes(std::span(*values)).data());
    CHECK(f.graph.find("decoder.positions"));  // the decoder's are still computed

    values->resize(7);
    const auto short_table = create([&](formats::TensorMap& tensors) {
        tensors.emplace(
            "model.decoder.embed_positions.weight",
            TensorData{.dtype = DType::f32, .shape = {7}, .bytes = std::as_bytes(std::span(*values)), .owner = values});
    });
    REQUIRE_FALSE(short_table);
    CHECK_THAT(short_table.error().message, ContainsSubstring("model.decoder.embed_positions.weight"));
}

// ---- generation_config.json -----------------------------------------------------------------------------------------

namespace {

Result<models::GenerationConfig> parse_generation(
    const json& config, models::GenerationSource source = models::GenerationSource::generation_config) {
    return models::parse_generation_config(must(formats::Config::parse(config.dump(), "generation_config.json")),
                                           source, 64, 50);
}

const json kMinimal = {{"decoder_start_token_id", 3}, {"eos_token_id", 0}, {"pad_token_id", 3}};

}  // namespace

TEST_CASE("a generation config is read as generate() reads it", "[models][generation_config]") {
    json config = kMinimal;
    config.update(json{{"num_beams", 4},
                       {"max_length", 32},
                       {"length_penalty", 0.6},
                       {"early_stopping", "never"},
                       {"bad_words_ids", {{3}, {4, 5}, {0}, {6, 7, 8}}},
                       {"begin_suppress_tokens", {9}},
                       {"stop_strings", "x"},
                       {"forced_bos_token_id", 7},
                       {"forced_eos_token_id", {0}},
                       {"renormalize_logits", true},
                       {"transformers_version", "4.57.6"},
                       {"temperature", 0.7},
                       {"repetition_penalty", 1.0},
                       {"min_length", 8},
                       {"no_repeat_ngram_size", 3},
                       {"do_sample", false},
                       {"suppress_tokens", {12}},
                       {"force_words_ids", json::array()}});
    config["sequence_bias"] = json::parse("[[[10], -2.5], [[4, 5], 1], [[10], -1.5]]");  // the last of a phrase holds
    const auto generation = must(parse_generation(config));
    const models::GenerationConfig expected = {.decoder_start = 3,
                                               .eos = 0,
                                               .pad = 3,
                                               .beams = 4,
                                               .max_steps = 31,
                                               .length_penalty = 0.6,
                                               .early_stopping = graph::EarlyStopping::never,
                                               .rules = {.banned = {12, 3},  // a ban of eos is dropped
                                                         .banned_words = {{4, 5}, {6, 7, 8}},
                                                         .banned_first = {9},
                                                         .biases = {{{10}, -1.5f}, {{4, 5}, 1}},
                                                         .forced_first = 7,
                                                         .forced_last = 0},
                                               .stop_strings = {"x"},
                                               .min_steps = 7,  // the start token counts
                                               .no_repeat_ngram = 3,
                                               .renormalize = true};
    CHECK(generation == expected);
}

TEST_CASE("lengths of generation", "[models][generation_config]") {
    json config = kMinimal;
    CHECK(must(parse_generation(config)).max_steps == 20);  // the default 20 counts new tokens
    config["max_length"] = 20;  // said, it counts the start token; of a config.json, older libraries did
    CHECK(must(parse_generation(config)).max_steps == 19);
    CHECK(must(parse_generation(config, models::GenerationSource::model_config)).max_steps == 20);
    config["max_length"] = 12;
    CHECK(must(parse_generation(config)).max_steps == 11);
    config["max_new_tokens"] = 5;
    CHECK(must(parse_generation(config)).max_steps == 5);
    const auto few_positions =
        models::parse_generation_config(must(formats::Config::parse(kMinimal.dump(), "generation_config.json")),
                                        models::GenerationSource::generation_config, 9, 50);
    CHECK(must(few_positions).max_steps == 8);

    CHECK(must(parse_generation(config)).min_steps == 0);
    config["min_length"] = 1;
    CHECK(must(parse_generation(config)).min_steps == 0);
    config["min_length"] = 4;
    CHECK(must(parse_generation(config)).min_steps == 3);
    config["min_new_tokens"] = 2;
    CHECK(must(parse_generation(config)).min_steps == 2);
}

TEST_CASE("tokens of generation fall back as in generate()", "[models][generation_config]") {
    CHECK(must(parse_generation({{"bos_token_id", 5}, {"eos_token_id", {2}}})).decoder_start == 5);
    CHECK(must(parse_generation({{"bos_token_id", 5}, {"eos_token_id", 2}})).pad == 2);
    const auto none = parse_generation({{"eos_token_id", 2}});
    REQUIRE_FALSE(none);
    CHECK_THAT(none.error().message, ContainsSubstring("decoder_start_token_id"));
}

TEST_CASE("what would change the generation and is not done is refused by name",
          "[models][generation_config][errors]") {
    const auto [name, value] = GENERATE(table<std::string, std::string>({{"do_sample", "true"},
                                                                         {"repetition_penalty", "1.2"},
                                                                         {"encoder_repetition_penalty", "0.9"},
                                                                         {"num_beam_groups", "2"},
                                                                         {"diversity_penalty", "0.5"},
                                                                         {"num_return_sequences", "2"},
                                                                         {"guidance_scale", "1.5"},
                                                                         {"penalty_alpha", "0.6"},
                                                                         {"remove_invalid_values", "true"},
                                                                         {"bad_words_ids", "[[4, 50]]"},
                                                                         {"bad_words_ids", "[[]]"},
                                                                         {"bad_words_ids", "[[-1]]"},
                                                                         {"eos_token_id", "[0, 1]"},
                                                                         {"forced_eos_token_id", "[0, 1]"},
                                                                         {"suppress_tokens", "[-1]"},
                                                                         {"begin_suppress_tokens", "[50]"},
                                                                         {"eos_token_id", "999999"},
                                                                         {"eos_token_id", "-1"},
                                                                         {"pad_token_id", "50"},
                                                                         {"decoder_start_token_id", "50"},
                                                                         {"forced_bos_token_id", "50"},
                                                                         {"sequence_bias", "[[[1, 50], 2.0]]"},
                                                                         {"sequence_bias", "[[[50], 2.0]]"},
                                                                         {"sequence_bias", "[[[], 2.0]]"},
                                                                         {"early_stopping", R"("sometimes")"},
                                                                         {"stop_strings", R"(["x", ""])"},
                                                                         {"a_field_of_the_future", "1"}}));
    CAPTURE(name, value);
    json config = kMinimal;
    config[name] = json::parse(value);
    const auto result = parse_generation(config);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::UnsupportedConfig);
    CHECK_THAT(result.error().message, ContainsSubstring(name));
}

TEST_CASE("numbers of generation outside their range are corrupt", "[models][generation_config][errors]") {
    const auto [name, value] = GENERATE(table<std::string, std::string>({{"num_beams", "0"},
                                                                         {"num_beams", "33"},
                                                                         {"max_length", "1"},
                                                                         {"max_new_tokens", "0"},
                                                                         {"min_length", "-1"},
                                                                         {"no_repeat_ngram_size", "-1"},
                                                                         {"length_penalty", "\"x\""}}));
    CAPTURE(name, value);
    json config = kMinimal;
    config[name] = json::parse(value);
    const auto result = parse_generation(config);
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, ContainsSubstring(name));
}

TEST_CASE("config.json serves older models, with all its other fields", "[models][generation_config]") {
    json config = marian_json();
    config.update(kMinimal);
    config["num_beams"] = 6;
    config["some_other_field"] = 1;
    const auto generation = must(parse_generation(config, models::GenerationSource::model_config));
    CHECK(generation.beams == 6);
}

}  // namespace vkformer::tests
