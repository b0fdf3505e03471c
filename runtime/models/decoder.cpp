// SPDX-License-Identifier: MIT
#include "models/decoder.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "core/try.hpp"
#include "models/decoder_builder.hpp"

namespace vkformer::models {
namespace {

using graph::Graph;
using graph::Value;

}  // namespace

std::uint64_t DecoderConfig::state_bytes() const noexcept {
    const std::uint64_t kept = std::uint64_t{taps} - (taps > 0 ? 1 : 0),
                        matrices = std::uint64_t{delta_rule.key_dim} * delta_rule.values();
    std::uint64_t numbers = 0;
    for (const Layer& layer : layers) {
        if (layer.mixer == Mixer::convolution) numbers += kept * hidden_size;
        if (layer.mixer == Mixer::delta_rule) numbers += kept * delta_rule.width() + matrices;
        if (layer.mixer == Mixer::selective_scan)
            numbers += kept * scan.width() + std::uint64_t{scan.state_dim} * scan.values();
    }
    return numbers * sizeof(float);
}

Result<void> Decoder::check_cache(CacheFormat format) const {
    if (format == CacheFormat::as_computed) return {};
    const auto differs = [this](const DecoderConfig::Layer& layer) {
        const std::uint32_t heads = config_.kv_heads_of(layer), width = config_.head_dim_of(layer);
        return layer.mixer == DecoderConfig::Mixer::attention &&
               (width % block_elements(DType::q8_0) != 0 || !graph::fills_words(DType::q8_0, heads * width));
    };
    const auto other = std::ranges::find_if(config_.layers, differs);
    if (other == config_.layers.end()) return {};
    return Error{
        .code = ErrorCode::InvalidArgument,
        .message =
            "keys and values cannot be cached as q8_0: its blocks have 32 elements of a head and come in pairs, "
            "the model has " +
            std::to_string(config_.kv_heads_of(*other)) + " key heads of " +
            std::to_string(config_.head_dim_of(*other)) +
            "; cache them in the dtype of the activations, f16 for half of f32's memory",
        .hint = Hint::cache_storage};
}

Result<void> Decoder::check_beams() const {
    if (!config_.keeps_states()) return {};
    return Error{.code = ErrorCode::InvalidArgument,
                 .message =
                     "layers of this model keep a state of each sequence, which a beam search would have to "
                     "copy; ask for one beam",
                 .hint = Hint::beams};
}

Result<void> Decoder::check_encoding() const {
    if (!config_.keeps_states()) return {};
    return Error{ErrorCode::UnsupportedConfig,
                 "layers of this model keep a state of each sequence, with which it can continue texts but not give "
                 "vectors or scores of whole ones; take a model whose layers all have attention"};
}

Result<void> Decoder::find_capacity(const Graph& graph, DecoderLayout& layout) const {
    if ((layout.pages > 0) != bool{layout.page_table})
        return Error{ErrorCode::InvalidArgument, "caches in pages need a table of them, and a table caches in pages"};
    if ((layout.window_pages > 0) != bool{layout.window_table} ||
        (layout.window_table &&
         (layout.pages == 0 || graph.shape(layout.window_table) != graph.shape(layout.page_table))))
        return Error{ErrorCode::InvalidArgument, "pages of windows have a table beside the others', of the same shape"};
    if (layout.pages == 0) return {};
    if (layout.cache_rows > 0) return Error{ErrorCode::InvalidArgument, "caches in pages have no rows of their own"};
    const std::uint64_t positions = graph.shape(layout.page_table).back() * graph::kPageLen;
    // The last page may hold more than the model has positions for.
    const std::uint64_t whole = graph::page_count(config_.most_positions()) * graph::kPageLen;
    layout.capacity = static_cast<std::uint32_t>(
        positions == whole ? config_.most_positions() : std::min<std::uint64_t>(positions, Graph::kMaxElements));
    return {};
}

Result<DecoderPass> Decoder::add_pass(Graph& graph, const DecoderLayout& wanted, Value tokens, Value starts,
                                      Logits logits) const {
    DecoderLayout layout = wanted;
    VKFORMER_CHECK(find_capacity(graph, layout));
    if (layout.extended && config_.extended_positions == 0)
        return Error{ErrorCode::InvalidArgument, "the model has no positions for sequences beyond its context of " +
                                                     std::to_string(config_.max_positions) + " tokens"};
    if (layout.extended && config_.extended_ropes.size() != config_.ropes.size())
        return Error{ErrorCode::UnsupportedConfig,
                     "some layers' positions are scaled for sequences beyond the context of " +
                         std::to_string(config_.max_positions) + " tokens, and some are not; take shorter ones"};
    if (layout.capacity == 0 || layout.capacity > config_.most_positions())
        return Error{ErrorCode::InvalidArgument, "a context of " + std::to_string(layout.capacity) +
                                                     " tokens was asked for, the model takes 1 to " +
                                                     std::to_string(config_.most_positions())};
    if (bool{layout.handed} != bool{weights_.handover})
        return Error{ErrorCode::InvalidArgument,
                     "hidden states are handed over to a model that guesses by another one's, and to no other"};
    VKFORMER_CHECK(check_cache(layout.cache));
    if (layout.layers.attention && (layout.pages > 0 || layout.cache != CacheFormat::as_computed))
        return Error{ErrorCode::InvalidArgument,
                     "attention weights are kept with caches as they are computed, neither in pages nor in blocks"};
    if (layout.cache_rows > 0) VKFORMER_CHECK(check_beams());
    if (layout.cache_rows > 0 && layout.rows != 1)
        return Error{ErrorCode::InvalidArgument, "caches of more rows than are computed are for one sequence"};
    Builder build(*this, graph, layout);
    VKFORMER_TRY(const Value embedded, build.embed(tokens, starts));
    VKFORMER_TRY(const Value x, build.layers(embedded, starts));
    return build.finish(x, logits);
}

Result<DecoderPass> Decoder::add_encoding(Graph& graph, const DecoderLayout& wanted, Value tokens, Value lengths,
                                          Value types, Logits logits) const {
    if (wanted.len > config_.max_positions)
        return Error{ErrorCode::InvalidArgument, "the model takes at most " + std::to_string(config_.max_positions) +
                                                     " tokens, not " + std::to_string(wanted.len)};
    // Tables of positions of a few lengths serve texts of all.
    const DecoderLayout layout = {.rows = wanted.rows,
                                  .len = wanted.len,
                                  .capacity = std::min(std::bit_ceil(wanted.len), config_.max_positions),
                                  .dtype = wanted.dtype,
                                  .weights = wanted.weights,
                                  .adapter_scales = wanted.adapter_scales,
                                  .layers = wanted.layers,
                                  .source = wanted.source};
    VKFORMER_CHECK(check_encoding());
    Builder build(*this, graph, layout, lengths);
    VKFORMER_TRY(const Value embedded, build.embed(tokens, {}, types));
    VKFORMER_TRY(const Value x, build.layers(embedded, {}));
    return build.finish(x, logits);
}

Result<void> Decoder::add_source(Graph& graph, const DecoderLayout& layout, Value hidden) const {
    return Builder(*this, graph, layout).keep_source(hidden);
}

Result<std::vector<Value>> Decoder::add_caches(Graph& graph, const DecoderLayout& layout) const {
    VKFORMER_CHECK(check_beams());
    Builder build(*this, graph, layout);
    for (std::size_t layer = 0; layer < config_.layers.size(); ++layer) {
        if (!build.has_cache(layer)) continue;
        VKFORMER_CHECK(build.cache("key", layer));
        if (!config_.latent) VKFORMER_CHECK(build.cache("value", layer));
    }
    return build.caches();
}

}  // namespace vkformer::models
