// SPDX-License-Identifier: MIT
/// What the kinds of models that hear do for Transcriber: whisper_hearing.cpp, ctc_hearing.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/open_backend.hpp"
#include "models/ctc.hpp"
#include "models/open_model.hpp"
#include "vkformer/transcriber.hpp"

namespace vkformer::api {

/// From the first to the last character that is none.
inline std::string without_space_around(const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

/// A model on a device. As thread-safe as Transcriber, whose functions say what these do.
class Hearing {
public:
    explicit Hearing(std::shared_ptr<const TranscriberOptions> given) : options(std::move(given)) {}
    virtual ~Hearing() = default;

    std::shared_ptr<const TranscriberOptions> options;  ///< but for what is chosen
    bool times_words = false;
    // Both are set before anything is heard.
    OpenedBackend backend;
    std::shared_ptr<graph::TensorStore> weights;

    DType dtype() const { return options->precision == Precision::f16 ? DType::f16 : DType::f32; }

    /// What the choice between two backends is measured with.
    virtual Result<std::vector<tuning::Workload>> workload() const = 0;
    /// Writes down all of the samples, which are some and finite, text with the spaces that the model writes.
    virtual Result<Transcription> hear(std::span<const float> samples, const Transcriber::Progress& progress) = 0;
    /// Another one of the same model, without a backend.
    virtual std::unique_ptr<Hearing> twin() const = 0;
    virtual Result<void> choose(const std::string& language, const std::string& task) = 0;
    virtual Result<void> choose_prompt(const std::string& prompt) = 0;
    /// Whether words can have times.
    virtual Result<void> check_word_times() const { return {}; }
    /// Without having heard anything; empty: not known.
    virtual std::string language() const { return {}; }
    virtual std::uint32_t sample_rate() const noexcept = 0;
    virtual const std::vector<std::string>& notes() const noexcept = 0;
};

// Of a model that was loaded, whose folder that is. Errors: Transcriber::load's.
using HearingOptions = std::shared_ptr<const TranscriberOptions>;
Result<std::unique_ptr<Hearing>> make_whisper_hearing(const std::filesystem::path& folder, models::SpeechModel speech,
                                                      const HearingOptions& options);
Result<std::unique_ptr<Hearing>> make_ctc_hearing(const std::filesystem::path& folder, models::SpeechModel speech,
                                                  const HearingOptions& options);

/// A second of sound.
Result<std::vector<tuning::Workload>> ctc_workload(const models::CtcModel& model, DType dtype);

}  // namespace vkformer::api
