// SPDX-License-Identifier: MIT
// From the nodes of a graph to the ops: operands become spans, shapes become dims. Nothing is computed here.
#include "cpu/execute.hpp"

#include "cpu/activate.hpp"
#include "cpu/add.hpp"
#include "cpu/additive_scores.hpp"
#include "cpu/arg_max.hpp"
#include "cpu/attention.hpp"
#include "cpu/attention_scores.hpp"
#include "cpu/beam_step.hpp"
#include "cpu/bias_sequences.hpp"
#include "cpu/cache_append.hpp"
#include "cpu/cache_reorder.hpp"
#include "cpu/concat.hpp"
#include "cpu/decode_attention.hpp"
#include "cpu/embedding.hpp"
#include "cpu/gated_activation.hpp"
#include "cpu/greedy_step.hpp"
#include "cpu/layer_norm.hpp"
#include "cpu/linear.hpp"
#include "cpu/local_softmax.hpp"
#include "cpu/log_softmax.hpp"
#include "cpu/mask_logits.hpp"
#include "cpu/mask_timestamps.hpp"
#include "cpu/masked_softmax.hpp"
#include "cpu/packed_linear.hpp"
#include "cpu/patchify.hpp"
#include "cpu/penalize.hpp"
#include "cpu/pool.hpp"
#include "cpu/positional_embedding.hpp"
#include "cpu/recurrent_cell.hpp"
#include "cpu/recurrent_layer.hpp"
#include "cpu/relative_bias.hpp"
#include "cpu/rms_norm.hpp"
#include "cpu/rope.hpp"
#include "cpu/route_top_k.hpp"
#include "cpu/sample.hpp"
#include "cpu/soft_cap.hpp"
#include "cpu/split_qkv.hpp"
#include "cpu/top_k.hpp"
#include "cpu/weighted_sum.hpp"

namespace vkformer::cpu {
namespace {

using graph::Value;

template <std::floating_point T>
class Executor {
public:
    Executor(const graph::Graph& graph, std::span<const std::shared_ptr<CpuTensor<T>>> tensors)
        : graph_(graph), tensors_(tensors) {}

    void operator()(const graph::Embedding& op) const {
        if constexpr (std::same_as<T, float>) {
            if (const PackedWeight* table = packed(op.table))
                return packed_embedding(ints(op.tokens), *table, dim(op.table, 0), op.scale, floats(op.y));
        }
        embedding<T>(ints(op.tokens), floats(op.table), width(op.table), static_cast<T>(op.scale), floats(op.y));
    }

    void operator()(const graph::PositionalEmbedding& op) const {
        positional_embedding<T>(floats(op.x), floats(op.table), ints(op.starts), dim(op.x, 1), width(op.x),
                                floats(op.y));
    }

    void operator()(const graph::Patchify& op) const {
        const PatchifyDims dims{.batch = dim(op.pixels, 0),
                                .channels = dim(op.pixels, 1),
                                .height = dim(op.pixels, 2),
                                .width = dim(op.pixels, 3),
                                .patch_height = op.patch_height,
                                .patch_width = op.patch_width,
                                .prefix = op.prefix};
        patchify<T>(floats(op.pixels), dims, floats(op.y));
    }

    void operator()(const graph::Linear& op) const {
        const std::size_t batch = graph_.shape(op.weight).rank() == 3 ? dim(op.weight, 0) : 1;
        if (batch > 1) return linear_batch(op, batch);
        if (!op.is_gated()) return product(op, op.epilogue.activation, floats(op.y));
        const std::size_t half = width(op.y);
        std::vector<T> both(rows(op.x) * 2 * half);
        product(op, graph::Activation::none, std::span(both));
        for_rows(op.y, [&](std::size_t row) {
            gate(std::span<const T>(both).subspan(row * 2 * half, 2 * half), op.epilogue.activation,
                 row_of(floats(op.y), row, half));
        });
    }

    void operator()(const graph::Activate& op) const { activate<T>(floats(op.x), op.activation, floats(op.y)); }

    void operator()(const graph::RelativeBias& op) const {
        relative_bias<T>(floats(op.table), ints(op.starts), dim(op.y, 1), dim(op.y, 2), dim(op.y, 3), floats(op.y));
    }
    void operator()(const graph::SoftCap& op) const { soft_cap<T>(floats(op.x), static_cast<T>(op.cap), floats(op.y)); }

    void operator()(const graph::Add& op) const { add<T>(floats(op.a), floats(op.b), floats(op.y)); }

    void operator()(const graph::Concat& op) const {
        concat<T>(floats(op.a), floats(op.b), width(op.a), width(op.b), floats(op.y));
    }

    void operator()(const graph::LayerNorm& op) const {
        std::vector<T> own_sum;
        const std::span<const T> x = with_residual(op, own_sum);
        for_rows(op.x, [&](std::size_t row) {
            layer_norm<T>(row_of(x, row, width(op.x)), floats(op.gain), floats(op.bias), static_cast<T>(op.eps),
                          row_of(floats(op.y), row, width(op.x)));
        });
    }

    void operator()(const graph::RmsNorm& op) const {
        std::vector<T> own_sum;
        rms_norm_rows(op.x, with_residual(op, own_sum), op.gain, op.gain_offset, op.eps, floats(op.y));
    }

    void operator()(const graph::Rope& op) const {
        const RopeDims dims{.batch = dim(op.x, 0),
                            .len = dim(op.x, 1),
                            .heads = dim(op.x, 2),
                            .head_dim = dim(op.x, 3),
                            .positions = dim(op.table, 0),
                            .rotary_dim = dim(op.table, 1)};
        rope<T>(floats(op.x), floats(op.table), ints(op.starts), op.pairing, dims, floats(op.y));
    }

    void operator()(const graph::GatedActivation& op) const {
        const std::size_t half = width(op.y);
        for_rows(op.y, [&](std::size_t row) {
            const std::span<T> y = row_of(floats(op.y), row, half);
            if (op.up)
                return gated_activation<T>(row_of(floats(op.gate), row, half), row_of(floats(op.up), row, half),
                                           op.activation, y);
            gate(row_of(floats(op.gate), row, 2 * half), op.activation, y);
        });
    }

    void operator()(const graph::AttentionScores& op) const {
        const AttentionDims dims{.batch = dim(op.query, 0),
                                 .query_len = dim(op.query, 1),
                                 .key_len = dim(op.key, 1),
                                 .heads = dim(op.query, 2),
                                 .kv_heads = dim(op.key, 2),
                                 .head_dim = dim(op.query, 3)};
        attention_scores<T>(floats(op.query), floats(op.key), static_cast<T>(op.scale), static_cast<T>(op.soft_cap),
                            dims, floats(op.scores));
    }

    void operator()(const graph::AdditiveScores& op) const {
        const AttentionDims dims{.batch = dim(op.query, 0),
                                 .query_len = dim(op.query, 1),
                                 .key_len = dim(op.key, 1),
                                 .heads = dim(op.query, 2),
                                 .head_dim = dim(op.query, 3)};
        additive_scores<T>(floats(op.query), floats(op.key), floats(op.weight), dims, floats(op.scores));
    }

    void operator()(const graph::LocalSoftmax& op) const {
        const AttentionDims dims{.batch = dim(op.scores, 0),
                                 .query_len = dim(op.scores, 2),
                                 .key_len = dim(op.scores, 3),
                                 .heads = dim(op.scores, 1)};
        local_softmax<T>(floats(op.scores),
                         {.half_width = op.window.half_width,
                          .positions = ints(op.window.positions),
                          .relative = floats(op.window.relative),
                          .key_lengths = ints(op.window.key_lengths)},
                         dims, floats(op.weights));
    }

    void operator()(const graph::MaskedSoftmax& op) const {
        const AttentionDims dims{.batch = dim(op.scores, 0),
                                 .query_len = dim(op.scores, 2),
                                 .key_len = dim(op.scores, 3),
                                 .heads = dim(op.scores, 1)};
        masked_softmax<T>(floats(op.scores), mask(op.mask), dims, floats(op.weights));
    }

    void operator()(const graph::WeightedSum& op) const {
        const AttentionDims dims{.batch = dim(op.weights, 0),
                                 .query_len = dim(op.weights, 2),
                                 .key_len = dim(op.weights, 3),
                                 .heads = dim(op.weights, 1),
                                 .kv_heads = dim(op.value, 2),
                                 .value_dim = dim(op.value, 3)};
        weighted_sum<T>(floats(op.weights), floats(op.value), dims, floats(op.y));
    }

    void operator()(const graph::Attention& op) const { attention<T>(attention_operands(op), floats(op.y)); }

    void operator()(const graph::DecodeAttention& op) const {
        decode_attention<T>(attention_operands(op), graph::splits_in(width(op.partial), width(op.y)),
                            floats(op.partial), floats(op.y));
    }

    void operator()(const graph::RecurrentLayer& op) const {
        const std::size_t directions = directions_of(op.direction);
        recurrent_layer<T>({.gates = floats(op.gates),
                            .weight = floats(op.weight),
                            .bias = floats(op.bias),
                            .initial_hidden = floats(op.initial_hidden),
                            .initial_cell = floats(op.initial_cell),
                            .lengths = ints(op.lengths)},
                           op.unit, op.direction,
                           {.batch = dim(op.gates, 0),
                            .len = dim(op.gates, 1),
                            .directions = directions,
                            .hidden_dim = width(op.hidden) / directions},
                           floats(op.y), floats(op.hidden), floats(op.cell));
    }

    void operator()(const graph::RecurrentCell& op) const {
        recurrent_cell<T>(floats(op.input_gates), floats(op.hidden_gates), op.unit, width(op.hidden), floats(op.hidden),
                          floats(op.cell), floats(op.next_hidden), floats(op.next_cell));
    }

    void operator()(const graph::CacheAppend& op) const {
        const auto append = [&](auto x, auto cache, auto&& store) {
            cache_append(std::span<const typename decltype(x)::value_type>(x), ints(op.starts), dim(op.x, 1),
                         cache_dims(op.cache), cache, store);
        };
        const auto as_it_is = [](auto) {};
        if (graph_.dtype(op.cache) == DType::i32)
            append(ints(op.x), ints(op.cache), as_it_is);
        else if (graph_.dtype(op.cache) == DType::q8_0)
            append(floats(op.x), floats(op.cache), round_to_q8_0<T>);
        else
            append(floats(op.x), floats(op.cache), as_it_is);
    }

    void operator()(const graph::SplitQkv& op) const {
        const SplitQkvDims dims{.batch = dim(op.qkv, 0),
                                .len = dim(op.qkv, 1),
                                .heads = dim(op.query, 2),
                                .kv_heads = dim(op.key_cache, 2),
                                .head_dim = dim(op.qkv, 3),
                                .capacity = dim(op.key_cache, 1),
                                .positions = op.table ? dim(op.table, 0) : 0,
                                .rotary_dim = op.table ? dim(op.table, 1) : 0};
        const std::span<const T> table = op.table ? std::span<const T>(floats(op.table)) : std::span<const T>();
        const SplitQkvNorms<T> norms{.query_gain = floats(op.query_gain),
                                     .key_gain = floats(op.key_gain),
                                     .gain_offset = static_cast<T>(op.norm_gain_offset),
                                     .eps = static_cast<T>(op.norm_eps)};
        split_qkv<T>(floats(op.qkv), table, ints(op.starts), op.pairing, norms, dims,
                     {floats(op.query), floats(op.key_cache), floats(op.value_cache)});
    }

    void operator()(const graph::CacheReorder& op) const {
        const auto reorder = [&](auto cache) {
            cache_reorder(ints(op.parents), ints(op.begins), ints(op.lengths), op.beams, cache_dims(op.cache), cache);
        };
        if (graph_.dtype(op.cache) == DType::i32)
            reorder(ints(op.cache));
        else
            reorder(floats(op.cache));
    }

    void operator()(const graph::Pool& op) const {
        const std::size_t len = dim(op.x, 1), row_width = width(op.x);
        for (std::size_t b = 0; b < dim(op.x, 0); ++b) {
            const auto limit = static_cast<std::int32_t>(len);
            const auto tokens = op.lengths ? static_cast<std::size_t>(std::clamp(ints(op.lengths)[b], 0, limit)) : len;
            pool<T>(floats(op.x).subspan(b * len * row_width, tokens * row_width), op.pooling,
                    row_of(floats(op.y), b, row_width));
        }
    }

    void operator()(const graph::LogSoftmax& op) const {
        for (std::size_t row = 0; row < rows(op.x); ++row)
            log_softmax<T>(row_of(floats(op.x), row, width(op.x)), row_of(floats(op.y), row, width(op.x)));
    }

    void operator()(const graph::ArgMax& op) const {
        for (std::size_t row = 0; row < rows(op.x); ++row)
            ints(op.y)[row] = arg_max<T>(row_of(floats(op.x), row, width(op.x)));
    }

    void operator()(const graph::TopK& op) const {
        const std::size_t k = width(op.values);
        for (std::size_t row = 0; row < rows(op.x); ++row)
            top_k<T>(row_of(floats(op.x), row, width(op.x)), row_of(floats(op.values), row, k),
                     row_of(ints(op.indices), row, k));
    }

    void operator()(const graph::RouteTopK& op) const {
        const RouteRules<T> rules{.is_softmax = op.scores == graph::RouteScores::softmax,
                                  .normalises = op.normalises,
                                  .scale = static_cast<T>(op.scale),
                                  .bias = floats(op.bias)};
        const std::size_t k = width(op.weights);
        for_rows(op.x, [&](std::size_t row) {
            route_top_k<T>(row_of(floats(op.x), row, width(op.x)), rules, row_of(floats(op.weights), row, k),
                           row_of(ints(op.indices), row, k));
        });
    }

    void operator()(const graph::Sample& op) const {
        const SampleRules rules{.temperature = op.temperature, .top_k = op.top_k, .top_p = op.top_p, .min_p = op.min_p};
        for (std::size_t row = 0; row < rows(op.x); ++row)
            ints(op.y)[row] =
                sample<T>(row_of(floats(op.x), row, width(op.x)), rules, row_of(ints(op.random), row, kRandomWords));
    }

    void operator()(const graph::MaskLogits& op) const {
        const ForcedTokens forced{.first = op.forced_first, .last = op.forced_last, .last_start = op.last_start};
        for (std::size_t row = 0; row < rows(op.x); ++row) {
            const std::int32_t start = ints(op.starts)[row];
            std::vector<std::int32_t> banned(ints(op.banned).begin(), ints(op.banned).end());
            const std::int64_t begin = op.begins ? ints(op.begins)[row] : 1;
            if (start < begin - 1 + op.late_steps)
                banned.insert(banned.end(), ints(op.late).begin(), ints(op.late).end());
            if (op.ngram > 0)
                ban_repeats(row_of(ints(op.sequences), row, width(op.sequences)), start, op.ngram, banned);
            if (op.source_ngram > 0)
                ban_source(row_of(ints(op.source), row / (rows(op.x) / dim(op.source, 0)), width(op.source)),
                           row_of(ints(op.sequences), row, width(op.sequences)), start, op.source_ngram, banned);
            mask_logits<T>(row_of(floats(op.x), row, width(op.x)), start, banned, forced,
                           row_of(floats(op.y), row, width(op.x)));
        }
    }

    void operator()(const graph::MaskTimestamps& op) const {
        const TimestampRules rules{.first = op.first, .eos = op.eos, .latest_initial = op.latest_initial};
        for (std::size_t row = 0; row < rows(op.x); ++row)
            mask_timestamps<T>(row_of(floats(op.x), row, width(op.x)),
                               row_of(ints(op.sequences), row, width(op.sequences)), ints(op.starts)[row],
                               ints(op.begins)[row], rules, row_of(floats(op.y), row, width(op.x)));
    }

    void operator()(const graph::CountTokens& op) const {
        const std::size_t tokens = ints(op.tokens).size() / dim(op.tokens, 0);
        for (std::size_t row = 0; row < dim(op.tokens, 0); ++row) {
            const auto length = op.lengths ? std::size_t(std::max(ints(op.lengths)[row], 0)) : tokens;
            count_tokens(row_of(ints(op.tokens), row, tokens).first(std::min(length, tokens)), op.origin,
                         row_of(ints(op.counts), row, width(op.counts)));
        }
    }

    void operator()(const graph::Penalize& op) const {
        const Penalties penalties{.repetition = op.repetition, .presence = op.presence, .frequency = op.frequency};
        for (std::size_t row = 0; row < rows(op.x); ++row)
            penalize<T>(row_of(floats(op.x), row, width(op.x)),
                        op.counts ? row_of(ints(op.counts), row, width(op.x)) : std::span<std::int32_t>(),
                        floats(op.bias), penalties, row_of(floats(op.y), row, width(op.x)));
    }

    void operator()(const graph::BiasSequences& op) const {
        const BiasedPhrases<T> biased{
            .phrases = ints(op.phrases), .tokens = ints(op.tokens), .biases = floats(op.biases)};
        for (std::size_t row = 0; row < rows(op.x); ++row)
            bias_sequences<T>(
                row_of(floats(op.x), row, width(op.x)),
                op.sequences ? row_of(ints(op.sequences), row, width(op.sequences)) : std::span<std::int32_t>(),
                ints(op.starts)[row], biased, row_of(floats(op.y), row, width(op.x)));
    }

    void operator()(const graph::GreedyStep& op) const {
        greedy_step<T>({.next = ints(op.next),
                        .tokens = ints(op.tokens),
                        .starts = ints(op.starts),
                        .finished = ints(op.finished),
                        .history = ints(op.history)},
                       op.eos, op.pad,
                       {.given = ints(op.given), .log_probs = floats(op.log_probs), .scores = floats(op.scores)});
    }

    void operator()(const graph::BeamStep& op) const {
        beam_step<T>({.candidate_scores = floats(op.candidate_scores),
                      .candidate_tokens = ints(op.candidate_tokens),
                      .tokens = ints(op.tokens),
                      .starts = ints(op.starts),
                      .parents = ints(op.parents),
                      .running_scores = floats(op.running_scores),
                      .token_history = ints(op.token_history),
                      .parent_history = ints(op.parent_history),
                      .final_scores = floats(op.final_scores),
                      .final_steps = ints(op.final_steps),
                      .final_rows = ints(op.final_rows),
                      .final_tokens = ints(op.final_tokens),
                      .state = ints(op.state)},
                     {.beams = op.beams,
                      .max_steps = op.max_steps,
                      .eos = op.eos,
                      .length_penalty = op.length_penalty,
                      .early_stopping = op.early_stopping});
    }

private:
    void linear_batch(const graph::Linear& op, std::size_t batch) const {
        const LinearDims dims{.rows = rows(op.y) / batch, .in = width(op.x), .out = width(op.y)};
        const auto of = [](auto values, std::size_t product, std::size_t size) {
            return values.empty() ? values : values.subspan(product * size, size);
        };
        const std::size_t x_size = dims.rows * dims.in, y_size = dims.rows * dims.out;
        const std::span<const T> x = floats(op.x), weight = floats(op.weight), residual = floats(op.epilogue.residual);
        for (std::size_t product = 0; product < batch; ++product)
            linear<T>(of(x, x.size() > x_size ? product : 0, x_size), of(weight, product, dims.out * dims.in),
                      floats(op.epilogue.bias), of(residual, product, y_size), op.epilogue.activation, dims,
                      of(floats(op.y), product, y_size));
    }

    std::size_t dim(Value value, std::size_t axis) const { return graph_.shape(value)[axis]; }
    std::size_t width(Value value) const { return graph_.shape(value).back(); }
    std::size_t rows(Value value) const { return graph_.shape(value).row_count(); }

    /// Empty for an absent operand.
    std::span<T> floats(Value value) const {
        return value ? std::span<T>(tensors_[graph_.storage(value).id]->floats) : std::span<T>();
    }
    /// Null for a weight that is held as numbers.
    const PackedWeight* packed(Value value) const {
        const CpuTensor<T>& tensor = *tensors_[graph_.storage(value).id];
        return tensor.packed ? &*tensor.packed : nullptr;
    }
    std::span<std::int32_t> ints(Value value) const {
        return value ? std::span<std::int32_t>(tensors_[graph_.storage(value).id]->ints) : std::span<std::int32_t>();
    }
    void product(const graph::Linear& op, graph::Activation activation, std::span<T> y) const {
        const LinearDims dims{.rows = rows(op.x), .in = width(op.x), .out = rows(op.weight)};
        std::vector<T> own_x;
        std::span<const T> x = floats(op.x);
        if (const graph::Prologue& norm = op.prologue) {
            own_x.resize(x.size());
            rms_norm_rows(op.x, x, norm.gain, norm.gain_offset, norm.eps, std::span(own_x));
            x = own_x;
        }
        if constexpr (std::same_as<T, float>) {
            if (const PackedWeight* weight = packed(op.weight))
                return packed_linear(x, *weight, floats(op.epilogue.bias), floats(op.epilogue.residual), activation,
                                     dims, y);
        }
        linear<T>(x, floats(op.weight), floats(op.epilogue.bias), floats(op.epilogue.residual), activation, dims, y);
    }

    /// The norms of the rows of `values`, which has the shape of `like`.
    void rms_norm_rows(Value like, std::span<const T> values, Value gain, float gain_offset, float eps,
                       std::span<T> y) const {
        for_rows(like, [&](std::size_t row) {
            rms_norm<T>(row_of(values, row, width(like)), floats(gain), static_cast<T>(gain_offset),
                        static_cast<T>(eps), row_of(y, row, width(like)));
        });
    }

    /// y = f(the first half) · the second
    static void gate(std::span<const T> both, graph::Activation activation, std::span<T> y) {
        gated_activation<T>(both.first(y.size()), both.last(y.size()), activation, y);
    }

    template <class Element>
    static std::span<Element> row_of(std::span<Element> elements, std::size_t row, std::size_t width) {
        return elements.subspan(row * width, width);
    }

    /// Over several threads; eight multiplications stand for an element's share of a root or an exponential.
    void for_rows(Value value, auto&& work) const {
        parallel_for(rows(value), slice_of(rows(value), 8 * width(value)),
                     [&](std::size_t first, std::size_t last, std::size_t) {
                         for (std::size_t row = first; row < last; ++row) work(row);
                     });
    }

    /// What a norm with a residual normalises: x + residual in `sum` or, where nobody else reads the sum, in `own_sum`.
    std::span<const T> with_residual(const auto& op, std::vector<T>& own_sum) const {
        const std::span<const T> x = floats(op.x);
        if (!op.residual) return x;
        if (!op.sum) own_sum.resize(x.size());
        const std::span<T> sum = op.sum ? floats(op.sum) : std::span<T>(own_sum);
        add<T>(x, floats(op.residual), sum);
        return sum;
    }

    Mask<T> mask(const graph::AttentionMask& mask) const {
        Mask<T> result{.causal = mask.causal,
                       .window = mask.window,
                       .key_lengths = ints(mask.key_lengths),
                       .starts = ints(mask.starts),
                       .additive = floats(mask.additive)};
        if (mask.additive) {
            result.additive_batch = dim(mask.additive, 0);
            result.additive_heads = dim(mask.additive, 1);
            result.additive_queries = dim(mask.additive, 2);
        }
        return result;
    }

    AttentionOperands<T> attention_operands(const auto& op) const {
        return {.query = floats(op.query),
                .key = floats(op.key),
                .value = floats(op.value),
                .mask = mask(op.mask),
                .scale = static_cast<T>(op.scale),
                .soft_cap = static_cast<T>(op.soft_cap),
                .dims = {.batch = dim(op.query, 0),
                         .query_len = dim(op.query, 1),
                         .key_len = dim(op.key, 1),
                         .heads = dim(op.query, 2),
                         .kv_heads = dim(op.key, 2),
                         .head_dim = dim(op.query, 3),
                         .value_dim = dim(op.value, 3)}};
    }

    CacheDims cache_dims(Value cache) const {
        const std::size_t positions = dim(cache, 0) * dim(cache, 1);
        const std::size_t width = graph_.shape(cache).element_count() / positions;
        return {.rows = dim(cache, 0), .capacity = dim(cache, 1), .width = width};
    }

    const graph::Graph& graph_;
    std::span<const std::shared_ptr<CpuTensor<T>>> tensors_;
};

}  // namespace

template <std::floating_point T>
void execute(const graph::Graph& graph, const graph::Op& op, std::span<const std::shared_ptr<CpuTensor<T>>> tensors) {
    std::visit(Executor<T>(graph, tensors), op);
}

template void execute<float>(const graph::Graph&, const graph::Op&, std::span<const std::shared_ptr<CpuTensor<float>>>);
template void execute<double>(const graph::Graph&, const graph::Op&,
                              std::span<const std::shared_ptr<CpuTensor<double>>>);

}  // namespace vkformer::cpu
