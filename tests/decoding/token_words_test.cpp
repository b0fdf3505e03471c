// SPDX-License-Identifier: MIT
/// When tokens were said, and which make a word: the parts that need no model.
#include "decoding/token_words.hpp"

#include <nlohmann/json.hpp>

#include "decoding/token_times.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::tests {
namespace {

TEST_CASE("tokens make the words that they make for Hugging Face", "[decoding][speech][golden]") {
    const auto tokenizer = must(text::load_tokenizer(goldens_dir() / "speech/whisper_texts"));
    for (const auto& entry : read_json(goldens_dir() / "speech/word_texts.json")) {
        CAPTURE(entry.dump());
        const auto tokens = entry["tokens"].get<std::vector<std::int32_t>>();
        const auto words = decoding::words_of(
            tokens, [&](std::span<const std::int32_t> part) { return tokenizer->decode(part); },
            entry["bounds"] == "spaces" ? decoding::WordBounds::spaces : decoding::WordBounds::characters);
        REQUIRE(words.size() == entry["words"].size());
        for (std::size_t i = 0; i < words.size(); ++i) {
            CHECK(words[i].text == entry["words"][i][0].get<std::string>());
            CHECK(words[i].first == entry["words"][i][1].get<std::size_t>());
            CHECK(words[i].last == entry["words"][i][2].get<std::size_t>());
        }
    }
    CHECK(decoding::word_bounds("ja") == decoding::WordBounds::characters);
    CHECK(decoding::word_bounds("yue") == decoding::WordBounds::characters);
    CHECK(decoding::word_bounds("ko") == decoding::WordBounds::spaces);
    CHECK(decoding::word_bounds("") == decoding::WordBounds::spaces);
}

TEST_CASE("bytes that are no character are part of a word", "[decoding][speech]") {
    // Two bytes of a character of three, then a space: by themselves and before it they are broken in different ways.
    const auto decode = [](std::span<const std::int32_t> tokens) {
        const std::string broken = "\xEF\xBF\xBD";
        if (tokens.size() == 3) return broken + " ";
        return tokens.size() == 2 ? broken + broken : broken;
    };
    const std::vector<std::int32_t> tokens = {0, 1, 2};
    std::string joined;
    for (const auto& word : decoding::words_of(tokens, decode, decoding::WordBounds::spaces)) joined += word.text;
    CHECK_FALSE(joined.empty());
    std::size_t next = 0;  // every token is in a word
    for (const auto& word : decoding::words_of(tokens, decode, decoding::WordBounds::characters)) {
        CHECK(word.first == next);
        next = word.last + 1;
    }
    CHECK(next == tokens.size());
}

/// Weights [heads, tokens, positions]: 1 where a head looks, a little elsewhere.
struct Looks {
    std::size_t heads, tokens, positions;
    std::vector<float> values = std::vector<float>(heads * tokens * positions, 0.01f);

    void at(std::size_t head, std::size_t token, std::size_t first, std::size_t last) {
        for (std::size_t p = first; p < last; ++p) values[(head * tokens + token) * positions + p] = 1;
    }
    std::vector<std::uint32_t> begins(std::uint32_t median) const {
        return decoding::token_positions({values, heads, tokens, positions}, median);
    }
};

TEST_CASE("tokens begin where heads begin to look", "[decoding][speech]") {
    Looks looks{1, 3, 12};
    looks.at(0, 0, 0, 5);
    looks.at(0, 1, 5, 7);
    looks.at(0, 2, 7, 12);
    CHECK(looks.begins(1) == std::vector<std::uint32_t>{0, 5, 7});

    Looks pause{1, 2, 12};  // where no head looks nothing is said of the tokens
    pause.at(0, 0, 0, 4);
    pause.at(0, 1, 8, 12);
    const auto begins = pause.begins(1);
    CHECK(begins[0] == 0);
    CHECK(begins[1] >= 4);
    CHECK(begins[1] <= 8);

    Looks glance = looks;  // a look of one position is none behind a median of three
    glance.at(0, 2, 1, 2);
    CHECK(glance.begins(3) == looks.begins(3));

    Looks two{2, 3, 12};  // what both say counts, not what one says
    for (const std::size_t head : {0u, 1u}) {
        two.at(head, 0, 0, 4);
        two.at(head, 1, 4, 9);
        two.at(head, 2, 9, 12);
    }
    CHECK(two.begins(1) == std::vector<std::uint32_t>{0, 4, 9});
}

TEST_CASE("warping takes any size", "[decoding][speech]") {
    // One token, and weights that say nothing: the whole sound is its.
    CHECK(Looks{3, 1, 7}.begins(7) == std::vector<std::uint32_t>{0});
    CHECK(Looks{1, 1, 1}.begins(7) == std::vector<std::uint32_t>{0});
    // More tokens than positions share them.
    const auto shared = Looks{1, 5, 2}.begins(7);
    CHECK(shared.size() == 5);
    CHECK(std::ranges::is_sorted(shared));
    CHECK(shared.front() == 0);
    CHECK(shared.back() <= 1);
    Looks wide{1, 2, 3};  // fewer positions than half a filter: none is smoothed away
    wide.at(0, 0, 0, 1);
    wide.at(0, 1, 1, 3);
    CHECK(wide.begins(7) == std::vector<std::uint32_t>{0, 1});
}

}  // namespace
}  // namespace vkformer::tests
