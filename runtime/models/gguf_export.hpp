// SPDX-License-Identifier: MIT
/// Models on their way into GGUF files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "formats/gguf.hpp"
#include "formats/gguf_writer.hpp"
#include "formats/importance.hpp"
#include "formats/output_tensor.hpp"
#include "models/decoder.hpp"
#include "vkformer/result.hpp"

namespace vkformer::models {

/// What write_gguf takes. The tensors keep the files that they come from mapped.
struct GgufContents {
    formats::GgufMetadata metadata;
    std::vector<formats::OutputTensor> tensors;
    std::vector<std::string> notes;  ///< what is not as asked, a line each
};

/// The tensors of another GGUF file at `dtype` (f32, f16, bf16 or a block format), its metadata as they are. As llama-quantize
/// does: vectors, norms and position tables stay float32, the output matrix is q6_k where the others are smaller, and rows
/// that are no multiple of the block take a wider format (of 32 elements, else f16), which the notes say.
/// Errors: UnsupportedDtype (a tensor of a type that vkformer does not read, by name).
Result<GgufContents> requantized(const formats::Gguf& file, DType dtype);

/// A Hugging Face folder of a decoder (every model_type that load_decoder takes) with the names, the metadata, the order of rows, the
/// gains and the tokenizer that llama.cpp expects. Dtypes as above, but that gpt-oss's experts in MXFP4 stay what they are. Errors: those
/// of load_decoder, open_weights and load_tokenizer; UnsupportedConfig (an architecture, an option, a tensor or a tokenizer that has no
/// place in the format, by name).
Result<GgufContents> exported_to_gguf(const std::filesystem::path& folder, DType dtype);

/// The tensors that exported_to_gguf makes of a decoder that was loaded from the folder, with dtypes as they come: each, or its parts, the
/// bytes of one of the decoder's weights. Errors: those of the architecture, and of tensors that have no place in the format.
Result<std::vector<formats::OutputTensor>> tensors_as_exported(const std::filesystem::path& folder,
                                                               const Decoder& decoder);

/// Rounds matrices in blocks of less than eight bits so that their products err least on the text that the importance is of. Notes say which
/// have none, and count alike everywhere. Errors: InvalidArgument (of another model: none of its matrices is there, or one has other inputs).
Result<void> weigh(GgufContents& contents, const formats::Importance& importance);

/// The weights of a folder, which all that read folders take (formats::kBlockFile), matrices at `dtype`, a block format: tensors keep
/// their names, shapes and order, and what is no matrix of a product or a table of tokens its dtype. Of less than eight bits the tables
/// and the head become q6_k; narrow rows as above. Errors: those of open_model and of its load; UnsupportedConfig (a language model,
/// which is written as a GGUF file; a recurrent model, whose matrices no op reads in blocks).
Result<GgufContents> quantized_folder(const std::filesystem::path& folder, DType dtype);

}  // namespace vkformer::models
