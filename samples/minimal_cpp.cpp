// SPDX-License-Identifier: MIT
// Attention on three tensors, softmax(query · keyᵀ / sqrt(dim)) · value, on whatever Vulkan device there is: the C interface from C++.
#include <vkformer/vkformer.h>

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace {

/// A handle that destroys itself: Handle<vkf_device, vkf_device_destroy>.
template <class T, void (*Destroy)(T*)>
using Handle = std::unique_ptr<T, decltype([](T* handle) { Destroy(handle); })>;

void check(vkf_result result) {
    if (result < 0) throw std::runtime_error(vkf_error_message());
}

}  // namespace

int main() try {
    vkf_device* device = nullptr;
    check(vkf_device_create("auto", nullptr, &device));
    const Handle<vkf_device, vkf_device_destroy> device_owner(device);
    vkf_graph* graph = nullptr;
    check(vkf_graph_create(&graph));
    const Handle<vkf_graph, vkf_graph_destroy> graph_owner(graph);

    constexpr std::array<std::uint64_t, 4> kShape = {1, 3, 1, 4};  // batch, tokens, heads, head_dim
    vkf_value query = 0, key = 0, value = 0, result = 0;
    check(vkf_graph_input(graph, "query", VKF_F32, 4, kShape.data(), &query));
    check(vkf_graph_input(graph, "key", VKF_F32, 4, kShape.data(), &key));
    check(vkf_graph_input(graph, "value", VKF_F32, 4, kShape.data(), &value));
    check(vkf_graph_attention(graph, query, key, value, nullptr, &result));
    check(vkf_graph_output(graph, result, "result"));
    vkf_program* program = nullptr;
    check(vkf_program_create(device, graph, nullptr, &program));  // compiles, allocates; runs any number of times
    const Handle<vkf_program, vkf_program_destroy> program_owner(program);

    const std::array<float, 12> q = {0, 99, 0, 0, 0, 0, 99, 0, 99, 0, 0, 0}, k = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0},
                                v = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    std::array<float, 12> y;
    check(vkf_program_write(program, "query", q.data(), sizeof q));
    check(vkf_program_write(program, "key", k.data(), sizeof k));
    check(vkf_program_write(program, "value", v.data(), sizeof v));
    check(vkf_program_submit(program, nullptr, nullptr));
    check(vkf_program_read(program, "result", y.data(), sizeof y));
    for (std::size_t i = 0; i < y.size(); ++i) std::printf("%g%s", y[i], i % 4 == 3 ? "\n" : " ");
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
