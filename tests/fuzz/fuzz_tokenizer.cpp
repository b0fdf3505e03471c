// SPDX-License-Identifier: MIT
/// tokenizer.json: what is read must encode and decode.
#include "fuzz.hpp"
#include "text/json_tokenizer.hpp"

using namespace vkformer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto tokenizer = text::parse_json_tokenizer(fuzz::text_of(data, size));
    fuzz::require_message(tokenizer);
    if (!tokenizer) return 0;
    for (const char* text : {"", "Hello  wörld 123\n<s>▁", "ﬁ日本語 👩‍🚀 don't"}) {
        const auto ids = (*tokenizer)->encode(text);
        fuzz::require_message(ids);
        if (ids) (void)(*tokenizer)->decode(*ids);
    }
    const std::int32_t ids[] = {0, 1, 2, 3, 300, -1};
    (void)(*tokenizer)->decode(ids, false);
    return 0;
}
