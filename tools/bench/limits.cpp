// SPDX-License-Identifier: MIT
#include "bench/limits.hpp"

#include <algorithm>
#include <iterator>

#include "bench/limit_probes.hpp"
#include "core/try.hpp"
#include "vulkan/cooperative_matrix.hpp"

namespace vkformer::bench {
namespace {

using vulkan::Device;

/// The best of several ways to reach a limit; a lost device ends everything.
class Best {
public:
    Best(std::string_view name, const char* unit) : limit_{.name = std::string(name), .unit = unit} {}
    Result<void> consider(Result<Limit> found) {
        if (!found) {
            if (found.error().code == ErrorCode::DeviceLost) return found.error();
            if (limit_.value == 0) limit_.missing = found.error().message;
            return {};
        }
        if (found->value <= limit_.value) return {};
        found->name = limit_.name;
        limit_ = std::move(*found);
        return {};
    }
    Limit take() {
        if (limit_.value == 0 && limit_.missing.empty()) limit_.missing = "the device lacks the feature";
        return std::move(limit_);
    }

private:
    Limit limit_;
};

Result<Limit> best_memory(const std::shared_ptr<Device>& device, std::string_view name,
                          std::initializer_list<MemoryProbe> all, const LimitOptions& options) {
    std::vector<MemoryProbe> probes;
    std::ranges::copy_if(all, std::back_inserter(probes), [&](const MemoryProbe& probe) {
        return !probe.apart || device->capabilities().is_cpu();
    });
    Best best(name, "GB/s");
    Budget budget(options.seconds, probes.size());
    for (const MemoryProbe& probe : probes)
        VKFORMER_CHECK(best.consider(measure_memory(device, probe, options.stopping, budget.next())));
    return best.take();
}

Result<Limit> best_peak(const std::shared_ptr<Device>& device, std::string_view name,
                        std::initializer_list<PeakProbe> probes, const LimitOptions& options) {
    Best best(name, probes.begin()->unit);
    Budget budget(options.seconds, probes.size());
    for (const PeakProbe& probe : probes)
        VKFORMER_CHECK(best.consider(measure_peak(device, probe, options.stopping, budget.next())));
    return best.take();
}

Result<Limit> best_matrix(const std::shared_ptr<Device>& device, const LimitOptions& options) {
    std::vector<vulkan::CooperativeMatrix> matrices;
    std::ranges::copy_if(device->capabilities().cooperative_matrices, std::back_inserter(matrices),
                         [](const vulkan::CooperativeMatrix& matrix) {
                             return matrix.a == vulkan::kComponentFloat16 && matrix.b == vulkan::kComponentFloat16 &&
                                    matrix.c == vulkan::kComponentFloat32 && matrix.result == vulkan::kComponentFloat32;
                         });
    Best best(kPeakMatrixF16, "GFLOP/s");
    Budget budget(options.seconds, matrices.size());
    for (const vulkan::CooperativeMatrix& matrix : matrices)
        VKFORMER_CHECK(best.consider(measure_matrix(device, matrix, options.stopping, budget.next())));
    return best.take();
}

Result<Limit> launch_overhead(const std::shared_ptr<Device>& device, const LimitOptions& options) {
    Best best(kLaunch, "us");
    VKFORMER_CHECK(best.consider(measure_launch(device, options.stopping, Budget(options.seconds, 1).next())));
    return best.take();
}

}  // namespace

Result<Limit> measure_limit(const std::shared_ptr<Device>& device, std::string_view name, const LimitOptions& options) {
    constexpr std::uint32_t kOneF32 = 0x3F800000, kOneF16 = 0x3C003C00, kMinusOneI8 = 0x000000FF;
    if (options.progress) options.progress(name);
    if (name == kCopyBandwidth)
        return best_memory(device, name,
                           {{"bench_copy", 4, true, 0},
                            {"bench_copy_wide", 16, true, 0},
                            // one address for all lanes of a vector unit, or one each
                            {"bench_copy_apart", 16, true, 1},
                            {"bench_copy_apart", 16, true, 8}},
                           options);
    if (name == kReadBandwidth)
        return best_memory(device, name,
                           {{"bench_read", 4, false, 0},
                            {"bench_read_wide", 16, false, 0},
                            {"bench_read_apart", 16, false, 1},
                            {"bench_read_apart", 16, false, 8}},
                           options);
    if (name == kPeakF32)
        return best_peak(device, name,
                         {{"bench_peak_f32", kOneF32, 2, "GFLOP/s"}, {"bench_peak_f32_fma", kOneF32, 2, "GFLOP/s"}},
                         options);
    if (name == kPeakF16)
        return best_peak(device, name,
                         {{"bench_peak_f16", kOneF16, 4, "GFLOP/s"}, {"bench_peak_f16_fma", kOneF16, 4, "GFLOP/s"}},
                         options);
    if (name == kPeakIntDot) return best_peak(device, name, {{"bench_peak_int_dot", kMinusOneI8, 8, "Gop/s"}}, options);
    if (name == kPeakMatrixF16) return best_matrix(device, options);
    if (name == kLaunch) return launch_overhead(device, options);
    return Error{ErrorCode::InvalidArgument, "no limit is called " + std::string(name)};
}

Result<std::vector<Limit>> measure_limits(const std::shared_ptr<Device>& device, const LimitOptions& options) {
    std::vector<Limit> limits;
    for (const std::string_view name : kLimits) {
        VKFORMER_TRY(limits.emplace_back(), measure_limit(device, name, options));
    }
    return limits;
}

const Limit* find_limit(const std::vector<Limit>& limits, std::string_view name) {
    const auto found =
        std::ranges::find_if(limits, [&](const Limit& limit) { return limit.name == name && limit.missing.empty(); });
    return found == limits.end() ? nullptr : &*found;
}

}  // namespace vkformer::bench
