// SPDX-License-Identifier: MIT
/// Importance matrices: how large the inputs of a model's products were on a text, by llama.cpp's tool of that name.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::formats {

/// By the GGUF name of each matrix [out, in]: the mean of the square of each of its inputs, [in]; of a stack of matrices, such as those of
/// experts, of each of them, [matrices × in]. The error that a rounded weight brings into a product is in the mean its own square times that.
using Importance = std::map<std::string, std::shared_ptr<const std::vector<float>>, std::less<>>;

/// A GGUF file whose general.type is "imatrix" (tensors NAME.in_sum2 [matrices, in] and NAME.counts [matrices]), or one of the older form
/// without a head. A matrix of a stack that no token came to has 1 for all inputs. Errors: FileNotFound; CorruptFile (neither, cut short, sizes
/// that do not fit, values that are negative or no numbers).
Result<Importance> read_importance(const std::filesystem::path& path);

/// The older form: a number of entries, of each its name, a number of calls, and the inputs' mean squares times that. `name` begins the
/// messages. Errors: CorruptFile.
Result<Importance> parse_old_importance(std::span<const std::byte> file, std::string_view name);

}  // namespace vkformer::formats
