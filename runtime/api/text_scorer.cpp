// SPDX-License-Identifier: MIT
#include "api/text_scorer.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>
#include <utility>

#include "core/try.hpp"
#include "decoding/invalid.hpp"

namespace vkformer::api {

std::vector<ScoreWindow> score_windows(std::size_t tokens, std::size_t head, std::size_t context, std::size_t stride) {
    std::vector<ScoreWindow> windows = {{.begin = 0, .end = std::min(tokens, context)}};
    while (windows.back().end < tokens) {
        // Behind the head there is room for less, so that the first window ends as if it had begun that much later.
        const std::size_t begin = (windows.size() == 1 ? head : windows.back().begin) + stride;
        windows.push_back(
            {.begin = begin, .end = std::min(tokens, begin + context - head), .first = windows.back().end});
    }
    return windows;
}

TextScorer::TextScorer(graph::Backend& backend, const LanguageModel& language,
                       const decoding::DecoderSessionOptions& options, std::shared_ptr<graph::TensorStore> weights)
    : backend_(&backend),
      language_(&language),
      options_({.rows = 16,
                .context = options.context,
                .chunk = options.chunk,
                .dtype = options.dtype,
                .weights = options.weights,
                .cache = options.cache}),
      weights_(std::move(weights)) {}

/// Whose context holds so many tokens.
Result<decoding::ScoreSession*> TextScorer::session(std::size_t longest) {
    constexpr std::uint32_t kLeastContext = 512, kTokensTogether = 8192;
    if (session_ && session_->options().context >= longest) return session_.get();
    session_.reset();  // its caches go before those that come
    decoding::BatchOptions options = options_;
    options.context =
        std::min(std::max(static_cast<std::uint32_t>(std::bit_ceil(longest)), kLeastContext), options_.context);
    const std::uint32_t together = std::max(options.context, std::min(options.rows * options.context, kTokensTogether));
    options.pages = static_cast<std::uint32_t>(graph::page_count(together)) + 1;
    VKFORMER_TRY(session_, decoding::ScoreSession::create(*backend_, *language_->model, options, weights_));
    return session_.get();
}

Result<std::vector<TextScores>> TextScorer::score(std::span<const std::vector<std::int32_t>> texts,
                                                  std::span<const std::int32_t> head, const ScoreOptions& asked,
                                                  const decoding::ScoreSession::Progress& progress) {
    using decoding::invalid;
    const std::size_t context = options_.context;
    if (asked.stride > 0 && head.size() + 1 >= context)
        return invalid("a context of " + std::to_string(context) + " tokens has no room for windows");
    if (asked.stride > 0 && asked.stride + head.size() >= context)
        return invalid("the stride is " + std::to_string(asked.stride) + " tokens, and windows of " +
                       std::to_string(context) + " overlap with 1 to " + std::to_string(context - head.size() - 1));
    VKFORMER_TRY(const std::vector<float> adapters, language_->adapter_scales(asked.adapters));

    struct Part {
        std::size_t text = 0, head = 0;  // tokens that it reads before its own
        ScoreWindow window;
    };
    std::vector<Part> parts;
    std::size_t longest = 1;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::vector<std::int32_t>& text = texts[i];
        if (text.size() > context && asked.stride == 0)
            return decoding::numbered(
                "text", i,
                invalid("it has " + std::to_string(text.size()) + " tokens, the context holds " +
                        std::to_string(context) + ": score it in windows, for which there has to be a stride"));
        const bool has_head =
            text.size() >= head.size() && std::ranges::equal(std::span(text).first(head.size()), head);
        const std::size_t kept = has_head ? head.size() : 0;
        for (const ScoreWindow& window : score_windows(text.size(), kept, context, asked.stride))
            parts.push_back({.text = i, .head = window.begin > 0 ? kept : 0, .window = window});
        longest = std::max(longest, std::min(text.size(), context));
    }
    const auto sequence = [&](std::size_t index) {
        const auto& [text, kept, window] = parts[index];
        decoding::ScoredSequence read = {
            .adapters = adapters, .text = text, .first = kept + window.first - window.begin};
        read.tokens.assign(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(kept));
        const auto own = std::span(texts[text]).subspan(window.begin, window.end - window.begin);
        read.tokens.insert(read.tokens.end(), own.begin(), own.end());
        return read;
    };
    VKFORMER_TRY(decoding::ScoreSession* const made, session(longest));
    VKFORMER_TRY(auto found, made->run(parts.size(), sequence, asked.likeliest, progress));

    std::vector<TextScores> scores;
    for (const auto& text : texts) scores.push_back({.tokens = text, .log_probs = {}});
    for (std::size_t p = 0; p < parts.size(); ++p)
        std::ranges::move(found[p], std::back_inserter(scores[parts[p].text].log_probs));
    return scores;
}

}  // namespace vkformer::api
