// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>

#include <nlohmann/json.hpp>

#include "decoding/encoder_session.hpp"
#include "formats/gguf_writer.hpp"
#include "models/decoder_loading.hpp"
#include "models/encoder_loading.hpp"
#include "models/model_case.hpp"
#include "models/open_model.hpp"
#include "models/sentence.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

/// The folders with a forward pass, among the goldens: "encoders/bert_h20".
std::vector<std::string> encoder_cases() {
    std::vector<std::string> names;
    for (const std::string folder : {"encoders", "modern_encoders"})
        for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / folder))
            if (std::filesystem::exists(entry.path() / "golden.safetensors"))
                names.push_back(folder + "/" + entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

models::Encoder load_encoder_case(const std::string& name) { return must(models::load_encoder(goldens_dir() / name)); }

Golden golden_of(const std::string& name) { return Golden(name + "/golden.safetensors"); }

std::vector<std::int32_t> lengths_of(const Golden& golden) {
    const Shape shape = golden.shape("input_ids");
    if (!golden.has("attention_mask")) return std::vector(shape[0], static_cast<std::int32_t>(shape[1]));
    const auto mask = golden.ints("attention_mask");
    std::vector<std::int32_t> lengths;
    for (std::size_t b = 0; b < shape[0]; ++b)
        lengths.push_back(
            static_cast<std::int32_t>(std::ranges::count(std::span(mask).subspan(b * shape[1], shape[1]), 1)));
    return lengths;
}

/// A graph of the golden's batch, to which heads are added before it runs.
struct EncoderPass {
    graph::Graph graph;
    models::EncoderTensors tensors;
    std::unique_ptr<graph::Program> program;

    EncoderPass(const models::Encoder& encoder, const Golden& golden, DType dtype, bool token_types) {
        const Shape shape = golden.shape("input_ids");
        tensors = must(encoder.add_encoder(graph, {.batch = static_cast<std::uint32_t>(shape[0]),
                                                   .len = static_cast<std::uint32_t>(shape[1]),
                                                   .dtype = dtype,
                                                   .token_types = token_types}));
        graph.mark_output(tensors.hidden);
    }
    graph::Value output(Result<graph::Value> value) {
        const graph::Value made = must(std::move(value));
        graph.mark_output(made);
        return made;
    }
    /// `types_of_0`: whatever types the golden has.
    void run(graph::Backend& backend, const Golden& golden, bool types_of_0 = false) {
        program = must(backend.compile(graph::make_plan(graph), backend.make_store(), backend.make_store()));
        const auto tokens = golden.ints("input_ids"), lengths = lengths_of(golden);
        must(program->write(tensors.tokens, std::span<const std::int32_t>(tokens)));
        must(program->write(tensors.lengths, std::span<const std::int32_t>(lengths)));
        if (tensors.types) {
            const bool has_types = golden.has("token_type_ids") && !types_of_0;
            const auto types = has_types ? golden.ints("token_type_ids") : std::vector<std::int32_t>(tokens.size(), 0);
            must(program->write(tensors.types, std::span<const std::int32_t>(types)));
        }
        must(program->submit());
        must(program->wait());
    }
    std::vector<double> read(graph::Value value) const {
        std::vector<double> values(program->plan().graph.shape(value).element_count());
        must(program->read(value, std::span<double>(values)));
        return values;
    }
};

/// Last hidden states with zeros for padding, as the golden has them.
std::vector<double> without_padding(std::vector<double> hidden, const Golden& golden) {
    const Shape shape = golden.shape("last_hidden_state");
    const auto lengths = lengths_of(golden);
    for (std::size_t i = 0; i < hidden.size(); ++i)
        if (i / shape[2] % shape[1] >= static_cast<std::size_t>(lengths[i / shape[2] / shape[1]])) hidden[i] = 0;
    return hidden;
}

/// Float32's last hidden states on one backend.
std::vector<double> hidden_states(const models::Encoder& encoder, const Golden& golden) {
    graph::Backend& backend = *test_backends().front();
    EncoderPass pass(encoder, golden, DType::f32, golden.has("token_type_ids"));
    pass.run(backend, golden);
    return without_padding(pass.read(pass.tensors.hidden), golden);
}

/// The folder with a config that is changed, and all tensors of its file, which may be changed too.
models::Encoder load_changed(const std::string& name,
                             Result<models::Encoder> (*load)(const formats::Config&, const formats::Weights&),
                             const std::function<void(nlohmann::json&, formats::TensorMap&)>& change) {
    nlohmann::json config = read_json(goldens_dir() / name / "config.json");
    formats::TensorMap tensors = must(formats::open_weights(goldens_dir() / name)).tensors();
    change(config, tensors);
    return must(load(must(formats::Config::parse(config.dump(), "config.json")),
                     formats::Weights("model.safetensors", std::move(tensors))));
}

}  // namespace

TEST_CASE("a ModernBERT's config of transformers 4 means what 5 writes", "[models][encoder][golden]") {
    const std::string name = "modern_encoders/modernbert_score";
    const auto encoder = load_changed(name, &models::load_modernbert, [](nlohmann::json& config, auto&) {
        config.erase("layer_types");
        config.erase("rope_parameters");
        config["global_attn_every_n_layers"] = 2;
        config["global_rope_theta"] = 160000.0;
        config["local_rope_theta"] = 10000.0;
        config["position_embedding_type"] = "absolute";
    });
    check_golden(hidden_states(encoder, golden_of(name)), golden_of(name), "last_hidden_state", kModelBound);
}

TEST_CASE("a decoder whose config says that it is not causal sees to both sides", "[models][encoder][golden]") {
    const std::string name = "modern_encoders/gemma3_bidirectional";
    const auto load = [](const formats::Config& config, const formats::Weights& weights) -> Result<models::Encoder> {
        return models::encoder_of(config, weights, must(models::load_gemma(config, weights)));
    };
    // Half of a window of 4 is seen on either side of a token with the one field, all of a window of 2 with the other.
    const auto encoder = load_changed(name, load, [](nlohmann::json& config, auto&) {
        config["use_bidirectional_attention"] = false;
        config["is_causal"] = false;
        config["sliding_window"] = 2;
    });
    check_golden(hidden_states(encoder, golden_of(name)), golden_of(name), "last_hidden_state", kModelBound);
}

TEST_CASE("a Jina v3 has the positions of its class where its config says nothing", "[models][encoder][golden]") {
    const std::string name = "modern_encoders/jina_v3_h24";
    const auto encoder = load_changed(name, &models::load_jina_embeddings, [](nlohmann::json& config, auto&) {
        CHECK(config["rope_parameters"]["rope_theta"] == 20000);
        config.erase("rope_parameters");
    });
    check_golden(hidden_states(encoder, golden_of(name)), golden_of(name), "last_hidden_state", kModelBound);
}

TEST_CASE("a Nomic BERT has the fields that were published, and the names of transformers' modules",
          "[models][encoder][golden]") {
    const std::string name = "modern_encoders/nomic_bert_h24";
    const auto encoder = load_changed(name, &models::load_nomic_bert, [](nlohmann::json& config, auto& tensors) {
        config = {{"model_type", "nomic_bert"},
                  {"vocab_size", config["vocab_size"]},
                  {"n_embd", 24},
                  {"n_inner", 37},
                  {"n_layer", 2},
                  {"n_head", 2},
                  {"n_positions", 48},
                  {"rotary_emb_base", 1000},
                  {"rotary_emb_fraction", 1.0},
                  {"rotary_scaling_factor", 2},
                  {"max_trained_positions", 40},
                  {"layer_norm_epsilon", 1e-12},
                  {"activation_function", "swiglu"},
                  {"prenorm", false},
                  {"type_vocab_size", 2},
                  {"qkv_proj_bias", false},
                  {"mlp_fc1_bias", false},
                  {"mlp_fc2_bias", false}};
        formats::TensorMap own;
        for (const auto& [key, tensor] : tensors) {
            std::string renamed = key;
            for (const auto& [from, to] : {std::pair<std::string, std::string>{"emb_ln", "embeddings.LayerNorm"},
                                           {"encoder.layers", "layers"},
                                           {"attn.out_proj", "self_attn.o_proj"},
                                           {"fc11", "up_proj"},
                                           {"fc12", "gate_proj"},
                                           {"fc2", "down_proj"},
                                           {"norm1", "post_attention_layernorm"},
                                           {"norm2", "post_mlp_layernorm"}})
                if (const auto at = renamed.find(from); at != renamed.npos) renamed.replace(at, from.size(), to);
            const std::size_t joined = renamed.find("attn.Wqkv");
            if (joined == renamed.npos) {
                own[renamed] = tensor;
                continue;
            }
            const std::string attention = renamed.substr(0, joined) + "self_attn.";
            own[attention + "q_proj.weight"] = models::rows_of(tensor, 0, 24);
            own[attention + "k_proj.weight"] = models::rows_of(tensor, 24, 24);
            own[attention + "v_proj.weight"] = models::rows_of(tensor, 48, 24);
        }
        tensors = std::move(own);
    });
    CHECK(encoder.config().max_positions == 40);
    check_golden(hidden_states(encoder, golden_of(name)), golden_of(name), "last_hidden_state", kModelBound);
}

TEST_CASE("a decoder's GGUF file with a pooling is an encoder", "[models][encoder][gguf][golden]") {
    const formats::Gguf file = must(formats::Gguf::open(goldens_dir() / "gguf_decoders/qwen3.gguf"));
    std::vector<formats::OutputTensor> tensors;
    for (const formats::GgufTensor& tensor : file.tensors()) {
        const TensorData data = must(file.weights().get(tensor.name));
        tensors.push_back({.name = std::string(tensor.name), .dtype = data.dtype, .source = data});
    }
    const TemporaryFolder folder;
    const auto with_pooling = [&](std::uint32_t pooling, bool is_causal = true, std::uint32_t window = 0) {
        formats::GgufMetadata metadata;
        for (const formats::GgufValue& kept : file.values()) metadata.set(kept);
        metadata.set("qwen3.pooling_type", pooling);
        if (!is_causal) metadata.set("qwen3.attention.causal", false);
        if (window > 0) metadata.set("qwen3.attention.sliding_window", window);
        must(formats::write_gguf(folder / "changed.gguf", metadata, tensors));
        return folder / "changed.gguf";
    };
    const auto last = with_pooling(3);
    CHECK(models::kind_of(must(models::open_model(last))) == models::ModelKind::encoder);
    CHECK(models::load_decoder(last));
    CHECK(must(models::load_sentence_model(last)).pooling == std::vector{graph::Pooling::last});
    const Golden golden("decoders/qwen3/golden.safetensors");
    check_golden(hidden_states(must(models::load_encoder(last)), golden), golden, "last_hidden_state", kModelBound);
    CHECK(must(models::load_encoder(last)).config().is_causal);
    const auto both = with_pooling(3, false);
    CHECK_FALSE(must(models::load_encoder(both)).config().is_causal);
    check_refused(models::load_decoder(both), ErrorCode::UnsupportedConfig, "qwen3.attention.causal");
    check_refused(models::load_encoder(with_pooling(3, false, 8)), ErrorCode::UnsupportedConfig,
                  "qwen3.attention.causal");
    const auto ranks = with_pooling(4);
    check_refused(models::load_encoder(ranks), ErrorCode::UnsupportedConfig, "qwen3.pooling_type");
    CHECK(models::kind_of(must(models::open_model(with_pooling(0)))) == models::ModelKind::decoder);
}

TEST_CASE("encoders give Hugging Face's last hidden states and scores", "[models][encoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    for (const std::string& name : encoder_cases()) {
        CAPTURE(backend.name(), name, to_string(dtype));
        if (!takes_case(backend, 2)) continue;
        const models::Encoder encoder = load_encoder_case(name);
        const Golden golden = golden_of(name);
        EncoderPass pass(encoder, golden, dtype, golden.has("token_type_ids"));
        graph::Value logits;
        if (golden.has("logits")) logits = pass.output(encoder.add_classifier(pass.graph, pass.tensors));
        pass.run(backend, golden);

        const auto hidden = without_padding(pass.read(pass.tensors.hidden), golden);
        const bool turns = name.starts_with("modern_encoders");
        const double bound = turns ? rotary_bound(backend, dtype) : model_bound(backend, dtype);
        check_golden(hidden, golden, "last_hidden_state", bound);
        if (logits) check_golden(pass.read(logits), golden, "logits", bound);
        CHECK((encoder.config().labels > 0) == golden.has("logits"));
    }
}

TEST_CASE("poolings are those of sentence-transformers", "[models][encoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("encoders/bert_h33_relu", "encoders/distilbert_h30", "encoders/roberta_h21");
    CAPTURE(backend.name(), name);
    const models::Encoder encoder = load_encoder_case(name);
    const Golden golden = golden_of(name);
    EncoderPass pass(encoder, golden, DType::f32, golden.has("token_type_ids"));
    std::vector<std::pair<std::string, graph::Value>> results;
    for (const std::string pooling : {"cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"}) {
        models::SentenceModel sentence;
        sentence.pooling = {must(models::parse_pooling(pooling))};
        results.emplace_back("pooled." + pooling,
                             pass.output(models::add_sentence(pass.graph, sentence, pass.tensors)));
    }
    models::SentenceModel normalized;
    normalized.set_normalize(true);
    results.emplace_back("pooled.mean.normalized",
                         pass.output(models::add_sentence(pass.graph, normalized, pass.tensors)));
    pass.run(backend, golden);
    for (const auto& [golden_name, value] : results)
        check_golden(pass.read(value), golden, golden_name, model_bound(backend, DType::f32));
}

// A session has one store for all lengths: the name of a slice of the table stands for what it holds.
TEST_CASE("of DeBERTa's table each text takes the rows that its length needs", "[models][encoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name =
        GENERATE("modern_encoders/deberta_v3", "modern_encoders/deberta_absolute", "modern_encoders/deberta_p2c_types");
    CAPTURE(backend.name(), name);
    const models::Encoder encoder = load_encoder_case(name);
    const Golden golden = golden_of(name);
    const auto tokens = golden.ints("input_ids"), lengths = lengths_of(golden);
    const auto types = golden.has("token_type_ids") ? golden.ints("token_type_ids") : std::vector<std::int32_t>();
    const std::uint64_t padded = golden.shape("input_ids")[1], width = golden.shape("last_hidden_state")[2];
    decoding::EncoderSession session(backend, encoder,
                                     [](graph::Graph& graph, const models::EncoderTensors& tensors) {
                                         return graph::pool(graph, tensors.hidden, tensors.lengths,
                                                            graph::Pooling::first);
                                     },
                                     {.batch = 1});
    const auto hidden = golden.doubles("last_hidden_state");
    for (std::size_t row = 0; row < lengths.size(); ++row) {
        const auto len = static_cast<std::size_t>(lengths[row]);
        decoding::EncoderText text = {.tokens = std::span(tokens).subspan(row * padded, len)};
        if (!types.empty()) text.types = std::span(types).subspan(row * padded, len);
        const auto found = must(session.run(std::array{text})).front();
        const std::vector<double> values(found.begin(), found.end());
        const auto expected = std::span(hidden).subspan(row * padded * width, width);
        CHECK(relative_error(std::span<const double>(values), expected) < model_bound(backend, DType::f32));
    }
}

TEST_CASE("a graph without types gives what types of 0 give", "[models][encoder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const std::string name = GENERATE("encoders/bert_h20", "modern_encoders/nomic_bert_h24",
                                      "modern_encoders/deberta_v2_types", "modern_encoders/deberta_p2c_types");
    const models::Encoder encoder = load_encoder_case(name);
    const Golden golden = golden_of(name);
    EncoderPass without(encoder, golden, DType::f32, false), with(encoder, golden, DType::f32, true);
    without.run(backend, golden, true);
    with.run(backend, golden, true);
    const auto a = without.read(without.tensors.hidden), b = with.read(with.tensors.hidden);
    CHECK(relative_error(std::span<const double>(a), std::span<const double>(b)) < kModelBound);
}

}  // namespace vkformer::tests
