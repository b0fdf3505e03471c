// SPDX-License-Identifier: MIT
/// What a model's files say and its loading function did not ask for: told of, unless it is known to be of no account.
#include <algorithm>
#include <map>
#include <set>

#include "models/changed_golden.hpp"
#include "models/passed_over.hpp"
#include "models/seq2seq.hpp"
#include "support/catch.h"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;
using Notes = std::vector<std::string>;

/// Every model among the goldens and the samples: folders and GGUF files.
std::vector<fs::path> all_models() {
    std::vector<fs::path> models;
    for (const auto& entry : fs::recursive_directory_iterator(goldens_dir())) {
        const fs::path& path = entry.path();
        if (path.extension() == ".gguf" && path.filename() != "model.gguf") models.push_back(path);
        if (path.filename() == "config.json") models.push_back(path.parent_path());
    }
    return models;
}

Notes notes_with(const std::string& decoder, const json& fields) {
    return must(load_golden_with(decoder, fields)).notes;
}

/// The golden decoder with a tensor more, named so.
Notes notes_with_tensor(const std::string& decoder, const std::string& name) {
    const TemporaryFolder folder;
    const fs::path source = goldens_dir() / "decoders" / decoder;
    fs::copy_file(source / "config.json", folder / "config.json");
    const auto file = must(formats::Safetensors::open(source / "model.safetensors"));
    std::vector<formats::NamedTensor> tensors;
    for (const auto& [own, data] : file.tensors()) tensors.push_back({own, data});
    tensors.push_back({name, tensors.front().data});
    must(formats::write_safetensors(folder / "model.safetensors", tensors));
    return must(models::load_decoder(folder.path())).notes;
}

/// By model_type, the fields that loading the goldens asks for.
class AskedFields {
public:
    AskedFields() {
        for (const fs::path& path : all_models())
            if (!formats::is_file(path)) add(path);
        add_as("roberta", "camembert", {});
        add_as("gemma3_text", "gemma3", "text_config");
        add_as("qwen3_5_moe_text", "qwen3_5_moe", "text_config");
    }

    bool has(const std::string& type, const std::string& field) const {
        const auto found = configs_.find(type);
        return found != configs_.end() &&
               std::ranges::any_of(found->second, [&](const auto& config) { return config.was_asked(field); });
    }
    bool knows(const std::string& type) const { return configs_.contains(type); }

private:
    void add(const fs::path& path) {
        const auto opened = models::open_model(path);
        if (!opened) return;  // a part of a model of several
        std::visit(
            [&](const auto& model) {
                const auto& config = std::get<formats::Config>(model.head);
                (void)model
                    .load();  // which may fail, of a config that stands for another one: its fields are asked for first
                const std::string type = must(config.string("model_type", "marian"));
                configs_[type].push_back(config);
                if (!examples_.contains(type)) examples_[type] = model.files;
            },
            *opened);
    }
    /// An example of one type as one of another, within an object of that name if there is one.
    void add_as(const std::string& type, const std::string& other, const std::string& object) {
        const TemporaryFolder folder;
        fs::copy(examples_.at(type), folder.path(), fs::copy_options::recursive);
        const json own = json::parse(std::ifstream(examples_.at(type) / "config.json"));
        json config = object.empty() ? own : json{{object, own}};
        config["model_type"] = other;
        std::ofstream(folder / "config.json") << config;
        add(folder.path());
    }

    std::map<std::string, std::vector<formats::Config>> configs_;
    std::map<std::string, fs::path> examples_;
};

}  // namespace

TEST_CASE("keys of layers that see others' caches are of no account, and other tensors are", "[models][passed_over]") {
    CHECK(notes_with_tensor("gemma4", "model.layers.3.self_attn.k_proj.weight") == Notes{});
    CHECK(notes_with_tensor("gemma4", "model.layers.4.self_attn.v_proj.weight") == Notes{});
    CHECK(notes_with_tensor("gemma4_dense", "model.layers.3.self_attn.v_proj.weight").size() == 1);
    CHECK(notes_with_tensor("gemma4", "model.layers.3.self_attn.q_proj.bias").size() == 1);
}

TEST_CASE("the files of every golden model are understood to the last field and tensor", "[models][passed_over]") {
    std::size_t models = 0;
    for (const fs::path& path : all_models()) {
        const auto opened = models::open_model(path);
        if (!opened) continue;  // a part of a model of several, a file of a vocabulary alone
        CAPTURE(path);
        std::visit(
            [&](const auto& model) {
                const auto loaded = model.load();
                if (!loaded) return;
                ++models;
                CHECK(models::notes_of(*loaded) == Notes{});
            },
            *opened);
    }
    CHECK(models > 150);
}

TEST_CASE("every field of transformers' config classes is asked for or known to be of no account",
          "[models][passed_over]") {
    const AskedFields asked;
    const json lists = json::parse(std::ifstream(goldens_dir() / "config_fields.json"));
    std::set<std::string> types;
    for (const models::ModelKind kind : models::kModelKinds)
        for (const std::string_view type : models::model_types(kind)) types.emplace(type);
    types.erase("recurrent_seq2seq");  // which transformers does not have
    for (const std::string& type : types) {
        CAPTURE(type);
        REQUIRE(lists["fields"].contains(type));
        REQUIRE(asked.knows(type));
        for (const std::string field : lists["fields"][type]) {
            CAPTURE(field);
            CHECK((asked.has(type, field) || models::is_of_no_account(type, field)));
        }
    }
}

TEST_CASE("fields that nobody knows are told of by name and value, wherever they stand", "[models][passed_over]") {
    CHECK(notes_with("qwen3", {{"attention_bend", nullptr}}) == Notes{});
    const Notes one = notes_with("qwen3", {{"attention_bend", 0.25}, {"torch_dtype", "float16"}});
    REQUIRE(one.size() == 1);
    CHECK(one[0] ==
          R"(config.json: the model goes on without "attention_bend", which is 0.25: nobody knows what it does)");

    const json rope = {{"rope_type", "default"}, {"rope_theta", 1e6}, {"twist", {{"by", 2}}}};
    const Notes nested = notes_with("qwen3", {{"rope_parameters", rope}});
    REQUIRE(nested.size() == 1);
    CHECK_THAT(nested[0], ContainsSubstring(R"("rope_parameters.twist", which is {"by":2})"));

    const Notes in_text =
        notes_with("qwen3_5_with_vision", {{"text_config", {{"bend", true}}}, {"vision_config", {{"x", 1}}}});
    REQUIRE(in_text.size() == 1);
    CHECK_THAT(in_text[0], ContainsSubstring(R"("text_config.bend", which is true)"));
}

TEST_CASE("what is of no account in one family is told of in another", "[models][passed_over]") {
    CHECK(models::is_of_no_account("qwen2", "max_window_layers"));
    CHECK_FALSE(models::is_of_no_account("llama", "max_window_layers"));
    CHECK(models::is_of_no_account("clip", "text_config.dropout"));
    CHECK(models::is_of_no_account("qwen3_5", "vision_config"));
    CHECK_FALSE(models::is_of_no_account("qwen3", "vision_config"));
    CHECK_FALSE(models::is_of_no_account("gpt2", "add_cross_attention"));
    CHECK_FALSE(models::is_of_no_account("llama", "rope_scaling"));
    CHECK_FALSE(models::is_of_no_account("llama", "quantization_config"));
    CHECK_FALSE(models::is_of_no_account("llama", ""));
    CHECK(notes_with("llama_gqa_odd", {{"max_window_layers", 1}}).size() == 1);
    CHECK(notes_with("qwen3", {{"max_window_layers", 1}}).empty());
}

TEST_CASE("tensors that nobody reads are told of, but those of other tasks", "[models][passed_over]") {
    const Notes odd = notes_with_tensor("llama_gqa_odd", "model.layers.0.self_attn.q_proj.bias");
    REQUIRE(odd.size() == 1);
    CHECK_THAT(odd[0], ContainsSubstring("model.safetensors: the model goes on without the tensor "
                                         "\"model.layers.0.self_attn.q_proj.bias\", which nobody knows the use of"));
    CHECK(notes_with_tensor("llama_gqa_odd", "model.layers.0.self_attn.rotary_emb.inv_freq").empty());
    CHECK(notes_with_tensor("llama_gqa_odd", "model.visual.patch_embed.weight").size() == 1);
    CHECK(notes_with_tensor("qwen3_5", "mtp.layers.0.norm.weight").empty());
    CHECK(notes_with_tensor("gpt2", "transformer.h.0.attn.bias").empty());  // the causal mask
    CHECK(notes_with_tensor("gpt2", "transformer.h.0.attn.d_attn.bias").size() == 1);
}

TEST_CASE("a bias of the logits that a model has not is told of", "[models][passed_over]") {
    const std::string name = GENERATE("gpt2", "opt", "gpt_neox", "starcoder2", "llama_gqa_odd", "qwen3_tied_biased",
                                      "phi3", "gemma3", "cohere", "lfm2", "granite_hybrid", "deepseek_v3");
    CAPTURE(name);
    const std::string bias = name == "gpt_neox" ? "embed_out.bias" : "lm_head.bias";
    const Notes notes = notes_with_tensor(name, bias);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], ContainsSubstring("the model goes on without the tensor \"" + bias + "\""));
}

TEST_CASE("fields of published configs that change nothing are not told of", "[models][passed_over]") {
    const auto known = [](const char* type, std::initializer_list<const char*> fields) {
        for (const char* const field : fields) {
            CAPTURE(type, field);
            CHECK(models::is_of_no_account(type, field));
        }
    };
    known("bert", {"sbert_ce_default_activation_function", "sentence_transformers", "sentence_transformers.version"});
    known("clip", {"text_config_dict.dropout", "vision_config_dict.projection_dim", "text_config"});
    known("gemma2", {"hidden_act", "sliding_window_size"});
    known("bamba", {"use_mamba_kernels", "num_logits_to_keep"});
    known("gpt_oss", {"experts_per_token", "initial_context_length"});
    known("qwen3_5", {"text_config.rope_parameters.mrope_section", "text_config.mamba_ssm_dtype"});
    known("llama", {"quantization_config.act_group_aware", "quantization_config.disable_exllama", "rope_interleaved"});
    for (const char* const field : {"quantization_config.rotation", "quantization_config.bits", "quantization_config."})
        CHECK_FALSE(models::is_of_no_account("llama", field));
}

TEST_CASE("fields that would change the arithmetic are refused by name", "[models][decoder][errors]") {
    const auto [name, field, value] = GENERATE(table<std::string, std::string, std::string>({
        {"gemma", "use_bidirectional_attention", "true"},
        {"phi3", "attention_bias", "true"},
        {"phi3", "mlp_bias", "true"},
        {"phi3", "lm_head_bias", "true"},
        {"granite_hybrid", "normalization_function", R"("layernorm")"},
        {"lfm2", "theta", "5000.0"},
        {"gpt2", "add_cross_attention", "true"},
    }));
    CAPTURE(name, field);
    const auto refused = load_golden_with(name, {{field, json::parse(value)}});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::UnsupportedConfig);
    CHECK_THAT(refused.error().message, ContainsSubstring("\"" + field + "\""));
}

TEST_CASE("biases of zeros that nobody reads are not told of", "[models][passed_over]") {
    const auto zeros = std::make_shared<std::vector<std::byte>>(20);
    const TensorData bias = {
        .dtype = DType::f16, .shape = {10}, .bytes = std::span<const std::byte>(*zeros), .owner = zeros};
    const auto config = must(formats::Config::parse(R"({"model_type": "llama"})", "config.json"));
    (void)config.has("model_type");
    CHECK(models::passed_over(config, formats::Weights("w", {{"a.q_proj.bias", bias}})).empty());
    CHECK(models::passed_over(config, formats::Weights("w", {{"a.q_proj.weight", bias}})).size() == 1);
    zeros->at(3) = std::byte{1};
    CHECK(models::passed_over(config, formats::Weights("w", {{"a.q_proj.bias", bias}})).size() == 1);
}

TEST_CASE("keys and tensors of GGUF files that nobody knows are told of", "[models][passed_over][gguf]") {
    const auto notes_with = [](const std::string& key, const std::string& tensor) {
        return must(load_gguf_with("qwen2",
                                   [&](models::GgufContents& contents) {
                                       if (!key.empty()) contents.metadata.set(key, 0.5f);
                                       if (tensor.empty()) return;
                                       contents.tensors.push_back(contents.tensors.front());
                                       contents.tensors.back().name = tensor;
                                   }))
            .notes;
    };
    CHECK(notes_with("", "").empty());
    CHECK(notes_with("general.odd", "").empty());
    const Notes key = notes_with("qwen2.attention.bend", "");
    REQUIRE(key.size() == 1);
    CHECK_THAT(key[0], ContainsSubstring(R"(the model goes on without "qwen2.attention.bend", which is 0.5)"));
    CHECK(notes_with("llama.attention.causal", "").size() == 1);
    CHECK(notes_with("odd.version", "").size() == 1);
    // A model that is loaded twice tells it twice.
    const auto file = must(formats::Gguf::open(goldens_dir() / "gguf_decoders/qwen2.gguf"));
    CHECK(models::passed_over(file).size() == models::passed_over(file).size());
    CHECK_FALSE(models::passed_over(file).empty());  // of which nothing was asked
    const Notes tensor = notes_with("", "blk.0.attn_q.scale");
    REQUIRE(tensor.size() == 1);
    CHECK_THAT(tensor[0], ContainsSubstring(R"(without the tensor "blk.0.attn_q.scale")"));
}

TEST_CASE("T5 goes by dense_act_fn and is_gated_act where they differ from feed_forward_proj",
          "[models][encoder_decoder]") {
    const auto load = [](const std::string& name, const json& fields) {
        const TemporaryFolder folder;
        const fs::path model = folder.path() / name;
        fs::copy(goldens_dir() / "encoder_decoders" / name, model);
        write_config_with(model, fields);
        const auto loaded = must(models::load_encoder_decoder(model));
        return static_cast<const models::Seq2Seq&>(*loaded).config().activation;
    };
    using graph::Activation;
    CHECK(load("t5_d22_relu", json::object()) == Activation::relu);
    CHECK(load("t5_d22_relu", {{"dense_act_fn", "silu"}}) == Activation::silu);
    CHECK(load("t5_d16_gated_untied", {{"dense_act_fn", "gelu"}}) == Activation::gelu_erf);
    CHECK(load("t5_d16_gated_untied", {{"dense_act_fn", nullptr}}) == Activation::gelu_tanh);
    // Without a word, mT5 and umT5 have gates.
    const json nothing = {{"feed_forward_proj", nullptr}, {"dense_act_fn", nullptr}, {"is_gated_act", nullptr}};
    CHECK(load("umt5_d20_own_biases", nothing) == Activation::gelu_tanh);
    CHECK(load("t5_d16_gated_untied", {{"feed_forward_proj", "relu"}}) == Activation::gelu_tanh);  // its gate is there
}

TEST_CASE("Qwen's layer_types that use_sliding_window denies are refused", "[models][decoder][errors]") {
    const json types = {"full_attention", "sliding_attention", "full_attention"};
    const auto refused = load_golden_with("qwen3", {{"layer_types", types}, {"use_sliding_window", false}});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::UnsupportedConfig);
    CHECK_THAT(refused.error().message, ContainsSubstring("layer_types"));
    const auto model =
        must(load_golden_with("qwen3", {{"layer_types", types}, {"use_sliding_window", true}, {"sliding_window", 4}}));
    CHECK(model.config().layers[1].window == 4);
    CHECK(model.config().layers[0].window == 0);
}

// As transformers 5 writes it for a model without windows, too.
TEST_CASE("Qwen 2's mixtures read layer_types", "[models][decoder][errors]") {
    const json full = {"full_attention", "full_attention", "full_attention", "full_attention"};
    CHECK(notes_with("qwen2_moe", {{"layer_types", full}}) == Notes{});
    const json types = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
    check_refused(load_golden_with("qwen2_moe", {{"layer_types", types}}), ErrorCode::UnsupportedConfig, "layer_types");
    const auto model = must(
        load_golden_with("qwen2_moe", {{"layer_types", types}, {"use_sliding_window", true}, {"sliding_window", 4}}));
    CHECK(model.config().layers[1].window == 4);
    CHECK(model.config().layers[0].window == 0);
}

TEST_CASE("SmolLM 3's window is that of the layers without positions, or of those that are named",
          "[models][decoder]") {
    const auto windows_of = [](const json& fields) {
        std::vector<std::uint32_t> windows;
        const auto model = must(load_golden_with("smollm3", fields));
        for (const auto& layer : model.config().layers) windows.push_back(layer.window);
        return windows;
    };
    using Windows = std::vector<std::uint32_t>;
    const json unnamed = {{"layer_types", nullptr},
                          {"sliding_window", 4}};  // the fourth of five layers has no positions
    json used = unnamed, denied = unnamed, named = unnamed, contradicted = unnamed;
    used["use_sliding_window"] = named["use_sliding_window"] = true;
    denied["use_sliding_window"] = nullptr;
    CHECK(windows_of(used) == Windows{0, 0, 0, 4, 0});
    CHECK(windows_of(denied) == Windows{0, 0, 0, 0, 0});
    named["layer_types"] = contradicted["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                                                          "full_attention", "full_attention"};
    CHECK(windows_of(named) == Windows{4, 0, 0, 0, 0});
    CHECK_THAT(load_golden_with("smollm3", contradicted).error().message, ContainsSubstring("layer_types"));
}

TEST_CASE("LongRoPE's factor that is not the ratio of its contexts is refused", "[models][decoder][errors]") {
    const auto with = [](const json& scaling) {
        return load_golden_with("phi3_longrope", {{"rope_scaling", scaling}});
    };
    CHECK(with({{"factor", 128.0 / 96}}));
    CHECK(with({{"factor", 4}, {"attention_factor", 1.5}}));
    const auto refused = with({{"factor", 4}});
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, ContainsSubstring("\"factor\" is 4") && ContainsSubstring("1.33333"));
}

}  // namespace vkformer::tests
