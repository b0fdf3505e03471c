// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "serve/router.hpp"
#include "serve/shared_calls.hpp"

namespace vkformer::serve {

/// Puts a request before the model's thread: `answer` gets the call and what came of it, on that thread; a client that goes takes its
/// request out of the queue.
template <class Input, class Output, class Group, class Answer>
void submit(SharedCalls<Input, Output, Group>& calls, const Call& call, std::vector<Input> inputs, Answer answer,
            Group group = {}) {
    const auto ticket = calls.submit(
        std::move(inputs),
        [call, answer = std::move(answer)](auto result) {
            if (result)
                answer(call, *result);
            else
                call.refuse(call.failed(result.error()));
        },
        std::move(group));
    call.exchange().on_gone(
        [&calls, call, ticket] { calls.cancel(ticket); });  // the call holds the model, whose these are
}

}  // namespace vkformer::serve
