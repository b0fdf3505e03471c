// SPDX-License-Identifier: MIT
#include "graph/ops.hpp"

namespace vkformer::graph {
namespace {

template <class V>
OperandList<V> list_operands(auto& op) noexcept {
    OperandList<V> list;
    visit_op(
        [&](auto& one) {
            one.operands(one, [&](std::string_view name, V& value, Access access) { list.add(name, value, access); });
        },
        op);
    return list;
}

}  // namespace

OperandList<const Value> operands_of(const Op& op) noexcept { return list_operands<const Value>(op); }
OperandList<Value> operands_of(Op& op) noexcept { return list_operands<Value>(op); }

}  // namespace vkformer::graph
