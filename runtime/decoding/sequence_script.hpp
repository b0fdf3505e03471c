// SPDX-License-Identifier: MIT
/// The script for one sequence at a time, of any kind of model that generates text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "decoding/beam_steps.hpp"
#include "decoding/decoder_options.hpp"
#include "decoding/script.hpp"
#include "models/encoder_decoder.hpp"

namespace vkformer::decoding {

struct SequenceOptions {
    /// Tokens of a sequence at most, prompt included; 0: the model's, at most 4096. For an encoder–decoder tokens of the answer.
    std::uint32_t context = 0;
    std::uint32_t source_capacity = 64;  ///< an encoder–decoder: tokens of the source at most
    std::uint32_t chunk = 64;            ///< tokens of a prompt that are computed together
    DType dtype = DType::f32;
    models::WeightFormat weights = models::WeightFormat::as_filed;
    models::CacheFormat cache = models::CacheFormat::as_computed;  ///< a decoder-only model's
    graph::SampleOptions sample = {.temperature = 0};
    BeamRules beams = {.beams = 1};  ///< 1: none, greedy or drawn. Else the answer comes whole, at the end
};

/// `ends`: the stop tokens of all its sequences. Errors: InvalidArgument (what does not fit the model).
Result<std::unique_ptr<SequenceScript>> make_sequence_script(const models::Decoder& model, const Penalties& penalties,
                                                             std::span<const std::int32_t> ends,
                                                             const SequenceOptions& options);
/// `generation` but for its beams. Errors likewise.
Result<std::unique_ptr<SequenceScript>> make_sequence_script(const models::EncoderDecoder& model,
                                                             const models::GenerationConfig& generation,
                                                             const SequenceOptions& options);

}  // namespace vkformer::decoding
