// SPDX-License-Identifier: MIT
/// The peaks of a device, measured: what every rate is held against.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/statistics.hpp"
#include "vulkan/device.hpp"

namespace vkformer::bench {

/// One measured peak of the device.
struct Limit {
    std::string name;     ///< one of the names below
    std::string unit;     ///< "GB/s", "GFLOP/s", "Gop/s", "us"
    std::string how;      ///< the shader that reached it
    double value = 0;     ///< in its unit, of the fastest dispatch: disturbances only lower what a device can do
    Summary ns{};         ///< of the dispatches that it was computed from
    std::string missing;  ///< why it was not measured; empty: it was
};

inline constexpr std::string_view kCopyBandwidth = "copy_bandwidth";  ///< bytes read and written
inline constexpr std::string_view kReadBandwidth = "read_bandwidth";
inline constexpr std::string_view kPeakF32 = "peak_f32";  ///< multiply-adds of floats
inline constexpr std::string_view kPeakF16 = "peak_f16";  ///< of packed halves
inline constexpr std::string_view kPeakIntDot = "peak_int_dot";
inline constexpr std::string_view kPeakMatrixF16 = "peak_matrix_f16";  ///< cooperative matrices, f16 · f16 + f32
inline constexpr std::string_view kLaunch = "launch_overhead";

inline constexpr std::array kLimits{kCopyBandwidth, kReadBandwidth, kPeakF32, kPeakF16,
                                    kPeakIntDot,    kPeakMatrixF16, kLaunch};

struct LimitOptions {
    Stopping stopping{.relative_bound = 0.01, .max_seconds = 0.5, .min_runs = 6, .max_runs = 100};
    /// What a limit may take, about: the shaders that might reach it share them, what the driver takes to compile them included. Each is run
    /// twice at least, with as little work as a slow device needs.
    double seconds = 8;
    std::function<void(std::string_view)> progress;  ///< called with a limit's name before it is measured
};

/// Measures one of kLimits. The results of the shaders are checked: a limit whose shader computes something wrong is reported as
/// missing, and so is one that the device cannot run. Errors: DeviceLost, InvalidArgument (an unknown name).
Result<Limit> measure_limit(const std::shared_ptr<vulkan::Device>& device, std::string_view name,
                            const LimitOptions& options);
/// All of them.
Result<std::vector<Limit>> measure_limits(const std::shared_ptr<vulkan::Device>& device, const LimitOptions& options);

/// nullptr where it is not there or was not measured.
const Limit* find_limit(const std::vector<Limit>& limits, std::string_view name);

}  // namespace vkformer::bench
