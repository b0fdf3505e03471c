// SPDX-License-Identifier: MIT
#include "models/recurrent_seq2seq.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/try.hpp"
#include "graph/builders/constant.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using graph::Direction;
using graph::Graph;
using graph::RecurrentUnit;
using graph::Value;

constexpr std::uint32_t kMaxHidden = 1024;        // of graph::lstm_layer
constexpr std::uint64_t kMaxFusedWidth = 256;     // of graph::attention
constexpr std::uint32_t kMaxAttentionDim = 4096;  // of graph::additive_scores

// ---- config ---------------------------------------------------------------------------------------------------------

template <class T, std::size_t N>
using Names = std::array<std::pair<std::string_view, T>, N>;

constexpr Names<RecurrentUnit, 2> kCells = {{{"lstm", RecurrentUnit::lstm}, {"gru", RecurrentUnit::gru}}};
constexpr Names<Direction, 3> kDirections = {
    {{"forward", Direction::forward}, {"backward", Direction::backward}, {"bidirectional", Direction::both}}};
constexpr Names<Bridge, 2> kBridges = {{{"copy", Bridge::copy}, {"tanh", Bridge::tanh}}};
constexpr Names<AttentionScore, 4> kScores = {{{"none", AttentionScore::none},
                                               {"dot", AttentionScore::dot},
                                               {"general", AttentionScore::general},
                                               {"additive", AttentionScore::additive}}};
constexpr Names<AttentionQuery, 2> kQueries = {
    {{"previous", AttentionQuery::previous}, {"current", AttentionQuery::current}}};
constexpr Names<AttentionWindow, 3> kWindows = {{{"global", AttentionWindow::global},
                                                 {"monotonic", AttentionWindow::monotonic},
                                                 {"predictive", AttentionWindow::predictive}}};

/// The value of a field that holds one of the names.
template <class T, std::size_t N>
Result<T> choice(const Config& config, std::string_view field, const Names<T, N>& names,
                 std::optional<std::string> fallback = {}) {
    VKFORMER_TRY(const std::string found, config.string(field, std::move(fallback)));
    std::string supported;
    for (const auto& [name, value] : names) {
        if (name == found) return value;
        supported += (supported.empty() ? "" : ", ") + std::string(name);
    }
    return config.unsupported(field, supported);
}

constexpr std::array<std::string_view, 21> kKnownFields = {
    "model_type", "vocab_size", "decoder_vocab_size", "embedding_dim", "cell", "encoder_hidden_dim", "encoder_layers",
    "encoder_direction", "decoder_layers", "decoder_hidden_dim", "bridge", "attention", "attention_query",
    "attention_dim", "attention_window", "attention_half_width", "input_feeding", "max_length",
    // what tools write beside it and what changes no arithmetic
    "architectures", "dtype", "torch_dtype"};

Result<void> check_combination(const RecurrentSeq2SeqConfig& c, const Config& config) {
    if (c.bridge == Bridge::copy && (c.encoder_direction == Direction::both || c.encoder_layers != c.decoder_layers ||
                                     c.encoder_hidden_dim != c.decoder_hidden_dim))
        return config.unsupported("bridge",
                                  "tanh, where encoder and decoder do not have equal layers of one direction");
    if (c.attention == AttentionScore::dot && c.encoder_width() != c.decoder_hidden_dim)
        return config.unsupported("attention", "dot only where encoder outputs (" + std::to_string(c.encoder_width()) +
                                                   " wide) are as wide as decoder_hidden_dim");
    if (c.input_feeding && (c.attention == AttentionScore::none || c.attention_query == AttentionQuery::previous))
        return config.unsupported("input_feeding", "false without attention or with \"attention_query\": \"previous\"");
    return {};
}

// ---- weights --------------------------------------------------------------------------------------------------------

/// "encoder.rnn.weight_ih_l0_reverse": PyTorch's name.
std::string rnn_name(std::string_view stack, std::string_view what, std::uint32_t layer, bool reverse) {
    return std::string(stack) + ".rnn." + std::string(what) + "_l" + std::to_string(layer) +
           (reverse ? "_reverse" : "");
}

/// The names of an encoder layer's tensors, one for each direction. An encoder of one direction, forward or backward, has
/// the names of nn.LSTM's forward one.
std::vector<std::string> direction_names(std::string_view what, std::uint32_t layer, Direction direction) {
    std::vector<std::string> names{rnn_name("encoder", what, layer, false)};
    if (direction == Direction::both) names.push_back(rnn_name("encoder", what, layer, true));
    return names;
}

}  // namespace

Result<RecurrentSeq2SeqConfig> parse_recurrent_seq2seq_config(const Config& config) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    if (type != "recurrent_seq2seq") return config.unsupported("model_type", "recurrent_seq2seq");
    for (const std::string& name : config.unknown_names(kKnownFields))
        return Error{ErrorCode::UnsupportedConfig,
                     config.file_name() + ": \"" + name + "\" is no field of a recurrent_seq2seq model"};

    const formats::Expect<std::uint32_t> vocab = {.min = 1, .max = 1u << 24}, layers = {.min = 1, .max = 64},
                                         width = {.min = 1, .max = kMaxHidden};
    RecurrentSeq2SeqConfig c;
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", vocab));
    VKFORMER_TRY(c.decoder_vocab_size,
                 config.unsigned_integer("decoder_vocab_size", {.fallback = c.vocab_size, .min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.embedding_dim, config.unsigned_integer("embedding_dim", {.min = 1, .max = 1u << 16}));
    VKFORMER_TRY(c.cell, choice(config, "cell", kCells));
    VKFORMER_TRY(c.encoder_hidden_dim, config.unsigned_integer("encoder_hidden_dim", width));
    VKFORMER_TRY(c.encoder_layers, config.unsigned_integer("encoder_layers", layers));
    VKFORMER_TRY(c.encoder_direction, choice(config, "encoder_direction", kDirections));
    VKFORMER_TRY(c.decoder_hidden_dim, config.unsigned_integer("decoder_hidden_dim", width));
    VKFORMER_TRY(c.decoder_layers, config.unsigned_integer("decoder_layers", layers));
    VKFORMER_TRY(c.bridge, choice(config, "bridge", kBridges));
    VKFORMER_TRY(c.attention, choice(config, "attention", kScores));
    VKFORMER_TRY(c.max_length, config.unsigned_integer("max_length", {.min = 1, .max = 1u << 20}));
    VKFORMER_TRY(c.input_feeding, config.boolean("input_feeding", false));
    if (c.attention != AttentionScore::none) {
        VKFORMER_TRY(c.attention_query, choice(config, "attention_query", kQueries));
        VKFORMER_TRY(c.attention_window, choice(config, "attention_window", kWindows, "global"));
    }
    if (c.attention == AttentionScore::additive) {
        VKFORMER_TRY(c.attention_dim, config.unsigned_integer("attention_dim", {.min = 1, .max = kMaxAttentionDim}));
    }
    if (c.attention_window != AttentionWindow::global) {
        VKFORMER_TRY(c.attention_half_width,
                     config.unsigned_integer("attention_half_width", {.min = 1, .max = 1u << 20}));
    }
    VKFORMER_CHECK(check_combination(c, config));
    return c;
}

// ---- loading --------------------------------------------------------------------------------------------------------

Result<RecurrentSeq2Seq> load_recurrent_seq2seq(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const RecurrentSeq2SeqConfig parsed, parse_recurrent_seq2seq_config(config));
    return RecurrentSeq2Seq::create(parsed, weights);
}

Result<RecurrentSeq2Seq> RecurrentSeq2Seq::create(const RecurrentSeq2SeqConfig& config, formats::Weights weights) {
    RecurrentSeq2Seq model(config, std::move(weights));
    VKFORMER_CHECK(model.check_weights());
    for (std::uint32_t layer = 0; layer < config.encoder_layers; ++layer) {
        VKFORMER_TRY(EncoderLayer packed, model.pack_encoder_layer(layer));
        model.encoder_.push_back(std::move(packed));
    }
    return model;
}

Result<void> RecurrentSeq2Seq::require(const std::string& name, Shape shape) const {
    VKFORMER_CHECK(WeightReader(weights_, "").tensor(name, shape));
    return {};
}

/// One layer and direction of nn.LSTM or nn.GRU; `suffix` is "_l0" or "_l0_reverse", say.
Result<void> RecurrentSeq2Seq::require_rnn(const std::string& stack, const std::string& suffix, std::uint64_t input,
                                           std::uint64_t hidden) const {
    const std::uint64_t rows = graph::gates_of(config_.cell) * hidden;
    VKFORMER_CHECK(require(stack + ".rnn.weight_ih" + suffix, {rows, input}));
    VKFORMER_CHECK(require(stack + ".rnn.weight_hh" + suffix, {rows, hidden}));
    VKFORMER_CHECK(require(stack + ".rnn.bias_ih" + suffix, {rows}));
    return require(stack + ".rnn.bias_hh" + suffix, {rows});
}

Result<void> RecurrentSeq2Seq::check_weights() const {
    const RecurrentSeq2SeqConfig& c = config_;
    const std::uint64_t key_width = c.encoder_width(), hidden = c.decoder_hidden_dim;
    VKFORMER_CHECK(require("encoder.embedding.weight", {c.vocab_size, c.embedding_dim}));
    VKFORMER_CHECK(require("decoder.embedding.weight", {c.decoder_vocab_size, c.embedding_dim}));
    for (std::uint32_t layer = 0; layer < c.encoder_layers; ++layer) {
        const std::uint64_t input = layer == 0 ? c.embedding_dim : key_width;
        const std::string suffix = "_l" + std::to_string(layer);
        VKFORMER_CHECK(require_rnn("encoder", suffix, input, c.encoder_hidden_dim));
        if (c.encoder_direction == Direction::both)
            VKFORMER_CHECK(require_rnn("encoder", suffix + "_reverse", input, c.encoder_hidden_dim));
    }
    const bool fed_context = c.attention != AttentionScore::none && c.attention_query == AttentionQuery::previous;
    const std::uint64_t fed = fed_context ? key_width : c.input_feeding ? hidden : 0;
    for (std::uint32_t layer = 0; layer < c.decoder_layers; ++layer)
        VKFORMER_CHECK(
            require_rnn("decoder", "_l" + std::to_string(layer), layer == 0 ? c.embedding_dim + fed : hidden, hidden));
    for (std::uint32_t layer = 0; c.bridge == Bridge::tanh && layer < c.decoder_layers; ++layer) {
        for (const std::string state : {"hidden", "cell"}) {
            if (state == "cell" && c.cell != RecurrentUnit::lstm) continue;
            const std::string name = "bridge." + state + "." + std::to_string(layer);
            VKFORMER_CHECK(require(name + ".weight", {hidden, key_width}));
            VKFORMER_CHECK(require(name + ".bias", {hidden}));
        }
    }
    if (c.attention == AttentionScore::general) VKFORMER_CHECK(require("attention.query.weight", {key_width, hidden}));
    if (c.attention == AttentionScore::additive) {
        VKFORMER_CHECK(require("attention.query.weight", {c.attention_dim, hidden}));
        VKFORMER_CHECK(require("attention.key.weight", {c.attention_dim, key_width}));
        VKFORMER_CHECK(require("attention.key.bias", {c.attention_dim}));
        VKFORMER_CHECK(require("attention.score.weight", {1, c.attention_dim}));
    }
    if (c.attention_window == AttentionWindow::predictive) {
        VKFORMER_CHECK(require("attention.position_hidden.weight", {hidden, hidden}));
        VKFORMER_CHECK(require("attention.position_score.weight", {1, hidden}));
    }
    if (c.attention != AttentionScore::none)
        VKFORMER_CHECK(require("attention.output.weight", {hidden, key_width + hidden}));
    VKFORMER_CHECK(require("output.weight", {c.decoder_vocab_size, hidden}));
    return require("output.bias", {c.decoder_vocab_size});
}

Result<RecurrentSeq2Seq::EncoderLayer> RecurrentSeq2Seq::pack_encoder_layer(std::uint32_t layer) const {
    const std::uint64_t hidden = config_.encoder_hidden_dim, rows = graph::gates_of(config_.cell) * hidden;
    const std::uint64_t directions = graph::directions_of(config_.encoder_direction);
    /// The tensor of every direction, one after the other.
    const auto joined = [&](std::string_view what) -> Result<std::vector<float>> {
        std::vector<float> all;
        for (const std::string& name : direction_names(what, layer, config_.encoder_direction)) {
            VKFORMER_TRY(const TensorData data, weights_.get(name));
            VKFORMER_TRY(const std::vector<float> values, floats_of(data));
            all.insert(all.end(), values.begin(), values.end());
        }
        return all;
    };
    VKFORMER_TRY(std::vector<float> input_weight, joined("weight_ih"));
    VKFORMER_TRY(std::vector<float> input_bias, joined("bias_ih"));
    VKFORMER_TRY(const std::vector<float> hidden_weight, joined("weight_hh"));
    VKFORMER_TRY(std::vector<float> hidden_bias, joined("bias_hh"));
    std::vector<float> transposed(hidden_weight.size());
    for (std::uint64_t d = 0; d < directions; ++d)
        for (std::uint64_t row = 0; row < rows; ++row)
            for (std::uint64_t k = 0; k < hidden; ++k)
                transposed[(d * hidden + k) * rows + row] = hidden_weight[(d * rows + row) * hidden + k];
    const std::uint64_t input = input_weight.size() / (directions * rows);
    return EncoderLayer{.input_weight = float_tensor({directions * rows, input}, std::move(input_weight)),
                        .input_bias = float_tensor({directions * rows}, std::move(input_bias)),
                        .hidden_weight = float_tensor({directions * hidden, rows}, std::move(transposed)),
                        .hidden_bias = float_tensor({directions * rows}, std::move(hidden_bias))};
}

EncoderDecoder::Limits RecurrentSeq2Seq::limits() const noexcept {
    return {.source_len = config_.max_length,
            .target_len = config_.max_length,
            .source_vocab = config_.vocab_size,
            .target_vocab = config_.decoder_vocab_size,
            .takes_any_mask = false};
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

/// The pieces of the network for one graph.
class RecurrentSeq2Seq::Builder {
public:
    /// How many source sequences, and decoder rows for each of them.
    struct Sizes {
        std::uint64_t batch, beams, source_len;
        std::uint64_t rows() const { return batch * beams; }
    };
    static Sizes sizes_of(const DecodeLayout& layout) {
        return {.batch = layout.batch, .beams = layout.beams, .source_len = layout.source_len};
    }

    /// What the encoder gives: float [batch, source_len, encoder_width], and per layer what it ended with.
    struct Encoded {
        Value outputs;
        std::vector<Value> hidden, cell;  // [batch, encoder_width]
    };

    /// What the decoder attends to.
    struct Memory {
        Value outputs;  // [batch, source_len, 1, encoder_width]: keys and values
        Value keys;     // [batch, source_len, 1, attention_dim]: W_k k + b of additive attention
        Value lengths;  // i32 [batch]; may be absent
    };

    Builder(const RecurrentSeq2Seq& model, Graph& graph, DType dtype, const Sizes& sizes)
        : model_(model), config_(model.config_), graph_(graph), dtype_(dtype), sizes_(sizes) {}

    Result<Encoded> encoder(Value tokens, Value lengths) {
        graph_.set_scope("encoder");
        VKFORMER_TRY(const Value table, weight("encoder.embedding.weight"));
        Encoded encoded;
        VKFORMER_TRY(encoded.outputs, graph::embedding(graph_, tokens, table));
        for (std::uint32_t layer = 0; layer < config_.encoder_layers; ++layer) {
            const std::string name = "encoder." + std::to_string(layer);
            const EncoderLayer& packed = model_.encoder_[layer];
            graph_.set_scope(name);
            VKFORMER_TRY(const Value input_weight, graph_.weight(name + ".weight_ih", packed.input_weight, dtype_));
            VKFORMER_TRY(const Value input_bias, graph_.weight(name + ".bias_ih", packed.input_bias, dtype_));
            VKFORMER_TRY(const Value gates, graph::linear(graph_, encoded.outputs, input_weight, input_bias));
            VKFORMER_TRY(const Value weight, graph_.weight(name + ".weight_hh", packed.hidden_weight, dtype_));
            VKFORMER_TRY(const Value bias, graph_.weight(name + ".bias_hh", packed.hidden_bias, dtype_));
            const auto make = config_.cell == RecurrentUnit::lstm ? &graph::lstm_layer : &graph::gru_layer;
            VKFORMER_TRY(const graph::RecurrentResult result,
                         make(graph_, gates, weight, bias, config_.encoder_direction, {.lengths = lengths}));
            encoded.outputs = result.y;
            encoded.hidden.push_back(result.hidden);
            encoded.cell.push_back(result.cell);
        }
        return encoded;
    }

    Result<Memory> memory(const Encoded& encoded, Value lengths) {
        Memory memory{.lengths = lengths};
        VKFORMER_TRY(memory.outputs, graph_.reshape(encoded.outputs, memory_shape(config_.encoder_width())));
        if (config_.attention != AttentionScore::additive) return memory;
        graph_.set_scope("attention.key");
        VKFORMER_TRY(const Value keys, linear("attention.key", encoded.outputs, true));
        VKFORMER_TRY(memory.keys, graph_.reshape(keys, memory_shape(config_.attention_dim)));
        return memory;
    }
    /// The same in states, for the programs of a generation. They differ with the source length, so its number is in the names.
    Result<Memory> memory_states(Value lengths) {
        Memory memory{.lengths = lengths};
        const std::string suffix = ".source_" + std::to_string(sizes_.source_len);
        if (attends()) {
            VKFORMER_TRY(memory.outputs,
                         graph_.state("encoder_outputs" + suffix, dtype_, memory_shape(config_.encoder_width())));
        }
        if (config_.attention == AttentionScore::additive) {
            VKFORMER_TRY(memory.keys,
                         graph_.state("attention_keys" + suffix, dtype_, memory_shape(config_.attention_dim)));
        }
        return memory;
    }
    Shape memory_shape(std::uint64_t width) const { return {sizes_.batch, sizes_.source_len, 1, width}; }

    /// What passes from one step of the decoder to the next: float [rows, hidden], the cells f32.
    struct Carried {
        std::vector<graph::RecurrentState> layers;
        Value output;  // with input feeding
    };

    /// Where a decoder begins, one row per sequence.
    Result<Carried> start(const Encoded& encoded) {
        Carried carried;
        for (std::uint32_t layer = 0; layer < config_.decoder_layers; ++layer) {
            graph_.set_scope("bridge." + std::to_string(layer));
            graph::RecurrentState& state = carried.layers.emplace_back();
            VKFORMER_TRY(state.hidden, bridged("hidden", layer, encoded.hidden));
            if (config_.cell == RecurrentUnit::gru) continue;
            VKFORMER_TRY(state.cell, bridged("cell", layer, encoded.cell));
        }
        if (!config_.input_feeding) return carried;
        const Shape shape = {sizes_.batch, config_.decoder_hidden_dim};
        VKFORMER_TRY(carried.output,
                     graph_.weight("zeros.batch_" + std::to_string(sizes_.batch),
                                   float_tensor(shape, std::vector<float>(shape.element_count())), dtype_));
        return carried;
    }

    /// The same in states, for the programs of a generation: [rows, 1, 1, hidden], as cache_reorder wants them, and views of them.
    struct CarriedStates {
        std::vector<Value> states;
        Carried views;
    };
    Result<CarriedStates> carried_states() {
        CarriedStates carried;
        const Shape shape = {sizes_.rows(), 1, 1, config_.decoder_hidden_dim};
        const auto add = [&](const std::string& name, DType dtype) -> Result<Value> {
            VKFORMER_TRY(const Value state, graph_.state(name, dtype, shape));
            carried.states.push_back(state);
            return graph_.reshape(state, {shape[0], shape[3]});
        };
        for (std::uint32_t layer = 0; layer < config_.decoder_layers; ++layer) {
            graph::RecurrentState& view = carried.views.layers.emplace_back();
            VKFORMER_TRY(view.hidden, add("hidden." + std::to_string(layer), dtype_));
            if (config_.cell == RecurrentUnit::gru) continue;
            VKFORMER_TRY(view.cell, add("cell." + std::to_string(layer), DType::f32));
        }
        if (!config_.input_feeding) return carried;
        VKFORMER_TRY(carried.views.output, add("fed_output", dtype_));
        return carried;
    }

    /// Puts what a decoder begins with into the states; every beam of a sequence gets the same.
    Result<void> store_start(const Carried& start, const CarriedStates& into) {
        graph_.set_scope("start");
        return for_each_carried(start, into, [&](Value x, Value state) -> Result<void> {
            if (sizes_.beams == 1) return store_rows(x, state);
            std::vector<std::int32_t> sequence(sizes_.rows());
            for (std::uint64_t row = 0; row < sizes_.rows(); ++row)
                sequence[row] = static_cast<std::int32_t>(row / sizes_.beams);
            VKFORMER_TRY(const Value index, constant("sequence_of_row", std::move(sequence), {sizes_.rows()}));
            VKFORMER_TRY(const Value rows, graph::embedding(graph_, index, x));  // a gather of rows
            return store_rows(rows, state);
        });
    }

    /// tokens i32 [rows, len] → [rows · len, embedding_dim].
    Result<Value> embed(Value tokens) {
        graph_.set_scope("decoder.embedding");
        VKFORMER_TRY(const Value table, weight("decoder.embedding.weight"));
        VKFORMER_TRY(const Value embedded, graph::embedding(graph_, tokens, table));
        return graph_.reshape(embedded, {graph_.shape(tokens).element_count(), config_.embedding_dim});
    }

    /// Row b · len + column of x [batch · len, width] for each b: [batch, width].
    Result<Value> column(Value x, std::uint64_t len, std::uint64_t column) {
        std::vector<std::int32_t> rows(sizes_.batch);
        for (std::uint64_t b = 0; b < sizes_.batch; ++b) rows[b] = static_cast<std::int32_t>(b * len + column);
        VKFORMER_TRY(const Value index, constant("column_" + std::to_string(column), std::move(rows), {sizes_.batch}));
        return graph::embedding(graph_, index, x);  // a gather of rows
    }

    struct StepResult {
        Value output;   // float [rows, hidden]
        Value weights;  // f32 [batch, 1, beams, source_len]; of a decoder that attends, if they were asked for
        Carried carried;
    };

    /// One step of the decoder: x [rows, embedding_dim], at positions i32 [rows]. With `in_place`, the layers' states replace
    /// those of `from`, which are the graph's.
    Result<StepResult> step(const std::string& scope, Value x, Value positions, const Memory& memory,
                            const Carried& from, bool in_place, bool keeps_weights) {
        scope_ = scope;
        StepResult result;
        Value* const weights = keeps_weights ? &result.weights : nullptr;
        Value context;
        if (attends() && config_.attention_query == AttentionQuery::previous) {
            VKFORMER_TRY(context, attend(from.layers.back().hidden, positions, memory, weights));
            set_scope("input");
            VKFORMER_TRY(x, graph::concat(graph_, x, context));
        } else if (config_.input_feeding) {
            set_scope("input");
            VKFORMER_TRY(x, graph::concat(graph_, x, from.output));
        }
        for (std::uint32_t layer = 0; layer < config_.decoder_layers; ++layer) {
            VKFORMER_TRY(const graph::RecurrentState next, cell(layer, x, from.layers[layer], in_place));
            result.carried.layers.push_back(next);
            x = next.hidden;
        }
        result.output = x;
        if (!attends()) return result;
        if (config_.attention_query == AttentionQuery::current) {
            VKFORMER_TRY(context, attend(x, positions, memory, weights));
        }
        set_scope("output");
        VKFORMER_TRY(const Value joined, graph::concat(graph_, context, x));
        VKFORMER_TRY(const Value sum, linear("attention.output", joined, false));
        VKFORMER_TRY(result.output, graph::activate(graph_, sum, graph::Activation::tanh));
        if (config_.input_feeding) result.carried.output = result.output;
        return result;
    }

    /// Puts what a step carries into the states, as far as it is not there already.
    Result<void> store_step(const StepResult& step, const CarriedStates& into) {
        graph_.set_scope("decoder.carried");
        return for_each_carried(step.carried, into, [&](Value x, Value state) -> Result<void> {
            return graph_.storage(x) == state ? Result<void>() : store_rows(x, state);
        });
    }

    /// x float [n, hidden] → f32 [n, decoder_vocab_size].
    Result<Value> logits(Value x) {
        graph_.set_scope("output");
        VKFORMER_TRY(const Value table, weight("output.weight"));
        VKFORMER_TRY(const Value bias, weight("output.bias"));
        return graph::linear(graph_, x, table, bias, DType::f32);
    }

    /// For a whole pass: the values of all steps in one tensor, float [batch, steps, 1, width].
    Result<Value> collector(const std::string& name, DType dtype, std::uint64_t steps, std::uint64_t width) {
        return graph_.state(name, dtype, {sizes_.batch, steps, 1, width});
    }
    Result<void> collect(Value x, Value position, Value collector) {
        VKFORMER_TRY(const Value row, graph_.reshape(x, {sizes_.batch, 1, 1, graph_.shape(collector).back()}));
        return graph::cache_append(graph_, row, position, collector);
    }

    Result<Value> constant(const std::string& name, std::vector<std::int32_t> values, Shape shape) {
        return graph::constant(graph_, name, std::move(shape), std::move(values));
    }

private:
    /// Calls visit(value, state) for all that is carried.
    Result<void> for_each_carried(const Carried& carried, const CarriedStates& states, auto&& visit) {
        std::size_t next = 0;
        for (const graph::RecurrentState& layer : carried.layers) {
            VKFORMER_CHECK(visit(layer.hidden, states.states[next++]));
            if (layer.cell) VKFORMER_CHECK(visit(layer.cell, states.states[next++]));
        }
        return carried.output ? visit(carried.output, states.states[next]) : Result<void>();
    }

    /// x float [rows, width] into a state [rows, 1, 1, width].
    Result<void> store_rows(Value x, Value state) {
        VKFORMER_TRY(const Value row, graph_.reshape(x, graph_.shape(state)));
        return graph::cache_append(graph_, row, {}, state);
    }

    bool attends() const { return config_.attention != AttentionScore::none; }

    void set_scope(const std::string& name) { graph_.set_scope(scope_ + "." + name); }

    Result<Value> weight(const std::string& name) { return weight(name, dtype_); }
    Result<Value> weight(const std::string& name, DType stored_as) {
        VKFORMER_TRY(TensorData data, model_.weights_.get(name));
        return graph_.weight(name, std::move(data), stored_as);
    }

    /// In x's dtype.
    Result<Value> linear(const std::string& name, Value x, bool has_bias, std::optional<DType> result = {}) {
        VKFORMER_TRY(const Value w, weight(name + ".weight", graph_.dtype(x)));
        Value bias;
        if (has_bias) {
            VKFORMER_TRY(bias, weight(name + ".bias", graph_.dtype(x)));
        }
        return graph::linear(graph_, x, w, bias, result);
    }

    Result<Value> bridged(const std::string& state, std::uint32_t layer, const std::vector<Value>& ended) {
        if (config_.bridge == Bridge::copy) return ended[layer];
        VKFORMER_TRY(const Value x, linear("bridge." + state + "." + std::to_string(layer), ended.back(), true));
        return graph::activate(graph_, x, graph::Activation::tanh);
    }

    /// One layer's step: products, then the gates.
    Result<graph::RecurrentState> cell(std::uint32_t layer, Value x, const graph::RecurrentState& from, bool in_place) {
        set_scope(std::to_string(layer));
        const auto product = [&](std::string_view which, Value operand) -> Result<Value> {
            VKFORMER_TRY(const Value w, weight(rnn_name("decoder", "weight_" + std::string(which), layer, false)));
            VKFORMER_TRY(const Value bias, weight(rnn_name("decoder", "bias_" + std::string(which), layer, false)));
            return graph::linear(graph_, operand, w, bias);
        };
        VKFORMER_TRY(const Value input_gates, product("ih", x));
        VKFORMER_TRY(const Value hidden_gates, product("hh", from.hidden));
        const auto make = config_.cell == RecurrentUnit::lstm ? &graph::lstm_cell : &graph::gru_cell;
        return make(graph_, input_gates, hidden_gates, from, in_place ? from : graph::RecurrentState{});
    }

    /// The context of each row, Σ weight · encoder output: [rows, encoder_width]. The beams of a sequence are queries of one
    /// batch element, so that they share its keys.
    Result<Value> attend(Value query, Value positions, const Memory& memory, Value* weights) {
        set_scope("attention");
        const Shape beams = {sizes_.batch, sizes_.beams};
        Value asked = query;
        if (config_.attention != AttentionScore::dot) {
            VKFORMER_TRY(asked, linear("attention.query", query, false));
        }
        VKFORMER_TRY(asked, graph_.reshape(asked, {beams[0], beams[1], 1, graph_.shape(asked).back()}));
        const bool additive = config_.attention == AttentionScore::additive;
        const bool global = config_.attention_window == AttentionWindow::global;
        const Shape result = {sizes_.rows(), config_.encoder_width()};
        if (!additive && global && !weights && result[1] <= kMaxFusedWidth) {
            VKFORMER_TRY(const Value mixed, graph::attention(graph_, asked, memory.outputs, memory.outputs,
                                                             {.key_lengths = memory.lengths}, 1));
            return graph_.reshape(mixed, result);
        }
        Value scores;
        if (additive) {
            VKFORMER_TRY(const Value w, weight("attention.score.weight"));
            VKFORMER_TRY(scores, graph::additive_scores(graph_, asked, memory.keys, w));
        } else {
            VKFORMER_TRY(scores, graph::attention_scores(graph_, asked, memory.outputs, 1));
        }
        Value shares;
        if (global) {
            VKFORMER_TRY(shares, graph::masked_softmax(graph_, scores, {.key_lengths = memory.lengths}));
        } else {
            graph::LocalWindow window = {.half_width = config_.attention_half_width, .key_lengths = memory.lengths};
            if (config_.attention_window == AttentionWindow::monotonic) {
                VKFORMER_TRY(window.positions, graph_.reshape(positions, beams));
            } else {
                VKFORMER_TRY(window.relative, relative_position(query, beams));
            }
            VKFORMER_TRY(shares, graph::local_softmax(graph_, scores, window));
        }
        if (weights) *weights = shares;
        VKFORMER_TRY(const Value mixed, graph::weighted_sum(graph_, shares, memory.outputs));
        return graph_.reshape(mixed, result);
    }

    /// sigmoid(w_p · tanh(W_p query)): where in the source the window lies (Luong et al. 2015, eq. 9, without the length).
    Result<Value> relative_position(Value query, const Shape& shape) {
        VKFORMER_TRY(const Value inner, linear("attention.position_hidden", query, false));
        VKFORMER_TRY(const Value active, graph::activate(graph_, inner, graph::Activation::tanh));
        VKFORMER_TRY(const Value score, linear("attention.position_score", active, false, DType::f32));
        VKFORMER_TRY(const Value relative, graph::activate(graph_, score, graph::Activation::sigmoid));
        return graph_.reshape(relative, shape);
    }

    const RecurrentSeq2Seq& model_;
    const RecurrentSeq2SeqConfig& config_;
    Graph& graph_;
    DType dtype_;
    Sizes sizes_;
    std::string scope_;
};

namespace {

Error one_kind_of_mask() {
    return {ErrorCode::InvalidArgument,
            "a recurrent model reads every token up to the end of its source: only padding at the end can be masked"};
}

}  // namespace

Result<ForwardGraph> RecurrentSeq2Seq::forward(const ForwardOptions& options) const {
    if (options.source_mask == SourceMask::additive || options.target_mask) return one_kind_of_mask();
    if (options.layers.hidden)
        return Error{ErrorCode::UnsupportedConfig,
                     "hidden states between the layers of a recurrent model are not kept"};
    const std::uint64_t batch = options.batch, steps = options.target_len;
    ForwardGraph f;
    Graph& g = f.graph;
    Builder build(*this, g, options.dtype, {.batch = batch, .beams = 1, .source_len = options.source_len});
    VKFORMER_TRY(f.source_tokens, g.input("input_ids", DType::i32, {batch, options.source_len}));
    if (options.source_mask == SourceMask::lengths) {
        VKFORMER_TRY(f.source_lengths, g.input("source_lengths", DType::i32, {batch}));
    }
    VKFORMER_TRY(f.target_tokens, g.input("decoder_input_ids", DType::i32, {batch, steps}));

    VKFORMER_TRY(const auto encoded, build.encoder(f.source_tokens, f.source_lengths));
    f.encoder_hidden = encoded.outputs;
    g.mark_output(f.encoder_hidden);
    VKFORMER_TRY(const auto memory, build.memory(encoded, f.source_lengths));
    VKFORMER_TRY(auto carried, build.start(encoded));

    const bool keeps_weights = options.layers.attention && config_.attention != AttentionScore::none;
    VKFORMER_TRY(const Value outputs,
                 build.collector("decoder_outputs", options.dtype, steps, config_.decoder_hidden_dim));
    Value maps;
    if (keeps_weights) {
        VKFORMER_TRY(maps, build.collector("attention_weights", DType::f32, steps, options.source_len));
    }
    VKFORMER_TRY(const Value embedded, build.embed(f.target_tokens));
    for (std::uint32_t t = 0; t < steps; ++t) {
        const std::string name = "decoder.step_" + std::to_string(t);
        g.set_scope(name + ".embedding");
        VKFORMER_TRY(const Value x, build.column(embedded, steps, t));
        VKFORMER_TRY(const Value position,
                     build.constant(name + ".position", std::vector<std::int32_t>(batch, static_cast<std::int32_t>(t)),
                                    {batch}));
        VKFORMER_TRY(auto step, build.step(name, x, position, memory, carried, false, keeps_weights));
        carried = std::move(step.carried);
        g.set_scope(name + ".collect");
        VKFORMER_CHECK(build.collect(step.output, position, outputs));
        if (keeps_weights) VKFORMER_CHECK(build.collect(step.weights, position, maps));
    }
    VKFORMER_TRY(f.decoder_hidden, g.reshape(outputs, {batch, steps, config_.decoder_hidden_dim}));
    VKFORMER_TRY(const Value rows, g.reshape(outputs, {batch * steps, config_.decoder_hidden_dim}));
    VKFORMER_TRY(const Value logits, build.logits(rows));
    g.mark_output(logits);
    VKFORMER_TRY(f.logits, g.reshape(logits, {batch, steps, config_.decoder_vocab_size}));
    if (keeps_weights) {
        VKFORMER_TRY(const Value weights, g.reshape(maps, {batch, 1, steps, options.source_len}));
        f.attention.push_back({.kind = AttentionKind::cross, .layer = 0, .weights = weights});
    }
    return f;
}

Result<SourceTensors> RecurrentSeq2Seq::add_encoder(Graph& graph, const DecodeLayout& layout) const {
    if (layout.masked_source) return one_kind_of_mask();
    Builder build(*this, graph, layout.dtype, Builder::sizes_of(layout));
    SourceTensors source;
    VKFORMER_TRY(source.lengths, graph.state("source_lengths", DType::i32, {layout.batch}));
    VKFORMER_TRY(source.tokens, graph.input("input_ids", DType::i32, {layout.batch, layout.source_len}));
    VKFORMER_TRY(const auto encoded, build.encoder(source.tokens, source.lengths));
    VKFORMER_TRY(const auto computed, build.memory(encoded, source.lengths));
    VKFORMER_TRY(const auto kept, build.memory_states(source.lengths));
    graph.set_scope("memory");
    if (kept.outputs) VKFORMER_CHECK(graph::cache_append(graph, computed.outputs, {}, kept.outputs));
    if (kept.keys) VKFORMER_CHECK(graph::cache_append(graph, computed.keys, {}, kept.keys));
    VKFORMER_TRY(const auto start, build.start(encoded));
    VKFORMER_TRY(const auto states, build.carried_states());
    VKFORMER_CHECK(build.store_start(start, states));
    return source;
}

Result<EncoderDecoder::Step> RecurrentSeq2Seq::add_decoder_step(Graph& graph, const DecodeLayout& layout, Value tokens,
                                                                Value starts) const {
    if (layout.masked_source) return one_kind_of_mask();
    Builder build(*this, graph, layout.dtype, Builder::sizes_of(layout));
    Step step;
    VKFORMER_TRY(step.source.lengths, graph.state("source_lengths", DType::i32, {layout.batch}));
    VKFORMER_TRY(const auto memory, build.memory_states(step.source.lengths));
    VKFORMER_TRY(const auto carried, build.carried_states());
    VKFORMER_TRY(const Value x, build.embed(tokens));
    // A beam search moves the states to other rows afterwards. Only copies precede that, so that `vkformer validate`, which
    // sees a state after its last change, can tell what the cells computed.
    const bool in_place = layout.beams == 1;
    VKFORMER_TRY(const auto result, build.step("decoder", x, starts, memory, carried.views, in_place, false));
    VKFORMER_CHECK(build.store_step(result, carried));
    VKFORMER_TRY(step.logits, build.logits(result.output));
    step.caches = carried.states;
    return step;
}

Result<EncoderDecoder::KnownTarget> RecurrentSeq2Seq::add_known_target(
    Graph& /*graph*/, const DecodeLayout& /*layout*/, Value /*tokens*/,
    std::span<const std::uint32_t> /*layers*/) const {
    return Error{ErrorCode::InvalidArgument, "a recurrent decoder goes over a target step by step"};
}

}  // namespace vkformer::models
