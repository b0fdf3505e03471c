// SPDX-License-Identifier: MIT
// The C interface: which of the application's buffers hold which of a graph's outputs.
#include <cmath>
#include <cstring>

#include "support/backends.hpp"
#include "support/vkf_frames.hpp"

namespace vkformer::tests {
namespace {

constexpr std::size_t kBoundElements = 8, kBytes = 1024;
constexpr float kUntouched = -1;

/// relu(x), x f32 [2, 4], as the outputs "wide" [2, 4], "tall" [4, 2] and "deep" [2, 2, 2].
VkfGraph two_shapes(vkf_dtype dtype = VKF_F32) {
    const std::uint64_t wide[] = {2, 4}, tall[] = {4, 2}, deep[] = {2, 2, 2};
    vkf_graph* graph = nullptr;
    succeed(vkf_graph_create(&graph));
    VkfGraph made(graph);
    vkf_value x = 0, y = 0, z = 0, d = 0;
    succeed(vkf_graph_input(graph, "x", dtype, 2, wide, &x));
    succeed(vkf_graph_activation(graph, x, VKF_ACTIVATION_RELU, &y));
    succeed(vkf_graph_reshape(graph, y, 2, tall, &z));
    succeed(vkf_graph_output(graph, y, "wide"));
    succeed(vkf_graph_output(graph, z, "tall"));
    succeed(vkf_graph_reshape(graph, y, 3, deep, &d));
    succeed(vkf_graph_output(graph, d, "deep"));
    return made;
}

struct Host {
    HostApplication application;
    VkfDevice device;

    explicit Host(const std::string& index)
        : application({.device_index = index_of(index)}), device(adopt(application.lend(true))) {}

    /// A buffer of words that no run writes.
    auto untouched_buffer() {
        auto buffer = application.make_buffer(kBytes);
        std::vector<float> words(kBytes / sizeof(float), kUntouched);
        std::memcpy(buffer.mapped, words.data(), kBytes);
        return buffer;
    }

    /// Runs two_shapes() on 1 … 8.
    void run(std::vector<vkf_buffer_binding> bindings) {
        vkf_program_options options = VKF_PROGRAM_OPTIONS_INIT;
        options.buffers = bindings.data();
        options.buffer_count = static_cast<std::uint32_t>(bindings.size());
        vkf_program* program = nullptr;
        succeed(vkf_program_create(device.get(), two_shapes().get(), &options, &program));
        const VkfProgram made(program);
        std::vector<float> x(kBoundElements);
        for (std::size_t i = 0; i < kBoundElements; ++i) x[i] = static_cast<float>(i + 1);
        write_tensor(*program, "x", x);
        succeed(vkf_program_submit(program, nullptr, nullptr));
        CHECK(read_tensor<float>(*program, "wide") == x);
        CHECK(read_tensor<float>(*program, "tall") == x);
    }

    vkf_result refusal(std::vector<vkf_buffer_binding> bindings, vkf_dtype dtype = VKF_F32) {
        vkf_program_options options = VKF_PROGRAM_OPTIONS_INIT;
        options.buffers = bindings.data();
        options.buffer_count = static_cast<std::uint32_t>(bindings.size());
        vkf_program* program = nullptr;
        return vkf_program_create(device.get(), two_shapes(dtype).get(), &options, &program);
    }
};

std::vector<float> words_of(const auto& buffer, std::size_t count) {
    std::vector<float> words(count);
    std::memcpy(words.data(), buffer.mapped, count * sizeof(float));
    return words;
}

}  // namespace

TEST_CASE("strides of a reshaped output are those of its shape", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    Host host(GENERATE(from_range(vulkan_device_indices())));
    const auto buffer = host.untouched_buffer();
    const std::uint64_t strides[] = {8, 1};
    host.run({{"tall", buffer.handle, 0, kBytes, strides}});
    const auto found = words_of(buffer, 32);
    for (std::size_t row = 0; row < 4; ++row)
        for (std::size_t column = 0; column < 8; ++column) {
            CAPTURE(row, column);
            CHECK(found[row * 8 + column] == (column < 2 ? static_cast<float>(row * 2 + column + 1) : kUntouched));
        }
    CHECK(host.application.messages() == std::vector<std::string>{});
}

TEST_CASE("outputs that are one tensor in several shapes are all written", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    Host host(GENERATE(from_range(vulkan_device_indices())));
    const std::vector<float> expected = {1, 2, 3, 4, 5, 6, 7, 8, kUntouched};
    const std::size_t first = GENERATE(0u, 1u, 2u);
    const auto wide = host.untouched_buffer(), tall = host.untouched_buffer(), deep = host.untouched_buffer();
    std::vector<vkf_buffer_binding> bindings = {{"wide", wide.handle, 0, kBytes, nullptr},
                                                {"tall", tall.handle, 0, kBytes, nullptr},
                                                {"deep", deep.handle, 0, kBytes, nullptr}};
    std::swap(bindings[0], bindings[first]);
    host.run(bindings);
    CHECK(words_of(wide, kBoundElements + 1) == expected);
    CHECK(words_of(tall, kBoundElements + 1) == expected);
    CHECK(words_of(deep, kBoundElements + 1) == expected);
    CHECK(host.application.messages() == std::vector<std::string>{});

    CHECK(host.refusal(bindings, VKF_F16) == VKF_ERROR_UNSUPPORTED_DTYPE);
    bindings[1].size = 4 * (kBoundElements - 1);
    CHECK(host.refusal(bindings) == VKF_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("a tensor is bound once", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    Host host(vulkan_device_indices().front());
    const auto buffer = host.untouched_buffer(), other = host.untouched_buffer();
    for (const char* name : {"x", "tall"}) {
        CHECK(host.refusal({{name, buffer.handle, 0, kBytes, nullptr}, {name, other.handle, 0, kBytes, nullptr}}) ==
              VKF_ERROR_INVALID_ARGUMENT);
        CHECK(std::string(vkf_error_message()) ==
              "\"" + std::string(name) + "\" is bound twice; give it one buffer or image");
    }
}

TEST_CASE("attention weights need a name that no other tensor has", "[api][c][guest]") {
    const std::uint64_t shape[] = {1, 3, 2, 8};
    vkf_graph* made = nullptr;
    succeed(vkf_graph_create(&made));
    const VkfGraph graph(made);
    vkf_value x = 0, y = 0, z = 0;
    succeed(vkf_graph_input(made, "x", VKF_F32, 4, shape, &x));
    vkf_attention_options options = VKF_ATTENTION_OPTIONS_INIT;
    options.weights_output = "x";
    CHECK(vkf_graph_attention(made, x, x, x, &options, &y) == VKF_ERROR_INVALID_ARGUMENT);
    options.weights_output = "weights";
    succeed(vkf_graph_attention(made, x, x, x, &options, &y));
    CHECK(vkf_graph_attention(made, y, x, x, &options, &z) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkf_error_message()) == "the graph already has a tensor named weights");
    CHECK(vkf_graph_output(made, y, "weights") == VKF_ERROR_INVALID_ARGUMENT);
    options.weights_output = "other";
    succeed(vkf_graph_attention(made, y, x, x, &options, &z));
}

}  // namespace vkformer::tests
