// SPDX-License-Identifier: MIT
#include "validation/bounds.hpp"

#include <cmath>

#include "cpu/twins.hpp"

namespace vkformer::validation {
namespace {

using graph::Graph;
using graph::Rounding;
using graph::Value;

constexpr double kUnit32 = 0x1p-24;  // unit roundoff of float32
constexpr double kUnit16 = 0x1p-11;  // of float16

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

/// A unit of bfloat16 is 2^−8. A weight and its value err by one each, and an error of a score, a sum of products of which each errs by two,
/// is a relative error of its weight; errors are independent, and of many keys little of them is left. As int8.
constexpr double kBfloat = 0x1p-6;

double rounding_of_operands(const Graph& graph, const graph::Op& op, Rounding rounding) {
    const auto* const linear = std::get_if<graph::Linear>(&op);
    const double sums = linear ? linear->factors() : 1;
    if (rounding == Rounding::half_sums) return sums * kHalves;
    if (rounding == Rounding::half_products && linear && is_weight_only(graph.dtype(linear->weight)))
        return sums * kMatrices;
    if (rounding == Rounding::bfloat) return kBfloat;
    // a norm before the product leaves float16
    const double norm = linear && linear->prologue && graph.dtype(linear->x) == DType::f16 ? kUnit16 : 0;
    return sums * (rounding == Rounding::int8 ? norm + kInt8 : norm);
}

}  // namespace

double error_bound(const Graph& graph, const graph::Node& node, Value written, Rounding rounding) {
    const DType dtype = graph.dtype(written);
    if (!is_real(dtype)) return 0;
    if (dtype == DType::q8_0) return std::holds_alternative<graph::CacheAppend>(node.op) ? kCacheStep : 0;
    const cpu::ErrorRule rule = graph::visit_op([&](const auto& op) { return cpu::error_rule(op, graph); }, node.op);
    const double units = rule.constant + rule.per_root_term * std::sqrt(static_cast<double>(rule.terms));
    const double bound = kUnit32 * units + rounding_of_operands(graph, node.op, rounding);
    return dtype == DType::f16 ? bound + rule.roundings16 * kUnit16 : bound;
}

}  // namespace vkformer::validation
