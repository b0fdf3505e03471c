// SPDX-License-Identifier: MIT
/// The unigram language model of SentencePiece: the tokens whose log-probabilities have the largest sum.
/// Kudo 2018, "Subword Regularization".
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "text/token_models.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

constexpr double kUnknownPenalty = 10;  // an unknown character scores that much below the least likely token

class Unigram final : public TokenModel {
public:
    Unigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<std::int32_t> unknown, bool byte_fallback)
        : TokenModel(std::move(vocabulary)),
          scores_(std::move(scores)),
          unknown_(unknown),
          byte_fallback_(byte_fallback) {
        for (std::int32_t id = 0; std::cmp_less(id, scores_.size()); ++id) {
            const std::string& token = *this->vocabulary().token_of(id);
            if (!token.empty() && this->vocabulary().id_of(token) == id) sorted_.push_back({token, id});
        }
        std::ranges::sort(sorted_, {}, &Entry::token);
        const double least = scores_.empty() ? 0 : std::ranges::min(scores_);
        unknown_score_ = least - kUnknownPenalty;
    }

    Result<void> tokenize(std::string_view text, std::vector<std::int32_t>& ids) const override {
        std::vector<Step> best(text.size() + 1);  // the best way to each byte offset
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t character = first_character(text.substr(begin)).bytes;
            const double score = best[begin].score;
            bool has_character = false;
            const auto offer = [&](std::size_t end, std::int32_t id, double candidate) {
                if (best[end].is_reached && candidate <= best[end].score) return;
                best[end] = {candidate, begin, id, true};
            };
            for_each_prefix(text.substr(begin), [&](const Entry& entry) {
                has_character |= entry.token.size() == character;
                offer(begin + entry.token.size(), entry.id, score + scores_[static_cast<std::size_t>(entry.id)]);
            });
            if (!has_character) {
                if (!unknown_) return no_token(text.substr(begin, character));
                offer(begin + character, *unknown_, score + unknown_score_);
            }
            begin += character;
        }
        return append(text, best, ids);
    }

private:
    struct Entry {
        std::string_view token;
        std::int32_t id;
    };
    struct Step {
        double score = 0;
        std::size_t begin = 0;
        std::int32_t id = 0;
        bool is_reached = false;
    };

    /// Calls visit for every token that `text` begins with, shorter ones first.
    template <class Visit>
    void for_each_prefix(std::string_view text, Visit visit) const {
        auto first = sorted_.begin(), last = sorted_.end();
        for (std::size_t i = 0; i < text.size() && first != last; ++i) {
            const auto byte_at_i = [i](const Entry& entry) {
                return entry.token.size() > i ? static_cast<unsigned char>(entry.token[i]) : -1;
            };
            const int wanted = static_cast<unsigned char>(text[i]);
            first = std::ranges::lower_bound(first, last, wanted, {}, byte_at_i);
            last = std::ranges::upper_bound(first, last, wanted, {}, byte_at_i);
            if (first != last && first->token.size() == i + 1) visit(*first);
        }
    }

    /// Walks the best path; neighbouring unknown characters count as one.
    Result<void> append(std::string_view text, const std::vector<Step>& best, std::vector<std::int32_t>& ids) const {
        std::vector<std::string_view> tokens;
        bool was_unknown = false;
        for (std::size_t end = text.size(); end > 0; end = best[end].begin) {
            const Step& step = best[end];
            const std::string_view token = text.substr(step.begin, end - step.begin);
            const bool is_unknown = unknown_ && step.id == *unknown_;
            if (is_unknown && was_unknown) {
                tokens.back() = text.substr(step.begin, tokens.back().size() + token.size());
            } else {
                tokens.push_back(token);
            }
            was_unknown = is_unknown;
        }
        for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
            if (const auto id = vocabulary().id_of(*token)) {
                ids.push_back(*id);
            } else if (const auto bytes = byte_fallback_ ? vocabulary().byte_ids(*token) : std::nullopt) {
                ids.insert(ids.end(), bytes->begin(), bytes->end());
            } else if (unknown_) {
                ids.push_back(*unknown_);
            } else {
                return no_token(*token);
            }
        }
        return {};
    }

    std::vector<double> scores_;
    std::vector<Entry> sorted_;
    std::optional<std::int32_t> unknown_;
    double unknown_score_ = 0;
    bool byte_fallback_;
};

}  // namespace

std::unique_ptr<TokenModel> make_unigram(Vocabulary vocabulary, std::vector<double> scores,
                                         std::optional<std::int32_t> unknown, bool byte_fallback) {
    return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), unknown, byte_fallback);
}

}  // namespace vkformer::text
