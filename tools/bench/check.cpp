// SPDX-License-Identifier: MIT
#include "bench/check.hpp"

#include <algorithm>
#include <cmath>

#include "core/try.hpp"
#include "cpu/backend.hpp"
#include "validation/bounds.hpp"

namespace vkformer::bench {
namespace {

using graph::Value;

std::string element_text(std::size_t i, double found, double expected) {
    return "element " + std::to_string(i) + " is " + std::to_string(found) + ", expected " + std::to_string(expected);
}

/// The sum of the bounds of a program's nodes, each with the variant that ran: what a chain of them may give.
double bound_of(const graph::Program& program) {
    const graph::Graph& graph = program.plan().graph;
    double sum = 0;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
        const graph::Node& node = graph.nodes()[i];
        double worst = 0;
        graph::for_each_operand(node.op, [&](std::string_view, Value value, graph::Access access) {
            if (access == graph::Access::read) return;
            worst = std::max(worst, validation::error_bound(graph, node, value, program.rounding(i)));
        });
        sum += worst;
    }
    return sum;
}

Check compare_integers(std::span<const std::int32_t> found, std::span<const std::int32_t> expected) {
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = found.size(); i-- > 0;)
        if (found[i] != expected[i]) wrong += 1, first = i;
    if (wrong == 0) return {};
    return {.error = static_cast<double>(wrong) / static_cast<double>(found.size()),
            .failure = element_text(first, found[first], expected[first])};
}

template <class T>
Result<std::vector<T>> read(graph::Program& program, const graph::Graph& graph, Value value) {
    std::vector<T> values(graph.shape(value).element_count());
    VKFORMER_CHECK(program.read(value, std::span<T>(values)));
    return values;
}

}  // namespace

Check compare_floats(std::span<const double> found, std::span<const double> expected, double bound) {
    Check check{.bound = bound};
    double difference_squares = 0, squares = 0, largest = 0, worst = 0;
    std::size_t worst_at = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (!std::isfinite(found[i]) || !std::isfinite(expected[i])) {
            const bool same = std::isnan(expected[i]) ? std::isnan(found[i]) : found[i] == expected[i];
            if (same) continue;
            check.error = std::numeric_limits<double>::infinity();
            check.failure = element_text(i, found[i], expected[i]);
            return check;
        }
        const double difference = std::abs(found[i] - expected[i]);
        difference_squares += difference * difference;
        squares += expected[i] * expected[i];
        largest = std::max(largest, std::abs(expected[i]));
        if (difference > worst) worst = difference, worst_at = i;
    }
    if (difference_squares == 0) return check;
    check.error = std::sqrt(difference_squares / squares);
    // 8: rounding errors of single elements spread around the mean error that the norm shows
    if (!(check.error <= bound) || worst > 8 * bound * largest)
        check.failure = element_text(worst_at, found[worst_at], expected[worst_at]);
    return check;
}

Oracle::Oracle(const cases::CaseBuilder& builder, std::unique_ptr<graph::Program> program)
    : builder_(&builder), program_(std::move(program)) {}

Result<Oracle> Oracle::run(const cases::CaseBuilder& builder) {
    const auto backend = cpu::make_cpu_backend<double>();
    VKFORMER_TRY(auto program, backend->compile(graph::make_plan(builder.graph, {.fuse = false}), backend->make_store(),
                                                backend->make_store()));
    VKFORMER_CHECK(builder.feed(*program));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    return Oracle(builder, std::move(program));
}

Result<Check> Oracle::compare(Value result, std::span<const double> found, const graph::Program* found_by) const {
    VKFORMER_TRY(const auto expected, read<double>(*program_, builder_->graph, result));
    return compare_floats(found, expected, bound_of(found_by ? *found_by : *program_));
}

Result<Check> Oracle::compare(Value result, std::span<const std::int32_t> found) const {
    VKFORMER_TRY(const auto expected, read<std::int32_t>(*program_, builder_->graph, result));
    return compare_integers(found, expected);
}

Result<Check> Oracle::compare(graph::Program& program) const {
    const graph::Graph& graph = builder_->graph;
    const auto compare_one = [&](Value value) -> Result<Check> {
        if (graph.dtype(value) == DType::i32) {
            VKFORMER_TRY(const auto found, read<std::int32_t>(program, graph, value));
            return compare(value, found);
        }
        VKFORMER_TRY(const auto found, read<double>(program, graph, value));
        return compare(value, found, &program);
    };
    Check worst;
    for (const Value value : builder_->results()) {
        VKFORMER_TRY(Check check, compare_one(value));
        if (!check.right()) {
            check.failure = graph.tensor(value).name + ": " + check.failure;
            return check;
        }
        if (check.error >= worst.error) worst = check;
    }
    return worst;
}

}  // namespace vkformer::bench
