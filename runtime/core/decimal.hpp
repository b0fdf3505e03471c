// SPDX-License-Identifier: MIT
/// Numbers as decimal digits. std::to_chars does the same by tables of 0.1 MB, which a static libstdc++ brings along.
#pragma once

#include <string>

namespace vkformer {

/// The fewest digits that are read as the same number: ±0.d₁d₂… · 10^point.
struct ShortestDecimal {
    bool is_negative = false;
    std::string digits = "0";
    int point = 1;

    /// Requires a finite number.
    static ShortestDecimal of(double number);
    static ShortestDecimal of(float number);

    /// "-0.0025", "12000"
    std::string plain() const;
    /// "-2.5e-03", "1e+16"
    std::string scientific() const;
};

}  // namespace vkformer
