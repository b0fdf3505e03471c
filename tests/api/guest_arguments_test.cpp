// SPDX-License-Identifier: MIT
// What the C interface refuses: arguments that are missing, doubled or out of order.
#include <string>

#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/vkf_frames.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;

/// The call is refused with that code and a message that has the words.
void check_call_refused(vkf_result result, const std::string& words, vkf_result code = VKF_ERROR_INVALID_ARGUMENT) {
    const std::string message = vkf_error_message();
    CHECK(result == code);
    CHECK_THAT(message, ContainsSubstring(words));
}

/// y = x + x of four floats.
VkfGraph sum_graph() {
    vkf_graph* graph = nullptr;
    succeed(vkf_graph_create(&graph));
    VkfGraph owner(graph);
    constexpr std::uint64_t kExtents[] = {4};
    vkf_value x = 0, y = 0;
    succeed(vkf_graph_input(graph, "x", VKF_F32, 1, kExtents, &x));
    succeed(vkf_graph_add(graph, x, x, &y));
    succeed(vkf_graph_output(graph, y, "y"));
    return owner;
}

}  // namespace

TEST_CASE("a graph of the C interface refuses what it cannot name or hold", "[api][c][errors]") {
    const VkfGraph graph = sum_graph();
    constexpr std::uint64_t kExtents[VKF_MAX_RANK + 1] = {1, 1, 1, 1, 1};
    vkf_value value = 0, y = 0;
    for (const std::uint32_t rank : {0u, VKF_MAX_RANK + 1u})
        check_call_refused(vkf_graph_input(graph.get(), "z", VKF_F32, rank, kExtents, &value), "a shape has 1 to");
    check_call_refused(vkf_graph_input(graph.get(), "z", VKF_F32, 1, nullptr, &value), "a shape has 1 to");
    check_call_refused(vkf_graph_input(graph.get(), "", VKF_F32, 1, kExtents, &value), "needs a name");
    check_call_refused(vkf_graph_input(graph.get(), nullptr, VKF_F32, 1, kExtents, &value), "needs a name");
    check_call_refused(vkf_graph_input(graph.get(), "z", VKF_DTYPE_MAX_ENUM, 1, kExtents, &value), "vkf_dtype",
                       VKF_ERROR_UNSUPPORTED_DTYPE);
    check_call_refused(vkf_graph_add(graph.get(), 0, 1, &value), "vkf_value 0");
    check_call_refused(vkf_graph_add(graph.get(), 1, 3, &value), "vkf_value 3");
    check_call_refused(vkf_graph_activation(graph.get(), 1, VKF_ACTIVATION_MAX_ENUM, &value), "vkf_activation");
    check_call_refused(vkf_graph_output(graph.get(), 1, "x again"), "only what an op computes");
    succeed(vkf_graph_add(graph.get(), 1, 2, &y));
    check_call_refused(vkf_graph_output(graph.get(), y, "y"), "already has a tensor named y");
    check_call_refused(vkf_graph_output(graph.get(), y, "x"), "already has a tensor named x");
    check_call_refused(vkf_graph_add(graph.get(), 1, 2, nullptr), "required");
}

TEST_CASE("names of the C interface are UTF-8, and so are its messages", "[api][c][errors]") {
    const VkfGraph graph = sum_graph();
    constexpr std::uint64_t kExtents[] = {4};
    const float numbers[4] = {};
    vkf_value value = 0, y = 0;
    const std::string refusal = "the name of a tensor is not UTF-8";
    for (const char* const name : {"\xFF", "x\xC3", "\xED\xA0\x80", "\xC0\xAF"}) {
        check_call_refused(vkf_graph_input(graph.get(), name, VKF_F32, 1, kExtents, &value), refusal);
        check_call_refused(vkf_graph_weight(graph.get(), name, VKF_F32, 1, kExtents, numbers, &value), refusal);
        check_call_refused(
            vkf_graph_constant(graph.get(), name, VKF_F32, 1, kExtents, numbers, sizeof(numbers), &value), refusal);
        succeed(vkf_graph_add(graph.get(), 1, 2, &y));
        check_call_refused(vkf_graph_output(graph.get(), y, name), refusal);
    }
    succeed(vkf_graph_input(graph.get(), "größe", VKF_F32, 1, kExtents, &value));
    check_call_refused(vkf_graph_input(graph.get(), "größe", VKF_F32, 1, kExtents, &value), "tensor named größe");
    vkf_model* model = nullptr;
    vkf_device* device = nullptr;
    succeed(vkf_device_create("cpu", nullptr, &device));
    const VkfDevice owner(device);
    check_call_refused(vkf_model_load(device, "no \xFF \xC3\xA4 folder", &model), "no ? ?? folder",
                       VKF_ERROR_FILE_NOT_FOUND);
    check_call_refused(vkf_model_load(device, "no ä folder", &model), "no ä folder", VKF_ERROR_FILE_NOT_FOUND);
}

TEST_CASE("a program of the C interface refuses lists that are not there and bytes that are not all",
          "[api][c][errors]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    vkf_program* none = nullptr;
    vkf_program_options options = VKF_PROGRAM_OPTIONS_INIT;
    options.buffer_count = 1;
    check_call_refused(vkf_program_create(device.get(), sum_graph().get(), &options, &none), "buffers is null");
    options = VKF_PROGRAM_OPTIONS_INIT;
    options.image_count = 1;
    check_call_refused(vkf_program_create(device.get(), sum_graph().get(), &options, &none), "images is null");
    CHECK(none == nullptr);

    const VkfGraph graph = sum_graph();
    vkf_program* made = nullptr;
    succeed(vkf_program_create(device.get(), graph.get(), nullptr, &made));
    const VkfProgram program(made);
    check_call_refused(vkf_program_create(device.get(), graph.get(), nullptr, &none), "has become a program");
    vkf_value value = 0;
    check_call_refused(vkf_graph_add(graph.get(), 1, 1, &value), "has become a program");
    const float numbers[5] = {};
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{12}, std::size_t{20}})
        check_call_refused(vkf_program_write(program.get(), "x", numbers, bytes), "has 16 bytes",
                           VKF_ERROR_SHAPE_MISMATCH);
    check_call_refused(vkf_program_write(program.get(), "x", nullptr, 16), "data is required");

    const VkSemaphore semaphore = VK_NULL_HANDLE;
    const std::uint64_t number = 1;
    vkf_submit_info info = VKF_SUBMIT_INFO_INIT;
    const auto submit = [&] { return vkf_program_submit(program.get(), &info, nullptr); };
    info.wait_count = 1;
    check_call_refused(submit(), "a count without semaphores");
    info.wait_values = &number;
    check_call_refused(submit(), "a count without semaphores");
    info = VKF_SUBMIT_INFO_INIT;
    info.signal_count = 1;
    check_call_refused(submit(), "a count without semaphores");
    info.signal_semaphores = &semaphore;
    check_call_refused(submit(), "a count without semaphores");
}

TEST_CASE("an application's allocator needs both of its functions", "[api][c][errors]") {
    if (vulkan_device_indices().empty()) return;
    vkf_memory_callbacks callbacks{};
    vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
    options.memory = &callbacks;
    vkf_device* device = nullptr;
    const auto create = [&] { return vkf_device_create(vulkan_device_indices().back().c_str(), &options, &device); };
    callbacks.allocate = [](void*, const vkf_allocation_request*, vkf_allocation*) {
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    };
    check_call_refused(create(), "allocate and free are both required");
    callbacks = {};
    callbacks.free = [](void*, const vkf_allocation*) {};
    check_call_refused(create(), "allocate and free are both required");
    CHECK(device == nullptr);
}

TEST_CASE("a session is recorded or stepped, not both, and waits no longer than it is told",
          "[api][c][guest][session][errors]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    HostApplication host({.device_index = index_of(index)});
    const VkSemaphoreTypeCreateInfo type{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                         .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo create{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore semaphore = VK_NULL_HANDLE;
    REQUIRE(host.dvk.vkCreateSemaphore(host.device, &create, nullptr, &semaphore) == VK_SUCCESS);
    const auto signal_semaphore =
        reinterpret_cast<PFN_vkSignalSemaphore>(host.ivk.vkGetDeviceProcAddr(host.device, "vkSignalSemaphore"));
    {
        const VkfDevice device = adopt(host.lend(true));
        const VkfModel model = load_model(*device, (goldens_dir() / "decoders/llama_gqa_odd").string());
        const VkfSession session = make_session(*model);
        const VkCommandBuffer commands = host.make_commands();
        vkf_slice slice = VKF_SLICE_INIT;
        const auto record = [&] {
            host.begin(commands);
            const vkf_result result = vkf_session_record(session.get(), commands, 0, &slice);
            host.end(commands);
            return result;
        };
        begin(*session, {1, 2, 3}, 2);
        slice.struct_size = 0;
        check_call_refused(record(), "vkf_slice::struct_size is 0");
        CHECK(status_of(*session).outstanding == 0);  // and nothing is recorded
        slice = VKF_SLICE_INIT;
        succeed(record());
        check_call_refused(vkf_session_step(session.get(), 0, nullptr, &slice), "slices are outstanding (1)");
        succeed(vkf_session_cancel(session.get()));

        begin(*session, {1, 2, 3}, 2);
        const std::uint64_t go = 1;
        vkf_submit_info info = VKF_SUBMIT_INFO_INIT;
        info.wait_count = 1;
        info.wait_semaphores = &semaphore;
        info.wait_values = &go;
        succeed(vkf_session_step(session.get(), 0, &info, &slice));
        check_call_refused(record(), "recorded or stepped");
        CHECK(vkf_session_wait(session.get(), 0) == VKF_NOT_READY);
        CHECK(vkf_session_wait(session.get(), 1'000'000) == VKF_TIMEOUT);
        const VkSemaphoreSignalInfo signal{
            .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = semaphore, .value = go};
        REQUIRE(signal_semaphore(host.device, &signal) == VK_SUCCESS);
        succeed(vkf_session_wait(session.get(), UINT64_MAX));
        CHECK(run_stepped(*session, 0).size() == 2);
    }
    host.dvk.vkDestroySemaphore(host.device, semaphore, nullptr);
    CHECK(host.messages() == std::vector<std::string>{});
}

}  // namespace vkformer::tests
