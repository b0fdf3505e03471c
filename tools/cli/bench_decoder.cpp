// SPDX-License-Identifier: MIT
/// vkformer bench model for decoder-only models: tokens per second of prompt and answer, and what limits them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "api/decoder_workload.hpp"
#include "api/open_backend.hpp"
#include "bench/limits.hpp"
#include "bench/measure.hpp"
#include "bench_memory.hpp"
#include "bench_model.hpp"
#include "bench_program.hpp"
#include "core/platform/process.hpp"
#include "core/try.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_steps.hpp"
#include "device.hpp"
#include "limit_options.hpp"
#include "models/open_model.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::cli {
namespace {

using decoding::DecoderSession;
using decoding::DecoderSessionOptions;
using nlohmann::json;

constexpr std::uint32_t kDefaultPrompt = 256, kDefaultDecoderTokens = 32, kDefaultDecoderRuns = 5;

struct DecoderCost {
    double first_token_seconds = 0;  ///< since the start of the process, the first time; with beams the first text
    bench::Summary prompt_rate, decode_rate;  ///< tokens per second
    bench::Summary host_us;                   ///< caller's CPU time per generated token
    std::uint64_t bytes_per_token = 0, device_bytes = 0, cache_bytes = 0, host_bytes = 0;
};

decoding::Request request_of(const models::Decoder& model, std::uint32_t prompt, std::uint32_t tokens,
                             std::uint32_t salt) {
    decoding::Request request{.prompt = std::vector<std::int32_t>(prompt + 1), .max_tokens = tokens};
    const std::uint32_t vocab = model.config().vocab_size;
    for (std::uint32_t i = 0; i < request.prompt.size(); ++i)
        request.prompt[i] = static_cast<std::int32_t>((7919u * (i + salt) + 13u) % vocab);
    return request;
}

/// `generate`: continues the requests, of which no two begin alike, and gives what that took.
using Generate =
    std::function<Result<decoding::DecoderTimings>(std::span<const decoding::Request>, double& first_token_seconds)>;

Result<Generate> generation_of(const models::Decoder& model, DecoderSessionOptions options,
                               const BenchModelCommand& command, graph::Backend& backend) {
    using Timings = Result<decoding::DecoderTimings>;
    api::choose_chunks(backend, options);
    if (command.beams > 1) {
        VKFORMER_TRY(auto made, decoding::BeamSession::create(backend, model, options, {.beams = command.beams}));
        const auto session = std::make_shared<decoding::BeamSession>(std::move(made));
        return Generate([session](std::span<const decoding::Request> requests, double& first_token_seconds) -> Timings {
            VKFORMER_CHECK(session->run(requests));
            if (first_token_seconds == 0) first_token_seconds = platform::process_seconds();
            return session->timings();
        });
    }
    VKFORMER_TRY(auto made, DecoderSession::create(backend, model, options));
    const auto session = std::make_shared<DecoderSession>(std::move(made));
    return Generate([session](std::span<const decoding::Request> requests, double& first_token_seconds) -> Timings {
        session->clear();
        VKFORMER_CHECK(session->run(requests, [&](std::size_t, std::int32_t) {
            if (first_token_seconds == 0) first_token_seconds = platform::process_seconds();
            return true;
        }));
        return session->timings();
    });
}

Result<DecoderCost> measure_rates(const models::Decoder& model, const DecoderSessionOptions& options,
                                  const BenchModelCommand& command, graph::Backend& backend) {
    DecoderCost cost;
    VKFORMER_TRY(const Generate generate, generation_of(model, options, command, backend));
    std::vector<double> prompt, decode, host;
    const double warm_up_seconds = bench::warm_up_seconds_for(backend);
    std::optional<double> warm_since;
    for (std::uint32_t run = 0; host.size() < command.runs; ++run) {
        std::vector<decoding::Request> requests;
        for (std::uint32_t b = 0; b < command.batch; ++b)
            requests.push_back(request_of(model, command.length, command.steps, run * 1000 + b));
        const double cpu = platform::thread_cpu_seconds();
        VKFORMER_TRY(const auto t, generate(requests, cost.first_token_seconds));
        const double cpu_us = (platform::thread_cpu_seconds() - cpu) * 1e6;
        if (!warm_since) warm_since = platform::process_seconds();  // compiled, uploaded
        if (run == 0 || platform::process_seconds() - *warm_since < warm_up_seconds) continue;
        const double generated = static_cast<double>(t.decode_steps) * command.batch;
        if (t.prompt_tokens > 0) prompt.push_back(static_cast<double>(t.prompt_tokens) / t.prompt_seconds);
        decode.push_back(generated / t.decode_seconds);
        host.push_back(cpu_us / generated);
    }
    if (!prompt.empty()) cost.prompt_rate = bench::summarise(std::move(prompt));
    cost.decode_rate = bench::summarise(std::move(decode));
    cost.host_us = bench::summarise(std::move(host));
    return cost;
}

/// The step of a generation, or of a beam search.
Result<graph::Graph> step_graph(const models::Decoder& model, const DecoderSessionOptions& options,
                                std::uint32_t beams) {
    if (beams > 1) {
        VKFORMER_TRY(auto search, decoding::beam_step_graph(model, options, {.beams = beams}, -1, 0));
        return std::move(search.graph);
    }
    VKFORMER_TRY(auto step, decoding::step_graph(model, options));
    return std::move(step.graph);
}

/// Positions of the middle of the generation, so that attention reads as much as it does on average; a beam search begins there.
Result<void> feed_decoder(graph::Program& program, std::uint32_t start) {
    const graph::Graph& graph = program.plan().graph;
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const graph::Tensor& tensor = graph.tensor(graph::Value{id});
        const bool starts = tensor.name == "starts" || tensor.name == "shared", is_search = tensor.name == "state";
        const bool is_count = tensor.name == "chunk_counts";
        const bool is_zero = tensor.name == "chunk_starts" || tensor.name == "tokens" || tensor.name == "chunk_slots" ||
                             tensor.name == "state_slots";
        if (tensor.alias_of || !(starts || is_search || is_count || is_zero)) continue;
        constexpr std::int32_t kAll = std::numeric_limits<std::int32_t>::max();  // that the chunk has
        std::vector<std::int32_t> values(tensor.shape.element_count(), starts     ? static_cast<std::int32_t>(start)
                                                                       : is_count ? kAll
                                                                                  : 0);
        if (is_search) {  // of graph::BeamStates: one sequence that can improve, with steps left
            values.front() = 1;
            values.back() = std::numeric_limits<std::int32_t>::max();
        }
        VKFORMER_CHECK(program.write(graph::Value{id}, values));
    }
    return {};
}

}  // namespace

Result<int> bench_decoder(const BenchModelCommand& given, const models::Opened<models::Decoder>& opened) {
    BenchModelCommand command = given;
    if (command.length == 0) command.length = kDefaultPrompt;
    if (command.steps == 0) command.steps = kDefaultDecoderTokens;
    if (command.runs == 0) command.runs = kDefaultDecoderRuns;
    if (command.beams == 0) command.beams = 1;
    VKFORMER_TRY(const models::Decoder model, opened.load());
    const DecoderSessionOptions options = {
        .rows = command.batch,
        .context = std::min(command.length + 1 + command.steps, model.config().max_positions),
        .dtype = command.device.dtype_value(),
        .weights = command.weights.format(),
        .cache = command.cache.format()};
    VKFORMER_TRY(const auto open, open_options(command.device));
    VKFORMER_TRY(const auto device, api::open_backend(open, [&] { return api::decoder_workload(model, options); }));
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", device.description.c_str());

    VKFORMER_TRY(DecoderCost cost, measure_rates(model, options, command, *device.backend));
    VKFORMER_TRY(const graph::Graph step, step_graph(model, options, command.beams));
    const graph::Plan step_plan = graph::make_plan_for(*device.backend, step);
    auto* const vulkan_backend = cast_to<vulkan::VulkanBackend>(device.backend.get());
    const std::vector<std::uint64_t> weights = weight_bytes(step_plan.graph, vulkan_backend != nullptr);
    cost.bytes_per_token = weight_bytes_read(step_plan.graph, weights);
    cost.device_bytes = device_bytes(step_plan, weights);
    cost.cache_bytes = cache_bytes(step_plan.graph);
    cost.host_bytes = platform::peak_resident_bytes();

    std::vector<bench::Limit> limits;
    if (vulkan_backend) {
        VKFORMER_TRY(limits.emplace_back(), bench::measure_limit(vulkan_backend->device(), bench::kReadBandwidth,
                                                                 limit_options(command.device.quiet)));
    }
    const bench::Limit* const bandwidth = bench::find_limit(limits, bench::kReadBandwidth);
    const double read_rate = static_cast<double>(cost.bytes_per_token) * cost.decode_rate.median / command.batch / 1e9;

    json programs = json::array();
    std::string nodes;
    if (command.nodes && vulkan_backend) {
        VKFORMER_TRY(auto chooser, api::make_chooser(open));
        VKFORMER_TRY(const auto profiler,
                     vulkan::VulkanBackend::create(
                         command.device.device,
                         {.profile = true, .offload = {.bytes = open.offload.bytes}, .chooser = std::move(chooser)}));
        VKFORMER_TRY(const auto chunk, decoding::chunk_graph(model, options, std::min(options.chunk, command.length),
                                                             false, command.beams > 1 ? command.beams : 0));
        for (const auto& [name, graph] : {std::pair("prompt chunk", &chunk.graph), std::pair("decode step", &step)}) {
            VKFORMER_TRY(const auto program,
                         measure({.name = name,
                                  .graph = graph,
                                  .runs = command.runs,
                                  .prepare = [&](graph::Program& p) { return feed_decoder(p, command.length); }},
                                 *device.backend, profiler.get()));
            if (command.json)
                programs.push_back(as_json(program));
            else
                nodes += as_text(program, command.top);
        }
    }
    if (command.json) {
        json report = {{"model", opened.path.string()},
                       {"device", device.description},
                       {"dtype", command.device.dtype},
                       {"weights", command.weights.dtype},
                       {"cache_dtype", command.cache.is_q8_0() ? "q8_0" : command.device.dtype},
                       {"cache_bytes", cost.cache_bytes},
                       {"batch", command.batch},
                       {"beams", command.beams},
                       {"prompt_tokens", command.length},
                       {"generated_tokens", command.steps},
                       {"prompt_tokens_per_second", summary_json(cost.prompt_rate)},
                       {"decode_tokens_per_second", summary_json(cost.decode_rate)},
                       {"host_cpu_us_per_token", summary_json(cost.host_us)},
                       {"weight_bytes_per_step", cost.bytes_per_token},
                       {"weight_gb_per_second", read_rate},
                       {"first_token_seconds", cost.first_token_seconds},
                       {"device_bytes", cost.device_bytes},
                       {"peak_host_bytes", cost.host_bytes},
                       {"programs", programs}};
        if (bandwidth) report["read_bandwidth_gb_per_second"] = bandwidth->value;
        VKFORMER_CHECK(print_json(report));
        return kOk;
    }
    std::string out = line("prompt of %u: %.1f tokens/s (MAD %.1f)   %u generated: %.1f tokens/s (MAD %.1f)   ",
                           command.length, cost.prompt_rate.median, cost.prompt_rate.mad, command.steps,
                           cost.decode_rate.median, cost.decode_rate.mad);
    out += command.beams > 1 ? line("%u beams\n", command.beams) : line("batch %u\n", command.batch);
    out += line("caller's CPU %.1f us per token; a step reads %.1f MiB of weights: %.2f GB/s", cost.host_us.median,
                mebibytes(cost.bytes_per_token), read_rate);
    out += bandwidth ? line(", %.0f %% of the device's %.1f\n", 100 * read_rate / bandwidth->value, bandwidth->value)
                     : "\n";
    out += line(
        "first %s %.2f s after the start of the process; device memory %.1f MiB (%.1f of them the %s cache), peak "
        "of the process %.1f "
        "MiB\n",
        command.beams > 1 ? "text" : "token", cost.first_token_seconds, mebibytes(cost.device_bytes),
        mebibytes(cost.cache_bytes), command.cache.is_q8_0() ? "q8_0" : command.device.dtype.c_str(),
        mebibytes(cost.host_bytes));
    VKFORMER_CHECK(print(out + (nodes.empty() ? "" : "\n" + nodes)));
    return kOk;
}

}  // namespace vkformer::cli
