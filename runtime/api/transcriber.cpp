// SPDX-License-Identifier: MIT
#include "vkformer/transcriber.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "api/hearing.hpp"
#include "audio/gathered_speech.hpp"
#include "core/try.hpp"

namespace vkformer {
namespace {

api::OpenOptions open_options(const TranscriberOptions& options) {
    api::OpenOptions open{.device = options.device,
                          .plain = options.plain_shaders,
                          .variants = options.shader_variants,
                          .should_stop = options.should_stop,
                          .offload = options.offload};
    api::report_to(options.on_progress, open);
    return open;
}

}  // namespace

struct Transcriber::Impl {
    std::unique_ptr<api::Hearing> hearing;
    std::optional<VoiceActivityDetector> vad;
    VadOptions vad_parameters;
    bool filters = false;  // what is no speech is not heard

    Result<Transcription> transcribe_speech(std::span<const float> samples, const Progress& progress);
};

/// What is speech, one behind the other: so a window is full of it, and the first one, which tells the language, is not silent.
Result<Transcription> Transcriber::Impl::transcribe_speech(std::span<const float> samples, const Progress& progress) {
    VKFORMER_TRY(auto regions, vad->speech_timestamps(samples, vad_parameters, hearing->options->should_stop));
    const double total = static_cast<double>(samples.size()) / hearing->sample_rate();
    Transcription result;
    if (regions.empty()) {
        result.language = hearing->language();
        if (progress) progress(total, total);
        return result;
    }
    const audio::GatheredSpeech gathered(samples, std::move(regions), hearing->sample_rate());
    Progress told;
    double last = 0;
    if (progress)
        told = [&](double done, double all) {
            last = done < all ? gathered.end_in_sound(done) : total;
            progress(last, total);
        };
    VKFORMER_TRY(result, hearing->hear(gathered.samples(), told));
    if (progress && last < total) progress(total, total);
    for (SpeechSegment& segment : result.segments) gathered.restore(segment);
    return result;
}

Transcriber::Transcriber(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Transcriber::Transcriber(Transcriber&&) noexcept = default;
Transcriber& Transcriber::operator=(Transcriber&&) noexcept = default;
Transcriber::~Transcriber() = default;

const std::string& Transcriber::device() const noexcept { return impl_->hearing->backend.description; }
const std::vector<std::string>& Transcriber::notes() const noexcept { return impl_->hearing->notes(); }
DeviceMemory Transcriber::memory() const { return impl_->hearing->backend.backend->memory(); }
std::uint32_t Transcriber::sample_rate() const noexcept { return impl_->hearing->sample_rate(); }

Result<Transcriber> Transcriber::load(const std::filesystem::path& folder, const TranscriberOptions& options) {
    if (options.temperatures.empty()) return Error{ErrorCode::InvalidArgument, "there is no temperature to decode at"};
    if (options.timestamps && options.batch > 1)
        return Error{ErrorCode::InvalidArgument, "windows are decoded one by one with timestamps, a batch of " +
                                                     std::to_string(options.batch) + " needs text without them"};
    std::optional<VoiceActivityDetector> vad;
    if (!options.vad.empty()) {
        VKFORMER_TRY(vad, VoiceActivityDetector::load(options.vad));
        VKFORMER_CHECK(speech_timestamps({}, 0, options.vad_parameters));
    } else if (options.vad_parameters != VadOptions{}) {
        return Error{ErrorCode::InvalidArgument, "vad_parameters without vad, by whose file speech is told"};
    }
    api::OpeningBackend opening(open_options(options));
    VKFORMER_TRY(models::SpeechModel model, models::load_speech_model(folder));
    const auto make = model.ctc ? api::make_ctc_hearing : api::make_whisper_hearing;
    VKFORMER_TRY(auto hearing, make(folder, std::move(model), std::make_shared<const TranscriberOptions>(options)));
    if (vad && hearing->sample_rate() != VoiceActivityDetector::kSampleRate)
        return Error{ErrorCode::UnsupportedConfig, "the model hears " + std::to_string(hearing->sample_rate()) +
                                                       " samples a second, and vad 16000: leave vad out"};
    if (options.word_timestamps) VKFORMER_CHECK(hearing->check_word_times());
    hearing->times_words = options.word_timestamps;
    VKFORMER_TRY(hearing->backend, opening.get([&] { return hearing->workload(); }));
    hearing->weights = hearing->backend.backend->make_store();
    return Transcriber(
        std::make_unique<Impl>(Impl{std::move(hearing), std::move(vad), options.vad_parameters, !options.vad.empty()}));
}

Result<Transcriber> Transcriber::twin() const {
    const api::Hearing& first = *impl_->hearing;
    auto hearing = first.twin();
    hearing->times_words = first.times_words;
    hearing->weights = first.weights;
    VKFORMER_TRY(hearing->backend, first.backend.twin());
    return Transcriber(
        std::make_unique<Impl>(Impl{std::move(hearing), impl_->vad, impl_->vad_parameters, impl_->filters}));
}

Result<void> Transcriber::choose(const std::string& language, const std::string& task) {
    return impl_->hearing->choose(language, task);
}

Result<void> Transcriber::choose_prompt(const std::string& prompt) { return impl_->hearing->choose_prompt(prompt); }

Result<void> Transcriber::choose_word_timestamps(bool are_wanted) {
    if (are_wanted) VKFORMER_CHECK(impl_->hearing->check_word_times());
    impl_->hearing->times_words = are_wanted;
    return {};
}

Result<void> Transcriber::choose_vad(const std::optional<VadOptions>& parameters) {
    if (parameters) {
        if (!impl_->vad)
            return Error{ErrorCode::InvalidArgument, "no file was loaded by which speech is told: load with vad"};
        VKFORMER_CHECK(speech_timestamps({}, 0, *parameters));
        impl_->vad_parameters = *parameters;
    }
    impl_->filters = parameters.has_value();
    return {};
}

Result<Transcription> Transcriber::transcribe(std::span<const float> samples, const Progress& progress) {
    if (samples.empty()) return Error{ErrorCode::InvalidArgument, "there are no samples"};
    if (!std::ranges::all_of(samples, [](float sample) { return std::isfinite(sample); }))
        return Error{ErrorCode::InvalidArgument, "there are samples that are no finite numbers"};
    VKFORMER_TRY(auto result, impl_->filters ? impl_->transcribe_speech(samples, progress)
                                             : impl_->hearing->hear(samples, progress));
    result.text = api::without_space_around(result.text);
    return result;
}

}  // namespace vkformer
