// SPDX-License-Identifier: MIT
#include "text/decoders.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/byte_level.hpp"
#include "text/pattern.hpp"
#include "text/tokenizer_config.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

/// A stage in front of others.
class Link : public DecoderStage {
public:
    explicit Link(DecoderStages next) : next_(std::move(next)) {}

protected:
    DecoderStage& next() const { return *next_; }
    void give_token(std::string_view token) const {
        next_->text(token);
        next_->end_token();
    }

private:
    DecoderStages next_;
};

class Collector final : public DecoderStage {
public:
    explicit Collector(std::string& text) : text_(&text) {}
    void text(std::string_view part) override { *text_ += part; }
    void end_token() override {}
    void finish() override {}

private:
    std::string* text_;
};

/// All tokens become one.
class Fuse final : public Link {
public:
    using Link::Link;
    void text(std::string_view part) override { next().text(part); }
    void end_token() override {}
    void finish() override {
        next().end_token();
        next().finish();
    }
};

/// The base of stages that look at whole tokens.
class WholeTokens : public Link {
public:
    using Link::Link;
    void text(std::string_view part) final { token_ += part; }
    void end_token() final {
        take(std::move(token_));
        token_.clear();
    }
    void finish() override { next().finish(); }

private:
    virtual void take(std::string token) = 0;

    std::string token_;
};

/// Tokens that are mapped each by itself: `map(token, is_first)`.
template <class Map>
class Mapped final : public WholeTokens {
public:
    Mapped(DecoderStages next, Map map) : WholeTokens(std::move(next)), map_(std::move(map)) {}

private:
    void take(std::string token) override {
        map_(token, std::exchange(is_first_, false));
        give_token(token);
    }

    Map map_;
    bool is_first_ = true;
};

template <class Map>
Decoder mapped(Map map) {
    return [map = std::move(map)](DecoderStages next) -> DecoderStages {
        return std::make_unique<Mapped<Map>>(std::move(next), map);
    };
}

template <class Stage, class... Options>
Decoder stage(Options... options) {
    return [=](DecoderStages next) -> DecoderStages { return std::make_unique<Stage>(std::move(next), options...); };
}

/// The length of the longest end of `text` that `pattern` goes on from.
std::size_t open_end(std::string_view text, std::string_view pattern) {
    for (std::size_t size = std::min(text.size(), pattern.size() - 1); size > 0; --size)
        if (text.ends_with(pattern.substr(0, size))) return size;
    return 0;
}

/// A text, which is not empty, becomes another; the beginning of one at the end of a part waits for the rest.
class LiteralReplace final : public Link {
public:
    LiteralReplace(DecoderStages next, std::string from, std::string to)
        : Link(std::move(next)), from_(std::move(from)), to_(std::move(to)) {}
    void text(std::string_view part) override {
        held_ += part;
        std::string out;
        std::size_t begin = 0;
        for (std::size_t found; (found = held_.find(from_, begin)) != held_.npos; begin = found + from_.size())
            out.append(held_, begin, found - begin).append(to_);
        const std::size_t end = held_.size() - open_end(std::string_view(held_).substr(begin), from_);
        out.append(held_, begin, end - begin);
        held_.erase(0, end);
        if (!out.empty()) next().text(out);
    }
    void end_token() override {
        if (!held_.empty()) next().text(held_);
        held_.clear();
        next().end_token();
    }
    void finish() override { next().finish(); }

private:
    std::string from_, to_, held_;
};

/// Characters of the byte alphabet become bytes; a token with any other character stays as it is. One token comes out.
class ByteLevel final : public WholeTokens {
public:
    using WholeTokens::WholeTokens;
    void finish() override {
        next().text(with_replacements(bytes_));
        next().end_token();
        next().finish();
    }

private:
    void take(std::string token) override {
        bytes_ += bytes_of_spelling(token).value_or(token);
        const std::size_t whole = bytes_.size() - incomplete_end(bytes_);
        next().text(with_replacements(std::string_view(bytes_).substr(0, whole)));
        bytes_.erase(0, whole);
    }

    std::string bytes_;  // the beginning of a character
};

/// Runs of "<0x..>" become text where they are UTF-8, else one U+FFFD each: what it is shows only when the run ends.
class ByteFallback final : public WholeTokens {
public:
    using WholeTokens::WholeTokens;
    void finish() override {
        flush();
        next().finish();
    }

private:
    void take(std::string token) override {
        if (const auto byte = byte_of_piece(token)) {
            run_ += static_cast<char>(*byte);
            return;
        }
        flush();
        give_token(token);
    }
    void flush() {
        if (run_.empty()) return;
        if (is_utf8(run_)) {
            give_token(run_);
        } else {
            for (std::size_t i = 0; i < run_.size(); ++i) give_token("\uFFFD");
        }
        run_.clear();
    }

    std::string run_;
};

/// The replacement character becomes a space, or nothing in the first token.
class Metaspace final : public Link {
public:
    Metaspace(DecoderStages next, std::string replacement, bool drops_first)
        : Link(std::move(next)), replacement_(std::move(replacement)), drops_(drops_first) {}
    void text(std::string_view part) override {
        std::string spaced(part);
        replace_all(spaced, replacement_, drops_ ? "" : " ");
        next().text(spaced);
    }
    void end_token() override {
        drops_ = false;
        next().end_token();
    }
    void finish() override { next().finish(); }

private:
    std::string replacement_;
    bool drops_;
};

/// Takes up to `start` times `content` from the front of each token and up to `stop` times from its end.
class Strip final : public Link {
public:
    Strip(DecoderStages next, std::string content, std::size_t start, std::size_t stop)
        : Link(std::move(next)), content_(std::move(content)), start_(start), stop_(stop), to_drop_(start) {}
    void text(std::string_view part) override {
        for (; to_drop_ > 0 && part.starts_with(content_); --to_drop_) part.remove_prefix(content_.size());
        if (part.empty()) return;
        to_drop_ = 0;
        std::string whole;
        for (; held_ > 0; --held_) whole += content_;
        whole += part;
        std::string_view kept = whole;
        for (; held_ < stop_ && kept.ends_with(content_); ++held_) kept.remove_suffix(content_.size());
        if (!kept.empty()) next().text(kept);
    }
    void end_token() override {
        to_drop_ = start_;
        held_ = 0;
        next().end_token();
    }
    void finish() override { next().finish(); }

private:
    std::string content_;
    std::size_t start_, stop_;
    std::size_t to_drop_;   // at the front of this token
    std::size_t held_ = 0;  // at its end, so far
};

/// The suffix that ends words becomes a space, or nothing in the last token.
class WordEnds final : public WholeTokens {
public:
    WordEnds(DecoderStages next, std::string suffix) : WholeTokens(std::move(next)), suffix_(std::move(suffix)) {}
    void finish() override {
        give(false);
        next().finish();
    }

private:
    void take(std::string token) override {
        give(true);
        last_ = std::move(token);
    }
    void give(bool more_follow) {
        if (!last_) return;
        replace_all(*last_, suffix_, more_follow ? " " : "");
        give_token(*last_);
    }

    std::string suffix_;
    std::optional<std::string> last_;
};

/// What a connectionist model says: repetitions count once, and the padding token only parts them.
class Ctc final : public WholeTokens {
public:
    Ctc(DecoderStages next, std::string pad, std::string delimiter, bool cleanup)
        : WholeTokens(std::move(next)), pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}

private:
    void take(std::string token) override;

    std::string pad_, delimiter_;
    bool cleanup_;
    std::optional<std::string> last_;
};

/// The clean-up that WordPiece and CTC do in each token.
void clean_up_token(std::string& token) {
    constexpr std::pair<const char*, const char*> kRules[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kRules) replace_all(token, from, to);
}

void Ctc::take(std::string token) {
    if (last_ == token) return;
    last_ = token;
    replace_all(token, pad_, "");
    if (cleanup_) {
        clean_up_token(token);
        replace_all(token, delimiter_, " ");
    }
    if (!token.empty()) give_token(token);
}

Result<Decoder> read_metaspace_decoder(const Field& field) {
    VKFORMER_CHECK(
        field.check_members({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"}));
    VKFORMER_TRY(const std::string replacement, field.text("replacement"));
    if (count_characters(replacement) != 1) return field.corrupt("the replacement is not one character");
    VKFORMER_TRY(const std::string scheme, field.text("prepend_scheme", "always"));
    VKFORMER_TRY(const bool add_prefix_space, field.boolean("add_prefix_space", true));
    return stage<Metaspace>(replacement, scheme != "never" && add_prefix_space);
}

Result<Decoder> read_strip_decoder(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "content", "start", "stop"}));
    VKFORMER_TRY(const std::string content, field.text("content"));
    VKFORMER_TRY(const std::int32_t start, field.id("start"));
    VKFORMER_TRY(const std::int32_t stop, field.id("stop"));
    if (count_characters(content) != 1) return field.corrupt("the content is not one character");
    return stage<Strip>(content, static_cast<std::size_t>(start), static_cast<std::size_t>(stop));
}

Result<Decoder> read_replace_decoder(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "pattern", "content"}));
    VKFORMER_TRY(const Field pattern_field, field.at("pattern"));
    VKFORMER_TRY(const Pattern pattern, Pattern::read(pattern_field));
    VKFORMER_TRY(const std::string content, field.text("content"));
    if (!pattern_field.has("Regex")) {
        VKFORMER_TRY(const std::string text, pattern_field.text("String"));
        return stage<LiteralReplace>(text, content);
    }
    return mapped([=](std::string& token, bool) {
        const auto spans = pattern.find_all(token);
        if (!spans) return;  // out of time on a single token: it stays as it is
        std::string replaced;
        for (const Span& span : *spans)
            replaced += span.is_match ? content : token.substr(span.begin, span.end - span.begin);
        token = std::move(replaced);
    });
}

Result<Decoder> read_word_piece_decoder(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "prefix", "cleanup"}));
    VKFORMER_TRY(const std::string prefix, field.text("prefix"));
    VKFORMER_TRY(const bool cleanup, field.boolean("cleanup"));
    return mapped([=](std::string& token, bool is_first) {
        if (!is_first) {
            if (token.starts_with(prefix)) {
                token.erase(0, prefix.size());
            } else {
                token.insert(0, 1, ' ');
            }
        }
        if (cleanup) clean_up_token(token);
    });
}

Result<Decoder> read_bpe_decoder(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "suffix"}));
    VKFORMER_TRY(const std::string suffix, field.text("suffix"));
    if (suffix.empty()) return field.unsupported("an empty suffix is not supported");
    return stage<WordEnds>(suffix);
}

Result<Decoder> read_ctc_decoder(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "pad_token", "word_delimiter_token", "cleanup"}));
    VKFORMER_TRY(const std::string pad, field.text("pad_token"));
    VKFORMER_TRY(const std::string delimiter, field.text("word_delimiter_token"));
    VKFORMER_TRY(const bool cleanup, field.boolean("cleanup"));
    return stage<Ctc>(pad, delimiter, cleanup);
}

Result<Decoder> read_sequence_decoder(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "decoders"}));
    VKFORMER_TRY(const auto fields, field.elements("decoders"));
    std::vector<Decoder> decoders;
    for (const Field& element : fields) {
        VKFORMER_TRY(auto decoder, read_decoder(element));
        decoders.push_back(std::move(decoder));
    }
    return Decoder([decoders = std::move(decoders)](DecoderStages next) {
        for (auto decoder = decoders.rbegin(); decoder != decoders.rend(); ++decoder)
            next = (*decoder)(std::move(next));
        return next;
    });
}

}  // namespace

Result<Decoder> read_decoder(const Field& field) {
    VKFORMER_TRY(const std::string type, field.text("type"));
    if (type == "Sequence") return read_sequence_decoder(field);
    if (type == "Metaspace") return read_metaspace_decoder(field);
    if (type == "Strip") return read_strip_decoder(field);
    if (type == "Replace") return read_replace_decoder(field);
    if (type == "WordPiece") return read_word_piece_decoder(field);
    if (type == "BPEDecoder") return read_bpe_decoder(field);
    if (type == "CTC") return read_ctc_decoder(field);
    if (type == "ByteLevel") {
        VKFORMER_CHECK(field.check_members({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
        return stage<ByteLevel>();
    }
    if (type == "Fuse" || type == "ByteFallback") {
        VKFORMER_CHECK(field.check_members({"type"}));
        return type == "Fuse" ? stage<Fuse>() : stage<ByteFallback>();
    }
    return field.unsupported("the decoder " + formats::quote(type) + " is not supported");
}

Result<ByteSpelling> read_byte_spelling(const Field& field) {
    VKFORMER_TRY(const std::string type, field.text("type"));
    if (type == "ByteLevel") return ByteSpelling::byte_level;
    if (type == "ByteFallback") return ByteSpelling::byte_fallback;
    if (type == "Sequence") {
        VKFORMER_TRY(const auto fields, field.elements("decoders"));
        ByteSpelling spelling = ByteSpelling::none;
        for (const Field& element : fields) {
            VKFORMER_TRY(const ByteSpelling of_element, read_byte_spelling(element));
            if (of_element != ByteSpelling::none) spelling = of_element;
        }
        return spelling;
    }
    const bool is_own = type == "Metaspace" || type == "Fuse" || type == "Replace" || type == "Strip";
    const auto pattern = field.find("pattern");  // an expression may ask for a text's end
    VKFORMER_TRY(const std::int32_t stop, field.id("stop", 0));
    if (is_own && stop == 0 && !(pattern && pattern->has("Regex"))) return ByteSpelling::none;
    return field.unsupported("with the decoder " + formats::quote(type) + " a token's text depends on its neighbours");
}

DecoderStages space_joiner(DecoderStages next) {
    return mapped([](std::string& token, bool is_first) {
        if (!is_first) token.insert(0, 1, ' ');
    })(std::move(next));
}

DecoderStages space_cleaner(DecoderStages next) {
    for (auto rule = kCleanUpRules.rbegin(); rule != kCleanUpRules.rend(); ++rule)
        next = std::make_unique<LiteralReplace>(std::move(next), rule->first, rule->second);
    return std::make_unique<Fuse>(std::move(next));
}

DecoderStages text_collector(std::string& text) { return std::make_unique<Collector>(text); }

}  // namespace vkformer::text
