// SPDX-License-Identifier: MIT
#pragma once

#include "vkformer/result.hpp"

namespace vkformer {

/// Whether what failed lacked memory, the device's or the host's: less of it may do, and nothing is at fault.
constexpr bool is_lack_of_memory(ErrorCode code) noexcept {
    return code == ErrorCode::OutOfDeviceMemory || code == ErrorCode::OutOfHostMemory;
}

}  // namespace vkformer
