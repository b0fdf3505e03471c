// SPDX-License-Identifier: MIT
#include "tuning/workload.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "core/hash.hpp"
#include "core/try.hpp"
#include "tuning/trial_case.hpp"

namespace vkformer::tuning {
namespace {

constexpr int kWorkloadRuns = 4;  // the first one warms caches

std::string name_of(const std::vector<Workload>& workload) {
    std::uint64_t hash = kHashStart;
    const auto add = [&](const std::string& text) { hash = hash_bytes(std::as_bytes(std::span(text)), hash); };
    for (const Workload& part : workload) {
        for (const graph::Node& node : part.graph.nodes()) add(case_key(part.graph, node, true));
        add(std::to_string(part.times));
    }
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
    return digits;
}

Result<void> feed(graph::Program& program, const Workload& part) {
    const graph::Graph& graph = program.plan().graph;
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const graph::Tensor& tensor = graph.tensors()[id];
        if (tensor.alias_of || tensor.kind != graph::TensorKind::input) continue;
        const std::size_t count = tensor.shape.element_count();
        if (const auto given = part.inputs.find(tensor.name); given != part.inputs.end()) {
            VKFORMER_CHECK(program.write(graph::Value{id}, std::span(given->second)));
        } else if (is_real(tensor.dtype)) {
            VKFORMER_CHECK(program.write(graph::Value{id}, std::vector<float>(count)));
        } else {
            VKFORMER_CHECK(program.write(graph::Value{id}, std::vector<std::int32_t>(count)));
        }
    }
    return {};
}

/// The shortest time of the workload, in microseconds.
Result<double> measure(graph::Backend& backend, const std::vector<Workload>& workload) {
    double total = 0;
    const auto weights = backend.make_store(), states = backend.make_store();
    for (const Workload& part : workload) {
        VKFORMER_TRY(const auto program, backend.compile(graph::make_plan_for(backend, part.graph), weights, states));
        VKFORMER_CHECK(feed(*program, part));
        double best = std::numeric_limits<double>::infinity();
        for (int run = 0; run < kWorkloadRuns; ++run) {
            const auto start = std::chrono::steady_clock::now();
            VKFORMER_CHECK(program->submit());
            VKFORMER_CHECK(program->wait());
            const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - start;
            best = std::min(best, wall.count());
        }
        total += best * part.times;
    }
    return total;
}

}  // namespace

std::optional<BackendTimes> known_times(const std::vector<Workload>& workload, const VerdictFile& file) {
    const auto us = file.timings(name_of(workload));
    const auto cpu = us.find("cpu"), vulkan = us.find("vulkan");
    if (cpu == us.end() || vulkan == us.end()) return {};
    return BackendTimes{cpu->second, vulkan->second};
}

Result<BackendTimes> times_of(graph::Backend& cpu, graph::Backend& device, const std::vector<Workload>& workload,
                              VerdictFile& file) {
    if (const auto known = known_times(workload, file)) return *known;
    BackendTimes times;
    VKFORMER_TRY(times.cpu_us, measure(cpu, workload));
    VKFORMER_TRY(times.vulkan_us, measure(device, workload));
    file.set_timings(name_of(workload), {{"cpu", times.cpu_us}, {"vulkan", times.vulkan_us}});
    file.save();
    return times;
}

}  // namespace vkformer::tuning
