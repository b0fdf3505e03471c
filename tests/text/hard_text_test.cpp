// SPDX-License-Identifier: MIT
/// Thousands of hard lines through tokenizers of the common kinds, against Hugging Face's tokenizers, both ways. The lines
/// are made here as tests/goldens/tokenizers/make_hard.py makes them.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
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

std::uint64_t fnv(std::string_view data, std::uint64_t value = 0xCBF29CE484222325) {
    for (const char byte : data) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
    return value;
}

std::string little_endian(std::uint64_t value, int bytes) {
    std::string result;
    for (int i = 0; i < bytes; ++i) result += static_cast<char>(value >> (8 * i));
    return result;
}

std::string hexadecimal(std::uint64_t value, std::size_t digits) {
    std::string result(digits, '0');
    for (std::size_t i = digits; i-- > 0; value /= 16) result[i] = "0123456789abcdef"[value % 16];
    return result;
}

class TextGenerator {
public:
    explicit TextGenerator(const nlohmann::json& text) : fragments_(text["fragments"].get<std::vector<std::string>>()) {
        for (const auto& span : text["ranges"]) spans_.push_back({span[0], span[1]});
    }

    std::string line() {
        std::string line;
        for (auto count = 1 + below(10); count > 0; --count) {
            line += part();
            if (below(2)) line += ' ';
        }
        if (below(32) == 0) {  // perhaps no longer UTF-8
            const auto at = below(line.size() + 1);
            line.insert(at, 1, static_cast<char>(0x80 + below(128)));
        }
        if (below(64) == 0) line.resize(below(line.size() + 1));
        return line;
    }

private:
    struct Range {
        std::uint64_t low, high;
    };

    /// splitmix64
    std::uint64_t below(std::uint64_t limit) {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return (z ^ (z >> 31)) % limit;
    }
    std::string character(Range span) {
        std::string text;
        append_character(text, static_cast<char32_t>(span.low + below(span.high - span.low + 1)));
        return text;
    }
    Range span() { return spans_[below(spans_.size())]; }
    static std::string repeated(const std::string& text, std::uint64_t count) {
        std::string result;
        for (; count > 0; --count) result += text;
        return result;
    }

    std::string part() {
        const auto kind = below(16);
        if (kind < 6) return fragments_[below(fragments_.size())];
        std::string text;
        if (kind < 10) {
            const Range range = span();
            for (auto count = 1 + below(6); count > 0; --count) text += character(range);
            return text;
        }
        if (kind == 10) {
            const char c = " \n\t\r"[below(4)];
            return std::string(1 + below(12), c);
        }
        if (kind == 11) return std::string(1 + below(40), ' ');
        if (kind == 12) {
            for (auto count = 1 + below(10); count > 0; --count) text += static_cast<char>(0x21 + below(94));
            return text;
        }
        if (kind == 13) {
            std::uint64_t limit = 1;
            for (auto digits = 1 + below(12); digits > 0; --digits) limit *= 10;
            return std::to_string(below(limit));
        }
        if (kind == 14) {
            text = character({0x300, 0x345});
            return repeated(text, 1 + below(3));
        }
        if (below(4)) return std::string(1, static_cast<char>(below(32)));
        text = character(span());
        return repeated(text, 1 + below(40));
    }

    std::uint64_t state_ = 2026;
    std::vector<std::string> fragments_;
    std::vector<Range> spans_;
};

std::vector<std::string> make_lines() {
    const auto text = read_json(goldens_dir() / "hard_text/text.json");
    TextGenerator generator(text);
    std::vector<std::string> lines(text["lines"].get<std::size_t>());
    std::uint64_t hash = fnv("");
    for (std::string& line : lines) hash = fnv(line = generator.line(), hash);
    REQUIRE(hexadecimal(hash, 16) == text["text"].get<std::string>());
    return lines;
}

std::vector<std::string> kinds() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / "hard_text"))
        if (entry.is_directory()) names.push_back(entry.path().filename().string());
    return names;
}

/// What make_hard.py's fingerprint() makes of a line.
std::uint64_t fingerprint(const Tokenizer& tokenizer, const std::string& line) {
    const auto ids = tokenizer.encode(line);
    if (!ids) {
        CHECK(ids.error().code == ErrorCode::InvalidArgument);
        return fnv("not UTF-8");
    }
    std::string bytes;
    for (const std::int32_t id : *ids) bytes += little_endian(static_cast<std::uint32_t>(id), 4);
    const std::uint64_t text = fnv(tokenizer.decode(*ids), fnv(bytes));
    return fnv(tokenizer.decode(*ids, false), fnv(std::string_view("\0", 1), text));
}

}  // namespace

TEST_CASE("hard text: the ids and texts of Hugging Face", "[text][hard]") {
    static const std::vector<std::string> lines = make_lines();
    REQUIRE(lines.size() >= 5000);
    const std::string name = GENERATE(from_range(kinds()));
    CAPTURE(name);
    const auto tokenizer = load_tokenizer(goldens_dir() / "hard_text" / name);
    if (!tokenizer) FAIL(tokenizer.error().message);
    const auto expected = read_json(goldens_dir() / "hard_text" / name / "expected.json");

    for (std::size_t i = 0; i < expected["ids"].size(); ++i) {
        CAPTURE(i, lines[i]);
        const auto ids = (*tokenizer)->encode(lines[i]);
        REQUIRE(static_cast<bool>(ids) == !expected["ids"][i].is_null());
        if (ids) CHECK(*ids == expected["ids"][i].get<std::vector<std::int32_t>>());
    }
    // 12 bits of each line's fingerprint say which one is wrong, the whole of all that none is.
    const std::string marks = expected["marks"];
    std::uint64_t all = fnv("");
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < lines.size() && wrong < 10; ++i) {
        const std::uint64_t mark = fingerprint(**tokenizer, lines[i]);
        all = fnv(little_endian(mark, 8), all);
        if (hexadecimal(mark & 0xFFF, 3) == marks.substr(3 * i, 3)) continue;
        ++wrong;
        const auto ids = (*tokenizer)->encode(lines[i]);
        CAPTURE(i, nlohmann::json(lines[i]).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
        const std::string decoded = ids ? (*tokenizer)->decode(*ids) : ids.error().message;
        CAPTURE(decoded);
        FAIL_CHECK("the line differs");
    }
    CHECK(wrong == 0);
    CHECK(hexadecimal(all, 16) == expected["all"].get<std::string>());
}

TEST_CASE("hard text: 128 KiB of the same costs no more than other text", "[text][hard]") {
    const std::string name = GENERATE(from_range(kinds()));
    CAPTURE(name);
    const auto tokenizer = load_tokenizer(goldens_dir() / "hard_text" / name);
    if (!tokenizer) FAIL(tokenizer.error().message);
    // Marks of several classes are put in order, which takes so many to be seen.
    for (const std::string unit :
         {"a", " ", "\n", " \n", "<", "é", "\u0301", "🙂", "a ", "<s>", "<|", "\u0301\u0316\u0327"}) {
        CAPTURE(unit);
        std::string text;
        while (text.size() < std::size_t{1} << (unit.size() > 4 ? 20 : 17)) text += unit;
        // Were it quadratic, this would take minutes: the time limit of the tests finds it.
        const auto ids = (*tokenizer)->encode(text);
        REQUIRE(ids);
        CHECK((*tokenizer)->decode(*ids).size() <= text.size() + 3 * ids->size());
    }
}

/// scripts/tokenizer_speed.py runs it.
TEST_CASE("speed of encode on a text of one's own", "[.speed]") {
    const char *folder = std::getenv("VKFORMER_SPEED_MODEL"), *path = std::getenv("VKFORMER_SPEED_TEXT");
    REQUIRE(folder);
    REQUIRE(path);
    const auto tokenizer = load_tokenizer(folder);
    if (!tokenizer) FAIL(tokenizer.error().message);
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto start = std::chrono::steady_clock::now();
    const auto ids = (*tokenizer)->encode(text);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (!ids) FAIL(ids.error().message);
    std::string bytes;
    for (const std::int32_t id : *ids) bytes += little_endian(static_cast<std::uint32_t>(id), 4);
    std::cout << "speed " << seconds.count() << ' ' << ids->size() << ' ' << hexadecimal(fnv(bytes), 16) << '\n';
}

}  // namespace vkformer::tests
