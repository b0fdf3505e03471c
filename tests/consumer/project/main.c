/* Uses the C interface as a program would: C99, no Vulkan device, a model that is not there. */
#include <stdio.h>
#include <string.h>

#include <vkformer/vkformer.h>

int main(void) {
    vkf_graph* graph = NULL;
    vkf_value value = 0;
    const uint64_t no_shape[] = {0};
    printf("vkformer %u.%u.%u\n", VK_API_VERSION_MAJOR(vkf_version()), VK_API_VERSION_MINOR(vkf_version()),
           VK_API_VERSION_PATCH(vkf_version()));
    if (strcmp(vkf_result_string(VKF_ERROR_DEVICE_LOST), "VKF_ERROR_DEVICE_LOST") != 0) return 1;
    if (vkf_graph_create(&graph) != VKF_SUCCESS) return 1;
    const vkf_result result = vkf_graph_input(graph, "x", VKF_F32, 1, no_shape, &value);
    printf("%s: %s\n", vkf_result_string(result), vkf_error_message());
    vkf_graph_destroy(graph);
    return result < 0 && vkf_error_message()[0] != '\0' ? 0 : 1;
}
