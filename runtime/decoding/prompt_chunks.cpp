// SPDX-License-Identifier: MIT
#include "decoding/prompt_chunks.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/try.hpp"
#include "decoding/decoder_steps.hpp"
#include "decoding/tensor_io.hpp"

namespace vkformer::decoding {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

/// Computes keys and values of `len` tokens per row.
struct PromptChunks::Chunk {
    ChunkGraph graph;  // the program owns the plan; the names of the tensors are kept here
    std::unique_ptr<graph::Program> program;
};

Result<PromptChunks::Chunk*> PromptChunks::chunk(const Context& context, std::uint32_t len, bool extended) {
    std::shared_ptr<Chunk>& known = chunks_[{len, extended}];
    if (known) return known.get();
    auto made = std::make_shared<Chunk>();
    VKFORMER_TRY(made->graph, chunk_graph(context.model, context.options, len, extended, context.cache_rows));
    VKFORMER_TRY(made->program, context.backend.compile(graph::make_plan(std::move(made->graph.graph)),
                                                        context.stores.weights, context.stores.states));
    known = std::move(made);
    return known.get();
}

/// The shortest that takes all that is left, or the longest that the time allows. A longer chunk takes less per token, not more, so
/// what is expected of it is too long rather than too short.
std::uint32_t PromptChunks::next_len(const DecoderSessionOptions& options, std::size_t left) const {
    std::uint32_t len = DecoderSessionOptions::kSmallestChunk;
    while (len < left && len < options.chunk) {
        const std::uint32_t longer = std::min(len * 4, options.chunk);
        if (options.chunk_seconds > 0 && longer * token_seconds_ > options.chunk_seconds) break;
        len = longer;
    }
    return len;
}

Result<void> PromptChunks::append(const Context& context, bool extended, std::span<const std::size_t> begun,
                                  std::span<const std::span<const std::int32_t>> rests, DecoderTimings& timings,
                                  const std::function<Result<void>()>& meanwhile) {
    const Clock::time_point start = Clock::now();
    std::size_t longest = 0;  // tokens left to compute, of any row
    for (const auto& rest : rests) {
        longest = std::max(longest, rest.size());
        timings.prompt_tokens += rest.size();
    }
    std::size_t done = 0;
    while (done < longest) {
        const std::uint32_t len = next_len(context.options, longest - done);
        VKFORMER_TRY(Chunk* const made, chunk(context, len, extended));
        std::vector<std::int32_t> tokens(rests.size() * len, 0), starts(rests.size());
        for (std::size_t r = 0; r < rests.size(); ++r) {
            const std::size_t from = std::min(done, rests[r].size());
            const auto part = rests[r].subspan(from, std::min<std::size_t>(rests[r].size() - from, len));
            std::ranges::copy(part, tokens.begin() + static_cast<std::ptrdiff_t>(r * len));
            starts[r] = static_cast<std::int32_t>(begun[r] + from);
        }
        VKFORMER_CHECK(write_ints(*made->program, made->graph.tokens, tokens));
        VKFORMER_CHECK(write_ints(*made->program, made->graph.starts, starts));
        const Clock::time_point submitted = Clock::now();
        VKFORMER_CHECK(made->program->submit());
        if (done == 0 && meanwhile) VKFORMER_CHECK(meanwhile());
        VKFORMER_CHECK(made->program->wait());
        token_seconds_ = seconds_since(submitted) / len;
        ++timings.prompt_chunks;
        done += len;
    }
    timings.prompt_seconds += seconds_since(start);
    return {};
}

}  // namespace vkformer::decoding
