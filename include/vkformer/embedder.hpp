// SPDX-License-Identifier: MIT
/// Texts to vectors, and pairs of texts to scores, with an encoder model from a Hugging Face or sentence-transformers folder.
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

#include "vkformer/adapter.hpp"
#include "vkformer/device_memory.hpp"
#include "vkformer/export.h"
#include "vkformer/offload.hpp"
#include "vkformer/precision.hpp"
#include "vkformer/result.hpp"

namespace vkformer {

/// What Embedder and CrossEncoder have in common.
struct EncoderOptions {
    /// A Vulkan device by index, UUID or part of its name; "cpu": the CPU backend; "auto": a GPU, else whichever of the CPU
    /// backend and a CPU-type Vulkan device was measured faster for this model.
    std::string device = "auto";
    Precision precision = Precision::f32;
    std::uint32_t batch = 32;      ///< texts in one run at most
    std::uint32_t max_length = 0;  ///< tokens of a text at most, special ones included; 0: what the model folder says
    /// Which variant of its shader each op takes: as in TranslatorOptions.
    bool plain_shaders = false;
    std::map<std::string, std::string> shader_variants{};
    std::function<void(const std::string&)> on_progress{};  ///< told what is being tried; empty: all done
    /// Asked between the submits of a call, on its thread; true ends the call with Cancelled, and the next call is as good as
    /// any. A submit has one batch of an encoder, a piece of a prompt, or up to 16 steps of a decoder. Empty: never asked.
    std::function<bool()> should_stop{};
    /// Weights that stay in the host's memory. Without a report of its own, on_progress is told.
    Offload offload{};
    /// Loaded beside the weights of an encoder of texts, and each call says which of them count. Models of images take none.
    std::vector<Adapter> adapters{};
};

struct EmbedderOptions : EncoderOptions {
    std::string pooling{};  ///< "cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"; empty: the model's
    std::optional<bool> normalize{};  ///< vectors of length 1; absent: as the model says
    /// Put before every text: this, or the folder's prompt of that name ("query", "passage"), or the folder's default.
    std::optional<std::string> prompt{};
    std::string prompt_name{};
};

struct Embedding {
    std::vector<float> values{};
    std::size_t tokens = 0;  ///< that were read, special ones included
    std::size_t cut = 0;     ///< that were left out, because the model takes no more
};

/// A model on a device: a folder of the sentence-transformers library (modules.json, 1_Pooling, …) with an encoder or a decoder, or
/// any folder with an encoder of texts such as BERT (config.json, model.safetensors, tokenizer.json), of which the mean of the last
/// hidden states is then taken. Results are those of sentence-transformers' encode(). Not thread-safe; distinct embedders are
/// independent of each other.
class VKFORMER_API Embedder {
public:
    /// Never falls back to another device. Errors: FileNotFound, CorruptFile, UnsupportedConfig, MissingTensor, ShapeMismatch (of the folder or
    /// an adapter); InvalidArgument (of the options, two adapters of one name); NoVulkanLoader, NoDevice, MissingFeature (of the device).
    static Result<Embedder> load(const std::filesystem::path& folder, const EmbedderOptions& options = {});

    /// Another one of the same model for another thread: it shares the weights, in the device's memory too, and has programs and
    /// caches of its own; either may end first. It has the same options: on_progress and should_stop are called by both, on the thread
    /// whose call it is. Not while this one is at work. Errors: DeviceLost, Vulkan, out of memory.
    Result<Embedder> twin() const;

    Embedder(Embedder&&) noexcept;
    Embedder& operator=(Embedder&&) noexcept;
    ~Embedder();

    using Progress = std::function<void(std::size_t done, std::size_t total)>;

    /// One vector per text, in order; texts of like length are run together, which changes no result by more than rounding.
    /// White space around a text does not count; longer texts than the model takes are cut at their end. `adapters`: which of
    /// EncoderOptions::adapters count, and how much, as of GenerateOptions. Errors: InvalidArgument (a text that is not UTF-8; says which
    /// one; an adapter that is not loaded), DeviceLost, Vulkan, out of memory.
    Result<std::vector<Embedding>> embed(std::span<const std::string> texts, const Progress& progress = {},
                                         const std::map<std::string, float>& adapters = {});
    /// Whether embed() takes this text; nothing is run. Errors: InvalidArgument.
    Result<void> check(const std::string& text) const;

    std::size_t dimension() const noexcept;  ///< numbers in a vector
    std::size_t max_length() const noexcept;
    /// "mean, normalised"
    const std::string& pooling() const noexcept;
    const std::string& device() const noexcept;
    /// What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence each. None
    /// of files that are understood to the last field; whoever wants no others refuses a model that has some.
    const std::vector<std::string>& notes() const noexcept;
    DeviceMemory memory() const;  ///< may be called from any thread

private:
    struct Impl;
    explicit Embedder(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

struct TextPair {
    std::string first{}, second{};  ///< a question and a passage, say
};

struct PairScore {
    std::vector<float> scores{};  ///< one for each label of the model; of a cross-encoder usually one
    std::size_t tokens = 0;
    std::size_t cut = 0;
};

/// A "…ForSequenceClassification" model on a device, which reads two texts at once and scores them: a cross-encoder, as rerankers
/// are; or a Qwen3-Reranker, whose score is the probability of "yes". Results are those of sentence-transformers'
/// CrossEncoder.predict(): one score goes through a sigmoid unless the folder says otherwise, several are given as they are. Not
/// thread-safe.
class VKFORMER_API CrossEncoder {
public:
    /// Errors: as of Embedder::load; UnsupportedConfig also for a model without a classification head, and for adapters of a language
    /// model that answers "yes" or "no".
    static Result<CrossEncoder> load(const std::filesystem::path& folder, const EncoderOptions& options = {});

    /// As of Embedder.
    Result<CrossEncoder> twin() const;

    CrossEncoder(CrossEncoder&&) noexcept;
    CrossEncoder& operator=(CrossEncoder&&) noexcept;
    ~CrossEncoder();

    using Progress = Embedder::Progress;

    /// As Embedder::embed. Of a pair that is too long the longer text is cut first.
    Result<std::vector<PairScore>> score(std::span<const TextPair> pairs, const Progress& progress = {},
                                         const std::map<std::string, float>& adapters = {});
    /// Whether score() takes this pair; nothing is run. Errors: InvalidArgument.
    Result<void> check(const TextPair& pair) const;

    std::size_t labels() const noexcept;
    std::size_t max_length() const noexcept;
    const std::string& device() const noexcept;
    /// What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence each. None
    /// of files that are understood to the last field; whoever wants no others refuses a model that has some.
    const std::vector<std::string>& notes() const noexcept;
    DeviceMemory memory() const;  ///< may be called from any thread

private:
    struct Impl;
    explicit CrossEncoder(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace vkformer
