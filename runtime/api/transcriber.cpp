// SPDX-License-Identifier: MIT
#include "vkformer/transcriber.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "api/generation_workload.hpp"
#include "api/open_backend.hpp"
#include "audio/mel.hpp"
#include "core/try.hpp"
#include "decoding/session.hpp"
#include "models/load.hpp"
#include "models/speech_config.hpp"
#include "text/tokenizer.hpp"

namespace vkformer {
namespace {

constexpr std::size_t kDefaultBatch = 8;

DType dtype_of(const TranscriberOptions& options) {
    return options.precision == Precision::f16 ? DType::f16 : DType::f32;
}

api::OpenOptions open_options(const TranscriberOptions& options, const models::EncoderDecoder& model,
                              const models::GenerationConfig& generation) {
    api::OpenOptions open{.device = options.device,
                          .plain = options.plain_shaders,
                          .variants = options.shader_variants,
                          .workload = [&options, &model, &generation] {
                              return api::generation_workload(model, generation, dtype_of(options));
                          }};
    if (options.on_progress)
        open.progress = [report = options.on_progress](const tuning::Progress& p) { report(to_string(p)); };
    return open;
}

/// How many samples the first window takes: all, or so many that the cut lies in the middle of the quietest tenth of a
/// second in the last fifth of the longest window.
std::size_t first_window(std::span<const float> samples, std::size_t longest, std::uint32_t sample_rate) {
    if (samples.size() <= longest) return samples.size();
    const std::size_t stretch = std::clamp<std::size_t>(sample_rate / 10, 1, std::max<std::size_t>(longest / 10, 1));
    const std::size_t step = std::max<std::size_t>(stretch / 4, 1);
    std::size_t cut = longest;
    double quietest = std::numeric_limits<double>::infinity();
    for (std::size_t at = longest - longest / 5; at + stretch <= longest; at += step) {
        double energy = 0;
        for (const float sample : samples.subspan(at, stretch)) energy += double{sample} * sample;
        if (energy > quietest) continue;
        quietest = energy;
        cut = at + stretch / 2;
    }
    return cut;
}

std::string trimmed(const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace

struct Transcriber::Impl {
    TranscriberOptions options;
    std::unique_ptr<models::EncoderDecoder> model;
    models::SpeechConfig speech;
    std::unique_ptr<text::Tokenizer> tokenizer;
    audio::LogMel mel;
    api::OpenedBackend device;
    std::optional<decoding::Session> session;  // made by the first call, which fixes the batch

    /// Spectrogram frames of a window; two make a position of the encoder.
    std::size_t frames() const { return 2 * model->limits().source_len; }

    Result<void> make_session(std::size_t windows);
    /// What the encoder reads of a window.
    std::vector<float> features(std::span<const float> samples) const;
    Transcript transcript(std::span<const std::int32_t> tokens, std::size_t first, std::size_t end) const;
    std::string language_of(std::span<const std::int32_t> prefix) const;
};

Result<void> Transcriber::Impl::make_session(std::size_t windows) {
    if (session) return {};
    const std::size_t batch = options.batch > 0 ? options.batch : std::min(windows, kDefaultBatch);
    decoding::SessionOptions wanted = {.generation = speech.generation,
                                       .batch = static_cast<std::uint32_t>(batch),
                                       .dtype = dtype_of(options),
                                       .banned_first = speech.banned_first};
    for (const auto& [name, token] : speech.languages) wanted.choices.push_back(token);
    VKFORMER_TRY(auto made, decoding::Session::create(*device.backend, *model, wanted));
    session.emplace(std::move(made));
    return {};
}

std::vector<float> Transcriber::Impl::features(std::span<const float> samples) const {
    return audio::windows_of(mel.spectrogram(samples, frames()), mel.options().bins);
}

Transcript Transcriber::Impl::transcript(std::span<const std::int32_t> tokens, std::size_t first,
                                         std::size_t end) const {
    std::vector<std::int32_t> spoken;
    for (const std::int32_t token : tokens.subspan(1 + speech.prefix.size()))
        if (speech.first_timestamp < 0 || token < speech.first_timestamp) spoken.push_back(token);
    const double rate = mel.options().sample_rate;
    return {.start = static_cast<double>(first) / rate,
            .end = static_cast<double>(end) / rate,
            .text = tokenizer->decode(spoken),
            .tokens = {tokens.begin(), tokens.end()}};
}

std::string Transcriber::Impl::language_of(std::span<const std::int32_t> prefix) const {
    for (const auto& [name, token] : speech.languages)
        if (!prefix.empty() && prefix[0] == token) return name;
    return {};
}

Transcriber::Transcriber(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Transcriber::Transcriber(Transcriber&&) noexcept = default;
Transcriber& Transcriber::operator=(Transcriber&&) noexcept = default;
Transcriber::~Transcriber() = default;

const std::string& Transcriber::device() const noexcept { return impl_->device.description; }
std::uint32_t Transcriber::sample_rate() const noexcept { return impl_->mel.options().sample_rate; }

Result<Transcriber> Transcriber::load(const std::filesystem::path& folder, const TranscriberOptions& options) {
    VKFORMER_TRY(models::SpeechModel loaded, models::load_speech_model(folder));
    auto& model = loaded.model;
    VKFORMER_TRY(auto speech, models::load_speech_config(folder, model->limits().target_len,
                                                         {.language = options.language, .task = options.task}));
    VKFORMER_TRY(auto tokenizer, text::load_tokenizer(folder));
    VKFORMER_TRY(const auto mel, audio::read_mel_options(folder, loaded.mel_bins));
    if (options.max_length > 0)
        speech.generation.max_steps = static_cast<std::uint32_t>(std::min<std::uint64_t>(
            options.max_length + std::uint64_t{speech.prefix.size()}, model->limits().target_len - 1));
    VKFORMER_TRY(auto device, api::open_backend(open_options(options, *model, speech.generation)));
    return Transcriber(std::make_unique<Impl>(Impl{.options = options,
                                                   .model = std::move(model),
                                                   .speech = std::move(speech),
                                                   .tokenizer = std::move(tokenizer),
                                                   .mel = audio::LogMel(mel),
                                                   .device = std::move(device),
                                                   .session = {}}));
}

Result<Transcription> Transcriber::transcribe(std::span<const float> samples, const Progress& progress) {
    if (samples.empty()) return Error{ErrorCode::InvalidArgument, "there are no samples"};
    if (!std::ranges::all_of(samples, [](float sample) { return std::isfinite(sample); }))
        return Error{ErrorCode::InvalidArgument, "there are samples that are no finite numbers"};

    const std::size_t longest = impl_->frames() * impl_->mel.options().hop;
    std::vector<std::size_t> starts;
    for (std::size_t first = 0; first < samples.size();) {
        starts.push_back(first);
        first += first_window(samples.subspan(first), longest, sample_rate());
    }
    const auto end_of = [&](std::size_t i) { return i + 1 < starts.size() ? starts[i + 1] : samples.size(); };

    VKFORMER_CHECK(impl_->make_session(starts.size()));
    const std::size_t batch = impl_->session->options().batch;
    std::vector<std::int32_t> prefix = impl_->speech.prefix;
    Transcription result;
    for (std::size_t first = 0; first < starts.size(); first += batch) {
        const std::size_t last = std::min(first + batch, starts.size());
        std::vector<std::vector<float>> features;
        for (std::size_t i = first; i < last; ++i)
            features.push_back(impl_->features(samples.subspan(starts[i], end_of(i) - starts[i])));
        std::vector<decoding::Source> sources;
        for (const auto& window : features) sources.push_back({.features = window});
        VKFORMER_TRY(const auto heard, impl_->session->generate(sources, {}, prefix));
        const auto given = std::span(heard[0].tokens).subspan(1, prefix.size());
        prefix.assign(given.begin(), given.end());  // the language that was heard, if one was to be
        for (std::size_t i = first; i < last; ++i) {
            result.windows.push_back(impl_->transcript(heard[i - first].tokens, starts[i], end_of(i)));
            result.text += result.windows.back().text;
        }
        if (progress) progress(last, starts.size());
    }
    result.language = impl_->language_of(prefix);
    result.text = trimmed(result.text);
    return result;
}

}  // namespace vkformer
