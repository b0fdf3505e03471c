// SPDX-License-Identifier: MIT
// The C interface: the ops of graphs, weights that are constants of any format, and which variants run.
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "core/block_format.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/vkf.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using Doubles = std::vector<double>;

std::vector<float> sines(std::size_t count, double step) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
    return values;
}

/// A graph that grows by the functions of the C interface.
class GraphUnderTest {
public:
    GraphUnderTest() {
        vkf_graph* made = nullptr;
        succeed(vkf_graph_create(&made));
        graph_.reset(made);
    }
    vkf_graph* get() const { return graph_.get(); }

    vkf_value input(const char* name, std::vector<std::uint64_t> shape, vkf_dtype dtype = VKF_F32) {
        vkf_value value = 0;
        succeed(vkf_graph_input(get(), name, dtype, static_cast<std::uint32_t>(shape.size()), shape.data(), &value));
        return value;
    }
    template <class T>
    vkf_value constant(const char* name, std::vector<std::uint64_t> shape, const std::vector<T>& data,
                       vkf_dtype dtype) {
        vkf_value value = 0;
        succeed(vkf_graph_constant(get(), name, dtype, static_cast<std::uint32_t>(shape.size()), shape.data(),
                                   data.data(), data.size() * sizeof(T), &value));
        return value;
    }
    void output(vkf_value value) { succeed(vkf_graph_output(get(), value, "y")); }

private:
    VkfGraph graph_;
};

/// What a function adds to the graph.
vkf_value made(auto function, const GraphUnderTest& graph, auto... arguments) {
    vkf_value value = 0;
    succeed(function(graph.get(), arguments..., &value));
    return value;
}

std::vector<float> run(vkf_device& device, const GraphUnderTest& graph,
                       const std::function<void(vkf_program&)>& write) {
    vkf_program* compiled = nullptr;
    succeed(vkf_program_create(&device, graph.get(), nullptr, &compiled));
    const VkfProgram program(compiled);
    write(*program);
    std::uint64_t ticket = 0;
    succeed(vkf_program_submit(program.get(), nullptr, &ticket));
    succeed(vkf_device_wait(&device, ticket, UINT64_MAX));
    return read_tensor<float>(*program, "y");
}

void check_near(const std::vector<float>& found, const Doubles& expected) {
    const Doubles wide(found.begin(), found.end());
    REQUIRE(wide.size() == expected.size());
    CHECK(relative_error(std::span<const double>(wide), std::span<const double>(expected)) < 1e-5);
}

std::vector<vkf_node> nodes_of(const vkf_program& program) {
    std::uint32_t count = 0;
    succeed(vkf_program_nodes(&program, &count, nullptr));
    std::vector<vkf_node> nodes(count);
    succeed(vkf_program_nodes(&program, &count, nodes.data()));
    return nodes;
}

void check_refused(vkf_result result, const std::string& words, vkf_result code = VKF_ERROR_INVALID_ARGUMENT) {
    const std::string message = vkf_error_message();
    CHECK(result == code);
    CHECK_THAT(message, ContainsSubstring(words));
}

constexpr std::array kFormats = {VKF_BF16,   VKF_Q8_0,  VKF_Q4_0, VKF_Q4_1, VKF_Q5_0, VKF_Q5_1,
                                 VKF_IQ4_NL, VKF_MXFP4, VKF_Q4_K, VKF_Q5_K, VKF_Q6_K};

}  // namespace

TEST_CASE("elementwise ops, softmax and concat through the C interface", "[api][c]") {
    const std::string index = GENERATE(from_range(device_names()));
    const VkfDevice device = own_device(index);
    CAPTURE(vkf_device_name(device.get()));
    const std::vector<float> x = sines(2 * 6, 0.7), z = sines(2 * 6, 0.3);
    GraphUnderTest graph;
    const vkf_value a = graph.input("a", {2, 6}), b = graph.input("b", {2, 6});
    const vkf_value gated = made(vkf_graph_gated_activation, graph, a, b, VKF_ACTIVATION_SIGMOID);
    const vkf_value halves = made(vkf_graph_gated_activation, graph, a, vkf_value{0}, VKF_ACTIVATION_NONE);
    const vkf_value capped = made(vkf_graph_soft_cap, graph, gated, 0.5f);
    const vkf_value weights = made(vkf_graph_softmax, graph, b);
    const vkf_value left = made(vkf_graph_concat, graph, capped, weights);
    graph.output(made(vkf_graph_concat, graph, left, halves));
    const std::vector<float> found = run(*device, graph, [&](vkf_program& program) {
        write_tensor(program, "a", x);
        write_tensor(program, "b", z);
    });
    Doubles expected;
    for (std::size_t row = 0; row < 2; ++row) {
        const auto at = [&](const std::vector<float>& v, std::size_t i) { return static_cast<double>(v[row * 6 + i]); };
        for (std::size_t i = 0; i < 6; ++i)
            expected.push_back(0.5 * std::tanh(at(z, i) / (1 + std::exp(-at(x, i))) / 0.5));
        double sum = 0;
        for (std::size_t i = 0; i < 6; ++i) sum += std::exp(at(z, i));
        for (std::size_t i = 0; i < 6; ++i) expected.push_back(std::exp(at(z, i)) / sum);
        for (std::size_t i = 0; i < 3; ++i) expected.push_back(at(x, i) * at(x, i + 3));
    }
    check_near(found, expected);
}

TEST_CASE("embedding and rope through the C interface", "[api][c]") {
    const std::string index = GENERATE(from_range(device_names()));
    const auto pairing = GENERATE(VKF_ROPE_HALVES, VKF_ROPE_INTERLEAVED);
    const VkfDevice device = own_device(index);
    CAPTURE(vkf_device_name(device.get()), pairing);
    const std::vector<float> table = sines(5 * 8, 0.9), angles = sines(8 * 4, 0.2);
    const std::vector<std::int32_t> tokens = {4, 0, 2}, starts = {3};
    GraphUnderTest graph;
    const vkf_value rows = made(vkf_graph_embedding, graph, graph.input("tokens", {1, 3}, VKF_I32),
                                graph.constant("table", {5, 8}, table, VKF_F32), 2.0f);
    vkf_value heads = 0;
    constexpr std::uint64_t kHeads[] = {1, 3, 1, 8};
    succeed(vkf_graph_reshape(graph.get(), rows, 4, kHeads, &heads));
    graph.output(made(vkf_graph_rope, graph, heads, graph.input("angles", {8, 4}),
                      graph.constant("starts", {1}, starts, VKF_I32), pairing));
    const std::vector<float> found = run(*device, graph, [&](vkf_program& program) {
        write_tensor(program, "tokens", tokens);
        write_tensor(program, "angles", angles);
    });
    Doubles expected;
    for (std::size_t i = 0; i < 3; ++i) {
        Doubles head;
        for (std::size_t d = 0; d < 8; ++d)
            head.push_back(2 * static_cast<double>(table[static_cast<std::size_t>(tokens[i]) * 8 + d]));
        const float* const row = &angles[(i + 3) * 4];
        for (std::size_t k = 0; k < 2; ++k) {
            const std::size_t u = pairing == VKF_ROPE_HALVES ? k : 2 * k;
            const std::size_t v = pairing == VKF_ROPE_HALVES ? k + 2 : 2 * k + 1;
            const double cosine = row[k], sine = row[k + 2], first = head[u], second = head[v];
            head[u] = first * cosine - second * sine;
            head[v] = second * cosine + first * sine;
        }
        expected.insert(expected.end(), head.begin(), head.end());
    }
    check_near(found, expected);
}

TEST_CASE("attention with starts and a bias, whole and in parts, through the C interface", "[api][c]") {
    const std::string index = GENERATE(from_range(device_names()));
    const std::uint32_t split_keys = GENERATE(0u, 2u);
    const VkfDevice device = own_device(index);
    CAPTURE(vkf_device_name(device.get()), split_keys);
    constexpr std::size_t kKeys = 5, kDim = 8;
    const std::vector<float> q = sines(kDim, 0.4), k = sines(kKeys * kDim, 0.7), v = sines(kKeys * kDim, 1.1);
    const std::vector<float> bias = {0.5f, -1, 0, 2, 1};
    GraphUnderTest graph;
    vkf_attention_options options = VKF_ATTENTION_OPTIONS_INIT;
    options.causal = VK_TRUE;
    options.split_keys = split_keys;
    options.starts = graph.input("starts", {1}, VKF_I32);
    options.bias = graph.input("bias", {1, 1, 1, kKeys});
    const vkf_value query = graph.input("q", {1, 1, 1, kDim}), key = graph.input("k", {1, kKeys, 1, kDim});
    const vkf_value value = graph.input("v", {1, kKeys, 1, kDim});
    graph.output(made(vkf_graph_attention, graph, query, key, value, &options));
    const std::vector<float> found = run(*device, graph, [&](vkf_program& program) {
        write_tensor(program, "q", q);
        write_tensor(program, "k", k);
        write_tensor(program, "v", v);
        write_tensor(program, "bias", bias);
        write_tensor(program, "starts", std::vector<std::int32_t>{3});  // the last key is not seen
    });
    Doubles expected(kDim, 0);
    double sum = 0;
    for (std::size_t j = 0; j < kKeys - 1; ++j) {
        double score = 0;
        for (std::size_t d = 0; d < kDim; ++d)
            score += static_cast<double>(q[d]) * static_cast<double>(k[j * kDim + d]);
        const double weight = std::exp(score / std::sqrt(8.0) + static_cast<double>(bias[j]));
        sum += weight;
        for (std::size_t d = 0; d < kDim; ++d) expected[d] += weight * static_cast<double>(v[j * kDim + d]);
    }
    for (double& element : expected) element /= sum;
    check_near(found, expected);
}

TEST_CASE("weights in every format of the C interface", "[api][c]") {
    constexpr std::size_t kOut = 3, kIn = 256;
    const std::vector<float> numbers = sines(kOut * kIn, 0.31), x = sines(kIn, 0.17);
    const auto format = GENERATE(from_range(kFormats));
    CAPTURE(vkf_dtype_string(format));
    std::size_t bytes = 0;
    succeed(vkf_quantize(format, numbers.size(), nullptr, &bytes, nullptr));
    std::vector<std::uint8_t> data(bytes);
    succeed(vkf_quantize(format, numbers.size(), numbers.data(), &bytes, data.data()));
    std::vector<float> meant(numbers.size());
    succeed(vkf_dequantize(format, bytes, data.data(), meant.size(), meant.data()));
    const Doubles wide(meant.begin(), meant.end()), exact(numbers.begin(), numbers.end());
    CHECK(relative_error(std::span<const double>(wide), std::span<const double>(exact)) < 0.12);

    Doubles expected;
    for (std::size_t row = 0; row < kOut; ++row) {
        double sum = 0;
        for (std::size_t i = 0; i < kIn; ++i)
            sum += static_cast<double>(meant[row * kIn + i]) * static_cast<double>(x[i]);
        expected.push_back(sum);
    }
    for (const std::string& index : device_names()) {
        // The CPU rounds rows to 8 bits beside quantised weights, but for the plain variants.
        vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
        options.variants = VKF_VARIANTS_PLAIN;
        const VkfDevice device = own_device(index, &options);
        CAPTURE(vkf_device_name(device.get()));
        for (const bool is_given_as_numbers : {true, false}) {
            GraphUnderTest graph;
            constexpr std::uint64_t kShape[] = {kOut, kIn};
            vkf_value weight = 0;
            if (is_given_as_numbers)
                succeed(vkf_graph_weight(graph.get(), "w", format, 2, kShape, numbers.data(), &weight));
            else
                weight = graph.constant("w", {kOut, kIn}, data, format);
            vkf_tensor tensor = VKF_TENSOR_INIT;
            succeed(vkf_graph_query(graph.get(), weight, &tensor));
            CHECK(tensor.dtype == format);
            CHECK(tensor.rank == 2);
            CHECK(tensor.shape[1] == kIn);
            CHECK(tensor.bytes == bytes);
            graph.output(made(vkf_graph_linear, graph, graph.input("x", {1, kIn}), weight, vkf_value{0}));
            check_near(run(*device, graph, [&](vkf_program& program) { write_tensor(program, "x", x); }), expected);
        }
    }
}

TEST_CASE("weights of the C interface that are refused", "[api][c][errors]") {
    const GraphUnderTest graph;
    const std::vector<float> numbers(64);
    constexpr std::uint64_t kShape[] = {2, 32}, kOdd[] = {2, 31};
    vkf_value value = 0;
    const auto constant = [&](vkf_dtype dtype, const std::uint64_t* shape, std::size_t bytes) {
        return vkf_graph_constant(graph.get(), "w", dtype, 2, shape, numbers.data(), bytes, &value);
    };
    check_refused(constant(VKF_F32, kShape, 255), "has 256 bytes, not 255", VKF_ERROR_SHAPE_MISMATCH);
    check_refused(constant(VKF_Q8_0, kShape, 256), "has 68 bytes, not 256", VKF_ERROR_SHAPE_MISMATCH);
    check_refused(constant(VKF_Q8_0, kOdd, 64), "no whole blocks of q8_0");
    check_refused(constant(VKF_DTYPE_MAX_ENUM, kShape, 256), "vkf_dtype", VKF_ERROR_UNSUPPORTED_DTYPE);
    check_refused(vkf_graph_weight(graph.get(), "w", VKF_Q4_K, 2, kShape, numbers.data(), &value), "no whole blocks");
    check_refused(vkf_graph_input(graph.get(), "x", VKF_Q8_0, 2, kShape, &value), "q8_0", VKF_ERROR_UNSUPPORTED_DTYPE);

    std::size_t bytes = 33;
    std::array<std::uint8_t, 68> data{};
    std::array<float, 32> found{};
    check_refused(vkf_quantize(VKF_F16, 32, numbers.data(), &bytes, data.data()), "f16 is no format of weights alone",
                  VKF_ERROR_UNSUPPORTED_DTYPE);
    check_refused(vkf_quantize(VKF_Q8_0, 33, numbers.data(), &bytes, data.data()), "33 numbers are no whole blocks");
    check_refused(vkf_quantize(VKF_Q8_0, 32, numbers.data(), &bytes, data.data()), "data has 33 bytes, expected 34");
    check_refused(vkf_quantize(VKF_Q8_0, 32, nullptr, &bytes, data.data()), "required");
    for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38f}) {
        auto changed = numbers;
        changed[9] = odd;
        for (const vkf_dtype format : {VKF_BF16, VKF_Q8_0, VKF_Q4_0, VKF_IQ4_NL, VKF_MXFP4}) {
            CAPTURE(odd, vkf_dtype_string(format));
            bytes = data.size();
            // 3e38 is a bfloat16, and an E8M0 scale, and no float16 scale
            if (odd == 3e38f && (format == VKF_BF16 || format == VKF_MXFP4))
                CHECK(vkf_quantize(format, 32, changed.data(), &bytes, data.data()) == VKF_SUCCESS);
            else
                check_refused(vkf_quantize(format, 32, changed.data(), &bytes, data.data()), "a number is not finite");
        }
    }
    check_refused(vkf_dequantize(VKF_Q8_0, 35, data.data(), 32, found.data()), "have 34 bytes, not 35");
    check_refused(vkf_dequantize(VKF_Q8_0, 34, nullptr, 32, found.data()), "required");
    check_refused(vkf_graph_find(graph.get(), "w", &value), "no input or output is called \"w\"");
    vkf_tensor tensor = VKF_TENSOR_INIT;
    check_refused(vkf_graph_query(graph.get(), 7, &tensor), "vkf_value 7");
}

TEST_CASE("a program of the C interface says which variants run, and takes those that are named", "[api][c]") {
    const auto compiled = [](vkf_device& device) {
        GraphUnderTest graph;
        const vkf_value x = graph.input("x", {4, 64});
        graph.output(made(vkf_graph_layer_norm, graph, x, graph.constant("gain", {64}, sines(64, 1), VKF_F32),
                          vkf_value{0}, 1e-5f));
        vkf_program* program = nullptr;
        succeed(vkf_program_create(&device, graph.get(), nullptr, &program));
        return VkfProgram(program);
    };
    const VkfDevice cpu = own_device("cpu");
    const VkfProgram on_cpu = compiled(*cpu);  // the names are its own
    CHECK(std::string(nodes_of(*on_cpu).at(0).variant).empty());

    std::string reference;  // which fits every shape
    for (const vulkan::OpKernels& all : vulkan::kernel_catalogue())
        for (const vulkan::KernelTraits* kernel : all.kernels)
            if (all.op == "layer_norm" && kernel->is_reference) reference = kernel->name;
    vkf_variant named = {"layer_norm", reference.c_str()};
    vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
    options.named_variants = &named;
    options.named_variant_count = 1;
    vkf_device* none = nullptr;
    check_refused(vkf_device_create("cpu", &options, &none), "named_variants is for Vulkan devices");
    for (const std::string& index : vulkan_device_indices()) {
        const VkfDevice device = own_device(index, &options);
        const VkfProgram program = compiled(*device);
        const auto nodes = nodes_of(*program);
        REQUIRE(nodes.size() == 1);
        CHECK(std::string(nodes[0].op) == "layer_norm");
        CHECK(std::string(nodes[0].variant) == named.variant);
        named.variant = "no such variant";
        check_refused(vkf_device_create(index.c_str(), &options, &none), "layer_norm has no variant");
        named = {nullptr, reference.c_str()};
        check_refused(vkf_device_create(index.c_str(), &options, &none), "op and variant are both required");
        named = {"layer_norm", reference.c_str()};
        options.named_variants = nullptr;
        check_refused(vkf_device_create(index.c_str(), &options, &none), "named_variants is null");
        const std::array twice = {named, named};
        options.named_variants = twice.data();
        options.named_variant_count = 2;
        check_refused(vkf_device_create(index.c_str(), &options, &none), "layer_norm has two variants");
        options.named_variants = &named;
        options.named_variant_count = 1;
        const VkfDevice by_default = own_device(index);
        const VkfProgram chosen = compiled(*by_default);
        CHECK(!std::string(nodes_of(*chosen).at(0).variant).empty());
    }
    CHECK(none == nullptr);
}

}  // namespace vkformer::tests
