// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace vkformer::cpu {

struct ReleaseAligned {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t(64)); }
};

/// Memory that begins with a cache line: no vector lies across two of them.
using AlignedBytes = std::unique_ptr<std::byte[], ReleaseAligned>;

/// Throws std::bad_alloc.
inline AlignedBytes aligned_bytes(std::size_t count) {
    return AlignedBytes(new (std::align_val_t(64)) std::byte[count]);
}

}  // namespace vkformer::cpu
