// SPDX-License-Identifier: MIT
/// Generation with a decoder-only model: prompts in chunks, then one recorded step, choice of the token included, replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "decoding/decoder_options.hpp"
#include "decoding/prompt_chunks.hpp"
#include "graph/program.hpp"
#include "models/decoder.hpp"

namespace vkformer::decoding {

enum class FinishReason : std::uint8_t {
    none,     ///< still running
    stop,     ///< a token of Request::stop_tokens
    caller,   ///< the callback said so
    length,   ///< Request::max_tokens
    context,  ///< the session's context is full
};
/// "stop", …
std::string_view to_string(FinishReason reason) noexcept;

/// One sequence to continue.
struct Request {
    std::vector<std::int32_t> prompt;       ///< at least one token
    std::uint32_t max_tokens = 0;           ///< to generate at most; 0: until the context is full
    std::vector<std::int32_t> stop_tokens;  ///< end the sequence; the token itself is delivered too
    std::uint64_t seed = 0;                 ///< of the draws, with a temperature above 0
};

/// Errors: InvalidArgument (an empty prompt, one longer than the context, a token that the model does not know; says which prompt).
Result<void> check_prompts(std::span<const Request> requests, const DecoderSessionOptions& options,
                           const models::Decoder& model);

struct SequenceResult {
    std::vector<std::int32_t> tokens;  ///< generated ones
    FinishReason finish = FinishReason::none;
    std::uint32_t reused = 0;  ///< tokens of the prompt that the row's caches held already
};

/// Not thread-safe. The backend and the model outlive the session.
class DecoderSession {
public:
    /// Errors: InvalidArgument (a context beyond the model's, no rows, several beyond max_positions, a cache format
    /// that the heads do not fit, a bias of an unknown token), and those of the backend.
    static Result<DecoderSession> create(graph::Backend& backend, const models::Decoder& model,
                                         const DecoderSessionOptions& options);

    /// Called with every token, in order within a sequence, some steps after it was chosen; false ends the sequence there.
    using OnToken = std::function<bool(std::size_t request, std::int32_t token)>;

    /// Continues the requests, options().rows at a time; the next one takes the row of the first that ends. What a row's
    /// caches hold of a prompt's beginning is not computed again. Results do not depend on which sequences run together, but
    /// for the rounding of other variants. Errors: InvalidArgument (an empty or too long prompt, an unknown token; nothing has
    /// run then), and those of the backend.
    Result<std::vector<SequenceResult>> run(std::span<const Request> requests, const OnToken& on_token = {});

    const DecoderSessionOptions& options() const noexcept { return options_; }
    /// Of the last run.
    const DecoderTimings& timings() const noexcept { return timings_; }
    /// Other rules for the next run. Another set of rules is another program: it is recorded anew, weights and caches stay;
    /// but the first with no_repeat_ngram, and the first without, begin with empty caches.
    /// Errors: InvalidArgument (a bias of an unknown token).
    Result<void> set_sampling(const graph::SampleOptions& sample, const Penalties& penalties);
    /// Forgets what the caches hold.
    void clear() noexcept;

private:
    struct Step;
    struct Row {
        std::vector<std::int32_t> cached;  // tokens whose keys and values are in the caches, from position 0
        std::size_t request = kFree;
        std::int32_t pending = 0;  // the token that the next step reads
    };
    static constexpr std::size_t kFree = ~std::size_t{0};

    DecoderSession(graph::Backend& backend, const models::Decoder& model, const DecoderSessionOptions& options);
    bool crosses() const noexcept;
    Result<void> cross();
    Result<Step*> step();
    Result<void> prefill(std::span<const Request> requests, std::span<const std::size_t> rows,
                         std::span<SequenceResult> results);
    Result<void> fill_caches(std::span<const std::size_t> rows, std::span<const std::vector<std::int32_t>> contexts);
    Result<void> write_states(std::span<const Request> requests, std::span<const std::size_t> fresh);
    Result<void> write_counts(std::span<const Request> requests, std::span<const std::size_t> fresh);
    std::uint32_t steps_to_queue(std::span<const Request> requests, std::span<const SequenceResult> results) const;
    Result<void> decode(std::span<const Request> requests, std::span<SequenceResult> results, const OnToken& on_token);

    graph::Backend* backend_;
    const models::Decoder* model_;
    DecoderSessionOptions options_;
    SessionStores stores_;
    PromptChunks chunks_;
    std::map<bool, std::shared_ptr<Step>> steps_;  // extended or not
    bool extended_ = false;                        // the caches have the positions of sequences beyond max_positions
    std::vector<Row> rows_;
    std::uint32_t queue_ = 1;  // steps in the next submit: grows while steps are short
    DecoderTimings timings_;
};

}  // namespace vkformer::decoding
