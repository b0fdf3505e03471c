// SPDX-License-Identifier: MIT
/// What an ARM processor has beyond what all of its architecture have; false on others. (x86's tell by instructions of their own.)
#pragma once

namespace vkformer::platform {

/// FEAT_DotProd: sums of four products of bytes.
bool has_arm_dot_products() noexcept;
/// FEAT_I8MM: products of matrices of bytes.
bool has_arm_int8_matrices() noexcept;

}  // namespace vkformer::platform
