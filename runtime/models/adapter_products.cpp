// SPDX-License-Identifier: MIT
#include "models/adapter_products.hpp"

#include <bit>
#include <cmath>
#include <vector>

#include "core/try.hpp"
#include "graph/builders/constant.hpp"

namespace vkformer::models {

using graph::Value;

std::vector<std::int32_t> AdapterSet::adapter_words(std::span<const std::span<const float>> rows) const {
    std::vector<std::int32_t> words;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        for (std::size_t a = 0; a < rows[r].size(); ++a)
            words.insert(words.end(), adapters[a].rank, std::bit_cast<std::int32_t>(rows[r][a] * adapters[a].scale));
        words.resize((r + 1) * adapter_columns, std::bit_cast<std::int32_t>(0.0f));
    }
    return words;
}

std::vector<float> AdapterSet::adapter_numbers(std::span<const float> scales, std::size_t rows) const {
    std::vector<float> numbers;
    for (const std::int32_t word : adapter_words(std::vector<std::span<const float>>(rows, scales)))
        numbers.push_back(std::bit_cast<float>(word));
    return numbers;
}

Result<void> AdapterSet::check_adapters(std::span<const float> scales) const {
    if (scales.size() != adapters.size())
        return Error{ErrorCode::InvalidArgument, std::to_string(scales.size()) + " scales of adapters were given, " +
                                                     std::to_string(adapters.size()) + " adapters are loaded"};
    for (const float scale : scales) {
        if (!(std::abs(scale) <= kMostAdapterScale))
            return Error{ErrorCode::InvalidArgument,
                         "an adapter's scale is " + std::to_string(scale) + ", expected a number from −1000 to 1000"};
    }
    return {};
}

Result<Value> AdapterProducts::add(const std::string& scope, std::initializer_list<const Projection*> parts, Value x,
                                   Value y) {
    const LowRank& first = (*parts.begin())->adapters;
    if (!scales_ || !first) return y;
    std::vector<TensorData> ups;
    for (const Projection* part : parts) ups.push_back(part->adapters.up);
    graph_.set_scope(scope + ".adapters");
    VKFORMER_TRY(const Value up, graph_.weight(scope + ".adapters.up", std::move(ups), dtype_));
    VKFORMER_TRY(const Value inner, scaled_product(scope, first.down, x));
    VKFORMER_TRY(const Value added, graph::linear(graph_, inner, up, {}, graph_.dtype(y)));
    return graph::add(graph_, y, added);
}

Result<Value> AdapterProducts::add_rows(const std::string& scope, const LowRank& table, Value ids, Value y) {
    if (!scales_ || !table) return y;
    graph_.set_scope(scope + ".adapters");
    if (!ids) {
        const std::uint64_t rows = graph_.shape(y)[0], len = graph_.shape(y)[1];
        VKFORMER_TRY(ids, graph::constant(graph_, scope + ".0", {rows, len}, std::vector<std::int32_t>(rows * len, 0)));
    }
    VKFORMER_TRY(const Value down, graph_.weight(scope + ".adapters.down", table.down, dtype_));
    VKFORMER_TRY(const Value up, graph_.weight(scope + ".adapters.up", table.up, dtype_));
    VKFORMER_TRY(const Value chosen, graph::embedding(graph_, ids, down, 1, dtype_));
    VKFORMER_TRY(const Value inner, scaled(chosen));
    VKFORMER_TRY(const Value added, graph::linear(graph_, inner, up, {}, graph_.dtype(y)));
    return graph::add(graph_, y, added);
}

Result<Value> AdapterProducts::scaled_product(const std::string& scope, const TensorData& data, Value x) {
    if (last_down_ == data.bytes.data() && last_x_ == x) return last_inner_;
    VKFORMER_TRY(const Value down, graph_.weight(scope + ".adapters.down", data, dtype_));
    VKFORMER_TRY(const Value inner, graph::linear(graph_, x, down));
    VKFORMER_TRY(last_inner_, scaled(inner));
    last_down_ = data.bytes.data();
    last_x_ = x;
    return last_inner_;
}

Result<Value> AdapterProducts::scaled(Value inner) {
    const Shape shape = graph_.shape(inner);
    const std::uint64_t rows = shape.rank() > 2 && shape[0] == 1 ? 1 : graph_.shape(scales_)[0];
    VKFORMER_TRY(const Value scales,
                 token_scales(shape.row_count(), rows, shape.back() / graph_.shape(scales_).back()));
    VKFORMER_TRY(const Value flat, graph_.reshape(scales, shape));
    return graph::gated_activation(graph_, inner, flat, graph::Activation::none);
}

Result<Value> AdapterProducts::token_scales(std::uint64_t tokens, std::uint64_t rows, std::uint64_t copies) {
    Value& known = token_scales_[{tokens, rows, copies}];
    if (known) return known;
    const std::uint64_t len = tokens / rows;
    std::vector<std::int32_t> owners;
    for (std::uint64_t r = 0; r < rows; ++r) owners.insert(owners.end(), len * copies, static_cast<std::int32_t>(r));
    VKFORMER_TRY(const Value of_tokens,
                 graph::constant(graph_, "adapters.rows", {rows, len, copies}, std::move(owners)));
    VKFORMER_TRY(known, graph::embedding(graph_, of_tokens, scales_, 1, dtype_));
    return known;
}

}  // namespace vkformer::models
