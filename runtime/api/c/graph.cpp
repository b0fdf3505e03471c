// SPDX-License-Identifier: MIT
#include <cmath>

#include "api/c/handles.hpp"
#include "core/try.hpp"
#include "graph/builders.hpp"

using namespace vkformer;

namespace vkformer::c {

Result<DType> dtype_of(vkf_dtype dtype) {
    switch (dtype) {
    case VKF_F32: return DType::f32;
    case VKF_F16: return DType::f16;
    case VKF_I32: return DType::i32;
    case VKF_DTYPE_MAX_ENUM: break;
    }
    return Error{ErrorCode::UnsupportedDtype, "there is no vkf_dtype " + std::to_string(dtype)};
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

Result<graph::Activation> activation_of(vkf_activation activation) {
    switch (activation) {
    case VKF_ACTIVATION_NONE: return graph::Activation::none;
    case VKF_ACTIVATION_RELU: return graph::Activation::relu;
    case VKF_ACTIVATION_GELU: return graph::Activation::gelu_erf;
    case VKF_ACTIVATION_GELU_TANH: return graph::Activation::gelu_tanh;
    case VKF_ACTIVATION_SILU: return graph::Activation::silu;
    case VKF_ACTIVATION_TANH: return graph::Activation::tanh;
    case VKF_ACTIVATION_MAX_ENUM: break;
    }
    return Error{ErrorCode::InvalidArgument, "there is no vkf_activation " + std::to_string(activation)};
}

/// The path that stores the weights, or the fused one.
Result<Value> attention(vkf_graph& g, Value query, Value key, Value value, const vkf_attention_options& options) {
    graph::AttentionMask mask{.causal = options.causal != VK_FALSE, .window = options.window};
    VKFORMER_TRY(mask.key_lengths, optional_value(g, options.key_lengths));
    float scale = options.scale;
    if (scale == 0 && g.graph.shape(query).rank() > 0)
        scale = 1 / std::sqrt(static_cast<float>(g.graph.shape(query).back()));
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
    switch (dtype) {
    case VKF_F32: return "f32";
    case VKF_F16: return "f16";
    case VKF_I32: return "i32";
    case VKF_DTYPE_MAX_ENUM: break;
    }
    return "?";
}

const char* vkf_activation_string(vkf_activation activation) {
    switch (activation) {
    case VKF_ACTIVATION_NONE: return "none";
    case VKF_ACTIVATION_RELU: return "relu";
    case VKF_ACTIVATION_GELU: return "gelu";
    case VKF_ACTIVATION_GELU_TANH: return "gelu_tanh";
    case VKF_ACTIVATION_SILU: return "silu";
    case VKF_ACTIVATION_TANH: return "tanh";
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
        VKFORMER_TRY(const std::string given, name_of(name));
        VKFORMER_TRY(const DType type, c::dtype_of(dtype));
        VKFORMER_TRY(const Shape sizes, shape_of(rank, shape));
        if (!numbers || graph->graph.find(given))
            return Error{ErrorCode::InvalidArgument, numbers ? "the graph already has a tensor named " + given
                                                             : "the weight " + given + " needs numbers"};
        const auto count = sizes.checked_element_count();
        if (!count || *count == 0 || *count > graph::Graph::kMaxElements)
            return Error{ErrorCode::InvalidArgument, given + ": shape " + to_string(sizes) + " is empty or too large"};
        auto copy = std::make_shared<const std::vector<float>>(numbers, numbers + *count);
        return graph->graph.weight(
            given, {.dtype = DType::f32, .shape = sizes, .bytes = std::as_bytes(std::span(*copy)), .owner = copy},
            type);
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

vkf_result vkf_graph_reshape(vkf_graph* graph, vkf_value x, uint32_t rank, const uint64_t* shape, vkf_value* result) {
    return add(graph, result, [&]() -> Result<Value> {
        VKFORMER_TRY(const Value input, value_of(*graph, x));
        VKFORMER_TRY(const Shape sizes, shape_of(rank, shape));
        return graph->graph.reshape(input, sizes);
    });
}
