// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "models/encoder_decoder.hpp"
#include "models/generation_config.hpp"
#include "tuning/workload.hpp"

namespace vkformer::api {

/// A short generation, 16 tokens from 16: what the choice between two backends is measured with. Errors: the model's.
Result<std::vector<tuning::Workload>> generation_workload(
    const models::EncoderDecoder& model, const models::GenerationConfig& generation, DType dtype,
    models::WeightFormat weights);

}  // namespace vkformer::api
