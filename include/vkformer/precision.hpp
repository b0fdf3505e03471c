// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace vkformer {

/// How a model's numbers are stored on the device: activations, caches, and weights where WeightStorage does not say otherwise.
enum class Precision : std::uint8_t {
    f32,  ///< as float32
    f16,  ///< as float16; every sum is still formed in float32
};

}  // namespace vkformer
