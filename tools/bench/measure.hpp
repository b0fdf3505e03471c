// SPDX-License-Identifier: MIT
/// Times one case on one backend.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/check.hpp"
#include "bench/code.hpp"
#include "bench/statistics.hpp"
#include "cases/case.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::bench {

enum class Cache : std::uint8_t {
    cold,  ///< runs rotate over copies of the operands that no cache holds together
    hot,   ///< every run has the same operands
};
std::string_view to_string(Cache cache) noexcept;

/// What a submission should take: short for watchdogs, long for clocks.
inline constexpr double kSubmitSeconds = 0.01;

/// A backend, and the same as Vulkan if it is that: then it profiles (BackendOptions::profile).
struct Target {
    graph::Backend* backend = nullptr;
    vulkan::VulkanBackend* vulkan = nullptr;
};

struct MeasureOptions {
    Cache cache = Cache::cold;
    std::uint64_t cold_bytes = 0;  ///< what the copies of the operands should take together
    std::string variant;           ///< empty: the one that the device would use
    Stopping stopping;
    std::uint32_t warm_up = 1;   ///< submissions that are not counted
    double warm_up_seconds = 0;  ///< nor are those of so many first seconds
};

struct Measurement {
    Check check;
    std::string variant, shader;  ///< empty on a backend that has none
    std::vector<Code> code;       ///< by node; empty on a backend that has no shaders or no timestamps
    std::size_t copies = 1;       ///< of the operands
    Summary device_ns;            ///< per run, from timestamps; no runs where the device has none
    Summary wall_ns;              ///< per run, submission and waiting included
};

/// What can run the case on the device, as the kernels list it; empty where the backend has no variants.
/// Errors: those of the case.
Result<std::vector<std::string>> variants_of(const cases::Case& c, const Target& target);

/// A case and what one run of it gives in double precision, which takes the CPU seconds for large ones and holds for every variant.
class CheckedCase {
public:
    /// `c` outlives this. Errors: those of the case and of the CPU's program.
    static Result<CheckedCase> make(const cases::Case& c);

    const cases::Case& definition() const noexcept { return *definition_; }
    const cases::CaseBuilder& once() const noexcept { return *once_; }
    const Oracle& oracle() const noexcept { return oracle_; }

private:
    CheckedCase(const cases::Case& c, std::unique_ptr<cases::CaseBuilder> once, Oracle oracle)
        : definition_(&c), once_(std::move(once)), oracle_(std::move(oracle)) {}

    const cases::Case* definition_;
    std::unique_ptr<cases::CaseBuilder> once_;  // where it is: the oracle holds it
    Oracle oracle_;
};

/// A case whose result is wrong is not timed: `check` says what is wrong. Errors: those of the case and of the backend.
Result<Measurement> measure(const CheckedCase& c, const Target& target, const MeasureOptions& options);

/// A GPU that had nothing to do while the CPU computed what is right runs at a fraction of its clock, and takes tenths of a second to wake
/// up: on an H200 kernels took 3 to 5 times as long in 0.08 s behind a pause as in a series of others. 0 for devices that are CPUs.
double warm_up_seconds_for(const graph::Backend& backend);

/// How much the copies should take so that no cache helps: several times the last-level cache of this machine for devices
/// that are CPUs, more than the largest GPU cache for others.
std::uint64_t default_cold_bytes(const Target& target);

}  // namespace vkformer::bench
