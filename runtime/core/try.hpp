// SPDX-License-Identifier: MIT
/// Early return for Result: the two macros that the library uses in place of exceptions.
#pragma once

#include "vkformer/result.hpp"

#define VKFORMER_CONCAT_(a, b) a##b
#define VKFORMER_CONCAT(a, b) VKFORMER_CONCAT_(a, b)

/// VKFORMER_TRY(const auto buffer, Buffer::create(...)): declares the value or returns the error.
#define VKFORMER_TRY(declaration, expression)                                                                \
    auto VKFORMER_CONCAT(result_, __LINE__) = (expression);                                                  \
    if (!VKFORMER_CONCAT(result_, __LINE__)) return std::move(VKFORMER_CONCAT(result_, __LINE__)).failure(); \
    declaration = std::move(VKFORMER_CONCAT(result_, __LINE__)).value()

/// VKFORMER_CHECK(program.submit()): returns the error, if any.
#define VKFORMER_CHECK(expression)                                                                           \
    do {                                                                                                     \
        if (auto checked_result = (expression); !checked_result) return std::move(checked_result).failure(); \
    } while (false)
