// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::tests {
namespace {

using namespace text;
using Catch::Matchers::ContainsSubstring;

/// A copy of the golden Marian folder whose files can be broken; removed at the end.
class Copy {
public:
    Copy() {
        std::filesystem::copy(std::filesystem::path(VKFORMER_SOURCE_DIR) / "tests/goldens/tokenizers/marian",
                              folder_.path(), std::filesystem::copy_options::recursive);
    }

    std::string read(const char* name) const {
        std::ifstream file(folder_ / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void write(const char* name, const std::string& text) const {
        std::ofstream(folder_ / name, std::ios::binary) << text;
    }
    void remove(const char* name) const { std::filesystem::remove(folder_ / name); }
    Result<std::unique_ptr<Tokenizer>> load() const { return load_tokenizer(folder_.path()); }
    std::string message(ErrorCode code = ErrorCode::CorruptFile) const {
        const auto tokenizer = load();
        REQUIRE_FALSE(tokenizer);
        CHECK(tokenizer.error().code == code);
        return tokenizer.error().message;
    }

private:
    TemporaryFolder folder_;
};

/// Of a protocol buffer: a length-delimited field.
std::string field(unsigned number, const std::string& bytes) {
    std::string made(1, static_cast<char>(number << 3 | 2));
    for (std::size_t rest = bytes.size(); made.size() < 2 || rest > 0; rest >>= 7)
        made += static_cast<char>((rest & 127) | (rest > 127 ? 128 : 0));
    return made + bytes;
}

/// An entry of a SentencePiece model's vocabulary.
std::string piece(std::size_t bytes) { return field(1, field(1, std::string(bytes, 'x'))); }

}  // namespace

TEST_CASE("Marian tokenizer: pieces, and texts that are not UTF-8", "[text][marian]") {
    const Copy copy;
    const auto tokenizer = copy.load();
    REQUIRE(tokenizer);
    CHECK((*tokenizer)->piece(0) == "</s>");
    CHECK((*tokenizer)->piece(2) == ">>fr<<");
    CHECK((*tokenizer)->piece(-1).empty());
    CHECK((*tokenizer)->piece(1'000'000).empty());
    const std::vector<std::int32_t> hostile = {-1, INT32_MIN, INT32_MAX, 1'000'000};
    CHECK((*tokenizer)->decode(hostile).empty());
    for (const char* text : {"\xFF", "abc\xC3", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80"}) {
        const auto ids = (*tokenizer)->encode(text);
        REQUIRE_FALSE(ids);
        CHECK(ids.error().code == ErrorCode::InvalidArgument);
        CHECK_THAT(ids.error().message, ContainsSubstring("not UTF-8 at byte"));
    }
    // Of what no piece has libsentencepiece makes one by copying it again and again.
    std::string word;
    while (word.size() + 3 <= std::size_t{16} << 10) word += "漢";
    CHECK((*tokenizer)->encode("a " + word + "\n" + word + " b"));
    const auto endless = (*tokenizer)->encode("a " + word + "漢 b");
    REQUIRE_FALSE(endless);
    CHECK(endless.error().code == ErrorCode::InvalidArgument);
    CHECK_THAT(endless.error().message, ContainsSubstring("16386 bytes without a blank or a new line"));
}

// transformers 5.12.1: MarianTokenizer(text), MarianTokenizer(text_target=text)
TEST_CASE("Marian tokenizer: targets have a model and a vocabulary of their own", "[text][marian]") {
    using Ids = std::vector<std::int32_t>;
    const auto tokenizer = must(load_tokenizer(goldens_dir() / "tokenizers/marian-separate"));
    for (const auto& [text, source, target] :
         {std::tuple("March 4, 2021", Ids{57, 32, 23, 42, 7, 99, 0}, Ids{121, 170, 8, 14, 43, 137, 42, 22, 145, 0}),
          std::tuple("Straße und Haus", Ids{38, 11, 78, 119, 6, 190, 85, 4, 1, 10, 33, 0},
                     Ids{16, 130, 37, 40, 21, 124, 133, 121, 1, 123, 9, 0})}) {
        CHECK(must(tokenizer->encode(text)) == source);
        CHECK(must(tokenizer->encode(text, {.is_target = true})) == target);
        CHECK(must(tokenizer->encode(text, {.add_special = false, .is_target = true})) ==
              Ids(target.begin(), target.end() - 1));
    }
}

TEST_CASE("Marian tokenizer: the older files name the special tokens", "[text][marian]") {
    const Copy copy;
    copy.write("tokenizer_config.json",
               R"({"eos_token": "</s>", "unk_token": {"content": "<unk>"}, "additional_special_tokens": null})");
    copy.write("special_tokens_map.json",
               R"({"pad_token": "<pad>", "additional_special_tokens": [{"content": "<new>"}]})");
    copy.write("added_tokens.json", R"({"<new>": 3})");
    const auto tokenizer = copy.load();
    REQUIRE(tokenizer);
    CHECK((*tokenizer)->encode("<new>").value() == std::vector<std::int32_t>{3, 0});
    CHECK((*tokenizer)->decode(std::vector<std::int32_t>{3, 0}).empty());
    CHECK((*tokenizer)->decode(std::vector<std::int32_t>{3, 0}, false) == "<new> </s>");
}

TEST_CASE("Marian tokenizer: broken folders", "[text][marian]") {
    const Copy copy;
    SECTION("missing files") {
        copy.remove("vocab.json");
        CHECK_THAT(copy.message(ErrorCode::FileNotFound), ContainsSubstring("neither source.spm"));
    }
    SECTION("vocabulary") {
        copy.write("vocab.json", "");
        CHECK_THAT(copy.message(), ContainsSubstring("vocab.json"));
        copy.write("vocab.json", "[1, 2]");
        CHECK_THAT(copy.message(), ContainsSubstring("vocab.json: expected an object"));
        copy.write("vocab.json", R"({"<unk>": -1})");
        CHECK_THAT(copy.message(), ContainsSubstring("vocab.json: \"<unk>\": expected a non-negative integer"));
        copy.write("vocab.json", R"({"<unk>": 2147483648})");
        CHECK_THAT(copy.message(), ContainsSubstring("non-negative integer below"));
        copy.write("vocab.json", R"({"<unk>": "1"})");
        CHECK_THAT(copy.message(), ContainsSubstring("non-negative integer"));
        copy.write("vocab.json", R"({"<unk>": 1, "</s>": 0})");
        CHECK_THAT(copy.message(), ContainsSubstring("vocab.json: has no token \"<pad>\""));
        copy.write("vocab.json", R"({"<unk>": 1, "</s>": 0, "<pad>": 1})");
        CHECK_THAT(copy.message(), ContainsSubstring("the id 1 occurs twice"));
    }
    SECTION("configuration") {
        copy.write("tokenizer_config.json", "[]");
        CHECK_THAT(copy.message(), ContainsSubstring("tokenizer_config.json: expected an object"));
        copy.write("tokenizer_config.json", R"({"eos_token": 5})");
        CHECK_THAT(copy.message(), ContainsSubstring("tokenizer_config.json: eos_token: expected a text"));
        copy.write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "y"}}})");
        CHECK_THAT(copy.message(), ContainsSubstring("\"x\" is no token id"));
        copy.write("tokenizer_config.json", R"({"added_tokens_decoder": {"3": {}}})");
        CHECK_THAT(copy.message(), ContainsSubstring("added_tokens_decoder.3: has no \"content\""));
        copy.write("tokenizer_config.json", R"({"separate_vocabs": true})");
        CHECK_THAT(copy.message(ErrorCode::FileNotFound), ContainsSubstring("target_vocab.json"));
        copy.write("tokenizer_config.json", R"({"sp_model_kwargs": {"enable_sampling": true}})");
        CHECK_THAT(copy.message(ErrorCode::UnsupportedConfig), ContainsSubstring("sp_model_kwargs"));
    }
    SECTION("SentencePiece model with a piece that no trainer makes") {
        const std::string model = copy.read("source.spm");
        copy.write("source.spm", model + piece(1024));
        CHECK(copy.load());
        copy.write("source.spm", model + piece(300'000));  // libsentencepiece's stack would end
        CHECK_THAT(copy.message(), ContainsSubstring("source.spm: a piece has 300000 bytes; at most 1024"));
    }
    SECTION("SentencePiece model whose own test fails") {
        copy.write("source.spm", copy.read("source.spm") + field(4, field(1, field(1, "Hello") + field(2, "wrong"))));
        CHECK(copy.load());  // and libsentencepiece prints nothing
    }
    SECTION("SentencePiece model") {
        copy.write("source.spm", "");
        CHECK_THAT(copy.message(), ContainsSubstring("source.spm"));
        copy.write("source.spm", "not a model at all");
        CHECK_THAT(copy.message(), ContainsSubstring("source.spm"));
    }
}

TEST_CASE("Marian tokenizer: truncated and mutated SentencePiece models never crash", "[text][marian]") {
    const Copy copy;
    const std::string model = copy.read("source.spm");
    const auto try_model = [&](const std::string& bytes) {
        copy.write("source.spm", bytes);
        copy.write("target.spm", bytes);
        const auto tokenizer = copy.load();
        if (!tokenizer) {
            REQUIRE_FALSE(tokenizer.error().message.empty());
            return;
        }
        for (const char* text : {"Hello  world", "ﬁ１２３ e\u0301 \u3000 😀", ""}) {
            const auto ids = (*tokenizer)->encode(text);
            REQUIRE(ids);
            (void)(*tokenizer)->decode(*ids);
        }
    };
    for (std::size_t size = 0; size < model.size(); size += 97) try_model(model.substr(0, size));
    std::mt19937 random(42);
    for (int round = 0; round < 300; ++round) {
        std::string mutated = model;
        for (auto flips = 1 + random() % 3; flips > 0; --flips)
            mutated[random() % mutated.size()] ^= static_cast<char>(1u << random() % 8);
        try_model(mutated);
    }
}

}  // namespace vkformer::tests
