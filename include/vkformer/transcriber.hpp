// SPDX-License-Identifier: MIT
/// Speech in, text out, with a Whisper model from a Hugging Face folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vkformer/export.h"
#include "vkformer/precision.hpp"
#include "vkformer/result.hpp"

namespace vkformer {

struct TranscriberOptions {
    /// A Vulkan device by index, UUID or part of its name; "cpu": the CPU backend; "auto": a GPU, else whichever of the
    /// CPU backend and a CPU-type Vulkan device was measured faster for this model.
    std::string device = "auto";
    Precision precision = Precision::f32;
    /// What is spoken, as the model spells it: "de". Empty: what the model folder says, else what the model hears in
    /// the first window.
    std::string language;
    /// "transcribe", or "translate" into English. Empty: what the model folder says, else "transcribe".
    std::string task;
    std::uint32_t max_length = 0;  ///< tokens to generate per window at most; 0: what the model folder says
    std::uint32_t batch = 0;       ///< windows decoded together; 0: as many as the first call has, up to 8
    /// As of TranslatorOptions.
    bool plain_shaders = false;
    std::map<std::string, std::string> shader_variants;
    std::function<void(const std::string&)> on_progress;
};

/// What the model heard in one window.
struct Transcript {
    double start = 0, end = 0;  ///< seconds from the first sample
    std::string text;           ///< UTF-8, as the model wrote it: most begin with a space
    std::vector<std::int32_t>
        tokens;  ///< as Hugging Face's generate() returns them, what the decoder was given included
};

struct Transcription {
    std::string text;      ///< of all windows, one behind the other, without spaces around
    std::string language;  ///< given or heard; empty for a model of one language
    std::vector<Transcript> windows;
};

/// A model on a device, ready to listen: a folder with config.json, model.safetensors, tokenizer.json and
/// generation_config.json of Whisper (docs/models.md). A window is what the model hears at once, half a minute; its
/// tokens are those of Hugging Face's generate(), greedy, without timestamps. Longer sound is cut into windows, each
/// where the last fifth of it is quietest, and every window is heard by itself: a word that is spoken over a cut may be
/// lost. Not thread-safe; distinct transcribers are independent of each other.
class VKFORMER_API Transcriber {
public:
    /// Errors: FileNotFound, CorruptFile, UnsupportedConfig, MissingTensor, ShapeMismatch (of the folder);
    /// InvalidArgument (a language or task that the model does not know); NoVulkanLoader, NoDevice, MissingFeature (of
    /// the device). Never falls back to another device.
    static Result<Transcriber> load(const std::filesystem::path& folder, const TranscriberOptions& options = {});

    Transcriber(Transcriber&&) noexcept;
    Transcriber& operator=(Transcriber&&) noexcept;
    ~Transcriber();

    /// Samples per second that transcribe() wants: 16000.
    std::uint32_t sample_rate() const noexcept;

    using Progress = std::function<void(std::size_t done, std::size_t total)>;

    /// One channel at sample_rate(), full scale ±1. `progress` counts windows. Errors: InvalidArgument (no samples, a
    /// sample that is no finite number), DeviceLost, Vulkan, out of memory.
    Result<Transcription> transcribe(std::span<const float> samples, const Progress& progress = {});

    /// The device in use: "llvmpipe (LLVM 15.0.6, 256 bits) (cpu, llvmpipe Mesa 22.3.6)".
    const std::string& device() const noexcept;

private:
    struct Impl;
    explicit Transcriber(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace vkformer
