// SPDX-License-Identifier: MIT
/// Adapters of text encoders: what they give, and which are refused.
#include <algorithm>

#include "models/adapter_case.hpp"
#include "models/model_case.hpp"
#include "support/bounds.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"
#include "vkformer/embedder.hpp"
#include "vkformer/vision.hpp"

namespace vkformer::tests {
namespace {

namespace fs = std::filesystem;

fs::path encoder_adapter(const std::string& name) { return goldens_dir() / "encoder_adapters" / name; }
const fs::path kJinaBase = goldens_dir() / "modern_encoders" / "jina_v3_h24";
const fs::path kBertBase = goldens_dir() / "encoders" / "bert_h20";

struct AdaptedOutput {
    std::vector<double> hidden, logits;
};

/// Of the golden's batch, its rows' scales as said; none: no adapter counts. Padding's hidden states are zeros.
AdaptedOutput run_adapted(const models::Encoder& model, graph::Backend& backend, const Golden& golden,
                          const std::vector<std::vector<float>>& scales, DType dtype = DType::f32) {
    const Shape shape = golden.shape("input_ids");
    const bool has_types = golden.has("token_type_ids");
    graph::Graph g;
    const models::EncoderTensors t = must(model.add_encoder(g, {.batch = static_cast<std::uint32_t>(shape[0]),
                                                                .len = static_cast<std::uint32_t>(shape[1]),
                                                                .dtype = dtype,
                                                                .token_types = has_types,
                                                                .adapters = !scales.empty()}));
    g.mark_output(t.hidden);
    graph::Value logits;
    if (model.config().labels > 0) {
        logits = must(model.add_classifier(g, t));
        g.mark_output(logits);
    }
    const auto program = must(backend.compile(graph::make_plan(g), backend.make_store(), backend.make_store()));
    const auto tokens = golden.ints("input_ids");
    auto mask = std::vector<std::int32_t>(tokens.size(), 1);
    if (golden.has("attention_mask")) mask = golden.ints("attention_mask");
    std::vector<std::int32_t> lengths;
    for (std::size_t b = 0; b < shape[0]; ++b)
        lengths.push_back(
            static_cast<std::int32_t>(std::ranges::count(std::span(mask).subspan(b * shape[1], shape[1]), 1)));
    must(program->write(t.tokens, std::span<const std::int32_t>(tokens)));
    must(program->write(t.lengths, std::span<const std::int32_t>(lengths)));
    if (has_types) must(program->write(t.types, std::span<const std::int32_t>(golden.ints("token_type_ids"))));
    if (!scales.empty()) {
        std::vector<float> numbers;
        for (const auto& row : scales) {
            const auto of_row = model.weights().adapter_numbers(row, 1);
            numbers.insert(numbers.end(), of_row.begin(), of_row.end());
        }
        must(program->write(t.adapters, std::span<const float>(numbers)));
    }
    must(program->submit());
    must(program->wait());
    AdaptedOutput output;
    output.hidden.resize(tokens.size() * model.config().hidden_size);
    must(program->read(t.hidden, std::span(output.hidden)));
    for (std::size_t i = 0; i < output.hidden.size(); ++i)
        if (mask[i / model.config().hidden_size] == 0) output.hidden[i] = 0;
    if (logits) {
        output.logits.resize(shape[0] * model.config().labels);
        must(program->read(logits, std::span(output.logits)));
    }
    return output;
}

std::vector<std::vector<float>> of_all(const Golden& golden, const std::vector<float>& scales) {
    return std::vector(golden.shape("input_ids")[0], scales);
}

/// A Jina as transformers' modules are called, which in the golden's file are as they were published.
void write_renamed_jina(const fs::path& folder) {
    fs::create_directory(folder);
    fs::copy_file(kJinaBase / "config.json", folder / "config.json");
    const auto file = must(formats::Safetensors::open(kJinaBase / "model.safetensors"));
    std::vector<formats::NamedTensor> tensors;
    const auto replace = [](std::string& name, const std::string& from, const std::string& to) {
        if (const std::size_t at = name.find(from); at != name.npos) name.replace(at, from.size(), to);
    };
    for (const auto& [published, data] : file.tensors()) {
        std::string name = published;
        replace(name, "emb_ln", "embeddings.LayerNorm");
        replace(name, "encoder.layers", "layers");
        replace(name, "mixer.out_proj", "self_attn.o_proj");
        replace(name, "norm1", "post_attention_layernorm");
        replace(name, "norm2", "post_mlp_layernorm");
        if (name.find("mixer.Wqkv") == name.npos) {
            tensors.push_back({name, data});
            continue;
        }
        const std::uint64_t rows = data.shape[0] / 3;
        std::uint64_t first = 0;
        for (const char* const part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
            std::string own = name;
            replace(own, "mixer.Wqkv", part);
            tensors.push_back({own, models::rows_of(data, first, rows)});
            first += rows;
        }
    }
    must(formats::write_safetensors(folder / "model.safetensors", tensors));
}

EncoderOptions with_options(std::vector<Adapter> adapters) {
    EncoderOptions options;
    options.device = "cpu";
    options.adapters = std::move(adapters);
    return options;
}
EmbedderOptions embedder_with(std::vector<Adapter> adapters) {
    EmbedderOptions options;
    static_cast<EncoderOptions&>(options) = with_options(std::move(adapters));
    return options;
}

std::vector<double> numbers_of(const std::vector<Embedding>& embeddings) {
    std::vector<double> all;
    for (const Embedding& one : embeddings) all.insert(all.end(), one.values.begin(), one.values.end());
    return all;
}

double error_between(const std::vector<double>& found, const std::vector<double>& expected) {
    return relative_error(std::span<const double>(found), std::span<const double>(expected));
}

}  // namespace

TEST_CASE("an encoder with an adapter gives what the merged model gives", "[models][encoder][adapter][golden]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    const auto [name, base] =
        GENERATE(table<std::string, std::string>({{"jina_query", "modern_encoders/jina_v3_h24"},
                                                  {"jina_passage", "modern_encoders/jina_v3_h24"},
                                                  {"jina_scores", "modern_encoders/jina_v3_scores"},
                                                  {"bert", "encoders/bert_h20"},
                                                  {"deberta", "modern_encoders/deberta_v3"}}));
    CAPTURE(backend.name(), name);
    const models::Encoder model = must(with_encoder_adapters(goldens_dir() / base, {encoder_adapter(name)}));
    const Golden golden("encoder_adapters/" + name + "/golden.safetensors");
    const AdaptedOutput found = run_adapted(model, backend, golden, of_all(golden, {1}));
    check_golden(found.hidden, golden, "last_hidden_state", kModelBound);
    if (!found.logits.empty()) check_golden(found.logits, golden, "logits", kModelBound);

    const Golden plain(base + "/golden.safetensors");
    check_golden(run_adapted(model, backend, plain, {}).hidden, plain, "last_hidden_state", kModelBound);
    const std::vector<double> off = run_adapted(model, backend, plain, of_all(plain, {0})).hidden;
    check_golden(off, plain, "last_hidden_state", kModelBound);
    CHECK(error_between(found.hidden, off) > 0.01);
}

TEST_CASE("an encoder with an adapter runs in float16", "[models][encoder][adapter][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    if (is_double(backend)) return;
    const models::Encoder model = must(with_encoder_adapters(kJinaBase, {encoder_adapter("jina_query")}));
    const Golden golden("encoder_adapters/jina_query/golden.safetensors");
    check_golden(run_adapted(model, backend, golden, of_all(golden, {1}), DType::f16).hidden, golden,
                 "last_hidden_state", 3e-3);
}

TEST_CASE("texts of a batch have an encoder's adapters each by itself", "[models][encoder][adapter][golden]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Encoder model =
        must(with_encoder_adapters(kJinaBase, {encoder_adapter("jina_query"), encoder_adapter("jina_passage")}));
    const Golden mixed("encoder_adapters/jina_passage/mixed.safetensors");
    check_golden(run_adapted(model, backend, mixed, of_all(mixed, {0.5f, -1.25f})).hidden, mixed, "last_hidden_state",
                 kModelBound);

    const Golden query("encoder_adapters/jina_query/golden.safetensors"),
        passage("encoder_adapters/jina_passage/golden.safetensors"),
        plain("modern_encoders/jina_v3_h24/golden.safetensors");
    const std::vector<double> found = run_adapted(model, backend, query, {{1, 0}, {0, 1}, {0, 0}}).hidden;
    const std::size_t row = found.size() / 3;
    for (std::size_t r = 0; r < 3; ++r) {
        const std::vector<double> expected = (r == 0 ? query : r == 1 ? passage : plain).doubles("last_hidden_state");
        CHECK(relative_error(std::span<const double>(found).subspan(r * row, row),
                             std::span<const double>(expected).subspan(r * row, row)) < kModelBound);
    }
}

TEST_CASE("an adapter has a Jina's names as they were published, or as its modules', whichever the file has",
          "[models][encoder][adapter]") {
    graph::Backend& backend = exact_backend(test_backends()[0]);
    const TemporaryFolder folder;
    write_renamed_jina(folder / "renamed");
    const Golden golden("encoder_adapters/jina_query/golden.safetensors");
    const models::Encoder renamed = must(with_encoder_adapters(folder / "renamed", {encoder_adapter("jina_query")}));
    check_golden(run_adapted(renamed, backend, golden, of_all(golden, {1})).hidden, golden, "last_hidden_state",
                 kModelBound);

    write_adapter(folder / "published", {{"roberta.encoder.layers.1.mixer.Wqkv", 72, 24},
                                         {"roberta.encoder.layers.0.mixer.out_proj", 24, 24}});
    const auto file = must(formats::Safetensors::open(folder / "published" / "adapter_model.safetensors"));
    const auto half = [&](const std::string& module, char which) { return *file.find(peft_name(module, which)); };
    std::vector<formats::NamedTensor> tensors;
    for (const char which : {'A', 'B'})
        tensors.push_back(
            {peft_name("layers.0.self_attn.o_proj", which), half("roberta.encoder.layers.0.mixer.out_proj", which)});
    std::uint64_t first = 0;
    for (const char* const part : {"q_proj", "k_proj", "v_proj"}) {
        const std::string module = std::string("layers.1.self_attn.") + part;
        tensors.push_back({peft_name(module, 'A'), half("roberta.encoder.layers.1.mixer.Wqkv", 'A')});
        tensors.push_back(
            {peft_name(module, 'B'), models::rows_of(half("roberta.encoder.layers.1.mixer.Wqkv", 'B'), first, 24)});
        first += 24;
    }
    write_adapter(folder / "modules", {{"x", 1, 1}});
    must(formats::write_safetensors(folder / "modules" / "adapter_model.safetensors", tensors));
    const auto hidden = [&](const fs::path& base, const char* adapter) {
        const models::Encoder model = must(with_encoder_adapters(base, {folder / adapter}));
        return run_adapted(model, backend, golden, of_all(golden, {1})).hidden;
    };
    const std::vector<double> expected = hidden(kJinaBase, "published");
    for (const fs::path& base : {kJinaBase, folder / "renamed"})
        for (const char* const adapter : {"published", "modules"})
            CHECK(error_between(hidden(base, adapter), expected) < 1e-6);
}

TEST_CASE("what an encoder's adapter changes and nothing here takes is refused by name",
          "[models][encoder][adapter][errors]") {
    const TemporaryFolder folder;
    int count = 0;
    /// Of a random adapter of a BERT with further tensors.
    const auto made = [&](const std::vector<formats::NamedTensor>& tensors, const std::vector<AdaptedModule>& modules) {
        const fs::path path = folder / std::to_string(++count).c_str();
        write_adapter(path, modules);
        auto file = must(formats::Safetensors::open(path / "adapter_model.safetensors"));
        std::vector<formats::NamedTensor> all = tensors;
        for (const auto& [name, data] : file.tensors()) all.push_back({name, data});
        must(formats::write_safetensors(path / "again.safetensors", all));
        fs::rename(path / "again.safetensors", path / "adapter_model.safetensors");
        return path;
    };
    const auto opened = must(models::open_encoder(kBertBase));
    const models::Encoder bert = must(opened.load());
    const auto refused = [&](const fs::path& path, ErrorCode code, const std::string& words) {
        const auto adapter = models::open_adapter(path);
        if (!adapter) return check_refused(adapter, code, words);
        check_refused(models::with_adapters(opened, bert, {*adapter}), code, words);
    };
    std::mt19937 random(1);
    const auto table = [&](const std::string& module, std::uint64_t rows, std::uint64_t width) {
        return std::vector<formats::NamedTensor>{
            {"base_model.model." + module + ".lora_embedding_A", random_matrix(4, rows, random)},
            {"base_model.model." + module + ".lora_embedding_B", random_matrix(width, 4, random)}};
    };
    const std::vector<AdaptedModule> query = {{"encoder.layer.0.attention.self.query", 20, 20}};
    CHECK(models::with_adapters(opened, bert, {must(models::open_adapter(made({}, query)))}));
    CHECK(models::with_adapters(opened, bert,
                                {must(models::open_adapter(made({}, {query[0], {"bert.pooler.dense", 20, 20}})))}));
    const auto unsupported = ErrorCode::UnsupportedConfig;
    refused(made(table("embeddings.position_embeddings", 24, 20), query), unsupported,
            "changes embeddings.position_embeddings.weight, which takes none here");
    refused(made(table("embeddings.tok_embeddings", 24, 20), query), unsupported,
            "changes embeddings.tok_embeddings.weight, which the model has not");
    refused(made(table("encoder.layer.1.attention.self.key", 20, 20), query), unsupported,
            "changes encoder.layer.1.attention.self.key.weight, which takes none here");
    refused(made({}, {{"embeddings.word_embeddings", 53, 20}}), unsupported,
            "changes embeddings.word_embeddings.weight, which takes none here");
    refused(made(table("embeddings.word_embeddings", 52, 20), query), ErrorCode::ShapeMismatch,
            "have shapes [4, 52] and [20, 4], the model's weight has [53, 20]");
    refused(made(table("encoder.layer.0.attention.self.query", 20, 20), query), unsupported,
            "encoder.layer.0.attention.self.query as a product and as a table");
    refused(made({}, {{"encoder.layer.7.attention.self.query", 20, 20}}), unsupported, "which the model has not");
    refused(made({{"base_model.model.classifier.weight", random_matrix(2, 20, random)}}, query), unsupported,
            "base_model.model.classifier.weight is no part of a low-rank adapter");
    refused(adapter_folder("llama_gqa_odd") / "adapter.gguf", unsupported, "is an adapter of GGUF models");
    refused(encoder_adapter("jina_query"), ErrorCode::ShapeMismatch, "the adapter is of another model");

    // By both of its names.
    write_adapter(folder / "twice", {{"encoder.layers.0.mlp.fc1", 37, 24}, {"layers.0.mlp.fc1", 37, 24}});
    check_refused(with_encoder_adapters(kJinaBase, {folder / "twice"}), unsupported, "layers.0.mlp.fc1.weight");
    // A decoder's table takes none.
    const fs::path decoder = made(table("model.embed_tokens", 300, 32), {{"model.layers.0.self_attn.q_proj", 32, 32}});
    check_refused(with_adapters(goldens_dir() / "decoder_text", {decoder}), unsupported,
                  "changes model.embed_tokens.weight, which takes none here");
    // What PEFT repeats has to be the model's.
    const auto file = must(formats::Safetensors::open(kBertBase / "model.safetensors"));
    const std::string repeated = "base_model.model.embeddings.word_embeddings.base_layer.weight";
    const auto same = made({{repeated, *file.find("embeddings.word_embeddings.weight")}}, query);
    CHECK(models::with_adapters(opened, bert, {must(models::open_adapter(same))}));
    refused(made({{repeated, random_matrix(53, 20, random)}}, query), unsupported, "differs from the model's");
}

TEST_CASE("each call of an embedder says which adapters count", "[embedder][adapter]") {
    const TemporaryFolder folder;
    write_adapter(folder / "query",
                  {{"encoder.layer.0.attention.self.query", 20, 20}, {"encoder.layer.1.output.dense", 20, 30}});
    write_adapter(folder / "passage", {{"encoder.layer.1.attention.self.value", 20, 20}}, 2, 5);
    const fs::path base = goldens_dir() / "sentences" / "embedder";
    const std::vector<Adapter> adapters = {{"query", folder / "query"}, {"passage", folder / "passage"}};
    Embedder embedder = must(Embedder::load(base, embedder_with(adapters)));
    Embedder bare = must(Embedder::load(base, embedder_with({})));
    Embedder query = must(Embedder::load(base, embedder_with({adapters[0]})));
    const std::vector<std::string> texts = {"a cat", "the dog and the sea", "x"};
    const auto vectors = [&](Embedder& of, const std::map<std::string, float>& asked) {
        return numbers_of(must(of.embed(texts, {}, asked)));
    };
    const std::vector<double> plain = vectors(bare, {}), with_query = vectors(query, {{"query", 1.0f}});
    CHECK(vectors(embedder, {}) == plain);
    CHECK(vectors(embedder, {{"query", 0.0f}}) == plain);
    CHECK(error_between(vectors(embedder, {{"query", 1.0f}}), with_query) < 1e-6);
    CHECK(error_between(with_query, plain) > 1e-3);
    CHECK(error_between(vectors(embedder, {{"query", 1.0f}, {"passage", 1.0f}}), with_query) > 1e-3);
    CHECK(vectors(embedder, {}) == plain);  // nothing of a call is left in the next

    check_refused(embedder.embed(texts, {}, {{"x", 1.0f}}), ErrorCode::InvalidArgument,
                  "no adapter \"x\" is loaded; there are: query, passage");
    check_refused(embedder.embed(texts, {}, {{"query", 2000.0f}}), ErrorCode::InvalidArgument, "1000");
    check_refused(bare.embed(texts, {}, {{"query", 1.0f}}), ErrorCode::InvalidArgument, "there are none");
    check_refused(Embedder::load(base, embedder_with({adapters[0], {"query", folder / "passage"}})),
                  ErrorCode::InvalidArgument, "adapters need names of their own, and \"query\" is two's");
}

TEST_CASE("a cross-encoder has adapters, of its head too", "[embedder][adapter]") {
    const TemporaryFolder folder;
    write_adapter(
        folder / "adapter",
        {{"bert.encoder.layer.0.attention.self.query", 20, 20}, {"bert.pooler.dense", 20, 20}, {"classifier", 1, 20}});
    const fs::path base = goldens_dir() / "sentences" / "cross_encoder";
    CrossEncoder scorer = must(CrossEncoder::load(base, with_options({{"a", folder / "adapter"}})));
    const std::vector<TextPair> pairs = {{"a cat", "the mat"}};
    const auto score = [&](const std::map<std::string, float>& asked) {
        return must(scorer.score(pairs, {}, asked))[0].scores[0];
    };
    CHECK(score({}) == must(must(CrossEncoder::load(base, with_options({}))).score(pairs))[0].scores[0]);
    CHECK(std::abs(score({{"a", 1.0f}}) - score({})) > 1e-3f);
    check_refused(CrossEncoder::load(goldens_dir() / "modern_encoders" / "qwen3_reranker",
                                     with_options({{"a", folder / "adapter"}})),
                  ErrorCode::UnsupportedConfig, "takes no adapters here");
    VisionOptions vision;
    static_cast<EncoderOptions&>(vision) = with_options({{"a", folder / "adapter"}});
    check_refused(ImageClassifier::load(goldens_dir() / "vision" / "vit", vision), ErrorCode::UnsupportedConfig,
                  "models of images take no adapters");
}

}  // namespace vkformer::tests
