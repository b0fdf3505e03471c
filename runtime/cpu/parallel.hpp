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

/// Items of a slice that is worth a thread's attention, some 20 µs, where each is so many multiplications.
constexpr std::size_t slice_of(std::size_t products) {
    return std::max<std::size_t>(1, (std::size_t{1} << 17) / std::max<std::size_t>(1, products));
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
