// SPDX-License-Identifier: MIT
/// Every tokenizer of tests/goldens/tokenizers against the ids and texts that Hugging Face's implementation gives.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode.hpp"

namespace vkformer::tests {
namespace {

using namespace text;

std::vector<std::string> folders() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / "tokenizers"))
        if (entry.is_directory()) names.push_back(entry.path().filename().string());
    return names;
}

}  // namespace

TEST_CASE("the bytes of tokens are the text, but for its first space", "[text]") {
    // Not of those whose decoders look at several tokens: spaces between words, clean-ups.
    const std::string name = GENERATE("bpe-bytes", "bpe-pieces", "unigram-bytes", "unigram");
    CAPTURE(name);
    const auto tokenizer = load_tokenizer(goldens_dir() / "tokenizers" / name);
    REQUIRE(tokenizer);
    const nlohmann::json lines = read_json(goldens_dir() / "tokenizers" / "lines.json");
    std::size_t compared = 0, parts_of_characters = 0;
    for (const std::string& line : lines.get<std::vector<std::string>>()) {
        const auto ids = (*tokenizer)->encode(line, {.add_special = false});
        if (!ids) continue;
        std::string bytes;
        for (const std::int32_t id : *ids) {
            const std::string part = (*tokenizer)->bytes(id);
            parts_of_characters += !is_utf8(part);
            bytes += part;
        }
        CAPTURE(line);
        // One decoder cleans up, one takes blanks off the end of lines.
        if (name == "unigram-bytes" && bytes.find('\n') != bytes.npos) continue;
        if (line.find("<mask>") != line.npos) continue;  // it takes the blanks before it along
        std::string text = name == "bpe-bytes" ? line : (*tokenizer)->decode(*ids, false);
        if (name == "unigram-bytes" && bytes.ends_with(' ')) bytes.erase(bytes.find_last_not_of(' ') + 1);
        if (text.find("\uFFFD") != text.npos) continue;
        CHECK((bytes == text || (bytes.starts_with(' ') && bytes.substr(1) == text)));
        ++compared;
    }
    CHECK(compared > 100);
    if (name.ends_with("bytes")) CHECK(parts_of_characters > 0);
    CHECK((*tokenizer)->bytes(-1).empty());
    CHECK((*tokenizer)->bytes(1 << 30).empty());
}

TEST_CASE("tokenizers give the ids and texts of Hugging Face", "[text][golden]") {
    const std::string name = GENERATE(from_range(folders()));
    CAPTURE(name);
    const auto tokenizer = load_tokenizer(goldens_dir() / "tokenizers" / name);
    if (!tokenizer) FAIL(tokenizer.error().message);
    const auto lines = read_json(goldens_dir() / "tokenizers/lines.json");
    const auto expected = read_json(goldens_dir() / "tokenizers" / name / "expected.json");
    REQUIRE(lines.size() > 300);
    REQUIRE(expected["ids"].size() == lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::string line = lines[i];
        CAPTURE(i, line);
        const auto ids = (*tokenizer)->encode(line);
        if (!ids) FAIL(ids.error().message);
        CHECK(*ids == expected["ids"][i].get<std::vector<std::int32_t>>());
        const auto golden_ids = expected["ids"][i].get<std::vector<std::int32_t>>();
        CHECK((*tokenizer)->decode(golden_ids) == expected["decoded"][i].get<std::string>());
        CHECK((*tokenizer)->decode(golden_ids, false) == expected["decoded_all"][i].get<std::string>());
        for (const std::int32_t id : golden_ids) CHECK(static_cast<std::size_t>(id) < (*tokenizer)->vocab_size());
    }
    REQUIRE(expected["generated"].size() >= 50);
    for (std::size_t i = 0; i < expected["generated"].size(); ++i) {
        const auto ids = expected["generated"][i].get<std::vector<std::int32_t>>();
        CAPTURE(i, ids);
        CHECK((*tokenizer)->decode(ids) == expected["generated_decoded"][i].get<std::string>());
        CHECK((*tokenizer)->decode(ids, false) == expected["generated_decoded_all"][i].get<std::string>());
    }
}

}  // namespace vkformer::tests
