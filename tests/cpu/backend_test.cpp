// SPDX-License-Identifier: MIT
#include "cpu/backend.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/float_pool.hpp"
#include "graph/builders.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::Graph;
using graph::Value;

std::unique_ptr<graph::Program> compile(graph::Backend& backend, const Graph& graph) {
    return must(backend.compile(graph::make_plan(graph), backend.make_store(), backend.make_store()));
}

template <class T>
std::vector<T> read_values(graph::Program& program, Value value) {
    std::vector<T> values(program.plan().graph.shape(value).element_count());
    must(program.read(value, std::span(values)));
    return values;
}

TensorData tensor_data(const std::vector<float>& values) {
    return {.dtype = DType::f32, .shape = {values.size()}, .bytes = std::as_bytes(std::span(values)), .owner = nullptr};
}

TEST_CASE("weights and host writes are rounded as a device stores them", "[cpu]") {
    const std::vector<float> fine = {1.0f + 0x1p-12f, 65504, -70000, 0x1p-25f, kNaN};
    Graph g;
    const Value weight = must(g.weight("weight", tensor_data(fine), DType::f16));
    const Value input = must(g.input("input", DType::f16, {5}));
    const Value unrounded = must(g.input("unrounded", DType::f32, {5}));
    g.mark_output(weight);
    g.mark_output(input);
    g.mark_output(unrounded);
    g.mark_output(must(add(g, weight, input)));
    for (const auto& backend : {cpu::make_cpu_backend<float>(), cpu::make_cpu_backend<double>()}) {
        CAPTURE(backend->name());
        const auto program = compile(*backend, g);
        must(program->write(input, fine));
        must(program->write(unrounded, fine));
        for (const Value rounded : {weight, input}) {
            const auto found = read_values<float>(*program, rounded);
            CHECK(found[0] == 1);
            CHECK(found[1] == 65504);
            CHECK(found[2] == -std::numeric_limits<float>::infinity());
            CHECK(found[3] == 0);
            CHECK(std::isnan(found[4]));
        }
        CHECK(read_values<float>(*program, unrounded)[0] == fine[0]);
    }
}

TEST_CASE("results of f16 graphs are not rounded: the backend is an oracle", "[cpu]") {
    Graph g;
    const Value x = must(g.input("x", DType::f16, {2}));
    const Value y = must(add(g, x, x));
    const Value z = must(activate(g, y, graph::Activation::silu));
    g.mark_output(z);
    const auto program = compile(*cpu::make_cpu_backend<double>(), g);
    must(program->write(x, std::vector<float>{1, 2}));
    must(program->submit());
    CHECK(read_values<double>(*program, z)[0] == 2 / (1 + std::exp(-2.0)));
}

TEST_CASE("what no node has written is NaN or the smallest integer; states are zero", "[cpu]") {
    Graph g;
    const Value tokens = must(g.input("tokens", DType::i32, {3}));
    const Value x = must(g.input("x", DType::f32, {3}));
    const Value y = must(activate(g, x, graph::Activation::relu));
    const Value state = must(g.state("state", DType::f16, {3}));
    for (const Value value : {tokens, y}) g.mark_output(value);
    const auto program = compile(*cpu::make_cpu_backend<float>(), g);
    CHECK(read_values<std::int32_t>(*program, tokens) ==
          std::vector<std::int32_t>(3, std::numeric_limits<std::int32_t>::min()));
    for (const float value : read_values<float>(*program, y)) CHECK(std::isnan(value));
    CHECK(read_values<float>(*program, state) == std::vector<float>(3, 0));
}

TEST_CASE("programs share weights and states by name, and must agree on them", "[cpu]") {
    const auto backend = cpu::make_cpu_backend<float>();
    const auto weights = backend->make_store(), states = backend->make_store();
    const std::vector<float> ones = {1, 1}, twos = {2, 2}, three = {3, 3, 3};
    const auto program_with = [&](const std::vector<float>& weight, const Shape& state_shape, Value* state) {
        Graph g;
        *state = must(g.state("counter", DType::f32, state_shape));
        const Value sum =
            must(add(g, must(g.reshape(*state, {2})), must(g.weight("step", tensor_data(weight), DType::f32))));
        must(cache_append(g, must(g.reshape(sum, {1, 1, 1, 2})), {}, must(g.reshape(*state, {1, 1, 1, 2}))));
        return backend->compile(graph::make_plan(std::move(g)), weights, states);
    };
    Value state;
    const auto first = must(program_with(ones, {2}, &state));
    const auto second = must(program_with(twos, {2}, &state));  // the store has "step" already
    must(first->submit(3));
    must(second->submit());
    CHECK(read_values<float>(*second, state) == std::vector<float>{4, 4});
    must(second->write(state, std::vector<float>{10, 20}));
    must(first->submit());
    CHECK(read_values<float>(*first, state) == std::vector<float>{11, 21});

    const auto other_shape = program_with(ones, {2, 1}, &state);
    REQUIRE_FALSE(other_shape);
    CHECK(other_shape.error().code == ErrorCode::ShapeMismatch);
    CHECK(other_shape.error().message == "counter is f32 [2, 1], but another program of this store has it as f32 [2]");
}

TEST_CASE("floats of a pool are as many as were asked for, and nobody else's", "[cpu]") {
    const std::vector<std::size_t> counts = {1, 17, 1000, 3, 1 << 20, 5, 3 << 20, 100'000, 20 << 20, 64, 7};
    std::vector<std::shared_ptr<float[]>> taken;
    {
        cpu::FloatPool<float> pool;
        for (const std::size_t count : counts) {
            taken.push_back(pool.floats(count));
            CHECK(reinterpret_cast<std::uintptr_t>(taken.back().get()) % 64 == 0);
            std::fill_n(taken.back().get(), count, static_cast<float>(taken.size()));
        }
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const auto last = taken[i].get() + counts[i];
        CHECK(std::find_if(taken[i].get(), last, [&](float v) { return v != static_cast<float>(i + 1); }) == last);
    }
}

TEST_CASE("stores of another backend are refused", "[cpu]") {
    const auto backend = cpu::make_cpu_backend<float>();
    const auto other = cpu::make_cpu_backend<double>();
    const auto compiled = backend->compile(graph::make_plan({}), other->make_store(), backend->make_store());
    REQUIRE_FALSE(compiled);
    CHECK(compiled.error().message == "CPU (float): the tensor stores are not of this backend");
}

TEST_CASE("reads and writes that do not fit are errors", "[cpu]") {
    Graph g;
    const Value x = must(g.input("x", DType::f32, {2, 3}));
    const Value tokens = must(g.state("tokens", DType::i32, {4}));
    const Value y = must(activate(g, x, graph::Activation::relu));
    g.mark_output(y);
    const auto program = compile(*cpu::make_cpu_backend<float>(), g);
    const auto check = [](const Result<void>& result, ErrorCode code, const std::string& message) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code == code);
        CHECK(result.error().message == message);
    };
    std::vector<float> floats(5);
    std::vector<std::int32_t> ints(4);
    check(program->write(x, floats), ErrorCode::ShapeMismatch, "x has shape [2, 3], but the host has 5 values");
    check(program->write(x, ints), ErrorCode::UnsupportedDtype, "x is f32, but the host's values are integers");
    check(program->read(tokens, std::span(floats)), ErrorCode::UnsupportedDtype,
          "tokens is i32, but the host's values are floats");
    check(program->read(y, std::span(floats)), ErrorCode::ShapeMismatch,
          "activate has shape [2, 3], but the host has 5 values");
    floats.resize(6);
    check(program->read(x, std::span(floats)), ErrorCode::InvalidArgument, "x is no output of the graph");
    check(program->write(Value{99}, floats), ErrorCode::InvalidArgument, "the program has no tensor 99");
    check(program->write({}, floats), ErrorCode::InvalidArgument, "the program has no tensor 4294967295");
    check(cpu::run_node(*program, 1), ErrorCode::InvalidArgument, "the program has no node 1");
}

TEST_CASE("one node runs alone, on operands that the caller has written", "[cpu]") {
    Graph g;
    const Value x = must(g.input("x", DType::f32, {2}));
    const Value y = must(activate(g, x, graph::Activation::relu));
    const Value z = must(add(g, y, x));
    g.mark_output(y);
    g.mark_output(z);
    const auto program = must(cpu::make_cpu_backend<double>()->compile(
        graph::make_plan(g, {.fuse = false, .all_outputs = true}), cpu::make_cpu_backend<double>()->make_store(),
        cpu::make_cpu_backend<double>()->make_store()));
    auto& cpu_program = *cast_to<cpu::CpuProgram<double>>(program.get());
    must(cpu_program.write(x, std::vector<double>{1e-20, 2}));
    must(cpu_program.write(y, std::vector<double>{1, 0x1p-40}));
    must(cpu::run_node(*program, 1));
    CHECK(read_values<double>(*program, z) == std::vector<double>{1, 2 + 0x1p-40});
    CHECK(read_values<double>(*program, y) == std::vector<double>{1, 0x1p-40});
}

}  // namespace
}  // namespace vkformer::tests
