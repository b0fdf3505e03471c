// SPDX-License-Identifier: MIT
/// Texts continued by a language model for many callers at once: sequences join and leave a running batch at every step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vkformer/device_memory.hpp"
#include "vkformer/generator.hpp"

namespace vkformer {

struct EngineOptions {
    /// Device, precision, storage, context and shaders as of a generator. batch: sequences that are decoded together at most, 1 to 64. No
    /// beams, draft or should_stop; a context of at most the model's original one.
    GeneratorOptions generator = {.batch = 8};
    /// Tokens whose keys and values are kept in all, a beginning that sequences have in common once; rounded up to whole pages of 64. 0: as
    /// many as `batch` sequences of the whole context have, at most 32,768, but at least one of these. Where all layers see a window, a
    /// sequence has no more of them than the window and a chunk of its prompt take; where some do, these layers have caches of their own
    /// for that, twice as large as `batch` sequences need, where that is less.
    std::uint64_t cache_tokens = 0;
    /// Tokens of prompts that are read between two steps at most: so long do running sequences wait for a new one. 16 to 4096.
    std::uint32_t prompt_chunk = 256;
    /// Requests that wait at most, one at least, since each waits until it is taken; a further one is refused.
    std::uint32_t queue = 1024;
    /// > 0: so many tokens of a sequence at most, 64 at most, are guessed from what its prompt and answer have said before, and a step
    /// checks those of all sequences together, in 64 rows at most: texts are the same, drawn ones too (but for rounding where two tokens
    /// tie), and come sooner where they repeat what they have read. By what steps and checks are measured to take and by how many guesses
    /// were right, fewer are made, or none: no sequence, nor one without guesses that runs beside it, loses more by checks than 1 % of its
    /// time and one check. Nothing is guessed of requests with a constraint, while prompts are read, and by models whose layers keep a
    /// state of the sequence. The cache needs no more room; checks have programs of up to 64 rows, as steps of
    /// so many sequences would. 0: none.
    std::uint32_t prompt_lookup = 0;
};

struct GenerationRequest {
    std::vector<std::int32_t> prompt{};
    /// no_repeat_ngram and min_tokens are those of the model's generation_config.json.
    GenerateOptions options{};
    /// How likely the model finds each token of the prompt but the first, behind those before it, and so many of the likeliest ones in its
    /// place, 0 to 20; none: nothing of that. All of the prompt is then computed, whatever of it is in the cache.
    std::optional<std::uint32_t> prompt_log_probs{};
    bool is_prompt_alone = false;  ///< with prompt_log_probs and without a constraint: nothing is generated
};

/// What there is of an engine. Counts are since it was made.
struct EngineStats {
    std::uint64_t requests = 0;       ///< that were taken
    std::uint64_t finished = 0;       ///< that came to an end, cancelled and failed ones included
    std::uint64_t prompt_tokens = 0;  ///< computed
    std::uint64_t reused_tokens = 0;  ///< of prompts, found in the cache
    std::uint64_t tokens = 0;         ///< generated
    std::uint64_t steps = 0;          ///< each a token for every sequence in it, and the right guesses
    std::uint64_t guessed_tokens = 0, accepted_tokens = 0;  ///< checked in all, and the right ones
    std::uint64_t preempted = 0;      ///< times that a sequence gave its pages to others and was read again later
    std::uint32_t running = 0, waiting = 0;  ///< sequences now
    std::uint32_t pages = 0, used_pages = 0,
                  kept_pages = 0;  ///< of 64 tokens: in all, of running sequences, kept for later ones
    std::uint32_t window_pages = 0, used_window_pages = 0,
                  kept_window_pages = 0;  ///< likewise, of layers with a window where these have pages of their own
};

/// A language model on a device, with a thread that runs it. All functions may be called from any thread, callbacks included.
class VKFORMER_API GenerationEngine {
public:
    /// Errors: as of Generator::load; InvalidArgument (a number out of its range, beams, a context beyond the model's);
    /// UnsupportedConfig (the model's generation_config.json asks for what looks back at a sequence: no_repeat_ngram_size, bad_words_ids or
    /// sequence_bias of several tokens).
    static Result<GenerationEngine> load(const std::filesystem::path& path, const EngineOptions& options = {});

    GenerationEngine(GenerationEngine&&) noexcept;
    GenerationEngine& operator=(GenerationEngine&&) noexcept;
    /// Running and waiting requests end with an error, Cancelled.
    ~GenerationEngine();

    using Id = std::uint64_t;
    /// Told what can be printed after each token, as of Generator::OnText, on the engine's thread, which waits for it. False ends the
    /// generation.
    using OnText = std::function<bool(std::string_view text, std::int32_t token)>;
    /// Told of each token before OnText is, on the same thread, where GenerateOptions::log_probs asked.
    using OnLogProbs = std::function<void(const StepLogProbs& log_probs)>;
    /// Told once, before any of the generation's tokens, on the same thread, where GenerationRequest::prompt_log_probs asked.
    using OnPrompt = std::function<void(std::span<const StepLogProbs> log_probs)>;
    /// Told once, on the engine's thread: the generation, or what went wrong (Cancelled, and errors of the device).
    using OnEnd = std::function<void(Result<Generation>)>;

    /// Puts the request behind those that wait. Its answer is that of the same request alone, whatever runs beside it, but for the rounding of
    /// other variants. Errors: as of Generator::generate_tokens; InvalidArgument (a field that is not one request's, see
    /// GenerationRequest; more tokens than the cache holds), Cancelled (the queue is full: it says so), that of failure().
    Result<Id> submit(GenerationRequest request, OnText on_text, OnEnd on_end, OnLogProbs on_log_probs = {},
                      OnPrompt on_prompt = {});
    /// The request's end comes before the next step. One that is not known, or has ended, is passed over.
    void cancel(Id id);

    /// The error of the device, or of too little memory, that ended the engine: every request that it had has ended with it, no further one
    /// is taken, and another engine has to be loaded. Nothing while it works. It is there before the first request is told.
    /// Cancelled while the engine is destroyed or assigned to, when its callbacks must ask it nothing.
    std::optional<Error> failure() const;

    EngineStats stats() const;

    Result<std::vector<std::int32_t>> tokenize(std::string_view text) const;  ///< as of Generator
    Result<std::vector<std::int32_t>> tokenize_chat(std::span<const Message> messages,
                                                    const ChatOptions& options = {}) const;  ///< as of Generator
    /// Errors: InvalidArgument (a token that the tokenizer does not know), FileNotFound (there is no tokenizer).
    Result<std::string> detokenize(std::span<const std::int32_t> tokens) const;
    /// Called with the tokens of one text, one by one: what each adds to the text of those before it, whole characters that no later token
    /// changes; together what generate() says of them where no constraint spells them. Lives no longer than the engine; empty: there is no
    /// tokenizer.
    std::function<std::string(std::int32_t token)> stream(bool shows_special = false) const;
    /// What the token adds to a text: whole characters or some of their bytes; a special token as it is spelled. Empty for one that the
    /// tokenizer does not know.
    std::string token_bytes(std::int32_t token) const;
    /// Whether the model's generations end with this token.
    bool is_end(std::int32_t token) const;
    bool has_tokenizer() const noexcept;
    bool has_chat_template() const noexcept;
    /// As the model carries it: it says how calls of tools look. Empty where there is none.
    std::string_view chat_template() const noexcept;
    std::uint32_t context() const noexcept;
    /// EngineOptions::prompt_lookup, or 0 of a model whose layers keep a state of the sequence.
    std::uint32_t prompt_lookup() const noexcept;
    const std::string& device() const noexcept;
    /// What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence each. None
    /// of files that are understood to the last field; whoever wants no others refuses a model that has some.
    const std::vector<std::string>& notes() const noexcept;
    DeviceMemory memory() const;

private:
    struct Impl;
    explicit GenerationEngine(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace vkformer
