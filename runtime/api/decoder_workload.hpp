// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <vector>

#include "decoding/beam_session.hpp"
#include "decoding/decoder_session.hpp"
#include "tuning/workload.hpp"

namespace vkformer::api {

/// A short generation, 16 tokens from 16, or a search with beams: what the choice between two backends is measured with.
/// Errors: the model's.
Result<std::vector<tuning::Workload>> decoder_workload(const models::Decoder& model,
                                                       const decoding::DecoderSessionOptions& options,
                                                       const std::optional<decoding::BeamRules>& beams = {});

}  // namespace vkformer::api
