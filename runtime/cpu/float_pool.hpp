// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>

#include "core/platform/system.hpp"

namespace vkformer::cpu {

/// `count` numbers that nothing has been written to, from the beginning of a cache line on. Many lie on large pages where the system has
/// them: what reads weights and caches from front to back would wait for the addresses of small ones. Throws std::bad_alloc.
template <std::floating_point T>
std::shared_ptr<T[]> aligned_floats(std::size_t count) {
    constexpr std::size_t kLargePage = std::size_t{2} << 20;
    const std::size_t size = count * sizeof(T);
    const bool is_large = size >= 2 * kLargePage;  // of less too much would be lost at the end of the last page
    const auto alignment = static_cast<std::align_val_t>(is_large ? kLargePage : 64);
    void* const bytes = ::operator new[](size, alignment);
    if (is_large) platform::prefer_large_pages(bytes, size);
    return {new (bytes) T[count], [alignment](T* floats) { ::operator delete[](floats, alignment); }};
}

/// The floats of tensors that live as long as each other, side by side: few of a model's weights would fill a large page alone.
/// Each block is as large as all before it, so that at most half of the memory is not used, and no page of that half is touched.
template <std::floating_point T>
class FloatPool {
public:
    /// As aligned_floats(). What is returned keeps its whole block. Throws std::bad_alloc.
    std::shared_ptr<T[]> floats(std::size_t count) {
        const std::size_t size = (count + kLine - 1) / kLine * kLine;
        if (size > left_) {
            const std::size_t block = std::max(size, std::min(taken_, kMostBlock));
            block_ = aligned_floats<T>(block);
            next_ = block_.get();
            left_ = block;
        }
        const std::shared_ptr<T[]> result(block_, next_);
        next_ += size;
        left_ -= size;
        taken_ += size;
        return result;
    }

private:
    static constexpr std::size_t kLine = 64 / sizeof(T), kMostBlock = (std::size_t{64} << 20) / sizeof(T);
    std::shared_ptr<T[]> block_;  // the last one
    T* next_ = nullptr;
    std::size_t left_ = 0, taken_ = 0;
};

}  // namespace vkformer::cpu
