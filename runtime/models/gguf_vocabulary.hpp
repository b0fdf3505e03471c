// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>

#include "formats/config.hpp"
#include "models/gguf_export.hpp"
#include "vkformer/result.hpp"

namespace vkformer::models {

/// Puts the folder's tokenizer into the metadata: byte-level BPE whose words llama.cpp has a name for, or SentencePiece BPE. Filled
/// up with unused tokens to `vocab_size`. Errors: those of load_tokenizer, UnsupportedConfig, by name.
Result<void> add_gguf_vocabulary(const std::filesystem::path& folder, const formats::Config& config,
                                 std::uint32_t vocab_size, GgufContents& contents);

}  // namespace vkformer::models
