// SPDX-License-Identifier: MIT
// What becomes one node is for the backend to say.
#include <string>
#include <vector>

#include "graph/builders.hpp"
#include "graph/plan.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::tests {
namespace {

using graph::Extra;
using graph::Graph;
using graph::Value;

/// Those of a backend that lacks some of it.
class Without final : public graph::FusionRules {
public:
    explicit Without(std::uint32_t extras) : lacks_(extras) {}
    bool takes(const Graph& graph, const graph::Op& fused) const override {
        return (graph::extras_of(graph, fused) & lacks_) == 0 && graph::stepwise_fusions().takes(graph, fused);
    }

private:
    std::uint32_t lacks_;
};

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

std::uint32_t extras_in(const Graph& graph) {
    std::uint32_t extras = 0;
    for (const graph::Node& node : graph.nodes()) extras |= graph::extras_of(graph, node.op);
    return extras;
}

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

/// A product with everything that the bits say, as a pass would ask about it.
graph::Linear product_with(Graph& graph, std::uint32_t extras, std::uint64_t rows, std::uint64_t in, DType dtype) {
    const auto has = [&](Extra extra) { return (extras & bits_of(extra)) != 0; };
    const std::uint64_t out = 6, columns = has(Extra::gate) ? 2 * out : out;
    const auto batched = [&](std::uint64_t a, std::uint64_t b) {
        return has(Extra::batch) ? Shape{2, a, b} : Shape{a, b};
    };
    graph::Linear op;
    op.x = must(graph.input("x", dtype, batched(rows, in)));
    op.weight = must(graph.input("weight", dtype, batched(columns, in)));
    op.y = must(graph.activation("y", dtype, batched(rows, out)));
    if (has(Extra::activation)) op.epilogue.activation = graph::Activation::silu;
    if (has(Extra::gate)) op.epilogue.end = graph::Epilogue::End::gate;
    if (has(Extra::residual)) op.epilogue = op.epilogue.plus(must(graph.input("residual", dtype, batched(rows, out))));
    if (has(Extra::rms_norm)) op.prologue = {.kind = graph::Prologue::Kind::rms_norm, .eps = 1e-5f};
    return op;
}

/// A GPU and a device that is a CPU, with all that kernels need and with nothing.
std::vector<vulkan::Capabilities> imagined_devices() {
    std::vector<vulkan::Capabilities> devices;
    for (const char* type : {"discrete", "cpu"})
        for (const bool has_all : {true, false}) {
            vulkan::Capabilities device;
            device.type = type;
            device.storage16 = device.float16 = device.integer_dot = device.int64 = has_all;
            device.subgroup_arithmetic = device.subgroup_shuffle = device.buffer_addresses = has_all;
            device.subgroup_size = 8;
            device.max_workgroup_invocations = 1024;
            device.max_shared_memory_bytes = 32768;
            device.max_workgroup_count = {65535, 65535, 65535};
            devices.push_back(device);
        }
    return devices;
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
                        const graph::Op op = product_with(graph, extras, rows, in, dtype);
                        CAPTURE(device.type, device.storage16, extras, to_string(dtype), rows, in);
                        CHECK(graph::extras_of(graph, op) == extras);
                        CHECK(vulkan::KernelFusions(device).takes(graph, op) ==
                              graph::stepwise_fusions().takes(graph, op));
                    }
        }
}

TEST_CASE("every kind of extra is taken by a kernel that says so", "[plan][fusion]") {
    std::uint32_t taken = 0;
    for (const vulkan::OpKernels& all : vulkan::kernel_catalogue())
        for (const vulkan::KernelTraits* kernel : all.kernels)
            for (const std::uint32_t set : kernel->takes) taken |= set;
    CHECK(taken == bits_of(Extra::activation, Extra::residual, Extra::gate, Extra::rms_norm, Extra::batch));
}

}  // namespace
}  // namespace vkformer::tests
