// SPDX-License-Identifier: MIT
/// How far a case is from what its device can do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/limits.hpp"
#include "cases/case.hpp"

namespace vkformer::bench {

/// The roofline: attainable = min(peak arithmetic, intensity × bandwidth). Williams, Waterman and Patterson 2009.
struct Roof {
    double bandwidth = 0;  ///< bytes per second; 0: not measured
    double peak = 0;       ///< FLOP per second; 0: not measured
    std::string bandwidth_name, peak_name;
};

/// The roof over an arithmetic: the larger of copy and read bandwidth, and the largest peak that could serve it. Float16 operands may
/// be summed by packed halves, cooperative matrices or plain floats; quantised ones by all of these and integer dot products.
Roof roof_for(const std::vector<Limit>& limits, cases::Arithmetic arithmetic);

struct Share {
    std::string limit;   ///< the name of the limit that bounds the case
    double seconds = 0;  ///< the least time that the limits allow
    double share = 0;    ///< that time, of the time that was measured: 0 to 1, more where a cache serves the reads
    bool by_memory = false;
};

/// Nothing where neither limit is known.
std::optional<Share> share_of(const Roof& roof, const cases::Work& work, double measured_seconds);

}  // namespace vkformer::bench
