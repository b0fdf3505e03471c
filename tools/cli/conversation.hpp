// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "vkformer/generator.hpp"

namespace vkformer::cli {

/// What was said, as much of it as the context holds.
class Conversation {
public:
    /// `system`: told before all else, and kept; empty: nothing is.
    explicit Conversation(const std::string& system);

    /// How many tokens a conversation has in the model's words.
    using Count = std::function<Result<std::size_t>(const std::vector<Message>&)>;

    /// The user's turn. Where `context` tokens do not hold the conversation with it and `answer` tokens more, the oldest turns leave: how
    /// many did. Errors: InvalidArgument (they do not even hold the turn alone; nothing has changed then), and those of `count`.
    Result<std::size_t> ask(const std::string& text, std::size_t context, std::size_t answer, const Count& count);
    void answer(const std::string& text);
    /// The last turn was not answered.
    void take_back();
    /// Forgets all but what the model was told before.
    void clear();

    const std::vector<Message>& messages() const noexcept { return messages_; }

private:
    std::vector<Message> messages_;
    std::size_t kept_ = 0;  // messages that never leave
};

}  // namespace vkformer::cli
