// SPDX-License-Identifier: MIT
#include "sound_file.hpp"

#include <samplerate.h>
#include <sndfile.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "cli.hpp"
#include "core/try.hpp"

namespace vkformer::cli {
namespace {

constexpr double kMaxSeconds = 90 * 60;  // 16 kHz in float32: 345 MB, and as much again where the rate is converted
constexpr int kMaxChannels = 64;
constexpr std::size_t kBlockFrames = 1 << 16;

using File = std::unique_ptr<SNDFILE, int (*)(SNDFILE*)>;

Error corrupt(const std::filesystem::path& path, const std::string& what) {
    return Error{ErrorCode::CorruptFile, path.string() + ": " + what};
}

/// Says where a WAV file ends before its samples do, as one that was not copied to its end. libsndfile tells it in its log alone:
/// "data : 2000 (should be 1000)". The largest number of all is what programs write that could not know it, into a pipe.
void show_shortness(const std::filesystem::path& path, SNDFILE* file) {
    constexpr unsigned long long kUnknown = 0xFFFF'FFFF;
    char log[4096] = {};
    sf_command(file, SFC_GET_LOG_INFO, log, sizeof log);
    const std::string_view text = log;
    const std::size_t line = text.rfind("\ndata : ");
    unsigned long long claimed = 0, present = 0;
    if (line == text.npos || std::sscanf(log + line, " data : %llu (should be %llu)", &claimed, &present) != 2) return;
    if (claimed <= present || claimed == kUnknown) return;
    std::fprintf(stderr, "vkformer: %s ends early: its header promises %llu bytes of sound, it has %llu\n",
                 printable(path.string()).c_str(), claimed, present);
}

/// All frames, the channels averaged.
Result<std::vector<float>> read_mono(const std::filesystem::path& path, SNDFILE* file, const SF_INFO& info) {
    const auto channels = static_cast<std::size_t>(info.channels);
    std::vector<float> block(kBlockFrames * channels), mono;
    mono.reserve(static_cast<std::size_t>(info.frames));
    const auto limit = static_cast<std::size_t>(kMaxSeconds * info.samplerate);
    for (;;) {
        const sf_count_t read = sf_readf_float(file, block.data(), static_cast<sf_count_t>(kBlockFrames));
        if (read <= 0) break;
        for (std::size_t frame = 0; frame < static_cast<std::size_t>(read); ++frame) {
            float sum = 0;
            for (std::size_t c = 0; c < channels; ++c) sum += block[frame * channels + c];
            mono.push_back(sum / static_cast<float>(channels));
        }
        if (mono.size() > limit) break;  // a header that says less than the file has
    }
    if (sf_error(file) != SF_ERR_NO_ERROR) return corrupt(path, sf_strerror(file));
    if (mono.empty()) return corrupt(path, "the file has no samples");
    for (const float sample : mono)
        if (!std::isfinite(sample)) return corrupt(path, "the file has samples that are no finite numbers");
    return mono;
}

Result<std::vector<float>> resample(const std::filesystem::path& path, const std::vector<float>& from, double ratio) {
    std::vector<float> to(static_cast<std::size_t>(std::ceil(static_cast<double>(from.size()) * ratio)) + 1);
    SRC_DATA data = {};
    data.data_in = from.data();
    data.data_out = to.data();
    data.input_frames = static_cast<long>(from.size());
    data.output_frames = static_cast<long>(to.size());
    data.src_ratio = ratio;
    if (const int failure = src_simple(&data, SRC_SINC_BEST_QUALITY, 1); failure != 0)
        return corrupt(path, std::string("the sample rate cannot be converted: ") + src_strerror(failure));
    to.resize(static_cast<std::size_t>(data.output_frames_gen));
    return to;
}

}  // namespace

Result<std::vector<float>> read_sound_file(const std::filesystem::path& path, std::uint32_t sample_rate) try {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored))
        return Error{ErrorCode::FileNotFound, path.string() + " does not exist"};
    SF_INFO info = {};
    const File file(sf_open(path.c_str(), SFM_READ, &info), &sf_close);
    if (!file) return corrupt(path, std::string("no sound file that libsndfile reads: ") + sf_strerror(nullptr));
    if (info.channels < 1 || info.channels > kMaxChannels || info.samplerate < 1 || info.frames < 0)
        return corrupt(path, "the header says " + std::to_string(info.channels) + " channels at " +
                                 std::to_string(info.samplerate) + " Hz");
    if (static_cast<double>(info.frames) > kMaxSeconds * info.samplerate)
        return Error{ErrorCode::InvalidArgument, path.string() + " is longer than " +
                                                     std::to_string(static_cast<int>(kMaxSeconds / 60)) + " minutes"};
    const double ratio = static_cast<double>(sample_rate) / info.samplerate;
    if (src_is_valid_ratio(ratio) == 0)
        return corrupt(path, "a rate of " + std::to_string(info.samplerate) + " Hz cannot be converted");
    show_shortness(path, file.get());
    VKFORMER_TRY(std::vector<float> samples, read_mono(path, file.get(), info));
    if (static_cast<std::uint32_t>(info.samplerate) == sample_rate) return samples;
    return resample(path, samples, ratio);
} catch (const std::bad_alloc&) {
    return Error{ErrorCode::OutOfHostMemory, path.string() + ": out of memory while reading the samples"};
}

}  // namespace vkformer::cli
