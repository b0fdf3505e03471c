// SPDX-License-Identifier: MIT
/// Pictures of attention weights, drawn with cairo and pango.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::cli {

/// Weights of one head: one row per query, one column per key, each 0 to 1.
struct HeatMap {
    std::string title;
    std::vector<float> weights;
};

/// Maps that share their axes.
struct HeatMapSection {
    std::string title, query_axis, key_axis;
    std::vector<std::string> queries, keys;    ///< tokens
    std::vector<std::vector<HeatMap>> layers;  ///< one row of the picture per layer, one map per head
};

struct HeatMapPage {
    std::string title, subtitle;
    std::vector<HeatMapSection> sections;
};

enum class PictureFormat : std::uint8_t { png, svg };

/// Errors: InvalidArgument (a picture larger than cairo can hold), FileNotFound (cannot write).
Result<void> draw_heat_maps(const HeatMapPage& page, PictureFormat format, const std::filesystem::path& path);

}  // namespace vkformer::cli
