// SPDX-License-Identifier: MIT
#include "cpu/cache_append.hpp"

#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::CacheAppend& op, const Operands<T>& operands) {
    const auto append = [&](auto x, auto cache, auto&& store) {
        cache_append(std::span<const typename decltype(x)::value_type>(x), operands.ints(op.starts),
                     operands.dim(op.x, 1), cache_dims(op.cache, operands).width,
                     cache_places(op.cache, op.pages, operands), cache, store);
    };
    const auto as_it_is = [](auto) {};
    if (operands.dtype(op.cache) == DType::i32)
        append(operands.ints(op.x), operands.ints(op.cache), as_it_is);
    else if (operands.dtype(op.cache) == DType::q8_0)
        append(operands.floats(op.x), operands.floats(op.cache), round_to_q8_0<T>);
    else if (operands.rounds_to_bfloats(op.cache))
        append(operands.floats(op.x), operands.floats(op.cache), round_to_bfloats<T>);
    else
        append(operands.floats(op.x), operands.floats(op.cache), as_it_is);
}
template void execute(const graph::CacheAppend&, const Operands<float>&);
template void execute(const graph::CacheAppend&, const Operands<double>&);

ErrorRule error_rule(const graph::CacheAppend&, const graph::Graph&) { return kExact; }

}  // namespace vkformer::cpu
