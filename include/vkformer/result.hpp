// SPDX-License-Identifier: MIT
/// Errors as values. Nothing in vkformer throws across its API: what can fail returns a Result.
#pragma once

#include "vkformer/export.h"

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

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

/// A T or an Error.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    explicit operator bool() const noexcept { return state_.index() == 0; }

    T& value() & noexcept { return *get(); }
    const T& value() const& noexcept { return *const_cast<Result*>(this)->get(); }
    T&& value() && noexcept { return std::move(*get()); }
    T& operator*() & noexcept { return *get(); }
    const T& operator*() const& noexcept { return value(); }
    T&& operator*() && noexcept { return std::move(*get()); }
    T* operator->() noexcept { return get(); }
    const T* operator->() const noexcept { return &value(); }

    const Error& error() const& noexcept { return *std::get_if<1>(&state_); }
    Error&& error() && noexcept { return std::move(*std::get_if<1>(&state_)); }

private:
    T* get() noexcept {
        assert(state_.index() == 0 && "value() of a failed Result");
        return std::get_if<0>(&state_);
    }

    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : failed_(true), error_(std::move(error)) {}

    explicit operator bool() const noexcept { return !failed_; }
    const Error& error() const& noexcept { return error_; }
    Error&& error() && noexcept { return std::move(error_); }

private:
    bool failed_ = false;
    Error error_;
};

}  // namespace vkformer
