// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace vkformer {

/// Weights that stay in the host's memory, where a GPU reads them over its bus whenever it needs them: for models that are larger than its
/// own memory. Results are the same. Those go first of which a token needs least: tables that rows are looked up in, experts that are not
/// chosen. The CPU backend, whose memory is the host's, passes it over.
struct Offload {
    static constexpr std::uint64_t kRest = UINT64_MAX;
    /// So many bytes of weights, or the next weight more; kRest: those that do not fit the device beside caches and activations. 0: none.
    /// More than 0 and not kRest: MissingFeature on a device without memory other than its own.
    std::uint64_t bytes = 0;
    /// Told by the thread that loads weights, once they are there: how many stay in the host's memory, what a token reads of them, and what
    /// that takes at least at the measured speed of the bus. Empty: nobody is told.
    std::function<void(const std::string&)> report{};
};

}  // namespace vkformer
