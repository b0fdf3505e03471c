// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

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

/// The same for what has several owners: `count` numbers that nothing has been written to.
template <std::floating_point T>
std::shared_ptr<T[]> aligned_floats(std::size_t count) {
    std::shared_ptr<std::byte[]> bytes = aligned_bytes(count * sizeof(T));
    T* const first = new (bytes.get()) T[count];
    return {std::move(bytes), first};
}

}  // namespace vkformer::cpu
