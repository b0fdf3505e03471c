// SPDX-License-Identifier: MIT
/// Text for HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace vkformer::bench {

/// With &, <, >, " and ' as entities; control characters, which XML forbids, as U+FFFD.
std::string escape(std::string_view text);

/// A number for people: three significant digits, no exponent between 0.001 and 10^6.
std::string number_text(double value);

/// A coordinate: one decimal.
std::string coordinate(double value);

}  // namespace vkformer::bench
