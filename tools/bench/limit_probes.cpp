// SPDX-License-Identifier: MIT
#include "bench/limit_probes.hpp"

#include <algorithm>

#include "bench/contract.h"
#include "bench_shader_table.hpp"
#include "core/platform/system.hpp"
#include "core/try.hpp"
#include "vulkan/pipelines.hpp"

namespace vkformer::bench {

Sizes sizes_for(const vulkan::Capabilities& device) {
    if (device.is_cpu()) {
        const auto cache = std::max(platform::last_level_cache_bytes(), std::uint64_t{16} << 20);
        // 64 workgroups: more than cores, so that all finish at about the same time
        // 4 ms: some dispatches then pass without another program's turn on the cores
        // 100 ms: what moves less than twice the cache in it is not held up by memory
        return {64, 64, std::min(2 * cache, device.max_storage_buffer_range), 0.1, 0.004};
    }
    // Two million invocations: 16 times what the largest GPU of today keeps in flight. 512 MiB: twice the largest cache.
    // 50 ms: all of it from 20 GB/s on; devices below that have small caches, and no dispatch may run for long.
    return {256, 8192, std::min<std::uint64_t>(512u << 20, device.max_storage_buffer_range), 0.05, 0.02};
}

Result<ShaderCode> limit_shader(std::string_view name, const vulkan::Device& device) {
    const auto table = vulkan::bench_shader_table();
    const auto found = std::ranges::find(table, name, &vulkan::ShaderBinary::name);
    if (found == table.end())
        return Error{ErrorCode::MissingFeature, "this build lacks " + std::string(name) + ": an old shader compiler"};
    if (!vulkan::can_run(device.capabilities(), *found))
        return Error{ErrorCode::MissingFeature, "the device lacks the feature"};
    vulkan::ShaderModules modules;
    VKFORMER_TRY(const auto words, modules.words(*found));
    return ShaderCode{.name = std::string(name), .words = {words.begin(), words.end()}};
}

Result<Summary> sample(ShaderRunner& runner, const ShaderLaunch& launch, Stopping stopping, const Part& part) {
    stopping.max_seconds = std::min(stopping.max_seconds, part.left());
    Sampler samples(stopping);
    const double begin = steady_seconds();
    do {
        VKFORMER_TRY(const auto times, runner.run(launch));
        samples.add(times.best() / launch.times);
    } while (!samples.done(steady_seconds() - begin));
    return samples.summary();
}

Result<std::vector<std::uint32_t>> read_words(ShaderRunner& runner, std::size_t index, std::size_t count) {
    std::vector<std::uint32_t> words(count);
    VKFORMER_CHECK(runner.read(index, std::as_writable_bytes(std::span(words))));
    return words;
}

Error wrong_result(std::string_view name) {
    return {ErrorCode::Vulkan, std::string(name) + " gives wrong results on this device"};
}

Result<Limit> measure_launch(const std::shared_ptr<vulkan::Device>& device, const Stopping& stopping,
                             const Part& part) {
    VKFORMER_TRY(ShaderCode code, limit_shader("bench_empty", *device));
    code.constants[shaders::kWorkgroupConstant] = 1;
    VKFORMER_TRY(const auto runner, ShaderRunner::create(device, code, {}));
    const ShaderLaunch launch{.times = 64};
    VKFORMER_CHECK(runner->run(launch));  // warm-up
    VKFORMER_TRY(const Summary ns, sample(*runner, launch, stopping, part));
    return Limit{.unit = "us", .how = "bench_empty, 64 dispatches with barriers", .value = ns.least * 1e-3, .ns = ns};
}

}  // namespace vkformer::bench
