// SPDX-License-Identifier: MIT
#include "vulkan/offload.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/stable_order.hpp"
#include "graph/ops.hpp"

namespace vkformer::vulkan {

std::vector<PlacedWeight> placed_weights(const PiecedPlan& pieced, std::span<const graph::Tensor* const> weights) {
    const graph::Graph& graph = pieced.plan.graph;
    std::vector<double> parts(graph.tensors().size(), 0);  // by tensor id
    const auto size = [&](graph::Value v, std::size_t axis) { return static_cast<double>(graph.shape(v)[axis]); };
    const auto last = [&](graph::Value v) { return size(v, graph.shape(v).rank() - 1); };
    for (const graph::Node& node : graph.nodes()) {
        const auto* const lookup = std::get_if<graph::Embedding>(&node.op);
        const auto* const experts = std::get_if<graph::ExpertLinear>(&node.op);
        graph::for_each_operand(node.op, [&](std::string_view, graph::Value value, graph::Access) {
            double part = 1;
            if (lookup && value.id == lookup->table.id) part = 1 / size(value, 0);
            if (experts && value.id == experts->weight.id)  // [count · out, in]
                part = last(experts->experts) * last(experts->y) / size(value, 0);
            double& most = parts[graph.storage(value).id];
            most = std::max(most, part);
        });
    }
    for (const auto& [id, cut] : pieced.cut)
        for (const TensorPiece& piece : cut.pieces) parts[piece.value.id] = parts[id];
    std::vector<PlacedWeight> result;
    for (const graph::Tensor* weight : weights)
        result.push_back(
            {graph::storage_bytes(*weight), parts[static_cast<std::size_t>(weight - graph.tensors().data())]});
    return result;
}

std::vector<bool> choose_offloaded(std::span<const PlacedWeight> weights, std::uint64_t bytes) {
    constexpr std::uint64_t kSmallBytes = 64 << 10;
    const auto group_of = [&](std::size_t i) {
        return std::pair(weights[i].bytes < kSmallBytes, weights[i].part_read);
    };
    const auto rank = [&](std::size_t i) { return std::pair(group_of(i), ~weights[i].bytes); };
    // By group, the larger first.
    const std::vector<std::size_t> order =
        stable_order(weights.size(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
    std::vector<bool> chosen(weights.size(), false);
    std::uint64_t left = bytes;
    const auto choose = [&](std::size_t i) {
        chosen[i] = true;
        left -= std::min(left, weights[i].bytes);
    };
    for (auto first = order.begin(); first != order.end() && left > 0;) {
        const auto last =
            std::find_if(first, order.end(), [&](std::size_t i) { return group_of(i) != group_of(*first); });
        auto least = last;  // that is larger than what is left
        for (; first != last; ++first) {
            if (weights[*first].bytes <= left)
                choose(*first);
            else
                least = first;
        }
        if (left > 0 && least != last) choose(*least);
    }
    return chosen;
}

std::string to_string(const OffloadCost& cost) {
    constexpr double kMiB = 1 << 20;
    char text[160];
    std::snprintf(text, sizeof text,
                  "%.1f MiB of weights stay in the host's memory; a token reads %.1f MiB of them over the bus",
                  static_cast<double>(cost.bytes) / kMiB, cost.bytes_per_run / kMiB);
    std::string result = text;
    if (cost.bytes_per_second > 0) {
        std::snprintf(text, sizeof text, ", which takes %.1f ms at %.1f GB/s",
                      cost.bytes_per_run / cost.bytes_per_second * 1e3, cost.bytes_per_second / 1e9);
        result += text;
    }
    return result;
}

}  // namespace vkformer::vulkan
