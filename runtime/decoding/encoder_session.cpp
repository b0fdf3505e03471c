// SPDX-License-Identifier: MIT
#include "decoding/encoder_session.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "core/stable_order.hpp"
#include "core/try.hpp"
#include "decoding/rounded_len.hpp"

namespace vkformer::decoding {
namespace {

using models::EncoderLayout;

bool has_types(const EncoderText& text) {
    return std::ranges::any_of(text.types, [](std::int32_t type) { return type != 0; });
}

}  // namespace

Result<EmbeddingGraph> embedding_graph(const models::Encoder& encoder, const EncoderHead& head,
                                       const EncoderLayout& layout) {
    EmbeddingGraph g;
    VKFORMER_TRY(g.encoder, encoder.add_encoder(g.graph, layout));
    VKFORMER_TRY(g.result, head(g.graph, g.encoder));
    g.graph.mark_output(g.result);
    return g;
}

EncoderSession::EncoderSession(graph::Backend& backend, const models::Encoder& encoder, EncoderHead head,
                               const EncoderSessionOptions& options, std::shared_ptr<graph::TensorStore> weights)
    : backend_(&backend),
      encoder_(&encoder),
      head_(std::move(head)),
      options_(options),
      programs_(backend, std::move(weights)) {}

Result<void> EncoderSession::check(std::span<const EncoderText> texts) const {
    const models::EncoderConfig& config = encoder_->config();
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const auto invalid = [&](const std::string& what) {
            return Error{ErrorCode::InvalidArgument, "text " + std::to_string(i + 1) + " " + what};
        };
        const EncoderText& text = texts[i];
        if (text.tokens.empty()) return invalid("has no tokens");
        if (text.tokens.size() > config.max_positions)
            return invalid("has " + std::to_string(text.tokens.size()) + " tokens, the model takes at most " +
                           std::to_string(config.max_positions));
        if (!text.types.empty() && text.types.size() != text.tokens.size())
            return invalid("has not as many types as tokens");
        for (const std::int32_t token : text.tokens)
            if (token < 0 || static_cast<std::uint32_t>(token) >= config.vocab_size)
                return invalid("has token " + std::to_string(token) + ", the model knows 0 to " +
                               std::to_string(config.vocab_size - 1) + ": the tokenizer is not this model's");
        if (!has_types(text)) continue;
        for (const std::int32_t type : text.types)
            if (type < 0 || static_cast<std::uint32_t>(type) >= config.types)
                return invalid("has a token of type " + std::to_string(type) + ", the model knows " +
                               std::to_string(config.types) + " types");
    }
    return {};
}

/// Rows that no text needs have one token.
Result<void> EncoderSession::run_batch(const Programs::Prepared& prepared, std::span<const EncoderText> texts,
                                       std::span<const std::size_t> chosen, std::span<const float> adapters,
                                       std::vector<std::vector<float>>& results) {
    const EncoderLayout& layout = prepared.key;
    const std::size_t len = layout.len;
    std::vector<std::int32_t> tokens(layout.batch * len, 0), types(layout.batch * len, 0), lengths(layout.batch, 1);
    for (std::size_t row = 0; row < chosen.size(); ++row) {
        const EncoderText& text = texts[chosen[row]];
        const auto at = static_cast<std::ptrdiff_t>(row * len);
        std::ranges::copy(text.tokens, tokens.begin() + at);
        if (layout.token_types) std::ranges::copy(text.types, types.begin() + at);
        lengths[row] = static_cast<std::int32_t>(text.tokens.size());
    }
    graph::Program& program = *prepared.program;
    const EmbeddingGraph& t = prepared.tensors;
    VKFORMER_CHECK(program.write(t.encoder.tokens, std::span<const std::int32_t>(tokens)));
    VKFORMER_CHECK(program.write(t.encoder.lengths, std::span<const std::int32_t>(lengths)));
    if (layout.token_types) VKFORMER_CHECK(program.write(t.encoder.types, std::span<const std::int32_t>(types)));
    if (layout.adapters) {
        const std::vector<float> scales = encoder_->weights().adapter_numbers(adapters, layout.batch);
        VKFORMER_CHECK(program.write(t.encoder.adapters, std::span<const float>(scales)));
    }
    VKFORMER_CHECK(program.submit());
    VKFORMER_CHECK(program.wait());
    const std::size_t width = program.plan().graph.shape(t.result).back();
    std::vector<float> values(layout.batch * width);
    VKFORMER_CHECK(program.read(t.result, std::span<float>(values)));
    for (std::size_t row = 0; row < chosen.size(); ++row) {
        const auto first = values.begin() + static_cast<std::ptrdiff_t>(row * width);
        results[chosen[row]].assign(first, first + static_cast<std::ptrdiff_t>(width));
    }
    return {};
}

Result<std::vector<std::vector<float>>> EncoderSession::run(std::span<const EncoderText> texts,
                                                            const Progress& progress, std::span<const float> adapters) {
    VKFORMER_CHECK(check(texts));
    if (!adapters.empty()) VKFORMER_CHECK(encoder_->weights().check_adapters(adapters));
    const auto order = stable_order(
        texts.size(), [&](std::size_t a, std::size_t b) { return texts[a].tokens.size() > texts[b].tokens.size(); });

    std::vector<std::vector<float>> results(texts.size());
    for (std::size_t first = 0; first < order.size();) {
        VKFORMER_CHECK(backend_->check_wanted());
        const std::uint32_t len = rounded_len(texts[order[first]].tokens.size(), encoder_->config().max_positions);
        const std::uint32_t most =
            std::clamp(std::min(kTokensPerRun, encoder_->most_tokens(len)) / len, 1u, options_.batch);
        const auto chosen = std::span(order).subspan(first, std::min<std::size_t>(most, order.size() - first));
        const bool typed = std::ranges::any_of(chosen, [&](std::size_t i) { return has_types(texts[i]); });
        const auto rows = static_cast<std::uint32_t>(chosen.size());
        const EncoderLayout layout = {.batch = std::min(std::bit_ceil(rows), most),
                                      .len = len,
                                      .dtype = options_.dtype,
                                      .token_types = typed,
                                      .adapters = !adapters.empty()};
        VKFORMER_TRY(const auto* prepared,
                     programs_.get(layout, [&] { return embedding_graph(*encoder_, head_, layout); }));
        VKFORMER_CHECK(run_batch(*prepared, texts, chosen, adapters, results));
        first += chosen.size();
        if (progress) progress(first, order.size());
    }
    return results;
}

}  // namespace vkformer::decoding
