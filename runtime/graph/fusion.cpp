// SPDX-License-Identifier: MIT
#include "graph/fusion.hpp"

namespace vkformer::graph {
namespace {

using enum Extra;

std::uint32_t extras(const Graph& graph, const Linear& op) {
    std::uint32_t bits = 0;
    if (op.epilogue.activation != Activation::none) bits |= bits_of(activation);
    if (op.epilogue.end == Epilogue::End::residual) bits |= bits_of(residual);
    if (op.is_gated()) bits |= bits_of(gate);
    if (op.prologue) bits |= bits_of(rms_norm);
    if (graph.shape(op.weight).rank() == 3) bits |= bits_of(batch);
    return bits;
}

template <class Op>
std::uint32_t extras(const Graph&, const Op& op) {
    if constexpr (requires { op.residual; })
        return op.residual ? bits_of(residual) : 0;
    else
        return 0;
}

class Stepwise final : public FusionRules {
public:
    bool takes(const Graph& graph, const Op& fused) const override {
        const std::uint32_t has = extras_of(graph, fused);
        if ((has & bits_of(batch)) != 0 && (has & bits_of(gate, rms_norm)) != 0) return false;
        if ((has & bits_of(rms_norm)) == 0) return true;
        return (has & bits_of(residual)) == 0 && graph.shape(std::get<Linear>(fused).x).row_count() <= kFewRows;
    }
};

}  // namespace

std::uint32_t extras_of(const Graph& graph, const Op& op) {
    return visit_op([&](const auto& o) { return extras(graph, o); }, op);
}

const FusionRules& stepwise_fusions() {
    static const Stepwise rules;
    return rules;
}

}  // namespace vkformer::graph
