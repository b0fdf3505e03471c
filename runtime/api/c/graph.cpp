// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "api/c/handles.hpp"
#include "core/finite.hpp"
#include "core/block_format.hpp"
#include "core/try.hpp"
#include "graph/builders.hpp"
#include "text/unicode.hpp"

using namespace vkformer;

namespace vkformer::c {

Result<DType> dtype_of(vkf_dtype dtype) {
    switch (dtype) {
    case VKF_F32: return DType::f32;
    case VKF_F16: return DType::f16;
    case VKF_I32: return DType::i32;
    case VKF_BF16: return DType::bf16;
    case VKF_Q8_0: return DType::q8_0;
    case VKF_Q4_0: return DType::q4_0;
    case VKF_Q4_1: return DType::q4_1;
    case VKF_Q5_0: return DType::q5_0;
    case VKF_Q5_1: return DType::q5_1;
    case VKF_IQ4_NL: return DType::iq4_nl;
    case VKF_Q4_K: return DType::q4_k;
    case VKF_Q5_K: return DType::q5_k;
    case VKF_Q6_K: return DType::q6_k;
    case VKF_MXFP4: return DType::mxfp4;
    case VKF_DTYPE_MAX_ENUM: break;
    }
    return Error{ErrorCode::UnsupportedDtype, "there is no vkf_dtype " + std::to_string(dtype)};
}

Result<DType> activation_dtype(vkf_dtype dtype, std::string_view field) {
    if (dtype == VKF_F32) return DType::f32;
    if (dtype == VKF_F16) return DType::f16;
    return Error{ErrorCode::InvalidArgument, std::string(field) + " is neither VKF_F32 nor VKF_F16"};
}

vkf_tensor describe(const graph::Graph& graph, graph::Value value) {
    const DType dtype = graph.dtype(value);
    const Shape& shape = graph.shape(value);
    vkf_tensor answer = VKF_TENSOR_INIT;
    for (int code = VKF_F32; code <= VKF_MXFP4; ++code)
        if (*dtype_of(static_cast<vkf_dtype>(code)) == dtype) answer.dtype = static_cast<vkf_dtype>(code);
    answer.rank = static_cast<uint32_t>(shape.rank());
    std::ranges::copy(shape.dims(), answer.shape);
    answer.bytes = bytes_of(dtype, shape.element_count());
    return answer;
}

}  // namespace vkformer::c

namespace {

using graph::Value;

constexpr vkf_attention_options kDefaultAttention = VKF_ATTENTION_OPTIONS_INIT;

/// A vkf_value is a Value's number, counted from 1: 0 is none.
Result<Value> value_of(const vkf_graph& graph, vkf_value value) {
    if (value == 0 || value > graph.graph.tensors().size())
        return Error{ErrorCode::InvalidArgument, "vkf_value " + std::to_string(value) + " is no tensor of this graph"};
    return Value{value - 1};
}

Result<Value> optional_value(const vkf_graph& graph, vkf_value value) {
    if (value == 0) return Value{};
    return value_of(graph, value);
}

Result<Shape> shape_of(uint32_t rank, const uint64_t* sizes) {
    if (rank < 1 || rank > VKF_MAX_RANK || !sizes)
        return Error{ErrorCode::InvalidArgument, "a shape has 1 to " + std::to_string(VKF_MAX_RANK) + " sizes, not " +
                                                     std::to_string(sizes ? rank : 0)};
    return Shape(std::span(sizes, rank));
}

Result<std::string> name_of(const char* name) {
    if (!name || !*name) return Error{ErrorCode::InvalidArgument, "a tensor needs a name"};
    if (!text::is_utf8(name)) return Error{ErrorCode::InvalidArgument, "the name of a tensor is not UTF-8"};
    return std::string(name);
}

/// The name of an input or an output, which no other has.
Result<std::string> free_name(const vkf_graph& graph, const char* name) {
    VKFORMER_TRY(std::string given, name_of(name));
    if (graph.tensors.values.contains(given))
        return Error{ErrorCode::InvalidArgument, "the graph already has a tensor named " + given};
    return given;
}

/// Adds to the graph what `build`, a function that gives a Result<Value>, makes.
vkf_result add(vkf_graph* graph, vkf_value* result, auto&& build) {
    if (!graph || !result) return c::invalid("graph and result are required");
    if (graph->is_spent) return c::invalid("the graph has become a program; make a new one");
    return c::guarded([&]() -> vkf_result {
        const Result<Value> made = build();
        if (!made) return c::fail(made.error());
        *result = made->id + 1;
        return VKF_SUCCESS;
    });
}

struct NewWeight {
    std::string name;
    DType dtype;
    Shape shape;
};
/// What is checked of every weight.
Result<NewWeight> new_weight(const vkf_graph& graph, const char* name, vkf_dtype dtype, uint32_t rank,
                             const uint64_t* shape, const void* data) {
    VKFORMER_TRY(std::string given, name_of(name));
    VKFORMER_TRY(const DType type, c::dtype_of(dtype));
    VKFORMER_TRY(Shape sizes, shape_of(rank, shape));
    if (!data || graph.graph.find(given))
        return Error{ErrorCode::InvalidArgument,
                     data ? "the graph already has a tensor named " + given : "the weight " + given + " needs numbers"};
    const auto count = sizes.checked_element_count();
    if (!count || *count == 0 || *count > graph::Graph::kMaxElements)
        return Error{ErrorCode::InvalidArgument, given + ": shape " + to_string(sizes) + " is empty or too large"};
    if (sizes.back() % block_elements(type) != 0)
        return Error{ErrorCode::InvalidArgument,
                     given + ": rows of " + std::to_string(sizes.back()) + " elements are no whole blocks of " +
                         std::string(to_string(type)) + ", which have " + std::to_string(block_elements(type))};
    return NewWeight{std::move(given), type, std::move(sizes)};
}

/// The caller's data, which may go after the call. `bytes`: how many there are, absent: as many as it takes.
Result<TensorData> copy_of(DType dtype, const Shape& shape, const void* data, std::optional<std::size_t> bytes = {}) {
    const std::uint64_t needed = bytes_of(dtype, shape.element_count());
    if (bytes.value_or(needed) != needed)
        return Error{ErrorCode::ShapeMismatch, to_string(shape) + " of " + std::string(to_string(dtype)) + " has " +
                                                   std::to_string(needed) + " bytes, not " + std::to_string(*bytes)};
    const auto* const first = static_cast<const std::byte*>(data);
    auto copy = std::make_shared<const std::vector<std::byte>>(first, first + needed);
    return TensorData{.dtype = dtype, .shape = shape, .bytes = *copy, .owner = copy};
}

/// Errors: UnsupportedDtype (not of weights alone), InvalidArgument (a part of a block).
Result<DType> weight_only(vkf_dtype dtype, std::size_t count) {
    VKFORMER_TRY(const DType format, c::dtype_of(dtype));
    if (!is_weight_only(format))
        return Error{ErrorCode::UnsupportedDtype,
                     std::string(to_string(format)) + " is no format of weights alone: bf16 or a block format"};
    if (count % block_elements(format) != 0)
        return Error{ErrorCode::InvalidArgument, std::to_string(count) + " numbers are no whole blocks of " +
                                                     std::string(to_string(format)) + ", which have " +
                                                     std::to_string(block_elements(format))};
    return format;
}

Result<graph::RopePairing> pairing_of(vkf_rope_pairing pairing) {
    switch (pairing) {
    case VKF_ROPE_HALVES: return graph::RopePairing::halves;
    case VKF_ROPE_INTERLEAVED: return graph::RopePairing::interleaved;
    case VKF_ROPE_PAIRING_MAX_ENUM: break;
    }
    return Error{ErrorCode::InvalidArgument, "there is no vkf_rope_pairing " + std::to_string(pairing)};
}

/// Over the keys of the one op that has a softmax: rows of scores.
Result<Value> softmax(graph::Graph& g, Value x) {
    const Shape shape = g.shape(x);
    VKFORMER_TRY(const Value rows, g.reshape(x, {1, 1, shape.element_count() / shape.back(), shape.back()}));
    VKFORMER_TRY(const Value result, graph::masked_softmax(g, rows));
    return g.reshape(result, shape);
}

Result<graph::Activation> activation_of(vkf_activation activation) {
    switch (activation) {
    case VKF_ACTIVATION_NONE: return graph::Activation::none;
    case VKF_ACTIVATION_RELU: return graph::Activation::relu;
    case VKF_ACTIVATION_GELU: return graph::Activation::gelu_erf;
    case VKF_ACTIVATION_GELU_TANH: return graph::Activation::gelu_tanh;
    case VKF_ACTIVATION_SILU: return graph::Activation::silu;
    case VKF_ACTIVATION_TANH: return graph::Activation::tanh;
    case VKF_ACTIVATION_SIGMOID: return graph::Activation::sigmoid;
    case VKF_ACTIVATION_GELU_QUICK: return graph::Activation::gelu_quick;
    case VKF_ACTIVATION_RELU_SQUARED: return graph::Activation::relu_squared;
    case VKF_ACTIVATION_MAX_ENUM: break;
    }
    return Error{ErrorCode::InvalidArgument, "there is no vkf_activation " + std::to_string(activation)};
}

/// The path that stores the weights, or the fused one.
Result<Value> attention(vkf_graph& g, Value query, Value key, Value value, const vkf_attention_options& options) {
    graph::AttentionMask mask{.causal = options.causal != VK_FALSE, .window = options.window};
    VKFORMER_TRY(mask.key_lengths, optional_value(g, options.key_lengths));
    VKFORMER_TRY(mask.starts, optional_value(g, options.starts));
    VKFORMER_TRY(mask.additive, optional_value(g, options.bias));
    float scale = options.scale;
    if (scale == 0 && g.graph.shape(query).rank() > 0)
        scale = 1 / std::sqrt(static_cast<float>(g.graph.shape(query).back()));
    if (options.split_keys > 0) {
        if (options.weights_output)
            return Error{ErrorCode::InvalidArgument,
                         "attention: split_keys stores no weights; leave weights_output out"};
        return graph::decode_attention(g.graph, query, key, value, mask, scale, options.split_keys, options.soft_cap);
    }
    if (!options.weights_output) return graph::attention(g.graph, query, key, value, mask, scale, options.soft_cap);
    VKFORMER_TRY(const std::string name, free_name(g, options.weights_output));
    VKFORMER_TRY(const Value scores, graph::attention_scores(g.graph, query, key, scale, options.soft_cap));
    VKFORMER_TRY(const Value weights, graph::masked_softmax(g.graph, scores, mask));
    VKFORMER_TRY(const Value result, graph::weighted_sum(g.graph, weights, value));
    g.graph.mark_output(weights);
    g.tensors.add(name, weights);
    return result;
}

}  // namespace

const char* vkf_dtype_string(vkf_dtype dtype) {
    const auto known = c::dtype_of(dtype);
    return known ? to_string(*known).data() : "?";
}

const char* vkf_activation_string(vkf_activation activation) {
    switch (activation) {
    case VKF_ACTIVATION_NONE: return "none";
    case VKF_ACTIVATION_RELU: return "relu";
    case VKF_ACTIVATION_GELU: return "gelu";
    case VKF_ACTIVATION_GELU_TANH: return "gelu_tanh";
    case VKF_ACTIVATION_SILU: return "silu";
    case VKF_ACTIVATION_TANH: return "tanh";
    case VKF_ACTIVATION_SIGMOID: return "sigmoid";
    case VKF_ACTIVATION_GELU_QUICK: return "gelu_quick";
    case VKF_ACTIVATION_RELU_SQUARED: return "relu_squared";
    case VKF_ACTIVATION_MAX_ENUM: break;
    }
    return "?";
}

vkf_result vkf_graph_create(vkf_graph** graph) {
    if (!graph) return c::invalid("graph is required");
    return c::guarded([&] {
        *graph = new vkf_graph();
        return VKF_SUCCESS;
    });
}

void vkf_graph_destroy(vkf_graph* graph) { delete graph; }

vkf_result vkf_graph_input(vkf_graph* graph, const char* name, vkf_dtype dtype, uint32_t rank, const uint64_t* shape,
                           vkf_value* value) {
    return add(graph, value, [&]() -> Result<Value> {
        VKFORMER_TRY(const std::string given, free_name(*graph, name));
        VKFORMER_TRY(const DType type, c::dtype_of(dtype));
        VKFORMER_TRY(const Shape sizes, shape_of(rank, shape));
        VKFORMER_TRY(const Value made, graph->graph.input(given, type, sizes));
        graph->tensors.add(given, made);
        return made;
    });
}

vkf_result vkf_graph_weight(vkf_graph* graph, const char* name, vkf_dtype dtype, uint32_t rank, const uint64_t* shape,
                            const float* numbers, vkf_value* value) {
    return add(graph, value, [&]() -> Result<Value> {
        VKFORMER_TRY(const NewWeight weight, new_weight(*graph, name, dtype, rank, shape, numbers));
        VKFORMER_TRY(const TensorData floats, copy_of(DType::f32, weight.shape, numbers));
        if (!is_quantized(weight.dtype)) return graph->graph.weight(weight.name, floats, weight.dtype);
        VKFORMER_TRY(TensorData blocks, quantized(floats, weight.dtype));
        return graph->graph.weight(weight.name, std::move(blocks), weight.dtype);
    });
}

vkf_result vkf_graph_constant(vkf_graph* graph, const char* name, vkf_dtype dtype, uint32_t rank, const uint64_t* shape,
                              const void* data, size_t bytes, vkf_value* value) {
    return add(graph, value, [&]() -> Result<Value> {
        VKFORMER_TRY(const NewWeight weight, new_weight(*graph, name, dtype, rank, shape, data));
        VKFORMER_TRY(TensorData copy, copy_of(weight.dtype, weight.shape, data, bytes));
        return graph->graph.weight(weight.name, std::move(copy), weight.dtype);
    });
}

vkf_result vkf_quantize(vkf_dtype dtype, size_t count, const float* numbers, size_t* bytes, void* data) {
    if (!bytes || (data && !numbers)) return c::invalid("numbers and bytes are required");
    return c::guarded([&]() -> Result<void> {
        VKFORMER_TRY(const DType format, weight_only(dtype, count));
        const std::uint64_t needed = bytes_of(format, count);
        const std::size_t capacity = std::exchange(*bytes, needed);
        if (!data) return {};
        if (capacity < needed)
            return Error{ErrorCode::InvalidArgument,
                         "data has " + std::to_string(capacity) + " bytes, expected " + std::to_string(needed)};
        if (format == DType::bf16) {
            auto* const target = static_cast<std::byte*>(data);  // which may be misaligned
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint16_t rounded = float_to_bfloat(numbers[i]);
                std::memcpy(target + i * sizeof rounded, &rounded, sizeof rounded);
            }
        } else {
            quantize(format, {numbers, count}, {static_cast<std::byte*>(data), static_cast<std::size_t>(needed)});
        }
        if (first_not_finite(DType::f32, std::as_bytes(std::span(numbers, count))) ||
            first_not_finite(format, {static_cast<const std::byte*>(data), static_cast<std::size_t>(needed)}))
            return Error{ErrorCode::InvalidArgument, "a number is not finite, or too large for " +
                                                         std::string(to_string(format)) + "'s scales"};
        return {};
    });
}

vkf_result vkf_dequantize(vkf_dtype dtype, size_t bytes, const void* data, size_t count, float* numbers) {
    if (!data || !numbers) return c::invalid("data and numbers are required");
    return c::guarded([&]() -> Result<void> {
        VKFORMER_TRY(const DType format, weight_only(dtype, count));
        if (bytes != bytes_of(format, count))
            return Error{ErrorCode::InvalidArgument,
                         std::to_string(count) + " numbers of " + std::string(to_string(format)) + " have " +
                             std::to_string(bytes_of(format, count)) + " bytes, not " + std::to_string(bytes)};
        return convert(format, {static_cast<const std::byte*>(data), bytes}, 0, {numbers, count});
    });
}

vkf_result vkf_graph_output(vkf_graph* graph, vkf_value value, const char* name) {
    vkf_value same = 0;
    return add(graph, &same, [&]() -> Result<Value> {
        VKFORMER_TRY(const std::string given, free_name(*graph, name));
        VKFORMER_TRY(const Value tensor, value_of(*graph, value));
        const graph::Graph& g = graph->graph;
        if (g.tensor(g.storage(tensor)).kind != graph::TensorKind::activation)
            return Error{ErrorCode::InvalidArgument, given + ": only what an op computes can be an output"};
        graph->graph.mark_output(tensor);
        graph->tensors.add(given, tensor);
        return tensor;
    });
}

vkf_result vkf_graph_attention(vkf_graph* graph, vkf_value query, vkf_value key, vkf_value value,
                               const vkf_attention_options* options, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const auto given, c::read_struct(options, kDefaultAttention, "vkf_attention_options"));
        VKFORMER_TRY(const Value q, value_of(*graph, query));
        VKFORMER_TRY(const Value k, value_of(*graph, key));
        VKFORMER_TRY(const Value v, value_of(*graph, value));
        return attention(*graph, q, k, v, given);
    });
}

vkf_result vkf_graph_linear(vkf_graph* graph, vkf_value x, vkf_value weight, vkf_value bias, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value input, value_of(*graph, x));
        VKFORMER_TRY(const Value w, value_of(*graph, weight));
        VKFORMER_TRY(const Value b, optional_value(*graph, bias));
        return graph::linear(graph->graph, input, w, b);
    });
}

vkf_result vkf_graph_layer_norm(vkf_graph* graph, vkf_value x, vkf_value gain, vkf_value bias, float eps,
                                vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value input, value_of(*graph, x));
        VKFORMER_TRY(const Value g, value_of(*graph, gain));
        VKFORMER_TRY(const Value b, optional_value(*graph, bias));
        return graph::layer_norm(graph->graph, input, g, b, eps);
    });
}

vkf_result vkf_graph_rms_norm(vkf_graph* graph, vkf_value x, vkf_value gain, float eps, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value input, value_of(*graph, x));
        VKFORMER_TRY(const Value g, value_of(*graph, gain));
        return graph::rms_norm(graph->graph, input, g, eps);
    });
}

vkf_result vkf_graph_add(vkf_graph* graph, vkf_value x, vkf_value y, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value a, value_of(*graph, x));
        VKFORMER_TRY(const Value b, value_of(*graph, y));
        return graph::add(graph->graph, a, b);
    });
}

vkf_result vkf_graph_activation(vkf_graph* graph, vkf_value x, vkf_activation activation, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value input, value_of(*graph, x));
        VKFORMER_TRY(const graph::Activation f, activation_of(activation));
        return graph::activate(graph->graph, input, f);
    });
}

vkf_result vkf_graph_gated_activation(vkf_graph* graph, vkf_value gate, vkf_value up, vkf_activation activation,
                                      vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value g, value_of(*graph, gate));
        VKFORMER_TRY(const Value u, optional_value(*graph, up));
        VKFORMER_TRY(const graph::Activation f, activation_of(activation));
        return graph::gated_activation(graph->graph, g, u, f);
    });
}

vkf_result vkf_graph_soft_cap(vkf_graph* graph, vkf_value x, float cap, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value input, value_of(*graph, x));
        return graph::soft_cap(graph->graph, input, cap);
    });
}

vkf_result vkf_graph_concat(vkf_graph* graph, vkf_value x, vkf_value y, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value a, value_of(*graph, x));
        VKFORMER_TRY(const Value b, value_of(*graph, y));
        return graph::concat(graph->graph, a, b);
    });
}

vkf_result vkf_graph_softmax(vkf_graph* graph, vkf_value x, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value input, value_of(*graph, x));
        return softmax(graph->graph, input);
    });
}

vkf_result vkf_graph_embedding(vkf_graph* graph, vkf_value tokens, vkf_value table, float scale, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value t, value_of(*graph, tokens));
        VKFORMER_TRY(const Value rows, value_of(*graph, table));
        return graph::embedding(graph->graph, t, rows, scale);
    });
}

vkf_result vkf_graph_rope(vkf_graph* graph, vkf_value x, vkf_value table, vkf_value starts, vkf_rope_pairing pairing,
                          vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value input, value_of(*graph, x));
        VKFORMER_TRY(const Value angles, value_of(*graph, table));
        VKFORMER_TRY(const Value first, optional_value(*graph, starts));
        VKFORMER_TRY(const graph::RopePairing pairs, pairing_of(pairing));
        return graph::rope(graph->graph, input, angles, first, pairs);
    });
}

vkf_result vkf_graph_find(const vkf_graph* graph, const char* name, vkf_value* value) {
    if (!graph || !name || !value) return c::invalid("graph, name and value are required");
    return c::guarded([&] {
        const auto found = graph->tensors.values.find(name);
        if (found == graph->tensors.values.end())
            return c::fail({ErrorCode::InvalidArgument, "no input or output is called \"" + std::string(name) + "\""});
        *value = found->second.id + 1;
        return VKF_SUCCESS;
    });
}

vkf_result vkf_graph_query(const vkf_graph* graph, vkf_value value, vkf_tensor* tensor) {
    if (!graph) return c::invalid("graph is required");
    return c::guarded([&] {
        const auto known = value_of(*graph, value);
        if (!known) return c::fail(known.error());
        return c::write_struct(tensor, c::describe(graph->graph, *known), "vkf_tensor");
    });
}

vkf_result vkf_graph_reshape(vkf_graph* graph, vkf_value x, uint32_t rank, const uint64_t* shape, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value input, value_of(*graph, x));
        VKFORMER_TRY(const Shape sizes, shape_of(rank, shape));
        return graph->graph.reshape(input, sizes);
    });
}
