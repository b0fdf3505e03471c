// SPDX-License-Identifier: MIT
/// The programs of a model of any kind, for the commands that look at their shapes and run none.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.hpp"
#include "graph/plan.hpp"
#include "models/open_model.hpp"

namespace vkformer::cli {

struct PlanOptions {
    std::uint32_t batch = 1;    ///< sequences
    std::uint32_t beams = 0;    ///< 0: what the model's folder says; of a language model none
    std::uint32_t length = 32;  ///< tokens of the source or the prompt, at most the model's
    std::uint32_t steps = 32;   ///< tokens of the answer, at most the model's
    DType dtype = DType::f32;
    models::CacheFormat cache = models::CacheFormat::as_computed;
    bool every_program =
        false;  ///< also a beam search, and the passes that keep attention weights, where there are such
    const graph::FusionRules* fusions = &graph::stepwise_fusions();  ///< those of the backend that would run the plans
};

/// What a generation of an encoder–decoder, of a language model or of one that hears runs, or the one pass of an encoder.
/// Errors: those of loading; InvalidArgument: beams for a model that has no beam search.
Result<std::vector<graph::Plan>> plans_of(const models::OpenedModel& model, const PlanOptions& options);

}  // namespace vkformer::cli
