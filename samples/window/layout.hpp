// SPDX-License-Identifier: MIT
/// Where the samples' pictures lie: plain arithmetic on rectangles, without a window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sample {

struct Rectangle {
    float x = 0, y = 0, width = 0, height = 0;

    float right() const noexcept { return x + width; }
    float bottom() const noexcept { return y + height; }
    bool meets(const Rectangle& other) const noexcept {
        return x < other.right() && other.x < right() && y < other.bottom() && other.y < bottom();
    }
    bool is_within(const Rectangle& other) const noexcept {
        return x >= other.x && right() <= other.right() && y >= other.y && bottom() <= other.bottom();
    }
};

// ---- maps of attention: one head large, all heads of its layer small beside it ---------------------------------------------

struct HeadMaps {
    Rectangle chosen;                 ///< the map of the chosen head; labels are left of it and above
    std::vector<Rectangle> heads;     ///< a small map for each head of the layer
    std::vector<Rectangle> captions;  ///< above each of them
};

/// Cells are squares. `top`: where the words above end; `labels`: the room for those of rows and columns.
inline HeadMaps lay_out_heads(float width, float height, float top, float labels, std::size_t row_count,
                              std::size_t column_count, std::size_t head_count) {
    constexpr float kMargin = 24, kGap = 16, kCaption = 20, kLargest = 44, kShare = 0.56f;  // of the width, at most
    const auto rows = static_cast<float>(row_count), columns = static_cast<float>(column_count);
    HeadMaps maps;
    const Rectangle room = {labels, top + labels, kShare * width - labels, height - kMargin - top - labels};
    const float cell = std::min({room.width / columns, room.height / rows, kLargest});
    maps.chosen = {room.x, room.y, cell * columns, cell * rows};

    const float left = maps.chosen.right() + 2 * kMargin;
    const Rectangle area = {left, top, width - kMargin - left, height - kMargin - top};
    std::size_t best = 1;
    float largest = 0;
    const auto cell_with = [&](std::size_t across) {
        const auto n = static_cast<float>(across), m = static_cast<float>((head_count + across - 1) / across);
        return std::min((area.width - (n - 1) * kGap) / n / columns,
                        (area.height - (m - 1) * kGap - m * kCaption) / m / rows);
    };
    for (std::size_t across = 1; across <= head_count; ++across) {
        if (cell_with(across) <= largest) continue;
        largest = cell_with(across);
        best = across;
    }
    const float map_width = largest * columns, map_height = largest * rows;
    // What the cells leave free of the area is given to the gaps, so that the window is filled.
    const std::size_t down = (head_count + best - 1) / best;
    const auto spread = [](float all, float one, std::size_t count) {
        return count > 1 ? std::min((all - one * static_cast<float>(count)) / static_cast<float>(count - 1), one / 2)
                         : 0.0f;
    };
    const float gap_x = spread(area.width, map_width, best), gap_y = spread(area.height, map_height + kCaption, down);
    for (std::size_t head = 0; head < head_count; ++head) {
        const auto column = static_cast<float>(head % best), row = static_cast<float>(head / best);
        const float x = area.x + column * (map_width + gap_x), y = area.y + row * (map_height + kCaption + gap_y);
        maps.captions.push_back({x, y, map_width, kCaption});
        maps.heads.push_back({x, y + kCaption, map_width, map_height});
    }
    return maps;
}

// ---- bars of frame times ---------------------------------------------------------------------------------------------------

struct BarChart {
    Rectangle panel;   ///< all of it
    Rectangle legend;  ///< the line above the bars
    Rectangle axis;    ///< the numbers left of the bars
    Rectangle bars;
    float pixels_per_us = 0;
    std::vector<double> ticks_us;  ///< of the axis, from 0 up

    /// The line that stands for a time; what is longer than the axis ends at its top.
    float y_of(double us) const noexcept {
        return std::max(bars.bottom() - static_cast<float>(us) * pixels_per_us, bars.y);
    }
};

/// At the lower edge of the window. The axis goes to twice the frame's period, so that the deadline lies in the middle.
inline BarChart lay_out_bars(float width, float height, double period_us) {
    constexpr float kMargin = 12, kLegend = 24, kAxis = 64, kBars = 104, kFoot = 10;
    BarChart chart;
    const float panel_height = kLegend + kBars + kFoot;
    chart.panel = {kMargin, height - kMargin - panel_height, width - 2 * kMargin, panel_height};
    chart.legend = {chart.panel.x, chart.panel.y, chart.panel.width, kLegend};
    chart.bars = {chart.panel.x + kAxis, chart.legend.bottom(), chart.panel.width - kAxis - kFoot, kBars};
    chart.axis = {chart.panel.x, chart.bars.y, kAxis, kBars + kFoot};
    chart.pixels_per_us = kBars / static_cast<float>(2 * period_us);
    for (int quarter = 0; quarter <= 4; ++quarter) chart.ticks_us.push_back(0.5 * quarter * period_us);
    return chart;
}

}  // namespace sample
