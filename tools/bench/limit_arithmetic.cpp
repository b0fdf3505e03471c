// SPDX-License-Identifier: MIT
#include <algorithm>

#include "bench/contract.h"
#include "bench/limit_probes.hpp"
#include "core/try.hpp"

namespace vkformer::bench {
namespace {

/// A dispatch of the arithmetic shaders. All workgroups do the same rounds.
struct Grid {
    std::uint32_t groups = 0, rounds = 0;
    ShaderLaunch launch() const {
        return {.groups = {groups, 1, 1}, .push = push_bytes(shaders::BenchPeakPush{.rounds = rounds})};
    }
};

constexpr std::uint32_t kFirstGroups = 64, kMostRounds = 1u << 16;

/// `work` rounds of workgroups: a slow device does one of few of them, a fast one many of `groups`.
Grid grid_of(std::uint64_t work, std::uint32_t groups) {
    if (work <= groups) return {static_cast<std::uint32_t>(work), 1};
    return {groups, static_cast<std::uint32_t>(work / groups)};
}

struct Peak {
    Summary ns;
    Grid grid;
};

/// Runs a shader that writes `counts` numbers per workgroup, which are all to be equal to the number of rounds.
Result<Peak> run_peak(ShaderRunner& runner, const Sizes& sizes, std::uint32_t groups, std::uint32_t counts,
                      const Stopping& stopping, const Part& part, const std::string& name) {
    const Growth growth{.first = std::min(kFirstGroups, groups),
                        .most = std::uint64_t{groups} * kMostRounds,
                        .seconds = sizes.peak_seconds};
    VKFORMER_TRY(const std::uint64_t work, grow(growth, [&](std::uint64_t tried) -> Result<double> {
                     VKFORMER_TRY(const auto times, runner.run(grid_of(tried, groups).launch()));
                     return times.best() * 1e-9;
                 }));
    Peak peak{.grid = grid_of(work, groups)};
    VKFORMER_TRY(peak.ns, sample(runner, peak.grid.launch(), stopping, part));
    VKFORMER_TRY(const auto found, read_words(runner, 1, std::size_t{peak.grid.groups} * counts));
    if (std::ranges::any_of(found, [&](std::uint32_t count) { return count != peak.grid.rounds; }))
        return wrong_result(name);
    return peak;
}

std::string shape_text(const vulkan::CooperativeMatrix& m) {
    return std::to_string(m.m) + "x" + std::to_string(m.n) + "x" + std::to_string(m.k);
}

}  // namespace

Result<Limit> measure_peak(const std::shared_ptr<vulkan::Device>& device, const PeakProbe& probe,
                           const Stopping& stopping, const Part& part) {
    const Sizes sizes = sizes_for(device->capabilities());
    const std::size_t invocations = std::size_t{sizes.workgroup} * sizes.groups;
    VKFORMER_TRY(ShaderCode code, limit_shader(probe.shader, *device));
    code.constants[shaders::kWorkgroupConstant] = sizes.workgroup;
    const BufferRequest buffers[] = {{.binding = shaders::kBenchOperands, .bytes = 4, .label = "operands"},
                                     {.binding = shaders::kBenchCounts, .bytes = invocations * 4, .label = "counts"}};
    VKFORMER_TRY(const auto runner, ShaderRunner::create(device, code, buffers));
    VKFORMER_CHECK(runner->write(0, std::as_bytes(std::span(&probe.operand, 1))));
    VKFORMER_TRY(const Peak peak,
                 run_peak(*runner, sizes, sizes.groups, sizes.workgroup, stopping, part, probe.shader));
    const double operations = probe.operations * shaders::kBenchSteps * shaders::kBenchChains * peak.grid.rounds *
                              peak.grid.groups * sizes.workgroup;
    return Limit{.unit = probe.unit, .how = probe.shader, .value = operations / peak.ns.least, .ns = peak.ns};
}

Result<Limit> measure_matrix(const std::shared_ptr<vulkan::Device>& device, const vulkan::CooperativeMatrix& matrix,
                             const Stopping& stopping, const Part& part) {
    const vulkan::Capabilities& c = device->capabilities();
    const Sizes sizes = sizes_for(c);
    // Whole subgroups. A subgroup does m · n · k products where an invocation of the other shaders does one: fewer of them do.
    const std::uint32_t workgroup = std::max(sizes.workgroup, c.subgroup_size) / c.subgroup_size * c.subgroup_size;
    const std::uint32_t groups = std::max(64u, sizes.groups / 4);
    const std::uint32_t subgroups = workgroup / c.subgroup_size;  // of a workgroup
    VKFORMER_TRY(ShaderCode code, limit_shader("bench_matrix_peak", *device));
    code.constants = {{shaders::kWorkgroupConstant, workgroup}, {1, matrix.m}, {2, matrix.n}, {3, matrix.k}};
    const std::vector<std::uint16_t> ones(std::max(matrix.m, matrix.n) * matrix.k, 0x3C00);
    const BufferRequest buffers[] = {
        {.binding = shaders::kBenchOperands, .bytes = (ones.size() + 1) / 2 * 4, .label = "operands"},
        {.binding = shaders::kBenchCounts, .bytes = std::uint64_t{subgroups} * groups * 4, .label = "counts"}};
    VKFORMER_TRY(const auto runner, ShaderRunner::create(device, code, buffers));
    VKFORMER_CHECK(runner->write(0, std::as_bytes(std::span(ones))));
    VKFORMER_TRY(const Peak peak, run_peak(*runner, sizes, groups, subgroups, stopping, part, code.name));
    const double flops = 2.0 * matrix.m * matrix.n * matrix.k * shaders::kBenchMatrices * shaders::kBenchMatrixSteps *
                         peak.grid.rounds * peak.grid.groups * subgroups;
    return Limit{
        .unit = "GFLOP/s", .how = code.name + " " + shape_text(matrix), .value = flops / peak.ns.least, .ns = peak.ns};
}

}  // namespace vkformer::bench
