// SPDX-License-Identifier: MIT
#include "bench_memory.hpp"

#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "cpu/weight_bytes.hpp"

namespace vkformer::cli {

std::vector<std::uint64_t> weight_bytes(const graph::Graph& graph, bool is_vulkan) {
    if (!is_vulkan) return cpu::weight_bytes(graph);
    std::vector<std::uint64_t> bytes(graph.tensors().size());
    for (std::size_t id = 0; id < bytes.size(); ++id) {
        const graph::Tensor& tensor = graph.tensors()[id];
        if (!tensor.alias_of && tensor.kind == graph::TensorKind::weight) bytes[id] = graph::storage_bytes(tensor);
    }
    return bytes;
}

std::uint64_t weight_bytes_read(const graph::Graph& graph, std::span<const std::uint64_t> weights) {
    std::set<std::uint32_t> looked_up, read;
    for (const graph::Node& node : graph.nodes())
        graph::for_each_operand(node.op, [&](std::string_view name, graph::Value value, graph::Access) {
            const bool is_table = std::holds_alternative<graph::Embedding>(node.op) && name == "table";
            (is_table ? looked_up : read).insert(graph.storage(value).id);
        });
    std::uint64_t bytes = 0;
    for (const std::uint32_t id : read) bytes += weights[id];
    return bytes;
}

std::uint64_t device_bytes(const graph::Plan& plan, std::span<const std::uint64_t> weights) {
    std::uint64_t bytes = std::accumulate(weights.begin(), weights.end(), plan.arena_bytes);
    for (const graph::Tensor& tensor : plan.graph.tensors())
        if (!tensor.alias_of && tensor.kind != graph::TensorKind::activation &&
            tensor.kind != graph::TensorKind::weight)
            bytes += graph::storage_bytes(tensor);
    return bytes;
}

std::uint64_t cache_bytes(const graph::Graph& graph) {
    std::uint64_t bytes = 0;
    for (const graph::Tensor& tensor : graph.tensors())
        if (!tensor.alias_of && tensor.kind == graph::TensorKind::state && is_real(tensor.dtype))
            bytes += graph::storage_bytes(tensor);
    return bytes;
}

nlohmann::json summary_json(const bench::Summary& summary) {
    return {{"median", summary.median},
            {"mad", summary.mad},
            {"low", summary.interval.low},
            {"high", summary.interval.high},
            {"runs", summary.runs}};
}

}  // namespace vkformer::cli
