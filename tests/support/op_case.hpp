// SPDX-License-Identifier: MIT
/// One graph, usually of one op, with its operands' contents: runs it on a backend and compares with double precision.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "cases/case.hpp"
#include "graph/builders.hpp"
#include "graph/program.hpp"

namespace vkformer::tests {

/// Usage: make the operands, build the op on `graph`, name the results, check.
///
///     OpCase c;
///     const Value x = c.floats("x", dtype, {rows, width});
///     c.expect(activate(c.graph, x, Activation::relu));
///     c.check(backend);
class OpCase {
public:
    explicit OpCase(std::uint32_t seed = 1) : random_(seed) {}

    graph::Graph graph;
    /// Without the variants for Vulkan devices that are CPUs: for sizes that their compilers take long for.
    bool leaves_out_cpu_devices = false;

    /// An input with random values, uniform in ±magnitude.
    graph::Value floats(const std::string& name, DType dtype, const Shape& shape, float magnitude = 1);
    graph::Value floats(const std::string& name, DType dtype, const Shape& shape, std::vector<float> values);
    graph::Value ints(const std::string& name, const Shape& shape, std::vector<std::int32_t> values);
    /// A state with these contents before the run; it is also a result.
    graph::Value state(const std::string& name, DType dtype, const Shape& shape, std::vector<float> values);
    graph::Value state(const std::string& name, const Shape& shape, std::vector<std::int32_t> values);

    /// Makes the value a result, to be poisoned before the run and compared after it. The second form fails the test case
    /// if the builder did.
    graph::Value expect(graph::Value value);
    graph::Value expect(Result<graph::Value> value);

    /// A whole case in place of what was made so far: its graph, the contents of its operands, its results.
    void take(const cases::Case& which);

    std::vector<float> random_floats(std::size_t count, float magnitude = 1);
    std::vector<std::int32_t> random_ints(std::size_t count, std::int32_t lowest, std::int32_t highest);

    /// Runs on the backend and on the CPU in double precision, and compares every result: floats with the relative error of
    /// the whole tensor against the bounds of its nodes, and every element against a multiple of that; NaN and infinities in
    /// the same places; integers exactly. On a Vulkan device once for every variant that one of the nodes has, of which devices that are
    /// CPUs have their share (has_share()).
    void check(graph::Backend& backend, std::uint32_t runs = 1) const;
    /// One variant of a node of the case, on a Vulkan device, whichever has the share of it.
    void check_variant(graph::Backend& backend, const std::string& variant) const;

    /// Runs every variant on the backend and calls `inspect` with what it made of `result`.
    void each_variant(graph::Backend& backend, graph::Value result,
                      const std::function<void(const std::vector<float>&)>& inspect) const;

    /// Runs on the backend, returns one result.
    std::vector<float> run(graph::Backend& backend, graph::Value result) const;
    std::vector<double> run_doubles(graph::Backend& backend, graph::Value result) const;
    std::vector<std::int32_t> run_ints(graph::Backend& backend, graph::Value result) const;

private:
    using Contents = std::variant<std::vector<float>, std::vector<std::int32_t>>;
    std::unique_ptr<graph::Program> execute(graph::Backend& backend, std::uint32_t runs,
                                            const std::string& variant = {}) const;
    std::set<std::string> variant_names(graph::Backend& backend) const;
    void compare(graph::Program& found, graph::Program& expected, const std::string& where) const;
    static double bound(const graph::Program& program);

    std::mt19937 random_;
    std::map<std::uint32_t, Contents> contents_;  // by tensor id
    std::vector<graph::Value> results_;
};

/// "f32", "f16": what the float ops are tested with.
inline constexpr DType kFloatTypes[] = {DType::f32, DType::f16};

}  // namespace vkformer::tests
