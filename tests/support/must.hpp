// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.h"
#include "vkformer/result.hpp"

namespace vkformer::tests {

/// The value; fails the test case with the error's message where there is none.
template <class T>
T must(Result<T> result) {
    if (!result) FAIL(result.error().message);
    return std::move(*result);
}
inline void must(const Result<void>& result) {
    if (!result) FAIL(result.error().message);
}

}  // namespace vkformer::tests
