// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>

#include "bench/contract.h"
#include "bench/limit_probes.hpp"
#include "core/try.hpp"

namespace vkformer::bench {
namespace {

constexpr std::uint64_t kFirstBytes = 4 << 20;  // 8 ms of a device that copies 1 GB/s

}  // namespace

Result<Limit> measure_memory(const std::shared_ptr<vulkan::Device>& device, const MemoryProbe& probe,
                             const Stopping& stopping, const Part& part) {
    Sizes sizes = sizes_for(device->capabilities());
    if (probe.apart) sizes.workgroup = probe.apart;
    const std::uint64_t turn_bytes =
        std::uint64_t{sizes.workgroup} * sizes.groups * shaders::kBenchCopyUnroll * probe.element_bytes;
    const Growth growth{.first = std::max<std::uint64_t>(1, kFirstBytes / turn_bytes),
                        .most = std::max<std::uint64_t>(1, sizes.bytes / turn_bytes),
                        .seconds = sizes.memory_seconds};
    const std::uint64_t most_bytes = growth.most * turn_bytes;
    const std::size_t invocations = std::size_t{sizes.workgroup} * sizes.groups;
    VKFORMER_TRY(ShaderCode code, limit_shader(probe.shader, *device));
    code.constants[shaders::kWorkgroupConstant] = sizes.workgroup;
    const BufferRequest buffers[] = {
        {.binding = shaders::kBenchSource, .bytes = most_bytes, .label = "source"},
        {.binding = shaders::kBenchTarget, .bytes = probe.writes ? most_bytes : invocations * 4, .label = "target"}};
    VKFORMER_TRY(const auto runner, ShaderRunner::create(device, code, buffers));
    const auto launch_of = [&](std::uint64_t turns) {
        const shaders::BenchCopyPush push{.turns = static_cast<std::uint32_t>(turns)};
        return ShaderLaunch{.groups = {sizes.groups, 1, 1}, .push = push_bytes(push)};
    };
    std::vector<std::uint32_t> source;
    VKFORMER_TRY(const std::uint64_t turns, grow(growth, [&](std::uint64_t tried) -> Result<double> {
                     source.resize(tried * turn_bytes / 4);
                     std::iota(source.begin(), source.end(), 1u);
                     VKFORMER_CHECK(runner->write(0, std::as_bytes(std::span(source))));
                     VKFORMER_CHECK(runner->run(launch_of(tried)));  // the first touch of a page costs more
                     VKFORMER_TRY(const auto times, runner->run(launch_of(tried)));
                     return times.best() * 1e-9;
                 }));
    VKFORMER_TRY(const Summary ns, sample(*runner, launch_of(turns), stopping, part));

    const std::uint64_t bytes = turns * turn_bytes;
    VKFORMER_TRY(const auto found, read_words(*runner, 1, probe.writes ? source.size() : invocations));
    const auto sum = [](const std::vector<std::uint32_t>& values) {
        return std::accumulate(values.begin(), values.end(), 0u);
    };
    if (probe.writes ? found != source : sum(found) != sum(source)) return wrong_result(probe.shader);
    VKFORMER_CHECK(runner->check_guards());
    const double moved = static_cast<double>(bytes) * (probe.writes ? 2 : 1);
    return Limit{.unit = "GB/s",
                 .how = probe.shader + (probe.apart ? ", workgroups of " + std::to_string(probe.apart) : std::string()),
                 .value = moved / ns.least,
                 .ns = ns};
}

}  // namespace vkformer::bench
