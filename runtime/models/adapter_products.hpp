// SPDX-License-Identifier: MIT
/// What low-rank adapters add to the values of one graph, whatever the model is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>

#include "graph/builders.hpp"
#include "models/layer_weights.hpp"

namespace vkformer::models {

/// Borrows the graph. Both functions give y as it is where no adapter counts, or none has to do with the weights.
class AdapterProducts {
public:
    /// `dtype`: of activations. `scales`: f32 [rows, columns], what AdapterSet::adapter_words gives; absent: no adapter counts.
    AdapterProducts(graph::Graph& graph, DType dtype, graph::Value scales)
        : graph_(graph), dtype_(dtype), scales_(scales) {}

    /// y, the product of x with the parts' weights one behind the other, and what the adapters add to it. `scope`: the product's. x has the
    /// tokens of all rows of the scales, one row behind the other; what begins with a dimension of 1 is the first row's.
    Result<graph::Value> add(const std::string& scope, std::initializer_list<const Projection*> parts, graph::Value x,
                             graph::Value y);
    /// y [rows, len, width], rows of a table that ids i32 [rows, len] choose (absent: its row 0 for all), and what the adapters add to it.
    Result<graph::Value> add_rows(const std::string& scope, const LowRank& table, graph::Value ids, graph::Value y);

private:
    /// s ⊙ (down · x), once for weights that have it in common and are multiplied one by one.
    Result<graph::Value> scaled_product(const std::string& scope, const TensorData& data, graph::Value x);
    /// s ⊙ inner
    Result<graph::Value> scaled(graph::Value inner);
    /// The scales of each of so many tokens, which rows have alike many of, `copies` times.
    Result<graph::Value> token_scales(std::uint64_t tokens, std::uint64_t rows, std::uint64_t copies);

    graph::Graph& graph_;
    DType dtype_;
    graph::Value scales_;
    std::map<std::array<std::uint64_t, 3>, graph::Value> token_scales_;  // by what token_scales is asked
    const std::byte* last_down_ = nullptr;                               // what last_inner_ was made with
    graph::Value last_x_, last_inner_;
};

}  // namespace vkformer::models
