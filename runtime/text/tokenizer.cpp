// SPDX-License-Identifier: MIT
#include "text/tokenizer.hpp"

#include <new>
#include <string>
#include <system_error>

#include "core/try.hpp"
#include "formats/gguf.hpp"
#include "text/gguf_tokenizer.hpp"
#include "text/json_tokenizer.hpp"
#include "text/marian_tokenizer.hpp"

namespace vkformer::text {

Result<Encoding> Tokenizer::encode_for_encoder(std::string_view, std::optional<std::string_view>, std::size_t) const {
    return Error{ErrorCode::UnsupportedConfig, "the tokenizer is not one of an encoder model"};
}

Result<TokenTexts> Tokenizer::token_texts() const {
    return Error{ErrorCode::UnsupportedConfig, "the tokenizer has no text for each of its tokens"};
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& path) try {
    if (formats::is_file(path)) {
        VKFORMER_TRY(const formats::Gguf file, formats::Gguf::open(path));
        VKFORMER_TRY(auto found, load_gguf_tokenizer(file));
        return std::move(found.tokenizer);
    }
    const auto has = [&](const char* name) {
        std::error_code ignored;
        return std::filesystem::exists(path / name, ignored);
    };
    if (has("source.spm") && has("target.spm") && has("vocab.json")) return load_marian_tokenizer(path);
    if (has("tokenizer.json")) return load_json_tokenizer(path);
    return Error{
        ErrorCode::FileNotFound,
        path.string() + " has no tokenizer: neither source.spm with target.spm and vocab.json, nor tokenizer.json"};
} catch (const std::bad_alloc&) {
    return Error{ErrorCode::OutOfHostMemory, path.string() + ": out of memory while loading the tokenizer"};
}

}  // namespace vkformer::text
