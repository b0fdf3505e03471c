// SPDX-License-Identifier: MIT
#include "support/op_case.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>

#include "cpu/backend.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "validation/bounds.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::tests {

using graph::Value;

Value OpCase::floats(const std::string& name, DType dtype, const Shape& shape, float magnitude) {
    return floats(name, dtype, shape, random_floats(shape.element_count(), magnitude));
}

Value OpCase::floats(const std::string& name, DType dtype, const Shape& shape, std::vector<float> values) {
    auto value = graph.input(name, dtype, shape);
    REQUIRE(value);
    REQUIRE(values.size() == shape.element_count());
    contents_[value->id] = std::move(values);
    return *value;
}

Value OpCase::ints(const std::string& name, const Shape& shape, std::vector<std::int32_t> values) {
    auto value = graph.input(name, DType::i32, shape);
    REQUIRE(value);
    REQUIRE(values.size() == shape.element_count());
    contents_[value->id] = std::move(values);
    return *value;
}

Value OpCase::state(const std::string& name, DType dtype, const Shape& shape, std::vector<float> values) {
    auto value = graph.state(name, dtype, shape);
    REQUIRE(value);
    REQUIRE(values.size() == shape.element_count());
    contents_[value->id] = std::move(values);
    results_.push_back(*value);
    return *value;
}

Value OpCase::state(const std::string& name, const Shape& shape, std::vector<std::int32_t> values) {
    auto value = graph.state(name, DType::i32, shape);
    REQUIRE(value);
    REQUIRE(values.size() == shape.element_count());
    contents_[value->id] = std::move(values);
    results_.push_back(*value);
    return *value;
}

Value OpCase::expect(Value value) {
    graph.mark_output(value);
    results_.push_back(value);
    return value;
}

Value OpCase::expect(Result<Value> value) {
    if (!value) FAIL(value.error().message);
    return expect(*value);
}

void OpCase::take(const cases::Case& which) {
    cases::CaseBuilder builder;
    const auto built = which.build(builder);
    if (!built) FAIL(which.name() << ": " << built.error().message);
    contents_.clear();
    for (const auto& [id, values] : builder.contents())
        std::visit([&, tensor = id](const auto& v) { contents_[tensor] = *v; }, values);
    results_.assign(builder.results().begin(), builder.results().end());
    graph = std::move(builder.graph);
}

std::vector<float> OpCase::random_floats(std::size_t count, float magnitude) {
    std::uniform_real_distribution<float> distribution(-magnitude, magnitude);
    std::vector<float> values(count);
    for (float& value : values) value = distribution(random_);
    return values;
}

std::vector<std::int32_t> OpCase::random_ints(std::size_t count, std::int32_t lowest, std::int32_t highest) {
    std::uniform_int_distribution<std::int32_t> distribution(lowest, highest);
    std::vector<std::int32_t> values(count);
    for (std::int32_t& value : values) value = distribution(random_);
    return values;
}

namespace {

/// The program with that variant in every node that has it.
Result<std::unique_ptr<graph::Program>> compile(graph::Backend& backend, graph::Plan plan, const std::string& variant) {
    auto* const device = cast_to<vulkan::VulkanBackend>(&backend);
    if (!device || variant.empty()) return backend.compile(std::move(plan), backend.make_store(), backend.make_store());
    vulkan::ProgramOptions options{.check_memory = true};
    for (const graph::Node& node : plan.graph.nodes()) {
        const auto kernels = vulkan::fitting_kernels(node.op, {plan.graph, device->capabilities()});
        options.variants.push_back(vulkan::find_kernel(kernels, variant) ? variant : std::string());
    }
    auto program = device->compile_program(std::move(plan), device->make_store(), device->make_store(), options);
    if (!program) return std::move(program).error();
    return std::unique_ptr<graph::Program>(std::move(*program));
}

}  // namespace

/// The backend's share of the names that a node of the plan has a variant of; one empty name for a backend without variants.
std::set<std::string> OpCase::variant_names(graph::Backend& backend) const {
    const auto* const device = cast_to<vulkan::VulkanBackend>(&backend);
    if (!device) return {""};
    const graph::Plan plan = graph::make_plan(graph, {.fuse = false});
    std::set<std::string> names;
    for (const graph::Node& node : plan.graph.nodes())
        for (const auto* kernel : vulkan::fitting_kernels(node.op, {plan.graph, device->capabilities()}))
            if (!leaves_out_cpu_devices || kernel->device != vulkan::DeviceClass::cpu) names.emplace(kernel->name);
    std::string key;
    for (const graph::Node& node : plan.graph.nodes()) key += std::string(graph::op_name(node.op)) + ' ';
    for (const graph::Tensor& tensor : plan.graph.tensors())
        key += std::string(to_string(tensor.dtype)) + to_string(tensor.shape) + ' ';
    std::erase_if(names, [&](const std::string& name) { return !has_share(backend, key + name); });
    return names;
}

std::unique_ptr<graph::Program> OpCase::execute(graph::Backend& backend, std::uint32_t runs,
                                                const std::string& variant) const {
    auto compiled = compile(backend, graph::make_plan(graph, {.fuse = false}), variant);
    if (!compiled) FAIL(backend.name() << ": " << compiled.error().message);
    std::unique_ptr<graph::Program> program = std::move(*compiled);

    const auto write = [&](Value value, const auto& values) {
        const auto written = program->write(value, std::span(values));
        if (!written) FAIL(backend.name() << ": " << written.error().message);
    };
    for (const auto& [id, contents] : contents_)
        std::visit([&](const auto& values) { write(Value{id}, values); }, contents);
    for (const Value result : results_) {
        if (contents_.contains(result.id)) continue;
        const std::size_t count = graph.shape(result).element_count();
        if (is_real(graph.dtype(result)))
            write(result, std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()));
        else
            write(result, std::vector<std::int32_t>(count, std::numeric_limits<std::int32_t>::min()));
    }

    const auto submitted = program->submit(runs);
    if (!submitted) FAIL(backend.name() << ": " << submitted.error().message);
    const auto waited = program->wait();
    if (!waited) FAIL(backend.name() << ": " << waited.error().message);
    return program;
}

double OpCase::bound(const graph::Program& program) {
    const graph::Graph& planned = program.plan().graph;
    double sum = 0;
    for (std::size_t i = 0; i < planned.nodes().size(); ++i) {
        const graph::Node& node = planned.nodes()[i];
        double worst = 0;
        graph::for_each_operand(node.op, [&](std::string_view, Value value, graph::Access access) {
            if (access == graph::Access::read) return;
            worst = std::max(worst, validation::error_bound(planned, node, value, program.rounding(i)));
        });
        sum += worst;
    }
    return sum;
}

void OpCase::check(graph::Backend& backend, std::uint32_t runs) const {
    REQUIRE_FALSE(results_.empty());
    const auto oracle = cpu::make_cpu_backend<double>();
    const auto expected = execute(*oracle, runs);
    for (const std::string& variant : variant_names(backend)) {
        const auto found = execute(backend, runs, variant);
        compare(*found, *expected, backend.name() + (variant.empty() ? "" : ", variant " + variant));
    }
}

void OpCase::check_variant(graph::Backend& backend, const std::string& variant) const {
    REQUIRE_FALSE(results_.empty());
    const auto& device = cast_to<vulkan::VulkanBackend>(&backend)->capabilities();
    const graph::Plan plan = graph::make_plan(graph, {.fuse = false});
    REQUIRE(std::ranges::any_of(plan.graph.nodes(), [&](const graph::Node& node) {
        return vulkan::find_kernel(vulkan::fitting_kernels(node.op, {plan.graph, device}), variant) != nullptr;
    }));
    const auto oracle = cpu::make_cpu_backend<double>();
    compare(*execute(backend, 1, variant), *execute(*oracle, 1), backend.name() + ", variant " + variant);
}

void OpCase::each_variant(graph::Backend& backend, Value result,
                          const std::function<void(const std::vector<float>&)>& inspect) const {
    for (const std::string& variant : variant_names(backend)) {
        INFO("variant " << variant);
        std::vector<float> values(graph.shape(result).element_count());
        const auto done = execute(backend, 1, variant)->read(result, std::span(values));
        if (!done) FAIL(done.error().message);
        inspect(values);
    }
}

void OpCase::compare(graph::Program& found_program, graph::Program& expected_program, const std::string& where) const {
    const auto read = [](graph::Program& program, Value value, auto& values) {
        const auto done = program.read(value, std::span(values));
        if (!done) FAIL(done.error().message);
    };
    for (const Value result : results_) {
        const std::size_t count = graph.shape(result).element_count();
        INFO(graph.tensor(result).name << ' ' << to_string(graph.shape(result)) << " on " << where);
        if (!is_real(graph.dtype(result))) {
            std::vector<std::int32_t> expected(count), found(count);
            read(expected_program, result, expected);
            read(found_program, result, found);
            const auto wrong = std::ranges::mismatch(found, expected).in1 - found.begin();
            CAPTURE(wrong);
            if (static_cast<std::size_t>(wrong) < count)
                CHECK(found[static_cast<std::size_t>(wrong)] == expected[static_cast<std::size_t>(wrong)]);
            else
                CHECK(found == expected);
            continue;
        }

        std::vector<double> expected(count), found(count);
        read(expected_program, result, expected);
        read(found_program, result, found);
        double difference_squares = 0, expected_squares = 0, largest = 0, worst = 0;
        std::size_t worst_at = 0;
        for (std::size_t i = 0; i < count; ++i) {
            if (!std::isfinite(expected[i])) {  // infinity: the same one; NaN: a NaN
                const bool same = std::isnan(expected[i]) ? std::isnan(found[i]) : found[i] == expected[i];
                if (!same) FAIL("element " << i << " is " << found[i] << ", expected " << expected[i]);
                continue;
            }
            if (!std::isfinite(found[i])) FAIL("element " << i << " is " << found[i] << ", expected " << expected[i]);
            const double difference = std::abs(found[i] - expected[i]);
            difference_squares += difference * difference;
            expected_squares += expected[i] * expected[i];
            largest = std::max(largest, std::abs(expected[i]));
            if (difference > worst) worst = difference, worst_at = i;
        }
        const double allowed = bound(found_program);
        CAPTURE(allowed, worst_at, found[worst_at], expected[worst_at], largest);
        CHECK(std::sqrt(difference_squares) <= allowed * std::sqrt(expected_squares));
        // No element may hide in the norm of the others: its error is bounded by the largest element that there is.
        CHECK(worst <= 8 * allowed * largest);
    }
}

std::vector<float> OpCase::run(graph::Backend& backend, Value result) const {
    std::vector<float> values(graph.shape(result).element_count());
    const auto done = execute(backend, 1)->read(result, std::span(values));
    if (!done) FAIL(done.error().message);
    return values;
}

std::vector<double> OpCase::run_doubles(graph::Backend& backend, Value result) const {
    std::vector<double> values(graph.shape(result).element_count());
    const auto done = execute(backend, 1)->read(result, std::span(values));
    if (!done) FAIL(done.error().message);
    return values;
}

std::vector<std::int32_t> OpCase::run_ints(graph::Backend& backend, Value result) const {
    std::vector<std::int32_t> values(graph.shape(result).element_count());
    const auto done = execute(backend, 1)->read(result, std::span(values));
    if (!done) FAIL(done.error().message);
    return values;
}

}  // namespace vkformer::tests
