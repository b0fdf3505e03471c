// SPDX-License-Identifier: MIT
#include "bench_program.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include <nlohmann/json.hpp>

#include "bench/measure.hpp"
#include "core/platform/process.hpp"
#include "core/try.hpp"
#include "line.hpp"

namespace vkformer::cli {

using nlohmann::json;

Result<ProgramCost> measure(const ProgramMeasurement& wanted, graph::Backend& backend,
                            vulkan::VulkanBackend* profiler) {
    const graph::Plan plan = graph::make_plan_for(backend, *wanted.graph);
    ProgramCost cost{.name = wanted.name,
                     .nodes = plan.graph.nodes().size(),
                     .barriers = plan.barrier_count(),
                     .arena_bytes = plan.arena_bytes,
                     .unshared_bytes = plan.unshared_bytes,
                     .runs_per_submit = wanted.runs_per_submit};
    VKFORMER_TRY(const auto program, backend.compile(plan, backend.make_store(), backend.make_store()));
    std::vector<double> wall, host;
    const auto begin = std::chrono::steady_clock::now();
    const std::chrono::duration<double> warm_up(bench::warm_up_seconds_for(backend));
    for (std::uint32_t run = 0; wall.size() < wanted.runs; ++run) {
        VKFORMER_CHECK(wanted.prepare(*program));
        const double cpu = platform::thread_cpu_seconds();
        const auto start = std::chrono::steady_clock::now();
        VKFORMER_CHECK(program->submit(wanted.runs_per_submit));
        VKFORMER_CHECK(program->wait());
        const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
        if (run < 2 || start - begin < warm_up) continue;
        wall.push_back(elapsed.count() / wanted.runs_per_submit);
        host.push_back((platform::thread_cpu_seconds() - cpu) * 1e6 / wanted.runs_per_submit);
    }
    cost.wall_us = bench::summarise(std::move(wall));
    cost.host_us = bench::summarise(std::move(host));
    if (!profiler || profiler->capabilities().timestamp_valid_bits == 0) return cost;

    VKFORMER_TRY(const auto profiled, profiler->compile_program(plan, profiler->make_store(), profiler->make_store()));
    std::vector<std::vector<double>> samples(cost.nodes);
    for (std::uint32_t run = 0; run < wanted.runs + 2; ++run) {
        VKFORMER_CHECK(wanted.prepare(*profiled));
        VKFORMER_CHECK(profiled->submit());
        VKFORMER_TRY(cost.nodes_ns, profiled->node_times());
        for (std::size_t i = 0; i < cost.nodes && run >= 2; ++i) samples[i].push_back(cost.nodes_ns[i].gpu_ns);
    }
    for (std::size_t i = 0; i < cost.nodes; ++i) cost.nodes_ns[i].gpu_ns = bench::median_of(samples[i]);
    return cost;
}

json as_json(const ProgramCost& cost) {
    json nodes = json::array();
    for (const vulkan::NodeTime& node : cost.nodes_ns)
        nodes.push_back(
            {{"node", node.node}, {"op", node.op}, {"shader", node.shader}, {"device_us", node.gpu_ns / 1e3}});
    return {{"program", cost.name},
            {"nodes", cost.nodes},
            {"barriers", cost.barriers},
            {"arena_bytes", cost.arena_bytes},
            {"unshared_bytes", cost.unshared_bytes},
            {"runs_per_submit", cost.runs_per_submit},
            {"wall_us", {{"median", cost.wall_us.median}, {"mad", cost.wall_us.mad}}},
            {"host_cpu_us", {{"median", cost.host_us.median}, {"mad", cost.host_us.mad}}},
            {"device_us", nodes}};
}

std::string as_text(const ProgramCost& cost, std::size_t top) {
    std::string out = line("%s: %zu nodes, %zu barriers, arena %.1f KiB (%.1f KiB without reuse)\n", cost.name.c_str(),
                           cost.nodes, cost.barriers, static_cast<double>(cost.arena_bytes) / 1024,
                           static_cast<double>(cost.unshared_bytes) / 1024);
    out += line("  wall %.1f us (MAD %.1f), caller's CPU %.1f us (MAD %.1f) per run, %u runs per submit\n",
                cost.wall_us.median, cost.wall_us.mad, cost.host_us.median, cost.host_us.mad, cost.runs_per_submit);
    if (cost.nodes_ns.empty()) return out + "\n";
    struct OpTime {
        double ns = 0;
        std::size_t nodes = 0;
    };
    std::map<std::string, OpTime> by_op;
    double total = 0;
    for (const vulkan::NodeTime& node : cost.nodes_ns) {
        by_op[node.op].ns += node.gpu_ns;
        by_op[node.op].nodes += 1;
        total += node.gpu_ns;
    }
    out += line("  device %.1f us in all, by op:\n", total / 1e3);
    std::vector<std::pair<std::string, OpTime>> ops(by_op.begin(), by_op.end());
    std::ranges::sort(ops, std::greater<>(), [](const auto& op) { return op.second.ns; });
    for (const auto& [op, time] : ops)
        out += line("    %-22s %3zu nodes %10.1f us %5.1f %%\n", op.c_str(), time.nodes, time.ns / 1e3,
                    100 * time.ns / std::max(total, 1.0));
    std::vector<vulkan::NodeTime> nodes = cost.nodes_ns;
    std::ranges::sort(nodes, std::greater<>(), &vulkan::NodeTime::gpu_ns);
    out += "  longest nodes:\n";
    for (std::size_t i = 0; i < std::min(top, nodes.size()); ++i)
        out +=
            line("    %-44s %-26s %10.1f us\n", nodes[i].node.c_str(), nodes[i].shader.c_str(), nodes[i].gpu_ns / 1e3);
    return out + "\n";
}

}  // namespace vkformer::cli
