// SPDX-License-Identifier: MIT
#include "text/tokenizer.hpp"

#include <new>
#include <string>
#include <system_error>

#include "text/json_tokenizer.hpp"
#include "text/marian_tokenizer.hpp"

namespace vkformer::text {

Result<Encoding> Tokenizer::encode_for_encoder(std::string_view, std::optional<std::string_view>, std::size_t) const {
    return Error{ErrorCode::UnsupportedConfig, "the tokenizer is not one of an encoder model"};
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder) try {
    const auto has = [&](const char* name) {
        std::error_code ignored;
        return std::filesystem::exists(folder / name, ignored);
    };
    if (has("source.spm") && has("target.spm") && has("vocab.json")) return load_marian_tokenizer(folder);
    if (has("tokenizer.json")) return load_json_tokenizer(folder);
    return Error{
        ErrorCode::FileNotFound,
        folder.string() + " has no tokenizer: neither source.spm with target.spm and vocab.json, nor tokenizer.json"};
} catch (const std::bad_alloc&) {
    return Error{ErrorCode::OutOfHostMemory, folder.string() + ": out of memory while loading the tokenizer"};
}

}  // namespace vkformer::text
