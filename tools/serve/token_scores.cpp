// SPDX-License-Identifier: MIT
#include "serve/token_scores.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "text/unicode.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

/// JSON has no −∞; OpenAI's number for what is beyond all others.
double finite(float log_prob) { return std::isfinite(log_prob) ? log_prob : -9999.0; }

json bytes_of(std::string_view text) {
    json bytes = json::array();
    for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
    return bytes;
}

std::size_t characters(std::string_view bytes) {
    return static_cast<std::size_t>(std::ranges::count_if(bytes, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

}  // namespace

std::string spell_token(std::string_view bytes) {
    if (text::is_utf8(bytes)) return std::string(bytes);
    std::string spelled;
    for (const char byte : bytes) {
        char hex[8];
        std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
        spelled += hex;
    }
    return spelled;
}

const std::string& TokenSpellings::bytes(std::int32_t token) {
    const auto [found, is_new] = bytes_.try_emplace(token);
    if (is_new) found->second = engine().token_bytes(token);
    return found->second;
}

bool TokenSpellings::is_shown(std::int32_t token) {
    const auto [found, is_new] = shown_.try_emplace(token);
    if (is_new) {
        const auto twice = engine().detokenize(std::array{token, token});
        found->second = twice && !twice->empty();
    }
    return found->second;
}

std::string TokenScores::text_of(std::int32_t token) const {
    std::string bytes = spellings_->bytes(token);
    if (!is_first_ || !bytes.starts_with(' ')) return bytes;
    const auto alone = spellings_->engine().detokenize(std::array{token});  // many decoders drop a text's first space
    if (alone && !alone->starts_with(' ')) bytes.erase(0, 1);
    return bytes;
}

void TokenScores::echo(std::span<const StepLogProbs> piece) {
    for (const StepLogProbs& step : piece) add(step);
}

void TokenScores::echoed(std::string_view text) {
    covered_characters_ = characters(text);
    is_first_ = tells_end_ = true;  // what is generated is a text of its own
}

void TokenScores::add(const StepLogProbs& step, bool is_known) {
    const std::string text = text_of(step.chosen.token);
    const json log_prob = is_known ? json(finite(step.chosen.log_prob)) : json();
    if (is_chat_) {
        json likeliest = json::array();
        for (const auto& [token, other] : step.likeliest) {
            const std::string bytes = text_of(token);
            likeliest.push_back(
                {{"token", spell_token(bytes)}, {"bytes", bytes_of(bytes)}, {"logprob", finite(other)}});
        }
        made_.push_back({{"token", spell_token(text)},
                         {"bytes", bytes_of(text)},
                         {"logprob", log_prob},
                         {"top_logprobs", std::move(likeliest)}});
    } else {
        json likeliest = json::object();
        for (const auto& [token, other] : step.likeliest) likeliest.emplace(spell_token(text_of(token)), finite(other));
        if (!step.likeliest.empty()) likeliest.emplace(spell_token(text), json(log_prob));
        made_["tokens"].push_back(spell_token(text));
        made_["token_logprobs"].push_back(log_prob);
        made_["top_logprobs"].push_back(step.likeliest.empty() ? json() : std::move(likeliest));
        made_["text_offset"].push_back(covered_characters_);
    }
    if (spellings_->is_shown(step.chosen.token)) covered_characters_ += characters(text);
    is_first_ = false;
}

void TokenScores::push(const StepLogProbs& step) {
    if (!stream_) stream_ = spellings_->engine().stream(shows_special_);
    const std::size_t before = spelled_bytes_;
    const bool has_own_bytes = is_constrained_ && (shows_special_ || spellings_->is_shown(step.chosen.token));
    const std::size_t streamed = stream_(step.chosen.token).size();
    spelled_bytes_ += has_own_bytes ? spellings_->bytes(step.chosen.token).size() : streamed;
    // What it shows may begin with what was held back of those before it: a part of a character that it does not go on from.
    const std::string_view bytes = spellings_->bytes(step.chosen.token);
    const bool goes_on = !bytes.empty() && text::is_continuation(bytes.front());
    const std::size_t own = text::with_replacements(bytes.substr(0, bytes.size() - text::incomplete_end(bytes))).size();
    const std::size_t begin = goes_on ? before : std::max(before, spelled_bytes_ - std::min(own, spelled_bytes_));
    waiting_.push_back({step, begin});
}

void TokenScores::add_said(std::size_t kept) {
    for (; waiting_.size() > kept && waiting_.front().begin < said_bytes_; waiting_.pop_front())
        add(waiting_.front().step);
}

void TokenScores::said(std::string_view piece, bool is_last) {
    said_bytes_ += piece.size();
    add_said(is_last && ends() ? 1 : 0);
}

/// An answer in a form ends with it, behind a token of its own.
bool TokenScores::ends() const {
    return !waiting_.empty() && spellings_->engine().is_end(waiting_.back().step.chosen.token);
}

void TokenScores::end(Finish finish) {
    if (finish == Finish::stop_string) {
        add_said(0);
        return waiting_.clear();  // what spells the text that ended it
    }
    if (finish == Finish::end_token && !tells_end_ && ends()) waiting_.pop_back();
    for (; !waiting_.empty(); waiting_.pop_front()) add(waiting_.front().step);
}

json TokenScores::take() { return std::exchange(made_, json()); }

}  // namespace vkformer::serve
