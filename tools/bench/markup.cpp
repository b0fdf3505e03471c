// SPDX-License-Identifier: MIT
#include "bench/markup.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vkformer::bench {

std::string escape(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        case '\'': out += "&#39;"; break;
        default:
            out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? "\xEF\xBF\xBD" : std::string(1, c);
        }
    }
    return out;
}

std::string number_text(double value) {
    char text[32];
    if (value == 0 || !std::isfinite(value)) {
        std::snprintf(text, sizeof text, "%g", value);
        return text;
    }
    const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
    if (exponent < -3 || exponent >= 6)
        std::snprintf(text, sizeof text, "%.2e", value);
    else
        std::snprintf(text, sizeof text, "%.*f", std::max(0, 2 - exponent), value);
    return text;
}

std::string coordinate(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

}  // namespace vkformer::bench
