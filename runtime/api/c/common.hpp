// SPDX-License-Identifier: MIT
/// What the functions of the C interface have in common: errors as codes, structs that carry their size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "vkformer/result.hpp"
#include "vkformer/vkformer.h"

namespace vkformer::c {

/// Keeps the message for vkf_error_message and gives the code.
vkf_result fail(const Error& error) noexcept;
vkf_result invalid(const char* message) noexcept;

/// Runs the body of a C function, a Result<void> or vkf_result, and lets no exception out.
vkf_result guarded(auto&& body) noexcept {
    try {
        auto result = body();
        if constexpr (std::is_same_v<decltype(result), vkf_result>)
            return result;
        else
            return result ? VKF_SUCCESS : fail(result.error());
    } catch (const std::bad_alloc&) {
        return fail({ErrorCode::OutOfHostMemory, {}});
    } catch (const std::exception& e) {
        fail({ErrorCode::Vulkan, e.what()});
        return VKF_ERROR_UNKNOWN;
    }
}

/// The caller's struct as this library knows it: members behind `struct_size` keep their defaults. Errors: InvalidArgument (a size
/// that no version has, or members that this library does not know and that are not zero).
template <class T>
Result<T> read_struct(const T* given, const T& defaults, const char* name) {
    if (!given) return defaults;
    const std::size_t size = given->struct_size;
    if (size < sizeof(given->struct_size))
        return Error{ErrorCode::InvalidArgument,
                     std::string(name) + "::struct_size is " + std::to_string(size) + "; begin with the _INIT macro"};
    const std::span bytes(reinterpret_cast<const std::byte*>(given), size);
    const auto unknown = bytes.subspan(std::min(size, sizeof(T)));
    if (std::ranges::any_of(unknown, [](std::byte b) { return b != std::byte{0}; }))
        return Error{ErrorCode::InvalidArgument,
                     std::string(name) + " has members that this version of vkformer does not know"};
    T result = defaults;
    std::memcpy(&result, given, std::min(size, sizeof(T)));
    return result;
}

/// Fills the caller's struct as far as it knows its members.
template <class T>
vkf_result write_struct(T* target, T value, const char* name) {
    if (!target) return invalid((std::string(name) + " is null").c_str());
    const std::size_t size = target->struct_size;
    if (size < sizeof(target->struct_size))
        return invalid((std::string(name) + "::struct_size is not set; begin with the _INIT macro").c_str());
    value.struct_size = static_cast<std::uint32_t>(size);
    std::memcpy(target, &value, std::min(size, sizeof(T)));
    return VKF_SUCCESS;
}

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
