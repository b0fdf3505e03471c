// SPDX-License-Identifier: MIT
#include "validation/bounds.hpp"

#include <algorithm>
#include <cmath>

namespace vkformer::validation {
namespace {

using graph::Graph;
using graph::Rounding;
using graph::Value;

constexpr double kUnit32 = 0x1p-24;  // unit roundoff of float32
constexpr double kUnit16 = 0x1p-11;  // of float16

/// bound = kUnit32 · (constant + per_root_term · √terms), and `roundings16` · kUnit16 where the result is stored in float16.
/// A sum of n rounded terms errs by O(√n) units of the size of its terms (the errors of its steps are independent; the worst
/// case, n, is never met by real data); the factor before the root covers the cancellation of a sum of random signs.
/// float16 results come from float32 arithmetic: one rounding at the end, and one for each float16 intermediate.
struct Rule {
    double constant, per_root_term;
    double terms;
    double roundings16 = 1;
};

/// Vulkan allows exp() 3 + 2·|x| units in the last place; scores of trained models stay within ±40.
constexpr double kExp = 128;

double back(const Graph& graph, Value value) { return static_cast<double>(graph.shape(value).back()); }
double keys(const Graph& graph, Value key) { return static_cast<double>(graph.shape(key)[1]); }

struct Rules {
    const Graph& graph;

    // of a block format: two products and a sum, whose parts may be some times as large as it
    Rule operator()(const graph::Embedding& op) const {
        return {is_quantized(graph.dtype(op.table)) ? 16.0 : 2.0, 0, 0};
    }
    Rule operator()(const graph::PositionalEmbedding&) const { return {2, 0, 0}; }
    Rule operator()(const graph::Patchify&) const { return {0, 0, 0}; }  // a copy, which float16 rounds
    Rule operator()(const graph::Linear& op) const {
        // GELU and SiLU: erf, tanh and exp in float32, good to some units of the largest value
        const double constant = op.is_gated() || op.epilogue.activation != graph::Activation::none ? 32 : 8;
        // x as RmsNorm gives it
        const Rule sum =
            op.prologue ? Rule{constant + 16, 16, back(graph, op.x)} : Rule{constant, 8, back(graph, op.x)};
        // a gate multiplies two sums
        return op.is_gated() ? Rule{sum.constant + 2, 2 * sum.per_root_term, sum.terms} : sum;
    }
    Rule operator()(const graph::Activate&) const { return {32, 0, 0}; }
    Rule operator()(const graph::RelativeBias&) const { return {1, 0, 0}; }
    Rule operator()(const graph::SoftCap&) const { return {32, 0, 0}; }
    Rule operator()(const graph::Add&) const { return {2, 0, 0}; }
    // float16: a fused sum may be normalised before or after it is rounded
    Rule operator()(const graph::LayerNorm& op) const { return {16, 8, back(graph, op.x), 3}; }
    Rule operator()(const graph::RmsNorm& op) const { return {16, 8, back(graph, op.x), 3}; }
    Rule operator()(const graph::Rope&) const { return {4, 0, 0}; }              // a turn: two products and their sum
    Rule operator()(const graph::GatedActivation&) const { return {34, 0, 0}; }  // an activation and a product
    Rule operator()(const graph::AttentionScores& op) const {
        return {op.soft_cap == 0 ? 8.0 : 40.0, 8, back(graph, op.query)};
    }
    // every term has the rounding of its sum and the error of its tanh, a few units of 1
    Rule operator()(const graph::AdditiveScores& op) const { return {32, 16, back(graph, op.query)}; }
    // the Gaussian's exponent, at most 2, moves by its slope at the edge, 4 / half_width, times the rounding of the centre
    Rule operator()(const graph::LocalSoftmax& op) const {
        const double centre = op.window.relative ? 4 * back(graph, op.scores) / op.window.half_width : 0;
        return {2 * kExp + centre, 4, back(graph, op.scores)};
    }
    Rule operator()(const graph::MaskedSoftmax& op) const { return {kExp, 4, back(graph, op.scores)}; }
    Rule operator()(const graph::WeightedSum& op) const { return {8, 8, back(graph, op.weights)}; }
    // an error of the scores is a relative error of the weights
    Rule operator()(const graph::Attention& op) const {
        return {2 * kExp, 16, std::max(back(graph, op.query), keys(graph, op.key))};
    }
    // and the splits are put together
    Rule operator()(const graph::DecodeAttention& op) const {
        return {3 * kExp, 16, std::max(back(graph, op.query), keys(graph, op.key))};
    }
    // Gates saturate, so that an error of a state does not grow from step to step by more than the product with W does: it
    // adds up like the rounding of as many sums as there are steps.
    Rule operator()(const graph::RecurrentLayer& op) const {
        const double steps = static_cast<double>(graph.shape(op.gates)[1]);
        return {64, 16, steps * back(graph, op.weight) / gates_of(op.unit)};
    }
    // five sigmoids and tanhs of sums of two or three terms, each good to some units of 1
    Rule operator()(const graph::RecurrentCell&) const { return {64, 0, 0}; }
    Rule operator()(const graph::Pool& op) const {
        return {8, 8, static_cast<double>(graph.shape(op.x)[1])};  // a sum over the tokens
    }
    Rule operator()(const graph::LogSoftmax& op) const { return {kExp, 4, back(graph, op.x)}; }
    Rule operator()(const graph::BeamStep&) const { return {16, 0, 0}; }  // of its scores; see error_bound for the rest
    // copies and choices
    Rule operator()(const graph::Concat&) const { return {0, 0, 0, 0}; }
    Rule operator()(const graph::CacheAppend&) const { return {0, 0, 0, 0}; }
    Rule operator()(const graph::SplitQkv& op) const {  // as Rope, and RmsNorm before it
        return op.query_gain ? Rule{20, 8, back(graph, op.qkv), 3} : Rule{4, 0, 0};
    }
    Rule operator()(const graph::CacheReorder&) const { return {0, 0, 0, 0}; }
    Rule operator()(const graph::ArgMax&) const { return {0, 0, 0, 0}; }
    Rule operator()(const graph::TopK&) const { return {0, 0, 0, 0}; }
    // a softmax as LogSoftmax has it, and a sum of its largest
    Rule operator()(const graph::RouteTopK& op) const { return {2 * kExp, 4, back(graph, op.x)}; }
    Rule operator()(const graph::Sample&) const { return {0, 0, 0, 0}; }
    Rule operator()(const graph::MaskLogits&) const { return {0, 0, 0, 0}; }
    Rule operator()(const graph::MaskTimestamps&) const { return {0, 0, 0, 0}; }
    Rule operator()(const graph::CountTokens&) const { return {0, 0, 0, 0}; }
    Rule operator()(const graph::Penalize&) const { return {8, 0, 0}; }  // four steps, one a quotient of 2.5 units
    Rule operator()(const graph::BiasSequences& op) const {
        return {8, 4, static_cast<double>(graph.shape(op.phrases)[0])};  // all phrases may end alike
    }
    Rule operator()(const graph::GreedyStep&) const { return {0, 0, 0, 0}; }
};

/// Activations rounded to 8 bits, sixteen (on the CPU 32) with a scale of max |x| / 127: a step errs by 1 / √12 of itself, so normal
/// values, whose largest of 16 is 1.8 (of 32 2.1) standard deviations, by 1.8 / 127 / √12 = 0.0041 (0.0047) of their norm, and as much
/// of the norm of a product with weights that are independent of them. The bound leaves room for values that spread wider and products that cancel.
constexpr double kInt8 = 0x1p-6;

/// A value half-way between two steps of a q8_0 cache may become either: a step is 1 / 127 of the largest of 32, some 2.5 standard
/// deviations. The bound is what one value in 25 on the wrong side gives, or a single one in a block; rounding down, not to the nearest,
/// would give 2.5 times as much.
constexpr double kCacheStep = 0x1p-8;

/// Sums of 1 to 8 products are rounded to float16: (1 + … + 8) / 8 units of products of one sign, and less of those whose errors are
/// independent.
constexpr double kHalves = 4.5 * kUnit16;

/// Weights of their own format, and float32 activations, are rounded to float16 for cooperative matrices: each product errs by two units.
constexpr double kMatrices = 2 * kUnit16;

double rounding_of_operands(const Graph& graph, const graph::Op& op, Rounding rounding) {
    const auto* const linear = std::get_if<graph::Linear>(&op);
    const double sums = linear && linear->is_gated() ? 2 : 1;
    if (rounding == Rounding::half_sums) return sums * kHalves;
    if (rounding == Rounding::half_products && linear && is_weight_only(graph.dtype(linear->weight)))
        return sums * kMatrices;
    // a norm before the product leaves float16
    const double norm = linear && linear->prologue && graph.dtype(linear->x) == DType::f16 ? kUnit16 : 0;
    return sums * (rounding == Rounding::int8 ? norm + kInt8 : norm);
}

}  // namespace

double error_bound(const Graph& graph, const graph::Node& node, Value written, Rounding rounding) {
    const DType dtype = graph.dtype(written);
    if (!is_real(dtype)) return 0;
    if (dtype == DType::q8_0) return std::holds_alternative<graph::CacheAppend>(node.op) ? kCacheStep : 0;
    const Rule rule = std::visit(Rules{graph}, node.op);
    const double bound = kUnit32 * (rule.constant + rule.per_root_term * std::sqrt(rule.terms)) +
                         rounding_of_operands(graph, node.op, rounding);
    return dtype == DType::f16 ? bound + rule.roundings16 * kUnit16 : bound;
}

}  // namespace vkformer::validation
