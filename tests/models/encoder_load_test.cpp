// SPDX-License-Identifier: MIT
/// Folders that are no encoder, or not quite: each gives an error that says what is wrong.
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

#include "formats/gguf_writer.hpp"
#include "models/decoder_loading.hpp"
#include "models/encoder_loading.hpp"
#include "models/open_model.hpp"
#include "models/sentence.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

struct EncoderKind {
    std::string name;
    Result<models::Encoder> (*load)(const formats::Config&, const formats::Weights&);
    std::string group = "encoders";
};
const EncoderKind kBert = {"bert_pairs", &models::load_bert};
const EncoderKind kRoberta = {"roberta_scores", &models::load_roberta};
const EncoderKind kDistilBert = {"distilbert_scores", &models::load_distilbert};

const EncoderKind kModernBert = {"modernbert_score", &models::load_modernbert, "modern_encoders"};
const EncoderKind kMpnet = {"mpnet_scores", &models::load_mpnet};
const EncoderKind kJina = {"jina_v3_scores", &models::load_jina_embeddings, "modern_encoders"};
const EncoderKind kDeberta = {"deberta_scores", &models::load_deberta, "modern_encoders"};
const EncoderKind kDebertaOwnKeys = {"deberta_v2_types", &models::load_deberta, "modern_encoders"};
const EncoderKind kNomicBert = {"nomic_bert_h24", &models::load_nomic_bert, "modern_encoders"};

std::filesystem::path folder_of(const EncoderKind& kind) { return goldens_dir() / kind.group / kind.name; }

json encoder_json(const EncoderKind& kind) { return read_json(folder_of(kind) / "config.json"); }

formats::TensorMap encoder_tensors(const EncoderKind& folder) {
    return must(formats::open_weights(folder_of(folder))).tensors();
}

Result<models::Encoder> load_encoder_with(const EncoderKind& folder, const json& config, formats::TensorMap weights) {
    return folder.load(must(formats::Config::parse(config.dump(), "config.json")),
                       formats::Weights("model.safetensors", std::move(weights)));
}

}  // namespace

TEST_CASE("config fields that would change an encoder's arithmetic are refused by name", "[models][encoder][errors]") {
    const auto refused = [](const EncoderKind& folder, const std::string& field, const json& value,
                            ErrorCode code = ErrorCode::UnsupportedConfig) {
        CAPTURE(folder.name, field);
        json config = encoder_json(folder);
        config[field] = value;
        check_refused(load_encoder_with(folder, config, encoder_tensors(folder)), code, "\"" + field + "\"");
    };
    for (const EncoderKind& folder : {kBert, kRoberta, kDistilBert}) {
        refused(folder, "is_decoder", true);
        refused(folder, "add_cross_attention", true);
        refused(folder, "is_encoder_decoder", true);
        refused(folder, "position_embedding_type", "relative_key");
        refused(folder, "pruned_heads", {{"0", {1}}});
        refused(folder, "quantization_config", {{"bits", 4}});
        refused(folder, "vocab_size", -1, ErrorCode::CorruptFile);
    }
    for (const EncoderKind& folder : {kBert, kRoberta}) {
        refused(folder, "hidden_act", "mish");
        refused(folder, "num_attention_heads", 7 * 5);
        refused(folder, "embedding_size", 3);
        refused(folder, "layer_norm_eps", "small", ErrorCode::CorruptFile);
    }
    refused(kRoberta, "pad_token_id", 23);
    refused(kMpnet, "relative_attention_num_buckets", 31);
    refused(kMpnet, "max_position_embeddings", 2);
    refused(kMpnet, "is_decoder", true);
    refused(kMpnet, "hidden_act", "mish");
    refused(kDistilBert, "activation", "mish");
    refused(kDistilBert, "n_heads", 5);
    for (const EncoderKind& folder : {kDeberta, kModernBert, kNomicBert, kJina}) {
        refused(folder, "is_decoder", true);
        refused(folder, "position_embedding_type", "relative_key");
        refused(folder, "quantization_config", {{"bits", 4}});
        refused(folder, "vocab_size", -1, ErrorCode::CorruptFile);
    }
    refused(kJina, "head_dim", 8);
    refused(kJina, "num_key_value_heads", 1);
    refused(kJina, "hidden_act", "mish");
    refused(kDeberta, "hidden_act", "mish");
    refused(kDeberta, "pooler_hidden_act", "mish");
    refused(kDeberta, "pooler_hidden_size", 18);
    refused(kDeberta, "attention_head_size", 9);
    refused(kDeberta, "conv_kernel_size", 3);
    refused(kDeberta, "pos_att_type", {"c2p", "p2p"});
    refused(kDeberta, "pos_att_type", "c2p|p2p");
    refused(kDeberta, "pos_att_type", {"C2P"});
    refused(kDeberta, "pos_att_type", {"c2p|p2c"});
    refused(kDeberta, "pos_att_type", "c 2p");
    refused(kDeberta, "pos_att_type", 3, ErrorCode::CorruptFile);
    refused(kDeberta, "norm_rel_ebd", "batch_norm");
    refused(kDeberta, "position_buckets", 1);
    refused(kDeberta, "position_buckets", 1u << 30, ErrorCode::CorruptFile);
    refused(kDeberta, "max_relative_positions", 4);
    refused(kDeberta, "max_relative_positions", -7, ErrorCode::CorruptFile);
    refused(kDeberta, "relative_attention", "yes", ErrorCode::CorruptFile);
    refused(kModernBert, "hidden_activation", "mish");
    refused(kModernBert, "classifier_activation", "mish");
    refused(kModernBert, "classifier_pooling", "max");
    refused(kModernBert, "num_attention_heads", 7);
    refused(kModernBert, "head_dim", 8);
    refused(kModernBert, "num_key_value_heads", 1);
    refused(kModernBert, "layer_types", {"full_attention", "chunked_attention", "full_attention"});
    refused(kModernBert, "norm_eps", "small", ErrorCode::CorruptFile);
    json stretched = encoder_json(kModernBert);
    stretched["rope_parameters"]["full_attention"] = {{"rope_type", "longrope"},
                                                      {"rope_theta", 160000.0},
                                                      {"original_max_position_embeddings", 24},
                                                      {"short_factor", {1, 1, 1}},
                                                      {"long_factor", {2, 2, 2}}};
    check_refused(load_encoder_with(kModernBert, stretched, encoder_tensors(kModernBert)), ErrorCode::UnsupportedConfig,
                  "\"rope_scaling\"");
    for (const char* const field :
         {"prenorm", "parallel_block", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "use_rms_norm", "causal",
          "rotary_emb_interleaved", "scale_attn_by_inverse_layer_idx"})
        refused(kNomicBert, field, true);
    refused(kNomicBert, "scale_attn_weights", false);
    refused(kNomicBert, "rotary_emb_fraction", 0.5);
    refused(kNomicBert, "activation_function", "gelu");
    refused(kNomicBert, "hidden_act", "mish");
    refused(kNomicBert, "num_experts", 8);
    refused(kNomicBert, "architectures", {"NomicBertForSequenceClassification"});
}

TEST_CASE("a decoder is an encoder where its folder says so, and a language model where it can be one",
          "[models][encoder][errors]") {
    using models::ModelKind;
    const auto modern = [](const char* name) { return goldens_dir() / "modern_encoders" / name; };
    const auto kind = [&](const char* name) { return models::kind_of(must(models::open_model(modern(name)))); };
    CHECK(kind("qwen3_embedding") == ModelKind::encoder);
    CHECK(kind("qwen3_scores") == ModelKind::encoder);
    CHECK(kind("qwen3_reranker") == ModelKind::decoder);
    check_refused(models::load_encoder(modern("qwen3_reranker")), ErrorCode::UnsupportedConfig,
                  "this one is a language model");
    check_refused(models::load_decoder(modern("mistral_embedding")), ErrorCode::MissingTensor, "lm_head.weight");
    check_refused(models::load_decoder(modern("embedding_gemma")), ErrorCode::UnsupportedConfig,
                  "\"use_bidirectional_attention\"");
    json config = read_json(modern("qwen3_scores") / "config.json");
    config["architectures"] = {"Qwen3Model"};
    const auto scores = must(formats::open_weights(modern("qwen3_scores"))).tensors();
    auto parts = must(models::load_qwen(must(formats::Config::parse(config.dump(), "config.json")),
                                        formats::Weights("model.safetensors", scores)));
    CHECK_FALSE(parts.weights.lm_head);
    formats::TensorMap headless = scores;
    headless.erase("score.weight");
    check_refused(models::encoder_of(must(formats::Config::open(modern("qwen3_scores") / "config.json")),
                                     formats::Weights("model.safetensors", headless), std::move(parts)),
                  ErrorCode::MissingTensor, "score.weight");
}

TEST_CASE("a folder of sentence-transformers may score by the logits of two tokens", "[models][encoder][errors]") {
    const TemporaryFolder folder;
    std::filesystem::copy(goldens_dir() / "modern_encoders/qwen3_reranker", folder.path());
    const auto write = [&](const std::string& tokens) {
        std::ofstream(folder / "modules.json")
            << R"([{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""},
                   {"type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore", "path": "1"}])";
        std::filesystem::create_directory(folder / "1");
        std::ofstream(folder / "1/config.json") << tokens;
    };
    CHECK_FALSE(must(models::read_score_tokens(folder.path())));
    write(R"({"true_token_id": 7, "false_token_id": null})");
    CHECK(must(models::read_score_tokens(folder.path())) == models::ScoreTokens{.yes = 7, .no = -1});
    CHECK(models::kind_of(must(models::open_model(folder.path()))) == models::ModelKind::decoder);
    check_refused(models::load_sentence_model(folder.path()), ErrorCode::UnsupportedConfig, "LogitScore");
    write(R"({"true_token_id": 7, "false_token_id": "no"})");
    check_refused(models::read_score_tokens(folder.path()), ErrorCode::CorruptFile, "false_token_id");
    CHECK(must(models::read_score_texts(folder.path())).max_length == 0);
    write_text(folder / "sentence_bert_config.json",
               R"({"max_seq_length": 9, "modality_config": {"message": {"method": "forward"}}})");
    write_text(folder / "config_sentence_transformers.json",
               R"({"prompts": {"query": "Which?", "none": ""}, "default_prompt_name": "query"})");
    CHECK(must(models::read_score_texts(folder.path())).max_length == 9);
    CHECK(must(models::read_score_texts(folder.path())).prompt == "Which?");
    write_text(folder / "sentence_bert_config.json", R"({"do_lower_case": true})");
    check_refused(models::read_score_texts(folder.path()), ErrorCode::UnsupportedConfig, "do_lower_case");
    const auto decoder = must(models::load_decoder(goldens_dir() / "modern_encoders/qwen3_reranker"));
    check_refused(models::scorer_of(decoder, {.yes = 7, .no = 290}), ErrorCode::UnsupportedConfig,
                  "none of its vocabulary");
}

TEST_CASE("fields under their other names mean the same", "[models][encoder]") {
    json config = encoder_json(kDistilBert);
    for (const auto& [from, to] : {std::pair{"dim", "hidden_size"},
                                   {"hidden_dim", "intermediate_size"},
                                   {"n_layers", "num_hidden_layers"},
                                   {"n_heads", "num_attention_heads"}}) {
        config[to] = config[from];
        config.erase(from);
    }
    CHECK(must(load_encoder_with(kDistilBert, config, encoder_tensors(kDistilBert))).config().hidden_size == 22);

    config = encoder_json(kRoberta);
    config.erase("id2label");
    config["_num_labels"] = 3;
    CHECK(must(load_encoder_with(kRoberta, config, encoder_tensors(kRoberta))).config().labels == 3);
}

TEST_CASE("weights of an encoder are found with and without the prefix, and checked", "[models][encoder][errors]") {
    for (const EncoderKind& folder : {kBert, kRoberta, kDistilBert, kDeberta}) {
        CAPTURE(folder.name);
        const formats::TensorMap original = encoder_tensors(folder);
        const std::string words = "embeddings.word_embeddings.weight";
        const auto found = std::ranges::find_if(original, [&](const auto& e) { return e.first.ends_with(words); });
        const std::string prefix = found->first.substr(0, found->first.size() - words.size());
        CHECK(prefix.ends_with("."));

        json trunk = encoder_json(folder);
        trunk["architectures"] = {"Model"};
        formats::TensorMap bare;
        for (const auto& [name, data] : original)
            bare[name.starts_with(prefix) ? name.substr(prefix.size()) : name] = data;
        CHECK(must(load_encoder_with(folder, trunk, bare)).config().labels == 0);

        formats::TensorMap fewer = original;
        const auto layer = std::ranges::find_if(original, [](const auto& e) {
            return e.first.find("layer.0.") != std::string::npos && e.first.ends_with("bias");
        });
        fewer.erase(layer->first);
        check_refused(load_encoder_with(folder, encoder_json(folder), fewer), ErrorCode::MissingTensor, layer->first);

        formats::TensorMap narrow = original;
        narrow[found->first].shape = Shape{1, original.at(found->first).shape.element_count()};
        check_refused(load_encoder_with(folder, encoder_json(folder), narrow), ErrorCode::ShapeMismatch, words);

        formats::TensorMap integers = original;
        integers[layer->first].dtype = DType::i32;
        check_refused(load_encoder_with(folder, encoder_json(folder), integers), ErrorCode::UnsupportedDtype,
                      layer->first);

        formats::TensorMap headless = original;
        std::erase_if(headless, [](const auto& e) { return e.first.starts_with("classifier"); });
        check_refused(load_encoder_with(folder, encoder_json(folder), headless), ErrorCode::MissingTensor,
                      "classifier");
    }
}

TEST_CASE("what DeBERTa has beside BERT is checked, too", "[models][encoder][errors]") {
    for (const auto& [folder, tensor] : {std::pair{kDeberta, "deberta.encoder.rel_embeddings.weight"},
                                         {kDeberta, "deberta.encoder.LayerNorm.bias"},
                                         {kDeberta, "deberta.embeddings.embed_proj.weight"},
                                         {kDebertaOwnKeys, "encoder.layer.1.attention.self.pos_key_proj.bias"},
                                         {kDebertaOwnKeys, "encoder.layer.0.attention.self.pos_query_proj.weight"},
                                         {kDebertaOwnKeys, "embeddings.position_embeddings.weight"},
                                         {kDebertaOwnKeys, "embeddings.token_type_embeddings.weight"}}) {
        CAPTURE(tensor);
        const formats::TensorMap original = encoder_tensors(folder);
        formats::TensorMap changed = original;
        changed.erase(tensor);
        check_refused(load_encoder_with(folder, encoder_json(folder), changed), ErrorCode::MissingTensor, tensor);
        changed = original;
        changed[tensor].shape = Shape{1, 1, original.at(tensor).shape.element_count()};
        check_refused(load_encoder_with(folder, encoder_json(folder), changed), ErrorCode::ShapeMismatch, tensor);
    }
}

TEST_CASE("distances of DeBERTa fall into the buckets of its authors' code", "[models][encoder]") {
    // make_log_bucket_position of transformers 5.12.1 with PyTorch, in float32
    const auto buckets = [](std::uint32_t count, std::uint32_t max_distance, const std::vector<std::uint32_t>& of) {
        std::vector<std::uint32_t> found;
        for (const std::uint32_t distance : of)
            found.push_back(
                models::RelativeTable{.span = count, .buckets = count, .max_distance = max_distance}.bucket(distance));
        return found;
    };
    using Numbers = std::vector<std::uint32_t>;
    CHECK(buckets(6, 11, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) ==
          Numbers{0, 1, 2, 3, 4, 4, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6});
    CHECK(
        buckets(256, 512, {1, 127, 128, 129, 130, 131, 132, 135, 150, 200, 300, 400, 510, 511, 512, 513, 600, 1000}) ==
        Numbers{1, 127, 128, 129, 130, 131, 131, 133, 143, 169, 207, 233, 255, 255, 256, 256, 270, 317});
    CHECK(buckets(2, 40, {0, 1, 2, 39, 40, 100}) == Numbers{0, 1, 1, 1, 1, 1});
    CHECK(buckets(5, 48, {2, 3, 4, 5, 10, 30, 47, 48, 60}) == Numbers{2, 3, 3, 3, 3, 3, 3, 4, 4});
    CHECK(buckets(0, 48, {0, 5, 1000}) == Numbers{0, 5, 1000});
    CHECK(buckets(1u << 20, (1u << 19) + 2, {1u << 20}).front() > 1u << 20);  // a tiny logarithm below a large one
}

TEST_CASE("fields of DeBERTa are refused where they count", "[models][encoder]") {
    const auto load = [](const json& changes) {
        json config = encoder_json(kDeberta);
        config.update(changes);
        return load_encoder_with(kDeberta, config, encoder_tensors(kDeberta));
    };
    CHECK(load({{"pos_att_type", " C2P | p2c "}}));
    CHECK(load({{"pos_att_type", json::array()}, {"max_relative_positions", 4}}));
    CHECK(load({{"relative_attention", false}, {"position_buckets", 1}}));
    // Buckets whose logarithm no distance reaches: up to 3 tokens apart there is one each.
    CHECK(load({{"max_position_embeddings", 4}, {"max_relative_positions", 4}}));
    check_refused(load({{"max_position_embeddings", 5}, {"max_relative_positions", 4}}), ErrorCode::UnsupportedConfig,
                  "max_relative_positions");
}

TEST_CASE("texts of an encoder with scores by distance are fewer where they are long", "[models][encoder]") {
    models::EncoderConfig c;
    c.heads = 12;
    CHECK(models::Encoder(c, {}).most_tokens(512) == std::numeric_limits<std::uint32_t>::max());
    c.relative = {.span = 256, .buckets = 256, .max_distance = 512};
    constexpr std::uint64_t kMost = 1u << 25;
    for (const auto& [len, width] : {std::pair{32u, 64u}, std::pair{512u, 512u}, std::pair{4096u, 4096u}}) {
        const std::uint64_t tokens = models::Encoder(c, {}).most_tokens(len);
        CHECK(tokens * c.heads * width <= kMost);
        CHECK((tokens + 1) * c.heads * width > kMost);
    }
    c.heads = 1u << 20;
    CHECK(models::Encoder(c, {}).most_tokens(64) == 0);  // one text goes through all the same
}

TEST_CASE("encoders in GGUF files that are not done are refused by name", "[models][encoder][gguf][errors]") {
    const auto original = goldens_dir() / "gguf_encoders/bert.gguf";
    CHECK(models::kind_of(must(models::open_model(original))) == models::ModelKind::encoder);
    const formats::Gguf file = must(formats::Gguf::open(original));
    std::vector<formats::OutputTensor> tensors;
    for (const formats::GgufTensor& tensor : file.tensors())
        tensors.push_back(
            {.name = std::string(tensor.name), .dtype = DType::f32, .source = must(file.weights().get(tensor.name))});
    const TemporaryFolder folder;
    const auto refused = [&](const char* key, auto value, ErrorCode code, const std::string& what) {
        CAPTURE(key);
        formats::GgufMetadata metadata;
        for (const formats::GgufValue& kept : file.values()) metadata.set(kept);
        metadata.set(key, value);
        const auto changed = folder / "changed.gguf";
        must(formats::write_gguf(changed, metadata, tensors));
        const auto model = models::load_encoder(changed);
        check_refused(model ? Result<bool>(models::load_sentence_model(changed).error()) : model.error(), code, what);
    };
    constexpr ErrorCode kUnsupported = ErrorCode::UnsupportedConfig;
    refused("general.architecture", "nomic-bert", kUnsupported, "\"general.architecture\" is \"nomic-bert\"");
    refused("bert.pooling_type", 4u, kUnsupported, "bert.pooling_type");
    refused("bert.attention.causal", true, kUnsupported, "bert.attention.causal");
    refused("bert.attention.head_count", 3u, kUnsupported, "bert.attention.head_count");
    refused("bert.embedding_length", 24u, ErrorCode::ShapeMismatch, "token_embd.weight");
    refused("bert.block_count", 3u, ErrorCode::MissingTensor, "blk.2.attn_q.weight");
    refused("bert.block_count", "two", ErrorCode::CorruptFile, "bert.block_count");
}

TEST_CASE("a graph of an encoder refuses what the model does not take", "[models][encoder][errors]") {
    const models::Encoder bert = must(models::load_encoder(goldens_dir() / "encoders/bert_h20"));
    const models::Encoder distil = must(models::load_encoder(goldens_dir() / "encoders/distilbert_h30"));
    graph::Graph graph;
    check_refused(bert.add_encoder(graph, {.len = 25}), ErrorCode::InvalidArgument, "at most 24 tokens, not 25");
    check_refused(distil.add_encoder(graph, {.len = 2, .token_types = true}), ErrorCode::InvalidArgument,
                  "token types");
    const auto tensors = must(bert.add_encoder(graph, {.len = 2}));
    check_refused(bert.add_classifier(graph, tensors), ErrorCode::UnsupportedConfig, "no classification head");
    check_refused(models::load_encoder(goldens_dir() / "marian/relu_d30_h5_h3"), ErrorCode::UnsupportedConfig,
                  "supported: encoders of texts (bert, roberta");
    CHECK(must(models::load_encoder(goldens_dir() / "encoders/roberta_h21")).config().max_positions == 22);
}

TEST_CASE("sentence-transformers folders that are not understood are refused", "[models][encoder][errors]") {
    TemporaryFolder folder;
    const auto module = [](const std::string& type, const std::string& path) {
        return R"({"type": "sentence_transformers.models.)" + type + R"(", "path": ")" + path + R"("})";
    };
    const auto refused = [&](const std::string& modules, ErrorCode code, const std::string& what) {
        CAPTURE(modules);
        write_text(folder / "modules.json", modules);
        check_refused(models::load_sentence_model(folder.path()), code, what);
    };
    write_text(folder / "pool/config.json", R"({"pooling_mode_mean_tokens": false, "pooling_mode_cls_token": true})");
    write_text(folder / "none/config.json", R"({"pooling_mode_mean_tokens": false})");
    write_text(folder / "odd/config.json", R"({"pooling_mode": "attention"})");
    const std::string transformer = "[" + module("Transformer", "") + ",";
    refused("{}", ErrorCode::CorruptFile, "modules.json");
    refused("[]", ErrorCode::CorruptFile, "modules.json");
    refused("[" + module("Pooling", "pool") + "]", ErrorCode::UnsupportedConfig, "type");
    refused("[" + module("Transformer", "") + "]", ErrorCode::UnsupportedConfig, "no module of type Pooling");
    refused(transformer + module("WordWeights", "x") + "]", ErrorCode::UnsupportedConfig, "WordWeights");
    refused(transformer + module("Pooling", "../pool") + "]", ErrorCode::CorruptFile, "leads out");
    refused(transformer + module("Pooling", "/pool") + "]", ErrorCode::CorruptFile, "leads out");
    refused(transformer + module("Pooling", "absent") + "]", ErrorCode::FileNotFound, "config.json");
    refused(transformer + module("Pooling", "none") + "]", ErrorCode::UnsupportedConfig, "no pooling mode");
    refused(transformer + module("Pooling", "odd") + "]", ErrorCode::UnsupportedConfig, "pooling_mode");
    refused(transformer + module("Pooling", "pool") + "," + module("Dense", "pool") + "]", ErrorCode::CorruptFile,
            "in_features");

    write_text(folder / "modules.json", transformer + module("Pooling", "pool") + "," + module("Normalize", "") + "]");
    write_text(folder / "sentence_bert_config.json", R"({"modality_config": {"message": {"method": "forward"}}})");
    check_refused(models::load_sentence_model(folder.path()), ErrorCode::UnsupportedConfig, "modality_config");
    std::filesystem::remove(folder / "sentence_bert_config.json");
    const auto model = must(models::load_sentence_model(folder.path()));
    CHECK(model.pooling == std::vector{graph::Pooling::first});
    CHECK(model.normalizes());
    std::filesystem::remove(folder / "modules.json");
    CHECK(must(models::load_sentence_model(folder.path())).pooling == std::vector{graph::Pooling::mean});
}

TEST_CASE("scores go through what the cross-encoder's config says", "[models][encoder]") {
    const auto activation = [](const std::string& text, std::uint32_t labels) {
        const auto library = must(formats::Config::parse("{}", "config_sentence_transformers.json"));
        return models::read_score_activation(library, must(formats::Config::parse(text, "config.json")), labels);
    };
    CHECK(must(activation("{}", 1)) == graph::Activation::sigmoid);
    CHECK(must(activation("{}", 3)) == graph::Activation::none);
    CHECK(must(activation(R"({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"})", 1)) ==
          graph::Activation::none);
    CHECK(must(activation(R"({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}})", 1)) ==
          graph::Activation::tanh);
    check_refused(activation(R"({"sentence_transformers": {"activation_fn": "torch.nn.Softmax"}})", 1),
                  ErrorCode::UnsupportedConfig, "activation_fn");

    // What sentence-transformers writes today counts before config.json, and only where there is a modules.json.
    const TemporaryFolder folder;
    write_text(folder / "config.json", R"({"sentence_transformers": {"activation_fn": "torch.nn.Tanh"}})");
    write_text(folder / "config_sentence_transformers.json",
               R"({"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"})");
    CHECK(must(models::read_score_activation(folder.path(), 1)) == graph::Activation::tanh);
    write_text(folder / "modules.json", "[]");
    CHECK(must(models::read_score_activation(folder.path(), 1)) == graph::Activation::none);
    write_text(folder / "config_sentence_transformers.json", R"({"activation_fn": "torch.nn.Softmax"})");
    check_refused(models::read_score_activation(folder.path(), 1), ErrorCode::UnsupportedConfig,
                  "config_sentence_transformers.json: \"activation_fn\"");
}

TEST_CASE("a folder of another kind of sentence-transformers' models gives no vectors", "[models][encoder][errors]") {
    const TemporaryFolder folder;
    const auto refused = [&](const std::string& type) {
        write_text(folder / "config_sentence_transformers.json", R"({"model_type": ")" + type + R"("})");
        const auto model = models::load_sentence_model(folder.path());
        check_refused(model, ErrorCode::UnsupportedConfig, "\"model_type\" is \"" + type + "\"");
        return model.error().hint;
    };
    CHECK(refused("CrossEncoder") == Hint::cross_encoder);
    CHECK(refused("SparseEncoder") == Hint::none);
    write_text(folder / "config_sentence_transformers.json", R"({"model_type": "SentenceTransformer"})");
    CHECK(models::load_sentence_model(folder.path()));
}

TEST_CASE("the config of a decoder says whether tokens see what follows them", "[models][encoder][errors]") {
    const TemporaryFolder folder;
    const auto with = [&](const std::filesystem::path& original, const std::string& field, const json& value) {
        std::filesystem::copy(
            original, folder.path(),
            std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
        json config = read_json(original / "config.json");
        config[field] = value;
        write_text(folder / "config.json", config.dump());
        return folder.path();
    };
    const auto mistral = goldens_dir() / "modern_encoders/mistral_embedding";
    const auto causal = must(models::load_encoder(with(mistral, "is_causal", true)));
    const auto both = must(models::load_encoder(with(mistral, "is_causal", false)));
    CHECK(causal.config().is_causal);
    CHECK_FALSE(both.config().is_causal);
    check_refused(models::load_encoder(with(mistral, "is_causal", "no")), ErrorCode::CorruptFile, "is_causal");

    models::DecoderConfig windows;
    windows.layers = {{.window = 4}, {.window = 0}};
    must(models::read_causality(must(formats::Config::parse(R"({"is_causal": false})", "config.json")), windows));
    CHECK(windows.layers[0].window == 5);  // the ends of a window that reaches to both sides are in it
    CHECK(windows.layers[1].window == 0);

    for (const char* const name : {"decoders/qwen3", "decoders/gpt2", "modern_encoders/qwen3_reranker"}) {
        CAPTURE(name);
        check_refused(models::load_decoder(with(goldens_dir() / name, "is_causal", false)),
                      ErrorCode::UnsupportedConfig, "\"is_causal\" is false");
    }
}

TEST_CASE("biases that the config of an encoder does not have are refused by name", "[models][encoder][errors]") {
    const auto refused = [](const EncoderKind& folder, const std::string& bias, std::uint64_t width) {
        CAPTURE(folder.name, bias);
        formats::TensorMap tensors = encoder_tensors(folder);
        const auto values = std::make_shared<std::vector<float>>(width);
        tensors[bias] = {
            .dtype = DType::f32, .shape = {width}, .bytes = std::as_bytes(std::span(*values)), .owner = values};
        check_refused(load_encoder_with(folder, encoder_json(folder), tensors), ErrorCode::UnsupportedConfig, bias);
    };
    refused(kModernBert, "model.layers.1.attn.Wqkv.bias", 54);
    refused(kModernBert, "model.layers.0.mlp.Wo.bias", 18);
    refused(kModernBert, "model.final_norm.bias", 18);
    refused(kModernBert, "head.dense.bias", 18);
    for (const auto& [name, data] : encoder_tensors(kNomicBert))
        if (name.ends_with("attn.Wqkv.weight") || name.ends_with("mlp.fc11.weight") || name.ends_with("mlp.fc2.weight"))
            refused(kNomicBert, name.substr(0, name.size() - 6) + "bias", data.shape[0]);
}

TEST_CASE("a published Nomic BERT whose config leaves fields to their defaults is refused",
          "[models][encoder][errors]") {
    const json whole = {{"model_type", "nomic_bert"},
                        {"vocab_size", 61},
                        {"n_embd", 24},
                        {"n_inner", 37},
                        {"n_layer", 2},
                        {"n_head", 2},
                        {"n_positions", 48},
                        {"rotary_emb_base", 1000},
                        {"rotary_emb_fraction", 1.0},
                        {"qkv_proj_bias", false},
                        {"mlp_fc1_bias", false},
                        {"mlp_fc2_bias", false}};
    CHECK(load_encoder_with(kNomicBert, whole, encoder_tensors(kNomicBert)));
    for (const char* const field :
         {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "rotary_emb_fraction", "rotary_emb_base"}) {
        json config = whole;
        config.erase(field);
        check_refused(load_encoder_with(kNomicBert, config, encoder_tensors(kNomicBert)), ErrorCode::UnsupportedConfig,
                      "\"" + std::string(field) + "\" is missing");
    }
}

TEST_CASE("a ModernBERT has no rotary positions but those of its two kinds of layers", "[models][encoder][errors]") {
    json config = encoder_json(kModernBert);
    config.erase("max_position_embeddings");
    CHECK(must(load_encoder_with(kModernBert, config, encoder_tensors(kModernBert))).config().max_positions == 8192);
    config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5000}};
    check_refused(load_encoder_with(kModernBert, config, encoder_tensors(kModernBert)), ErrorCode::UnsupportedConfig,
                  "\"rope_theta\" is 5000");
    config["rope_parameters"] = {{"full_attention", {{"rope_theta", 160000}}}, {"chunked_attention", json::object()}};
    check_refused(load_encoder_with(kModernBert, config, encoder_tensors(kModernBert)), ErrorCode::UnsupportedConfig,
                  "\"chunked_attention\"");
}

}  // namespace vkformer::tests
