// SPDX-License-Identifier: MIT
// Where the samples' pictures lie: within the window, nothing on anything else, and no large part left empty.
#include "../../samples/window/layout.hpp"

#include "support/catch.h"

namespace vkformer::tests {
namespace {

using sample::Rectangle;

constexpr float kTop = 128, kLabels = 112;

TEST_CASE("the heat map's window is filled with the heads of a layer", "[samples]") {
    const auto [width, height] = GENERATE(table<float, float>({{960, 540}, {1280, 720}, {1920, 1080}, {720, 720}}));
    const auto [rows, columns, heads] = GENERATE(
        table<std::size_t, std::size_t, std::size_t>({{11, 13, 4}, {1, 1, 1}, {16, 48, 8}, {48, 48, 16}, {3, 16, 2}}));
    CAPTURE(width, height, rows, columns, heads);
    const Rectangle window = {0, 0, width, height};
    const auto maps = sample::lay_out_heads(width, height, kTop, kLabels, rows, columns, heads);
    const Rectangle row_labels = {0, maps.chosen.y, maps.chosen.x, maps.chosen.height},
                    column_labels = {maps.chosen.x, kTop, maps.chosen.width, maps.chosen.y - kTop};
    CHECK(maps.chosen.is_within(window));
    CHECK(row_labels.width >= kLabels);
    CHECK(column_labels.height >= kLabels);
    REQUIRE(maps.heads.size() == heads);
    REQUIRE(maps.captions.size() == heads);

    std::vector<Rectangle> all = {maps.chosen, row_labels, column_labels};
    all.insert(all.end(), maps.heads.begin(), maps.heads.end());
    all.insert(all.end(), maps.captions.begin(), maps.captions.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
        CAPTURE(i);
        CHECK(all[i].width > 0);
        CHECK(all[i].is_within(window));
        for (std::size_t k = 0; k < i; ++k) CHECK_FALSE(all[i].meets(all[k]));
    }
    for (const Rectangle& head : maps.heads)  // cells are squares
        CHECK(head.width / static_cast<float>(columns) == Approx(head.height / static_cast<float>(rows)));
}

TEST_CASE("the right half of the heat map's picture is not left empty", "[samples]") {
    const auto maps = sample::lay_out_heads(960, 540, kTop, kLabels, 11, 13, 4);
    float right = 0, bottom = 0, area = 0;
    for (const Rectangle& head : maps.heads) {
        right = std::max(right, head.right());
        bottom = std::max(bottom, head.bottom());
        area += head.width * head.height;
    }
    CHECK(right > 0.95f * 960);
    CHECK(bottom > 0.9f * 540);
    CHECK(area > 0.4f * (960 - maps.chosen.right()) * (540 - kTop));
}

TEST_CASE("the bars of frame times have an axis and a legend beside them", "[samples]") {
    const auto [width, height] = GENERATE(table<float, float>({{960, 540}, {1920, 1080}, {640, 480}}));
    const double period_us = GENERATE(50'000.0, 16'667.0, 6'944.0);
    const auto chart = sample::lay_out_bars(width, height, period_us);
    CHECK(chart.panel.is_within({0, 0, width, height}));
    for (const Rectangle& part : {chart.legend, chart.axis, chart.bars}) CHECK(part.is_within(chart.panel));
    CHECK_FALSE(chart.legend.meets(chart.bars));
    CHECK_FALSE(chart.legend.meets(chart.axis));
    CHECK_FALSE(chart.axis.meets(chart.bars));

    REQUIRE(chart.ticks_us.size() > 2);
    CHECK(chart.ticks_us.front() == 0);
    CHECK(chart.y_of(0) == chart.bars.bottom());
    CHECK(chart.y_of(chart.ticks_us.back()) == Approx(chart.bars.y));
    CHECK(chart.y_of(period_us) == Approx(chart.bars.y + chart.bars.height / 2));  // the deadline
    CHECK(chart.y_of(100 * period_us) == chart.bars.y);                                   // a bar ends at the top
    for (std::size_t i = 1; i < chart.ticks_us.size(); ++i)  // numbers of 12 pixels do not meet
        CHECK(chart.y_of(chart.ticks_us[i - 1]) - chart.y_of(chart.ticks_us[i]) > 16);
}

}  // namespace
}  // namespace vkformer::tests
