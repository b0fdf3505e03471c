// SPDX-License-Identifier: MIT
/// Constraints: a first byte says whether the rest is a schema or an expression; texts are drawn of what parses.
#include "constraints/json_schema.hpp"
#include "constraints/regex.hpp"
#include "constraints/token_constraint.hpp"
#include "fuzz.hpp"

using namespace vkformer;

namespace {

std::shared_ptr<const constraints::Vocabulary> vocabulary() {
    text::TokenTexts texts;
    for (int byte = 0; byte < 256; ++byte) texts.bytes.emplace_back(1, static_cast<char>(byte));
    for (const char* const word : {"\"", "\":", "{\"", "\"}", "null", "aaaaaaaa", "  ", "00", "[[[["})
        texts.bytes.emplace_back(word);
    const std::size_t size = texts.bytes.size();
    return std::make_shared<const constraints::Vocabulary>(std::move(texts), std::vector<std::int32_t>{}, size);
}

std::int32_t some_token(const constraints::AllowedTokens& allowed, std::size_t from, std::size_t vocab) {
    for (std::size_t i = 0; i < vocab; ++i) {
        const std::size_t token = (from + i) % vocab;
        if (static_cast<std::uint32_t>(allowed.bits[token / 32]) >> (token % 32) & 1)
            return static_cast<std::int32_t>(token);
    }
    return -1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto words = vocabulary();
    if (size == 0) return 0;
    const auto text = fuzz::text_of(data + 1, size - 1);
    auto grammar = data[0] % 2 == 0 ? constraints::json_schema_grammar(text) : constraints::regex_grammar(text);
    fuzz::require_message(grammar);
    if (!grammar) return 0;
    const auto constraint = std::make_shared<constraints::TokenConstraint>(*grammar, words);
    constraints::ConstrainedText one(constraint);
    for (std::size_t i = 0; i < 24; ++i) {
        const auto allowed = one.allowed();
        fuzz::require_message(allowed);
        if (!allowed || !(*allowed)->may_go_on) break;
        const std::int32_t token = some_token(**allowed, data[i % size] * 31u + i, words->size());
        fuzz::require(token >= 0);
        const auto added = one.add(token);
        fuzz::require_message(added);
        if (!added) break;
        if (i % 8 == 0) one.look_ahead();
    }
    return 0;
}
