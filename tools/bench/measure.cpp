// SPDX-License-Identifier: MIT
#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "core/platform/system.hpp"
#include "core/try.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kMaxCopies = 256;
constexpr std::size_t kMaxNodes = 64;                        // of a timed program
constexpr std::uint64_t kMaxBytes = std::uint64_t{2} << 30;  // of all copies

double seconds_since(SteadyClock::time_point start) {
    return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

/// The named variant for every node that has it. Errors: InvalidArgument (none has).
Result<vulkan::ChosenVariants> name_variants(const graph::Graph& graph, const vulkan::VulkanBackend& backend,
                                             const std::string& variant) {
    vulkan::ChosenVariants chosen;
    std::string known;
    bool found = false;
    for (const graph::Node& node : graph.nodes()) {
        const auto kernels = vulkan::fitting_kernels(node.op, {graph, backend.capabilities()});
        const bool has = vulkan::find_kernel(kernels, variant) != nullptr;
        found = found || has;
        chosen.push_back(has ? variant : "");
        known = vulkan::names_of(kernels);
    }
    if (found) return chosen;
    return Error{ErrorCode::InvalidArgument,
                 "no variant \"" + variant + "\" for this shape on this device; there is: " + known};
}

Result<std::unique_ptr<graph::Program>> compile(const Target& target, const graph::Graph& graph,
                                                const std::string& variant, vulkan::Timestamps timestamps) {
    graph::Plan plan = graph::make_plan(graph, {.fuse = false});
    graph::Backend& backend = *target.backend;
    auto weights = backend.make_store(), states = backend.make_store();
    if (!target.vulkan) return backend.compile(std::move(plan), weights, states);
    vulkan::ProgramOptions options;
    if (variant.empty()) {
        VKFORMER_TRY(options, target.vulkan->default_options(plan));
    } else {
        VKFORMER_TRY(options.variants, name_variants(plan.graph, *target.vulkan, variant));
    }
    options.timestamps = timestamps;
    VKFORMER_TRY(auto program, target.vulkan->compile_program(std::move(plan), weights, states, options));
    return std::unique_ptr<graph::Program>(std::move(program));
}

vulkan::VulkanProgram* profiled(graph::Program& program, const Target& target) {
    const bool has_timestamps = target.vulkan && target.vulkan->capabilities().timestamp_valid_bits > 0;
    return has_timestamps ? cast_to<vulkan::VulkanProgram>(&program) : nullptr;
}

/// A program of several runs of a case: over copies of the operands, or the same again and again.
Result<cases::CaseBuilder> repeated(const cases::Case& c, std::size_t copies, std::size_t runs) {
    cases::CaseBuilder builder;
    for (std::size_t copy = 0; copy < copies; ++copy) {
        builder.begin_copy(copy);
        VKFORMER_CHECK(c.build(builder));
    }
    const std::vector<graph::Node> once(builder.graph.nodes().begin(), builder.graph.nodes().end());
    for (std::size_t run = copies; run < runs; run += copies)
        for (const graph::Node& node : once) builder.graph.add_node(node.op);
    return builder;
}

/// How a timed submission is made up.
struct Rotation {
    std::size_t copies = 1, runs = 1;
    double run_seconds = 0;  // about what a run takes
    vulkan::Timestamps timestamps = vulkan::Timestamps::nodes;
};

/// What the tensors of a graph take.
double memory_of(const graph::Graph& graph) {
    double bytes = 0;
    for (const graph::Tensor& tensor : graph.tensors())
        if (!tensor.alias_of) bytes += static_cast<double>(graph::storage_bytes(tensor));
    return bytes;
}

/// `once` is one run of the case, `run_seconds` what it took. Copies that would make a submission take long are left out: a run that takes that long
/// fills the caches anew many times.
Rotation plan_rotation(const cases::Case& c, const graph::Graph& once, const MeasureOptions& options,
                       double run_seconds, vulkan::Timestamps timestamps) {
    const auto at_most = [](double wanted, double most) { return std::max(1.0, std::floor(std::min(wanted, most))); };
    const double longest = options.stopping.max_seconds / 4 / run_seconds;  // runs
    double copies = 1;
    if (options.cache == Cache::cold) {
        copies = std::ceil(static_cast<double>(options.cold_bytes) / c.work.bytes());
        copies = at_most(copies, static_cast<double>(kMaxBytes) / memory_of(once));
        copies = at_most(copies, std::min(static_cast<double>(kMaxCopies), std::max(2.0, longest)));
    }
    const double runs = at_most(kSubmitSeconds / run_seconds, static_cast<double>(kMaxNodes));
    const auto rotations = static_cast<std::size_t>(std::ceil(runs / copies));
    return {static_cast<std::size_t>(copies), rotations * static_cast<std::size_t>(copies), run_seconds, timestamps};
}

/// On a CPU, a timestamp takes longer than a short run (see vulkan::Timestamps); on a GPU, as good as nothing.
vulkan::Timestamps timestamps_for(double run_seconds, const Target& target) {
    constexpr double kLong = 0.02;  // a hundred times what a timestamp takes
    const bool is_cpu = target.vulkan && target.vulkan->capabilities().is_cpu();
    return is_cpu && run_seconds < kLong ? vulkan::Timestamps::ends : vulkan::Timestamps::nodes;
}

/// Device times of the last submission. Short runs beside each other are disturbed by the same things: the median of them all is one
/// sample; long ones are a sample each. The nodes of a case with several are ordered by the plan, not by run: then only their
/// sum is known.
Result<void> add_device_times(vulkan::VulkanProgram& program, const Rotation& rotation, Sampler& samples) {
    if (rotation.timestamps == vulkan::Timestamps::ends) {
        VKFORMER_TRY(const double ns, program.device_ns());
        samples.add(ns / static_cast<double>(rotation.runs));
        return {};
    }
    VKFORMER_TRY(const auto times, program.node_times());
    std::vector<double> runs;
    double sum = 0;
    for (const vulkan::NodeTime& time : times) {
        if (times.size() == rotation.runs) runs.push_back(time.gpu_ns);
        sum += time.gpu_ns;
    }
    if (runs.empty())
        samples.add(sum / static_cast<double>(rotation.runs));
    else if (rotation.run_seconds < kSubmitSeconds)
        samples.add(median_of(std::move(runs)));
    else
        for (const double run : runs) samples.add(run);
    return {};
}

/// Submits until the times are stable.
Result<void> sample(graph::Program& program, const cases::CaseBuilder& builder, const Target& target,
                    const Rotation& rotation, const MeasureOptions& options, Measurement& result) {
    vulkan::VulkanProgram* const timestamps = profiled(program, target);
    Sampler device(options.stopping), wall(options.stopping);
    const auto start = SteadyClock::now();
    auto begin = start;
    for (std::uint32_t submission = 0;; ++submission) {
        VKFORMER_CHECK(builder.rewind(program));
        const auto submitted = SteadyClock::now();
        VKFORMER_CHECK(program.submit());
        VKFORMER_CHECK(program.wait());
        const double ns = 1e9 * seconds_since(submitted) / static_cast<double>(rotation.runs);
        if (submission < options.warm_up || seconds_since(start) < options.warm_up_seconds) {
            begin = SteadyClock::now();
            continue;
        }
        wall.add(ns);
        if (timestamps) VKFORMER_CHECK(add_device_times(*timestamps, rotation, device));
        if ((timestamps ? device : wall).done(seconds_since(begin))) break;
    }
    result.device_ns = device.summary();
    result.wall_ns = wall.summary();
    return {};
}

/// An element that a shader forgets to write is then a NaN. States are operands too and keep what they have.
Result<void> poison_results(const cases::CaseBuilder& builder, graph::Program& program) {
    for (const graph::Value value : builder.results()) {
        const graph::Tensor& tensor = builder.graph.tensor(value);
        const std::size_t count = tensor.shape.element_count();
        if (tensor.kind == graph::TensorKind::state) continue;
        if (tensor.dtype == DType::i32)
            VKFORMER_CHECK(program.write(value, std::vector<std::int32_t>(count, std::numeric_limits<int>::min())));
        else
            VKFORMER_CHECK(program.write(value, std::vector<float>(count, std::numeric_limits<float>::quiet_NaN())));
    }
    return {};
}

/// Seconds of one run of a program that has run before.
Result<double> one_run(graph::Program& program, const Target& target) {
    const auto start = SteadyClock::now();
    VKFORMER_CHECK(program.submit());
    VKFORMER_CHECK(program.wait());
    double seconds = seconds_since(start);
    if (auto* const timestamps = profiled(program, target)) {
        VKFORMER_TRY(const auto times, timestamps->node_times());
        seconds = 0;
        for (const vulkan::NodeTime& time : times) seconds += time.gpu_ns * 1e-9;
    }
    return std::max(seconds, 1e-7);
}

/// Keeps the device busy for so long.
Result<void> wake_up(graph::Program& program, const cases::CaseBuilder& builder, double seconds) {
    for (const auto start = SteadyClock::now(); seconds_since(start) < seconds;) {
        VKFORMER_CHECK(builder.rewind(program));
        VKFORMER_CHECK(program.submit());
        VKFORMER_CHECK(program.wait());
    }
    return {};
}

/// One that was disturbed would have the copies be few, which what a submission costs weighs on then.
Result<double> least_of_runs(graph::Program& program, const Target& target) {
    constexpr int kRuns = 5;
    constexpr double kEnoughSeconds = 0.05;
    double least = 1e9, sum = 0;
    for (int run = 0; run < kRuns && sum < kEnoughSeconds; ++run) {
        VKFORMER_TRY(const double seconds, one_run(program, target));
        least = std::min(least, seconds);
        sum += seconds;
    }
    return least;
}

/// "row" of one node, "plain + combine" of two.
std::string joined(const std::vector<vulkan::NodeTime>& times, std::string vulkan::NodeTime::*member) {
    std::string names;
    for (const vulkan::NodeTime& time : times) names += (names.empty() ? "" : " + ") + time.*member;
    return names;
}

}  // namespace

std::string_view to_string(Cache cache) noexcept { return cache == Cache::cold ? "cold" : "hot"; }

Result<std::vector<std::string>> variants_of(const cases::Case& c, const Target& target) {
    std::vector<std::string> all;
    if (!target.vulkan) return all;
    VKFORMER_TRY(const cases::CaseBuilder builder, repeated(c, 1, 1));
    for (const graph::Node& node : builder.graph.nodes())
        for (const auto* kernel : vulkan::fitting_kernels(node.op, {builder.graph, target.vulkan->capabilities()}))
            if (std::ranges::find(all, kernel->name) == all.end()) all.emplace_back(kernel->name);
    return all;
}

Result<CheckedCase> CheckedCase::make(const cases::Case& c) {
    VKFORMER_TRY(cases::CaseBuilder built, repeated(c, 1, 1));
    auto once = std::make_unique<cases::CaseBuilder>(std::move(built));
    VKFORMER_TRY(Oracle oracle, Oracle::run(*once));
    return CheckedCase(c, std::move(once), std::move(oracle));
}

Result<Measurement> measure(const CheckedCase& c, const Target& target, const MeasureOptions& options) {
    Measurement result;
    const cases::CaseBuilder& single = c.once();
    VKFORMER_TRY(const auto program, compile(target, single.graph, options.variant, vulkan::Timestamps::nodes));
    VKFORMER_CHECK(single.feed(*program));
    VKFORMER_CHECK(poison_results(single, *program));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    VKFORMER_TRY(result.check, c.oracle().compare(*program));
    if (auto* const timestamps = profiled(*program, target)) {
        VKFORMER_TRY(const auto times, timestamps->node_times());
        result.shader = joined(times, &vulkan::NodeTime::shader);
        result.variant = joined(times, &vulkan::NodeTime::variant);
        vulkan::ChosenVariants variants;
        for (const vulkan::NodeTime& time : times) variants.push_back(time.variant);
        VKFORMER_TRY(result.code, code_of(program->plan(), variants, *target.vulkan));
    }
    if (!result.check.right()) return result;

    VKFORMER_CHECK(wake_up(*program, single, options.warm_up_seconds));
    VKFORMER_CHECK(single.rewind(*program));
    VKFORMER_TRY(const double run_seconds, least_of_runs(*program, target));
    const Rotation rotation =
        plan_rotation(c.definition(), single.graph, options, run_seconds, timestamps_for(run_seconds, target));
    result.copies = rotation.copies;
    VKFORMER_TRY(const cases::CaseBuilder several, repeated(c.definition(), rotation.copies, rotation.runs));
    VKFORMER_TRY(const auto timed, compile(target, several.graph, options.variant, rotation.timestamps));
    VKFORMER_CHECK(several.feed(*timed));
    VKFORMER_CHECK(sample(*timed, several, target, rotation, options, result));
    return result;
}

double warm_up_seconds_for(const graph::Backend& backend) {
    const auto* const vulkan = cast_to<const vulkan::VulkanBackend>(&backend);
    return vulkan && !vulkan->capabilities().is_cpu() ? 0.3 : 0;
}

std::uint64_t default_cold_bytes(const Target& target) {
    const bool is_cpu = !target.vulkan || target.vulkan->capabilities().is_cpu();
    // The largest cache of a GPU so far: 256 MiB (AMD's MI300); 512 MiB leave it no use.
    if (!is_cpu) return std::uint64_t{512} << 20;
    return 4 * std::max(platform::last_level_cache_bytes(), std::uint64_t{16} << 20);
}

}  // namespace vkformer::bench
