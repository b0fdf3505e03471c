// SPDX-License-Identifier: MIT
#include "api/generation_workload.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "decoding/steps.hpp"

namespace vkformer::api {

Result<std::vector<tuning::Workload>> generation_workload(const models::EncoderDecoder& model,
                                                          const models::GenerationConfig& generation, DType dtype,
                                                          models::WeightFormat weights) {
    constexpr std::uint32_t kTokens = 16;
    const auto limits = model.limits();
    models::GenerationConfig config = generation;
    config.max_steps = static_cast<std::uint32_t>(std::min<std::uint64_t>(kTokens, limits.target_len));
    const auto source_len = static_cast<std::uint32_t>(std::min<std::uint64_t>(kTokens, limits.source_len));
    const models::DecodeLayout layout = {.batch = 1,
                                         .beams = config.beams,
                                         .source_len = source_len,
                                         .max_steps = config.max_steps,
                                         .dtype = dtype,
                                         .weights = weights};
    VKFORMER_TRY(auto encoder, decoding::encoder_graph(model, layout));
    VKFORMER_TRY(auto step, decoding::step_graph(model, layout, config));
    const std::map<std::string, std::vector<std::int32_t>> lengths = {
        {"source_lengths", {static_cast<std::int32_t>(layout.source_len)}}};
    std::vector<tuning::Workload> workload;
    workload.push_back({.graph = std::move(encoder.graph), .times = 1, .inputs = lengths});
    workload.push_back({.graph = std::move(step.graph), .times = config.max_steps, .inputs = lengths});
    return workload;
}

}  // namespace vkformer::api
