// SPDX-License-Identifier: MIT
#include "conversation.hpp"

#include "core/try.hpp"

namespace vkformer::cli {

Conversation::Conversation(const std::string& system) {
    if (!system.empty()) messages_.push_back({"system", system});
    kept_ = messages_.size();
}

Result<std::size_t> Conversation::ask(const std::string& text, std::size_t context, std::size_t answer,
                                      const Count& count) {
    std::vector<Message> wanted = messages_;
    wanted.push_back({"user", text});
    for (std::size_t turns = 0;; ++turns) {
        VKFORMER_TRY(const std::size_t tokens, count(wanted));
        if (tokens + answer <= context) {
            messages_ = std::move(wanted);
            return turns;
        }
        if (wanted.size() == kept_ + 1)
            return Error{ErrorCode::InvalidArgument, "the message is too long: with what goes before it it is " +
                                                         std::to_string(tokens) + " tokens, the context holds " +
                                                         std::to_string(context) + ", of which " +
                                                         std::to_string(answer) +
                                                         " are kept for the answer; shorten it, or say --context for a "
                                                         "longer one"};
        // A turn is the user's message and what follows it up to the next one.
        const auto begin = wanted.begin() + static_cast<std::ptrdiff_t>(kept_);
        auto end = begin + 1;
        while (end + 1 != wanted.end() && end->role != "user") ++end;
        wanted.erase(begin, end);
    }
}

void Conversation::answer(const std::string& text) { messages_.push_back({"assistant", text}); }
void Conversation::take_back() { messages_.pop_back(); }
void Conversation::clear() { messages_.resize(kept_); }

}  // namespace vkformer::cli
