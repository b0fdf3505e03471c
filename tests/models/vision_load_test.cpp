// SPDX-License-Identifier: MIT
/// Folders that are no vision model, or not quite: each gives an error that says what is wrong.
#include <cstring>
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

#include "models/open_model.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

json vision_json(const std::string& name) { return read_json(goldens_dir() / "vision/models" / name / "config.json"); }

formats::TensorMap vision_tensors(const std::string& name) {
    return must(formats::open_weights(goldens_dir() / "vision/models" / name)).tensors();
}

formats::Config parse_config(const json& config) { return must(formats::Config::parse(config.dump(), "config.json")); }
formats::Weights vision_weights(formats::TensorMap map) { return {"model.safetensors", std::move(map)}; }

Result<models::VisionEncoder> load_vit(const json& config, formats::TensorMap map) {
    return models::load_vit(parse_config(config), vision_weights(std::move(map)));
}
Result<models::Clip> load_clip(const json& config, formats::TensorMap map) {
    return models::load_clip(parse_config(config), vision_weights(std::move(map)));
}

}  // namespace

TEST_CASE("config fields that would change a vision model's arithmetic are refused by name",
          "[models][vision][errors]") {
    const auto refused = [](const std::string& field, const json& value,
                            ErrorCode code = ErrorCode::UnsupportedConfig) {
        CAPTURE(field);
        json config = vision_json("vit_labels");
        config[field] = value;
        check_refused(load_vit(config, vision_tensors("vit_labels")), code, "\"" + field + "\"");
        json whole = vision_json("clip_gelu");
        whole["vision_config"][field] = value;
        check_refused(load_clip(whole, vision_tensors("clip_gelu")), code, "\"" + field + "\"");
    };
    refused("hidden_act", "mish");
    refused("num_attention_heads", 5);
    refused("patch_size", 200);
    refused("patch_size", {4, 5, 6});
    refused("image_size", {12.5, 4});
    refused("image_size", "large", ErrorCode::CorruptFile);
    refused("num_channels", 0, ErrorCode::CorruptFile);
    refused("quantization_config", {{"bits", 4}});
    refused("layer_norm_eps", "small", ErrorCode::CorruptFile);

    json config = vision_json("vit_labels");
    config["problem_type"] = "segmentation";
    check_refused(load_vit(config, vision_tensors("vit_labels")), ErrorCode::UnsupportedConfig, "\"problem_type\"");
    config = vision_json("clip_gelu");
    config["text_config"]["num_attention_heads"] = 7;
    check_refused(load_clip(config, vision_tensors("clip_gelu")), ErrorCode::UnsupportedConfig,
                  "\"num_attention_heads\"");
    config = vision_json("vit_labels");
    config["patch_size"] = 1;
    config["image_size"] = 1000;
    check_refused(load_vit(config, vision_tensors("vit_labels")), ErrorCode::UnsupportedConfig,
                  "at most 65536 patches");
}

TEST_CASE("config fields that would change DINO's or SigLIP's arithmetic are refused by name",
          "[models][vision][errors]") {
    const auto config_of = [](const std::string& name) {
        return read_json(goldens_dir() / "modern_vision/models" / name / "config.json");
    };
    const auto weights_of = [](const std::string& name) {
        return must(formats::open_weights(goldens_dir() / "modern_vision/models" / name));
    };
    const auto refused = [&](const auto& load, const std::string& name, const std::string& tower,
                             const std::string& field, const json& value,
                             ErrorCode code = ErrorCode::UnsupportedConfig) {
        CAPTURE(name, field);
        json config = config_of(name);
        (tower.empty() ? config : config[tower])[field] = value;
        check_refused(load(parse_config(config), weights_of(name)), code, "\"" + field + "\"");
    };
    refused(models::load_dinov2, "dinov2_odd", "", "image_size", {28, 21});
    refused(models::load_dinov2, "dinov2_odd", "", "mlp_ratio", 1.0 / 1024);
    refused(models::load_dinov2, "dinov2_odd", "", "mlp_ratio", -1, ErrorCode::CorruptFile);
    refused(models::load_dinov2, "dinov2_registers", "", "num_register_tokens", 1u << 20, ErrorCode::CorruptFile);
    refused(models::load_dinov2, "dinov2_odd", "", "num_attention_heads", 4);
    refused(models::load_dinov3, "dinov3_plain", "", "num_attention_heads", 16);  // heads of two numbers
    refused(models::load_dinov3, "dinov3_plain", "", "rope_theta", 0, ErrorCode::CorruptFile);
    refused(models::load_dinov3, "dinov3_plain", "", "patch_size", 13);
    refused(models::load_siglip, "siglip_odd", "vision_config", "vision_use_head", false);
    refused(models::load_siglip, "siglip_odd", "text_config", "projection_size", 23);
    refused(models::load_siglip, "siglip_odd", "vision_config", "hidden_act", "mish");

    json registers = config_of("dinov2_registers");
    registers["num_register_tokens"] = 2;
    check_refused(models::load_dinov2(parse_config(registers), weights_of("dinov2_registers")),
                  ErrorCode::ShapeMismatch, "register_tokens");
    json biased = config_of("dinov3_plain");
    biased["proj_bias"] = true;
    check_refused(models::load_dinov3(parse_config(biased), weights_of("dinov3_plain")), ErrorCode::MissingTensor,
                  "o_proj.bias");
}

TEST_CASE("a model takes images of other sizes, or says that it does not", "[models][vision][errors]") {
    const auto dino =
        must(models::load_vision_encoder(goldens_dir() / "modern_vision/models/dinov2_odd"));  // patches of 7 × 7
    CHECK(dino.is_resizable());
    CHECK(must(dino.at_size(14, 30)).config().tokens() == 1 + 2 * 4);
    CHECK(must(dino.at_size(14, 30)).config().hidden_size == dino.config().hidden_size);
    check_refused(dino.at_size(6, 30), ErrorCode::InvalidArgument, "at least one patch, 7 × 7 pixels, not of 6 × 30");
    check_refused(dino.at_size(7000, 7000), ErrorCode::InvalidArgument, "at most 65536 patches, not the 1000000");
    const auto vit = must(load_vit(vision_json("vit_h20"), vision_tensors("vit_h20")));
    CHECK_FALSE(vit.is_resizable());
    CHECK(vit.at_size(12, 12));
    check_refused(vit.at_size(12, 16), ErrorCode::ShapeMismatch, "images of 12 × 12 pixels, not 12 × 16");
}

TEST_CASE("weights of a vision model are found with and without the prefix, and checked", "[models][vision][errors]") {
    const std::string name = "vit_labels";
    const formats::TensorMap original = vision_tensors(name);
    json trunk = vision_json(name);
    trunk["architectures"] = {"ViTModel"};
    formats::TensorMap bare;
    for (const auto& [key, data] : original) bare[key.starts_with("vit.") ? key.substr(4) : key] = data;
    CHECK(must(load_vit(trunk, bare)).config().labels == 0);

    const auto without = [&](const std::string& key) {
        formats::TensorMap fewer = original;
        REQUIRE(fewer.erase(key) == 1);
        check_refused(load_vit(vision_json(name), fewer), ErrorCode::MissingTensor, key);
    };
    without("vit.embeddings.cls_token");
    without("vit.encoder.layer.1.intermediate.dense.bias");
    without("vit.layernorm.weight");
    without("classifier.weight");

    json larger = vision_json(name);
    larger["image_size"] = {30, 22};
    check_refused(load_vit(larger, original), ErrorCode::ShapeMismatch, "position_embeddings");
    json biased = vision_json(name);
    biased["qkv_bias"] = true;
    check_refused(load_vit(biased, original), ErrorCode::MissingTensor, "query.bias");

    formats::TensorMap fewer = vision_tensors("clip_gelu");
    fewer.erase("logit_scale");
    check_refused(load_clip(vision_json("clip_gelu"), fewer), ErrorCode::MissingTensor, "logit_scale");
    const auto logarithm = std::make_shared<std::vector<float>>(1, 1000.0f);
    fewer["logit_scale"] = {
        .dtype = DType::f32, .shape = {}, .bytes = std::as_bytes(std::span(*logarithm)), .owner = logarithm};
    check_refused(load_clip(vision_json("clip_gelu"), fewer), ErrorCode::CorruptFile, "logit_scale is 1000");
    json narrow = vision_json("clip_gelu");
    narrow["projection_dim"] = 15;
    check_refused(load_clip(narrow, vision_tensors("clip_gelu")), ErrorCode::ShapeMismatch, "visual_projection.weight");
}

TEST_CASE("weights that are infinite or no number are refused by name", "[models][vision][errors]") {
    const std::string name = "vit_labels", key = "vit.encoder.layer.2.output.dense.weight";
    formats::TensorMap map = vision_tensors(name);
    const TensorData original = map.at(key);
    const auto damaged = std::make_shared<std::vector<std::byte>>(original.bytes.begin(), original.bytes.end());
    map[key].bytes = *damaged;
    map[key].owner = damaged;
    CHECK(load_vit(vision_json(name), map));
    const float infinity = std::numeric_limits<float>::infinity();
    std::memcpy(damaged->data() + 5 * sizeof infinity, &infinity, sizeof infinity);
    check_refused(load_vit(vision_json(name), map), ErrorCode::CorruptFile, key);
    check_refused(load_vit(vision_json(name), map), ErrorCode::CorruptFile, "element 5");
}

TEST_CASE("labels are counted and named as config.json says", "[models][vision]") {
    const auto named = must(load_vit(vision_json("vit_labels"), vision_tensors("vit_labels")));
    CHECK(named.config().label_names == std::vector<std::string>{"tench", "a cat, or two", "Straße", "猫", "none"});
    const auto many = must(load_vit(vision_json("vit_many_labels"), vision_tensors("vit_many_labels")));
    CHECK(many.config().problem == models::ProblemType::many_labels);
    CHECK(many.config().labels == 3);
    // the default of two is not written
    CHECK(must(load_vit(vision_json("deit_labels"), vision_tensors("deit_labels"))).config().labels == 2);
    json holes = vision_json("vit_labels");
    holes["id2label"].erase("3");
    check_refused(load_vit(holes, vision_tensors("vit_labels")), ErrorCode::CorruptFile, "\"3\"");
    graph::Graph graph;
    const auto trunk = must(load_vit(vision_json("vit_h20"), vision_tensors("vit_h20")));
    const auto t = must(trunk.add_encoder(graph, {}));
    check_refused(trunk.add_classifier(graph, t.hidden), ErrorCode::UnsupportedConfig, "no classification head");
}

TEST_CASE("old CLIP configs may say each tower twice", "[models][vision][clip]") {
    json config = vision_json("clip_gelu");
    const json text = config["text_config"];
    config["text_config"]["hidden_size"] = 99;
    check_refused(load_clip(config, vision_tensors("clip_gelu")), ErrorCode::UnsupportedConfig, "");
    config["text_config_dict"] = text;  // which wins
    CHECK(must(load_clip(config, vision_tensors("clip_gelu"))).text.config().hidden_size == 18);
}

TEST_CASE("folders of other models are refused", "[models][vision][errors]") {
    const auto bert = goldens_dir() / "encoders/bert_h20";
    check_refused(models::load_vision_encoder(bert), ErrorCode::UnsupportedConfig,
                  "supported: vision models (vit, deit");
    check_refused(models::load_clip(bert), ErrorCode::UnsupportedConfig,
                  "supported: models of images and texts (clip, siglip); this one is an encoder of texts");
    check_refused(models::load_clip(goldens_dir() / "nowhere"), ErrorCode::FileNotFound, "nowhere");
}

}  // namespace vkformer::tests
