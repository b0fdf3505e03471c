// SPDX-License-Identifier: MIT
#include <algorithm>

#include "bench/limit_probes.hpp"
#include "core/try.hpp"
#include "interface/bench_limits.h"

namespace vkformer::bench {
namespace {

/// Rounds that make a dispatch take as long as it should. At most 2^16, so that a slow device is not tried for minutes.
Result<std::uint32_t> calibrate(ShaderRunner& runner, const Sizes& sizes, std::uint32_t groups) {
    std::uint32_t rounds = 1;
    for (;;) {
        VKFORMER_TRY(const auto times, runner.run({.groups = {groups, 1, 1}, .push = push_bytes(rounds)}));
        const double ratio = sizes.seconds * 1e9 / std::max(times.best(), 1.0);
        if (ratio < 2 || rounds >= (1u << 16)) return rounds;
        rounds = static_cast<std::uint32_t>(std::min(65536.0, rounds * std::clamp(ratio, 2.0, 16.0)));
    }
}

struct Peak {
    Summary ns;
    std::uint32_t rounds = 0;
};

/// Runs a shader whose counts are all to be equal to the number of rounds.
Result<Peak> run_peak(ShaderRunner& runner, const Sizes& sizes, std::uint32_t groups, std::size_t counts,
                      const LimitOptions& options, const std::string& name) {
    Peak peak;
    VKFORMER_TRY(peak.rounds, calibrate(runner, sizes, groups));
    const ShaderLaunch launch{.groups = {groups, 1, 1}, .push = push_bytes(shaders::BenchPeakPush{peak.rounds})};
    VKFORMER_TRY(peak.ns, sample(runner, launch, options.stopping));
    VKFORMER_TRY(const auto found, read_words(runner, 1, counts));
    if (std::ranges::any_of(found, [&](std::uint32_t count) { return count != peak.rounds; }))
        return wrong_result(name);
    return peak;
}

std::string shape_text(const vulkan::CooperativeMatrix& m) {
    return std::to_string(m.m) + "x" + std::to_string(m.n) + "x" + std::to_string(m.k);
}

}  // namespace

Result<Limit> measure_peak(const std::shared_ptr<vulkan::Device>& device, const PeakProbe& probe,
                           const LimitOptions& options) {
    const Sizes sizes = sizes_for(device->capabilities());
    const std::size_t invocations = std::size_t{sizes.workgroup} * sizes.groups;
    VKFORMER_TRY(ShaderCode code, limit_shader(probe.shader, *device));
    code.constants[shaders::kWorkgroupConstant] = sizes.workgroup;
    code.constants[1] = probe.fused;
    const BufferRequest buffers[] = {{.binding = shaders::kBenchOperands, .bytes = 4, .label = "operands"},
                                     {.binding = shaders::kBenchCounts, .bytes = invocations * 4, .label = "counts"}};
    VKFORMER_TRY(const auto runner, ShaderRunner::create(device, code, buffers));
    VKFORMER_CHECK(runner->write(0, std::as_bytes(std::span(&probe.operand, 1))));
    VKFORMER_TRY(const Peak peak, run_peak(*runner, sizes, sizes.groups, invocations, options, probe.shader));
    const double operations = probe.operations * shaders::kBenchSteps * shaders::kBenchChains * peak.rounds *
                              static_cast<double>(invocations);
    return Limit{.unit = probe.unit,
                 .how = std::string(probe.shader) + (probe.fused ? ", fma" : ""),
                 .value = operations / peak.ns.least,
                 .ns = peak.ns};
}

Result<Limit> measure_matrix(const std::shared_ptr<vulkan::Device>& device, const vulkan::CooperativeMatrix& matrix,
                             const LimitOptions& options) {
    const vulkan::Capabilities& c = device->capabilities();
    const Sizes sizes = sizes_for(c);
    // Whole subgroups. A subgroup does m · n · k products where an invocation of the other shaders does one: fewer of them do.
    const std::uint32_t workgroup = std::max(sizes.workgroup, c.subgroup_size) / c.subgroup_size * c.subgroup_size;
    const std::uint32_t groups = std::max(64u, sizes.groups / 4);
    const std::size_t subgroups = std::size_t{workgroup / c.subgroup_size} * groups;
    VKFORMER_TRY(ShaderCode code, limit_shader("bench_matrix_peak", *device));
    code.constants = {{shaders::kWorkgroupConstant, workgroup}, {1, matrix.m}, {2, matrix.n}, {3, matrix.k}};
    const std::vector<std::uint16_t> ones(std::max(matrix.m, matrix.n) * matrix.k, 0x3C00);
    const BufferRequest buffers[] = {
        {.binding = shaders::kBenchOperands, .bytes = (ones.size() + 1) / 2 * 4, .label = "operands"},
        {.binding = shaders::kBenchCounts, .bytes = subgroups * 4, .label = "counts"}};
    VKFORMER_TRY(const auto runner, ShaderRunner::create(device, code, buffers));
    VKFORMER_CHECK(runner->write(0, std::as_bytes(std::span(ones))));
    VKFORMER_TRY(const Peak peak, run_peak(*runner, sizes, groups, subgroups, options, code.name));
    const double flops = 2.0 * matrix.m * matrix.n * matrix.k * shaders::kBenchMatrices * shaders::kBenchMatrixSteps *
                         peak.rounds * static_cast<double>(subgroups);
    return Limit{
        .unit = "GFLOP/s", .how = code.name + " " + shape_text(matrix), .value = flops / peak.ns.least, .ns = peak.ns};
}

}  // namespace vkformer::bench
