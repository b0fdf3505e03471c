// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace vkformer {

/// The system's, so that no two calls give the same, in this process or another. Where the system gives none (no device for it, or no
/// descriptor), bits that no other process has at this moment. Thread-safe.
std::uint64_t random_bits();

}  // namespace vkformer
