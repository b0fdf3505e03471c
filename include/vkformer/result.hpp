// SPDX-License-Identifier: MIT
/// Errors as values. Nothing in vkformer throws across its API: what can fail returns a Result.
#pragma once

#include "vkformer/export.h"

#include <cassert>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace vkformer {

/// For the caller's `if`; the message of the Error is for a person.
enum class ErrorCode : std::uint8_t {
    InvalidArgument,    ///< a value outside its documented range
    ShapeMismatch,      ///< operands whose shapes do not fit each other
    UnsupportedDtype,   ///< a dtype that the op, the device or the file format does not take
    UnsupportedConfig,  ///< a model configuration whose arithmetic is not implemented
    FileNotFound,       ///< a file that is missing or cannot be opened
    CorruptFile,        ///< a file that is truncated, contradicts itself or is not of its format
    MissingTensor,      ///< a weight that the model needs and the file lacks
    NoVulkanLoader,     ///< the Vulkan loader library is not installed
    NoDevice,           ///< no device fits the request
    MissingFeature,     ///< the device lacks a feature or a limit that the work needs
    OutOfHostMemory,
    OutOfDeviceMemory,
    DeviceLost,
    Vulkan,      ///< any other failing Vulkan call; Error::vk says which
    Cancelled,   ///< the caller's should_stop said so
    NotANumber,  ///< a model gave NaN for a token that was to be chosen
};

/// The code's name, for logs and scripts: "shape_mismatch".
VKFORMER_API std::string_view to_string(ErrorCode code) noexcept;

/// What would help against an error, for programs that know how their users ask for it: a message names no option of any program.
enum class Hint : std::uint8_t {
    none,
    other_device,   ///< another device, or another driver of it
    cpu_backend,    ///< the CPU backend, which needs no Vulkan
    beams,          ///< another number of beams
    sampling,       ///< the caller's own rules for drawing tokens
    max_tokens,     ///< the caller's own number of tokens to generate
    cache_storage,  ///< caches in the dtype of the activations
    requantize,     ///< llama.cpp's program that makes a file with weights of other types
    float32,        ///< activations in float32
    validate,       ///< a comparison of every result of the device with the CPU's
    // The model is one of these, and something else was asked for:
    encoder_decoder,
    language_model,
    text_encoder,
    cross_encoder,
    vision_model,
    clip_model,
    speech_model,
};

struct Error {
    ErrorCode code = ErrorCode::InvalidArgument;
    std::string message;  ///< what was asked, what was found, what to do
    std::int32_t vk = 0;  ///< the VkResult where a Vulkan call failed, else 0 (VK_SUCCESS)
    Hint hint = Hint::none;
};

template <class T>
class Result;
template <class T>
union Tried;

/// An Error on its way from one Result to the next: one pointer, so that handing it on takes no more than that. Empty once it was moved.
/// Where there is no memory for it, it is an Error that says so.
class VKFORMER_API Failure {
public:
    // Functions of the library: in every caller they would be many instructions.
    explicit Failure(Error&& error) noexcept;
    Failure(const Failure& other) noexcept;
    Failure(Failure&& other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
    Failure& operator=(Failure other) noexcept {
        std::swap(error_, other.error_);
        return *this;
    }
    ~Failure() {
        if (error_) destroy(error_);
    }

    explicit operator bool() const noexcept { return error_ != nullptr; }
    /// Requires that it is not empty.
    const Error& error() const noexcept {
        assert(error_ && "error() of a Result that has none, or whose error was handed on");
        return *error_;
    }
    /// The same, moved out: what is left has a code, and a message of no use.
    Error take() noexcept;

private:
    friend class Result<void>;
    Failure() = default;
    static void destroy(Error* error) noexcept;

    Error* error_ = nullptr;
};

namespace detail {

/// No part of a template, whose every instance would have its own message.
inline void check_value([[maybe_unused]] bool has_value) noexcept { assert(has_value && "value() of a failed Result"); }

}  // namespace detail

/// A T or an Error. Requires of value() that there is one, and of error() likewise.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T&& value) noexcept(std::is_nothrow_move_constructible_v<T>) : has_value_(true), value_(std::move(value)) {}
    Result(const T& value) requires std::is_copy_constructible_v<T> : has_value_(true), value_(value) {}
    Result(Error error) noexcept : has_value_(false), failure_(std::move(error)) {}
    Result(Failure failure) noexcept : has_value_(false), failure_(std::move(failure)) {}

    Result(const Result& other) requires std::is_copy_constructible_v<T> : has_value_(other.has_value_) { take(other); }
    Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) : has_value_(other.has_value_) {
        take(std::move(other));
    }
    Result& operator=(Result other) noexcept {
        static_assert(std::is_nothrow_move_constructible_v<T>, "what is assigned must not be lost halfway");
        clear();
        has_value_ = other.has_value_;
        take(std::move(other));
        return *this;
    }
    ~Result() { clear(); }

    explicit operator bool() const noexcept { return has_value_; }

    T& value() & noexcept { return *get(); }
    const T& value() const& noexcept { return *const_cast<Result*>(this)->get(); }
    T&& value() && noexcept { return std::move(*get()); }
    T& operator*() & noexcept { return *get(); }
    const T& operator*() const& noexcept { return value(); }
    T&& operator*() && noexcept { return std::move(*get()); }
    T* operator->() noexcept { return get(); }
    const T* operator->() const noexcept { return &value(); }

    const Error& error() const& noexcept { return failure_.error(); }
    Error error() && noexcept { return failure_.take(); }
    /// The Error, to be handed on.
    Failure&& failure() && noexcept { return std::move(failure_); }

private:
    friend union Tried<T>;
    T* get() noexcept {
        detail::check_value(has_value_);
        return &value_;
    }

    template <class Other>
    void take(Other&& other) {
        if (has_value_)
            std::construct_at(&value_, std::forward<Other>(other).value_);
        else
            std::construct_at(&failure_, std::forward<Other>(other).failure_);
    }
    void clear() noexcept {
        if (has_value_)
            value_.~T();
        else
            failure_.~Failure();
    }

    bool has_value_;
    union {
        T value_;
        Failure failure_;
    };
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) noexcept : failure_(std::move(error)) {}
    Result(Failure failure) noexcept : failure_(std::move(failure)) {}

    explicit operator bool() const noexcept { return !failure_; }
    const Error& error() const& noexcept { return failure_.error(); }
    Error error() && noexcept { return failure_.take(); }
    /// The Error, to be handed on. What is left says that all went well.
    Failure&& failure() && noexcept { return std::move(failure_); }

private:
    Failure failure_;
};

}  // namespace vkformer
