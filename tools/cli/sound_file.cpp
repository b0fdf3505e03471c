// SPDX-License-Identifier: MIT
#include "sound_file.hpp"

#include <samplerate.h>
#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
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

Error corrupt(const std::string& name, const std::string& what) {
    return Error{ErrorCode::CorruptFile, name + ": " + what};
}

/// Says where a WAV file ends before its samples do, as one that was not copied to its end. libsndfile tells it in its log alone:
/// "data : 2000 (should be 1000)". The largest number of all is what programs write that could not know it, into a pipe.
void show_shortness(const std::string& name, SNDFILE* file) {
    constexpr unsigned long long kUnknown = 0xFFFF'FFFF;
    char log[4096] = {};
    sf_command(file, SFC_GET_LOG_INFO, log, sizeof log);
    const std::string_view text = log;
    const std::size_t line = text.rfind("\ndata : ");
    unsigned long long claimed = 0, present = 0;
    if (line == text.npos || std::sscanf(log + line, " data : %llu (should be %llu)", &claimed, &present) != 2) return;
    if (claimed <= present || claimed == kUnknown) return;
    std::fprintf(stderr, "vkformer: %s ends early: its header promises %llu bytes of sound, it has %llu\n",
                 printable(name).c_str(), claimed, present);
}

/// All frames, the channels averaged; at most `limit`, and a block more.
Result<std::vector<float>> read_mono(const std::string& name, SNDFILE* file, const SF_INFO& info, std::size_t limit) {
    const auto channels = static_cast<std::size_t>(info.channels);
    std::vector<float> block(kBlockFrames * channels), mono;
    mono.reserve(static_cast<std::size_t>(info.frames));
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
    if (sf_error(file) != SF_ERR_NO_ERROR) return corrupt(name, sf_strerror(file));
    if (mono.empty()) return corrupt(name, "the file has no samples");
    for (const float sample : mono)
        if (!std::isfinite(sample)) return corrupt(name, "the file has samples that are no finite numbers");
    return mono;
}

Result<std::vector<float>> resample(const std::string& name, const std::vector<float>& from, double ratio) {
    std::vector<float> to(static_cast<std::size_t>(std::ceil(static_cast<double>(from.size()) * ratio)) + 1);
    SRC_DATA data = {};
    data.data_in = from.data();
    data.data_out = to.data();
    data.input_frames = static_cast<long>(from.size());
    data.output_frames = static_cast<long>(to.size());
    data.src_ratio = ratio;
    if (const int failure = src_simple(&data, SRC_SINC_BEST_QUALITY, 1); failure != 0)
        return corrupt(name, std::string("the sample rate cannot be converted: ") + src_strerror(failure));
    to.resize(static_cast<std::size_t>(data.output_frames_gen));
    return to;
}

/// `most_frames` besides kMaxSeconds.
Result<std::vector<float>> read_opened(const std::string& name, const File& file, const SF_INFO& info,
                                       std::uint32_t sample_rate, double most_frames) {
    if (!file) return corrupt(name, std::string("no sound file that libsndfile reads: ") + sf_strerror(nullptr));
    if (info.channels < 1 || info.channels > kMaxChannels || info.samplerate < 1 || info.frames < 0)
        return corrupt(name, "the header says " + std::to_string(info.channels) + " channels at " +
                                 std::to_string(info.samplerate) + " Hz; there may be up to " +
                                 std::to_string(kMaxChannels) + " channels");
    const double limit = std::min(kMaxSeconds * info.samplerate, most_frames);
    if (static_cast<double>(info.frames) > limit)
        return Error{
            ErrorCode::InvalidArgument,
            name + " is longer than " + std::to_string(static_cast<int>(limit / info.samplerate / 60)) + " minutes"};
    const double ratio = static_cast<double>(sample_rate) / info.samplerate;
    if (src_is_valid_ratio(ratio) == 0)
        return corrupt(name, "a rate of " + std::to_string(info.samplerate) + " Hz cannot be converted");
    VKFORMER_TRY(std::vector<float> samples, read_mono(name, file.get(), info, static_cast<std::size_t>(limit)));
    if (static_cast<std::uint32_t>(info.samplerate) == sample_rate) return samples;
    return resample(name, samples, ratio);
}

/// The bytes of a file that libsndfile reads from memory.
struct Bytes {
    std::string_view all;
    std::size_t at = 0;

    static Bytes& of(void* user) { return *static_cast<Bytes*>(user); }
    static sf_count_t length(void* user) { return static_cast<sf_count_t>(of(user).all.size()); }
    static sf_count_t tell(void* user) { return static_cast<sf_count_t>(of(user).at); }
    static sf_count_t seek(sf_count_t offset, int from, void* user) {
        Bytes& bytes = of(user);
        const sf_count_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? tell(user) : length(user);
        if (offset < -base || offset > length(user) - base) return -1;
        bytes.at = static_cast<std::size_t>(base + offset);
        return tell(user);
    }
    static sf_count_t read(void* to, sf_count_t count, void* user) {
        Bytes& bytes = of(user);
        const std::size_t taken =
            std::min(static_cast<std::size_t>(std::max<sf_count_t>(count, 0)), bytes.all.size() - bytes.at);
        std::memcpy(to, bytes.all.data() + bytes.at, taken);
        bytes.at += taken;
        return static_cast<sf_count_t>(taken);
    }
    static sf_count_t write(const void*, sf_count_t, void*) { return 0; }
};

}  // namespace

Result<std::vector<float>> read_sound_file(const std::filesystem::path& path, std::uint32_t sample_rate) try {
    const std::string name = path.string();
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return Error{ErrorCode::FileNotFound, name + " does not exist"};
    SF_INFO info = {};
    const File file(sf_open(path.c_str(), SFM_READ, &info), &sf_close);
    if (file) show_shortness(name, file.get());
    return read_opened(name, file, info, sample_rate, std::numeric_limits<double>::infinity());
} catch (const std::bad_alloc&) {
    return Error{ErrorCode::OutOfHostMemory, path.string() + ": out of memory while reading the samples"};
}

Result<std::vector<float>> read_sound(std::string_view bytes, std::uint32_t sample_rate) try {
    constexpr double kMaxFrames = 1 << 27;  // 512 MiB, and for rates above that of the model at most as much again
    Bytes file_bytes{bytes};
    SF_VIRTUAL_IO calls = {Bytes::length, Bytes::seek, Bytes::read, Bytes::write, Bytes::tell};
    SF_INFO info = {};
    const File file(sf_open_virtual(&calls, SFM_READ, &info, &file_bytes), &sf_close);
    return read_opened("the sound", file, info, sample_rate, kMaxFrames);
} catch (const std::bad_alloc&) {
    return Error{ErrorCode::OutOfHostMemory, "out of memory while reading the samples"};
}

}  // namespace vkformer::cli
