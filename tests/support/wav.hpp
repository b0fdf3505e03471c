// SPDX-License-Identifier: MIT
/// WAV files for tests: 16-bit PCM.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>

namespace vkformer::tests {

inline void append_little(std::string& bytes, std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

/// Every sample in every channel. `claimed_bytes`: what the header says of the data, by default the truth.
inline std::string wav(std::span<const float> samples, std::uint32_t rate, std::uint32_t channels = 1,
                       std::uint32_t claimed_bytes = 0) {
    const auto bytes = static_cast<std::uint32_t>(samples.size()) * channels * 2;
    const std::uint32_t claimed = claimed_bytes > 0 ? claimed_bytes : bytes;
    std::string file = "RIFF";
    append_little(file, claimed + 36, 4);
    file += "WAVEfmt ";
    append_little(file, 16, 4);
    append_little(file, 1, 2);  // PCM
    append_little(file, channels, 2);
    append_little(file, rate, 4);
    append_little(file, rate * channels * 2, 4);
    append_little(file, channels * 2, 2);
    append_little(file, 16, 2);
    file += "data";
    append_little(file, claimed, 4);
    for (const float sample : samples)
        for (std::uint32_t c = 0; c < channels; ++c)
            append_little(file, static_cast<std::uint32_t>(std::lround(sample * 32768.0f)), 2);
    return file;
}

}  // namespace vkformer::tests
