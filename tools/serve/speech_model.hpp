// SPDX-License-Identifier: MIT
/// A Whisper, Wav2Vec 2.0 or HuBERT under many clients: one file after the other.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "serve/metrics.hpp"
#include "serve/model_options.hpp"
#include "serve/shared_calls.hpp"
#include "vkformer/transcriber.hpp"

namespace vkformer::serve {

struct SoundFile {
    std::string bytes;
    std::string language, task;      ///< empty: as the model's folder says
    std::string prompt;              ///< text that comes before what is said
    bool word_timestamps = false;    ///< SpeechSegment::words
    std::optional<bool> vad_filter;  ///< speech alone is heard; none: where the server has a file for it
};

struct HeardFile {
    Transcription transcription;
    double seconds = 0;  ///< of sound
};

class SpeechModel {
public:
    using Calls = SharedCalls<SoundFile, HeardFile>;
    static Result<std::unique_ptr<SpeechModel>> load(std::string name, const std::filesystem::path& path,
                                                     const ModelOptions& options, Metrics& metrics);

    const std::string& name() const noexcept { return name_; }
    const std::string& device() const noexcept { return model_->device(); }
    const std::vector<std::string>& notes() const noexcept { return model_->notes(); }
    DeviceMemory memory() const { return model_->memory(); }
    /// Sets what the model's gauges show now.
    void show(Metrics& metrics) const {
        metrics.set("vkformer_queue_requests", {{"model", name_}}, static_cast<double>(calls_->waiting()));
    }
    Calls& calls() noexcept { return *calls_; }

private:
    Result<HeardFile> hear(const SoundFile& file);

    std::string name_;
    bool has_vad_ = false;
    VadOptions vad_parameters_;
    std::function<Result<std::vector<float>>(std::string_view, std::uint32_t)> read_sound_;
    std::optional<Transcriber> model_;
    std::unique_ptr<Calls> calls_;
};

}  // namespace vkformer::serve
