// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <string>

namespace vkformer::cli {

/// What snprintf writes, at most 511 bytes.
std::string line(const char* format, auto... values) {
    char text[512];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

}  // namespace vkformer::cli
