// SPDX-License-Identifier: MIT
/// Prompts of decoder-only models, computed in parts of a few lengths.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "decoding/decoder_options.hpp"
#include "decoding/decoder_steps.hpp"
#include "decoding/script.hpp"

namespace vkformer::decoding {

/// Four times as long from one to the next, the last of them options.chunk: few programs serve all prompts.
std::vector<std::uint32_t> chunk_lens(const DecoderSessionOptions& options);

class PromptChunks {
public:
    /// `lens`: of the parts, rising; `cache_rows` as of models::DecoderLayout.
    PromptChunks(const models::Decoder& model, std::vector<std::uint32_t> lens, std::uint32_t cache_rows = 0)
        : model_(&model), lens_(std::move(lens)), cache_rows_(cache_rows) {}

    /// Appends the beginnings of rests[r] behind the begun[r] positions that row r of the caches has; Job::len says how long they are
    /// at most. A row with nothing left goes along with tokens that nobody asked for: their keys lie behind what the row has, where
    /// nothing looks before it is written again, and states do not take them in. `extended` as of chunk_graph; `slots`: where has_checkpoints;
    /// `adapters`: the rows' Decoder::adapter_words, where the options have them.
    Result<Job> job(const DecoderSessionOptions& options, bool extended, std::span<const std::size_t> begun,
                    std::span<const std::span<const std::int32_t>> rests, const graph::FusionRules& fusions,
                    std::vector<std::int32_t> slots = {}, std::vector<std::int32_t> adapters = {});
    /// What one takes that is as long as `most_seconds` allowed counts for the next: shorter ones, at the end of a prompt, take more per token.
    void took(const Job& job, double most_seconds, double run_seconds) noexcept;
    /// All of one kind.
    Result<std::vector<Part*>> parts(const DecoderSessionOptions& options, bool extended,
                                     const graph::FusionRules& fusions);
    std::uint32_t sum_of_lens() const noexcept;
    /// For other options.
    void clear() noexcept { chunks_.clear(); }

private:
    /// Computes keys and values of some tokens per row.
    struct Chunk : Part {
        ChunkGraph graph;
    };

    Result<Chunk*> chunk(const DecoderSessionOptions& options, std::uint32_t len, bool extended,
                         const graph::FusionRules& fusions);
    std::span<const std::uint32_t> allowed_lens(double most_seconds) const noexcept;
    std::uint32_t next_len(const DecoderSessionOptions& options, std::size_t left) const;

    const models::Decoder* model_;
    std::vector<std::uint32_t> lens_;
    std::uint32_t cache_rows_;
    std::map<std::tuple<std::uint32_t, bool, bool>, Chunk> chunks_;  // by length, extended or not, with adapters or not
    double token_seconds_ = std::numeric_limits<double>::infinity();  // of the last chunk that was as long as it might
};

}  // namespace vkformer::decoding
