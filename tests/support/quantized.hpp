// SPDX-License-Identifier: MIT
#pragma once

#include <array>

#include "core/dtype.hpp"

namespace vkformer::tests {

inline constexpr std::array kBlockFormats = {DType::q8_0, DType::q4_0, DType::q4_k, DType::q5_k, DType::q6_k};

}  // namespace vkformer::tests
