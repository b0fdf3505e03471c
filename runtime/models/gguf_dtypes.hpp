// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "formats/output_tensor.hpp"

namespace vkformer::models {

/// Sets the dtype of each tensor, known by its GGUF name, for a file of `wanted`; what differs for want of whole blocks goes to
/// `notes`. Integers stay as they are, and so does what is of the dtype `kept`.
void choose_gguf_dtypes(std::vector<formats::OutputTensor>& tensors, DType wanted, std::vector<std::string>& notes,
                        std::optional<DType> kept = {});

/// The same for the tensors of a folder, by their names there: matrices of products and tables of tokens. The others keep their dtypes.
void choose_folder_dtypes(std::vector<formats::OutputTensor>& tensors, DType wanted, std::vector<std::string>& notes);

/// llama.cpp's number for a file mostly of that dtype (general.file_type).
std::uint32_t gguf_file_type(DType dtype);

}  // namespace vkformer::models
