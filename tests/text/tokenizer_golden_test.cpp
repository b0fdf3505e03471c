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
