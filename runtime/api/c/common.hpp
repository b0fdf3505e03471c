// SPDX-License-Identifier: MIT
/// What the functions of the C interface have in common: errors as codes, structs that carry their size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "vkformer/result.hpp"
#include "vkformer/vkformer.h"

namespace vkformer::c {

/// Keeps the message for vkf_error_message and gives the code.
vkf_result fail(const Error& error) noexcept;
vkf_result invalid(const char* message) noexcept;

/// What the exception that is being handled says.
vkf_result fail_by_exception() noexcept;

/// Runs the body of a C function, a Result<void> or vkf_result, and lets no exception out.
vkf_result guarded(auto&& body) noexcept {
    try {
        auto result = body();
        if constexpr (std::is_same_v<decltype(result), vkf_result>)
            return result;
        else
            return result ? VKF_SUCCESS : fail(result.error());
    } catch (...) {
        return fail_by_exception();
    }
}

/// The structs of the interface begin with `std::uint32_t struct_size`; these two know no more of them.
/// Copies the caller's struct, which may be null, over `defaults`. Errors: as of read_struct.
Result<void> read_members(const void* given, void* defaults, std::size_t size, const char* name);
/// Before anything is done whose outcome write_members is to tell. Errors: InvalidArgument (null, or a size that no version has).
Result<void> check_target(const void* target, const char* name);
/// Copies `value` to the caller's struct as far as that reaches, but for its size. Errors: as of check_target.
vkf_result write_members(void* target, const void* value, std::size_t size, const char* name);

/// The caller's struct as this library knows it: members behind `struct_size` keep their defaults. Errors: InvalidArgument (a size
/// that no version has, or members that this library does not know and that are not zero).
template <class T>
Result<T> read_struct(const T* given, const T& defaults, const char* name) {
    T result = defaults;
    if (auto read = read_members(given, &result, sizeof(T), name); !read) return std::move(read).failure();
    return result;
}

/// Fills the caller's struct as far as it knows its members.
template <class T>
vkf_result write_struct(T* target, const T& value, const char* name) {
    return write_members(target, &value, sizeof(T), name);
}

/// Reads what callers point to. What cannot be read is empty, and the first of it the error of all.
class Arguments {
public:
    /// A zero-terminated text: not null, and UTF-8.
    std::string text(const char* text, std::string_view name);
    /// The same, or null, which is empty.
    std::string optional_text(const char* text, std::string_view name);
    /// An array: null only where it has no elements.
    template <class T>
    std::span<const T> array(const T* elements, std::size_t count, std::string_view name) {
        return {elements, elements ? count : nothing(count, name)};
    }
    void refuse(std::string_view name, std::string_view why);

    /// InvalidArgument, which says what is wrong with which.
    Result<void> check() const;

private:
    std::size_t nothing(std::size_t count, std::string_view name);

    std::string refused_;  // empty: nothing was
};

/// Arrays that the caller sizes: `count` is the capacity before and the number of elements after.
template <class Count, class T>
vkf_result write_array(std::span<const T> values, Count* count, T* target) {
    if (!count) return invalid("count is null");
    const Count capacity = target ? *count : 0;
    *count = static_cast<Count>(values.size());
    if (!target) return VKF_SUCCESS;
    const std::size_t fitting = std::min<std::size_t>(capacity, values.size());
    std::copy_n(values.begin(), fitting, target);
    if (fitting == values.size()) return VKF_SUCCESS;
    *count = static_cast<Count>(fitting);
    return VKF_INCOMPLETE;
}

/// The same for zero-terminated text.
vkf_result write_text(std::string_view text, std::size_t* bytes, char* target);

}  // namespace vkformer::c
