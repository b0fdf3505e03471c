// SPDX-License-Identifier: MIT
#include "decoding/prompt_chunks.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/ceil_div.hpp"
#include "core/try.hpp"

namespace vkformer::decoding {

std::vector<std::uint32_t> chunk_lens(const DecoderSessionOptions& options) {
    std::vector<std::uint32_t> lens{DecoderSessionOptions::kSmallestChunk};
    while (lens.back() < options.chunk) lens.push_back(std::min(lens.back() * 4, options.chunk));
    return lens;
}

Result<PromptChunks::Chunk*> PromptChunks::chunk(const DecoderSessionOptions& options, std::uint32_t len, bool extended,
                                                 const graph::FusionRules& fusions) {
    const auto known = chunks_.find({len, extended, options.adapters});
    if (known != chunks_.end()) return &known->second;
    Chunk made;
    VKFORMER_TRY(made.graph, chunk_graph(*model_, options, len, extended, cache_rows_));
    made.plan = graph::make_plan(std::move(made.graph.graph), {.fusions = &fusions});
    return &chunks_.emplace(std::tuple(len, extended, options.adapters), std::move(made)).first->second;
}

std::span<const std::uint32_t> PromptChunks::allowed_lens(double most_seconds) const noexcept {
    std::size_t allowed = 1;
    while (allowed < lens_.size() && (most_seconds <= 0 || lens_[allowed] * token_seconds_ <= most_seconds)) ++allowed;
    return std::span(lens_).first(allowed);
}

void PromptChunks::took(const Job& job, double most_seconds, double run_seconds) noexcept {
    if (job.len >= allowed_lens(most_seconds).back()) token_seconds_ = run_seconds / job.len;
}

/// The first of those that take least together, of what the time allows: a chunk computes all its tokens, whoever asked for them. A longer
/// chunk takes less per token, not more, so what is expected of it is too long rather than too short.
std::uint32_t PromptChunks::next_len(const DecoderSessionOptions& options, std::size_t left) const {
    const auto lens = allowed_lens(options.chunk_seconds);
    if (left >= lens.back()) return lens.back();
    struct Best {
        std::uint64_t cost = 0;  // of what is left, in tokens
        std::uint32_t len = 0;   // the first, the longest of those that cost the same
    };
    const std::uint32_t unit = lens.front();
    std::vector<Best> best(ceil_div(std::max<std::size_t>(left, 1), unit) + 1);
    for (std::size_t units = 1; units < best.size(); ++units)
        for (const std::uint32_t len : lens) {
            const std::size_t rest = units - std::min<std::size_t>(units, ceil_div(len, unit));
            const std::uint64_t cost = std::uint64_t{len} + options.run_tokens + best[rest].cost;
            if (best[units].len == 0 || cost <= best[units].cost) best[units] = {cost, len};
        }
    return best.back().len;
}

Result<Job> PromptChunks::job(const DecoderSessionOptions& options, bool extended, std::span<const std::size_t> begun,
                              std::span<const std::span<const std::int32_t>> rests, const graph::FusionRules& fusions,
                              std::vector<std::int32_t> slots, std::vector<std::int32_t> adapters) {
    std::size_t longest = 0;  // tokens left to compute, of any row
    for (const auto& rest : rests) longest = std::max(longest, rest.size());
    const std::uint32_t len = next_len(options, longest);
    VKFORMER_TRY(Chunk* const made, chunk(options, len, extended, fusions));
    std::vector<std::int32_t> tokens(rests.size() * len, 0), starts(rests.size()), counts(rests.size());
    for (std::size_t r = 0; r < rests.size(); ++r) {
        const auto part = rests[r].first(std::min<std::size_t>(rests[r].size(), len));
        std::ranges::copy(part, tokens.begin() + static_cast<std::ptrdiff_t>(r * len));
        starts[r] = static_cast<std::int32_t>(begun[r]);
        counts[r] = static_cast<std::int32_t>(part.size());
    }
    Job job = {.kind = Job::Kind::prompt, .part = made, .len = len, .counts = counts};
    job.writes.push_back({made->graph.tokens, std::move(tokens)});
    job.writes.push_back({made->graph.starts, std::move(starts)});
    if (made->graph.counts) job.writes.push_back({made->graph.counts, std::move(counts)});
    if (made->graph.slots) job.writes.push_back({made->graph.slots, std::move(slots)});
    if (made->graph.adapters) job.writes.push_back({made->graph.adapters, std::move(adapters)});
    if (made->graph.handed) {
        std::vector<std::int32_t> positions;
        for (const std::size_t start : begun)
            for (std::size_t i = 0; i < len; ++i)
                positions.push_back(static_cast<std::int32_t>(std::min<std::size_t>(start + i, options.context - 1)));
        job.writes.push_back({made->graph.handed, std::move(positions)});
    }
    return job;
}

Result<std::vector<Part*>> PromptChunks::parts(const DecoderSessionOptions& options, bool extended,
                                               const graph::FusionRules& fusions) {
    std::vector<Part*> parts;
    for (const std::uint32_t len : lens_) {
        VKFORMER_TRY(Chunk* const made, chunk(options, len, extended, fusions));
        parts.push_back(made);
    }
    return parts;
}

std::uint32_t PromptChunks::sum_of_lens() const noexcept { return std::accumulate(lens_.begin(), lens_.end(), 0u); }

}  // namespace vkformer::decoding
