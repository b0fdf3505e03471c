// SPDX-License-Identifier: MIT
/// Pairs of texts with their types, cut to lengths: equal to Hugging Face's tokenizers library.
#include <fstream>

#include <nlohmann/json.hpp>

#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;

std::unique_ptr<text::Tokenizer> load_json_tokenizer(const json& tokenizer) {
    TemporaryFolder folder;
    std::ofstream(folder / "tokenizer.json") << tokenizer.dump();
    return must(text::load_tokenizer(folder.path()));
}

}  // namespace

TEST_CASE("texts and pairs get Hugging Face's ids and types", "[text][pairs][golden]") {
    std::ifstream file(goldens_dir() / "sentences/pairs.json");
    for (const json& entry : json::parse(file)) {
        const auto tokenizer = load_json_tokenizer(entry["tokenizer"]);
        CAPTURE(entry["name"].get<std::string>());
        REQUIRE(entry["encodings"].size() > 50);
        for (const json& expected : entry["encodings"]) {
            const auto first = expected["first"].get<std::string>();
            std::optional<std::string> second;
            if (!expected["second"].is_null()) second = expected["second"].get<std::string>();
            const auto max_length = expected["max_length"].get<std::size_t>();
            CAPTURE(first, second.value_or("(none)"), max_length);
            const auto found = must(tokenizer->encode_for_encoder(first, second, max_length));
            CHECK(found.ids == expected["ids"].get<std::vector<std::int32_t>>());
            CHECK(found.types == expected["types"].get<std::vector<std::int32_t>>());
            const auto whole = must(tokenizer->encode_for_encoder(first, second, 0));
            CHECK(found.cut == whole.ids.size() - found.ids.size());
        }
    }
}

TEST_CASE("DeBERTa's tokenizer gives Hugging Face's ids and types", "[text][pairs][golden]") {
    const auto folder = goldens_dir() / "modern_encoders/deberta_scores";
    const auto tokenizer = must(text::load_tokenizer(folder));
    std::ifstream file(folder / "tokens.json");
    const json rows = json::parse(file);
    REQUIRE(rows.size() > 20);
    for (const json& row : rows) {
        const auto first = row["first"].get<std::string>();
        std::optional<std::string> second;
        if (!row["second"].is_null()) second = row["second"].get<std::string>();
        CAPTURE(first, second.value_or("(none)"));
        const auto found = must(tokenizer->encode_for_encoder(first, second, 0));
        CHECK(found.ids == row["ids"].get<std::vector<std::int32_t>>());
        CHECK(found.types == row["types"].get<std::vector<std::int32_t>>());
    }
}

TEST_CASE("a length without room for the special tokens is an error", "[text][pairs][errors]") {
    std::ifstream file(goldens_dir() / "sentences/pairs.json");
    const auto tokenizer = load_json_tokenizer(json::parse(file)[0]["tokenizer"]);
    CHECK_FALSE(tokenizer->encode_for_encoder("a", std::nullopt, 1));
    CHECK(must(tokenizer->encode_for_encoder("a", std::nullopt, 2)).ids.size() == 2);
    CHECK_FALSE(tokenizer->encode_for_encoder("a", "b", 2));
}

}  // namespace vkformer::tests
