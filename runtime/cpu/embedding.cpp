// SPDX-License-Identifier: MIT
#include "cpu/embedding.hpp"

#include "cpu/packed_weight.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

// The same with a table of `vocab` packed rows.
void packed_embedding(std::span<const std::int32_t> tokens, const PackedWeight& table, std::size_t vocab, float scale,
                      std::span<float> y) {
    for (std::size_t n = 0; n < tokens.size(); ++n) {
        const std::span<float> row = y.subspan(n * table.in, table.in);
        const bool known = tokens[n] >= 0 && static_cast<std::size_t>(tokens[n]) < vocab;
        if (known) unpack_row(table, static_cast<std::size_t>(tokens[n]), row);
        for (float& value : row) value = known ? scale * value : std::numeric_limits<float>::quiet_NaN();
    }
}

}  // namespace

template <std::floating_point T>
void execute(const graph::Embedding& op, const Operands<T>& operands) {
    if constexpr (std::same_as<T, float>) {
        if (const PackedWeight* table = operands.packed(op.table))
            return packed_embedding(operands.ints(op.tokens), *table, operands.dim(op.table, 0), op.scale,
                                    operands.floats(op.y));
    }
    embedding<T>(operands.ints(op.tokens), operands.floats(op.table), operands.width(op.table),
                 static_cast<T>(op.scale), operands.floats(op.y));
}
template void execute(const graph::Embedding&, const Operands<float>&);
template void execute(const graph::Embedding&, const Operands<double>&);

// block formats: two products and a sum, whose parts may be some times as large as it
ErrorRule error_rule(const graph::Embedding& op, const graph::Graph& graph) {
    return {is_quantized(graph.dtype(op.table)) ? 16.0 : 2.0};
}

}  // namespace vkformer::cpu
