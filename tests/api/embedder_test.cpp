// SPDX-License-Identifier: MIT
/// Embedder and CrossEncoder against the sentence-transformers library, texts in, vectors out.
#include "vkformer/embedder.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

EmbedderOptions embedder_options(const std::string& device, Precision precision = Precision::f32) {
    EmbedderOptions options;
    options.device = device;
    options.precision = precision;
    options.plain_shaders = true;  // nothing is measured in tests
    return options;
}

void check_rows(const std::vector<Embedding>& found, const json& expected, double bound) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        const auto row = expected[i].get<std::vector<float>>();
        REQUIRE(found[i].values.size() == row.size());
        CHECK(relative_error(std::span<const float>(found[i].values), std::span<const float>(row)) < bound);
    }
}

}  // namespace

TEST_CASE("a BERT in a GGUF file embeds as its folder does", "[embedder][gguf][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    const auto folder = goldens_dir() / "gguf_encoders";
    std::ifstream in(folder / "golden.json");
    const json golden = json::parse(in);
    const auto texts = golden["texts"].get<std::vector<std::string>>();

    Embedder embedder = must(Embedder::load(folder / "bert.gguf", embedder_options(device)));
    CHECK(embedder.pooling() == "mean, normalised");
    CHECK(embedder.max_length() == 32);
    const auto found = must(embedder.embed(texts));
    check_rows(found, golden["mean"], kModelBound);
    CHECK(found.back().tokens == 32);
    CHECK(found.back().cut == 10);

    EmbedderOptions first = embedder_options(device);
    first.pooling = "cls";
    check_rows(must(must(Embedder::load(folder / "bert.gguf", first)).embed(texts)), golden["cls"], kModelBound);
}

TEST_CASE("a cross-encoder in a GGUF file scores as its folder does", "[embedder][gguf][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const bool is_direct = GENERATE(false, true);
    CAPTURE(device, is_direct);
    const auto folder = goldens_dir() / "gguf_encoders";
    const json golden =
        read_json(is_direct ? folder / "rank_direct.json" : sentence_folder("cross_encoder") / "golden.json");
    EncoderOptions options = embedder_options(device);
    if (!is_direct) options.max_length = 24;  // what the folder's tokenizer says, and a GGUF file does not
    CrossEncoder scorer = must(CrossEncoder::load(folder / (is_direct ? "rank_direct.gguf" : "rank.gguf"), options));
    CHECK(scorer.labels() == (is_direct ? 3 : 1));
    std::vector<TextPair> pairs;
    for (const json& pair : golden["pairs"]) pairs.push_back({pair[0], pair[1]});
    const auto found = must(scorer.score(pairs));
    REQUIRE(found.size() == golden["scores"].size());
    for (std::size_t i = 0; i < found.size(); ++i)
        for (std::size_t label = 0; label < scorer.labels(); ++label)
            CHECK(std::abs(found[i].scores[label] - golden["scores"][i][label].get<double>()) < 1e-5);
}

TEST_CASE("vectors of a cross-encoder and scores of an embedder in GGUF files are refused",
          "[embedder][gguf][errors]") {
    const auto folder = goldens_dir() / "gguf_encoders";
    const auto vectors = Embedder::load(folder / "rank.gguf", embedder_options("cpu"));
    REQUIRE_FALSE(vectors);
    CHECK(vectors.error().hint == Hint::cross_encoder);
    const auto scores = CrossEncoder::load(folder / "bert.gguf", embedder_options("cpu"));
    REQUIRE_FALSE(scores);
    CHECK(scores.error().message.find("cls.output.weight") != std::string::npos);
}

TEST_CASE("embeddings are those of sentence-transformers", "[embedder][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const Precision precision = GENERATE(Precision::f32, Precision::f16);
    CAPTURE(device, precision == Precision::f16);
    const double bound = precision == Precision::f16 ? 3e-3 : kModelBound;
    const json golden = read_json(sentence_folder("embedder") / "golden.json");
    const auto texts = golden["texts"].get<std::vector<std::string>>();

    Embedder embedder = must(Embedder::load(sentence_folder("embedder"), embedder_options(device, precision)));
    CHECK(embedder.dimension() == 9);
    CHECK(embedder.max_length() == 16);
    CHECK(embedder.pooling() == "cls + mean, dense layer, normalised");
    const auto embeddings = must(embedder.embed(texts));
    check_rows(embeddings, golden["embeddings"], bound);
    CHECK(embeddings[6].tokens == 16);
    CHECK(embeddings[6].cut > 0);
    CHECK(embeddings[0].cut == 0);

    EmbedderOptions query = embedder_options(device, precision);
    query.prompt_name = "query";
    Embedder queries = must(Embedder::load(sentence_folder("embedder"), query));
    query.prompt = "search: ";
    const auto both = Embedder::load(sentence_folder("embedder"), query);
    REQUIRE_FALSE(both);
    CHECK(both.error().code == ErrorCode::InvalidArgument);
    check_rows(must(queries.embed(texts)), golden["query"], bound);
}

TEST_CASE("decoders embed texts as sentence-transformers has it", "[embedder][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const Precision precision = GENERATE(Precision::f32, Precision::f16);
    const bool is_gemma = GENERATE(false, true);
    CAPTURE(device, precision == Precision::f16, is_gemma);
    const double bound = precision == Precision::f16 ? 3e-3 : kModelBound;
    const auto folder = goldens_dir() / "modern_encoders" / (is_gemma ? "embedding_gemma" : "qwen3_embedder");
    const json golden = read_json(folder / "golden.json");
    const auto texts = golden["texts"].get<std::vector<std::string>>();
    Embedder embedder = must(Embedder::load(folder, embedder_options(device, precision)));
    CHECK(embedder.dimension() == (is_gemma ? 17 : 28));
    CHECK(embedder.max_length() == 48);
    CHECK(embedder.pooling() == (is_gemma ? "mean, dense layer, dense layer, normalised" : "lasttoken, normalised"));
    const auto together = must(embedder.embed(texts));
    check_rows(together, golden["embeddings"], bound);
    const auto alone = must(embedder.embed(std::span(texts).first(1)));
    CHECK(relative_error(std::span<const float>(alone[0].values), std::span<const float>(together[0].values)) < bound);

    EmbedderOptions query = embedder_options(device, precision);
    query.prompt_name = "query";
    check_rows(must(must(Embedder::load(folder, query)).embed(texts)), golden["query"], bound);
}

TEST_CASE("a decoder in a folder of its own embeds as one beside modules.json", "[embedder][golden]") {
    namespace fs = std::filesystem;
    const auto original = goldens_dir() / "modern_encoders/qwen3_embedder";
    const TemporaryFolder folder;
    fs::create_directory(folder / "0_Transformer");
    const std::set<std::string> outside = {"modules.json", "config_sentence_transformers.json", "golden.json"};
    for (const auto& entry : fs::directory_iterator(original)) {
        const std::string name = entry.path().filename().string();
        const bool stays = entry.is_directory() || outside.contains(name);
        fs::copy(entry.path(), (stays ? folder.path() : folder / "0_Transformer") / name, fs::copy_options::recursive);
    }
    json modules = read_json(original / "modules.json");
    modules[0]["path"] = "0_Transformer";
    write_text(folder / "modules.json", modules.dump());
    const json golden = read_json(original / "golden.json");
    Embedder embedder = must(Embedder::load(folder.path(), embedder_options("cpu")));
    CHECK(embedder.max_length() == 48);
    check_rows(must(embedder.embed(golden["texts"].get<std::vector<std::string>>())), golden["embeddings"],
               kModelBound);
}

TEST_CASE("a reranker's folder of sentence-transformers says length, instruction and activation", "[embedder]") {
    const auto original = goldens_dir() / "modern_encoders/qwen3_reranker";
    const TemporaryFolder folder;
    std::filesystem::copy(original, folder.path());
    const json vocabulary = read_json(original / "tokenizer.json")["model"]["vocab"];
    write_text(folder / "modules.json",
               R"([{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""},
                   {"type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore", "path": "1"}])");
    const json tokens = {{"true_token_id", vocabulary["yes"]}, {"false_token_id", vocabulary["no"]}};
    write_text(folder / "1/config.json", tokens.dump());
    write_text(folder / "sentence_bert_config.json", R"({"max_seq_length": 300})");
    const auto write_prompt = [&](const std::string& prompt) {
        const json config = {{"model_type", "CrossEncoder"},
                             {"activation_fn", "torch.nn.modules.linear.Identity"},
                             {"prompts", {{"query", prompt}}},
                             {"default_prompt_name", "query"}};
        write_text(folder / "config_sentence_transformers.json", config.dump());
    };
    write_prompt("Given a web search query, retrieve relevant passages that answer the query");
    CrossEncoder model = must(CrossEncoder::load(folder.path(), embedder_options("cpu")));
    CHECK(model.max_length() == 300);
    const std::vector<TextPair> pair = {{"the dog", "the cat and the coat"}};
    CrossEncoder published = must(CrossEncoder::load(original, embedder_options("cpu")));
    const double logit = must(model.score(pair))[0].scores[0], score = must(published.score(pair))[0].scores[0];
    CHECK(std::abs(1 / (1 + std::exp(-logit)) - score) < kModelBound);
    write_prompt("Which document is about dogs?");
    const auto other = CrossEncoder::load(folder.path(), embedder_options("cpu"));
    REQUIRE_FALSE(other);
    CHECK_THAT(other.error().message, ContainsSubstring("default_prompt_name"));
}

TEST_CASE("Qwen3-Reranker scores as its model card has it", "[embedder][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const Precision precision = GENERATE(Precision::f32, Precision::f16);
    CAPTURE(device, precision == Precision::f16);
    const auto folder = goldens_dir() / "modern_encoders/qwen3_reranker";
    const json golden = read_json(folder / "golden.json");
    CrossEncoder model = must(CrossEncoder::load(folder, embedder_options(device, precision)));
    CHECK(model.labels() == 1);
    std::vector<TextPair> pairs;
    for (const json& pair : golden["pairs"]) pairs.push_back({pair[0].get<std::string>(), pair[1].get<std::string>()});
    const auto scores = must(model.score(pairs));
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        CAPTURE(i);
        CHECK(std::abs(scores[i].scores[0] - golden["scores"][i][0].get<double>()) <
              (precision == Precision::f16 ? 3e-3 : kModelBound));
    }
}

TEST_CASE("a reranker's prompt is whole whatever is cut of the texts", "[embedder]") {
    const auto folder = goldens_dir() / "modern_encoders/qwen3_reranker";
    CrossEncoder whole = must(CrossEncoder::load(folder, embedder_options("cpu")));
    const std::vector<TextPair> pair = {{"the dog", "the cat and the coat"}};
    const PairScore all = must(whole.score(pair))[0];
    EncoderOptions options = embedder_options("cpu");
    options.max_length = static_cast<std::uint32_t>(all.tokens) - 2;
    CrossEncoder shorter = must(CrossEncoder::load(folder, options));
    const PairScore cut = must(shorter.score(pair))[0];
    CHECK(cut.cut == 2);
    CHECK(cut.tokens == options.max_length);
    const std::vector<TextPair> rest = {{"the dog", "the cat and"}};  // "Ġthe" and "Ġcoat" are a token each
    CHECK(std::abs(must(whole.score(rest))[0].scores[0] - cut.scores[0]) < kModelBound);
    // What a text spells is no special token.
    const std::vector<TextPair> spelled = {{"the dog", "<|im_end|>"}};
    CHECK(must(whole.score(spelled))[0].tokens >
          must(whole.score(std::vector<TextPair>{{"the dog", ""}}))[0].tokens + 5);
    options.max_length = 20;
    const auto none = CrossEncoder::load(folder, options);
    REQUIRE_FALSE(none);
    CHECK_THAT(none.error().message, ContainsSubstring("the model's prompt has"));
}

TEST_CASE("the options of an embedder win over the folder", "[embedder]") {
    EmbedderOptions options = embedder_options("cpu");
    options.prompt = "the: ";
    const json golden = read_json(sentence_folder("embedder") / "golden.json");
    const auto texts = golden["texts"].get<std::vector<std::string>>();
    Embedder prompted = must(Embedder::load(sentence_folder("embedder"), options));
    check_rows(must(prompted.embed(texts)), golden["query"], kModelBound);

    // The cross-encoder's folder has no modules.json: the mean of its last hidden states.
    options = embedder_options("cpu");
    options.max_length = 7;
    options.batch = 2;
    Embedder plain = must(Embedder::load(sentence_folder("cross_encoder"), options));
    CHECK(plain.pooling() == "mean");
    CHECK(plain.dimension() == 20);
    CHECK(plain.max_length() == 7);
    const auto whole = must(plain.embed(texts));
    REQUIRE(whole.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {  // alone, or in a batch with others
        const auto alone = must(plain.embed(std::span(texts).subspan(i, 1)));
        CHECK(relative_error(std::span<const float>(alone[0].values), std::span<const float>(whole[i].values)) <
              kModelBound);
    }

    const auto refused = [](auto change, const std::string& what) {
        EmbedderOptions bad = embedder_options("cpu");
        change(bad);
        const auto result = Embedder::load(sentence_folder("embedder"), bad);
        REQUIRE_FALSE(result);
        CHECK_THAT(result.error().message, ContainsSubstring(what));
    };
    refused([](EmbedderOptions& o) { o.pooling = "median"; }, "there is no pooling \"median\"");
    refused([](EmbedderOptions& o) { o.pooling = "mean"; }, "the dense layer takes 40 numbers, the pooling gives 20");
    refused([](EmbedderOptions& o) { o.prompt_name = "passage"; }, "it has document, query");
    refused([](EmbedderOptions& o) { o.max_length = 33; }, "at most 32 tokens");
}

TEST_CASE("an embedder says which text is wrong", "[embedder][errors]") {
    Embedder embedder = must(Embedder::load(sentence_folder("embedder"), embedder_options("cpu")));
    const std::vector<std::string> texts = {"the cat", "\xFF"};
    const auto result = embedder.embed(texts);
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, ContainsSubstring("text 2: "));
    CHECK(must(embedder.embed({})).empty());
}

TEST_CASE("scores are those of sentence-transformers' CrossEncoder", "[embedder][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const std::string name = GENERATE("cross_encoder", "cross_encoder_labels");
    CAPTURE(device, name);
    const json golden = read_json(sentence_folder(name) / "golden.json");
    std::vector<TextPair> pairs;
    for (const json& pair : golden["pairs"]) pairs.push_back({pair[0].get<std::string>(), pair[1].get<std::string>()});
    CrossEncoder model = must(CrossEncoder::load(sentence_folder(name), embedder_options(device)));
    CHECK(model.max_length() == 24);
    const auto scores = must(model.score(pairs));
    REQUIRE(scores.size() == pairs.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
        CAPTURE(i);
        const auto expected = golden["scores"][i].get<std::vector<float>>();
        CHECK(model.labels() == expected.size());
        CHECK(relative_error(std::span<const float>(scores[i].scores), std::span<const float>(expected)) < kModelBound);
    }
    CHECK(scores[5].cut > 0);
}

TEST_CASE("a model without a head gives no scores", "[embedder][errors]") {
    const auto result = CrossEncoder::load(sentence_folder("embedder"), embedder_options("cpu"));
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::UnsupportedConfig);
    CHECK_THAT(result.error().message, ContainsSubstring("no classification head"));
}

}  // namespace vkformer::tests
