// SPDX-License-Identifier: MIT
#include <algorithm>
#include <random>

#include "graph/builders.hpp"
#include "graph/plan.hpp"
#include "models/marian_case.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {
namespace {

using graph::Access;
using graph::Activation;
using graph::Add;
using graph::Backend;
using graph::Graph;
using graph::LayerNorm;
using graph::Linear;
using graph::Node;
using graph::Plan;
using graph::Prologue;
using graph::RmsNorm;
using graph::Value;

/// A weight with random values of a fixed seed.
Value plan_weight(Graph& graph, const std::string& name, const Shape& shape) {
    auto values = std::make_shared<std::vector<float>>(shape.element_count());
    std::mt19937 random(static_cast<std::uint32_t>(std::hash<std::string>{}(name)));
    for (float& value : *values) value = std::uniform_real_distribution<float>(-0.5f, 0.5f)(random);
    return must(graph.weight(name, {DType::f32, shape, std::as_bytes(std::span(*values)), values}, DType::f32));
}

std::vector<std::string> op_names(const Graph& graph) {
    std::vector<std::string> names;
    for (const Node& node : graph.nodes()) names.emplace_back(op_name(node.op));
    return names;
}

/// Runs a plan with x = 1, 2, 3, … / 8 and returns the output.
std::vector<float> run_plan(Backend& backend, const Plan& plan, Value x, Value y) {
    auto program = must(backend.compile(plan, backend.make_store(), backend.make_store()));
    std::vector<float> input(plan.graph.shape(x).element_count()), output(plan.graph.shape(y).element_count());
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i + 1) / 8;
    must(program->write(x, std::span<const float>(input)));
    must(program->submit());
    must(program->read(y, std::span<float>(output)));
    return output;
}

/// No two activations that are alive in a common stretch between barriers may share a byte.
void check_no_overlap(const Plan& plan) {
    const Graph& graph = plan.graph;
    struct Life {
        std::uint64_t begin, end;
        std::size_t first = ~std::size_t{0}, last = 0;
    };
    std::map<std::uint32_t, Life> lives;
    std::size_t segment = 0;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
        segment += plan.barrier_before[i] ? 1 : 0;
        for_each_operand(graph.nodes()[i].op, [&](std::string_view, Value value, Access) {
            const std::uint32_t id = graph.storage(value).id;
            const std::uint64_t offset = plan.arena_offset[id];
            if (offset == Plan::kNotInArena) return;
            Life& life =
                lives.try_emplace(id, Life{offset, offset + storage_bytes(graph.tensor(Value{id}))}).first->second;
            life.first = std::min(life.first, segment);
            life.last = std::max(life.last, segment);
            CHECK(life.end <= plan.arena_bytes);
        });
    }
    for (auto a = lives.begin(); a != lives.end(); ++a)
        for (auto b = std::next(a); b != lives.end(); ++b) {
            const bool alive_together = a->second.first <= b->second.last && b->second.first <= a->second.last;
            const bool share_memory = a->second.begin < b->second.end && b->second.begin < a->second.end;
            CAPTURE(graph.tensor(Value{a->first}).name, graph.tensor(Value{b->first}).name);
            CHECK_FALSE((alive_together && share_memory));
        }
}

/// No node between two barriers may touch what another one there writes.
void check_barriers(const Plan& plan) {
    const Graph& graph = plan.graph;
    std::map<std::uint32_t, bool> touched;  // since the last barrier: true if written
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
        if (plan.barrier_before[i]) touched.clear();
        std::map<std::uint32_t, bool> own;
        for_each_operand(graph.nodes()[i].op, [&](std::string_view, Value value, Access access) {
            const std::uint32_t id = graph.storage(value).id;
            const auto other = touched.find(id);
            CHECK_FALSE((other != touched.end() && (other->second || access != Access::read)));
            own[id] = own[id] || access != Access::read;
        });
        for (const auto& [id, written] : own) touched[id] = touched[id] || written;
    }
}

TEST_CASE("a gated activation becomes an epilogue of linear", "[plan]") {
    const std::uint64_t rows = GENERATE(1, 8, 9);
    const bool is_read = GENERATE(false, true);  // the product, by somebody else
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {rows, 8}));
    const Value product = must(linear(graph, x, plan_weight(graph, "w", {12, 8})));
    const Value y = must(gated_activation(graph, product, {}, Activation::silu));
    graph.mark_output(y);
    if (is_read) graph.mark_output(must(activate(graph, product, Activation::relu)));

    const Plan plan = make_plan(std::move(graph));
    CHECK((plan.graph.nodes().size() == 1) == !is_read);
    if (plan.graph.nodes().size() > 1) return;
    const auto& fused = std::get<Linear>(plan.graph.nodes()[0].op);
    CHECK(fused.is_gated());
    CHECK(fused.epilogue.activation == Activation::silu);
    CHECK(fused.y == y);
}

TEST_CASE("a residual does not join a linear with a gate", "[plan]") {
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {1, 6}));
    const Value product = must(linear(graph, x, plan_weight(graph, "w", {12, 6})));
    const Value y = must(add(graph, must(gated_activation(graph, product, {}, Activation::silu)), x));
    graph.mark_output(y);
    const Plan plan = make_plan(std::move(graph));
    REQUIRE(plan.graph.nodes().size() == 2);
    CHECK(std::get<Linear>(plan.graph.nodes()[0].op).is_gated());
    CHECK(std::get<Add>(plan.graph.nodes()[1].op).y == y);
}

TEST_CASE("activation and residual become epilogues of linear", "[plan]") {
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {3, 8}));
    const Value hidden =
        must(activate(graph, must(linear(graph, x, plan_weight(graph, "w1", {12, 8}))), Activation::relu));
    const Value y = must(add(graph, must(linear(graph, hidden, plan_weight(graph, "w2", {8, 12}))), x));
    graph.mark_output(y);

    const Plan fused = make_plan(graph);
    REQUIRE(op_names(fused.graph) == std::vector<std::string>{"linear", "linear"});
    CHECK(std::get<Linear>(fused.graph.nodes()[0].op).epilogue.activation == Activation::relu);
    CHECK(std::get<Linear>(fused.graph.nodes()[1].op).epilogue.residual == x);
    const Plan plain = make_plan(graph, {.fuse = false});
    REQUIRE(op_names(plain.graph) == std::vector<std::string>{"linear", "activate", "linear", "add"});
    for (Backend* backend : test_backends()) {
        CAPTURE(backend->name());
        const std::vector<float> a = run_plan(*backend, fused, x, y), b = run_plan(*backend, plain, x, y);
        for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-5).margin(1e-5));
    }
}

TEST_CASE("a tensor that the host reads is not fused away", "[plan]") {
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {3, 8}));
    const Value product = must(linear(graph, x, plan_weight(graph, "w", {8, 8})));
    const Value y = must(activate(graph, product, Activation::silu));
    graph.mark_output(product);
    graph.mark_output(y);
    CHECK(op_names(make_plan(graph).graph) == std::vector<std::string>{"linear", "activate"});
}

TEST_CASE("a tensor with two readers is not fused away", "[plan]") {
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {3, 8}));
    const Value product = must(linear(graph, x, plan_weight(graph, "w", {8, 8})));
    const Value y = must(add(graph, must(activate(graph, product, Activation::silu)), product));
    graph.mark_output(y);
    CHECK(op_names(make_plan(graph).graph) == std::vector<std::string>{"linear", "activate", "add"});
}

TEST_CASE("a pre-norm's sum is written by the norm", "[plan]") {
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {3, 8}));
    const Value other = must(activate(graph, x, Activation::silu));
    const Value sum = must(add(graph, x, other));
    const Value normed = must(layer_norm(graph, sum, plan_weight(graph, "gain", {8}), {}, 1e-5f));
    const Value y = must(add(graph, normed, sum));
    graph.mark_output(y);
    const Plan plan = make_plan(graph);
    REQUIRE(op_names(plan.graph) == std::vector<std::string>{"activate", "layer_norm", "add"});
    CHECK(std::get<LayerNorm>(plan.graph.nodes()[1].op).sum == sum);
    const Plan plain = make_plan(graph, {.fuse = false});
    for (Backend* backend : test_backends()) {
        CAPTURE(backend->name());
        const std::vector<float> a = run_plan(*backend, plan, x, y), b = run_plan(*backend, plain, x, y);
        for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-5).margin(1e-5));
    }
}

TEST_CASE("an RMS norm takes the sum before it, and writes it where others read it", "[plan]") {
    const bool is_read_again = GENERATE(false, true);
    CAPTURE(is_read_again);
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {3, 8}));
    const Value sum = must(add(graph, x, must(activate(graph, x, Activation::silu))));
    Value y = must(rms_norm(graph, sum, plan_weight(graph, "gain", {8}), 1e-5f, 1));
    if (is_read_again) y = must(add(graph, y, sum));
    graph.mark_output(y);
    const Plan plan = make_plan(graph);
    std::vector<std::string> expected{"activate", "rms_norm"};
    if (is_read_again) expected.push_back("add");
    REQUIRE(op_names(plan.graph) == expected);
    CHECK(std::get<RmsNorm>(plan.graph.nodes()[1].op).sum == (is_read_again ? sum : Value{}));
    const Plan plain = make_plan(graph, {.fuse = false});
    for (Backend* backend : test_backends()) {
        CAPTURE(backend->name());
        const std::vector<float> a = run_plan(*backend, plan, x, y), b = run_plan(*backend, plain, x, y);
        for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-5).margin(1e-5));
    }
}

TEST_CASE("a product of few rows takes the RMS norm before it", "[plan]") {
    const std::uint64_t rows = GENERATE(1, 8, 9);
    const auto [is_gated, is_view] = GENERATE(table<bool, bool>({{false, false}, {true, false}, {false, true}}));
    CAPTURE(rows, is_gated, is_view);
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {rows, 8}));
    const Value gain = plan_weight(graph, "gain", {8});
    Value normed = must(rms_norm(graph, x, gain, 1e-5f, 1));
    if (is_view) normed = must(graph.reshape(normed, {1, rows, 8}));
    Value y = must(linear(graph, normed, plan_weight(graph, "w", {12, 8})));
    if (is_gated) y = must(gated_activation(graph, y, {}, Activation::silu));
    graph.mark_output(y);

    const Plan plan = make_plan(graph);
    CHECK((plan.graph.nodes().size() == 1) == (rows <= 8));
    if (rows > 8) return;
    const auto& fused = std::get<Linear>(plan.graph.nodes()[0].op);
    CHECK(fused.prologue.kind == Prologue::Kind::rms_norm);
    CHECK(fused.is_gated() == is_gated);
    CHECK(fused.x == x);
    CHECK(fused.prologue.gain == gain);
    CHECK(fused.prologue.eps == 1e-5f);
    CHECK(fused.prologue.gain_offset == 1);
    const Plan plain = make_plan(graph, {.fuse = false});
    for (Backend* backend : test_backends()) {
        CAPTURE(backend->name());
        const std::vector<float> a = run_plan(*backend, plan, x, y), b = run_plan(*backend, plain, x, y);
        for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-5).margin(1e-5));
    }
}

TEST_CASE("an RMS norm with gains of groups is no prologue of a product", "[plan]") {
    const bool has_groups = GENERATE(false, true);
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {1, 2, 8}));
    const Value gain = plan_weight(graph, "gain", has_groups ? Shape{2, 8} : Shape{8});
    const Value normed = must(rms_norm(graph, x, gain, 1e-5f));
    const Value y = must(linear(graph, normed, plan_weight(graph, "w", {12, 8})));
    graph.mark_output(y);
    CHECK(make_plan(graph).graph.nodes().size() == (has_groups ? 2 : 1));
}

TEST_CASE("an RMS norm stays where others read it, it has a sum to write or the product has a residual", "[plan]") {
    const std::string why = GENERATE("two products", "host", "sum", "residual", "batch", "state", "other width");
    CAPTURE(why);
    Graph graph;
    const bool is_batch = why == "batch";
    const Shape shape = is_batch ? Shape{2, 3, 8} : Shape{3, 8};
    const Value x =
        why == "state" ? must(graph.state("x", DType::f32, shape)) : must(graph.input("x", DType::f32, shape));
    const Value sum = why == "sum" ? must(add(graph, x, must(activate(graph, x, Activation::silu)))) : x;
    const Value normed = must(rms_norm(graph, sum, plan_weight(graph, "gain", {8}), 1e-5f));
    const std::uint64_t in = why == "other width" ? 4 : 8;
    const Value weight = plan_weight(graph, "w", is_batch ? Shape{2, 8, 8} : Shape{8, in});
    Value y = must(linear(graph, in == 8 ? normed : must(graph.reshape(normed, {6, in})), weight));
    if (why == "residual") y = must(add(graph, y, x));
    graph.mark_output(y);
    if (why == "two products") graph.mark_output(must(linear(graph, normed, weight)));
    if (why == "host") graph.mark_output(normed);
    const auto names = op_names(make_plan(graph).graph);
    CHECK(std::ranges::find(names, "rms_norm") != names.end());
}

TEST_CASE("nodes that nobody needs are dropped", "[plan]") {
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {3, 8}));
    must(activate(graph, must(activate(graph, x, Activation::silu)), Activation::relu));
    const Value y = must(activate(graph, x, Activation::relu));
    graph.mark_output(y);
    CHECK(make_plan(graph).graph.nodes().size() == 1);
}

TEST_CASE("independent projections need one barrier for all of them", "[plan]") {
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {3, 8}));
    const Value normed = must(layer_norm(graph, x, plan_weight(graph, "gain", {8}), {}, 1e-5f));
    for (const char* name : {"q", "k", "v"})
        graph.mark_output(must(linear(graph, normed, plan_weight(graph, name, {8, 8}))));
    const Plan plan = make_plan(graph);
    CHECK(plan.barrier_count() == 1);
}

TEST_CASE("what comes after an update of a state sees it, what comes before does not", "[plan]") {
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {1, 2, 1, 4}));
    const Value cache = must(graph.state("cache", DType::f32, {1, 2, 1, 4}));
    const Value before = must(activate(graph, cache, Activation::relu));
    must(cache_append(graph, x, {}, cache));
    const Value after = must(activate(graph, cache, Activation::relu));
    graph.mark_output(before);
    graph.mark_output(after);
    const Plan plan = make_plan(graph);
    check_barriers(plan);
    for (Backend* backend : test_backends()) {
        CAPTURE(backend->name());
        auto program = must(backend->compile(plan, backend->make_store(), backend->make_store()));
        const std::vector<float> old(8, 1.0f), fresh(8, 2.0f);
        must(program->write(cache, std::span<const float>(old)));
        must(program->write(x, std::span<const float>(fresh)));
        must(program->submit());
        std::vector<float> found(8);
        must(program->read(before, std::span<float>(found)));
        CHECK(found == old);
        must(program->read(after, std::span<float>(found)));
        CHECK(found == fresh);
    }
}

// What is computed from a state before the state changes may not move behind the change.
TEST_CASE("a node that reads a state stays before the state's update", "[plan]") {
    const std::string fusion = GENERATE("activation", "activation, weight", "residual", "residual, bias", "gate",
                                        "layer norm", "rms norm", "input norm");
    CAPTURE(fusion);
    Graph graph;
    const Value fresh = must(graph.input("fresh", DType::f32, {1, 1, 1, 8}));
    const Value x = must(graph.input("x", DType::f32, {1, 8}));
    const Value cache = must(graph.state("cache", DType::f32, {1, 1, 1, 8}));
    const Value old = must(graph.reshape(cache, {1, 8}));
    const Value gain = plan_weight(graph, "gain", {8});
    const bool is_product = fusion == "residual" || fusion == "activation" || fusion == "gate";
    Value before;  // of the state
    if (is_product)
        before = must(linear(graph, old, plan_weight(graph, "w", {fusion == "gate" ? 16u : 8u, 8})));
    else if (fusion == "activation, weight")
        before = must(linear(graph, x, old));
    else if (fusion == "residual, bias")
        before = must(linear(graph, x, plan_weight(graph, "w", {8, 8}), must(graph.reshape(cache, {8}))));
    else if (fusion == "input norm")
        before = must(rms_norm(graph, old, gain, 1e-5f));
    else
        before = must(add(graph, old, x));
    must(cache_append(graph, fresh, {}, cache));
    Value y;  // of which `before` may become a part
    if (fusion.starts_with("activation"))
        y = must(activate(graph, before, Activation::relu));
    else if (fusion.starts_with("residual"))
        y = must(add(graph, before, x));
    else if (fusion == "gate")
        y = must(gated_activation(graph, before, {}, Activation::silu));
    else if (fusion == "layer norm")
        y = must(layer_norm(graph, before, gain, {}, 1e-5f));
    else if (fusion == "rms norm")
        y = must(rms_norm(graph, before, gain, 1e-5f));
    else
        y = must(linear(graph, before, plan_weight(graph, "w", {8, 8})));
    graph.mark_output(y);

    const auto result = [&](Backend& backend, const Plan& plan) {
        auto program = must(backend.compile(plan, backend.make_store(), backend.make_store()));
        const std::vector<float> was = {1, -2, 3, -4, 5, -6, 7, 8}, now(8, 9.0f), other = {1, 2, 1, 0, -1, 1, 2, 2};
        must(program->write(cache, std::span<const float>(was)));
        must(program->write(fresh, std::span<const float>(now)));
        if (fusion != "activation" && fusion != "gate" && fusion != "input norm")
            must(program->write(x, std::span<const float>(other)));
        must(program->submit());
        std::vector<float> values(plan.graph.shape(y).element_count());
        must(program->read(y, std::span<float>(values)));
        return values;
    };
    const Plan optimised = make_plan(graph), plain = make_plan(graph, {.fuse = false});
    check_barriers(optimised);
    for (Backend* backend : test_backends()) {
        CAPTURE(backend->name());
        const std::vector<float> a = result(*backend, optimised), b = result(*backend, plain);
        for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-5).margin(1e-5));
    }
}

/// A random directed graph of adds, activations and square products.
Graph random_graph(std::uint32_t seed, Value& x, Value& y) {
    std::mt19937 random(seed);
    Graph graph;
    x = must(graph.input("x", DType::f32, {4, 8}));
    std::vector<Value> values{x};
    const auto any = [&] { return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)]; };
    for (int i = 0; i < 24; ++i) {
        switch (std::uniform_int_distribution<int>(0, 3)(random)) {
        case 0: values.push_back(must(add(graph, any(), any()))); break;
        case 1: values.push_back(must(activate(graph, any(), Activation::gelu_tanh))); break;
        case 2:
            values.push_back(must(linear(graph, any(), plan_weight(graph, "w" + std::to_string(i), {8, 8}))));
            break;
        default:
            values.push_back(
                must(layer_norm(graph, any(), plan_weight(graph, "g" + std::to_string(i), {8}), {}, 1e-3f)));
        }
    }
    y = values.back();
    for (int i = 0; i < 4; ++i) y = must(add(graph, y, any()));
    graph.mark_output(y);
    return graph;
}

TEST_CASE("random graphs give the same with and without the passes", "[plan]") {
    const auto seed = GENERATE(range(0u, 25u));
    CAPTURE(seed);
    Value x, y;
    const Graph graph = random_graph(seed, x, y);
    const Plan optimised = make_plan(graph);
    const Plan plain = make_plan(graph, {.fuse = false, .reuse_memory = false});
    check_no_overlap(optimised);
    check_no_overlap(plain);
    check_barriers(optimised);
    check_barriers(plain);
    CHECK(optimised.arena_bytes <= optimised.unshared_bytes);
    CHECK(plain.arena_bytes == plain.unshared_bytes);
    for (Backend* backend : test_backends()) {
        CAPTURE(backend->name());
        const std::vector<float> a = run_plan(*backend, optimised, x, y), b = run_plan(*backend, plain, x, y);
        for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-4).margin(1e-4));
    }
}

TEST_CASE("a whole model's plan shares memory and keeps lives apart", "[plan]") {
    const models::Seq2Seq model = load_marian("swish_d64_h4_opus");
    const auto forward = must(model.forward({.batch = 2, .source_len = 9, .target_len = 7}));
    const Plan plan = make_plan(forward.graph);
    check_no_overlap(plan);
    check_barriers(plan);
    CHECK(plan.arena_bytes < plan.unshared_bytes / 2);
}

}  // namespace
}  // namespace vkformer::tests
