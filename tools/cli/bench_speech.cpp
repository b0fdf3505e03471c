// SPDX-License-Identifier: MIT
/// vkformer bench model for a model that hears: how long a window of sound takes, and what limits it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include <nlohmann/json.hpp>

#include "api/default_workloads.hpp"
#include "api/open_backend.hpp"
#include "audio/mel.hpp"
#include "bench/limits.hpp"
#include "bench_memory.hpp"
#include "bench_model.hpp"
#include "bench_program.hpp"
#include "core/platform/process.hpp"
#include "core/try.hpp"
#include "decoding/speech_session.hpp"
#include "decoding/steps.hpp"
#include "device.hpp"
#include "limit_options.hpp"
#include "models/open_model.hpp"
#include "models/speech_config.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;

constexpr std::uint32_t kDefaultSpeechTokens = 64, kDefaultSpeechRuns = 5;

class Stopwatch {
public:
    double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::vector<float> noise(std::size_t count) {
    std::mt19937 generator(1);
    std::normal_distribution<float> distribution(0, 0.1f);
    std::vector<float> samples(count);
    for (float& sample : samples) sample = distribution(generator);
    return samples;
}

/// What the decoder begins with; where the model would hear the language, the first one that it knows.
std::vector<std::int32_t> given_tokens(const models::SpeechConfig& speech) {
    std::vector<std::int32_t> given = {speech.generation.decoder_start};
    for (const std::int32_t token : speech.prefix)
        given.push_back(token >= 0 ? token : speech.languages.begin()->second);
    return given;
}

/// Multiplications and additions of the matrix products and of attention.
double flops_of(const graph::Graph& graph) {
    double flops = 0;
    const auto count = [&](graph::Value value) { return static_cast<double>(graph.shape(value).element_count()); };
    for (const graph::Node& node : graph.nodes()) {
        if (const auto* const linear = std::get_if<graph::Linear>(&node.op)) {
            const Shape& weight = graph.shape(linear->weight);
            flops += 2 * count(linear->x) * static_cast<double>(weight[weight.rank() - 2]);
        } else if (const auto* const attention = std::get_if<graph::Attention>(&node.op)) {
            const auto keys = static_cast<double>(graph.shape(attention->key)[1]);
            flops += 2 * keys * (count(attention->query) + count(attention->y));
        }
    }
    return flops;
}

struct SpeechCost {
    bench::Summary spectrogram;        ///< seconds for one window, on the host
    bench::Summary encoder, decoder;   ///< seconds for the batch
    bench::Summary real_time_factor;   ///< seconds of all three per second of sound
    bench::Summary tokens_per_second;  ///< of all windows together
    bench::Summary host_us;            ///< the caller's CPU time per token
};

/// A model, and how it is run.
struct SpeechBench {
    const models::SpeechModel& speech;
    audio::LogMel mel;
    std::vector<std::int32_t> given;
    decoding::SpeechSessionOptions options;
    std::uint32_t tokens, runs;

    std::size_t frames() const { return 2 * speech.model->limits().source_len; }
    std::size_t samples() const { return frames() * mel.options().hop; }
    double window_seconds() const { return static_cast<double>(samples()) / mel.options().sample_rate; }
    /// The decoder's steps for one window: tokens that are given take one each, too.
    std::uint32_t steps() const { return static_cast<std::uint32_t>(given.size()) - 1 + tokens; }
    models::DecodeLayout layout() const {
        return {.batch = options.batch,
                .beams = options.beams,
                .source_len = static_cast<std::uint32_t>(speech.model->limits().source_len),
                .max_steps = options.rules.generation.max_steps,
                .dtype = options.dtype,
                .weights = options.weights};
    }

    Result<SpeechCost> measure(graph::Backend& backend) const;
};

Result<SpeechCost> SpeechBench::measure(graph::Backend& backend) const {
    VKFORMER_TRY(auto session, decoding::SpeechSession::create(backend, *speech.model, options));
    const std::vector<float> sound = noise(samples());
    const decoding::SpeechRequest request = {.given = given,
                                             .max_length = static_cast<std::uint32_t>(given.size()) + tokens};
    const double sound_seconds = window_seconds() * options.batch;
    std::vector<double> spectrograms, encoders, decoders, factors, rates, host;
    for (std::uint32_t run = 0; run < runs + 1; ++run) {
        const Stopwatch mel_watch;
        const auto features = audio::windows_of(mel.spectrogram(sound, frames()), mel.options().bins);
        const double spectrogram = mel_watch.seconds();
        const std::vector<std::vector<float>> windows(options.batch, features);
        const double cpu = platform::thread_cpu_seconds();
        const Stopwatch encoder_watch;
        VKFORMER_CHECK(session.hear(windows));
        const double encoder = encoder_watch.seconds();
        const Stopwatch decoder_watch;
        VKFORMER_TRY(const auto written, session.write_down(request));
        const double decoder = decoder_watch.seconds();
        if (run == 0) continue;  // compiles, uploads, warms up
        const double steps_in_all = static_cast<double>(steps()) * options.batch;
        spectrograms.push_back(spectrogram);
        encoders.push_back(encoder);
        decoders.push_back(decoder);
        factors.push_back((options.batch * spectrogram + encoder + decoder) / sound_seconds);
        rates.push_back(steps_in_all / decoder);
        host.push_back((platform::thread_cpu_seconds() - cpu) * 1e6 / steps_in_all);
    }
    return SpeechCost{.spectrogram = bench::summarise(std::move(spectrograms)),
                      .encoder = bench::summarise(std::move(encoders)),
                      .decoder = bench::summarise(std::move(decoders)),
                      .real_time_factor = bench::summarise(std::move(factors)),
                      .tokens_per_second = bench::summarise(std::move(rates)),
                      .host_us = bench::summarise(std::move(host))};
}

/// The window whole, and the decoder in the middle of what it writes.
Result<void> feed_speech(graph::Program& program, const models::DecodeLayout& layout) {
    const graph::Graph& graph = program.plan().graph;
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const graph::Tensor& tensor = graph.tensor(graph::Value{id});
        if (tensor.alias_of || is_real(tensor.dtype)) continue;
        if (tensor.kind != graph::TensorKind::input && tensor.kind != graph::TensorKind::state) continue;
        std::int32_t value = 0;
        if (tensor.name == "source_lengths") value = static_cast<std::int32_t>(layout.source_len);
        if (tensor.name == "starts") value = static_cast<std::int32_t>(layout.max_steps / 2);
        if (tensor.name == "given") value = -1;
        VKFORMER_CHECK(program.write(graph::Value{id}, std::vector<std::int32_t>(tensor.shape.element_count(), value)));
    }
    return {};
}

/// The two programs, and what they are bounded by.
struct SpeechPrograms {
    graph::Graph encoder, step;
    double encoder_flops = 0;
    std::uint64_t weight_bytes_per_step = 0, cache_bytes = 0, device_bytes = 0;
};

Result<SpeechPrograms> programs_of(const SpeechBench& bench, bool is_vulkan) {
    VKFORMER_TRY(auto encoder, decoding::encoder_graph(*bench.speech.model, bench.layout()));
    SpeechPrograms programs{.encoder = std::move(encoder.graph)};
    if (bench.options.beams > 1) {
        VKFORMER_TRY(auto step, decoding::speech_beam_graph(*bench.speech.model, bench.layout(), bench.options.rules));
        programs.step = std::move(step.graph);
    } else {
        VKFORMER_TRY(auto step,
                     decoding::speech_step_graph(*bench.speech.model, bench.layout(), bench.options.rules, 0));
        programs.step = std::move(step.graph);
    }
    programs.encoder_flops = flops_of(programs.encoder);
    const graph::Plan encoder_plan = graph::make_plan(programs.encoder), step_plan = graph::make_plan(programs.step);
    const auto encoder_weights = weight_bytes(encoder_plan.graph, is_vulkan),
               step_weights = weight_bytes(step_plan.graph, is_vulkan);
    programs.weight_bytes_per_step = weight_bytes_read(step_plan.graph, step_weights);
    programs.cache_bytes = cache_bytes(step_plan.graph);
    // The encoder writes the keys and values of the source where the decoder reads them.
    programs.device_bytes = device_bytes(encoder_plan, encoder_weights) + device_bytes(step_plan, step_weights) -
                            cache_bytes(encoder_plan.graph);
    return programs;
}

Result<SpeechBench> open_bench(const BenchModelCommand& command, const std::filesystem::path& folder,
                               const models::SpeechModel& speech) {
    const std::uint64_t positions = speech.model->limits().target_len;
    auto config =
        models::load_speech_config(folder, positions, speech.model->limits().target_vocab, {.timestamps = false});
    if (!config) return config.error();
    VKFORMER_TRY(const auto mel, audio::read_mel_options(folder, speech.mel_bins));
    SpeechBench bench{.speech = speech,
                      .mel = audio::LogMel(mel),
                      .given = given_tokens(*config),
                      .options = {.rules = {.generation = config->generation, .timestamps = {}},
                                  .batch = command.batch,
                                  .beams = command.beams > 0 ? command.beams : config->generation.beams,
                                  .dtype = command.device.dtype_value(),
                                  .weights = command.weights.format()},
                      .tokens = command.steps > 0 ? command.steps : kDefaultSpeechTokens,
                      .runs = command.runs > 0 ? command.runs : kDefaultSpeechRuns};
    bench.options.rules.generation.rules.banned.push_back(config->generation.eos);  // so that every run is as long
    const std::uint64_t room = positions + 1 - std::min<std::uint64_t>(positions, bench.given.size());
    if (command.steps > room)
        return Error{ErrorCode::InvalidArgument, "the model has positions for " + std::to_string(room) +
                                                     " tokens behind what it is given, not for " +
                                                     std::to_string(command.steps)};
    bench.tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(bench.tokens, room));
    return bench;
}

}  // namespace

Result<int> bench_speech(const BenchModelCommand& command, const models::Opened<models::SpeechModel>& opened) {
    if (command.length > 0)
        return Error{ErrorCode::InvalidArgument,
                     "a model that hears takes whole windows of sound: leave out --length (--steps are its tokens)"};
    VKFORMER_TRY(const models::SpeechModel speech, opened.load());
    VKFORMER_TRY(const SpeechBench bench, open_bench(command, opened.path, speech));
    VKFORMER_TRY(const auto open, open_options(command.device));
    VKFORMER_TRY(const auto device, api::open_backend(open, [&] {
                     return api::default_workloads(opened, command.device.dtype_value(), command.weights.format());
                 }));
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", device.description.c_str());
    auto* const vulkan_backend = cast_to<vulkan::VulkanBackend>(device.backend.get());

    VKFORMER_TRY(const SpeechCost cost, bench.measure(*device.backend));
    VKFORMER_TRY(const SpeechPrograms programs, programs_of(bench, vulkan_backend != nullptr));
    std::vector<bench::Limit> limits;
    if (vulkan_backend) {
        for (const std::string_view name : {bench::kReadBandwidth, bench::kPeakF32}) {
            VKFORMER_TRY(limits.emplace_back(),
                         bench::measure_limit(vulkan_backend->device(), name, limit_options(command.device.quiet)));
        }
    }
    const bench::Limit* const bandwidth = bench::find_limit(limits, bench::kReadBandwidth);
    const bench::Limit* const peak = bench::find_limit(limits, bench::kPeakF32);
    const double steps_per_second = cost.tokens_per_second.median / bench.options.batch;
    const double read_rate = static_cast<double>(programs.weight_bytes_per_step) * steps_per_second / 1e9;
    const double flop_rate = programs.encoder_flops / cost.encoder.median / 1e9;

    json nodes = json::array();
    std::string nodes_text;
    if (command.nodes && vulkan_backend) {
        VKFORMER_TRY(auto chooser, api::make_chooser(open));
        VKFORMER_TRY(const auto profiler,
                     vulkan::VulkanBackend::create(
                         command.device.device,
                         {.profile = true, .offload = {.bytes = open.offload.bytes}, .chooser = std::move(chooser)}));
        for (const auto& [name, graph] :
             {std::pair("encoder", &programs.encoder), std::pair("decode step", &programs.step)}) {
            VKFORMER_TRY(const auto program,
                         measure({.name = name,
                                  .graph = graph,
                                  .runs = bench.runs,
                                  .prepare = [&](graph::Program& p) { return feed_speech(p, bench.layout()); }},
                                 *device.backend, profiler.get()));
            nodes.push_back(as_json(program));
            nodes_text += "\n" + as_text(program, command.top);
        }
    }
    if (command.json) {
        json report = {{"model", opened.path.string()},
                       {"device", device.description},
                       {"dtype", command.device.dtype},
                       {"batch", bench.options.batch},
                       {"beams", bench.options.beams},
                       {"window_seconds", bench.window_seconds()},
                       {"given_tokens", bench.given.size()},
                       {"generated_tokens", bench.tokens},
                       {"runs", bench.runs},
                       {"spectrogram_seconds", summary_json(cost.spectrogram)},
                       {"encoder_seconds", summary_json(cost.encoder)},
                       {"decoder_seconds", summary_json(cost.decoder)},
                       {"decode_tokens_per_second", summary_json(cost.tokens_per_second)},
                       {"real_time_factor", summary_json(cost.real_time_factor)},
                       {"host_cpu_us_per_token", summary_json(cost.host_us)},
                       {"encoder_gflop", programs.encoder_flops / 1e9},
                       {"encoder_gflop_per_second", flop_rate},
                       {"weight_bytes_per_step", programs.weight_bytes_per_step},
                       {"weight_gb_per_second", read_rate},
                       {"device_bytes", programs.device_bytes},
                       {"cache_bytes", programs.cache_bytes},
                       {"peak_host_bytes", platform::peak_resident_bytes()},
                       {"programs", nodes}};
        if (bandwidth) report["read_bandwidth_gb_per_second"] = bandwidth->value;
        if (peak) report["peak_f32_gflop_per_second"] = peak->value;
        VKFORMER_CHECK(print_json(report));
        return kOk;
    }
    const double whole = bench.options.batch * cost.spectrogram.median + cost.encoder.median + cost.decoder.median;
    const auto share = [&](double seconds) { return 100 * seconds / whole; };
    std::string out = line("%.2f s of sound, %u tokens, batch %u, %u beams: real-time factor %.4f (MAD %.4f)\n",
                           bench.window_seconds(), bench.tokens, bench.options.batch, bench.options.beams,
                           cost.real_time_factor.median, cost.real_time_factor.mad);
    out += line("spectrogram %.1f ms per window, on the host: %.0f %%\n", 1e3 * cost.spectrogram.median,
                share(bench.options.batch * cost.spectrogram.median));
    out += line("encoder %.1f ms (MAD %.1f): %.0f %%; %.2f GFLOP at %.1f GFLOP/s", 1e3 * cost.encoder.median,
                1e3 * cost.encoder.mad, share(cost.encoder.median), programs.encoder_flops / 1e9, flop_rate);
    out += peak ? line(", %.0f %% of the device's %.1f\n", 100 * flop_rate / peak->value, peak->value) : "\n";
    out += line(
        "decoder %.1f ms (MAD %.1f): %.0f %%; %.1f tokens/s (MAD %.1f); a step reads %.1f MiB of weights: "
        "%.2f GB/s",
        1e3 * cost.decoder.median, 1e3 * cost.decoder.mad, share(cost.decoder.median), cost.tokens_per_second.median,
        cost.tokens_per_second.mad, mebibytes(programs.weight_bytes_per_step), read_rate);
    out += bandwidth ? line(", %.0f %% of the device's %.1f\n", 100 * read_rate / bandwidth->value, bandwidth->value)
                     : "\n";
    out += line(
        "caller's CPU %.1f us per token; device memory %.1f MiB (%.1f of them keys and values), peak of the "
        "process %.1f MiB\n",
        cost.host_us.median, mebibytes(programs.device_bytes), mebibytes(programs.cache_bytes),
        mebibytes(platform::peak_resident_bytes()));
    VKFORMER_CHECK(print(out + nodes_text));
    return kOk;
}

}  // namespace vkformer::cli
