// SPDX-License-Identifier: MIT
/// Text in, text out, with an encoder–decoder model from a Hugging Face folder.
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

#include "vkformer/attention_weights.hpp"
#include "vkformer/device_memory.hpp"
#include "vkformer/export.h"
#include "vkformer/log_probs.hpp"
#include "vkformer/offload.hpp"
#include "vkformer/precision.hpp"
#include "vkformer/result.hpp"
#include "vkformer/weight_storage.hpp"

namespace vkformer {

struct TranslatorOptions {
    /// A Vulkan device by index, UUID or part of its name; "cpu": the CPU backend; "auto": a GPU, else whichever of the CPU
    /// backend and a CPU-type Vulkan device was measured faster for this model.
    std::string device = "auto";
    Precision precision = Precision::f32;
    WeightStorage weights = WeightStorage::model;
    std::uint32_t beams = 0;       ///< 1: greedy, up to 32; 0: what the model folder says
    std::uint32_t max_length = 0;  ///< tokens to generate at most; 0: what the model folder says
    std::uint32_t batch = 0;       ///< texts decoded together at most; 0: as many as a call has, up to 32
    std::uint32_t hypotheses =
        1;  ///< translations of each text, the best first: 1 to as many as there are beams; 0: as many
    /// Languages of a model that translates between many, as its vocabulary spells them: "deu_Latn" (NLLB), "de" (M2M100), "de_DE"
    /// (mBART), of texts that do not say theirs. Empty: what the model folder says; `to` must be given where it says nothing. MADLAD-400
    /// ("de") asks for `to` alone, or for texts that name it themselves ("<2de> …"), and heeds no `from`.
    std::string from{}, to{};
    /// Which variant of its shader each op takes. By default each is checked and timed when a device is first used (a few
    /// seconds), and the verdicts are kept in the user's cache folder ($XDG_CACHE_HOME, else ~/.cache).
    /// On the CPU, plain means that activations stay float32 where weights are quantised; by default they are rounded to 8 bits.
    bool plain_shaders = false;                           ///< the plain variant of every op; nothing is measured
    std::map<std::string, std::string> shader_variants{};   ///< op → variant, before what was measured
    std::function<void(const std::string&)> on_progress{};  ///< told what is being tried; empty: all done
    /// Asked between the submits of a call, on its thread; true ends the call with Cancelled, and the next call is as good as
    /// any. A submit has one batch of an encoder, a piece of a prompt, or up to 16 steps of a decoder. Empty: never asked.
    std::function<bool()> should_stop{};
    /// Weights that stay in the host's memory. Without a report of its own, on_progress is told.
    Offload offload{};
};

/// A text with the beginning of its translation.
struct PrefixedText {
    std::string text{};
    std::string prefix{};      ///< UTF-8, in the target's language; empty: the model begins
    std::string from{}, to{};  ///< of a model of many languages, as TranslatorOptions has them; empty: what those say
};

/// A text with a translation that is given.
struct TranslatedText {
    std::string text{};
    std::string translation{};  ///< UTF-8, in the target's language
    std::string from{}, to{};  ///< as of PrefixedText
};

struct Translation {
    std::string text{};                  ///< UTF-8
    std::vector<std::int32_t> tokens{};  ///< as Hugging Face's generate() returns them; empty for a blank text
    std::optional<float> score{};        ///< of a beam search: Σ log p / length^length_penalty
    std::vector<Translation>
        further{};  ///< of a beam search: the next best, one fewer than TranslatorOptions::hypotheses at most
};

/// One way to go on at a place of a translation.
struct Alternative {
    TokenLogProb next{};        ///< the token in that place
    std::string piece{};        ///< as the tokenizer spells it, UTF-8
    Translation translation{};  ///< with that token; its score, of a beam search, is of what was generated behind it
};

/// A translation with all attention weights on the way to it. Tokens are given as the tokenizer's pieces, UTF-8.
struct AttentionMaps {
    Translation translation{};
    std::vector<std::string> source{};  ///< read by the encoder
    std::vector<std::string> read{};  ///< read by the decoder, the start token first: one for each query of the decoder
    std::vector<std::string> written{};       ///< written by it: `read`, one step later
    std::vector<AttentionWeights> weights{};  ///< in the order of the forward pass; empty for a model without attention
};

/// A model on a device, ready to translate: a folder with config.json, model.safetensors (or what `vkformer convert` makes of it) and a
/// tokenizer (source.spm,
/// target.spm and vocab.json, or tokenizer.json) of an encoder–decoder Transformer (docs/models.md) or of a recurrent model
/// (docs/attention.md).
/// Results are those of Hugging Face's generate(), token for token. Not thread-safe; distinct translators are independent of
/// each other.
class VKFORMER_API Translator {
public:
    /// Errors: FileNotFound, CorruptFile, UnsupportedConfig, MissingTensor, ShapeMismatch (of the folder); InvalidArgument (a
    /// language that the model does not know); NoVulkanLoader, NoDevice, MissingFeature (of the device). Never falls back to
    /// another device.
    static Result<Translator> load(const std::filesystem::path& folder, const TranslatorOptions& options = {});

    /// Another one of the same model for another thread: it shares the weights, in the device's memory too, and has programs and caches of
    /// its own; either may end first. It has the same options: on_progress and should_stop are called by both, on the thread whose call it
    /// is. Not while this one is at work. Errors: DeviceLost, Vulkan, out of memory.
    Result<Translator> twin() const;

    Translator(Translator&&) noexcept;
    Translator& operator=(Translator&&) noexcept;
    ~Translator();

    using Progress = std::function<void(std::size_t done, std::size_t total)>;

    /// One translation per text, in order; texts of like length are decoded together, whatever their languages, which changes no token but
    /// by rounding. Blank texts stay blank. Errors: InvalidArgument (a text with more tokens than the model takes, or in a language that it
    /// does not know; says which one), DeviceLost, Vulkan, out of memory.
    Result<std::vector<Translation>> translate(std::span<const std::string> texts, const Progress& progress = {});
    /// Translations that go on from their prefixes, which are part of text and tokens as the tokenizer writes them: generate() with the
    /// prefix as `decoder_input_ids`, under max_length and min_length, which count it; scores do not. A prefix ends with a token, so better
    /// with a word. Special tokens that it spells out are text. Texts with prefixes of as many tokens are decoded together: where all
    /// differ, each alone. Errors: as above; InvalidArgument (a prefix that leaves no room, or has characters that the model does not
    /// write), UnsupportedConfig (the folder forbids tokens at the beginning).
    Result<std::vector<Translation>> translate(std::span<const PrefixedText> texts, const Progress& progress = {});
    /// Whether translate() takes this text; nothing is run. A blank one is taken in whatever languages. Errors: as of translate().
    Result<void> check(const std::string& text) const;
    Result<void> check(const PrefixedText& text) const;    ///< the same
    Result<void> check(const TranslatedText& text) const;  ///< as of score()

    /// How likely the model finds the translations, in order: `tokens` is what generate() would return had it chosen each of them, what
    /// the decoder begins with and the end token included. One pass for many of like length. With the `likeliest` of so many tokens in each
    /// place, 0 to 20. Errors: InvalidArgument (a blank text, more tokens than the model takes, a translation with characters that the
    /// model does not write, a language that it does not know, more likeliest tokens than are told; says which text; nothing has run then),
    /// NotANumber, DeviceLost, Vulkan, out of memory.
    Result<std::vector<TextScores>> score(std::span<const TranslatedText> texts, std::uint32_t likeliest = 0,
                                          const Progress& progress = {});

    /// Translations that go on from the text's prefix with each of the likeliest next tokens, 1 to 20, the likeliest first: fewer where the
    /// model's files forbid some of them, or its vocabulary ends. An end token is one of them, and nothing follows it. Errors: as of
    /// translate(); InvalidArgument for a blank text, or another count; UnsupportedConfig (files that forbid or prefer tokens by those before).
    Result<std::vector<Alternative>> alternatives(const PrefixedText& text, std::uint32_t count);

    /// Translates a text and, in a second pass, keeps what every head looked at. Errors: as of translate; InvalidArgument for
    /// a blank text.
    Result<AttentionMaps> attention(const PrefixedText& text);
    Result<AttentionMaps> attention(const std::string& text);  ///< the same

    /// The device in use: "llvmpipe (LLVM 15.0.6, 256 bits) (cpu, llvmpipe Mesa 22.3.6)".
    const std::string& device() const noexcept;
    /// What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence each. None
    /// of files that are understood to the last field; whoever wants no others refuses a model that has some.
    const std::vector<std::string>& notes() const noexcept;
    DeviceMemory memory() const;  ///< may be called from any thread

private:
    struct Impl;
    explicit Translator(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace vkformer
