// SPDX-License-Identifier: MIT
/// Weights that were quantised for other programs: folders of GPTQ, AWQ, compressed-tensors (llm-compressor) and block-scaled FP8, whose
/// config.json has a `quantization_config`. A layer's matrix is made of its packed tensors when the folder is opened, in a block format
/// that has the same numbers wherever there is one (core/block_format.hpp).
#pragma once

#include <filesystem>

#include "formats/config.hpp"
#include "formats/weights.hpp"

namespace vkformer::models {

/// The weights of a Hugging Face folder, packed ones as the matrices [out, in] that they stand for, under the names that they had in the
/// model that was quantised. Integers q of at most 8 bits with scales s of groups of inputs, (q − z) · s, become
///
///     q4_0  where every q − z is −8 … 7: of 4 bits all that is symmetric
///     q4_1  of 4 bits otherwise, with −z · s rounded to float16
///     q8_0  of 8 bits where every q − z is −128 … 127
///
/// with s rounded to float16, which most files have it in. FP8, and integers whose groups are no runs of whole blocks of 32 (`desc_act`)
/// or whose scales float16 does not have within 2^-11, become float16. The method mxfp4, gpt-oss's, is left as it is. Errors: those of
/// formats::open_weights; UnsupportedConfig (another method, or one of its fields, by name), MissingTensor, ShapeMismatch,
/// UnsupportedDtype, CorruptFile (a group's index that is none).
Result<formats::Weights> open_folder_weights(const formats::Config& config, const std::filesystem::path& folder);

/// The same of weights that are open.
Result<formats::Weights> unpacked(const formats::Config& config, formats::Weights weights);

}  // namespace vkformer::models
