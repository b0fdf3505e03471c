// SPDX-License-Identifier: MIT
// A decoder's attention: to the tokens before, in caches or in whole texts, by latent vectors, and to a source.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/try.hpp"
#include "graph/builders/constant.hpp"
#include "models/decoder_builder.hpp"

namespace vkformer::models {
namespace {

using graph::Value;

constexpr std::uint32_t kSplitKeys = 128;  // keys of a workgroup in a decode step

bool has_wide_norm(const NormWeights& w, std::uint32_t head_dim) {
    return w && w.gain.shape.rank() == 1 && w.gain.shape.element_count() != head_dim;
}

}  // namespace

Result<Value> Decoder::Builder::attention(std::size_t index, Value x, Value starts) {
    VKFORMER_TRY(Value seen, lengths_ ? see_whole_texts(index, x) : see_caches(index, x, starts));
    if (config_.latent) {
        VKFORMER_TRY(seen, multiply_heads("value_up", weights_.layers[index].latent.value_up, seen));
    }
    return graph_.reshape(seen, {layout_.rows, layout_.len, config_.heads * graph_.shape(seen).back()});
}

Result<Value> Decoder::Builder::see_whole_texts(std::size_t index, Value x) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    const DecoderConfig::Layer& layer = config_.layers[index];
    Value query;
    KeysValues& seen = keys_values_[index];
    if (config_.latent) {
        VKFORMER_TRY(query, latent_query(index, x, {}));
        VKFORMER_TRY(seen.keys, latent_key(index, x, {}));
        seen.values = seen.keys;
    } else {
        VKFORMER_TRY(query, query_of(index, x, {}));
        VKFORMER_TRY(seen, layer.shared_cache ? Result<KeysValues>(keys_values_[*layer.shared_cache])
                                              : keys_values_of(index, x, {}));
    }
    graph_.set_scope(name_ + ".attention");
    VKFORMER_TRY(const Value sinks, sinks_of(w));
    const graph::AttentionMask mask = {
        .causal = config_.is_causal, .window = layer.window, .key_lengths = lengths_, .sinks = sinks};
    return see(index, query, seen.keys, seen.values, mask);
}

Result<Value> Decoder::Builder::see(std::size_t index, Value query, Value keys, Value values,
                                    const graph::AttentionMask& mask) {
    const float scale = config_.attention_scale, cap = config_.attention_soft_cap;
    if (!layout_.layers.attention)
        return graph::attention(graph_, query, keys, values, mask, scale, cap, page_table(index));
    VKFORMER_TRY(const auto both, graph::attention_with_weights(graph_, query, keys, values, mask, scale, cap));
    kept_.attention.resize(index);  // those before it without attention
    kept_.attention.push_back(both.weights);
    return both.seen;
}

Result<Value> Decoder::Builder::see_caches(std::size_t index, Value x, Value starts) {
    const DecoderConfig::Layer& layer = config_.layers[index];
    KeysValues& seen = keys_values_[index];
    if (layer.shared_cache) {
        seen = keys_values_[*layer.shared_cache];
    } else {
        VKFORMER_TRY(seen.keys, cache("key", index));
        VKFORMER_TRY(seen.values, config_.latent ? Result<Value>(seen.keys) : cache("value", index));
    }
    const auto [keys, values] = seen;
    VKFORMER_TRY(const Value query, project_attention(index, x, starts, keys, values));

    graph_.set_scope(name_ + ".attention");
    VKFORMER_TRY(const Value sinks, sinks_of(weights_.layers[index]));
    const graph::AttentionMask mask = {.causal = true, .window = layer.window, .starts = starts, .sinks = sinks};
    if (layout_.len > 1 || layout_.layers.attention) return see(index, query, keys, values, mask);
    return graph::decode_attention(graph_, query, keys, values, mask, config_.attention_scale, kSplitKeys,
                                   config_.attention_soft_cap, page_table(index));
}

Result<Value> Decoder::Builder::cache(std::string_view what, std::size_t index) {
    const std::uint64_t rows = std::max(layout_.rows, layout_.cache_rows);
    const DType stored = layout_.cache == CacheFormat::q8_0 ? DType::q8_0 : layout_.dtype;
    const bool in_pages = layout_.pages > 0;
    const std::uint64_t pages = is_windows(index) ? layout_.window_pages : layout_.pages;
    const std::uint64_t heads = kv_heads(index), width = head_dim(index);
    const Shape shape{in_pages ? pages : rows, in_pages ? graph::kPageLen : layout_.capacity, heads, width};
    VKFORMER_TRY(const Value state,
                 graph_.state(config_.scope + std::string(what) + "_cache." + std::to_string(index), stored, shape));
    caches_.push_back(state);
    if (in_pages || rows == layout_.rows) return state;
    // As one row: what is behind the first is beyond any position.
    return graph_.reshape(state, {1, rows * layout_.capacity, heads, width});
}

Result<Value> Decoder::Builder::sinks_of(const DecoderWeights::Layer& w) {
    if (w.sinks.bytes.empty()) return Value{};
    return graph_.weight(name_ + ".attention.sinks", w.sinks, DType::f32);
}

Result<Value> Decoder::Builder::project_attention(std::size_t index, Value x, Value starts, Value keys, Value values) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    const DecoderConfig::Layer& layer = config_.layers[index];
    if (config_.latent) {
        VKFORMER_TRY(const Value key, latent_key(index, x, starts));
        VKFORMER_CHECK(graph::cache_append(graph_, key, starts, keys, page_table(index)));
        return latent_query(index, x, starts);
    }
    if (layer.shared_cache) return query_of(index, x, starts);
    const std::uint32_t width = head_dim(index);
    const bool can_split =
        graph_.dtype(keys) == layout_.dtype && bool{w.query_norm} == bool{w.key_norm} &&
        (!w.query_norm || (config_.norm == DecoderConfig::Norm::rms && !config_.turns_before_norms)) &&
        !has_wide_norm(w.query_norm, width) && !has_wide_norm(w.key_norm, width) &&
        (w.query_norm || !config_.norms_values);
    const Projection& own_value = w.value ? w.value : w.key;
    if (can_split && can_join({&w.query, &w.key, &own_value})) {
        VKFORMER_TRY(const Value joined, project_joined("qkv", {&w.query, &w.key, &own_value}, x));
        const std::uint64_t all_heads = std::uint64_t{config_.heads} + 2 * std::uint64_t{kv_heads(index)};
        VKFORMER_TRY(const Value qkv, graph_.reshape(joined, {layout_.rows, layout_.len, all_heads, width}));
        Value table;
        if (layer.rope) {
            VKFORMER_TRY(table, rope_table(*layer.rope));
        }
        graph::HeadNorms norms{
            .eps = config_.norm_eps, .gain_offset = config_.norm_gain_offset, .values = config_.norms_values};
        if (w.query_norm) {
            VKFORMER_TRY(norms.query_gain, gain("query_norm", w.query_norm));
            VKFORMER_TRY(norms.key_gain, gain("key_norm", w.key_norm));
        }
        graph_.set_scope(name_ + ".qkv");
        return graph::split_qkv(graph_, qkv, table, starts, keys, values,
                                layer.rope ? config_.ropes[*layer.rope].pairing : graph::RopePairing::halves, norms,
                                page_table(index));
    }
    VKFORMER_TRY(const Value query, query_of(index, x, starts));
    VKFORMER_TRY(const KeysValues own, keys_values_of(index, x, starts));
    graph_.set_scope(name_ + ".key");
    VKFORMER_CHECK(graph::cache_append(graph_, own.keys, starts, keys, page_table(index)));
    graph_.set_scope(name_ + ".value");
    VKFORMER_CHECK(graph::cache_append(graph_, own.values, starts, values, page_table(index)));
    return query;
}

Result<Value> Decoder::Builder::query_of(std::size_t index, Value x, Value starts) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    VKFORMER_TRY(const Value rows, project("query", w.query, x));
    return placed_heads("query", index, w.query_norm, config_.heads, rows, starts);
}

Result<Decoder::Builder::KeysValues> Decoder::Builder::keys_values_of(std::size_t index, Value x, Value starts) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    const std::uint32_t count = kv_heads(index), width = head_dim(index);
    KeysValues both;
    VKFORMER_TRY(const Value rows, project("key", w.key, x));
    // Values without a projection of their own are the keys', before their norm.
    VKFORMER_TRY(const Value values, w.value ? project("value", w.value, x) : Result<Value>(rows));
    VKFORMER_TRY(both.values, heads("value", {}, count, width, values));
    if (config_.norms_values) {
        graph_.set_scope(name_ + ".value_norm");
        VKFORMER_TRY(both.values, graph::rms_norm(graph_, both.values, {}, config_.norm_eps));
    }
    VKFORMER_TRY(both.keys, placed_heads("key", index, w.key_norm, count, rows, starts));
    return both;
}

Result<Value> Decoder::Builder::heads(std::string_view what, const NormWeights& norms, std::uint32_t count,
                                      std::uint32_t width, Value y) {
    const std::string name = std::string(what) + "_norm";
    const bool is_wide = has_wide_norm(norms, width);
    if (is_wide) {
        VKFORMER_TRY(y, norm(name, norms, y));
    }
    VKFORMER_TRY(y, graph_.reshape(y, {layout_.rows, layout_.len, count, width}));
    return norms && !is_wide ? norm(name, norms, y) : Result<Value>(y);
}

Result<Value> Decoder::Builder::placed_heads(std::string_view what, std::size_t index, const NormWeights& norms,
                                             std::uint32_t count, Value y, Value starts) {
    const bool turns_first = config_.turns_before_norms;
    VKFORMER_TRY(const Value x, heads(what, turns_first ? NormWeights{} : norms, count, head_dim(index), y));
    VKFORMER_TRY(const Value placed, place(what, config_.layers[index], x, starts));
    return turns_first && norms ? norm(std::string(what) + "_norm", norms, placed) : Result<Value>(placed);
}

Result<Value> Decoder::Builder::place(std::string_view what, const DecoderConfig::Layer& layer, Value x, Value starts) {
    if (!layer.rope) return x;
    VKFORMER_TRY(const Value table, rope_table(*layer.rope));
    graph_.set_scope(name_ + "." + std::string(what));
    return graph::rope(graph_, x, table, starts, config_.ropes[*layer.rope].pairing);
}

Result<Value> Decoder::Builder::rope_table(std::size_t index) {
    if (rope_tables_[index]) return rope_tables_[index];
    const Rope& rope = layout_.extended ? config_.extended_ropes[index] : config_.ropes[index];
    const std::string name = config_.scope + (layout_.extended ? "extended_rope." : "rope.") + std::to_string(index) +
                             ".positions_" + std::to_string(layout_.capacity);
    VKFORMER_TRY(rope_tables_[index],
                 graph_.weight(name, graph::rope_table(layout_.capacity, rope.frequencies, rope.scale), DType::f32));
    return rope_tables_[index];
}

Result<Value> Decoder::Builder::latent_query(std::size_t index, Value x, Value starts) {
    const LatentWeights& w = weights_.layers[index].latent;
    if (w.query_down) {
        VKFORMER_TRY(const Value down, project("query_down", w.query_down, x));
        VKFORMER_TRY(x, norm("query_norm", w.query_norm, down, config_.latent.norm_eps));
    }
    VKFORMER_TRY(const Value rows, project("plain_query", w.plain_query, x));
    VKFORMER_TRY(const Value heads,
                 graph_.reshape(rows, {layout_.rows, layout_.len, config_.heads, config_.latent.plain_dim}));
    VKFORMER_TRY(const Value plain, multiply_heads("key_up", w.key_up, heads));
    VKFORMER_TRY(const Value rotary, rotary_heads("rotary_query", index, w.rotary_query, config_.heads, x, starts));
    graph_.set_scope(name_ + ".query");
    return graph::concat(graph_, plain, rotary);
}

Result<Value> Decoder::Builder::latent_key(std::size_t index, Value x, Value starts) {
    const LatentWeights& w = weights_.layers[index].latent;
    VKFORMER_TRY(const Value rows, project("latent", w.latent, x));
    VKFORMER_TRY(const Value normed, norm("latent_norm", w.latent_norm, rows, config_.latent.norm_eps));
    VKFORMER_TRY(const Value latent, graph_.reshape(normed, {layout_.rows, layout_.len, 1, config_.latent.rank}));
    VKFORMER_TRY(const Value rotary, rotary_heads("rotary_key", index, w.rotary_key, 1, x, starts));
    graph_.set_scope(name_ + ".key");
    return graph::concat(graph_, latent, rotary);
}

Result<Value> Decoder::Builder::rotary_heads(std::string_view what, std::size_t index, const Projection& w,
                                             std::uint32_t count, Value x, Value starts) {
    VKFORMER_TRY(const Value y, project(what, w, x));
    VKFORMER_TRY(const Value heads, graph_.reshape(y, {layout_.rows, layout_.len, count, config_.latent.rotary_dim}));
    return place(what, config_.layers[index], heads, starts);
}

Result<Value> Decoder::Builder::multiply_heads(std::string_view what, const TensorData& weight, Value x) {
    const std::uint64_t tokens = std::uint64_t{layout_.rows} * layout_.len, heads = config_.heads;
    std::vector<std::int32_t> owners(tokens * heads);
    for (std::size_t i = 0; i < owners.size(); ++i) owners[i] = static_cast<std::int32_t>(i % heads);
    VKFORMER_TRY(const Value of_rows, graph::constant(graph_, "heads", {tokens, heads}, std::move(owners)));
    VKFORMER_TRY(const Value rows, graph_.reshape(x, {tokens, heads, graph_.shape(x).back()}));
    VKFORMER_TRY(const Value y, project_each(name_ + "." + std::string(what), {weight}, rows, of_rows, heads));
    return graph_.reshape(y, {layout_.rows, layout_.len, heads, weight.shape[0] / heads});
}

Result<Value> Decoder::Builder::add_seen_of_source(std::size_t index, Value x) {
    const SourceWeights& w = *weights_.layers[index].source;
    VKFORMER_TRY(const Value normed, norm("source_norm", w.norm, x));
    VKFORMER_TRY(const Value query, project("source_query", w.query, normed));
    VKFORMER_TRY(const Value seen, see_source(index, query));
    VKFORMER_TRY(Value y, project("source_output", w.output, seen));
    VKFORMER_TRY(y, norm("source_post_norm", w.post_norm, y));
    graph_.set_scope(name_ + ".source");
    return graph::add(graph_, x, y);
}

Result<Value> Decoder::Builder::see_source(std::size_t index, Value query) {
    const SourceWeights& w = *weights_.layers[index].source;
    const DecoderLayout::Source& source = layout_.source;
    VKFORMER_TRY(const Value keys, source_heads("source_key", index, w.key, source.hidden));
    VKFORMER_TRY(const Value values, source_heads("source_value", index, w.value, source.hidden));
    const std::uint64_t queries = std::uint64_t{layout_.rows} * layout_.len / source.batch;
    VKFORMER_TRY(query, graph_.reshape(query, {source.batch, queries, config_.heads, config_.head_dim}));
    graph_.set_scope(name_ + ".source");
    const graph::AttentionMask mask = {.key_lengths = source.lengths};
    const float scale = config_.attention_scale, cap = config_.attention_soft_cap;
    Value seen;
    if (std::ranges::find(source.kept, index) != source.kept.end()) {
        VKFORMER_TRY(const auto both, graph::attention_with_weights(graph_, query, keys, values, mask, scale, cap));
        source_weights_.push_back(both.weights);
        seen = both.seen;
    } else {
        VKFORMER_TRY(seen, queries == 1
                               ? graph::decode_attention(graph_, query, keys, values, mask, scale, kSplitKeys, cap)
                               : graph::attention(graph_, query, keys, values, mask, scale, cap));
    }
    return graph_.reshape(seen, {layout_.rows, layout_.len, std::uint64_t{config_.heads} * config_.head_dim});
}

Result<Value> Decoder::Builder::source_heads(std::string_view what, std::size_t index, const Projection& w,
                                             Value hidden) {
    const DecoderLayout::Source& source = layout_.source;
    const Shape shape = {source.batch, source.len, config_.kv_heads, config_.head_dim};
    if (!hidden)
        return graph_.state(std::string(what) + "." + std::to_string(index) + ".source_" + std::to_string(source.len),
                            layout_.dtype, shape);
    VKFORMER_TRY(const Value rows, project(what, w, hidden));
    return graph_.reshape(rows, shape);
}

Result<void> Decoder::Builder::keep_source(Value hidden) {
    for (std::size_t index = 0; index < weights_.layers.size(); ++index) {
        name_ = config_.scope + "layers." + std::to_string(index);
        const SourceWeights& w = *weights_.layers[index].source;
        for (const auto& [what, projection] : {std::pair{"source_key", &w.key}, std::pair{"source_value", &w.value}}) {
            VKFORMER_TRY(const Value heads, source_heads(what, index, *projection, hidden));
            VKFORMER_TRY(const Value state, source_heads(what, index, *projection, {}));
            VKFORMER_CHECK(graph::cache_append(graph_, heads, {}, state));
        }
    }
    return {};
}

}  // namespace vkformer::models
