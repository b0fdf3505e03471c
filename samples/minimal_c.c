/* SPDX-License-Identifier: MIT */
/* Attention on three tensors, softmax(query · keyᵀ / sqrt(dim)) · value, on whatever Vulkan device there is. */
#include <stdio.h>
#include <vkformer/vkformer.h>

int main(void) {
    const uint64_t shape[] = {1, 3, 1, 4}; /* batch, tokens, heads, head_dim */
    const float query[] = {0, 99, 0, 0, /**/ 0, 0, 99, 0, /**/ 99, 0, 0, 0};
    const float key[] = {1, 0, 0, 0, /**/ 0, 1, 0, 0, /**/ 0, 0, 1, 0};
    const float value[] = {1, 2, 3, 4, /**/ 5, 6, 7, 8, /**/ 9, 10, 11, 12};
    float result[12];

    vkf_device* device = NULL;
    vkf_graph* graph = NULL;
    vkf_program* program = NULL;
    vkf_value q, k, v, y;
    const int ok = vkf_device_create("auto", NULL, &device) >= 0 && vkf_graph_create(&graph) >= 0 &&
                   vkf_graph_input(graph, "query", VKF_F32, 4, shape, &q) >= 0 &&
                   vkf_graph_input(graph, "key", VKF_F32, 4, shape, &k) >= 0 &&
                   vkf_graph_input(graph, "value", VKF_F32, 4, shape, &v) >= 0 &&
                   vkf_graph_attention(graph, q, k, v, NULL, &y) >= 0 && vkf_graph_output(graph, y, "result") >= 0 &&
                   vkf_program_create(device, graph, NULL, &program) >= 0 &&
                   vkf_program_write(program, "query", query, sizeof query) >= 0 &&
                   vkf_program_write(program, "key", key, sizeof key) >= 0 &&
                   vkf_program_write(program, "value", value, sizeof value) >= 0 &&
                   vkf_program_submit(program, NULL, NULL) >= 0 &&
                   vkf_program_read(program, "result", result, sizeof result) >= 0;
    if (ok) {
        printf("%s\n", vkf_device_name(device));
        for (int i = 0; i < 12; ++i) printf("%g%s", result[i], i % 4 == 3 ? "\n" : " ");
    } else {
        fprintf(stderr, "%s\n", vkf_error_message());
    }
    vkf_program_destroy(program);
    vkf_graph_destroy(graph);
    vkf_device_destroy(device);
    return ok ? 0 : 1;
}
