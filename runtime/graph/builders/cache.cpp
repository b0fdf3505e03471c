// SPDX-License-Identifier: MIT
#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {
namespace {

/// Tokens, i32 of two dimensions, or keys or values, floats of four; a cache of these may be q8_0. `layout` is how both layouts begin.
Result<void> check_cached(const OperandCheck& check, const Graph& graph, std::string_view name, Value value,
                          const std::string& layout) {
    VKFORMER_CHECK(check.present(name, value));
    if (graph.dtype(value) == DType::i32) return check.rank(name, value, layout + "]");
    if (graph.dtype(value) != DType::q8_0) VKFORMER_CHECK(check.floats(name, value));
    return check.rank(name, value, layout + ", heads, dim]");
}

}  // namespace

Result<void> cache_append(Graph& graph, Value x, Value starts, Value cache, Value pages) {
    const OperandCheck check(graph, CacheAppend::kName);
    VKFORMER_CHECK(check_cached(check, graph, "x", x, "[batch, len"));
    if (graph.dtype(x) != DType::i32) VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check_cached(check, graph, "cache", cache, pages ? "[pages, page_len" : "[batch, capacity"));
    if (graph.dtype(cache) != DType::q8_0 || graph.dtype(x) == DType::i32)
        VKFORMER_CHECK(check_like(check, graph, "cache", cache, "x", x));
    const Shape& new_rows = graph.shape(x);
    if (pages) VKFORMER_CHECK(check_pages(check, graph, pages, new_rows[0], "x", "cache", cache));
    const std::uint64_t sequences = pages ? graph.shape(cache)[0] : new_rows[0], capacity = graph.shape(cache)[1];
    if (graph.dtype(x) == DType::i32) {
        VKFORMER_CHECK(check.shape("cache", cache, {sequences, capacity}, "batch of x"));
    } else {
        VKFORMER_CHECK(check.shape("cache", cache, {sequences, capacity, new_rows[2], new_rows[3]},
                                   pages ? "heads and dim of x" : "batch, heads and dim of x"));
    }
    VKFORMER_CHECK(check.state("cache", cache));
    VKFORMER_CHECK(check.distinct({{"x", x}, {"cache", cache}}));
    if (starts) {
        VKFORMER_CHECK(check.dtype("starts", starts, DType::i32));
        VKFORMER_CHECK(check.shape("starts", starts, {new_rows[0]}, "batch of x"));
    }
    graph.add_node(CacheAppend{.x = x, .starts = starts, .pages = pages, .cache = cache});
    return {};
}

Result<Value> split_qkv(Graph& graph, Value qkv, Value table, Value starts, Value key_cache, Value value_cache,
                        RopePairing pairing, const HeadNorms& norms, Value pages) {
    const OperandCheck check(graph, SplitQkv::kName);
    VKFORMER_CHECK(check.floats("qkv", qkv));
    VKFORMER_CHECK(check.rank("qkv", qkv, "[batch, len, heads, dim]"));
    VKFORMER_CHECK(check_like(check, graph, "key_cache", key_cache, "qkv", qkv));
    VKFORMER_CHECK(check_cached(check, graph, "key_cache", key_cache, pages ? "[pages, page_len" : "[batch, capacity"));
    const Shape all = graph.shape(qkv), cache = graph.shape(key_cache);
    if (pages) VKFORMER_CHECK(check_pages(check, graph, pages, all[0], "qkv", "key_cache", key_cache));
    VKFORMER_CHECK(check.shape("key_cache", key_cache, {pages ? cache[0] : all[0], cache[1], cache[2], all[3]},
                               pages ? "dim of qkv" : "batch and dim of qkv"));
    VKFORMER_CHECK(check_like(check, graph, "value_cache", value_cache, "qkv", qkv));
    VKFORMER_CHECK(check.shape("value_cache", value_cache, cache, "as key_cache"));
    VKFORMER_CHECK(check.state("key_cache", key_cache));
    VKFORMER_CHECK(check.state("value_cache", value_cache));
    VKFORMER_CHECK(check.distinct({{"qkv", qkv}, {"key_cache", key_cache}, {"value_cache", value_cache}}));
    if (all[2] <= 2 * cache[2])
        return check.error(ErrorCode::ShapeMismatch, "qkv has shape " + to_string(all) + ", expected more than " +
                                                         std::to_string(2 * cache[2]) +
                                                         " heads (twice those of key_cache)");
    if (table) {
        VKFORMER_CHECK(check_rope_table(check, graph, "qkv", table, all[3]));
    }
    if (norms.query_gain || norms.key_gain || norms.values) {
        for (const auto& [name, gain] : {std::pair{"query_gain", norms.query_gain}, {"key_gain", norms.key_gain}}) {
            VKFORMER_CHECK(check_like(check, graph, name, gain, "qkv", qkv));
            VKFORMER_CHECK(check.shape(name, gain, {all[3]}, "dim of qkv"));
        }
        if (!(norms.eps >= 0))
            return check.error(ErrorCode::InvalidArgument, "eps is " + std::to_string(norms.eps) + ", expected ≥ 0");
    }
    if (starts) {
        VKFORMER_CHECK(check.dtype("starts", starts, DType::i32));
        VKFORMER_CHECK(check.shape("starts", starts, {all[0]}, "batch of qkv"));
    }
    VKFORMER_TRY(const Value query,
                 graph.activation(SplitQkv::kName, graph.dtype(qkv), {all[0], all[1], all[2] - 2 * cache[2], all[3]}));
    graph.add_node(SplitQkv{.qkv = qkv,
                            .query_gain = norms.query_gain,
                            .key_gain = norms.key_gain,
                            .table = table,
                            .starts = starts,
                            .pages = pages,
                            .query = query,
                            .key_cache = key_cache,
                            .value_cache = value_cache,
                            .pairing = pairing,
                            .norm_eps = norms.eps,
                            .norm_gain_offset = norms.gain_offset,
                            .norms_values = norms.values});
    return query;
}

Result<void> cache_reorder(Graph& graph, Value cache, Value parents, Value lengths, std::uint32_t beams, Value begins) {
    const OperandCheck check(graph, CacheReorder::kName);
    VKFORMER_CHECK(check_cached(check, graph, "cache", cache, "[rows, capacity"));
    VKFORMER_CHECK(check.state("cache", cache));
    const std::uint64_t rows = graph.shape(cache)[0];
    VKFORMER_CHECK(check.dtype("parents", parents, DType::i32));
    VKFORMER_CHECK(check.shape("parents", parents, {rows}, "rows of cache"));
    VKFORMER_CHECK(check.dtype("lengths", lengths, DType::i32));
    VKFORMER_CHECK(check.shape("lengths", lengths, {rows}, "rows of cache"));
    if (begins) {
        VKFORMER_CHECK(check.dtype("begins", begins, DType::i32));
        VKFORMER_CHECK(check.shape("begins", begins, {rows}, "rows of cache"));
    }
    VKFORMER_CHECK(check.range("beams", beams, 1, kMaxBeams));
    if (rows % beams != 0)
        return check.error(ErrorCode::ShapeMismatch, "cache has shape " + to_string(graph.shape(cache)) +
                                                         ", expected a multiple of beams, " + std::to_string(beams) +
                                                         ", as its rows");
    graph.add_node(
        CacheReorder{.parents = parents, .begins = begins, .lengths = lengths, .cache = cache, .beams = beams});
    return {};
}

}  // namespace vkformer::graph
