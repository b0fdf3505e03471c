// SPDX-License-Identifier: MIT
#include "images/resample.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/try.hpp"
#include "images/image.hpp"

namespace vkformer::images {
namespace {

constexpr int kFractionBits = 22;  // 32 less the 8 of a byte and 2 for sums that overshoot

double support_of(Resample filter) {
    switch (filter) {
    case Resample::box: return 0.5;
    case Resample::bilinear: return 1;
    case Resample::bicubic: return 2;
    case Resample::lanczos: return 3;
    }
    return 0;
}

double sinc(double x) {
    const double angle = std::numbers::pi * x;
    return x == 0 ? 1 : std::sin(angle) / angle;
}

double value_of(Resample filter, double x) {
    switch (filter) {
    case Resample::box: return x > -0.5 && x <= 0.5 ? 1 : 0;
    case Resample::bilinear: return std::max(0.0, 1 - std::abs(x));
    case Resample::bicubic: {  // Keys 1981, eq. 4 and 8
        constexpr double a = -0.5;
        const double t = std::abs(x);
        if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
        return t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
    }
    case Resample::lanczos: return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
    }
    return 0;
}

/// What a pixel of the result is made of: weights of the pixels from `first` on, whose sum is 1. Fixed: in fixed point.
template <class Weight>
struct Window {
    std::size_t first = 0;
    std::vector<Weight> weights;
};
using FixedWindow = Window<std::int32_t>;

std::int32_t fixed(double weight) {
    return static_cast<std::int32_t>(std::trunc(weight * (1 << kFractionBits) + (weight < 0 ? -0.5 : 0.5)));
}

/// The window of pixel `index` of `out`, from a line of `in` pixels.
Window<double> window_of(Resample filter, std::uint32_t in, std::uint32_t out, std::uint32_t index) {
    const double scale = static_cast<double>(in) / out, stretch = std::max(scale, 1.0);
    const double support = support_of(filter) * stretch, centre = (index + 0.5) * scale;
    const auto first = static_cast<std::size_t>(std::max(centre - support + 0.5, 0.0));
    const auto end = static_cast<std::size_t>(std::min(std::floor(centre + support + 0.5), static_cast<double>(in)));
    std::vector<double> values;
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) {
        values.push_back(value_of(filter, (static_cast<double>(i) - centre + 0.5) * (1 / stretch)));
        sum += values.back();
    }
    for (double& value : values) value = sum == 0 ? value : value / sum;
    return {.first = first, .weights = std::move(values)};
}

/// Σ weight · pixel of one channel, to the nearest byte. `step`: between the channel's values.
std::uint8_t weighted_sum(const FixedWindow& window, const std::uint8_t* line, std::size_t step) {
    // |weights| sum to less than 2, so the sum stays below 255 · 2^23 < 2^31
    std::int32_t sum = 1 << (kFractionBits - 1);
    const std::uint8_t* pixel = line + window.first * step;
    for (const std::int32_t weight : window.weights) {
        sum += weight * *pixel;
        pixel += step;
    }
    return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

std::vector<Window<double>> windows_of(Resample filter, std::uint32_t in, std::uint32_t out) {
    std::vector<Window<double>> windows;
    for (std::uint32_t i = 0; i < out; ++i) windows.push_back(window_of(filter, in, out, i));
    return windows;
}

std::vector<FixedWindow> fixed_windows_of(Resample filter, std::uint32_t in, std::uint32_t out) {
    std::vector<FixedWindow> windows;
    for (const auto& window : windows_of(filter, in, out)) {
        auto& rounded = windows.emplace_back(FixedWindow{.first = window.first, .weights = {}});
        for (const double weight : window.weights) rounded.weights.push_back(fixed(weight));
    }
    return windows;
}

Result<Image> resize_columns(const Image& image, std::uint32_t width, Resample filter) {
    VKFORMER_TRY(Image result, make_image(width, image.height));
    const auto windows = fixed_windows_of(filter, image.width, width);
    auto out = result.rgb.begin();
    for (std::size_t y = 0; y < image.height; ++y) {
        const std::uint8_t* const line = image.rgb.data() + y * image.width * 3;
        for (const FixedWindow& window : windows)
            for (std::size_t c = 0; c < 3; ++c) *out++ = weighted_sum(window, line + c, 3);
    }
    return result;
}

Result<Image> resize_rows(const Image& image, std::uint32_t height, Resample filter) {
    VKFORMER_TRY(Image result, make_image(image.width, height));
    const std::size_t pitch = std::size_t{image.width} * 3;
    auto out = result.rgb.begin();
    for (const FixedWindow& window : fixed_windows_of(filter, image.height, height))
        for (std::size_t i = 0; i < pitch; ++i) *out++ = weighted_sum(window, image.rgb.data() + i, pitch);
    return result;
}

/// [outer, in, inner] → [outer, out, inner], `in` and `out` those of the windows.
template <class T>
std::vector<float> resampled(const std::vector<T>& values, std::size_t in, std::size_t inner,
                             const std::vector<Window<double>>& windows) {
    std::vector<float> result;
    result.reserve(values.size() / in * windows.size());
    for (std::size_t line = 0; line < values.size(); line += in * inner)
        for (const Window<double>& window : windows)
            for (std::size_t i = 0; i < inner; ++i) {
                double sum = 0;
                const T* value = &values[line + window.first * inner + i];
                for (std::size_t k = 0; k < window.weights.size(); ++k)
                    sum += window.weights[k] * static_cast<double>(value[k * inner]);
                result.push_back(static_cast<float>(sum));
            }
    return result;
}

}  // namespace

std::optional<Resample> resample_of(std::uint32_t number) noexcept {
    switch (number) {
    case 1: return Resample::lanczos;
    case 2: return Resample::bilinear;
    case 3: return Resample::bicubic;
    case 4: return Resample::box;
    default: return {};
    }
}

Result<Image> resize(const Image& image, std::uint32_t width, std::uint32_t height, Resample filter) {
    Image columns;
    const Image* source = &image;
    if (width != image.width) {
        VKFORMER_TRY(columns, resize_columns(image, width, filter));
        source = &columns;
    }
    if (height == source->height) return *source;
    return resize_rows(*source, height, filter);
}

Result<std::vector<float>> resize_values(const Image& image, std::uint32_t width, std::uint32_t height,
                                         Resample filter) {
    VKFORMER_CHECK(check_size(width, image.height));
    VKFORMER_CHECK(check_size(width, height));
    const std::vector<float> columns = resampled(image.rgb, image.width, 3, windows_of(filter, image.width, width));
    return resampled(columns, image.height, std::size_t{width} * 3, windows_of(filter, image.height, height));
}

}  // namespace vkformer::images
