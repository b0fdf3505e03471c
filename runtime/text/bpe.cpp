// SPDX-License-Identifier: MIT
/// Byte-pair encoding: characters, then the learnt merges, the earliest learnt first. Sennrich et al. 2016.
#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/token_models.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

struct Merge {
    std::uint32_t rank;
    std::int32_t id;  // of the merged token
};
using Merges = std::unordered_map<std::uint64_t, Merge>;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

struct Options {
    std::optional<std::string> unknown;
    std::string prefix;  // of tokens that continue a word
    std::string suffix;  // of tokens that end one
    bool fuse_unknown = false;
    bool byte_fallback = false;
    bool ignore_merges = false;  // a word that is a token stays whole
};

class Bpe final : public TokenModel {
public:
    Bpe(Vocabulary vocabulary, Merges merges, Options options)
        : TokenModel(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
        cuts_before_space_ = !options_.ignore_merges && options_.prefix.empty() && options_.suffix.empty() &&
                             this->vocabulary().id_of(kSpace) && std::ranges::none_of(merges_, [&](const auto& merge) {
                                 const std::string& token = *this->vocabulary().token_of(merge.second.id);
                                 return find_word_end(token) != token.size();
                             });
    }

    std::size_t word_end(std::string_view text) const override {
        return cuts_before_space_ ? find_word_end(text) : text.size();
    }

    Result<void> tokenize(std::string_view text, std::vector<std::int32_t>& ids) const override {
        if (const auto whole = options_.ignore_merges ? vocabulary().id_of(text) : std::nullopt) {
            ids.push_back(*whole);
            return {};
        }
        std::vector<std::int32_t> symbols;
        VKFORMER_CHECK(split_characters(text, symbols));
        if (symbols.size() <= kFewSymbols) {
            merge_few(symbols);
            ids.insert(ids.end(), symbols.begin(), symbols.end());
        } else {
            merge(symbols, ids);
        }
        return {};
    }

private:
    static constexpr std::string_view kSpace = "▁";  // SentencePiece's

    /// Where a space follows another character; SentencePiece's merges never join the two.
    static std::size_t find_word_end(std::string_view text) {
        for (std::size_t at = 1; (at = text.find(kSpace, at)) != text.npos; at += kSpace.size())
            if (!text.substr(0, at).ends_with(kSpace)) return at;
        return text.size();
    }

    static constexpr std::size_t kFewSymbols = 48;  // words; the queue pays only beyond

    /// As merge(), looking at all neighbours for each merge.
    void merge_few(std::vector<std::int32_t>& symbols) const {
        constexpr Merge kNoMerge{std::numeric_limits<std::uint32_t>::max(), 0};
        std::array<Merge, kFewSymbols> merges{};  // of each symbol with the next one
        const auto look_up = [&](std::size_t left) {
            const auto found = merges_.find(pair_key(symbols[left], symbols[left + 1]));
            merges[left] = found == merges_.end() ? kNoMerge : found->second;
        };
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) look_up(i);
        while (symbols.size() > 1) {
            const auto end = merges.begin() + static_cast<std::ptrdiff_t>(symbols.size()) - 1;
            const auto best =
                std::min_element(merges.begin(), end, [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
            if (best->rank == kNoMerge.rank) return;
            const auto left = static_cast<std::size_t>(best - merges.begin());
            symbols[left] = best->id;
            symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(left) + 1);
            std::move(best + 1, end, best);
            if (left > 0) look_up(left - 1);
            if (left + 1 < symbols.size()) look_up(left);
        }
    }

    /// One symbol for each character that has one; for others bytes, the unknown token, or nothing.
    Result<void> split_characters(std::string_view text, std::vector<std::int32_t>& symbols) const {
        std::optional<std::int32_t> pending;  // an unknown token that the next one may join
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = begin + first_character(text.substr(begin)).bytes;
            std::string token(text.substr(begin, end - begin));
            if (begin > 0) token.insert(0, options_.prefix);
            if (end == text.size()) token += options_.suffix;
            begin = end;
            if (const auto id = vocabulary().id_of(token)) {
                if (pending) symbols.push_back(*std::exchange(pending, std::nullopt));
                symbols.push_back(*id);
            } else if (const auto bytes = options_.byte_fallback ? vocabulary().byte_ids(token) : std::nullopt) {
                symbols.insert(symbols.end(), bytes->begin(), bytes->end());  // a pending unknown token stays pending
            } else if (options_.unknown) {
                if (pending && options_.fuse_unknown) continue;
                if (pending) symbols.push_back(*pending);
                pending = vocabulary().id_of(*options_.unknown);
                if (!pending) return no_token(token);
            }
        }
        if (pending) symbols.push_back(*pending);
        return {};
    }

    /// Merges neighbours, the lowest rank first and the leftmost among equals, until no merge is left.
    void merge(const std::vector<std::int32_t>& symbols, std::vector<std::int32_t>& ids) const {
        constexpr std::size_t kNone = static_cast<std::size_t>(-1);
        struct Node {
            std::int32_t id;
            std::size_t previous;
            std::size_t next;
            bool is_gone = false;
        };
        struct Candidate {
            std::uint32_t rank;
            std::size_t left;
            std::int32_t id;
            bool operator>(const Candidate& other) const {
                return std::tie(rank, left) > std::tie(other.rank, other.left);
            }
        };
        std::vector<Node> nodes;
        for (std::size_t i = 0; i < symbols.size(); ++i)
            nodes.push_back({symbols[i], i == 0 ? kNone : i - 1, i + 1 == symbols.size() ? kNone : i + 1});
        std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
        const auto offer = [&](std::size_t left) {
            if (left == kNone || nodes[left].next == kNone) return;
            const auto found = merges_.find(pair_key(nodes[left].id, nodes[nodes[left].next].id));
            if (found != merges_.end()) queue.push({found->second.rank, left, found->second.id});
        };
        for (std::size_t i = 0; i < nodes.size(); ++i) offer(i);

        while (!queue.empty()) {
            const Candidate top = queue.top();
            queue.pop();
            Node& left = nodes[top.left];
            if (left.is_gone || left.next == kNone) continue;
            Node& right = nodes[left.next];
            const auto still = merges_.find(pair_key(left.id, right.id));  // one of the two may have changed since
            if (still == merges_.end() || still->second.id != top.id) continue;
            left.id = top.id;
            left.next = right.next;
            right.is_gone = true;
            if (left.next != kNone) nodes[left.next].previous = top.left;
            offer(left.previous);
            offer(top.left);
        }
        for (std::size_t i = nodes.empty() ? kNone : 0; i != kNone; i = nodes[i].next) ids.push_back(nodes[i].id);
    }

    Merges merges_;
    Options options_;
    bool cuts_before_space_ = false;  // no merge makes a token of the end of a word and the beginning of the next
};

using MergeParts = std::optional<std::pair<std::string, std::string>>;

/// "left right"
MergeParts merge_parts(std::string_view line) {
    const auto space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos) return std::nullopt;
    return std::pair(std::string(line.substr(0, space)), std::string(line.substr(space + 1)));
}

/// A merge is written as "left right" or as ["left", "right"].
MergeParts merge_parts(const nlohmann::json& entry) {
    if (const auto* line = entry.get_ptr<const std::string*>()) return merge_parts(std::string_view(*line));
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_string()) return std::nullopt;
    return std::pair(entry[0].get<std::string>(), entry[1].get<std::string>());
}

/// Version lines are not merges.
bool is_version(const nlohmann::json& entry) {
    return entry.is_string() && entry.get_ref<const std::string&>().starts_with("#version");
}
bool is_version(std::string_view) { return false; }

template <class Entries>
Result<Merges> read_merges(const Field& field, const Entries& entries, const Vocabulary& vocabulary,
                           std::size_t prefix_bytes) {
    Merges merges;
    std::uint32_t rank = 0;
    for (const auto& entry : entries) {
        if (is_version(entry)) continue;
        const auto parts = merge_parts(entry);
        if (!parts) return field.corrupt("the merge " + std::to_string(rank) + " is not a pair of tokens");
        const auto& [left, right] = *parts;
        if (right.size() < prefix_bytes)
            return field.corrupt("in the merge " + std::to_string(rank) + " the second token lacks the prefix");
        const auto left_id = vocabulary.id_of(left), right_id = vocabulary.id_of(right);
        const auto merged_id = vocabulary.id_of(left + right.substr(prefix_bytes));
        if (!left_id || !right_id || !merged_id)
            return field.corrupt("the merge of " + formats::quote(left) + " and " + formats::quote(right) +
                                 " needs a token that the vocabulary lacks");
        merges.insert_or_assign(pair_key(*left_id, *right_id), Merge{rank++, *merged_id});
    }
    return merges;
}

}  // namespace

Result<std::unique_ptr<TokenModel>> read_bpe(const Field& field) {
    VKFORMER_CHECK(
        field.check_members({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                             "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
    if (const auto dropout = field.find("dropout"); dropout && dropout->json() != 0.0)
        return dropout->unsupported("dropout is not supported");
    Options options;
    if (field.has("unk_token")) {
        VKFORMER_TRY(options.unknown, field.text("unk_token"));
    }
    VKFORMER_TRY(options.prefix, field.text("continuing_subword_prefix", ""));
    VKFORMER_TRY(options.suffix, field.text("end_of_word_suffix", ""));
    VKFORMER_TRY(options.fuse_unknown, field.boolean("fuse_unk", false));
    VKFORMER_TRY(options.byte_fallback, field.boolean("byte_fallback", false));
    VKFORMER_TRY(options.ignore_merges, field.boolean("ignore_merges", false));
    VKFORMER_TRY(const Field vocab_field, field.at("vocab"));
    VKFORMER_TRY(Vocabulary vocabulary, Vocabulary::read(vocab_field));
    VKFORMER_TRY(const Field merges_field, field.at("merges"));
    if (!merges_field.json().is_array()) return merges_field.corrupt("expected a list");
    VKFORMER_TRY(Merges merges, read_merges(merges_field, merges_field.json(), vocabulary, options.prefix.size()));
    return std::unique_ptr<TokenModel>(
        std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(options)));
}

Result<std::unique_ptr<TokenModel>> make_bpe(Vocabulary vocabulary, std::span<const std::string_view> merges,
                                             BpeOptions wanted, const Field& place) {
    VKFORMER_TRY(Merges read, read_merges(place, merges, vocabulary, 0));
    Options options;
    options.unknown = std::move(wanted.unknown);
    options.fuse_unknown = true;
    options.byte_fallback = wanted.byte_fallback;
    options.ignore_merges = wanted.ignore_merges;
    return std::unique_ptr<TokenModel>(
        std::make_unique<Bpe>(std::move(vocabulary), std::move(read), std::move(options)));
}

}  // namespace vkformer::text
