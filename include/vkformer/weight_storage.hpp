// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace vkformer {

/// How a model's matrices are stored on the device.
enum class WeightStorage : std::uint8_t {
    model,  ///< as the file has them where shaders read that: float16, bfloat16, block formats; else in the precision
    precision,  ///< converted to the precision of the activations
};

}  // namespace vkformer
