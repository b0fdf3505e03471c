// SPDX-License-Identifier: MIT
#include <vector>

#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {
namespace {

constexpr std::uint64_t kMostTaps = 8, kMostStateRows = 256;

/// i32 [batch], or [batch, 2], each of them optional, and a state of rows of the shape `inner`; without slots it has one for each sequence.
Result<void> check_place(const OperandCheck& check, const Graph& graph, const StatePlace& place, std::uint64_t batch,
                         std::string_view of, Value state, std::initializer_list<std::uint64_t> inner) {
    const std::pair<std::string_view, Value> all[] = {
        {"starts", place.starts}, {"counts", place.counts}, {"slots", place.slots}};
    for (const auto& [name, value] : all) {
        if (!value) continue;
        VKFORMER_CHECK(check.dtype(name, value, DType::i32));
        const bool are_slots = name == "slots";
        VKFORMER_CHECK(
            check.shape(name, value, are_slots ? Shape{batch, 2} : Shape{batch}, "batch of " + std::string(of)));
    }
    VKFORMER_CHECK(check.dtype("state", state, DType::f32));
    VKFORMER_CHECK(check.state("state", state));
    VKFORMER_CHECK(check.rows("state", state));
    std::vector<std::uint64_t> dims = {place.slots ? graph.shape(state)[0] : batch};
    dims.insert(dims.end(), inner);
    return check.shape("state", state, Shape(dims), std::string(of) + (place.slots ? "" : ", a row for each sequence"));
}

/// What the ops with a matrix for each head give: float32 sums, as they are or rounded.
Result<void> check_result(const OperandCheck& check, DType result) {
    if (result == DType::f32 || result == DType::f16) return {};
    return check.error(ErrorCode::UnsupportedDtype,
                       "the result cannot be " + std::string(to_string(result)) + ", expected f32 or f16");
}

/// Of what heads share, there are as many for all heads.
Result<void> check_shared(const OperandCheck& check, std::string_view name, std::uint64_t count, std::uint64_t heads) {
    VKFORMER_CHECK(check.range(name, count, 1, heads));
    if (heads % count == 0) return {};
    return check.error(ErrorCode::ShapeMismatch, "state has " + std::to_string(heads) +
                                                     " heads, expected a multiple of " + std::string(name) + ", " +
                                                     std::to_string(count));
}

}  // namespace

Result<Value> short_convolution(Graph& graph, Value x, Value weight, Value bias, Value state, const StatePlace& place,
                                Activation activation, bool is_gated) {
    const OperandCheck check(graph, ShortConvolution::kName);
    VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check.rank("x", x, "[batch, len, width]"));
    VKFORMER_CHECK(check_like(check, graph, "weight", weight, "x", x));
    VKFORMER_CHECK(check.rank("weight", weight, "[width, taps]"));
    const std::uint64_t batch = graph.shape(x)[0], len = graph.shape(x)[1], width = graph.shape(weight)[0],
                        taps = graph.shape(weight)[1];
    VKFORMER_CHECK(check.range("taps", taps, 2, kMostTaps));
    VKFORMER_CHECK(check.shape("x", x, {batch, len, is_gated ? 3 * width : width},
                               is_gated ? "three times the width of weight" : "width of weight"));
    if (bias) {
        VKFORMER_CHECK(check_like(check, graph, "bias", bias, "x", x));
        VKFORMER_CHECK(check.shape("bias", bias, {width}, "width of weight"));
    }
    VKFORMER_CHECK(check_place(check, graph, place, batch, "x", state, {taps - 1, width}));
    VKFORMER_TRY(const Value y, graph.activation(ShortConvolution::kName, graph.dtype(x), {batch, len, width}));
    graph.add_node(ShortConvolution{.x = x,
                                    .weight = weight,
                                    .bias = bias,
                                    .starts = place.starts,
                                    .counts = place.counts,
                                    .slots = place.slots,
                                    .state = state,
                                    .y = y,
                                    .activation = activation,
                                    .is_gated = is_gated});
    return y;
}

Result<Value> gated_delta_rule(Graph& graph, Value qkv, Value gates, Value decay, Value state, const StatePlace& place,
                               const GatedDeltaOptions& options) {
    const OperandCheck check(graph, GatedDeltaRule::kName);
    VKFORMER_CHECK(check.dtype("qkv", qkv, DType::f32));
    VKFORMER_CHECK(check.rank("qkv", qkv, "[batch, len, queries and keys and values]"));
    VKFORMER_CHECK(check.dtype("state", state, DType::f32));
    VKFORMER_CHECK(check.rank("state", state, "[slots, heads, key_dim, value_dim]"));
    const std::uint64_t batch = graph.shape(qkv)[0], len = graph.shape(qkv)[1];
    const std::uint64_t heads = graph.shape(state)[1], key_dim = graph.shape(state)[2],
                        value_dim = graph.shape(state)[3];
    const std::uint64_t key_heads = options.key_heads;
    VKFORMER_CHECK(check_shared(check, "key_heads", key_heads, heads));
    VKFORMER_CHECK(check.range("key_dim", key_dim, 1, kMostStateRows));
    VKFORMER_CHECK(check.shape("qkv", qkv, {batch, len, 2 * key_heads * key_dim + heads * value_dim},
                               "key_heads, and heads of state"));
    VKFORMER_CHECK(check.dtype("gates", gates, DType::f32));
    VKFORMER_CHECK(check.shape("gates", gates, {batch, len, 2 * heads}, "heads of state"));
    VKFORMER_CHECK(check.dtype("decay", decay, DType::f32));
    VKFORMER_CHECK(check.shape("decay", decay, {2, heads}, "heads of state"));
    VKFORMER_CHECK(check_place(check, graph, place, batch, "qkv", state, {heads, key_dim, value_dim}));
    VKFORMER_CHECK(check_result(check, options.result));
    VKFORMER_TRY(const Value y,
                 graph.activation(GatedDeltaRule::kName, options.result, {batch, len, heads, value_dim}));
    graph.add_node(GatedDeltaRule{.qkv = qkv,
                                  .gates = gates,
                                  .decay = decay,
                                  .starts = place.starts,
                                  .counts = place.counts,
                                  .slots = place.slots,
                                  .state = state,
                                  .y = y,
                                  .key_heads = options.key_heads,
                                  .heads_in_turns = options.in_turns});
    return y;
}

Result<Value> selective_scan(Graph& graph, Value xbc, Value steps, Value rates, Value state, const StatePlace& place,
                             const SelectiveScanOptions& options) {
    const OperandCheck check(graph, SelectiveScan::kName);
    VKFORMER_CHECK(check.dtype("xbc", xbc, DType::f32));
    VKFORMER_CHECK(check.rank("xbc", xbc, "[batch, len, x and B and C]"));
    VKFORMER_CHECK(check.dtype("state", state, DType::f32));
    VKFORMER_CHECK(check.rank("state", state, "[slots, heads, state_dim, head_dim]"));
    const std::uint64_t batch = graph.shape(xbc)[0], len = graph.shape(xbc)[1];
    const std::uint64_t heads = graph.shape(state)[1], state_dim = graph.shape(state)[2],
                        head_dim = graph.shape(state)[3];
    VKFORMER_CHECK(check_shared(check, "groups", options.groups, heads));
    VKFORMER_CHECK(check.range("state_dim", state_dim, 1, kMostStateRows));
    VKFORMER_CHECK(check.shape("xbc", xbc, {batch, len, heads * head_dim + 2 * options.groups * state_dim},
                               "heads of state, and groups"));
    VKFORMER_CHECK(check.dtype("steps", steps, DType::f32));
    VKFORMER_CHECK(check.shape("steps", steps, {batch, len, heads}, "heads of state"));
    VKFORMER_CHECK(check.dtype("rates", rates, DType::f32));
    VKFORMER_CHECK(check.shape("rates", rates, {3, heads}, "heads of state"));
    VKFORMER_CHECK(check_place(check, graph, place, batch, "xbc", state, {heads, state_dim, head_dim}));
    if (!(options.least_step >= 0 && options.least_step <= options.most_step))
        return check.error(ErrorCode::InvalidArgument, "steps of " + std::to_string(options.least_step) + " to " +
                                                           std::to_string(options.most_step) +
                                                           ", expected 0 <= least_step <= most_step");
    VKFORMER_CHECK(check_result(check, options.result));
    VKFORMER_TRY(const Value y, graph.activation(SelectiveScan::kName, options.result, {batch, len, heads, head_dim}));
    graph.add_node(SelectiveScan{.xbc = xbc,
                                 .steps = steps,
                                 .rates = rates,
                                 .starts = place.starts,
                                 .counts = place.counts,
                                 .slots = place.slots,
                                 .state = state,
                                 .y = y,
                                 .groups = options.groups,
                                 .least_step = options.least_step,
                                 .most_step = options.most_step});
    return y;
}

}  // namespace vkformer::graph
