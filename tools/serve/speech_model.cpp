// SPDX-License-Identifier: MIT
#include "serve/speech_model.hpp"

#include "core/try.hpp"

namespace vkformer::serve {

Result<HeardFile> SpeechModel::hear(const SoundFile& file) {
    const std::uint32_t rate = model_->sample_rate();
    auto samples = read_sound_(file.bytes, rate);
    if (!samples && samples.error().code == ErrorCode::CorruptFile)
        return Error{ErrorCode::InvalidArgument, samples.error().message};
    if (!samples) return std::move(samples).error();
    VKFORMER_CHECK(model_->choose(file.language, file.task));
    VKFORMER_CHECK(model_->choose_prompt(file.prompt));
    VKFORMER_CHECK(model_->choose_word_timestamps(file.word_timestamps));
    const bool filters = file.vad_filter.value_or(has_vad_);
    VKFORMER_CHECK(model_->choose_vad(filters ? std::optional(vad_parameters_) : std::nullopt));
    VKFORMER_TRY(auto transcription, model_->transcribe(*samples));
    return HeardFile{std::move(transcription), static_cast<double>(samples->size()) / rate};
}

Result<std::unique_ptr<SpeechModel>> SpeechModel::load(std::string name, const std::filesystem::path& path,
                                                       const ModelOptions& options, Metrics& metrics) {
    auto loaded = std::make_unique<SpeechModel>();
    loaded->name_ = std::move(name);
    loaded->read_sound_ = options.read_sound;
    loaded->has_vad_ = !options.vad.empty();
    loaded->vad_parameters_ = options.vad_parameters;
    TranscriberOptions transcriber{
        .device = options.device, .precision = options.precision, .weights = options.weights};
    transcriber.plain_shaders = options.plain_shaders;
    transcriber.shader_variants = options.shader_variants;
    transcriber.on_progress = options.on_progress;
    transcriber.offload = options.offload;
    transcriber.vad = options.vad;
    transcriber.vad_parameters = options.vad_parameters;
    transcriber.should_stop = [self = loaded.get()] { return self->calls_ && self->calls_->should_stop(); };
    VKFORMER_TRY(auto model, Transcriber::load(path, transcriber));
    loaded->model_.emplace(std::move(model));
    loaded->calls_ = std::make_unique<Calls>(
        1,
        [self = loaded.get()](std::span<const SoundFile> files) -> Result<std::vector<HeardFile>> {
            VKFORMER_TRY(auto heard, self->hear(files[0]));
            std::vector<HeardFile> all;
            all.push_back(std::move(heard));
            return all;
        },
        [](const SoundFile&) { return Result<void>(); },
        [&metrics, name = loaded->name_](std::size_t files) {
            metrics.observe("vkformer_batch_inputs", {{"model", name}}, static_cast<double>(files));
        });
    return loaded;
}

}  // namespace vkformer::serve
