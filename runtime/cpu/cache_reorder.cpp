// SPDX-License-Identifier: MIT
#include "cpu/cache_reorder.hpp"

#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::CacheReorder& op, const Operands<T>& operands) {
    const auto reorder = [&](auto cache) {
        cache_reorder(operands.ints(op.parents), operands.ints(op.begins), operands.ints(op.lengths), op.beams,
                      cache_dims(op.cache, operands), cache);
    };
    if (operands.dtype(op.cache) == DType::i32)
        reorder(operands.ints(op.cache));
    else
        reorder(operands.floats(op.cache));
}
template void execute(const graph::CacheReorder&, const Operands<float>&);
template void execute(const graph::CacheReorder&, const Operands<double>&);

ErrorRule error_rule(const graph::CacheReorder&, const graph::Graph&) { return kExact; }

}  // namespace vkformer::cpu
