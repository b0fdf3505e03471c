// SPDX-License-Identifier: MIT
/// Texts as SigLIP's tokenizers make them: written plainly, and with padding that the model reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.hpp"
#include "vkformer/result.hpp"

namespace vkformer::api {

struct PaddedTexts {
    std::int32_t pad = 0;   ///< the token that fills a text up
    bool at_start = false;  ///< in front of the text
    bool lowers = false;    ///< read in lower case
    bool is_plain = false;  ///< read without ASCII punctuation, and with one space where there are several

    /// What transformers does for the folder's `tokenizer_class`: SiglipTokenizer writes plainly and in lower case (do_lower_case),
    /// Siglip2Tokenizer in lower case, others as the text is. Siglip2Tokenizer's and Gemma's padding is in front unless padding_side says
    /// otherwise. Errors: CorruptFile; UnsupportedConfig (the tokenizer has no pad token).
    static Result<PaddedTexts> read(const std::filesystem::path& folder, const text::Tokenizer& tokenizer);

    /// The text as the tokenizer reads it. Requires valid UTF-8.
    std::string written(std::string_view text) const;
    /// As many ids as `len`.
    void fill(std::vector<std::int32_t>& ids, std::size_t len) const;
};

}  // namespace vkformer::api
