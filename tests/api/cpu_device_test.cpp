// SPDX-License-Identifier: MIT
// VKF_DEVICE_CPU: the C interface for hosts without a usable Vulkan device.
#include <array>
#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/dtype.hpp"
#include "models/decoder_case.hpp"
#include "support/goldens.hpp"
#include "support/vkf_frames.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using Tokens = std::vector<std::int32_t>;

/// Something that is no null handle; nothing looks behind it.
template <class Handle>
Handle some_handle() {
    return reinterpret_cast<Handle>(std::uintptr_t{8});
}

std::string missing(vkf_result result) {
    CHECK(result == VKF_ERROR_MISSING_FEATURE);
    return vkf_error_message();
}

VkfProgram compile(vkf_device& device, vkf_graph& graph) {
    vkf_program* program = nullptr;
    succeed(vkf_program_create(&device, &graph, nullptr, &program));
    return VkfProgram(program);
}

/// relu(x), x f16 [2, 3], as "y" and, in one row, as "flat"; and the i32 tensor "n" [2], which nothing reads.
VkfGraph halves() {
    constexpr std::uint64_t kShape[] = {2, 3}, kFlat[] = {6}, kTwo[] = {2};
    vkf_graph* graph = nullptr;
    succeed(vkf_graph_create(&graph));
    VkfGraph made(graph);
    vkf_value x = 0, n = 0, y = 0;
    succeed(vkf_graph_input(graph, "x", VKF_F16, 2, kShape, &x));
    succeed(vkf_graph_input(graph, "n", VKF_I32, 1, kTwo, &n));
    succeed(vkf_graph_activation(graph, x, VKF_ACTIVATION_RELU, &y));
    succeed(vkf_graph_output(graph, y, "y"));
    succeed(vkf_graph_reshape(graph, y, 1, kFlat, &y));
    succeed(vkf_graph_output(graph, y, "flat"));
    return made;
}

}  // namespace

TEST_CASE("the CPU as a device takes and gives every dtype, and views", "[api][c][cpu_device]") {
    const VkfDevice device = own_device(VKF_DEVICE_CPU);
    CHECK(std::string(vkf_device_name(device.get())) == "CPU (float)");
    const VkfProgram program = compile(*device, *halves());
    std::vector<std::uint16_t> x;
    for (const float number : {1.5f, -2.0f, 0.0999755859375f, 65504.0f, -0.25f, 6e-8f})
        x.push_back(float_to_half(number));
    write_tensor(*program, "x", x);
    write_tensor(*program, "n", Tokens{3, -4});
    std::uint64_t ticket = 0;
    succeed(vkf_program_submit(program.get(), nullptr, &ticket));
    CHECK(ticket == 1);
    CHECK(vkf_device_wait(device.get(), ticket, 0) == VKF_SUCCESS);  // it has been computed
    CHECK(vkf_device_wait(device.get(), 2, 0) == VKF_ERROR_INVALID_ARGUMENT);
    const std::vector<std::uint16_t> expected = {x[0], 0, x[2], x[3], 0, x[5]};
    CHECK(read_tensor<std::uint16_t>(*program, "y") == expected);
    CHECK(read_tensor<std::uint16_t>(*program, "flat") == expected);
    float number = 0;
    CHECK(vkf_program_write(program.get(), "x", &number, 4) == VKF_ERROR_SHAPE_MISMATCH);
    CHECK(vkf_program_read(program.get(), "z", &number, 4) == VKF_ERROR_INVALID_ARGUMENT);
    vkf_tensor tensor = VKF_TENSOR_INIT;
    succeed(vkf_program_tensor(program.get(), "y", &tensor));
    CHECK(tensor.bytes == 12);
    CHECK(tensor.buffer == VK_NULL_HANDLE);
    CHECK(tensor.mapped == nullptr);
}

TEST_CASE("a session on the CPU generates what others do, in steps of any size", "[api][c][cpu_device][session]") {
    const VkfDevice device = own_device(VKF_DEVICE_CPU);
    const std::string name = GENERATE("qwen2", "gemma2", "gpt2");
    const auto folder = goldens_dir() / "decoders" / name;
    const VkfModel model = load_model(*device, folder.string());
    const Greedy greedy = greedy_golden(name);
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.context = static_cast<std::uint32_t>(greedy.prompt.size() + greedy.continuation.size());
    info.chunk = 3;
    CAPTURE(name);
    vkf_session_memory memory = VKF_SESSION_MEMORY_INIT;
    succeed(vkf_session_query_memory(model.get(), &info, &memory));
    CHECK(memory.weights > 0);
    CHECK(memory.states > 0);
    CHECK(memory.total == memory.weights + memory.states + memory.activations);
    const VkfSession session = make_session(*model, info);
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(8, greedy.continuation.size()));
    const Tokens expected(greedy.continuation.begin(), greedy.continuation.begin() + count);
    for (const std::uint32_t budget_us : {0u, 1u, 1000000u}) {
        CAPTURE(budget_us);
        begin(*session, greedy.prompt, count);
        CHECK(run_stepped(*session, budget_us) == expected);
        CHECK(status_of(*session).outstanding == 0);
        CHECK(status_of(*session).total_gpu_us > 0);
    }
    // An hour is enough for all of it.
    begin(*session, greedy.prompt, count);
    vkf_slice whole = VKF_SLICE_INIT;
    succeed(vkf_session_step(session.get(), 3600u * 1000 * 1000, nullptr, &whole));
    CHECK(whole.tokens == expected.size());
    CHECK(tokens_of(*session) == expected);
    // Half of it, then again from what is kept.
    begin(*session, greedy.prompt, count);
    vkf_slice slice = VKF_SLICE_INIT;
    while (status_of(*session).generated_tokens < 3) succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
    CHECK(slice.tokens == 1);
    CHECK(slice.dispatches > 1);
    vkf_slice no_version = VKF_SLICE_INIT;
    no_version.struct_size = 0;
    CHECK(vkf_session_step(session.get(), 0, nullptr, &no_version) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(vkf_error_message(), ContainsSubstring("vkf_slice::struct_size is 0"));
    CHECK(status_of(*session).generated_tokens == 3);  // and nothing is done
    succeed(vkf_session_retire(session.get(), slice.ticket));
    CHECK(vkf_session_retire(session.get(), slice.ticket + 1) == VKF_ERROR_INVALID_ARGUMENT);
    std::uint64_t freed = 1;
    succeed(vkf_session_evict(session.get(), &freed));
    CHECK(freed == 0);
    CHECK(vkf_session_step(session.get(), 0, nullptr, &slice) == VKF_ERROR_INVALID_ARGUMENT);
    succeed(vkf_session_reload(session.get(), nullptr, nullptr));
    CHECK(run_stepped(*session, 0) == expected);
    for (int times = 0; times < 2; ++times) {
        succeed(vkf_session_evict(session.get(), nullptr));
        succeed(vkf_session_reload(session.get(), nullptr, nullptr));
        CHECK(status_of(*session).state == VKF_SESSION_DONE);
        CHECK(tokens_of(*session) == expected);
    }
    begin(*session, greedy.prompt, count);
    succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
    succeed(vkf_session_cancel(session.get()));
    CHECK(status_of(*session).state == VKF_SESSION_IDLE);
    succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
    CHECK(slice.ticket == 0);
}

TEST_CASE("T5 and beams run on the CPU through the C interface", "[api][c][cpu_device][session]") {
    const VkfDevice device = own_device(VKF_DEVICE_CPU);
    const auto folder = goldens_dir() / "encoder_decoders/t5_d22_relu";
    std::ifstream file(folder / "generate.json");
    const auto golden = nlohmann::json::parse(file)[0];
    const VkfModel model = load_model(*device, folder.string());
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.source_capacity = 9;
    info.context = golden["options"]["max_length"].get<std::uint32_t>() - 1;
    const auto source = golden["input_ids"][1].get<Tokens>();
    auto expected = golden["sequences"][1].get<Tokens>();
    expected.erase(expected.begin());  // the start token
    for (const std::uint32_t beams : {1u, 3u}) {
        info.beams = beams;
        const VkfSession session = make_session(*model, info);
        begin(*session, source, 0);
        const Tokens found = run_stepped(*session, 0);
        if (beams == 1) CHECK(found == expected);
        if (beams == 3) CHECK(status_of(*session).score < 0);
    }
}

TEST_CASE("a run on the CPU is ended before an op by who may, and runs again", "[api][c][cpu_device]") {
    const VkfDevice device = own_device(VKF_DEVICE_CPU);
    const VkfProgram program = compile(*device, *halves());
    std::uint32_t nodes = 0;
    succeed(vkf_program_nodes(program.get(), &nodes, nullptr));
    REQUIRE(nodes > 0);
    const std::vector<std::uint16_t> x(6, float_to_half(2));
    write_tensor(*program, "x", x);
    struct Asked {
        std::uint32_t times = 0, last = 0;  // the answer to the last of them is yes
    };
    Asked asked;
    vkf_submit_info info = VKF_SUBMIT_INFO_INIT;
    info.stop_user = &asked;
    info.should_stop = [](void* user) -> VkBool32 {
        Asked& is = *static_cast<Asked*>(user);
        return ++is.times == is.last ? 2 : VK_FALSE;
    };
    std::uint64_t ticket = 7;
    for (asked.last = 1; asked.last <= nodes; ++asked.last) {
        asked.times = 0;
        CHECK(vkf_program_submit(program.get(), &info, &ticket) == VKF_ERROR_CANCELLED);
        CHECK(asked.times == asked.last);
        CHECK(ticket == 7);
    }
    asked = {};
    succeed(vkf_program_submit(program.get(), &info, &ticket));
    CHECK(asked.times == nodes);
    CHECK(ticket == 1);
    CHECK(read_tensor<std::uint16_t>(*program, "y") == x);
}

TEST_CASE("what needs Vulkan is refused on the CPU, by name", "[api][c][cpu_device][errors]") {
    const VkfDevice device = own_device(VKF_DEVICE_CPU);
    vkf_vulkan_handles handles = VKF_VULKAN_HANDLES_INIT;
    CHECK_THAT(missing(vkf_device_vulkan(device.get(), &handles)), ContainsSubstring("VKF_DEVICE_CPU"));
    std::uint32_t count = 7;
    succeed(vkf_device_report(device.get(), &count, nullptr));
    CHECK(count == 0);
    vkf_memory_use use = VKF_MEMORY_USE_INIT;
    succeed(vkf_device_memory(device.get(), &use));
    CHECK(use.used == 0);
    std::uint64_t freed = 1;
    succeed(vkf_device_trim(device.get(), &freed));
    CHECK(freed == 0);

    const VkfProgram program = compile(*device, *halves());
    const auto commands = some_handle<VkCommandBuffer>();
    CHECK_THAT(missing(vkf_program_record(program.get(), commands)), ContainsSubstring("to record a program"));
    const VkSemaphore semaphore = some_handle<VkSemaphore>();
    const std::uint64_t value = 1;
    vkf_submit_info info = VKF_SUBMIT_INFO_INIT;
    info.wait_count = 1;
    info.wait_semaphores = &semaphore;
    info.wait_values = &value;
    CHECK_THAT(missing(vkf_program_submit(program.get(), &info, nullptr)), ContainsSubstring("a semaphore"));
    const vkf_buffer_binding binding = {"y", some_handle<VkBuffer>(), 0, 64, nullptr};
    vkf_program_options bound = VKF_PROGRAM_OPTIONS_INIT;
    bound.buffers = &binding;
    bound.buffer_count = 1;
    vkf_program* refused = nullptr;
    CHECK_THAT(missing(vkf_program_create(device.get(), halves().get(), &bound, &refused)),
               ContainsSubstring("buffers"));
    CHECK(refused == nullptr);

    const VkfModel model = load_model(*device, (goldens_dir() / "decoders" / "qwen2").string());
    vkf_session_info wishes = VKF_SESSION_INFO_INIT;
    wishes.context = 16;
    const VkfSession session = make_session(*model, wishes);
    begin(*session, {1, 2, 3});
    vkf_slice slice = VKF_SLICE_INIT;
    CHECK_THAT(missing(vkf_session_record(session.get(), commands, 0, &slice)),
               ContainsSubstring("to record a session"));
    CHECK_THAT(missing(vkf_session_step(session.get(), 0, &info, &slice)), ContainsSubstring("a semaphore"));

    vkf_device* none = nullptr;
    for (const char* member : {"memory_budget", "memory", "pipeline_cache", "external_handle_types", "variants"}) {
        vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
        const vkf_memory_callbacks callbacks{};
        const std::string_view which = member;
        if (which == "memory_budget") options.memory_budget = 1;
        if (which == "memory") options.memory = &callbacks;
        if (which == "pipeline_cache") options.pipeline_cache = some_handle<VkPipelineCache>();
        if (which == "external_handle_types") options.external_handle_types = 1;
        if (which == "variants") options.variants = static_cast<vkf_variants>(77);
        CHECK(vkf_device_create(VKF_DEVICE_CPU, &options, &none) == VKF_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(vkf_error_message(), ContainsSubstring(member));
    }
    CHECK(vkf_device_create("no such device", nullptr, &none) < 0);
    CHECK_THAT(vkf_error_message(), ContainsSubstring("VKF_DEVICE_CPU"));
    CHECK(none == nullptr);
}

}  // namespace vkformer::tests
