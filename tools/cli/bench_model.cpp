// SPDX-License-Identifier: MIT
/// vkformer bench model: what a generation costs on a device: wall and host time per program, device time per node.
#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "api/default_workloads.hpp"
#include "api/open_backend.hpp"
#include "bench.hpp"
#include "bench_model.hpp"
#include "bench_program.hpp"
#include "core/try.hpp"
#include "decoding/steps.hpp"
#include "device.hpp"
#include "models/generation_config.hpp"
#include "models/open_model.hpp"
#include "passes.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;

/// Tokens, lengths and states as a generation starts with them.
Result<void> feed_translation(graph::Program& program, const models::DecodeLayout& layout) {
    const graph::Graph& graph = program.plan().graph;
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const graph::Tensor& tensor = graph.tensor(graph::Value{id});
        if (tensor.alias_of || (tensor.kind != graph::TensorKind::input && tensor.kind != graph::TensorKind::state))
            continue;
        const std::size_t count = tensor.shape.element_count();
        if (is_real(tensor.dtype)) {
            VKFORMER_CHECK(program.write(graph::Value{id}, std::vector<float>(count, 0.0f)));
            continue;
        }
        std::vector<std::int32_t> values(count, 0);
        if (tensor.name == "source_lengths") std::ranges::fill(values, static_cast<std::int32_t>(layout.source_len));
        if (tensor.name == "state") {
            std::fill_n(values.begin(), layout.batch, 1);
            values.back() = static_cast<std::int32_t>(layout.max_steps);
        }
        VKFORMER_CHECK(program.write(graph::Value{id}, values));
    }
    return {};
}

constexpr std::uint32_t kDefaultLength = 32, kDefaultSteps = 16, kDefaultModelRuns = 15;

struct BenchDevices {
    api::OpenedBackend opened;
    std::unique_ptr<vulkan::VulkanBackend> profiler;  // the same device; null for the CPU backend
};

Result<BenchDevices> open_devices(const BenchModelCommand& command, const models::OpenedModel& model) {
    BenchDevices devices;
    VKFORMER_TRY(const auto open, open_options(command.device));
    VKFORMER_TRY(devices.opened, api::open_backend(open, [&] {
                     return api::default_workloads(model, command.device.dtype_value(), command.weights.format());
                 }));
    if (cast_to<const vulkan::VulkanBackend>(devices.opened.backend.get())) {
        VKFORMER_TRY(auto chooser, api::make_chooser(open));
        VKFORMER_TRY(devices.profiler,
                     vulkan::VulkanBackend::create(
                         command.device.device,
                         {.profile = true, .offload = {.bytes = open.offload.bytes}, .chooser = std::move(chooser)}));
    }
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", devices.opened.description.c_str());
    return devices;
}

Result<void> feed(graph::Program& program, const validation::Feeds& feeds) {
    const graph::Graph& graph = program.plan().graph;
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const auto found = feeds.find(graph.tensor(graph::Value{id}).name);
        if (found == feeds.end() || graph.tensor(graph::Value{id}).alias_of) continue;
        VKFORMER_CHECK(
            std::visit([&](const auto& values) { return program.write(graph::Value{id}, values); }, found->second));
    }
    return {};
}

/// An encoder of texts or of images.
template <OnePass Model>
Result<int> bench(const BenchModelCommand& command, const models::Opened<Model>& opened) {
    if (command.beams > 1) return Error{ErrorCode::InvalidArgument, "the model answers in one pass: leave out --beams"};
    if (command.weights.storage() != WeightStorage::model)
        return Error{ErrorCode::InvalidArgument, "an encoder's blocks stay what they are: leave out --weights"};
    const std::uint32_t runs = command.runs == 0 ? kDefaultModelRuns : command.runs;
    VKFORMER_TRY(const auto passes, passes_of(opened, {.batch = command.batch,
                                                       .length = command.length == 0 ? kDefaultLength : command.length,
                                                       .dtype = command.device.dtype_value()}));
    VKFORMER_TRY(const auto devices, open_devices(command, opened));
    json programs = json::array();
    for (const Pass& pass : passes) {
        VKFORMER_TRY(const auto cost,
                     measure({.name = pass.name,
                              .graph = &pass.graph,
                              .runs = runs,
                              .prepare = [&](graph::Program& program) { return feed(program, pass.feeds); }},
                             *devices.opened.backend, devices.profiler.get()));
        const double rate = command.batch / (cost.wall_us.median * 1e-6);
        if (command.json) {
            json program = as_json(cost);
            program[pass.items + "_per_second"] = rate;
            programs.push_back(std::move(program));
        } else {
            char line[64];
            std::snprintf(line, sizeof line, "%.1f %s per second\n", rate, pass.items.c_str());
            VKFORMER_CHECK(print(as_text(cost, command.top) + line));
        }
    }
    if (command.json)
        VKFORMER_CHECK(print_json({{"model", opened.path.string()},
                                   {"device", devices.opened.description},
                                   {"dtype", command.device.dtype},
                                   {"batch", command.batch},
                                   {"runs", runs},
                                   {"programs", programs}}));
    return kOk;
}

Result<int> bench(const BenchModelCommand& given,
                  const models::Opened<std::unique_ptr<models::EncoderDecoder>>& opened) {
    BenchModelCommand command = given;
    if (command.length == 0) command.length = kDefaultLength;
    if (command.steps == 0) command.steps = kDefaultSteps;
    if (command.runs == 0) command.runs = kDefaultModelRuns;
    VKFORMER_TRY(const auto model, opened.load());
    VKFORMER_TRY(auto generation,
                 models::load_generation_config(opened.path, model->limits().target_len, model->limits().target_vocab));
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
                                         .dtype = command.device.dtype_value(),
                                         .weights = command.weights.format()};
    generation.max_steps = command.steps;

    VKFORMER_TRY(const auto devices, open_devices(command, opened));
    VKFORMER_TRY(const auto encoder, decoding::encoder_graph(*model, layout));
    VKFORMER_TRY(const auto step, decoding::step_graph(*model, layout, generation));
    json programs = json::array();
    for (const auto& [name, graph, per_submit] :
         {std::tuple("encoder", &encoder.graph, 1u), std::tuple("decode step", &step.graph, command.steps)}) {
        VKFORMER_TRY(const auto cost,
                     measure({.name = name,
                              .graph = graph,
                              .runs_per_submit = per_submit,
                              .runs = command.runs,
                              .prepare = [&](graph::Program& program) { return feed_translation(program, layout); }},
                             *devices.opened.backend, devices.profiler.get()));
        if (command.json) {
            programs.push_back(as_json(cost));
        } else {
            VKFORMER_CHECK(print(as_text(cost, command.top)));
        }
    }
    if (command.json)
        VKFORMER_CHECK(print_json({{"model", opened.path.string()},
                                   {"device", devices.opened.description},
                                   {"dtype", command.device.dtype},
                                   {"weights", command.weights.dtype},
                                   {"batch", layout.batch},
                                   {"beams", layout.beams},
                                   {"source_len", layout.source_len},
                                   {"steps", layout.max_steps},
                                   {"runs", command.runs},
                                   {"programs", programs}}));
    return kOk;
}

Result<int> bench(const BenchModelCommand& command, const models::Opened<models::Decoder>& opened) {
    return bench_decoder(command, opened);
}
Result<int> bench(const BenchModelCommand& command, const models::Opened<models::SpeechModel>& opened) {
    VKFORMER_TRY(const auto speech, opened.load());
    return speech.ctc ? bench<models::SpeechModel>(command, opened) : bench_speech(command, opened);
}

Result<int> run(const BenchModelCommand& command) {
    VKFORMER_TRY(const auto path, command.model.find());
    VKFORMER_TRY(const auto model, open_model(command.device, path));
    return std::visit([&](const auto& opened) { return bench(command, opened); }, model);
}

}  // namespace

void add_bench_model(CLI::App& bench, Action& action) {
    auto options = std::make_shared<BenchModelCommand>();
    CLI::App& command =
        *bench.add_subcommand("model", "A model: tokens per second, and wall, host and device time of its programs");
    options->model.add(command);
    command.add_option("--batch", options->batch, "Sequences")->check(CLI::Range(1u, 1024u))->capture_default_str();
    command
        .add_option("-b,--beams", options->beams,
                    "Beams (default: what the folder of an encoder–decoder or a Whisper says, else 1)")
        ->check(CLI::Range(1u, graph::kMaxBeams));
    command
        .add_option("--length", options->length,
                    "Tokens of the source or the prompt (default: 32 or 256); none of a model that hears")
        ->check(CLI::Range(1u, 1u << 20));
    command
        .add_option("--steps", options->steps,
                    "Decode steps (default: 16; 32 of a decoder-only model; 64 of one that hears)")
        ->check(CLI::Range(1u, 1u << 16));
    command.add_option("--runs", options->runs, "Measured repetitions (default: 15, or 5)")
        ->check(CLI::Range(1u, 10000u));
    options->weights.add(command);
    options->cache.add(command);
    command.add_flag("--nodes", options->nodes,
                     "Of a decoder-only model and one that hears: the times of the nodes too");
    command.add_option("--top", options->top, "Nodes to list")->capture_default_str();
    command.add_flag("--json", options->json, "Print everything as JSON");
    options->device.add_device(command);
    options->device.add_strict(command);
    options->device.add_dtype(command);
    command.footer(
        "Medians over the runs, after two that are not counted, or as many as a GPU does in 0.3 s. Device times are\n"
        "taken in a profiled copy of the program, in which no two nodes overlap. The caller's CPU time leaves out "
        "what\n"
        "the driver's own threads do.\n"
        "Examples:\n"
        "  vkformer bench model\n"
        "  vkformer bench model --device llvmpipe --batch 32 --beams 4 --json\n"
        "  vkformer bench model --model smollm-135m.gguf --beams 4\n"
        "  vkformer bench model --model whisper-small --batch 4 --nodes");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
