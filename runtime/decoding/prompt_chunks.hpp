// SPDX-License-Identifier: MIT
/// Prompts of decoder-only models, computed in parts of a few lengths.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "decoding/decoder_options.hpp"
#include "graph/program.hpp"

namespace vkformer::decoding {

/// Where a session keeps what its programs share.
struct SessionStores {
    std::shared_ptr<graph::TensorStore> weights, states;
};

class PromptChunks {
public:
    /// What they compute from and into. `cache_rows` as of models::DecoderLayout.
    struct Context {
        graph::Backend& backend;
        const models::Decoder& model;
        const DecoderSessionOptions& options;
        const SessionStores& stores;
        std::uint32_t cache_rows = 0;
    };

    /// Appends rests[r] behind the begun[r] positions that row r of the caches has. A row with nothing left goes along with tokens
    /// that nobody asked for: their keys lie behind what the row has, where nothing looks before it is written again.
    /// `extended` as of chunk_graph. `meanwhile` is what the host has to do anyway; it is done once, while the device computes the first
    /// chunk, or not at all where there is none. Errors: those of the backend and of `meanwhile`.
    Result<void> append(const Context& context, bool extended, std::span<const std::size_t> begun,
                        std::span<const std::span<const std::int32_t>> rests, DecoderTimings& timings,
                        const std::function<Result<void>()>& meanwhile = {});
    /// For other options.
    void clear() noexcept { chunks_.clear(); }

private:
    struct Chunk;

    Result<Chunk*> chunk(const Context& context, std::uint32_t len, bool extended);
    std::uint32_t next_len(const DecoderSessionOptions& options, std::size_t left) const;

    std::map<std::pair<std::uint32_t, bool>, std::shared_ptr<Chunk>> chunks_;  // by length, extended or not
    double token_seconds_ = std::numeric_limits<double>::infinity();           // of the last chunk
};

}  // namespace vkformer::decoding
