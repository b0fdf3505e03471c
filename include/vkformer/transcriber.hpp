// SPDX-License-Identifier: MIT
/// Speech in, text out, with a Whisper, Wav2Vec 2.0 or HuBERT from a Hugging Face folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vkformer/device_memory.hpp"
#include "vkformer/export.h"
#include "vkformer/offload.hpp"
#include "vkformer/precision.hpp"
#include "vkformer/result.hpp"
#include "vkformer/voice_activity.hpp"
#include "vkformer/weight_storage.hpp"

namespace vkformer {

struct TranscriberOptions {
    /// A Vulkan device by index, UUID or part of its name; "cpu": the CPU backend; "auto": a GPU, else whichever of the
    /// CPU backend and a CPU-type Vulkan device was measured faster for this model.
    std::string device = "auto";
    Precision precision = Precision::f32;
    WeightStorage weights = WeightStorage::model;
    /// What is spoken, as the model spells it: "de". Empty: what the model folder says, else what the model hears in
    /// the first window.
    std::string language{};
    /// "transcribe", or "translate" into English. Empty: what the model folder says, else "transcribe".
    std::string task{};
    /// Segments with times, and sound of any length by going on where the last whole segment of a window ends. Without:
    /// text alone; longer sound is cut into windows where the last fifth of one is quietest, which know nothing of each
    /// other, and are decoded `batch` at a time.
    bool timestamps = true;
    std::uint32_t max_length = 0;  ///< tokens to generate per window at most; 0: what the model folder says
    std::uint32_t batch = 0;  ///< windows decoded together at most, without timestamps; 0: as many as a call has, up to 8
    /// 2 to 32: at temperature 0 the likeliest text is searched for with so many beams, as generate() does, and at other temperatures so
    /// many texts are drawn, of which the likeliest is taken. 1: the likeliest token, always. 0: what the model folder says, else 1.
    std::uint32_t beams = 0;
    /// The decoder is given the text of the windows before, so that names and style stay the same; it may then also
    /// repeat itself. With timestamps only. None: what the model folder says, else no.
    std::optional<bool> condition_on_previous{};
    /// Text that comes before what is said: names and words as they are to be spelled. The decoder is given its last tokens before each
    /// window, or with condition_on_previous before the first, and then what was said. Empty: none.
    std::string prompt{};
    /// A window is decoded at each temperature, at 0 by the likeliest tokens or `beams` and above by drawing, until its text neither
    /// repeats itself (compression_ratio) nor is unlikely (average_log_prob); the last is taken as it is.
    std::vector<float> temperatures = {0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f};
    /// None: what the model folder says, else 1.35, −1 and 0.6. Infinity, or −infinity for the logarithm: never.
    std::optional<double> compression_ratio_threshold{};  ///< above: the text repeats itself
    std::optional<double> log_prob_threshold{};           ///< below, on average of the tokens: the text is unlikely
    std::optional<double>
        no_speech_threshold{};  ///< of the probability of silence; above, and unlikely text: there is none
    std::uint64_t seed = 0;   ///< of the draws
    /// When each word was said (SpeechSegment::words), by what the decoder looked at: another pass of it over each window. Needs
    /// "alignment_heads" in the folder's generation_config.json, which published models have.
    bool word_timestamps = false;
    /// The file of a VoiceActivityDetector: only what it takes for speech is heard, joined without the silence between, and times are
    /// those of the whole sound. Sound without speech has no segments. Empty: all sound is heard.
    std::filesystem::path vad{};
    VadOptions vad_parameters{};  ///< what counts as speech; with `vad` alone
    /// As of TranslatorOptions.
    bool plain_shaders = false;
    std::map<std::string, std::string> shader_variants{};
    std::function<void(const std::string&)> on_progress{};
    std::function<bool()> should_stop{};
    /// Weights that stay in the host's memory. Without a report of its own, on_progress is told.
    Offload offload{};
};

struct SpokenWord {
    std::string text{};         ///< UTF-8, with what punctuation stands at it; most begin with a space
    double start = 0, end = 0;  ///< seconds from the first sample
    /// The mean of its tokens' probabilities when they were written: among the tokens that the rules let follow (no
    /// suppressed ones, times in order), at temperature 1.
    double probability = 0;
};

/// What was said from one time to another; without timestamps, in one window.
struct SpeechSegment {
    double start = 0, end = 0;         ///< seconds from the first sample
    std::string text{};                ///< UTF-8, as the model wrote it: most begin with a space
    std::vector<std::int32_t> tokens{};  ///< of generate()'s segments: with those of times, without the end token
    float temperature = 0;             ///< at which its window was decoded
    double average_log_prob = 0;       ///< of the window's tokens
    double no_speech = 0;              ///< probability that nobody speaks in the window
    double compression_ratio = 0;      ///< of the window's tokens
    std::vector<SpokenWord> words{};   ///< with word_timestamps only; joined they are the text
    double heard_from = 0;             ///< seconds from the first sample to its window; without a decoder, `start`
};

struct Transcription {
    std::string text{};      ///< of all segments, one behind the other, without spaces around
    std::string language{};  ///< given or heard; empty for a model of one language, or of speech that is not there
    std::vector<SpeechSegment> segments{};
};

/// A model on a device, ready to listen: a folder with config.json, model.safetensors, tokenizer.json and
/// generation_config.json of Whisper (docs/models.md). A window is what the model hears at once, half a minute. At
/// temperature 0 the tokens are those of Hugging Face's generate(), return_timestamps and thresholds alike, but that a
/// window which begins behind the last sample is not heard. Or a folder of Wav2Vec2ForCTC or HubertForCTC, with vocab.json in place of
/// tokenizer.json: it takes precision, timestamps, word_timestamps, vad and what is not about text of the options, hears windows
/// of 20 s that reach over one another, and ends segments with pauses. Not thread-safe; distinct transcribers are independent of each other.
class VKFORMER_API Transcriber {
public:
    /// Errors: FileNotFound, CorruptFile, UnsupportedConfig, MissingTensor, ShapeMismatch (of the folder);
    /// InvalidArgument (a language or task that the model does not know,
    /// no temperature, more than 32 beams, a prompt with special tokens or where the model has no token before it, an option that a model without a decoder does not take, a batch with timestamps, times of words where the folder does not say by which heads, vad_parameters);
    /// NoVulkanLoader, NoDevice, MissingFeature (of the device). With `vad` those of VoiceActivityDetector::load, and
    /// UnsupportedConfig where the model does not hear 16000 samples a second. Never falls back to another device.
    static Result<Transcriber> load(const std::filesystem::path& folder, const TranscriberOptions& options = {});

    /// Another one of the same model for another thread, with the language, the prompt and the speech detection of now: it shares the weights, in the device's memory too, and has programs and
    /// caches of its own; either may end first. It has the same options: on_progress and should_stop are called by both, on the thread
    /// whose call it is. Not while this one is at work. Errors: DeviceLost, Vulkan, out of memory.
    Result<Transcriber> twin() const;

    Transcriber(Transcriber&&) noexcept;
    Transcriber& operator=(Transcriber&&) noexcept;
    ~Transcriber();

    /// What is spoken and what is done with it from the next call on, in place of the options' `language` and `task`. Errors:
    /// InvalidArgument (a language or task that the model does not know; nothing has changed then), and those of the folder.
    Result<void> choose(const std::string& language, const std::string& task);

    /// The text before what is said from the next call on, in place of the options' `prompt`. Errors: InvalidArgument (special tokens; the model
    /// has no token that such a text follows, or no decoder), and those of the tokenizer (no UTF-8); nothing has changed then.
    Result<void> choose_prompt(const std::string& prompt);

    /// Whether words get times from the next call on, in place of the options' `word_timestamps`. Errors: InvalidArgument (the folder does
    /// not say by which heads).
    Result<void> choose_word_timestamps(bool are_wanted);

    /// What counts as speech from the next call on, in place of the options' `vad_parameters`; none: all sound is heard. Errors:
    /// InvalidArgument (options outside their range, or the transcriber was loaded without `vad`; nothing has changed then).
    Result<void> choose_vad(const std::optional<VadOptions>& parameters);

    /// Samples per second that transcribe() wants: 16000.
    std::uint32_t sample_rate() const noexcept;

    using Progress = std::function<void(double done, double total)>;

    /// One channel at sample_rate(), full scale ±1. `progress` counts seconds of sound. Errors: InvalidArgument (no samples, a
    /// sample that is no finite number), DeviceLost, Vulkan, out of memory.
    Result<Transcription> transcribe(std::span<const float> samples, const Progress& progress = {});

    /// The device in use: "llvmpipe (LLVM 15.0.6, 256 bits) (cpu, llvmpipe Mesa 22.3.6)".
    const std::string& device() const noexcept;
    /// What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence each. None
    /// of files that are understood to the last field; whoever wants no others refuses a model that has some.
    const std::vector<std::string>& notes() const noexcept;
    DeviceMemory memory() const;  ///< may be called from any thread

private:
    struct Impl;
    explicit Transcriber(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace vkformer
