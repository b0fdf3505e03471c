// SPDX-License-Identifier: MIT
#include "audio/mel.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

#include "cpu/blas.hpp"

namespace vkformer::audio {
namespace {

constexpr std::size_t kBlockFrames = 256;  // of one product: bounds the memory
constexpr double kFloor = 1e-10;  // of the power, before the logarithm
constexpr double kDecades = 8;
constexpr double kHighest = 8000;  // Hz, whatever the sample rate

// Slaney's mel scale (Auditory Toolbox 1998): linear to 1 kHz, then logarithmic, 27 mels from 1 kHz to 6.4 kHz.
constexpr double kHertzPerMel = 200.0 / 3, kLogStart = 1000, kLogStartMel = 15;
double log_step() { return std::log(6.4) / 27; }
double mel_of(double hertz) {
    return hertz < kLogStart ? hertz / kHertzPerMel : kLogStartMel + std::log(hertz / kLogStart) / log_step();
}
double hertz_of(double mel) {
    return mel < kLogStartMel ? mel * kHertzPerMel : kLogStart * std::exp(log_step() * (mel - kLogStartMel));
}

/// The Fourier transform's matrix under a periodic Hann window: [2 · frequencies, window].
std::vector<double> fourier_matrix(std::size_t window) {
    const std::size_t frequencies = window / 2 + 1;
    std::vector<double> matrix(2 * frequencies * window);
    const double turn = 2 * std::numbers::pi / static_cast<double>(window);
    for (std::size_t n = 0; n < window; ++n) {
        const double hann = 0.5 - 0.5 * std::cos(turn * static_cast<double>(n));
        for (std::size_t k = 0; k < frequencies; ++k) {
            const double angle = turn * static_cast<double>(k * n % window);
            matrix[k * window + n] = hann * std::cos(angle);
            matrix[(frequencies + k) * window + n] = -hann * std::sin(angle);
        }
    }
    return matrix;
}

/// Triangles from one mel to the next but one, from 0 Hz to kHighest, each of area one: [bins, frequencies].
std::vector<double> mel_filters(const MelOptions& options) {
    const std::size_t frequencies = options.window / 2 + 1;
    const double top = options.sample_rate / 2.0, last = mel_of(kHighest);
    std::vector<double> edges(options.bins + std::size_t{2}), filters(options.bins * frequencies);
    for (std::size_t i = 0; i < edges.size(); ++i)
        edges[i] = hertz_of(last * static_cast<double>(i) / static_cast<double>(edges.size() - 1));
    for (std::size_t m = 0; m < options.bins; ++m) {
        const double left = edges[m], middle = edges[m + 1], right = edges[m + 2], area = 2 / (right - left);
        for (std::size_t k = 0; k < frequencies; ++k) {
            const double hertz = top * static_cast<double>(k) / static_cast<double>(frequencies - 1);
            const double rise = (hertz - left) / (middle - left), fall = (right - hertz) / (right - middle);
            filters[m * frequencies + k] = area * std::max(0.0, std::min(rise, fall));
        }
    }
    return filters;
}

/// The sample at `at` of a signal of `length` samples, zeros behind the given ones, mirrored at both ends.
double mirrored(std::span<const float> samples, std::int64_t at, std::int64_t length) {
    if (length > 1) {
        const std::int64_t period = 2 * (length - 1);
        at = ((at % period) + period) % period;
        if (at >= length) at = period - at;
    } else {
        at = 0;
    }
    return at < static_cast<std::int64_t>(samples.size()) ? static_cast<double>(samples[static_cast<std::size_t>(at)])
                                                          : 0;
}

}  // namespace

LogMel::LogMel(const MelOptions& options)
    : options_(options), fourier_(fourier_matrix(options.window)), filters_(mel_filters(options)) {}

std::vector<float> LogMel::spectrogram(std::span<const float> samples, std::size_t frames) const {
    const std::size_t window = options_.window, frequencies = window / 2 + 1, bins = options_.bins;
    const auto length = static_cast<std::int64_t>(std::max(frames * options_.hop, samples.size()));
    std::vector<double> signal(kBlockFrames * window), waves, power, mel;
    std::vector<float> result(frames * bins);
    double loudest = std::log10(kFloor);
    for (std::size_t first = 0; first < frames; first += kBlockFrames) {
        const std::size_t count = std::min(kBlockFrames, frames - first);
        for (std::size_t f = 0; f < count; ++f) {
            const auto start =
                static_cast<std::int64_t>((first + f) * options_.hop) - static_cast<std::int64_t>(window / 2);
            for (std::size_t n = 0; n < window; ++n)
                signal[f * window + n] = mirrored(samples, start + static_cast<std::int64_t>(n), length);
        }
        waves.assign(count * 2 * frequencies, 0);
        cpu::add_product_transposed(
            count, 2 * frequencies, window, 1.0, cpu::Matrix<const double>{signal.data(), window},
            cpu::Matrix<const double>{fourier_.data(), window}, cpu::Matrix<double>{waves.data(), 2 * frequencies});
        power.resize(count * frequencies);
        for (std::size_t f = 0; f < count; ++f) {
            const double* wave = waves.data() + f * 2 * frequencies;
            for (std::size_t k = 0; k < frequencies; ++k)
                power[f * frequencies + k] = wave[k] * wave[k] + wave[frequencies + k] * wave[frequencies + k];
        }
        mel.assign(count * bins, 0);
        cpu::add_product_transposed(count, bins, frequencies, 1.0, cpu::Matrix<const double>{power.data(), frequencies},
                                    cpu::Matrix<const double>{filters_.data(), frequencies},
                                    cpu::Matrix<double>{mel.data(), bins});
        for (std::size_t i = 0; i < mel.size(); ++i) {
            const double value = std::log10(std::max(mel[i], kFloor));
            loudest = std::max(loudest, value);
            result[first * bins + i] = static_cast<float>(value);
        }
    }
    for (float& value : result)
        value = static_cast<float>((std::max(static_cast<double>(value), loudest - kDecades) + 4) / 4);
    return result;
}

std::vector<float> windows_of(std::span<const float> spectrogram, std::size_t bins) {
    constexpr std::int64_t kTaps = 3;
    const auto frames = static_cast<std::int64_t>(spectrogram.size() / bins);
    assert(frames % 2 == 0);
    const std::size_t width = kTaps * bins + 1, positions = static_cast<std::size_t>(frames) / 2;
    std::vector<float> windows(positions * kTaps * width, 0);
    float* window = windows.data();
    for (std::size_t i = 0; i < positions; ++i) {
        for (std::int64_t k = 0; k < kTaps; ++k, window += width) {
            const std::int64_t output = 2 * static_cast<std::int64_t>(i) + k - 1;
            if (output < 0 || output >= frames) continue;
            for (std::int64_t tap = 0; tap < kTaps; ++tap) {
                const std::int64_t frame = output + tap - 1;
                if (frame < 0 || frame >= frames) continue;
                std::copy_n(spectrogram.data() + frame * static_cast<std::int64_t>(bins), bins,
                            window + tap * static_cast<std::int64_t>(bins));
            }
            window[width - 1] = 1;
        }
    }
    return windows;
}

}  // namespace vkformer::audio
