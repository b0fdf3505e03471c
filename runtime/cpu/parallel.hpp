// SPDX-License-Identifier: MIT
/// Loops over several threads, for the products that no BLAS computes.
#pragma once

#include <cstddef>
#include <memory>

namespace vkformer::cpu {

/// Calls work(first, last) for slices of 0 … count of at most `slice`, each once, on the calling thread and on as many others as
/// OpenBLAS would use; returns when all are done. The others are started by the first call and sleep between two. Where they are busy with
/// another call, the calling thread works alone. `work` may not throw. Thread-safe.
void parallel_for(std::size_t count, std::size_t slice,
                  void (*work)(void* context, std::size_t first, std::size_t last), void* context);

template <class Work>
void parallel_for(std::size_t count, std::size_t slice, Work&& work) {
    using Function = std::remove_reference_t<Work>;
    parallel_for(
        count, slice,
        [](void* context, std::size_t first, std::size_t last) { (*static_cast<Function*>(context))(first, last); },
        const_cast<void*>(static_cast<const void*>(std::addressof(work))));
}

}  // namespace vkformer::cpu
