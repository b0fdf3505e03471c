// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "text/json_field.hpp"
#include "text/normalizers.hpp"
#include "vkformer/result.hpp"

namespace vkformer::text {

/// Cuts pieces into smaller ones; none is empty afterwards.
using PreTokenizer = std::function<Result<void>(std::vector<Piece>&)>;

/// `add_prefix_space`, where given, overrides the outermost ByteLevel's own. Errors: CorruptFile, UnsupportedConfig (a type
/// that is not implemented, by name).
Result<PreTokenizer> read_pre_tokenizer(const Field& field, std::optional<bool> add_prefix_space = {});

/// Letters, marks, digits and connectors: what \w matches.
bool is_word_character(char32_t code) noexcept;

}  // namespace vkformer::text
