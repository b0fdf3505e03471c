// SPDX-License-Identifier: MIT
/// Values that a graph carries along.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/hash.hpp"
#include "graph/graph.hpp"

namespace vkformer::graph {

/// A weight f32 or i32, after its T, of that shape. Weights are shared by name between graphs, so the name
/// tells shapes and values apart.
template <class T>
Result<Value> constant(Graph& graph, const std::string& name, Shape shape, std::vector<T> values) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, std::int32_t>);
    constexpr DType kDType = std::is_same_v<T, float> ? DType::f32 : DType::i32;
    const auto kept = std::make_shared<std::vector<T>>(std::move(values));
    const auto bytes = std::as_bytes(std::span(*kept));
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(hash_bytes(bytes)));
    const std::string full_name = name + "." + to_string(shape) + "." + hash;
    return graph.weight(full_name, {.dtype = kDType, .shape = std::move(shape), .bytes = bytes, .owner = kept}, kDType);
}

}  // namespace vkformer::graph
