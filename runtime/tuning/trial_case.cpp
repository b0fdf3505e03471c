// SPDX-License-Identifier: MIT
#include "tuning/trial_case.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "core/block_format.hpp"
#include "core/try.hpp"
#include "graph/pages.hpp"

namespace vkformer::tuning {
namespace {

using graph::Access;
using graph::Graph;
using graph::Tensor;
using graph::Value;

std::uint64_t rounded_width(std::uint64_t size, bool exact) { return exact ? size : std::bit_ceil(size); }

/// 1, 8, 64, 512, …
std::uint64_t rounded_count(std::uint64_t size, bool exact) {
    if (exact) return size;
    const auto bits = static_cast<unsigned>(std::bit_width(size - 1));  // 0 for 1
    return std::uint64_t{1} << (bits + 2) / 3 * 3;
}

std::string shape_text(std::span<const std::uint64_t> dims, bool exact) {
    std::string text = "[";
    for (std::size_t i = 0; i < dims.size(); ++i)
        text += i + 1 < dims.size() ? std::to_string(rounded_count(dims[i], exact)) + ","
                                    : std::to_string(rounded_width(dims[i], exact));
    return text + "]";
}

std::string mask_text(const graph::AttentionMask& mask) {
    return std::string(mask.causal ? " causal" : "") + (mask.window ? " window" : "") +
           (mask.additive ? " additive" : "") + (mask.sinks ? " sinks" : "");
}

std::string mask_text(const graph::Op& op) {
    return graph::visit_op(
        [](const auto& o) -> std::string {
            if constexpr (requires { o.mask.causal; }) return mask_text(o.mask);
            return {};
        },
        op);
}

/// The shapes that a trial takes in place of those of the model, by tensor.
using Shapes = std::map<std::uint32_t, Shape>;

void reshape_rows(Shapes& shapes, const Graph& graph, Value value, std::uint64_t rows, std::uint64_t width) {
    if (value) shapes[value.id] = graph.shape(value).rank() == 1 ? Shape{width} : Shape{rows, width};
}

/// Of a weight: as much as no cache of a GPU holds, and what is copied there in a moment.
constexpr double kMostElements = 1 << 26;

/// Halves the rows of a product, not below 64, and its columns, not below 256, until its work is at most `max_work`.
void lessen(const auto& work, double max_work, Fewer first, std::uint64_t& rows, std::uint64_t& out, bool in_pairs) {
    const auto fewer_rows = [&] {
        while (work() > max_work && rows > 64) rows = (rows + 1) / 2;
    };
    if (first == Fewer::rows) fewer_rows();
    while (work() > max_work && out > 256) out = in_pairs ? (out / 2 + 1) / 2 * 2 : (out + 1) / 2;
    fewer_rows();
}

/// Products of a batch: fewer of them first, then smaller ones.
void limit_batch(const graph::Linear& op, const Graph& graph, double max_work, Fewer first, Shapes& shapes) {
    const std::uint64_t in = graph.shape(op.x).back();
    const Shape& y = graph.shape(op.y);
    std::uint64_t batch = y[0], rows = y[1], out = y[2];
    const auto work = [&] {
        return static_cast<double>(batch * rows) * static_cast<double>(in) * static_cast<double>(out);
    };
    while (work() > max_work && batch > 2) batch = (batch + 1) / 2;
    lessen(work, max_work, first, rows, out, false);
    shapes[op.x.id] = {std::min(batch, graph.shape(op.x)[0]), rows, in};
    shapes[op.weight.id] = {std::min(batch, graph.shape(op.weight)[0]), out, in};
    if (op.epilogue.bias) shapes[op.epilogue.bias.id] = {out};
    if (op.epilogue.residual) shapes[op.epilogue.residual.id] = {batch, rows, out};
    shapes[op.y.id] = {batch, rows, out};
}

/// One product whose work is at most `max_work`.
void limit(const graph::Linear& op, const Graph& graph, double max_work, Fewer first, Shapes& shapes) {
    if (graph.shape(op.weight).rank() == 3) return limit_batch(op, graph, max_work, first, shapes);
    const std::uint64_t in = graph.shape(op.x).back();
    std::uint64_t rows = graph.shape(op.x).row_count(), out = graph.shape(op.weight)[0];
    const auto work = [&] { return static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out); };
    while (static_cast<double>(in) * static_cast<double>(out) > kMostElements && out > 256)
        out = op.is_gated() ? (out / 2 + 1) / 2 * 2 : (out + 1) / 2;
    lessen(work, max_work, first, rows, out, op.is_gated());
    reshape_rows(shapes, graph, op.x, rows, in);
    reshape_rows(shapes, graph, op.weight, out, in);
    reshape_rows(shapes, graph, op.epilogue.bias, 1, out);
    reshape_rows(shapes, graph, op.epilogue.residual, rows, out);
    reshape_rows(shapes, graph, op.y, rows, op.is_gated() ? out / 2 : out);
}
/// As for one product; fewer experts before fewer columns, but so many that rows still have several.
void limit(const graph::ExpertLinear& op, const Graph& graph, double max_work, Fewer first, Shapes& shapes) {
    const std::uint64_t in = graph.shape(op.x).back(), slots = graph.shape(op.experts)[1];
    std::uint64_t rows = graph.shape(op.experts)[0], out = graph.shape(op.y).back();
    std::uint64_t experts = graph.shape(op.weight)[0] / out;
    const auto work = [&] {
        return static_cast<double>(rows * slots) * static_cast<double>(in) * static_cast<double>(out);
    };
    lessen(work, max_work, first, rows, out, false);
    while (static_cast<double>(experts * out) * static_cast<double>(in) > kMostElements && experts > 16)
        experts = (experts + 1) / 2;
    shapes[op.x.id] = graph.shape(op.x).rank() == 3 ? Shape{rows, slots, in} : Shape{rows, in};
    shapes[op.weight.id] = {experts * out, in};
    shapes[op.experts.id] = {rows, slots};
    shapes[op.y.id] = {rows, slots, out};
}
void limit(const auto&, const Graph&, double, Fewer, Shapes&) {}

std::vector<float> random_floats(std::uint64_t count, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random()) * 0x1p-31f - 1.0f;
    return values;
}

/// `values` as `dtype` stores them. Requires whole blocks.
std::vector<std::byte> stored(DType dtype, std::span<const float> values) {
    std::vector<std::byte> bytes(bytes_of(dtype, values.size()));
    const auto store = [&](auto convert) {
        using Element = decltype(convert(0.0f));
        for (std::size_t i = 0; i < values.size(); ++i) {
            const Element element = convert(values[i]);
            std::memcpy(bytes.data() + i * sizeof(Element), &element, sizeof(Element));
        }
    };
    if (is_quantized(dtype))
        quantize(dtype, values, bytes);
    else if (dtype == DType::f16)
        store(float_to_half);
    else if (dtype == DType::bf16)
        store(float_to_bfloat);
    else
        store([](float value) { return value; });
    return bytes;
}

/// Some weights again and again: to make all of them would take longer than the trial. Their number, in elements or in blocks, is a prime, so
/// that rows differ.
TensorData random_weights(DType dtype, const Shape& shape, std::uint32_t seed) {
    const std::uint64_t count = is_quantized(dtype) ? 251 * block_elements(dtype) : 65537;
    const std::vector<std::byte> period = stored(dtype, random_floats(count, seed));
    const auto all = std::make_shared<std::vector<std::byte>>(bytes_of(dtype, shape.element_count()));
    for (std::size_t i = 0; i < all->size(); i += period.size())
        std::copy_n(period.begin(), std::min(period.size(), all->size() - i),
                    all->begin() + static_cast<std::ptrdiff_t>(i));
    return {.dtype = dtype, .shape = shape, .bytes = std::span<const std::byte>(*all), .owner = all};
}

/// Integers that mean something wherever they are read: the whole of a sequence, its first position, the first token.
std::int32_t integer_for(std::string_view operand, const graph::Op& op, const Graph& graph) {
    const auto keys = graph::visit_op(
        [&](const auto& o) -> std::uint64_t {
            if constexpr (requires {
                              o.key;
                              o.mask;
                          })
                return graph::capacity_of(graph, o.key, o.pages);
            if constexpr (requires {
                              graph.shape(o.scores);
                              o.weights;
                          })
                return graph.shape(o.scores).back();
            return 1;
        },
        op);
    const auto queries = graph::visit_op(
        [&](const auto& o) -> std::uint64_t {
            if constexpr (requires {
                              o.query;
                              o.mask;
                          })
                return graph.shape(o.query)[1];
            return 1;
        },
        op);
    if (operand == "key_lengths") return static_cast<std::int32_t>(keys);
    if (operand == "starts") return static_cast<std::int32_t>(keys > queries ? keys - queries : 0);
    return 0;
}

/// Of a layer that keeps states: every sequence goes on from what its own row of the state holds, with all of the tokens.
std::optional<std::vector<std::int32_t>> state_place_for(std::string_view operand, const graph::Op& op,
                                                         std::uint64_t count) {
    const bool keeps_states = graph::visit_op(
        [](const auto& o) {
            return requires { o.slots; };
        },
        op);
    if (!keeps_states) return std::nullopt;
    std::vector<std::int32_t> values(count, operand == "counts" ? std::numeric_limits<std::int32_t>::max() : 1);
    if (operand == "slots")  // what is read, and what is written
        for (std::uint64_t i = 0; i < count; ++i) values[i] = static_cast<std::int32_t>(i / 2);
    return values;
}

/// A table that leads through all pages of the op's caches, as far as it goes.
std::vector<std::int32_t> table_for(const graph::Op& op, const Graph& graph, std::uint64_t count) {
    const std::uint64_t pages = graph::visit_op(
        [&](const auto& o) -> std::uint64_t {
            if constexpr (requires { o.key, o.pages; }) return graph.shape(o.key)[0];
            if constexpr (requires { o.cache, o.pages; }) return graph.shape(o.cache)[0];
            if constexpr (requires { o.key_cache, o.pages; }) return graph.shape(o.key_cache)[0];
            return 1;
        },
        op);
    std::vector<std::int32_t> table(count);
    for (std::uint64_t i = 0; i < count; ++i) table[i] = static_cast<std::int32_t>(i % pages);
    return table;
}

/// Makes the graph from the op itself and not as a case of tools/cases: what is tried is the plan's own node, with the operands and
/// attributes that it has there, and no other.
class Builder {
public:
    Builder(const Graph& graph, const graph::Op& op, Shapes shapes)
        : graph_(graph), op_(op), shapes_(std::move(shapes)) {}

    Result<TrialCase> build() {
        graph::Op op = op_;
        Result<void> status;
        graph::for_each_operand(op, [&](std::string_view name, Value& operand, Access access) {
            if (status) status = replace(name, operand, access);
        });
        VKFORMER_CHECK(status);
        made_.graph.add_node(std::move(op));
        return std::move(made_);
    }

private:
    Result<void> replace(std::string_view name, Value& operand, Access access) {
        if (const auto known = copies_.find(operand.id); known != copies_.end()) {
            operand = known->second;
            return {};
        }
        VKFORMER_TRY(const Value copy, make(name, graph_.tensor(operand), shape_of(operand), access));
        copies_.emplace(operand.id, copy);
        operand = copy;
        return {};
    }

    Result<Value> make(std::string_view name, const Tensor& like, const Shape& shape, Access access) {
        const DType dtype = like.dtype;
        const std::string unique = std::string(name) + "." + std::to_string(copies_.size());
        if (access == Access::write) {
            VKFORMER_TRY(const Value y, made_.graph.activation(unique, dtype, shape));
            made_.graph.mark_output(y);
            made_.results.push_back(y);
            return y;
        }
        if (access == Access::scratch) return made_.graph.state(unique, dtype, shape);
        if (like.kind == graph::TensorKind::weight && is_real(dtype))
            return made_.graph.weight(
                unique, random_weights(dtype, shape, static_cast<std::uint32_t>(copies_.size() + 1)), dtype);
        const bool is_cache = dtype == DType::q8_0;  // which only a state can be
        VKFORMER_TRY(const Value value, access == Access::read && !is_cache ? made_.graph.input(unique, dtype, shape)
                                                                            : made_.graph.state(unique, dtype, shape));
        if (access == Access::read_write) made_.results.push_back(value);
        const std::uint64_t count = shape.element_count();
        if (is_real(dtype))
            made_.contents.emplace_back(value, random_floats(count, static_cast<std::uint32_t>(copies_.size() + 1)));
        else if (const auto places = state_place_for(name, op_, count))
            made_.contents.emplace_back(value, *places);
        else if (name == "pages")
            made_.contents.emplace_back(value, table_for(op_, graph_, count));
        else if (const auto* const search = std::get_if<graph::BeamStep>(&op_); search && name == "state")
            made_.contents.emplace_back(value, fresh_search(*search, count));
        else if (const auto* const product = std::get_if<graph::ExpertLinear>(&op_))
            made_.contents.emplace_back(value, experts_in_turns(*product, count));
        else
            made_.contents.emplace_back(value, std::vector<std::int32_t>(count, integer_for(name, op_, graph_)));
        return value;
    }

    const Shape& shape_of(Value value) const {
        const auto limited = shapes_.find(value.id);
        return limited == shapes_.end() ? graph_.shape(value) : limited->second;
    }

    /// All experts have about as many rows, as a trained router sees to.
    std::vector<std::int32_t> experts_in_turns(const graph::ExpertLinear& op, std::uint64_t count) const {
        const std::uint64_t experts = shape_of(op.weight)[0] / shape_of(op.y).back();
        std::vector<std::int32_t> turns(count);
        for (std::uint64_t i = 0; i < count; ++i) turns[i] = static_cast<std::int32_t>(i % experts);
        return turns;
    }

    /// Every sequence is searched, and no token was found yet: a search that is over would show nothing.
    std::vector<std::int32_t> fresh_search(const graph::BeamStep& op, std::uint64_t count) const {
        const std::uint64_t batch = shape_of(op.candidate_scores)[0] / op.beams;
        std::vector<std::int32_t> state(count, 0);  // done, the step, and the limit stand behind the sequences
        std::fill_n(state.begin(), batch, 1);
        state[batch + 2] = static_cast<std::int32_t>(op.max_steps);
        return state;
    }

    const Graph& graph_;
    const graph::Op& op_;
    Shapes shapes_;
    TrialCase made_;
    std::map<std::uint32_t, Value> copies_;
};

}  // namespace

std::string case_key(const Graph& graph, const graph::Node& node, bool exact) {
    std::string key(graph::op_name(node.op));
    const auto* const linear = std::get_if<graph::Linear>(&node.op);
    const bool is_one_product = linear && graph.shape(linear->weight).rank() == 2;
    if (linear && linear->is_gated()) key += " gated";
    if (linear && linear->prologue) key += " normed";
    graph::for_each_operand(node.op, [&](std::string_view name, Value value, Access access) {
        const DType dtype = graph.dtype(value);
        const bool is_table = name == "pages";  // how much of the caches is read
        if (access == Access::read && dtype == DType::i32 && !is_table) return;
        key += " " + std::string(name) + "=" + std::string(to_string(dtype));
        if (name == "norm_gain" || name == "bias" || name == "residual")
            return;  // their presence is in the key, and their shape in that of y
        const Shape& shape = graph.shape(value);
        if (is_one_product && name != "weight")
            key += shape_text(std::array{shape.row_count(), shape.back()}, exact);
        else if (is_one_product)  // its rows are the width of y
            key += "[" + std::to_string(rounded_width(shape[0], exact)) + "," +
                   std::to_string(rounded_width(shape[1], exact)) + "]";
        else
            key += shape_text(shape.dims(), exact);
    });
    return key + mask_text(node.op);
}

Result<TrialCase> make_trial_case(const Graph& graph, const graph::Node& node, double max_work, Fewer first) {
    try {
        Shapes shapes;
        graph::visit_op([&](const auto& op) { limit(op, graph, max_work, first, shapes); }, node.op);
        return Builder(graph, node.op, std::move(shapes)).build();
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfHostMemory, node.name + ": not enough memory to try its variants"};
    }
}

}  // namespace vkformer::tuning
