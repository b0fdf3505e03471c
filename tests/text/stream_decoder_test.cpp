// SPDX-License-Identifier: MIT
/// Text that comes token by token: the same as all at once, and never taken back.
#include "text/stream_decoder.hpp"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/temporary_folder.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode.hpp"

namespace vkformer::tests {
namespace {

using namespace text;

struct DecoderFolder : TemporaryFolder {
    /// A tokenizer of these tokens with this decoder.
    std::unique_ptr<Tokenizer> load(const std::vector<std::string>& tokens, const char* decoder,
                                    const char* config = "{}") const {
        nlohmann::json vocab = nlohmann::json::object();
        for (std::size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
        const nlohmann::json tokenizer = {
            {"version", "1.0"},
            {"decoder", nlohmann::json::parse(decoder)},
            {"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "<unk>"}}},
        };
        write("tokenizer.json", tokenizer.dump());
        write("tokenizer_config.json", config);
        auto loaded = load_tokenizer(path());
        if (!loaded) FAIL(loaded.error().message);
        return *std::move(loaded);
    }
};

std::vector<std::string> parts(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                               bool skip_special = true) {
    const auto stream = tokenizer.stream(skip_special);
    std::vector<std::string> parts;
    for (const std::int32_t id : ids) parts.push_back(stream->push(id));
    parts.push_back(stream->finish());
    return parts;
}

}  // namespace

TEST_CASE("streams of tokens give the text of all, and take nothing back", "[text][stream]") {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / "tokenizers"))
        if (entry.is_directory()) names.push_back(entry.path().filename().string());
    const std::string name = GENERATE_COPY(from_range(names));
    const bool skip_special = GENERATE(true, false);
    CAPTURE(name, skip_special);
    const auto tokenizer = load_tokenizer(goldens_dir() / "tokenizers" / name);
    REQUIRE(tokenizer);
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        std::vector<std::int32_t> ids(1 + random() % 24);
        for (auto& id : ids) id = static_cast<std::int32_t>(random() % ((*tokenizer)->vocab_size() + 2));
        CAPTURE(ids);
        const auto stream = (*tokenizer)->stream(skip_special);
        std::string text;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const std::string part = stream->push(ids[i]);
            REQUIRE(is_utf8(part));
            text += part;
            std::vector<std::int32_t> other(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            for (auto more = random() % 4; more > 0; --more)
                other.push_back(static_cast<std::int32_t>(random() % (*tokenizer)->vocab_size()));
            REQUIRE((*tokenizer)->decode(other, skip_special).starts_with(text));
        }
        REQUIRE(text + stream->finish() == (*tokenizer)->decode(ids, skip_special));
    }
}

TEST_CASE("streams hold back what may change, and nothing else", "[text][stream]") {
    using Parts = std::vector<std::string>;
    const DecoderFolder folder;
    SECTION("bytes") {
        const auto t = folder.load({"Hi", "Ġthere", "ðŁ", "ĺ", "Ģ", "!"}, R"({"type": "ByteLevel"})");
        CHECK(parts(*t, {0, 1, 2, 3, 4, 5}) == Parts{"Hi", " there", "", "", "😀", "!", ""});
        CHECK(parts(*t, {2, 5, 2}) == Parts{"", "\uFFFD!", "", "\uFFFD"});
    }
    SECTION("byte fallback, a space in front") {
        const auto t = folder.load({"▁▁Hi", "<0xC3>", "<0xA9>", "▁", "x"}, R"({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
        CHECK(parts(*t, {0, 1, 2, 3, 4}) == Parts{" Hi", "", "", "é ", "x", ""});
        CHECK(parts(*t, {0, 1, 2, 1, 4, 2}) == Parts{" Hi", "", "", "", "\uFFFD\uFFFD\uFFFDx", "", "\uFFFD"});
        CHECK(parts(*t, {3, 3, 4}) == Parts{"", " ", "x", ""});
    }
    SECTION("spaces at the end") {
        const auto t = folder.load({"a", " ", "  b"}, R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 2}]})");
        CHECK(parts(*t, {1, 1, 0, 1, 1, 1, 2, 1, 1, 1}) == Parts{"", "", " a", "", "", " ", "    b", "", "", " ", ""});
    }
    SECTION("words that end") {
        const auto t = folder.load({"a</w>", "b", "c</w>"}, R"({"type": "BPEDecoder", "suffix": "</w>"})");
        CHECK(parts(*t, {0, 1, 2}) == Parts{"", "a ", "b", "c"});
    }
    SECTION("clean-up") {
        const auto t = folder.load({"I", " do", " n't", " '", " x", " ,"}, R"({"type": "Fuse"})",
                                   R"({"clean_up_tokenization_spaces": true})");
        CHECK(parts(*t, {0, 1, 2, 5, 3, 4}) == Parts{"I", " do", "n't", ",", "", "'x", ""});
        CHECK(parts(*t, {0, 3}) == Parts{"I", "", " '"});
    }
    SECTION("repetitions") {
        const auto t = folder.load({"<pad>", "a", "b", "|"}, R"({"type": "CTC", "pad_token": "<pad>",
            "word_delimiter_token": "|", "cleanup": true})");
        CHECK(parts(*t, {1, 1, 0, 1, 3, 3, 2}) == Parts{"a", "", "", "a", " ", "", "b", ""});
    }
    SECTION("a pattern that a part may begin") {
        const auto t = folder.load({"xa", "ab", "b"}, R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
            {"type": "Replace", "pattern": {"String": "aab"}, "content": "-"}]})");
        CHECK(parts(*t, {0, 1, 0, 0, 2}) == Parts{"x", "-", "x", "ax", "ab", ""});
    }
}

TEST_CASE("streams cost the same at the end of a long text", "[text][stream]") {
    const DecoderFolder folder;
    const auto t = folder.load({"a", "▁", "<0xC3>"}, R"({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
    const auto stream = t->stream();
    std::size_t size = 0;
    // Quadratic, this would be half a million times a million bytes.
    for (int i = 0; i < 1'000'000; ++i) size += stream->push(i % 2).size();
    CHECK(size + stream->finish().size() == 1'000'000);
}

TEST_CASE("stop strings", "[text][stream]") {
    const std::vector<std::string> stops = {"</s>", "User:", "\n\n", "", "er: x", "日本"};
    StopStrings matcher(stops);
    CHECK(matcher.push("Hello <").text == "Hello ");
    CHECK(matcher.push("/s").text.empty());
    CHECK(matcher.push("!").text == "</s!");
    CHECK(matcher.push("Us\n").text == "Us");
    const auto output = matcher.push("\nmore");
    CHECK(output.text.empty());
    CHECK(output.stop == 2);
    CHECK(matcher.push("more").text.empty());
    CHECK(matcher.push("more").stop == 2);
    CHECK(matcher.finish().empty());

    StopStrings open(stops);
    CHECK(open.push("a日").text == "a");
    CHECK_FALSE(open.push("\n").stop);
    CHECK(open.finish() == "\n");
    CHECK(StopStrings({}).push("abc").text == "abc");
}

TEST_CASE("stop strings do not depend on how the text is cut", "[text][stream]") {
    std::mt19937 random(11);
    const auto word = [&](std::size_t size) {
        std::string text;
        for (std::size_t i = 0; i < size; ++i) text += "abc"[random() % 3];
        return text;
    };
    int stopped = 0;
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::string> stops;
        for (auto count = random() % 4; count > 0; --count) stops.push_back(word(1 + random() % 5));
        const std::string text = word(20);
        CAPTURE(stops, text);
        // By definition: after every byte, look whether a stop string ends there.
        std::string expected = text;
        std::optional<std::string> expected_stop;
        for (std::size_t end = 1; end <= text.size() && !expected_stop; ++end)
            for (const std::string& stop : stops)
                if (text.substr(0, end).ends_with(stop) && (!expected_stop || stop.size() > expected_stop->size())) {
                    expected_stop = stop;
                    expected = text.substr(0, end - stop.size());
                }
        StopStrings matcher(stops);
        std::string printed;
        std::optional<std::size_t> stop;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t size = 1 + random() % 6;
            const auto output = matcher.push(std::string_view(text).substr(at, size));
            printed += output.text;
            stop = output.stop;
            at += size;
        }
        printed += matcher.finish();
        CHECK(printed == expected);
        REQUIRE(stop.has_value() == expected_stop.has_value());
        if (stop) CHECK(stops[*stop] == *expected_stop);
        stopped += stop.has_value();
    }
    CHECK(stopped > 500);
    CHECK(stopped < 1900);
}

TEST_CASE("encode without special tokens, and with special tokens as text", "[text][stream]") {
    const auto tokenizer = load_tokenizer(goldens_dir() / "tokenizers/bpe-bytes");
    REQUIRE(tokenizer);
    const Tokenizer& t = **tokenizer;
    const auto all = t.encode("Hello </s> x").value();
    const auto eos = t.find("</s>");
    REQUIRE(eos);
    REQUIRE(std::ranges::count(all, *eos) == 2);
    const auto bare = t.encode("Hello </s> x", {.add_special = false}).value();
    CHECK(std::ranges::count(bare, *eos) == std::ranges::count(all, *eos) - 1);
    const auto text = t.encode("Hello </s> x", {.add_special = false, .parse_special = false}).value();
    CHECK(std::ranges::count(text, *eos) == 0);
    CHECK(text.size() > bare.size());
    CHECK_FALSE(t.find("no such token"));
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(t.vocab_size()); ++id) CHECK(t.find(t.piece(id)) == id);

    const auto marian = load_tokenizer(goldens_dir() / "tokenizers/marian");
    REQUIRE(marian);
    const auto marian_eos = (*marian)->find("</s>");
    REQUIRE(marian_eos);
    CHECK((*marian)->encode("Hello").value().back() == *marian_eos);
    CHECK((*marian)->encode("Hello", {.add_special = false}).value().back() != *marian_eos);
    const auto marian_text = (*marian)->encode("a </s>", {.add_special = false, .parse_special = false}).value();
    CHECK(std::ranges::count(marian_text, *marian_eos) == 0);
    CHECK((*marian)->piece((*marian)->find("</s>").value()) == "</s>");
    CHECK_FALSE((*marian)->find("no such token"));
}

}  // namespace vkformer::tests
