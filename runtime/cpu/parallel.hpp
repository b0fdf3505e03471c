// SPDX-License-Identifier: MIT
/// Loops over several threads, for what no BLAS computes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

namespace vkformer::cpu {

/// As many as OpenBLAS would use, the calling thread included.
std::size_t parallel_threads();

/// Calls work(first, last, thread) for slices of 0 … count of at most `slice`, each once, on the calling thread (0) and on others
/// (1 … parallel_threads() − 1); returns when all are done. The others are started by the first call and sleep between two. Where they
/// are busy with another call, the calling thread works alone. What `work` throws is thrown again here, and some slices are left out then.
/// Thread-safe.
void parallel_for(std::size_t count, std::size_t slice,
                  void (*work)(void* context, std::size_t first, std::size_t last, std::size_t thread), void* context);

/// Items of a slice where each is so many multiplications: some 2 µs of them, so that threads end at the same time; all of them, which
/// is the calling thread's work alone, where waking another one would take longer.
constexpr std::size_t slice_of(std::size_t count, std::size_t products) {
    constexpr std::size_t kSlice = std::size_t{1} << 15, kLeast = 2 * kSlice;
    products = std::max<std::size_t>(1, products);
    return count * products < kLeast ? std::max<std::size_t>(1, count) : std::max<std::size_t>(1, kSlice / products);
}

template <class Work>
void parallel_for(std::size_t count, std::size_t slice, Work&& work) {
    using Function = std::remove_reference_t<Work>;
    parallel_for(
        count, slice,
        [](void* context, std::size_t first, std::size_t last, std::size_t thread) {
            (*static_cast<Function*>(context))(first, last, thread);
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(work))));
}

}  // namespace vkformer::cpu
