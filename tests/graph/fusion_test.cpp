// SPDX-License-Identifier: MIT
// What becomes one node is for the backend to say.
#include <algorithm>
#include <string>
#include <vector>

#include "graph/builders.hpp"
#include "graph/plan.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/fusions.hpp"
#include "support/imagined_devices.hpp"
#include "support/must.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::tests {
namespace {

using graph::Extra;
using graph::Graph;
using graph::Value;

/// A block of a decoder whose nodes have every extra but a batch.
struct Block {
    Graph graph;
    Value x, y;

    Block() {
        constexpr std::uint64_t kRows = 3, kWidth = 8;
        const auto floats = [&](const char* name, const Shape& shape) {
            return must(graph.input(name, DType::f32, shape));
        };
        x = floats("x", {kRows, kWidth});
        const Value normed = must(rms_norm(graph, x, floats("gain", {kWidth}), 1e-5f));
        const Value both = must(linear(graph, normed, floats("gate", {2 * kWidth, kWidth})));
        const Value gated = must(gated_activation(graph, both, {}, graph::Activation::silu));
        const Value down = must(add(graph, must(linear(graph, gated, floats("down", {kWidth, kWidth}))), x));
        const Value hidden = must(linear(graph, down, floats("up", {kWidth, kWidth}), floats("bias", {kWidth})));
        const Value active = must(activate(graph, hidden, graph::Activation::relu));
        y = must(layer_norm(graph, must(add(graph, active, down)), floats("gain2", {kWidth}), {}, 1e-5f));
        graph.mark_output(y);
    }
};

/// The block's y for inputs that are all a little different.
std::vector<float> run_block(graph::Backend& backend, const graph::Plan& plan, Value y) {
    const auto program = must(backend.compile(plan, backend.make_store(), backend.make_store()));
    float next = -1;
    for (std::uint32_t id = 0; id < plan.graph.tensors().size(); ++id) {
        const graph::Tensor& tensor = plan.graph.tensor(Value{id});
        if (tensor.kind != graph::TensorKind::input) continue;
        std::vector<float> values(tensor.shape.element_count());
        for (float& value : values) value = next = next > 0.9f ? -1.0f : next + 0.07f;
        must(program->write(Value{id}, std::span<const float>(values)));
    }
    must(program->submit());
    must(program->wait());
    std::vector<float> values(plan.graph.shape(y).element_count());
    must(program->read(y, std::span(values)));
    return values;
}

TEST_CASE("what a backend does not take stays a node of its own, and the result is the same", "[plan][fusion]") {
    const Block block;
    const graph::Plan plain = make_plan(block.graph, {.fuse = false});
    const graph::Plan fused = make_plan(block.graph);
    CHECK(extras_in(plain.graph) == 0);
    CHECK(extras_in(fused.graph) == bits_of(Extra::activation, Extra::residual, Extra::gate, Extra::rms_norm));
    CHECK(fused.graph.nodes().size() == 4);

    const std::uint32_t lacks = GENERATE(bits_of(Extra::gate), bits_of(Extra::rms_norm), bits_of(Extra::residual),
                                         bits_of(Extra::activation), bits_of(Extra::gate, Extra::rms_norm), ~0u);
    CAPTURE(lacks);
    const Without rules(lacks);
    const graph::Plan plan = make_plan(block.graph, {.fusions = &rules});
    CHECK((extras_in(plan.graph) & lacks) == 0);
    CHECK(plan.graph.nodes().size() > fused.graph.nodes().size());
    if (lacks == ~0u) CHECK(plan.graph.nodes().size() == plain.graph.nodes().size());
    for (graph::Backend* const backend : test_backends()) {
        CAPTURE(backend->name());
        const std::vector<float> found = run_block(*backend, plan, block.y),
                                 expected = run_block(*backend, plain, block.y);
        for (std::size_t i = 0; i < found.size(); ++i)
            CHECK(found[i] == Approx(expected[i]).epsilon(1e-4).margin(1e-5));
    }
}

struct Sizes {
    std::uint64_t rows, in, out;
};

/// A product with everything that the bits say, as a pass would ask about it.
graph::Linear product_with(Graph& graph, std::uint32_t extras, const Sizes& sizes, DType dtype, DType weight) {
    const auto has = [&](Extra extra) { return (extras & bits_of(extra)) != 0; };
    const auto [rows, in, out] = sizes;
    const auto batched = [&](std::uint64_t a, std::uint64_t b) {
        return has(Extra::batch) ? Shape{2, a, b} : Shape{a, b};
    };
    graph::Linear op;
    op.x = must(graph.input("x", dtype, batched(rows, in)));
    op.weight = must(graph.input("weight", dtype, batched(has(Extra::gate) ? 2 * out : out, in)));
    graph.tensor(op.weight).dtype = weight;  // which no input has
    op.y = must(graph.activation("y", dtype, batched(rows, out)));
    if (has(Extra::activation)) op.epilogue.activation = graph::Activation::silu;
    if (has(Extra::gate)) op.epilogue.end = graph::Epilogue::End::gate;
    if (has(Extra::residual)) op.epilogue = op.epilogue.plus(must(graph.input("residual", dtype, batched(rows, out))));
    if (has(Extra::rms_norm)) op.prologue = {.kind = graph::Prologue::Kind::rms_norm, .eps = 1e-5f};
    return op;
}

// A plan is made once and shows in tests and reports what all backends run: today none takes less than another.
TEST_CASE("kernels take in one node what is run step by step on a CPU", "[plan][fusion]") {
    for (const vulkan::Capabilities& device : imagined_devices())
        for (std::uint32_t extras = 0; extras < 32; ++extras) {
            if ((extras & bits_of(Extra::residual)) != 0 && (extras & bits_of(Extra::gate)) != 0) continue;  // one end
            for (const DType dtype : {DType::f32, DType::f16})
                for (const std::uint64_t rows : {1, 8, 9})
                    for (const std::uint64_t in : {7, 64}) {
                        Graph graph;
                        const graph::Op op = product_with(graph, extras, {rows, in, 6}, dtype, dtype);
                        CAPTURE(device.type, device.storage16, extras, to_string(dtype), rows, in);
                        CHECK(graph::extras_of(graph, op) == extras);
                        CHECK(vulkan::KernelFusions(device).takes(graph, op) ==
                              graph::stepwise_fusions().takes(graph, op));
                    }
        }
}

bool says(const vulkan::KernelTraits& kernel, std::uint32_t extras) {
    return std::ranges::any_of(kernel.takes, [&](std::uint32_t set) { return (extras & ~set) == 0; });
}

std::vector<const vulkan::KernelTraits*> kernels_of(std::string_view op) {
    for (const vulkan::OpKernels& all : vulkan::kernel_catalogue())
        if (all.op == op) return {all.kernels.begin(), all.kernels.end()};
    return {};
}

/// How many dispatches the kernel plans for the op; 0 where it does not fit.
std::size_t dispatches(const Graph& graph, const graph::Op& op, const vulkan::KernelTraits& kernel,
                       const vulkan::Capabilities& device) {
    const vulkan::KernelContext context{graph, device};
    const vulkan::KernelList fitting = vulkan::fitting_kernels(op, context);
    if (std::ranges::find(fitting, &kernel) == fitting.end()) return 0;
    return must(vulkan::plan_dispatches(op, context, kernel)).dispatches.size();
}

/// Whether the kernel runs a product with the extras, at one of its edges on some device, and norms rows of x in the product's own dispatches.
bool does(const vulkan::KernelTraits& kernel, std::uint32_t extras) {
    for (const vulkan::Edge& edge : kernel.edges)
        for (const DType dtype : {DType::f32, DType::f16})
            for (const DType weight : {dtype, DType::q8_0}) {
                const std::span<const std::uint32_t> numbers(edge.begin(), edge.end());
                if (numbers.size() != 3 || (weight == DType::q8_0 && numbers[1] % 32 != 0)) continue;
                const Sizes sizes{numbers[0], numbers[1], numbers[2]};
                Graph graph, without_norm;
                const graph::Op op = product_with(graph, extras, sizes, dtype, weight);
                const graph::Op product =
                    product_with(without_norm, extras & ~bits_of(Extra::rms_norm), sizes, dtype, weight);
                for (const vulkan::Capabilities& device : imagined_devices()) {
                    const std::size_t planned = dispatches(graph, op, kernel, device);
                    if (planned > 0 && planned == dispatches(without_norm, product, kernel, device)) return true;
                }
            }
    return false;
}

TEST_CASE("the kernels of a product say what they do besides", "[plan][fusion]") {
    const auto kernels = kernels_of(graph::Linear::kName);
    REQUIRE(kernels.size() > 10);
    for (const vulkan::KernelTraits* const kernel : kernels) {
        if ((kernel->needs & vulkan::kLackingRequirements) != 0) continue;
        for (const std::uint32_t extras :
             {bits_of(Extra::activation, Extra::residual), bits_of(Extra::activation, Extra::gate),
              bits_of(Extra::activation, Extra::residual, Extra::batch),
              bits_of(Extra::activation, Extra::gate, Extra::rms_norm)}) {
            CAPTURE(kernel->name, extras);
            CHECK(says(*kernel, extras) == does(*kernel, extras));
        }
    }
}

TEST_CASE("a norm takes the sum before it, in every kernel", "[plan][fusion]") {
    Graph graph;
    const auto input = [&](const char* name) { return must(graph.input(name, DType::f32, {3, 8})); };
    const Value x = input("x"), residual = input("residual"), y = must(graph.activation("y", DType::f32, {3, 8}));
    const Value gain = must(graph.input("gain", DType::f32, {8}));
    const std::pair<graph::Op, graph::Op> norms[] = {
        {graph::LayerNorm{.x = x, .gain = gain, .y = y},
         graph::LayerNorm{.x = x, .residual = residual, .gain = gain, .y = y}},
        {graph::RmsNorm{.x = x, .gain = gain, .y = y},
         graph::RmsNorm{.x = x, .residual = residual, .gain = gain, .y = y}}};
    for (const auto& [norm, with_sum] : norms) {
        CAPTURE(graph::op_name(norm));
        CHECK(graph::extras_of(graph, norm) == 0);
        CHECK(graph::extras_of(graph, with_sum) == bits_of(Extra::residual));
        CHECK(graph::stepwise_fusions().takes(graph, with_sum));
        for (const vulkan::Capabilities& device : imagined_devices())
            CHECK(vulkan::KernelFusions(device).takes(graph, with_sum));
        for (const vulkan::KernelTraits* const kernel : kernels_of(graph::op_name(norm))) {
            CAPTURE(kernel->name);
            CHECK(says(*kernel, bits_of(Extra::residual)));
        }
    }
}

TEST_CASE("kernels of other ops take nothing besides", "[plan][fusion]") {
    for (const vulkan::OpKernels& all : vulkan::kernel_catalogue())
        for (const vulkan::KernelTraits* const kernel : all.kernels) {
            CAPTURE(all.op, kernel->name);
            const bool has_extras =
                all.op == graph::Linear::kName || all.op == graph::LayerNorm::kName || all.op == graph::RmsNorm::kName;
            CHECK(kernel->takes.empty() != has_extras);
        }
}

}  // namespace
}  // namespace vkformer::tests
