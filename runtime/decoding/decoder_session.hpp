// SPDX-License-Identifier: MIT
/// Generation with a decoder-only model: prompts in chunks, then one recorded step, choice of the token included, replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "graph/program.hpp"
#include "models/decoder.hpp"

namespace vkformer::decoding {

/// What is done to the logits before a token is chosen; graph::penalize and graph::mask_logits say how.
struct Penalties {
    float repetition = 1, presence = 0, frequency = 0;
    std::uint32_t no_repeat_ngram = 0;   ///< > 0: no run of so many tokens comes twice, the prompt counted
    std::map<std::int32_t, float> bias;  ///< added to a token's logit; −∞ forbids it
    std::uint32_t min_tokens = 0;        ///< so many tokens are generated before one of `ends`
    std::vector<std::int32_t> ends;

    bool has_least() const noexcept { return min_tokens > 0 && !ends.empty(); }
    bool counts() const noexcept { return repetition != 1 || presence != 0 || frequency != 0; }
    friend bool operator==(const Penalties&, const Penalties&) = default;
};

struct DecoderSessionOptions {
    std::uint32_t rows = 1;  ///< sequences that are decoded together
    /// Tokens of a sequence at most, prompt included; 0: the model's max_positions, at most kDefaultContext. Beyond
    /// max_positions (of a model with extended_positions) there is one row: a sequence that grows longer has its keys computed
    /// anew, with the positions of long ones.
    std::uint32_t context = 0;
    std::uint32_t chunk = 256;  ///< tokens of a prompt that are computed in one submit at most
    /// > 0: such a submit shall take no longer. The first is the shortest there is; from then on its length follows what the one
    /// before took per token, among a few lengths, so that few programs are made.
    double chunk_seconds = 0;
    DType dtype = DType::f32;  ///< of activations
    models::WeightFormat weights = models::WeightFormat::as_computed;
    models::CacheFormat cache = models::CacheFormat::as_computed;
    graph::SampleOptions sample = {.temperature = 0};  ///< temperature 0: greedy
    Penalties penalties;
    static constexpr std::uint32_t kDefaultContext = 4096;
};

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

struct SequenceResult {
    std::vector<std::int32_t> tokens;  ///< generated ones
    FinishReason finish = FinishReason::none;
    std::uint32_t reused = 0;  ///< tokens of the prompt that the row's caches held already
};

/// What a run took, for reports. Seconds of wall time.
struct DecoderTimings {
    double prompt_seconds = 0, decode_seconds = 0;
    std::uint64_t prompt_tokens = 0;  ///< computed in chunks, those reused not counted
    std::uint64_t prompt_chunks = 0;
    std::uint64_t decode_steps = 0;
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
    struct Chunk;
    struct Step;
    struct Row {
        std::vector<std::int32_t> cached;  // tokens whose keys and values are in the caches, from position 0
        std::size_t request = kFree;
        std::int32_t pending = 0;  // the token that the next step reads
    };
    static constexpr std::size_t kFree = ~std::size_t{0};

    DecoderSession(graph::Backend& backend, const models::Decoder& model, const DecoderSessionOptions& options);
    Result<void> check(std::span<const Request> requests) const;
    bool crosses() const noexcept;
    Result<void> cross();
    Result<Chunk*> chunk(std::uint32_t len);
    std::uint32_t next_chunk_len(std::size_t left) const;
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
    std::shared_ptr<graph::TensorStore> weights_, states_;
    std::map<std::pair<std::uint32_t, bool>, std::shared_ptr<Chunk>> chunks_;  // by length, extended or not
    std::map<bool, std::shared_ptr<Step>> steps_;                              // extended or not
    bool extended_ = false;  // the caches have the positions of sequences beyond max_positions
    std::vector<Row> rows_;
    std::uint32_t queue_ = 1;  // steps in the next submit: grows while steps are short
    double token_seconds_ = std::numeric_limits<double>::infinity();  // of the last chunk
    DecoderTimings timings_;
};

}  // namespace vkformer::decoding
