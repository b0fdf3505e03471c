// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "bench/report.hpp"

namespace vkformer::bench {

/// The roofline of a report as one SVG element: arithmetic intensity against FLOP/s, both logarithmic; the measured bandwidths as
/// diagonals, the measured peaks as horizontals, every timed case that has arithmetic as a point with its number (counted from 1
/// in report.cases) and a title. Empty where no limit was measured or no case has arithmetic.
std::string roofline_svg(const Report& report);

}  // namespace vkformer::bench
