// SPDX-License-Identifier: MIT
/// What the kinds of models that hear do for Transcriber: whisper_hearing.cpp, ctc_hearing.cpp.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "api/open_backend.hpp"
#include "models/open_model.hpp"
#include "vkformer/transcriber.hpp"

namespace vkformer::api {

/// A model on a device. As thread-safe as Transcriber, whose functions say what these do.
class Hearing {
public:
    virtual ~Hearing() = default;

    /// Writes down all of the samples, which are some and finite, text with the spaces that the model writes.
    virtual Result<Transcription> hear(std::span<const float> samples, const Transcriber::Progress& progress) = 0;
    /// With the options of `now`.
    virtual Result<std::unique_ptr<Hearing>> twin() const = 0;
    virtual Result<void> choose(const std::string& language, const std::string& task) = 0;
    virtual Result<void> choose_word_timestamps(bool are_wanted) = 0;
    /// Without having heard anything; empty: not known.
    virtual std::string language() const = 0;
    virtual std::uint32_t sample_rate() const noexcept = 0;
    virtual const std::vector<std::string>& notes() const noexcept = 0;
    virtual const OpenedBackend& device() const noexcept = 0;
};

inline DType dtype_of(const TranscriberOptions& options) {
    return options.precision == Precision::f16 ? DType::f16 : DType::f32;
}

// Of a model that was loaded, whose folder that is. Errors: Transcriber::load's.
Result<std::unique_ptr<Hearing>> make_whisper_hearing(const std::filesystem::path& folder, models::SpeechModel speech,
                                                      const TranscriberOptions& options, OpeningBackend& opening);
Result<std::unique_ptr<Hearing>> make_ctc_hearing(const std::filesystem::path& folder, models::SpeechModel speech,
                                                  const TranscriberOptions& options, OpeningBackend& opening);

/// A second of sound: what the choice between two backends is measured with.
Result<std::vector<tuning::Workload>> ctc_workload(const models::CtcModel& model, DType dtype);

}  // namespace vkformer::api
