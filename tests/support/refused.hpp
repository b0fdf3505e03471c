// SPDX-License-Identifier: MIT
/// What is to fail, and how.
#pragma once

#include <string>

#include "support/catch.h"
#include "vkformer/result.hpp"

namespace vkformer::tests {

/// It fails with this code; its message.
template <class T>
std::string message_of(const Result<T>& result, ErrorCode code = ErrorCode::CorruptFile) {
    REQUIRE_FALSE(result);
    CHECK(result.error().code == code);
    return result.error().message;
}

/// It fails with this code and a message that has the words.
template <class T>
void check_refused(const Result<T>& result, ErrorCode code, const std::string& words) {
    CHECK_THAT(message_of(result, code), Catch::Matchers::ContainsSubstring(words));
}

}  // namespace vkformer::tests
