// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::text {

/// What the tokens of a model with connectionist temporal classification write: characters, mostly.
struct CtcVocabulary {
    std::vector<std::string>
        pieces;               ///< by id, a space for that of words' bounds; what there is none of is the unknown one's
    std::int32_t blank = -1;  ///< the token that writes nothing; −1: there is none
    std::string space;        ///< what stands between words
    bool lowers = false, cleans_up = false;

    /// What some pieces one behind the other are as a text.
    std::string as_text(std::string text) const;
};

/// vocab.json and tokenizer_config.json of a folder with a Wav2Vec2CTCTokenizer (or special_tokens_map.json and added_tokens.json), for so
/// many logits. Errors: FileNotFound, CorruptFile, UnsupportedConfig (another tokenizer, a vocabulary of several languages).
Result<void> load_ctc_vocabulary(const std::filesystem::path& folder, std::uint32_t logits, CtcVocabulary& vocabulary);

}  // namespace vkformer::text
