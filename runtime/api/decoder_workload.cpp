// SPDX-License-Identifier: MIT
#include "api/decoder_workload.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "decoding/decoder_steps.hpp"

namespace vkformer::api {

Result<std::vector<tuning::Workload>> decoder_workload(const models::Decoder& model,
                                                       const decoding::DecoderSessionOptions& options,
                                                       const std::optional<decoding::BeamRules>& beams) {
    constexpr std::uint32_t kTokens = 16;
    decoding::DecoderSessionOptions small = options;
    small.context = std::min(2 * kTokens, model.config().max_positions);
    small.adapters = model.adapters() > 0;
    const std::uint32_t cache_rows = beams ? beams->beams : 0;
    VKFORMER_TRY(auto chunk, decoding::chunk_graph(model, small, std::min(kTokens, small.context), false, cache_rows));
    std::vector<tuning::Workload> workload;
    workload.push_back({.graph = std::move(chunk.graph), .times = 1, .inputs = {}});
    graph::Graph step;
    if (beams) {
        VKFORMER_TRY(auto made, decoding::beam_step_graph(model, small, *beams, 0, 0));
        step = std::move(made.graph);
    } else {
        VKFORMER_TRY(auto made, decoding::step_graph(model, small));
        step = std::move(made.graph);
    }
    workload.push_back({.graph = std::move(step), .times = kTokens, .inputs = {}});
    return workload;
}

}  // namespace vkformer::api
