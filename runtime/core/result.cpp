// SPDX-License-Identifier: MIT
#include "vkformer/result.hpp"

namespace vkformer {

Error* Failure::make(Error&& error) { return new Error(std::move(error)); }
void Failure::destroy(Error* error) noexcept { delete error; }

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
