// SPDX-License-Identifier: MIT
/// Text continued by a decoder-only language model from a Hugging Face folder or a GGUF file.
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
#include <string_view>
#include <vector>

#include "vkformer/adapter.hpp"
#include "vkformer/constraint.hpp"
#include "vkformer/device_memory.hpp"
#include "vkformer/export.h"
#include "vkformer/log_probs.hpp"
#include "vkformer/offload.hpp"
#include "vkformer/precision.hpp"
#include "vkformer/result.hpp"
#include "vkformer/weight_storage.hpp"

namespace vkformer {

enum class CacheStorage : std::uint8_t {
    precision,  ///< keys and values in the precision of the activations
    /// Blocks of 32 with a float16 scale, 34 bytes each (GGUF's Q8_0): about half of float16's memory and a quarter of float32's, with keys
    /// and values rounded to 8 bits. For heads of a multiple of 32 elements.
    q8_0,
};

/// How the next token is chosen. Penalties come first, then the rules in the order of the fields.
struct Sampling {
    float temperature = 0;    ///< logits are divided by it, 1e-4 to 1e4; 0: the likeliest token, always
    std::uint32_t top_k = 0;  ///< only the k likeliest; 0: all
    float top_p = 1;          ///< only the likeliest that make up this share of the probability
    float min_p = 0;          ///< only those at least this share as probable as the likeliest

    float repetition_penalty =
        1;  ///< logits of tokens in prompt or answer are divided (positive ones) or multiplied by it
    float presence_penalty = 0;         ///< taken off the logits of tokens in the answer
    float frequency_penalty = 0;        ///< taken off likewise, for each time that they are in it
    std::uint32_t no_repeat_ngram = 0;  ///< no run of so many tokens comes twice in prompt and answer; 0: any may
    std::map<std::int32_t, float> logit_bias{};  ///< added to a token's logit, before all else; −∞ forbids it

    friend bool operator==(const Sampling&, const Sampling&) = default;
};

/// When a beam search ends that has as many finished sequences as beams.
enum class EarlyStopping : std::uint8_t {
    heuristic,  ///< when the best of the running ones, at the length that it has now, scores no better than the worst finished one
    always,  ///< at once
    never,   ///< when no running one can become better than the worst finished one
};

/// The likeliest whole sequence in place of the likeliest next token, as Hugging Face's generate() looks for it with num_beams:
/// so many sequences are continued side by side, each as far as it stays among the best. Prompts are continued one by one, their
/// texts come whole, and nothing is drawn.
struct BeamSearch {
    std::uint32_t beams = 0;  ///< up to 32; 1: none; 0: what the model folder's generation_config.json says, else 1
    /// A sequence of n tokens scores Σ log p / n^length_penalty. None: what the model folder says, else 1.
    std::optional<float> length_penalty{};
    std::optional<EarlyStopping> early_stopping{};  ///< none: what the model folder says, else heuristic
};

struct GeneratorOptions {
    /// A Vulkan device by index, UUID or part of its name; "cpu": the CPU backend; "auto": a GPU, else whichever of the CPU
    /// backend and a CPU-type Vulkan device was measured faster for this model.
    std::string device = "auto";
    Precision precision = Precision::f32;  ///< of activations
    WeightStorage weights = WeightStorage::model;
    CacheStorage cache = CacheStorage::precision;
    std::uint32_t context = 0;  ///< tokens of a sequence at most, prompt included; 0: the model's, at most 4096
    std::uint32_t batch = 1;    ///< sequences that are generated together
    BeamSearch beam_search{};
    /// A smaller model of the same vocabulary, a folder or a GGUF file, that guesses what follows; this model checks several guesses in one
    /// pass (speculative decoding, Leviathan et al. 2023). It computes on the same device, with the same precision, weights and cache. Not
    /// with a batch, beams, or layers that keep a state. Empty: there is none.
    std::filesystem::path draft{};
    /// The model guesses what follows by its own multi-token head, which files of DeepSeek-V3 and R1, GLM-4.5, Qwen3-Next and Qwen 3.5
    /// may have (multi-token prediction, DeepSeek-AI 2024), and checks it as a draft model's guesses. Not with `draft`, a batch or beams;
    /// refused where the files have no such head. Else it is not read.
    bool multi_token = false;
    /// Loaded beside the model's weights, which stay as they are: each generation says which of them count. Their ranks are 4096 together at
    /// most.
    std::vector<Adapter> adapters{};
    /// Which variant of its shader each op takes; see TranslatorOptions.
    bool plain_shaders = false;
    std::map<std::string, std::string> shader_variants{};
    std::function<void(const std::string&)> on_progress{};  ///< told what is being done; empty: all done
    std::function<bool()> should_stop{};                    ///< as of TranslatorOptions
    /// Weights that stay in the host's memory. Without a report of its own, on_progress is told.
    Offload offload{};
};

struct GenerateOptions {
    /// To generate at most. 0: what the model folder's generation_config.json says, else until the model ends or the context is full.
    std::uint32_t max_tokens = 0;
    /// To generate before an end token is chosen. None: what the model folder's generation_config.json says, else 0.
    std::optional<std::uint32_t> min_tokens{};
    std::optional<Sampling>
        sampling{};  ///< none: what the model folder's generation_config.json says, else the likeliest token
    std::uint64_t seed = 0;
    /// Texts that end a generation; not part of its text. None: what the model folder's generation_config.json says.
    std::vector<std::string> stop{};
    bool ignore_end = false;     ///< the model's end token ends nothing
    bool shows_special = false;  ///< the text has special tokens, too, but for the end token
    /// How likely the model found each token that was generated, and so many of the likeliest ones in its place, 0 to 20; none: nothing
    /// of that. Not with beams.
    std::optional<std::uint32_t> log_probs{};
    /// > 0: so many tokens at most, 64 at most, are guessed from what prompt and answer have said before and checked in one pass of the
    /// model: the text is the same (but for rounding where two tokens tie), and comes sooner where it repeats what it has read, as
    /// summaries, code and answers about a document do. What a check takes is measured: wrong ones cost a call 1 % and one check at most.
    /// For one text at a time; not with beams, log_probs, a constraint, min_tokens, or penalties and bans that look at what was chosen
    /// before.
    std::uint32_t prompt_lookup = 0;
    /// How many tokens the draft model, or the multi-token head, guesses at a time at most, 64 at most: the text is the same (but for
    /// rounding where two tokens tie), drawn ones too, and comes sooner where the two models agree. By what guesses and checks take and
    /// how many are right, fewer are made, or none; a model whose guesses do not pay costs the reading of a prompt, five checks and 1 % of
    /// a call's time. 0: none. No number: kDraftTokens where there is a draft model or head and nothing is asked for that prompt_lookup
    /// does not go with. A number is refused beside those and without one.
    std::optional<std::uint32_t> draft_tokens{};
    static constexpr std::uint32_t kDraftTokens = 7;
    /// What the text has to be. It ends where it is whole and nothing may follow, or where the model ends it and it is whole; only a limit
    /// or a stop text cuts it. Not with ignore_end, min_tokens or beams.
    std::optional<Constraint> constraint{};
    /// Which of GeneratorOptions::adapters count, by their names, and what each one's part is multiplied by, −1000 to 1000; 1: as it was
    /// trained. None: the model alone.
    std::map<std::string, float> adapters{};
};

enum class Finish : std::uint8_t {
    end_token,    ///< the model said so
    stop_string,  ///< a text of GenerateOptions::stop
    length,       ///< GenerateOptions::max_tokens
    context,      ///< the context is full
    caller,       ///< the callback returned false
};
/// "end_token", "stop_string", …
VKFORMER_API std::string_view to_string(Finish finish) noexcept;

struct Generation {
    std::string text{};                  ///< UTF-8, what follows the prompt
    std::vector<std::int32_t> tokens{};  ///< generated ones, the end token included
    Finish finish = Finish::length;
    std::uint32_t prompt_tokens = 0;
    std::uint32_t reused_tokens = 0;      ///< of the prompt: they were in the caches from the generation before
    std::optional<float> score{};         ///< of a beam search
    std::vector<StepLogProbs> log_probs{};  ///< of each of `tokens`, where GenerateOptions::log_probs asked
    std::string stop{};                   ///< the text of GenerateOptions::stop that ended it, with Finish::stop_string
};

/// What a call took. Seconds of wall time.
struct GenerationTimings {
    double prompt_seconds = 0, decode_seconds = 0;
    std::uint64_t prompt_tokens = 0;  ///< computed, those reused not counted
    std::uint64_t decode_steps = 0;   ///< each gives a token of every sequence in the batch, and the right guesses
    std::uint64_t guessed_tokens = 0, accepted_tokens = 0;  ///< in all, and the right ones
};

struct Message {
    std::string role{};  ///< "system", "user", "assistant", …: what the model's template knows
    std::string content{};
    /// What else the template knows of a message, as a JSON object: {"tool_calls": […]}, {"name": "…"}. May be empty.
    std::string further = {};
};

/// How a conversation is put into words.
struct ChatOptions {
    /// What else the template knows, as a JSON object: {"tools": […], "enable_thinking": false}. May be empty.
    std::string variables{};
    /// The last message is the beginning of the answer, which goes on from there.
    bool continues_last = false;
    /// What the answer begins with, special tokens spelled out: it goes on from there. Not with continues_last.
    std::string answer_prefix{};
};

struct ScoreOptions {
    std::uint32_t likeliest = 0;  ///< of each token so many of the likeliest in its place, 0 to 20
    /// > 0: a text longer than Generator::score_context() is read in windows of so many tokens, each this many behind the one before, and a
    /// token's probability is that in the first window that has it: at least score_context() − stride tokens are before it. What the tokenizer
    /// puts before every text, each window begins with. Below score_context(). 0: such a text is refused.
    std::uint32_t stride = 0;
    std::map<std::string, float> adapters{};  ///< as of GenerateOptions
};

/// A language model on a device. Not thread-safe; distinct generators are independent of each other.
class VKFORMER_API Generator {
public:
    /// `path`: a folder with config.json, safetensors files and tokenizer.json, or a GGUF file. Without a tokenizer, generate_tokens is what
    /// there is, and texts stay empty.
    /// Errors: FileNotFound, CorruptFile, UnsupportedConfig, MissingTensor, ShapeMismatch (of the model); NoVulkanLoader,
    /// NoDevice, MissingFeature, OutOfDeviceMemory (of the device); InvalidArgument (a context, a cache or a beam search that the
    /// model or the other options do not allow, two adapters of one name). An adapter's errors are like the model's: UnsupportedConfig for what
    /// it changes and the model has no place for. Never falls back to another device.
    static Result<Generator> load(const std::filesystem::path& path, const GeneratorOptions& options = {});

    /// Another one of the same model for another thread: it shares the weights, in the device's memory too, and has programs and
    /// caches of its own; either may end first. It has the same options: on_progress and should_stop are called by both, on the thread
    /// whose call it is. Not while this one is at work. Errors: DeviceLost, Vulkan, out of memory.
    Result<Generator> twin() const;

    Generator(Generator&&) noexcept;
    Generator& operator=(Generator&&) noexcept;
    ~Generator();

    /// Told what can be printed after each token: whole characters that no later token changes; may be empty. What was held back
    /// until the end comes once more, with token −1: with beams all of it. `index` is that of the prompt. Returns false to end that generation.
    using OnText = std::function<bool(std::size_t index, std::string_view text, std::int32_t token)>;

    /// Continues the prompts, in order. A prompt's beginning that the generation before it in the same row has computed, with the same
    /// adapters, is not computed again. Errors: InvalidArgument (an empty prompt, one longer than the context, a temperature or a stop text with
    /// beams, an adapter that is not loaded; nothing has run then), DeviceLost, Vulkan, out of memory.
    Result<std::vector<Generation>> generate(std::span<const std::string> prompts, const GenerateOptions& options = {},
                                             const OnText& on_text = {});
    Result<std::vector<Generation>> generate_tokens(std::span<const std::vector<std::int32_t>> prompts,
                                                    const GenerateOptions& options = {}, const OnText& on_text = {});
    /// Answers a conversation, put into words by the chat template that the model carries. What the conversation shares with the
    /// one before is not computed again. Special tokens that a message spells out are read as such. Errors: as of generate;
    /// InvalidArgument (the template refuses the conversation), FileNotFound (the model has no template), CorruptFile and
    /// UnsupportedConfig (of the template).
    Result<Generation> chat(std::span<const Message> messages, const GenerateOptions& options = {},
                            const OnText& on_text = {});

    using Progress = std::function<void(std::size_t done, std::size_t total)>;

    /// How likely the model finds the texts, in order: whoever has Σ log p of n tokens has the perplexity, exp(−Σ log p / n). Texts are read
    /// together as far as memory allows, in caches of their own, which are made by the first call. `progress` counts texts, or windows of
    /// them. Errors: InvalidArgument (an empty text, one longer than the context without a stride, more likeliest tokens than are told; says
    /// which text; nothing has run then), NotANumber, those of tokenize, DeviceLost, Vulkan, out of memory.
    Result<std::vector<TextScores>> score(std::span<const std::string> texts, const ScoreOptions& options = {},
                                          const Progress& progress = {});
    Result<std::vector<TextScores>> score_tokens(std::span<const std::vector<std::int32_t>> texts,
                                                 const ScoreOptions& options = {}, const Progress& progress = {});

    /// Text to ids, the tokenizer's special tokens included. Errors: as of generate; FileNotFound (the model has no tokenizer).
    Result<std::vector<std::int32_t>> tokenize(std::string_view text) const;
    /// A conversation to ids, as chat reads it: how much of the context it takes. Errors: as of chat; InvalidArgument also for JSON
    /// that is no object, and where the answer's beginning is not in what the template makes of the conversation.
    Result<std::vector<std::int32_t>> tokenize_chat(std::span<const Message> messages,
                                                    const ChatOptions& options = {}) const;
    bool has_tokenizer() const noexcept;

    std::uint32_t context() const noexcept;
    /// Of score(): as much, or the model's original positions where the context is beyond them.
    std::uint32_t score_context() const noexcept;
    const GenerationTimings& timings() const noexcept;  ///< of the last call
    const std::string& device() const noexcept;
    /// What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence each. None
    /// of files that are understood to the last field; whoever wants no others refuses a model that has some.
    const std::vector<std::string>& notes() const noexcept;
    DeviceMemory memory() const;  ///< may be called from any thread

private:
    struct Impl;
    explicit Generator(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace vkformer
