// SPDX-License-Identifier: MIT
#include "vkformer/result.hpp"

#include <new>

namespace vkformer {
namespace {

Error out_of_memory() noexcept { return {.code = ErrorCode::OutOfHostMemory, .message = "out of memory"}; }

/// In place of what there is no memory for. Nothing is ever written to it.
Error& no_memory() noexcept {
    static Error error = out_of_memory();
    return error;
}

Error* on_heap(Error&& error) noexcept {
    Error* const made = new (std::nothrow) Error(std::move(error));
    return made ? made : &no_memory();
}

Error* copy_of(const Error& error) noexcept {
    try {
        return on_heap(Error(error));
    } catch (const std::bad_alloc&) {
        return &no_memory();
    }
}

}  // namespace

Failure::Failure(Error&& error) noexcept : error_(on_heap(std::move(error))) {}
Failure::Failure(const Failure& other) noexcept : error_(other.error_ ? copy_of(*other.error_) : nullptr) {}

Error Failure::take() noexcept {
    assert(error_ && "error() of a Result that has none, or whose error was handed on");
    return error_ == &no_memory() ? out_of_memory() : std::move(*error_);
}

void Failure::destroy(Error* error) noexcept {
    if (error != &no_memory()) delete error;
}

std::string_view to_string(ErrorCode code) noexcept {
    switch (code) {
    case ErrorCode::InvalidArgument: return "invalid_argument";
    case ErrorCode::ShapeMismatch: return "shape_mismatch";
    case ErrorCode::UnsupportedDtype: return "unsupported_dtype";
    case ErrorCode::UnsupportedConfig: return "unsupported_config";
    case ErrorCode::FileNotFound: return "file_not_found";
    case ErrorCode::CorruptFile: return "corrupt_file";
    case ErrorCode::MissingTensor: return "missing_tensor";
    case ErrorCode::NoVulkanLoader: return "no_vulkan_loader";
    case ErrorCode::NoDevice: return "no_device";
    case ErrorCode::MissingFeature: return "missing_feature";
    case ErrorCode::OutOfHostMemory: return "out_of_host_memory";
    case ErrorCode::OutOfDeviceMemory: return "out_of_device_memory";
    case ErrorCode::DeviceLost: return "device_lost";
    case ErrorCode::Vulkan: return "vulkan";
    case ErrorCode::Cancelled: return "cancelled";
    case ErrorCode::NotANumber: return "not_a_number";
    }
    return "unknown";
}

}  // namespace vkformer
