// SPDX-License-Identifier: MIT
#include "bench/roofline_plot.hpp"

#include <algorithm>
#include <cmath>

#include "bench/markup.hpp"

namespace vkformer::bench {
namespace {

constexpr double kWidth = 960, kHeight = 560;                        // of the picture, in its own units
constexpr double kLeft = 70, kRight = 20, kTop = 20, kBottom = 56;   // margins
constexpr double kDigitWidth = 6.5, kLabelHeight = 11, kRadius = 4;  // of the numbers beside the points

struct Point {
    double intensity, gflops;
    std::string label, title, kind;
};

/// A logarithmic axis from one power of ten to another.
struct Axis {
    int first, last;  // exponents
    double from, to;  // coordinates
    double at(double value) const { return from + (to - from) * (std::log10(value) - first) / (last - first); }
};

Axis axis_over(double low, double high, double from, double to) {
    const int first = static_cast<int>(std::floor(std::log10(low))),
              last = static_cast<int>(std::ceil(std::log10(high)));
    return {first, std::max(last, first + 1), from, to};
}

std::vector<Point> points_of(const Report& report) {
    std::vector<Point> points;
    for (std::size_t i = 0; i < report.cases.size(); ++i) {
        const CaseReport& c = report.cases[i];
        if (!c.timed() || c.work.flops == 0) continue;
        const double gflops = c.flops_per_second() * 1e-9;
        points.push_back({c.work.flops / c.work.bytes(), gflops, std::to_string(i + 1),
                          std::to_string(i + 1) + ": " + c.name() + " " + c.measured.variant + " " + c.cache + ", " +
                              number_text(gflops) + " GFLOP/s",
                          c.dtype == "f32"   ? "f32"
                          : c.dtype == "f16" ? "f16"
                                             : "quantised"});
    }
    return points;
}

bool is_bandwidth(const Limit& limit) { return limit.unit == "GB/s"; }
bool is_peak(const Limit& limit) { return limit.unit == "GFLOP/s" || limit.unit == "Gop/s"; }

std::string line(double x1, double y1, double x2, double y2, const char* style) {
    return "<line x1=\"" + coordinate(x1) + "\" y1=\"" + coordinate(y1) + "\" x2=\"" + coordinate(x2) + "\" y2=\"" +
           coordinate(y2) + "\" class=\"" + style + "\"/>\n";
}

std::string text_at(double x, double y, const char* style, const std::string& text) {
    return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" class=\"" + style + "\">" + escape(text) +
           "</text>\n";
}

std::string power_text(int exponent) {
    if (exponent >= 0 && exponent < 6) return std::to_string(static_cast<long>(std::pow(10, exponent)));
    if (exponent < 0 && exponent > -4) return "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + "1";
    return "1e" + std::to_string(exponent);
}

std::string grid(const Axis& x, const Axis& y) {
    std::string svg;
    for (int e = x.first; e <= x.last; ++e) {
        const double at = x.at(std::pow(10, e));
        svg += line(at, y.from, at, y.to, "grid") + text_at(at, y.from + 18, "tick middle", power_text(e));
    }
    for (int e = y.first; e <= y.last; ++e) {
        const double at = y.at(std::pow(10, e));
        svg += line(x.from, at, x.to, at, "grid") + text_at(x.from - 8, at + 4, "tick end", power_text(e));
    }
    svg += text_at((x.from + x.to) / 2, y.from + 42, "axis middle", "arithmetic intensity, FLOP per byte");
    return svg + "<text class=\"axis middle\" transform=\"translate(16 " + coordinate((y.from + y.to) / 2) +
           ") rotate(-90)\">GFLOP/s</text>\n";
}

struct Box {
    double x, y, width, height;
    bool meets(const Box& other) const {
        return x < other.x + other.width && other.x < x + width && y < other.y + other.height && other.y < y + height;
    }
};

std::string roof_label(const Limit& limit) { return limit.name + " " + number_text(limit.value) + " " + limit.unit; }

/// The diagonal of a bandwidth, from the left edge or the bottom up to the highest peak. Names of close ones do not overlap: number
/// `i` is set a part further up the line.
std::string bandwidth_line(const Limit& limit, std::size_t i, const Axis& x, const Axis& y, double highest) {
    const double lowest_x = std::max(std::pow(10, x.first), std::pow(10, y.first) / limit.value);
    const double highest_x = std::min(std::pow(10, x.last), highest / limit.value);
    if (lowest_x >= highest_x) return "";
    const double x1 = x.at(lowest_x), y1 = y.at(lowest_x * limit.value);
    const double x2 = x.at(highest_x), y2 = y.at(highest_x * limit.value);
    const double along = 0.03 + 0.3 * static_cast<double>(i);
    return line(x1, y1, x2, y2, "roof") +
           text_at(x1 + along * (x2 - x1) - 4, y1 + along * (y2 - y1) - 8, "roof-name end", roof_label(limit));
}

/// The horizontal of a peak, from where the best bandwidth reaches it, with its name at the right, where no name of `taken` is.
std::string peak_line(const Limit& limit, const Axis& x, const Axis& y, double bandwidth, std::vector<Box>& taken) {
    const double ridge = bandwidth > 0 ? limit.value / bandwidth : 0;
    const double begin = x.at(std::clamp(ridge, std::pow(10, x.first), std::pow(10, x.last)));
    const double height = y.at(limit.value), width = kDigitWidth * static_cast<double>(roof_label(limit).size());
    Box name{x.to - 4 - width, height - 5 - kLabelHeight, width, kLabelHeight};
    while (std::ranges::any_of(taken, [&](const Box& other) { return name.meets(other); })) name.x -= width + 10;
    taken.push_back(name);
    return line(begin, height, x.to, height, "roof") +
           text_at(name.x + width, height - 5, "roof-name end", roof_label(limit));
}

/// Beside the point, where no other point or number is; to the right where everything is taken.
Box place_label(double x, double y, double width, const std::vector<Box>& taken) {
    const Box right{x + kRadius + 2, y - kLabelHeight / 2, width, kLabelHeight};
    const Box candidates[] = {right,
                              {x - kRadius - 2 - width, right.y, width, kLabelHeight},
                              {x - width / 2, y - kRadius - 2 - kLabelHeight, width, kLabelHeight},
                              {x - width / 2, y + kRadius + 2, width, kLabelHeight},
                              {x + kRadius, y - kRadius - kLabelHeight, width, kLabelHeight},
                              {x + kRadius, y + kRadius, width, kLabelHeight},
                              {x - kRadius - width, y - kRadius - kLabelHeight, width, kLabelHeight},
                              {x - kRadius - width, y + kRadius, width, kLabelHeight}};
    for (const Box& box : candidates)
        if (std::ranges::none_of(taken, [&](const Box& other) { return box.meets(other); })) return box;
    return right;
}

std::string draw_points(const std::vector<Point>& points, const Axis& x, const Axis& y) {
    std::vector<Box> taken;
    for (const Point& p : points)
        taken.push_back({x.at(p.intensity) - kRadius, y.at(p.gflops) - kRadius, 2 * kRadius, 2 * kRadius});
    std::string svg;
    for (const Point& p : points) {
        const double px = x.at(p.intensity), py = y.at(p.gflops);
        const Box label = place_label(px, py, kDigitWidth * static_cast<double>(p.label.size()), taken);
        taken.push_back(label);
        svg += "<g class=\"point " + p.kind + "\"><title>" + escape(p.title) + "</title><circle cx=\"" +
               coordinate(px) + "\" cy=\"" + coordinate(py) + "\" r=\"" + coordinate(kRadius) + "\"/>" +
               text_at(label.x, label.y + kLabelHeight - 2, "number", p.label) + "</g>\n";
    }
    return svg;
}

std::string legend(const std::vector<Point>& points) {
    std::string svg;
    double x = kLeft + 10;
    for (const char* const kind : {"f32", "f16", "quantised"}) {
        if (std::ranges::find(points, kind, &Point::kind) == points.end()) continue;
        svg += "<g class=\"point " + std::string(kind) + "\"><circle cx=\"" + coordinate(x) + "\" cy=\"" +
               coordinate(kTop + 10) + "\" r=\"4\"/></g>" + text_at(x + 9, kTop + 14, "tick", kind);
        x += 90;
    }
    return svg;
}

}  // namespace

std::string roofline_svg(const Report& report) {
    const std::vector<Point> points = points_of(report);
    double bandwidth = 0, highest = 0;
    for (const Limit& limit : report.limits) {
        if (is_bandwidth(limit)) bandwidth = std::max(bandwidth, limit.value);
        if (is_peak(limit)) highest = std::max(highest, limit.value);
    }
    if (points.empty() || bandwidth == 0 || highest == 0) return "";

    const auto [low_x, high_x] = std::ranges::minmax(points, {}, &Point::intensity);
    const auto [low_y, high_y] = std::ranges::minmax(points, {}, &Point::gflops);
    const Axis x = axis_over(low_x.intensity / 1.5, std::max(1.5 * high_x.intensity, 3 * highest / bandwidth), kLeft,
                             kWidth - kRight);
    const Axis y = axis_over(low_y.gflops / 1.5, 1.5 * std::max(high_y.gflops, highest), kHeight - kBottom, kTop);

    std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"roofline\" role=\"img\" viewBox=\"0 0 " +
                      coordinate(kWidth) + " " + coordinate(kHeight) + "\"><title>Roofline</title>\n" + grid(x, y);
    std::vector<Box> names;
    std::size_t bandwidths = 0;
    for (const Limit& limit : report.limits) {
        if (!limit.missing.empty()) continue;
        if (is_bandwidth(limit)) svg += bandwidth_line(limit, ++bandwidths, x, y, highest);
        if (is_peak(limit)) svg += peak_line(limit, x, y, bandwidth, names);
    }
    return svg + legend(points) + draw_points(points, x, y) + "</svg>\n";
}

}  // namespace vkformer::bench
