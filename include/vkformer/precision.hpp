// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace vkformer {

/// How a model's numbers are stored on the device.
enum class Precision : std::uint8_t {
    f32,  ///< weights, activations and caches stored as float32
    f16,  ///< stored as float16; every sum is still formed in float32
};

}  // namespace vkformer
