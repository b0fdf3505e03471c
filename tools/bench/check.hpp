// SPDX-License-Identifier: MIT
/// The gate before any timing: is the result right?
#pragma once

#include <memory>
#include <string>

#include "cases/case.hpp"

namespace vkformer::bench {

struct Check {
    double error = 0;     ///< ‖y − ŷ‖ / ‖ŷ‖ of the worst result; of integers, the share of wrong ones
    double bound = 0;     ///< what right arithmetic may give (validation::error_bound)
    std::string failure;  ///< what is wrong, for a person; empty: nothing

    bool right() const noexcept { return failure.empty(); }
};

/// A case computed by the CPU in double precision.
class Oracle {
public:
    /// `builder` holds the graph before planning and the contents of its operands, and outlives this. Errors: those of the program.
    static Result<Oracle> run(const cases::CaseBuilder& builder);

    /// What was found for one of the builder's results, element by element, and by which program: variants that round operands may be
    /// further off. Errors: those of Program::read.
    Result<Check> compare(graph::Value result, std::span<const double> found,
                          const graph::Program* found_by = nullptr) const;
    Result<Check> compare(graph::Value result, std::span<const std::int32_t> found) const;

    /// The worst of the results of a program of the same graph that has run. Errors: those of Program::read.
    Result<Check> compare(graph::Program& program) const;

private:
    Oracle(const cases::CaseBuilder& builder, std::unique_ptr<graph::Program> program);
    const cases::CaseBuilder* builder_;
    std::unique_ptr<graph::Program> program_;
};

/// One result. A single wrong element may not hide in the norm of the others: it is held against the largest element.
Check compare_floats(std::span<const double> found, std::span<const double> expected, double bound);

}  // namespace vkformer::bench
