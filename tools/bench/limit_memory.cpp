// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>

#include "bench/limit_probes.hpp"
#include "core/try.hpp"
#include "interface/bench_limits.h"

namespace vkformer::bench {

Result<Limit> measure_memory(const std::shared_ptr<vulkan::Device>& device, const MemoryProbe& probe,
                             const LimitOptions& options) {
    Sizes sizes = sizes_for(device->capabilities());
    if (probe.apart) sizes.workgroup = probe.apart;
    const std::uint64_t turn_bytes =
        std::uint64_t{sizes.workgroup} * sizes.groups * shaders::kBenchCopyUnroll * probe.element_bytes;
    const auto turns = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, sizes.bytes / turn_bytes));
    const std::uint64_t bytes = turns * turn_bytes;
    const std::size_t words = bytes / 4, invocations = std::size_t{sizes.workgroup} * sizes.groups;
    VKFORMER_TRY(ShaderCode code, limit_shader(probe.shader, *device));
    code.constants[shaders::kWorkgroupConstant] = sizes.workgroup;
    const BufferRequest buffers[] = {
        {.binding = shaders::kBenchSource, .bytes = bytes, .label = "source"},
        {.binding = shaders::kBenchTarget, .bytes = probe.writes ? bytes : invocations * 4, .label = "target"}};
    VKFORMER_TRY(const auto runner, ShaderRunner::create(device, code, buffers));
    std::vector<std::uint32_t> source(words);
    std::iota(source.begin(), source.end(), 1u);
    VKFORMER_CHECK(runner->write(0, std::as_bytes(std::span(source))));
    const shaders::BenchCopyPush push{.turns = turns};
    const ShaderLaunch launch{.groups = {sizes.groups, 1, 1}, .push = push_bytes(push)};
    VKFORMER_TRY(const Summary ns, sample(*runner, launch, options.stopping));

    VKFORMER_TRY(const auto found, read_words(*runner, 1, probe.writes ? words : invocations));
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
