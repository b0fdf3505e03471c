// SPDX-License-Identifier: MIT
#include "bench/roofline_plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "bench/markup.hpp"

namespace vkformer::bench {
namespace {

constexpr double kWidth = 960, kHeight = 560;                        // of the picture, in its own units
constexpr double kLeft = 70, kRight = 20, kTop = 44, kBottom = 56;   // margins; the legend is in that at the top
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

/// Where names and numbers may still go.
class Room {
public:
    Room(const Axis& x, const Axis& y) : area_{x.from, y.to, x.to - x.from, y.from - y.to} {}

    bool is_free(const Box& box) const {
        const bool is_inside = box.x >= area_.x && box.y >= area_.y && box.x + box.width <= area_.x + area_.width &&
                               box.y + box.height <= area_.y + area_.height;
        return is_inside && std::ranges::none_of(taken_, [&](const Box& other) { return box.meets(other); });
    }
    void take(const Box& box) { taken_.push_back(box); }

private:
    Box area_;
    std::vector<Box> taken_;
};

double text_width(const std::string& text) { return kDigitWidth * static_cast<double>(text.size()); }

/// The diagonal of a bandwidth, from the left edge or the bottom up to the highest peak, with its name above it where there is room.
std::string bandwidth_line(const Limit& limit, const Axis& x, const Axis& y, double highest, Room& room) {
    const double lowest_x = std::max(std::pow(10, x.first), std::pow(10, y.first) / limit.value);
    const double highest_x = std::min(std::pow(10, x.last), highest / limit.value);
    if (lowest_x >= highest_x) return "";
    const double x1 = x.at(lowest_x), y1 = y.at(lowest_x * limit.value);
    const double x2 = x.at(highest_x), y2 = y.at(highest_x * limit.value);
    const std::string name = roof_label(limit), diagonal = line(x1, y1, x2, y2, "roof");
    const double width = text_width(name);
    for (double along = 1; along >= 0; along -= 0.02) {
        const double end = x1 + along * (x2 - x1) - 4, base = y1 + along * (y2 - y1) - 8;
        const Box box{end - width, base - kLabelHeight, width, kLabelHeight};
        if (!room.is_free(box)) continue;
        room.take(box);
        return diagonal + text_at(end, base, "roof-name end", name);
    }
    return diagonal + text_at(x2, y2 - 8, "roof-name end", name);
}

/// The horizontal of a peak, from where the best bandwidth reaches it, with its name as far to the right as there is room.
std::string peak_line(const Limit& limit, const Axis& x, const Axis& y, double bandwidth, Room& room) {
    const double ridge = bandwidth > 0 ? limit.value / bandwidth : 0;
    const double begin = x.at(std::clamp(ridge, std::pow(10, x.first), std::pow(10, x.last)));
    const double height = y.at(limit.value), width = text_width(roof_label(limit));
    const double right = x.to - 4 - width;
    Box name{right, height - 5 - kLabelHeight, width, kLabelHeight};
    while (!room.is_free(name) && name.x > x.from) name.x -= 8;
    if (name.x <= x.from) name.x = right;
    room.take(name);
    return line(begin, height, x.to, height, "roof") +
           text_at(name.x + width, height - 5, "roof-name end", roof_label(limit));
}

/// A number's place around its point, the nearest that is free.
Box place_label(double x, double y, double width, const Room& room) {
    constexpr int kDirections = 16;
    constexpr double kTurn = 2 * std::numbers::pi / kDirections, kNearest = kRadius + 2, kFarthest = 120;
    const auto beside = [&](double distance, double angle) {
        const double across = (distance + width / 2) * std::cos(angle),
                     down = (distance + kLabelHeight / 2) * std::sin(angle);
        return Box{x + across - width / 2, y + down - kLabelHeight / 2, width, kLabelHeight};
    };
    for (double distance = kNearest; distance < kFarthest; distance += kLabelHeight / 2) {
        for (int i = 0; i < kDirections; ++i) {
            // right, left, above, below, then what is between them
            constexpr std::array<int, kDirections> kOrder = {0, 8, 12, 4, 14, 2, 10, 6, 15, 1, 9, 7, 13, 11, 3, 5};
            const Box box = beside(distance, kTurn * kOrder[static_cast<std::size_t>(i)]);
            if (room.is_free(box)) return box;
        }
    }
    return beside(kNearest, 0);
}

/// From a point to its number, where that lies farther off than beside it.
std::string leader(double x, double y, const Box& label) {
    const double near_x = std::clamp(x, label.x, label.x + label.width),
                 near_y = std::clamp(y, label.y, label.y + label.height);
    if (std::hypot(near_x - x, near_y - y) < 2.5 * kRadius) return "";
    return line(x, y, near_x, near_y, "leader");
}

std::string draw_points(const std::vector<Point>& points, const Axis& x, const Axis& y, Room& room) {
    std::string leaders, svg;
    for (const Point& p : points) {
        const double px = x.at(p.intensity), py = y.at(p.gflops);
        const Box label = place_label(px, py, text_width(p.label), room);
        room.take(label);
        leaders += leader(px, py, label);
        svg += "<g class=\"point " + p.kind + "\"><title>" + escape(p.title) + "</title><circle cx=\"" +
               coordinate(px) + "\" cy=\"" + coordinate(py) + "\" r=\"" + coordinate(kRadius) + "\"/>" +
               text_at(label.x, label.y + kLabelHeight - 2, "number", p.label) + "</g>\n";
    }
    return leaders + svg;
}

/// Above the plot: a dot in it is a measurement.
std::string legend(const std::vector<Point>& points) {
    constexpr double kHeightOfIt = 16;
    std::string svg;
    double x = kLeft + 6;
    for (const char* const kind : {"f32", "f16", "quantised"}) {
        if (std::ranges::find(points, kind, &Point::kind) == points.end()) continue;
        svg += "<g class=\"point " + std::string(kind) + "\"><circle cx=\"" + coordinate(x) + "\" cy=\"" +
               coordinate(kHeightOfIt) + "\" r=\"4\"/></g>" +
               text_at(x + 9, kHeightOfIt + 4, "tick legend", std::string("cases in ") + kind);
        x += 130;
    }
    return svg + line(x, kHeightOfIt, x + 24, kHeightOfIt, "roof") +
           text_at(x + 31, kHeightOfIt + 4, "tick legend", "measured limits of the device");
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
    Room room(x, y);
    for (const Point& p : points)
        room.take({x.at(p.intensity) - kRadius, y.at(p.gflops) - kRadius, 2 * kRadius, 2 * kRadius});
    for (const Limit& limit : report.limits) {
        if (!limit.missing.empty()) continue;
        if (is_bandwidth(limit)) svg += bandwidth_line(limit, x, y, highest, room);
        if (is_peak(limit)) svg += peak_line(limit, x, y, bandwidth, room);
    }
    return svg + legend(points) + draw_points(points, x, y, room) + "</svg>\n";
}

}  // namespace vkformer::bench
