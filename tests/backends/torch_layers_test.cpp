// SPDX-License-Identifier: MIT
// Layer norm, activations, positions and whole nn.Transformer models against PyTorch (tests/goldens/make_torch.py).
#include <cmath>

#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Activation;
using graph::AttentionMask;
using graph::Value;

TEST_CASE("layer_norm is PyTorch's", "[golden][layer_norm]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const int width = GENERATE(1, 7, 64, 129);
    CAPTURE(backend.name(), width);
    const Golden golden("torch/layer_norm_" + std::to_string(width) + ".safetensors");
    OpCase c;
    const auto input = [&](const std::string& name) {
        return c.floats(name, DType::f32, golden.shape(name), golden.floats(name));
    };
    const Value y =
        c.expect(graph::layer_norm(c.graph, input("x"), input("weight"), input("bias"), golden.floats("eps")[0]));
    const std::vector<double> found = c.run_doubles(backend, y);
    // rows stand 10 standard deviations from zero: x − mean loses a digit, which only float32 notices
    const double bound = is_double(backend) ? kDoubleBound : kLayerBound;
    CHECK(relative_error<double, double>(found, golden.doubles("output")) < bound);
    CHECK(worst_element_error<double, double>(found, golden.doubles("output")) < 4 * bound);
}

TEST_CASE("activations and log_softmax are PyTorch's", "[golden][activate]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const Golden golden("torch/activations.safetensors");
    const double bound = is_double(backend) ? kDoubleBound : kLayerBound;
    for (const auto& [name, activation] :
         {std::pair{"relu", Activation::relu}, std::pair{"gelu_erf", Activation::gelu_erf},
          std::pair{"gelu_tanh", Activation::gelu_tanh}, std::pair{"silu", Activation::silu}}) {
        CAPTURE(name);
        OpCase c;
        const Value x = c.floats("x", DType::f32, golden.shape("x"), golden.floats("x"));
        const Value y = c.expect(graph::activate(c.graph, x, activation));
        const std::vector<double> found = c.run_doubles(backend, y);
        CHECK(relative_error<double, double>(found, golden.doubles(name)) < bound);
        CHECK(worst_element_error<double, double>(found, golden.doubles(name)) < bound);
    }
    OpCase c;
    const Value x = c.floats("x", DType::f32, {1, golden.shape("x")[0]}, golden.floats("x"));
    const Value y = c.expect(graph::log_softmax(c.graph, x));
    CHECK(relative_error<double, double>(c.run_doubles(backend, y), golden.doubles("log_softmax")) < bound);
}

TEST_CASE("the tables of positions are the paper's and Marian's", "[golden][positions]") {
    const int width = GENERATE(6, 21, 64);
    CAPTURE(width);
    const Golden golden("torch/positions.safetensors");
    const auto check = [&](const std::string& name, graph::SinusoidLayout layout, double bound) {
        const TensorData table = graph::sinusoidal_table(50, static_cast<std::uint64_t>(width), layout);
        REQUIRE(table.shape == golden.shape(name));
        std::vector<float> found(table.shape.element_count());
        must(convert(table.dtype, table.bytes, 0, std::span(found)));
        CHECK(worst_element_error<float, double>(found, golden.doubles(name)) <= bound);
    };
    const std::string suffix = "." + std::to_string(width);
    check("interleaved" + suffix, graph::SinusoidLayout::interleaved, 0x1p-25);  // rounded once, to float
    check("halves" + suffix, graph::SinusoidLayout::halves, 0x1p-25);
    check("halves_float32" + suffix, graph::SinusoidLayout::halves, 0);  // Hugging Face's own table, bit for bit
}

/// PyTorch's nn.Transformer out of the builders, weights by PyTorch's names.
class TorchTransformer {
public:
    TorchTransformer(const Golden& golden, bool norm_first, Activation activation)
        : golden_(golden), norm_first_(norm_first), activation_(activation) {}

    graph::Graph graph;

    Value encoder(Value x, const AttentionMask& padding) {
        for (int layer = 0; layer < 2; ++layer) {
            const std::string name = "encoder.layers." + std::to_string(layer) + ".";
            x = residual(name + "norm1", x, [&](Value h) { return attend(name + "self_attn.", h, h, padding); });
            x = residual(name + "norm2", x, [&](Value h) { return feed_forward(name, h); });
        }
        return norm("encoder.norm", x);
    }

    Value decoder(Value x, Value memory, const AttentionMask& padding) {
        for (int layer = 0; layer < 2; ++layer) {
            const std::string name = "decoder.layers." + std::to_string(layer) + ".";
            x = residual(name + "norm1", x,
                         [&](Value h) { return attend(name + "self_attn.", h, h, {.causal = true}); });
            x = residual(name + "norm2", x,
                         [&](Value h) { return attend(name + "multihead_attn.", h, memory, padding); });
            x = residual(name + "norm3", x, [&](Value h) { return feed_forward(name, h); });
        }
        return norm("decoder.norm", x);
    }

private:
    static constexpr std::uint64_t kWidth = 24, kHeads = 3, kHeadDim = kWidth / kHeads;

    Value weight(const std::string& name) {
        return must(graph.weight(name, golden_.tensor("model." + name), DType::f32));
    }

    /// One of the three that an in_proj tensor holds one after the other.
    Value third(const std::string& name, std::size_t part) {
        TensorData data = golden_.tensor("model." + name);
        data.bytes = data.bytes.subspan(part * data.bytes.size() / 3, data.bytes.size() / 3);
        data.shape = data.shape.rank() == 1 ? Shape{kWidth} : Shape{kWidth, kWidth};
        return must(graph.weight(name + "." + std::to_string(part), data, DType::f32));
    }

    Value norm(const std::string& name, Value x) {
        return must(graph::layer_norm(graph, x, weight(name + ".weight"), weight(name + ".bias"), 1e-5f));
    }

    Value residual(const std::string& norm_name, Value x, auto&& block) {
        if (norm_first_) return must(graph::add(graph, x, block(norm(norm_name, x))));
        return norm(norm_name, must(graph::add(graph, x, block(x))));
    }

    Value feed_forward(const std::string& name, Value x) {
        const Value wide =
            must(graph::linear(graph, x, weight(name + "linear1.weight"), weight(name + "linear1.bias")));
        const Value active = must(graph::activate(graph, wide, activation_));
        return must(graph::linear(graph, active, weight(name + "linear2.weight"), weight(name + "linear2.bias")));
    }

    Value attend(const std::string& name, Value query_from, Value memory, const AttentionMask& mask) {
        const auto heads = [&](Value x, std::size_t part) {
            const Value projected =
                must(graph::linear(graph, x, third(name + "in_proj_weight", part), third(name + "in_proj_bias", part)));
            const Shape shape = graph.shape(x);
            return must(graph.reshape(projected, {shape[0], shape[1], kHeads, kHeadDim}));
        };
        const Value query = heads(query_from, 0), key = heads(memory, 1), value = heads(memory, 2);
        const float scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
        const Value mixed = must(graph::attention(graph, query, key, value, mask, scale));
        const Value joined = must(graph.reshape(mixed, graph.shape(query_from)));
        return must(graph::linear(graph, joined, weight(name + "out_proj.weight"), weight(name + "out_proj.bias")));
    }

    const Golden& golden_;
    bool norm_first_;
    Activation activation_;
};

TEST_CASE("whole Transformers are PyTorch's, fused and not", "[golden][transformer]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool norm_first = GENERATE(false, true);
    const Activation activation = GENERATE(Activation::relu, Activation::gelu_erf);
    const bool fuse = GENERATE(false, true);
    const std::string name = std::string("torch/transformer_") + (norm_first ? "pre" : "post") + "_norm_" +
                             (activation == Activation::relu ? "relu" : "gelu") + ".safetensors";
    CAPTURE(backend.name(), name, fuse);
    const Golden golden(name);

    TorchTransformer model(golden, norm_first, activation);
    const Value src = must(model.graph.input("src", DType::f32, golden.shape("src")));
    const Value tgt = must(model.graph.input("tgt", DType::f32, golden.shape("tgt")));
    const Value lengths = must(model.graph.input("lengths", DType::i32, {2}));
    const Value memory = model.encoder(src, {.key_lengths = lengths});
    const Value output = model.decoder(tgt, memory, {.key_lengths = lengths});
    model.graph.mark_output(memory);
    model.graph.mark_output(output);

    auto program = must(
        backend.compile(graph::make_plan(model.graph, {.fuse = fuse}), backend.make_store(), backend.make_store()));
    must(program->write(src, golden.floats("src")));
    must(program->write(tgt, golden.floats("tgt")));
    must(program->write(lengths, std::vector<std::int32_t>{7, 4}));
    must(program->submit());
    must(program->wait());
    const double bound = is_double(backend) ? kRoundedAttributeBound : kModelBound;
    for (const auto& [value, golden_name] : {std::pair{memory, "memory"}, std::pair{output, "output"}}) {
        CAPTURE(golden_name);
        std::vector<double> found(model.graph.shape(value).element_count());
        must(program->read(value, std::span(found)));
        CHECK(relative_error<double, double>(found, golden.doubles(golden_name)) < bound);
        CHECK(worst_element_error<double, double>(found, golden.doubles(golden_name)) < 4 * bound);
    }
}

}  // namespace
}  // namespace vkformer::tests
