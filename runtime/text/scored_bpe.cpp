// SPDX-License-Identifier: MIT
/// SentencePiece's byte-pair encoding: of all neighbours whose joined text is a token, those become one first whose token has
/// the highest score. Kudo and Richardson 2018.
#include <queue>
#include <tuple>
#include <utility>

#include "text/token_models.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

class ScoredBpe final : public TokenModel {
public:
    ScoredBpe(Vocabulary vocabulary, std::vector<float> scores, std::optional<std::int32_t> unknown)
        : TokenModel(std::move(vocabulary)), scores_(std::move(scores)), unknown_(unknown) {}

    Result<void> tokenize(std::string_view text, std::vector<std::int32_t>& ids) const override {
        for (const Symbol& symbol : merged(text))
            if (symbol.begin != symbol.end)
                if (auto appended = append(text.substr(symbol.begin, symbol.end - symbol.begin), ids); !appended)
                    return appended;
        return {};
    }

private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    /// A stretch of the text; empty where it became part of the one before it.
    struct Symbol {
        std::size_t begin, end;
        std::size_t previous, next;
    };
    struct Candidate {
        float score;
        std::size_t left;
        std::size_t end;  // of the joined text: tells whether the neighbours are still those
        std::size_t right;
        bool operator<(const Candidate& other) const {
            return std::tie(score, other.left) < std::tie(other.score, left);
        }
    };

    std::vector<Symbol> merged(std::string_view text) const {
        std::vector<Symbol> symbols;
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = begin + first_character(text.substr(begin)).bytes;
            const std::size_t i = symbols.size();
            symbols.push_back({begin, end, i == 0 ? kNone : i - 1, end == text.size() ? kNone : i + 1});
            begin = end;
        }
        std::priority_queue<Candidate> queue;
        const auto offer = [&](std::size_t left) {
            if (left == kNone || symbols[left].next == kNone) return;
            const std::size_t right = symbols[left].next, end = symbols[right].end;
            const auto id = vocabulary().id_of(text.substr(symbols[left].begin, end - symbols[left].begin));
            if (id) queue.push({scores_[static_cast<std::size_t>(*id)], left, end, right});
        };
        for (std::size_t i = 0; i < symbols.size(); ++i) offer(i);
        while (!queue.empty()) {
            const Candidate top = queue.top();
            queue.pop();
            Symbol& left = symbols[top.left];
            Symbol& right = symbols[top.right];
            if (left.begin == left.end || left.next != top.right || right.end != top.end) continue;
            left.end = right.end;
            left.next = right.next;
            right.begin = right.end;
            if (left.next != kNone) symbols[left.next].previous = top.left;
            offer(left.previous);
            offer(top.left);
        }
        return symbols;
    }

    Result<void> append(std::string_view token, std::vector<std::int32_t>& ids) const {
        if (const auto id = vocabulary().id_of(token)) {
            ids.push_back(*id);
        } else if (const auto bytes = vocabulary().byte_ids(token)) {
            ids.insert(ids.end(), bytes->begin(), bytes->end());
        } else if (unknown_) {
            ids.push_back(*unknown_);
        } else {
            return no_token(token);
        }
        return {};
    }

    std::vector<float> scores_;
    std::optional<std::int32_t> unknown_;
};

}  // namespace

std::unique_ptr<TokenModel> make_scored_bpe(Vocabulary vocabulary, std::vector<float> scores,
                                            std::optional<std::int32_t> unknown) {
    return std::make_unique<ScoredBpe>(std::move(vocabulary), std::move(scores), unknown);
}

}  // namespace vkformer::text
