// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>

#include "vkformer/result.hpp"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace vkformer::text {

/// An immutable SentencePiece model. Errors: FileNotFound, CorruptFile (also where libsentencepiece would read outside a
/// broken normalisation map), OutOfHostMemory.
Result<std::shared_ptr<const sentencepiece::SentencePieceProcessor>> load_sentencepiece(
    const std::filesystem::path& path);

}  // namespace vkformer::text
