// SPDX-License-Identifier: MIT
#include "bench/limits.hpp"

#include <algorithm>

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
                          std::initializer_list<MemoryProbe> probes, const LimitOptions& options) {
    Best best(name, "GB/s");
    for (const MemoryProbe& probe : probes) {
        if (probe.apart && device->capabilities().type != "cpu") continue;
        VKFORMER_CHECK(best.consider(measure_memory(device, probe, options)));
    }
    return best.take();
}

Result<Limit> best_peak(const std::shared_ptr<Device>& device, std::string_view name,
                        std::initializer_list<PeakProbe> probes, const LimitOptions& options) {
    Best best(name, probes.begin()->unit);
    for (const PeakProbe& probe : probes) VKFORMER_CHECK(best.consider(measure_peak(device, probe, options)));
    return best.take();
}

Result<Limit> best_matrix(const std::shared_ptr<Device>& device, const LimitOptions& options) {
    Best best(kPeakMatrixF16, "GFLOP/s");
    for (const vulkan::CooperativeMatrix& matrix : device->capabilities().cooperative_matrices)
        if (matrix.a == vulkan::kComponentFloat16 && matrix.b == vulkan::kComponentFloat16 &&
            matrix.c == vulkan::kComponentFloat32 && matrix.result == vulkan::kComponentFloat32)
            VKFORMER_CHECK(best.consider(measure_matrix(device, matrix, options)));
    return best.take();
}

}  // namespace

Result<std::vector<Limit>> measure_limits(const std::shared_ptr<Device>& device, const LimitOptions& options) {
    constexpr std::uint32_t kOneF32 = 0x3F800000, kOneF16 = 0x3C003C00, kMinusOneI8 = 0x000000FF;
    const auto progress = [&](std::string_view name) {
        if (options.progress) options.progress(name);
    };
    std::vector<Limit> limits;
    progress(kCopyBandwidth);
    VKFORMER_TRY(limits.emplace_back(), best_memory(device, kCopyBandwidth,
                                                    {{"bench_copy", 4, true, 0},
                                                     {"bench_copy_wide", 16, true, 0},
                                                     // one address for all lanes of a vector unit, or one each
                                                     {"bench_copy_apart", 16, true, 1},
                                                     {"bench_copy_apart", 16, true, 8}},
                                                    options));
    progress(kReadBandwidth);
    VKFORMER_TRY(limits.emplace_back(), best_memory(device, kReadBandwidth,
                                                    {{"bench_read", 4, false, 0},
                                                     {"bench_read_wide", 16, false, 0},
                                                     {"bench_read_apart", 16, false, 1},
                                                     {"bench_read_apart", 16, false, 8}},
                                                    options));
    progress(kPeakF32);
    VKFORMER_TRY(limits.emplace_back(),
                 best_peak(device, kPeakF32,
                           {{"bench_peak_f32", kOneF32, 2, 0, "GFLOP/s"}, {"bench_peak_f32", kOneF32, 2, 1, "GFLOP/s"}},
                           options));
    progress(kPeakF16);
    VKFORMER_TRY(limits.emplace_back(),
                 best_peak(device, kPeakF16,
                           {{"bench_peak_f16", kOneF16, 4, 0, "GFLOP/s"}, {"bench_peak_f16", kOneF16, 4, 1, "GFLOP/s"}},
                           options));
    progress(kPeakIntDot);
    VKFORMER_TRY(limits.emplace_back(),
                 best_peak(device, kPeakIntDot, {{"bench_peak_int_dot", kMinusOneI8, 8, 0, "Gop/s"}}, options));
    progress(kPeakMatrixF16);
    VKFORMER_TRY(limits.emplace_back(), best_matrix(device, options));
    progress(kLaunch);
    Best launch(kLaunch, "us");
    VKFORMER_CHECK(launch.consider(measure_launch(device, options)));
    limits.push_back(launch.take());
    return limits;
}

const Limit* find_limit(const std::vector<Limit>& limits, std::string_view name) {
    const auto found =
        std::ranges::find_if(limits, [&](const Limit& limit) { return limit.name == name && limit.missing.empty(); });
    return found == limits.end() ? nullptr : &*found;
}

}  // namespace vkformer::bench
