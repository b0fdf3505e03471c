// SPDX-License-Identifier: MIT
/// Early return for Result: the two macros that the library uses in place of exceptions.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "vkformer/result.hpp"

namespace vkformer {

/// A Result in the hands of the macros below, which take out of it what it has, the value or the error, and leave nothing behind for a
/// destructor: with one, a function of many steps would call as many of them wherever it ends, a third of its code.
template <class T>
union Tried {
    Result<T> result;

    ~Tried() {}
    bool is_good() const noexcept { return result.has_value_; }
    Failure&& failure() noexcept { return std::move(result.failure_); }
    /// By value, so that a reference declared with it lives as long as it does.
    T take() noexcept(std::is_nothrow_move_constructible_v<T>) {
        const Dropping at_the_end{*this};
        return std::move(result.value_);
    }
    void drop() noexcept { std::destroy_at(&result.value_); }

private:
    struct Dropping {
        Tried& tried;
        ~Dropping() { tried.drop(); }
    };
};
template <>
union Tried<void> {
    Result<void> result;

    ~Tried() {}
    bool is_good() const noexcept { return static_cast<bool>(result); }
    Failure&& failure() noexcept { return std::move(result).failure(); }
    void drop() noexcept {}
};
template <class T>
Tried(Result<T>) -> Tried<T>;

}  // namespace vkformer

#define VKFORMER_CONCAT_(a, b) a##b
#define VKFORMER_CONCAT(a, b) VKFORMER_CONCAT_(a, b)

/// VKFORMER_TRY(const auto buffer, Buffer::create(...)): declares the value (no view of it) or returns the error.
#define VKFORMER_TRY(declaration, expression)                                                               \
    ::vkformer::Tried VKFORMER_CONCAT(result_, __LINE__){expression};                                       \
    if (!VKFORMER_CONCAT(result_, __LINE__).is_good()) return VKFORMER_CONCAT(result_, __LINE__).failure(); \
    declaration = VKFORMER_CONCAT(result_, __LINE__).take()

/// VKFORMER_CHECK(program.submit()): returns the error, if any.
#define VKFORMER_CHECK(expression)                                      \
    do {                                                                \
        ::vkformer::Tried checked_result{expression};                   \
        if (!checked_result.is_good()) return checked_result.failure(); \
        checked_result.drop();                                          \
    } while (false)
