// SPDX-License-Identifier: MIT
/// Chat templates: what parses is rendered with a conversation.
#include <array>

#include "fuzz.hpp"
#include "text/chat_template.hpp"

using namespace vkformer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto parsed = text::ChatTemplate::parse(fuzz::text_of(data, size), "x.jinja");
    fuzz::require_message(parsed);
    if (!parsed) return 0;
    const std::array<text::ChatMessage, 3> messages = {
        {{"system", "Be brief."}, {"user", "Wo ist {{ x }}?\n"}, {"assistant", "Hier."}}};
    fuzz::require_message(parsed->render(messages, {.bos_token = "<s>", .eos_token = "</s>"}));
    return 0;
}
