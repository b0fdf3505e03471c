// SPDX-License-Identifier: MIT
/// Loops over several threads, for the products that no BLAS computes.
#pragma once

#include <cstddef>
#include <memory>

namespace vkformer::cpu {

/// As many as OpenBLAS would use, the calling thread included.
std::size_t parallel_threads();

/// Calls work(first, last, thread) for slices of 0 … count of at most `slice`, each once, on the calling thread (0) and on others
/// (1 … parallel_threads() − 1); returns when all are done. The others are started by the first call and sleep between two. Where they
/// are busy with another call, the calling thread works alone. `work` may not throw. Thread-safe.
void parallel_for(std::size_t count, std::size_t slice,
                  void (*work)(void* context, std::size_t first, std::size_t last, std::size_t thread), void* context);

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
