// SPDX-License-Identifier: MIT
/// The Vulkan devices that the options of models name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vkformer/export.h"
#include "vkformer/result.hpp"

namespace vkformer {

struct DeviceDescription {
    std::uint32_t index = 0;  ///< in the loader's order; as a text, with `uuid` and parts of `name`, what options take
    std::string name{};       ///< as the driver says: "llvmpipe (LLVM 15.0.6, 256 bits)"
    std::string type{};       ///< "discrete", "integrated", "virtual", "cpu", "other"
    std::string driver{};     ///< name and version
    std::string uuid{};       ///< 32 hexadecimal digits
    std::string vulkan{};     ///< version of Vulkan: "1.3.230"
    std::string unusable{};   ///< why no model runs on it; empty: they do
};

/// All of them; the CPU backend ("cpu") is none. Errors: NoVulkanLoader, NoDevice (no driver), Vulkan.
VKFORMER_API Result<std::vector<DeviceDescription>> find_devices();

}  // namespace vkformer
