// SPDX-License-Identifier: MIT
/// How SigLIP's tokenizers write and pad texts.
#include "api/padded_texts.hpp"

#include <fstream>

#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

Result<api::PaddedTexts> padded(const std::string& config) {
    const auto folder = goldens_dir() / "modern_vision/siglip";
    static const auto tokenizer = must(text::load_tokenizer(folder));
    const TemporaryFolder temporary;
    std::ofstream(temporary / "tokenizer_config.json") << config;
    return api::PaddedTexts::read(temporary.path(), *tokenizer);
}

std::vector<std::int32_t> filled(const api::PaddedTexts& texts, std::vector<std::int32_t> ids) {
    texts.fill(ids, 5);
    return ids;
}

}  // namespace

TEST_CASE("texts are written as the class of the tokenizer has it", "[vision][siglip]") {
    const std::string text = "  It's A\tCAT,  \n(ÄÖ_猫)! ";
    CHECK(must(padded(R"({"tokenizer_class": "SiglipTokenizer"})")).written(text) == "its a cat äö猫");
    CHECK(must(padded(R"({"tokenizer_class": "SiglipTokenizer", "do_lower_case": false})")).written(text) ==
          "Its A CAT ÄÖ猫");
    CHECK(must(padded(R"({"tokenizer_class": "Siglip2Tokenizer"})")).written(text) == "  it's a\tcat,  \n(äö_猫)! ");
    CHECK(must(padded(R"({"tokenizer_class": "GemmaTokenizer", "do_lower_case": true})")).written(text) == text);
    CHECK(must(padded(R"({"tokenizer_class": "SiglipTokenizer"})")).written(" .. ") == "");
}

TEST_CASE("texts are padded where and with what the tokenizer says", "[vision][siglip]") {
    const auto siglip = must(padded(R"({"tokenizer_class": "SiglipTokenizer"})"));
    CHECK(filled(siglip, {7, 8}) == std::vector<std::int32_t>{7, 8, 1, 1, 1});  // "</s>"
    CHECK(filled(siglip, {1, 2, 3, 4, 5}) == std::vector<std::int32_t>{1, 2, 3, 4, 5});
    for (const char* const type : {"Siglip2Tokenizer", "GemmaTokenizer", "GemmaTokenizerFast"}) {
        CAPTURE(type);
        const std::string name = R"({"tokenizer_class": ")" + std::string(type) + "\"";
        CHECK(filled(must(padded(name + "}")), {7, 8}) == std::vector<std::int32_t>{0, 0, 0, 7, 8});  // "<pad>"
        CHECK(filled(must(padded(name + R"(, "padding_side": "right", "pad_token": "<unk>"})")), {7}) ==
              std::vector<std::int32_t>{7, 2, 2, 2, 2});
    }
    check_refused(padded(R"({"padding_side": "middle"})"), ErrorCode::UnsupportedConfig, "\"padding_side\"");
    check_refused(padded(R"({"pad_token": "<nothing>"})"), ErrorCode::UnsupportedConfig, "\"<nothing>\" is none");
}

}  // namespace vkformer::tests
