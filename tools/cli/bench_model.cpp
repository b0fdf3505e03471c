// SPDX-License-Identifier: MIT
/// vkformer bench model: what a generation costs on a device: wall and host time per program, device time per node.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include <nlohmann/json.hpp>

#include "api/open_backend.hpp"
#include "bench.hpp"
#include "bench/statistics.hpp"
#include "core/try.hpp"
#include "decoding/steps.hpp"
#include "device.hpp"
#include "models/generation_config.hpp"
#include "models/load.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;

struct BenchModelCommand {
    DeviceOptions device;
    ModelOption model;
    std::uint32_t batch = 1, beams = 0, length = 32, steps = 16, runs = 15, top = 12;
    bool json = false;
};

/// CPU time of this thread: what recording, submitting and waiting cost the caller, without what a driver's threads do.
double thread_cpu_us() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct ProgramCost {
    std::string name;
    std::size_t nodes = 0, barriers = 0;
    std::uint64_t arena_bytes = 0, unshared_bytes = 0;
    std::uint32_t runs_per_submit = 1;
    bench::Summary wall_us, host_us;         // per run of the program
    std::vector<vulkan::NodeTime> nodes_ns;  // medians over the runs; empty without timestamps
};

/// Tokens, lengths and states as a generation starts with them.
Result<void> feed(graph::Program& program, const models::DecodeLayout& layout) {
    const graph::Graph& graph = program.plan().graph;
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const graph::Tensor& tensor = graph.tensor(graph::Value{id});
        if (tensor.alias_of || (tensor.kind != graph::TensorKind::input && tensor.kind != graph::TensorKind::state))
            continue;
        const std::size_t count = tensor.shape.element_count();
        if (is_float(tensor.dtype)) {
            VKFORMER_CHECK(program.write(graph::Value{id}, std::vector<float>(count, 0.0f)));
            continue;
        }
        std::vector<std::int32_t> values(count, 0);
        if (tensor.name == "source_lengths") std::ranges::fill(values, static_cast<std::int32_t>(layout.source_len));
        if (tensor.name == "state") std::fill_n(values.begin(), layout.batch, 1);
        VKFORMER_CHECK(program.write(graph::Value{id}, values));
    }
    return {};
}

Result<ProgramCost> measure(const std::string& name, const graph::Graph& graph, const models::DecodeLayout& layout,
                            std::uint32_t runs_per_submit, const BenchModelCommand& command, graph::Backend& backend,
                            vulkan::VulkanBackend* profiler) {
    const graph::Plan plan = graph::make_plan(graph);
    ProgramCost cost{.name = name,
                     .nodes = plan.graph.nodes().size(),
                     .barriers = plan.barrier_count(),
                     .arena_bytes = plan.arena_bytes,
                     .unshared_bytes = plan.unshared_bytes,
                     .runs_per_submit = runs_per_submit};
    VKFORMER_TRY(const auto program, backend.compile(plan, backend.make_store(), backend.make_store()));
    std::vector<double> wall, host;
    for (std::uint32_t run = 0; run < command.runs + 2; ++run) {
        VKFORMER_CHECK(feed(*program, layout));
        const double cpu = thread_cpu_us();
        const auto start = std::chrono::steady_clock::now();
        VKFORMER_CHECK(program->submit(runs_per_submit));
        VKFORMER_CHECK(program->wait());
        const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
        if (run < 2) continue;  // warm-up
        wall.push_back(elapsed.count() / runs_per_submit);
        host.push_back((thread_cpu_us() - cpu) / runs_per_submit);
    }
    cost.wall_us = bench::summarise(std::move(wall));
    cost.host_us = bench::summarise(std::move(host));
    if (!profiler || profiler->capabilities().timestamp_valid_bits == 0) return cost;

    VKFORMER_TRY(const auto profiled, profiler->compile_program(plan, profiler->make_store(), profiler->make_store()));
    std::vector<std::vector<double>> samples(cost.nodes);
    for (std::uint32_t run = 0; run < command.runs + 2; ++run) {
        VKFORMER_CHECK(feed(*profiled, layout));
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

std::string line(const char* format, auto... values) {
    char text[256];
    std::snprintf(text, sizeof text, format, values...);
    return text;
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

Result<int> run(const BenchModelCommand& command) {
    VKFORMER_TRY(const auto folder, command.model.find());
    VKFORMER_TRY(const auto model, models::load_encoder_decoder(folder));
    VKFORMER_TRY(auto generation, models::load_generation_config(folder, model->limits().target_len));
    if (command.beams > 0) generation.beams = command.beams;
    const auto limits = model->limits();
    if (command.length > limits.source_len || command.steps > limits.target_len)
        return Error{ErrorCode::InvalidArgument, "the model takes at most " + std::to_string(limits.source_len) +
                                                     " source tokens and " + std::to_string(limits.target_len) +
                                                     " steps"};
    const models::DecodeLayout layout = {.batch = command.batch,
                                         .beams = generation.beams,
                                         .source_len = command.length,
                                         .max_steps = command.steps,
                                         .dtype = command.device.dtype_value()};
    generation.max_steps = command.steps;

    VKFORMER_TRY(const auto open, open_options(command.device));
    VKFORMER_TRY(const auto device, api::open_backend(open));
    std::unique_ptr<vulkan::VulkanBackend> profiler;
    if (command.device.device != "cpu") {
        VKFORMER_TRY(auto chooser, api::make_chooser(open));
        VKFORMER_TRY(profiler, vulkan::VulkanBackend::create(command.device.device,
                                                             {.profile = true, .chooser = std::move(chooser)}));
    }
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", device.description.c_str());

    VKFORMER_TRY(const auto encoder, decoding::encoder_graph(*model, layout));
    VKFORMER_TRY(const auto step, decoding::step_graph(*model, layout, generation));
    json programs = json::array();
    for (const auto& [name, graph, per_submit] :
         {std::tuple("encoder", &encoder.graph, 1u), std::tuple("decode step", &step.graph, command.steps)}) {
        VKFORMER_TRY(const auto cost,
                     measure(name, *graph, layout, per_submit, command, *device.backend, profiler.get()));
        if (command.json) {
            programs.push_back(as_json(cost));
        } else {
            VKFORMER_CHECK(print(as_text(cost, command.top)));
        }
    }
    if (command.json)
        VKFORMER_CHECK(print(json{{"model", folder.string()},
                                  {"device", device.description},
                                  {"dtype", command.device.dtype},
                                  {"batch", layout.batch},
                                  {"beams", layout.beams},
                                  {"source_len", layout.source_len},
                                  {"steps", layout.max_steps},
                                  {"runs", command.runs},
                                  {"programs", programs}}
                                 .dump(2) +
                             "\n"));
    return kOk;
}

}  // namespace

void add_bench_model(CLI::App& bench, Action& action) {
    auto options = std::make_shared<BenchModelCommand>();
    CLI::App& command = *bench.add_subcommand("model", "The programs of a generation: wall, host and device time");
    options->model.add(command);
    command.add_option("--batch", options->batch, "Sequences")->check(CLI::Range(1u, 1024u))->capture_default_str();
    command.add_option("-b,--beams", options->beams, "Beams (default: what the model folder says)")
        ->check(CLI::Range(1u, graph::kMaxBeams));
    command.add_option("--length", options->length, "Source tokens")
        ->check(CLI::Range(1u, 65536u))
        ->capture_default_str();
    command.add_option("--steps", options->steps, "Decode steps, queued in one submit")
        ->check(CLI::Range(1u, 4096u))
        ->capture_default_str();
    command.add_option("--runs", options->runs, "Measured repetitions")
        ->check(CLI::Range(1u, 10000u))
        ->capture_default_str();
    command.add_option("--top", options->top, "Nodes to list")->capture_default_str();
    command.add_flag("--json", options->json, "Print everything as JSON");
    options->device.add_device(command);
    options->device.add_dtype(command);
    command.footer(
        "Medians over the runs, after two that are not counted. Device times are taken in a profiled copy of the "
        "program, in\n"
        "which no two nodes overlap. The caller's CPU time leaves out what the driver's own threads do.\n"
        "Examples:\n"
        "  vkformer bench model\n"
        "  vkformer bench model --device llvmpipe --batch 32 --beams 4 --json");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
