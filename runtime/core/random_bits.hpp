// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace vkformer {

/// The system's. Where it gives none (no device for it, or no descriptor): of the time, the process and a counter, mixed. Thread-safe.
std::uint64_t random_bits();

}  // namespace vkformer
