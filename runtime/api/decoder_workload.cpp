// SPDX-License-Identifier: MIT
#include "api/decoder_workload.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "decoding/decoder_steps.hpp"

namespace vkformer::api {

Result<std::vector<tuning::Workload>> decoder_workload(const models::Decoder& model,
                                                       const decoding::DecoderSessionOptions& options) {
    constexpr std::uint32_t kTokens = 16;
    decoding::DecoderSessionOptions small = options;
    small.context = std::min(2 * kTokens, model.config().max_positions);
    VKFORMER_TRY(auto chunk, decoding::chunk_graph(model, small, std::min(kTokens, small.context)));
    VKFORMER_TRY(auto step, decoding::step_graph(model, small));
    std::vector<tuning::Workload> workload;
    workload.push_back({.graph = std::move(chunk.graph), .times = 1, .inputs = {}});
    workload.push_back({.graph = std::move(step.graph), .times = kTokens, .inputs = {}});
    return workload;
}

}  // namespace vkformer::api
