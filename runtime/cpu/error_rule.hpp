// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace vkformer::cpu {

/// How far float32 arithmetic may be from an op's arithmetic in double precision: ‖y − ŷ‖ / ‖ŷ‖ up to (constant + per_root_term · √terms)
/// units of float32, and `roundings16` units of float16 where the result is stored so. A sum of n rounded terms errs by O(√n) units of the
/// size of its terms (the errors of its steps are independent; the worst case, n, is never met by real data); the factor before the root
/// covers the cancellation of a sum of random signs. float16 results come from float32 arithmetic: one rounding at the end, and one for
/// each float16 intermediate.
struct ErrorRule {
    double constant;
    double per_root_term = 0;
    std::uint64_t terms = 0;
    double roundings16 = 1;
};

/// Copies and choices.
inline constexpr ErrorRule kExact{.constant = 0, .roundings16 = 0};

/// Vulkan allows exp() 3 + 2·|x| units in the last place; scores of trained models stay within ±40.
inline constexpr double kExpUnits = 128;

}  // namespace vkformer::cpu
