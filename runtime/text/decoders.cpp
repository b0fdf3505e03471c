// SPDX-License-Identifier: MIT
#include "text/decoders.hpp"

#include <optional>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/byte_level.hpp"
#include "text/pattern.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

void fuse(std::vector<std::string>& tokens) {
    std::string text;
    for (const std::string& token : tokens) text += token;
    tokens.assign(1, std::move(text));
}

/// Characters of the byte alphabet become bytes; a token with any other character stays as it is.
void byte_level(std::vector<std::string>& tokens) {
    std::string bytes;
    for (std::string& token : tokens) bytes += bytes_of_spelling(token).value_or(token);
    tokens.assign(1, with_replacements(bytes));
}

/// Runs of "<0x..>" become text where they are UTF-8, else one U+FFFD each.
void byte_fallback(std::vector<std::string>& tokens) {
    std::vector<std::string> result;
    std::string run;
    const auto flush = [&] {
        if (is_utf8(run)) {
            if (!run.empty()) result.push_back(run);
        } else {
            result.insert(result.end(), run.size(), "\uFFFD");
        }
        run.clear();
    };
    for (std::string& token : tokens) {
        if (const auto byte = byte_of_piece(token)) {
            run += static_cast<char>(*byte);
            continue;
        }
        flush();
        result.push_back(std::move(token));
    }
    flush();
    tokens = std::move(result);
}

Result<Decoder> read_metaspace(const Field& field) {
    VKFORMER_CHECK(
        field.check_members({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"}));
    VKFORMER_TRY(const std::string replacement, field.text("replacement"));
    if (count_characters(replacement) != 1) return field.corrupt("the replacement is not one character");
    VKFORMER_TRY(const std::string scheme, field.text("prepend_scheme", "always"));
    VKFORMER_TRY(const bool add_prefix_space, field.boolean("add_prefix_space", true));
    const bool drops_first = scheme != "never" && add_prefix_space;
    return Decoder([=](std::vector<std::string>& tokens) {
        for (std::size_t i = 0; i < tokens.size(); ++i)
            replace_all(tokens[i], replacement, i == 0 && drops_first ? "" : " ");
    });
}

Result<Decoder> read_strip(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "content", "start", "stop"}));
    VKFORMER_TRY(const std::string content, field.text("content"));
    VKFORMER_TRY(const std::int32_t start, field.id("start"));
    VKFORMER_TRY(const std::int32_t stop, field.id("stop"));
    if (count_characters(content) != 1) return field.corrupt("the content is not one character");
    return Decoder([=](std::vector<std::string>& tokens) {
        for (std::string& token : tokens) {
            std::string_view text = token;
            for (std::int32_t i = 0; i < start && text.starts_with(content); ++i) text.remove_prefix(content.size());
            for (std::int32_t i = 0; i < stop && text.ends_with(content); ++i) text.remove_suffix(content.size());
            token = std::string(text);
        }
    });
}

Result<Decoder> read_replace(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "pattern", "content"}));
    VKFORMER_TRY(const Field pattern_field, field.at("pattern"));
    VKFORMER_TRY(const Pattern pattern, Pattern::read(pattern_field));
    VKFORMER_TRY(const std::string content, field.text("content"));
    return Decoder([=](std::vector<std::string>& tokens) {
        for (std::string& token : tokens) {
            const auto spans = pattern.find_all(token);
            if (!spans) continue;  // out of time on a single token: it stays as it is
            std::string replaced;
            for (const Span& span : *spans)
                replaced += span.is_match ? content : token.substr(span.begin, span.end - span.begin);
            token = std::move(replaced);
        }
    });
}

Result<Decoder> read_word_piece(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "prefix", "cleanup"}));
    VKFORMER_TRY(const std::string prefix, field.text("prefix"));
    VKFORMER_TRY(const bool cleanup, field.boolean("cleanup"));
    return Decoder([=](std::vector<std::string>& tokens) {
        constexpr std::pair<const char*, const char*> kRules[] = {
            {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
            {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            if (i > 0) {
                if (tokens[i].starts_with(prefix)) {
                    tokens[i].erase(0, prefix.size());
                } else {
                    tokens[i].insert(0, " ");
                }
            }
            if (!cleanup) continue;
            for (const auto& [from, to] : kRules) replace_all(tokens[i], from, to);
        }
    });
}

Result<Decoder> read_bpe_decoder(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "suffix"}));
    VKFORMER_TRY(const std::string suffix, field.text("suffix"));
    if (suffix.empty()) return field.unsupported("an empty suffix is not supported");
    return Decoder([=](std::vector<std::string>& tokens) {
        for (std::size_t i = 0; i < tokens.size(); ++i)
            replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
    });
}

Result<Decoder> read_sequence(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "decoders"}));
    VKFORMER_TRY(const auto fields, field.elements("decoders"));
    std::vector<Decoder> decoders;
    for (const Field& element : fields) {
        VKFORMER_TRY(auto decoder, read_decoder(element));
        decoders.push_back(std::move(decoder));
    }
    return Decoder([decoders = std::move(decoders)](std::vector<std::string>& tokens) {
        for (const Decoder& decoder : decoders) decoder(tokens);
    });
}

}  // namespace

Result<Decoder> read_decoder(const Field& field) {
    VKFORMER_TRY(const std::string type, field.text("type"));
    if (type == "Sequence") return read_sequence(field);
    if (type == "Metaspace") return read_metaspace(field);
    if (type == "Strip") return read_strip(field);
    if (type == "Replace") return read_replace(field);
    if (type == "WordPiece") return read_word_piece(field);
    if (type == "BPEDecoder") return read_bpe_decoder(field);
    if (type == "ByteLevel") {
        VKFORMER_CHECK(field.check_members({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
        return Decoder(byte_level);
    }
    if (type == "Fuse" || type == "ByteFallback") {
        VKFORMER_CHECK(field.check_members({"type"}));
        return Decoder(type == "Fuse" ? fuse : byte_fallback);
    }
    return field.unsupported("the decoder " + formats::quote(type) + " is not supported");
}

}  // namespace vkformer::text
