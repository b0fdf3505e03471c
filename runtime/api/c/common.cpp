// SPDX-License-Identifier: MIT
#include "api/c/common.hpp"

#include "text/unicode.hpp"

namespace vkformer::c {
namespace {

/// The last error of this thread. A plain array: it needs neither construction nor destruction.
struct LastError {
    char message[4096];  // what names all kinds of models that there are takes a thousand
    VkResult vk;
};
thread_local LastError last_error{};

vkf_result code_of(ErrorCode code) noexcept {
    switch (code) {
    case ErrorCode::InvalidArgument: return VKF_ERROR_INVALID_ARGUMENT;
    case ErrorCode::ShapeMismatch: return VKF_ERROR_SHAPE_MISMATCH;
    case ErrorCode::UnsupportedDtype: return VKF_ERROR_UNSUPPORTED_DTYPE;
    case ErrorCode::UnsupportedConfig: return VKF_ERROR_UNSUPPORTED_CONFIG;
    case ErrorCode::FileNotFound: return VKF_ERROR_FILE_NOT_FOUND;
    case ErrorCode::CorruptFile: return VKF_ERROR_CORRUPT_FILE;
    case ErrorCode::MissingTensor: return VKF_ERROR_MISSING_TENSOR;
    case ErrorCode::NoVulkanLoader: return VKF_ERROR_NO_VULKAN_LOADER;
    case ErrorCode::NoDevice: return VKF_ERROR_NO_DEVICE;
    case ErrorCode::MissingFeature: return VKF_ERROR_MISSING_FEATURE;
    case ErrorCode::OutOfHostMemory: return VKF_ERROR_OUT_OF_HOST_MEMORY;
    case ErrorCode::OutOfDeviceMemory: return VKF_ERROR_OUT_OF_DEVICE_MEMORY;
    case ErrorCode::DeviceLost: return VKF_ERROR_DEVICE_LOST;
    case ErrorCode::Vulkan: return VKF_ERROR_VULKAN;
    case ErrorCode::NotANumber: return VKF_ERROR_NOT_A_NUMBER;
    case ErrorCode::Cancelled: return VKF_ERROR_CANCELLED;
    }
    return VKF_ERROR_UNKNOWN;
}

/// The length of the text's first characters that take at most so many bytes: UTF-8 is not cut within a character.
std::size_t whole_characters(std::string_view text, std::size_t most) noexcept {
    std::size_t length = std::min(text.size(), most);
    while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0u) == 0x80u) --length;
    return length;
}

void remember(std::string_view message, VkResult vk) noexcept {
    const std::size_t length = whole_characters(message, sizeof(last_error.message) - 1);
    std::copy_n(message.begin(), length, last_error.message);
    last_error.message[length] = '\0';
    if (!text::is_utf8(last_error.message))  // a path or a name that the caller gave
        for (char& byte : last_error.message)
            if (static_cast<unsigned char>(byte) >= 0x80u) byte = '?';
    last_error.vk = vk;
}

}  // namespace

vkf_result fail(const Error& error) noexcept {
    const vkf_result code = code_of(error.code);
    remember(error.message.empty() ? vkf_result_string(code) : std::string_view(error.message),
             static_cast<VkResult>(error.vk));
    return code;
}

vkf_result invalid(const char* message) noexcept {
    remember(message, VK_SUCCESS);
    return VKF_ERROR_INVALID_ARGUMENT;
}

vkf_result fail_by_exception() noexcept {
    try {
        throw;
    } catch (const std::bad_alloc&) {
        return fail({ErrorCode::OutOfHostMemory, {}});
    } catch (const std::exception& e) {
        remember(e.what(), VK_SUCCESS);
    } catch (...) {
        remember(vkf_result_string(VKF_ERROR_UNKNOWN), VK_SUCCESS);
    }
    return VKF_ERROR_UNKNOWN;
}

namespace {

/// What the caller's struct says of itself.
struct GivenSize {
    explicit GivenSize(const void* given) noexcept { std::memcpy(&bytes, given, sizeof(bytes)); }

    /// No version has one that is larger.
    bool is_one() const noexcept { return bytes >= sizeof(bytes) && bytes <= 4096; }
    std::string refusal(const char* name) const {
        return std::string(name) + "::struct_size is " + std::to_string(bytes) + "; begin with the _INIT macro";
    }

    std::uint32_t bytes = 0;
};

}  // namespace

Result<void> read_members(const void* given, void* defaults, std::size_t size, const char* name) {
    if (!given) return {};
    const GivenSize own(given);
    if (!own.is_one()) return Error{ErrorCode::InvalidArgument, own.refusal(name)};
    const std::size_t known = std::min<std::size_t>(own.bytes, size);
    const auto unknown = std::span(static_cast<const std::byte*>(given), own.bytes).subspan(known);
    if (std::ranges::any_of(unknown, [](std::byte b) { return b != std::byte{0}; }))
        return Error{ErrorCode::InvalidArgument,
                     std::string(name) + " has members that this version of vkformer does not know"};
    std::memcpy(defaults, given, known);
    return {};
}

Result<void> check_target(const void* target, const char* name) {
    if (!target) return Error{ErrorCode::InvalidArgument, std::string(name) + " is null"};
    if (const GivenSize own(target); !own.is_one()) return Error{ErrorCode::InvalidArgument, own.refusal(name)};
    return {};
}

vkf_result write_members(void* target, const void* value, std::size_t size, const char* name) {
    if (const auto checked = check_target(target, name); !checked) return fail(checked.error());
    const GivenSize own(target);
    const std::size_t known = std::min<std::size_t>(own.bytes, size) - sizeof(own.bytes);
    std::memcpy(static_cast<std::byte*>(target) + sizeof(own.bytes),
                static_cast<const std::byte*>(value) + sizeof(own.bytes), known);
    return VKF_SUCCESS;
}

void Arguments::refuse(std::string_view name, std::string_view why) {
    if (refused_.empty()) refused_.append(name).append(why);
}

std::string Arguments::text(const char* text, std::string_view name) {
    if (!text || !text::is_utf8(text)) {
        refuse(name, text ? " is not UTF-8" : " is null");
        return {};
    }
    return text;
}

std::string Arguments::optional_text(const char* text, std::string_view name) {
    return this->text(text ? text : "", name);
}

std::size_t Arguments::nothing(std::size_t count, std::string_view name) {
    if (count > 0) refuse(name, " is null, and its count is not 0");
    return 0;
}

Result<void> Arguments::check() const {
    if (refused_.empty()) return {};
    return Error{ErrorCode::InvalidArgument, refused_};
}

vkf_result write_text(std::string_view text, std::size_t* bytes, char* target) {
    if (!bytes) return invalid("the number of bytes is required");
    if (!target) {
        *bytes = text.size() + 1;
        return VKF_SUCCESS;
    }
    if (*bytes == 0) return VKF_INCOMPLETE;
    const std::size_t length = whole_characters(text, *bytes - 1);
    std::copy_n(text.begin(), length, target);
    target[length] = '\0';
    *bytes = length + 1;
    return length < text.size() ? VKF_INCOMPLETE : VKF_SUCCESS;
}

}  // namespace vkformer::c

using namespace vkformer;

const char* vkf_result_string(vkf_result result) {
    switch (result) {
    case VKF_SUCCESS: return "VKF_SUCCESS";
    case VKF_NOT_READY: return "VKF_NOT_READY";
    case VKF_TIMEOUT: return "VKF_TIMEOUT";
    case VKF_INCOMPLETE: return "VKF_INCOMPLETE";
    case VKF_ERROR_INVALID_ARGUMENT: return "VKF_ERROR_INVALID_ARGUMENT";
    case VKF_ERROR_SHAPE_MISMATCH: return "VKF_ERROR_SHAPE_MISMATCH";
    case VKF_ERROR_UNSUPPORTED_DTYPE: return "VKF_ERROR_UNSUPPORTED_DTYPE";
    case VKF_ERROR_UNSUPPORTED_CONFIG: return "VKF_ERROR_UNSUPPORTED_CONFIG";
    case VKF_ERROR_FILE_NOT_FOUND: return "VKF_ERROR_FILE_NOT_FOUND";
    case VKF_ERROR_CORRUPT_FILE: return "VKF_ERROR_CORRUPT_FILE";
    case VKF_ERROR_MISSING_TENSOR: return "VKF_ERROR_MISSING_TENSOR";
    case VKF_ERROR_NO_VULKAN_LOADER: return "VKF_ERROR_NO_VULKAN_LOADER";
    case VKF_ERROR_NO_DEVICE: return "VKF_ERROR_NO_DEVICE";
    case VKF_ERROR_MISSING_FEATURE: return "VKF_ERROR_MISSING_FEATURE";
    case VKF_ERROR_OUT_OF_HOST_MEMORY: return "VKF_ERROR_OUT_OF_HOST_MEMORY";
    case VKF_ERROR_OUT_OF_DEVICE_MEMORY: return "VKF_ERROR_OUT_OF_DEVICE_MEMORY";
    case VKF_ERROR_DEVICE_LOST: return "VKF_ERROR_DEVICE_LOST";
    case VKF_ERROR_NOT_A_NUMBER: return "VKF_ERROR_NOT_A_NUMBER";
    case VKF_ERROR_VULKAN: return "VKF_ERROR_VULKAN";
    case VKF_ERROR_UNKNOWN: return "VKF_ERROR_UNKNOWN";
    case VKF_ERROR_CANCELLED: return "VKF_ERROR_CANCELLED";
    case VKF_RESULT_MAX_ENUM: break;
    }
    return "VKF_RESULT_?";
}

const char* vkf_error_message(void) { return c::last_error.message; }
VkResult vkf_error_vk_result(void) { return c::last_error.vk; }

uint32_t vkf_version(void) {
    return VK_MAKE_API_VERSION(0, VKFORMER_VERSION_MAJOR, VKFORMER_VERSION_MINOR, VKFORMER_VERSION_PATCH);
}
