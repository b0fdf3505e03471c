// SPDX-License-Identifier: MIT
#include "decoding/sequence_script.hpp"

#include <algorithm>
#include <string>

#include "core/try.hpp"
#include "decoding/beam_script.hpp"
#include "decoding/decoder_script.hpp"
#include "decoding/encoder_decoder_script.hpp"
#include "decoding/invalid.hpp"

namespace vkformer::decoding {
namespace {

constexpr std::uint32_t kLargestChunk = 4096;
constexpr std::uint64_t kLargestSource = 16384;

}  // namespace

Result<std::unique_ptr<SequenceScript>> make_sequence_script(const models::Decoder& model, const Penalties& penalties,
                                                             std::span<const std::int32_t> ends,
                                                             const SequenceOptions& options) {
    const std::uint32_t most = model.config().max_positions;
    if (options.context > most)
        return invalid("a context of " + std::to_string(options.context) +
                       " tokens was asked for, the model takes at most " + std::to_string(most));
    if (options.chunk == 0 || options.chunk > kLargestChunk)
        return invalid("a chunk has 1 to " + std::to_string(kLargestChunk) + " tokens, not " +
                       std::to_string(options.chunk));
    VKFORMER_TRY(const DecoderSessionOptions chosen,
                 checked_options(model, {.context = options.context,
                                         .run_tokens = DecoderSessionOptions::kRunTokensOnGpus,
                                         .dtype = options.dtype,
                                         .weights = options.weights,
                                         .cache = options.cache,
                                         .sample = options.sample,
                                         .penalties = penalties,
                                         .adapters = model.adapters() > 0}));
    // All of them are made before the first sequence, so there are two, and none that is longer than was asked for.
    constexpr std::uint32_t kSmallest = DecoderSessionOptions::kSmallestChunk;
    std::vector<std::uint32_t> lens{std::min(options.chunk, kSmallest)};
    if (options.chunk > kSmallest) lens.push_back(options.chunk);
    if (options.beams.beams == 1)
        return std::unique_ptr<SequenceScript>(std::make_unique<DecoderScript>(model, chosen, std::move(lens)));
    VKFORMER_CHECK(check_beams(options.beams, chosen));
    VKFORMER_CHECK(check_ends(options.beams, ends.size()));
    return std::unique_ptr<SequenceScript>(std::make_unique<BeamScript>(
        model, chosen, options.beams, std::vector(ends.begin(), ends.end()), std::move(lens)));
}

Result<std::unique_ptr<SequenceScript>> make_sequence_script(const models::EncoderDecoder& model,
                                                             const models::GenerationConfig& generation,
                                                             const SequenceOptions& options) {
    const auto limits = model.limits();
    models::GenerationConfig g = generation;
    g.beams = options.beams.beams;
    g.length_penalty = static_cast<double>(options.beams.length_penalty);
    g.early_stopping = options.beams.early_stopping;
    if (options.context > 0) g.max_steps = options.context;
    if (g.max_steps == 0 || g.max_steps > limits.target_len)
        return invalid("an answer of " + std::to_string(g.max_steps) +
                       " tokens was asked for (context), the model has positions for 1 to " +
                       std::to_string(limits.target_len));
    if (options.source_capacity == 0 || options.source_capacity > std::min(limits.source_len, kLargestSource))
        return invalid("a source of " + std::to_string(options.source_capacity) +
                       " tokens was asked for (source_capacity), the model takes 1 to " +
                       std::to_string(limits.source_len));
    if (options.sample.temperature != 0) return invalid("an encoder–decoder does not sample: temperature must be 0");
    if (g.beams < 1 || g.beams > graph::kMaxBeams)
        return invalid("a beam search with " + std::to_string(g.beams) + " beams was asked for, it takes 2 to " +
                       std::to_string(graph::kMaxBeams) + "; 1: none");
    VKFORMER_CHECK(check_generation(model, g));
    const models::DecodeLayout layout = {.beams = g.beams,
                                         .source_len = options.source_capacity,
                                         .max_steps = g.max_steps,
                                         .dtype = options.dtype,
                                         .weights = options.weights};
    return std::unique_ptr<SequenceScript>(std::make_unique<EncoderDecoderScript>(model, layout, g));
}

}  // namespace vkformer::decoding
