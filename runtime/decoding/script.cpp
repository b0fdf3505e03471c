// SPDX-License-Identifier: MIT
#include "decoding/script.hpp"

#include <string>

#include "core/try.hpp"

namespace vkformer::decoding {

Error no_choice() {
    return {
        .code = ErrorCode::NotANumber,
        .message =
            "the model gave no numbers (NaN) for the next token: something within it has become infinite, as it does "
            "where float16, which ends at 65504, is too small for a model; compute in float32",
        .hint = Hint::float32};
}

Result<void> check_token(std::string_view name, std::int32_t token, std::uint64_t vocab) {
    if (token >= 0 && static_cast<std::uint64_t>(token) < vocab) return {};
    return Error{ErrorCode::InvalidArgument, std::string(name) + " is " + std::to_string(token) +
                                                 ", but the model knows tokens 0 to " + std::to_string(vocab - 1)};
}

Result<void> check_tokens(std::span<const std::int32_t> tokens, std::uint64_t vocab) {
    if (tokens.empty()) return Error{ErrorCode::InvalidArgument, "a sequence needs at least one token"};
    for (const std::int32_t token : tokens) {
        auto known = check_token("a token", token, vocab);
        if (known) continue;
        Error error = known.error();
        error.message += "; is the tokenizer the model's?";
        return error;
    }
    return {};
}

}  // namespace vkformer::decoding
