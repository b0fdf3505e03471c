// SPDX-License-Identifier: MIT
// Sessions of the C interface: slices recorded into the application's frames, and steps through its queue.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <latch>
#include <map>
#include <thread>

#include <nlohmann/json.hpp>

#include "models/changed_golden.hpp"
#include "models/decoder_case.hpp"
#include "models/tiny_llama.hpp"
#include "models/write_blocks.hpp"
#include "support/backends.hpp"
#include "support/interposer.hpp"
#include "support/temporary_folder.hpp"
#include "support/vkf_frames.hpp"
#include "vulkan/table.hpp"

namespace vkformer::tests {
namespace {

std::string decoder_folder(const std::string& name) { return (goldens_dir() / "decoders" / name).string(); }

constexpr std::uint32_t kSessionTokens = 12;

/// The continuation's first tokens, up to an end token's if the model has reached one.
std::vector<std::int32_t> first_of(const Greedy& golden) {
    const auto count = std::min<std::size_t>(kSessionTokens, golden.continuation.size());
    return {golden.continuation.begin(), golden.continuation.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

TEST_CASE("every decoder generates the same tokens in a foreign command buffer", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend_least());
    CAPTURE(vkf_device_name(device.get()));
    const auto names = decoder_cases();
    std::vector<std::string> chosen = {"lfm2", "qwen3_5"};  // whose layers keep states
    for (std::size_t i = 0; i < names.size(); i += case_stride(index, 7)) chosen.push_back(names[i]);
    for (const std::string& name : chosen) {
        CAPTURE(name);
        const Greedy golden = greedy_golden(name);
        const VkfModel model = load_model(*device, decoder_folder(name));
        vkf_session_info info = VKF_SESSION_INFO_INIT;
        info.chunk = 4;
        const VkfSession session = make_session(*model, info);
        begin(*session, golden.prompt);
        CHECK(run_recorded(host, *session, 0) == first_of(golden));
    }
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("a guest that only records needs no timeline semaphores", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    Interposer interposer(must(vulkan::open_loader()));
    interposer.hide(
        "vkWaitSemaphores");  // as of a driver that has such functions only where their features are enabled
    interposer.hide("vkGetBufferDeviceAddress");
    HostApplication host({.device_index = index_of(index), .patched = false, .get = interposer.get()});
    if (!host.has_unified_memory()) return;  // its weights are submitted
    const VkfDevice device = adopt(host.lend(false));
    const std::string name = decoder_cases().front();
    CAPTURE(vkf_device_name(device.get()), name);
    const Greedy golden = greedy_golden(name);
    const VkfModel model = load_model(*device, decoder_folder(name));
    const VkfSession session = make_session(*model);
    begin(*session, golden.prompt);
    CHECK(run_recorded(host, *session, 0) == first_of(golden));
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("slices of any size give the same tokens, and a prompt may span many frames", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend(true));
    CAPTURE(vkf_device_name(device.get()));
    const Greedy golden = greedy_golden("qwen3");
    const VkfModel model = load_model(*device, decoder_folder("qwen3"));
    const VkfSession session = make_session(*model);
    for (const std::uint32_t budget_us : {1u, 300u, 3000u}) {
        CAPTURE(budget_us);
        // Another first token, so that nothing of the sequence before serves again.
        const VkfSession fresh = make_session(*model);
        begin(*fresh, golden.prompt);
        CHECK(run_recorded(host, *fresh, budget_us) == first_of(golden));
        begin(*session, golden.prompt);
        CHECK(run_stepped(*session, budget_us) == first_of(golden));
    }
    begin(*session, golden.prompt);
    const VkCommandBuffer commands = host.make_commands();
    const vkf_slice one = frame(host, commands, *session, 1);
    CHECK(one.dispatches == 1);
    CHECK(one.exceeds == VK_TRUE);  // by now it is known to take longer
    CHECK(status_of(*session).total_gpu_us > 0);
    succeed(vkf_session_cancel(session.get()));
    CHECK(status_of(*session).state == VKF_SESSION_IDLE);
    CHECK(host.locks_taken > 0);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("a dispatch that is longer than a frame's share is cut", "[api][c][guest][session][runs]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    constexpr double kUsPerWorkgroup = 300;
    constexpr std::uint32_t kBudgetUs = 2000;
    const TemporaryFolder folder;
    write_tiny_llama(folder.path(), {.hidden = 256, .inner = 512, .layers = 1, .vocab = 999});
    const std::vector<std::int32_t> prompt{3, 1, 4, 1, 5, 9, 2, 6};
    std::vector<std::int32_t> expected;
    {
        const VkfDevice device = own_device(index);
        const VkfModel model = load_model(*device, folder.path().string());
        const VkfSession session = make_session(*model);
        begin(*session, prompt);
        expected = run_stepped(*session, 0);
        REQUIRE(expected.size() == kSessionTokens);
    }
    Interposer interposer(must(vulkan::open_loader()));
    interposer.claim_type(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
    interposer.slow_down(kUsPerWorkgroup);
    HostApplication host({.device_index = index_of(index)});
    vkf_adopt_info info = host.lend(true);
    info.get_instance_proc_addr = interposer.get();
    const VkfDevice device = adopt(info);
    CAPTURE(vkf_device_name(device.get()));
    const VkfModel model = load_model(*device, folder.path().string());
    const VkfSession session = make_session(*model);
    // In the warm-up, what is unknown has a submission of its own: the largest dispatch has 512 workgroups.
    CHECK(interposer.longest_submission_us() <= 512 * kUsPerWorkgroup);
    begin(*session, prompt);
    const VkCommandBuffer commands = host.make_commands();
    std::size_t cut = 0;
    while (is_running(*session)) {
        const auto before = interposer.recorded().size();
        const vkf_slice slice = frame(host, commands, *session, kBudgetUs);
        const auto recorded = interposer.recorded();
        cut += static_cast<std::size_t>(
            std::count(recorded.begin() + static_cast<std::ptrdiff_t>(before), recorded.end(), Interposer::kLaterPart));
        const double us = status_of(*session).last_gpu_us;
        CHECK((us <= kBudgetUs + 1 || slice.exceeds));
        CHECK(us == Approx(slice.expected_us));
    }
    CHECK(cut > 100);
    CHECK(tokens_of(*session) == expected);
    CHECK(host.messages() == std::vector<std::string>{});

    // Given up within a dispatch, it begins anew.
    begin(*session, prompt);
    for (int i = 0; i < 9; ++i) frame(host, commands, *session, kBudgetUs);
    succeed(vkf_session_cancel(session.get()));
    begin(*session, prompt);
    CHECK(run_recorded(host, *session, kBudgetUs) == expected);
}

TEST_CASE("a guest goes on from the state that a long prompt had before its end, wherever it was given up",
          "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    const std::string name = GENERATE("lfm2", "qwen3_5");
    CAPTURE(name);
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend_least());
    const VkfModel model = load_model(*device, decoder_folder(name));
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.chunk = 4;
    info.context = 120;
    const VkfSession session = make_session(*model, info);
    std::vector<std::int32_t> prompt;
    for (std::int32_t i = 0; i < 81; ++i) prompt.push_back((7 * i + 3) % 50);
    std::vector<std::int32_t> other(prompt.begin(), prompt.begin() + 75);
    other.insert(other.end(), {9, 8, 7});
    const auto alone = [&](const std::vector<std::int32_t>& tokens) {
        const VkfSession fresh = make_session(*model, info);
        begin(*fresh, tokens, 6);
        return run_recorded(host, *fresh, 0);
    };
    const auto expected = alone(prompt), expected_of_other = alone(other);
    begin(*session, prompt, 6);
    CHECK(run_recorded(host, *session, 0) == expected);
    begin(*session, other, 6);
    CHECK(status_of(*session).computed_tokens == 64);
    CHECK(run_recorded(host, *session, 0) == expected_of_other);

    // Given up within the prompt, again and again a little later, and gone on from what was read by then.
    const VkCommandBuffer commands = host.make_commands();
    for (int frames = 1; frames < 40; frames += 6) {
        CAPTURE(frames);
        begin(*session, frames % 2 == 0 ? prompt : other, 6);
        for (int i = 0; i < frames; ++i) frame(host, commands, *session, 100);
        succeed(vkf_session_cancel(session.get()));
        begin(*session, frames % 2 == 0 ? other : prompt, 6);
        CHECK(run_recorded(host, *session, 0) == (frames % 2 == 0 ? expected_of_other : expected));
    }
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("many slices may be in flight", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend_least());
    const Greedy golden = greedy_golden("llama_gqa_odd");
    const VkfModel model = load_model(*device, decoder_folder("llama_gqa_odd"));
    const VkfSession session = make_session(*model);
    begin(*session, golden.prompt);
    const VkCommandBuffer commands = host.make_commands();
    host.begin(commands);
    vkf_slice slice = VKF_SLICE_INIT, last = VKF_SLICE_INIT;
    std::uint32_t tokens = 0;
    for (;;) {
        succeed(vkf_session_record(session.get(), commands, 0, &slice));
        if (slice.ticket == 0) break;
        tokens += slice.tokens;
        last = slice;
    }
    host.end(commands);
    CHECK(tokens == kSessionTokens);
    CHECK(status_of(*session).outstanding == last.ticket);
    CHECK(tokens_of(*session).empty());  // nothing has run
    CHECK(vkf_session_retire(session.get(), last.ticket + 1) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_session_begin(session.get(), golden.prompt.data(), 1, 1) == VKF_ERROR_INVALID_ARGUMENT);
    host.submit_and_wait(commands);
    succeed(vkf_session_retire(session.get(), last.ticket));
    CHECK(tokens_of(*session) == first_of(golden));
    CHECK(status_of(*session).state == VKF_SESSION_DONE);

    // What was recorded and never submitted is forgotten by a cancel.
    begin(*session, golden.prompt);
    for (std::uint32_t i = 0; i < VKF_MAX_SLICES; ++i) {
        host.begin(commands);
        const vkf_result result = vkf_session_record(session.get(), commands, 1, &slice);
        host.end(commands);
        succeed(result);
    }
    host.begin(commands);
    CHECK(vkf_session_record(session.get(), commands, 1, &slice) == VKF_NOT_READY);
    host.end(commands);
    succeed(vkf_session_cancel(session.get()));
    begin(*session, golden.prompt);
    CHECK(run_recorded(host, *session, 0) == first_of(golden));
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("a prompt's beginning that the caches hold is not computed again", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const Greedy golden = greedy_golden("qwen2");
    const VkfModel model = load_model(*device, decoder_folder("qwen2"));
    const VkfSession session = make_session(*model);
    begin(*session, golden.prompt, 4);
    std::vector<std::int32_t> conversation = golden.prompt;
    const auto answer = run_stepped(*session, 0);
    conversation.insert(conversation.end(), answer.begin(), answer.end());
    begin(*session, conversation, 4);
    CHECK(status_of(*session).computed_tokens == conversation.size() - 1);
    const auto more = run_stepped(*session, 0);
    CHECK(std::ranges::equal(more, std::span(golden.continuation).subspan(4, 4)));

    // The answer's last token was chosen, and nothing has read it: behind it, its keys and values are computed.
    conversation.insert(conversation.end(), golden.continuation.begin() + 4, golden.continuation.begin() + 9);
    begin(*session, conversation, 3);
    CHECK(status_of(*session).computed_tokens == conversation.size() - 2);
    CHECK(std::ranges::equal(run_stepped(*session, 0), std::span(golden.continuation).subspan(9, 3)));
}

TEST_CASE("a session goes on after it was evicted, and on another device", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    const Greedy golden = greedy_golden("gemma3");
    VkfDevice device = own_device(index);
    VkfModel model = load_model(*device, decoder_folder("gemma3"));
    vkf_memory_use use = VKF_MEMORY_USE_INIT;
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.context = 64;
    vkf_session_memory memory = VKF_SESSION_MEMORY_INIT;
    succeed(vkf_session_query_memory(model.get(), &info, &memory));
    CHECK(memory.total == memory.weights + memory.states + memory.activations);
    VkfSession session = make_session(*model, info);
    succeed(vkf_device_trim(device.get(), nullptr));
    succeed(vkf_device_memory(device.get(), &use));
    CHECK(use.used >= memory.total);
    CHECK(use.used <= memory.total + 4096 * 8);  // what the driver rounds up

    begin(*session, golden.prompt);
    std::uint64_t last_ticket = 0;
    while (status_of(*session).generated_tokens < 5) {
        vkf_slice slice = VKF_SLICE_INIT;
        succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
        succeed(vkf_session_wait(session.get(), UINT64_MAX));
        last_ticket = slice.ticket;
    }
    std::uint64_t freed = 0;
    succeed(vkf_session_evict(session.get(), &freed));
    CHECK(freed == use.used);
    succeed(vkf_device_memory(device.get(), &use));
    CHECK(use.used == 0);
    CHECK(status_of(*session).state == VKF_SESSION_EVICTED);
    const auto saved = tokens_of(*session);
    CHECK(saved.size() == 5);
    vkf_slice slice = VKF_SLICE_INIT;
    CHECK(vkf_session_step(session.get(), 0, nullptr, &slice) == VKF_ERROR_INVALID_ARGUMENT);
    succeed(vkf_session_reload(session.get(), nullptr, nullptr));
    succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
    CHECK(slice.ticket > last_ticket);  // a ticket from before the eviction is never taken for a new one
    succeed(vkf_session_wait(session.get(), UINT64_MAX));
    CHECK(run_stepped(*session, 0) == first_of(golden));

    // As after a lost device: prompt and tokens begin a session elsewhere.
    session.reset();
    model.reset();
    device = own_device(index);
    model = load_model(*device, decoder_folder("gemma3"));
    session = make_session(*model, info);
    std::vector<std::int32_t> read = golden.prompt;
    read.insert(read.end(), saved.begin(), saved.end());
    begin(*session, read, kSessionTokens - 5);
    auto all = saved;
    const auto rest = run_stepped(*session, 0);
    all.insert(all.end(), rest.begin(), rest.end());
    CHECK(all == first_of(golden));
}

TEST_CASE("what was cancelled while it was evicted does not go on", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().front();
    const VkfDevice device = own_device(index);
    const Greedy golden = greedy_golden("gemma3");
    const VkfModel model = load_model(*device, decoder_folder("gemma3"));
    const VkfSession session = make_session(*model);
    begin(*session, golden.prompt);
    while (status_of(*session).generated_tokens < 3) {
        vkf_slice slice = VKF_SLICE_INIT;
        succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
        succeed(vkf_session_wait(session.get(), UINT64_MAX));
    }
    const auto tokens = tokens_of(*session);
    succeed(vkf_session_evict(session.get(), nullptr));
    succeed(vkf_session_cancel(session.get()));
    CHECK(status_of(*session).state == VKF_SESSION_EVICTED);
    CHECK(tokens_of(*session) == tokens);
    succeed(vkf_session_reload(session.get(), nullptr, nullptr));
    CHECK(status_of(*session).state == VKF_SESSION_IDLE);
    vkf_slice slice = VKF_SLICE_INIT;
    succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
    CHECK(slice.ticket == 0);  // there is nothing to do
    CHECK(tokens_of(*session) == tokens);
    begin(*session, golden.prompt);
    CHECK(run_stepped(*session, 0) == first_of(golden));
}

TEST_CASE("a session that does not fit the budget is refused before anything is allocated",
          "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    int allocations = 0;
    vkf_memory_callbacks counting{};
    counting.user = &allocations;
    counting.allocate = [](void* user, const vkf_allocation_request*, vkf_allocation*) {
        ++*static_cast<int*>(user);
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    };
    counting.free = [](void*, const vkf_allocation*) {};
    vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
    options.memory_budget = 10000;
    options.memory = &counting;
    const VkfDevice device = own_device(index, &options);
    const VkfModel model = load_model(*device, decoder_folder("gpt2"));
    const vkf_session_info info = VKF_SESSION_INFO_INIT;
    vkf_session* session = nullptr;
    CHECK(vkf_session_create(model.get(), &info, nullptr, nullptr, &session) == VKF_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(std::string(vkf_error_message()).find("the budget is 0.0 MiB") != std::string::npos);
    CHECK(allocations == 0);
    options.memory_budget = 0;
    const VkfDevice unlimited = own_device(index, &options);
    const VkfModel again = load_model(*unlimited, decoder_folder("gpt2"));
    CHECK(vkf_session_create(again.get(), &info, nullptr, nullptr, &session) == VKF_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(allocations == 1);  // what the application's allocator says is passed on
    CHECK(vkf_error_vk_result() == VK_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_CASE("a second session that does not fit beside the first is refused, and nothing is allocated for it",
          "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    vkf_session_memory needs = VKF_SESSION_MEMORY_INIT;
    const vkf_session_info info = VKF_SESSION_INFO_INIT;
    {
        const VkfDevice unlimited = own_device(index);
        const VkfModel model = load_model(*unlimited, decoder_folder("gpt2"));
        succeed(vkf_session_query_memory(model.get(), &info, &needs));
    }
    vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
    options.memory_budget = needs.total + needs.total / 2;
    const VkfDevice device = own_device(index, &options);
    const VkfModel first_model = load_model(*device, decoder_folder("gpt2"));
    const VkfModel second_model = load_model(*device, decoder_folder("gpt2"));  // with weights of its own
    VkfSession first = make_session(*first_model);
    vkf_memory_use use = VKF_MEMORY_USE_INIT;
    succeed(vkf_device_memory(device.get(), &use));
    const std::uint64_t used = use.used, peak = use.peak;
    vkf_session* second = nullptr;
    CHECK(vkf_session_create(second_model.get(), &info, nullptr, nullptr, &second) == VKF_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(second == nullptr);
    succeed(vkf_device_memory(device.get(), &use));
    CHECK(use.used == used);
    CHECK(use.peak == peak);
    succeed(vkf_session_evict(first.get(), nullptr));
    succeed(vkf_device_trim(device.get(), nullptr));
    CHECK(make_session(*second_model) != nullptr);
}

TEST_CASE("memory may come from the application's allocator", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    struct Pool {
        struct Block {
            VkDeviceMemory memory = VK_NULL_HANDLE;
            std::byte* mapped = nullptr;
            VkDeviceSize used = 4096;  // what the application has there already
        };
        HostApplication& host;
        VkPhysicalDeviceMemoryProperties properties{};
        std::map<std::uint32_t, Block> blocks{};  // by memory type
        int live = 0;
    } pool{.host = host};
    host.ivk.vkGetPhysicalDeviceMemoryProperties(host.physical, &pool.properties);
    vkf_memory_callbacks callbacks{};
    callbacks.user = &pool;
    callbacks.allocate = [](void* user, const vkf_allocation_request* request, vkf_allocation* allocation) {
        Pool& p = *static_cast<Pool*>(user);
        const bool is_visible =
            (p.properties.memoryTypes[request->memory_type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0;
        Pool::Block& block = p.blocks[request->memory_type];
        if (!block.memory) {
            const VkMemoryAllocateInfo info{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                            .allocationSize = 64 << 20,
                                            .memoryTypeIndex = request->memory_type};
            if (const VkResult r = p.host.dvk.vkAllocateMemory(p.host.device, &info, nullptr, &block.memory)) return r;
            void* address = nullptr;
            const auto map = [&] {
                return p.host.dvk.vkMapMemory(p.host.device, block.memory, 0, VK_WHOLE_SIZE, 0, &address);
            };
            if (const VkResult r = is_visible ? map() : VK_SUCCESS) return r;
            block.mapped = static_cast<std::byte*>(address);
        }
        const VkDeviceSize alignment = request->requirements.alignment;
        allocation->offset = (block.used + alignment - 1) / alignment * alignment;
        block.used = allocation->offset + request->requirements.size;
        allocation->memory = block.memory;
        allocation->mapped = is_visible ? block.mapped + allocation->offset : nullptr;
        allocation->handle = &p;
        ++p.live;
        return VK_SUCCESS;
    };
    callbacks.free = [](void* user, const vkf_allocation* allocation) {
        Pool& p = *static_cast<Pool*>(user);
        if (allocation->handle == &p) --p.live;
    };
    vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
    options.memory = &callbacks;
    const Greedy golden = greedy_golden("phi3");
    {
        const VkfDevice device = adopt(host.lend(true), &options);
        const VkfModel model = load_model(*device, decoder_folder("phi3"));
        const VkfSession session = make_session(*model);
        CHECK(pool.live > 0);
        begin(*session, golden.prompt);
        CHECK(run_stepped(*session, 0) == first_of(golden));
    }
    CHECK(pool.live == 0);
    for (const auto& [type, block] : pool.blocks) host.dvk.vkFreeMemory(host.device, block.memory, nullptr);
    CHECK(host.messages() == std::vector<std::string>{});
}

namespace {

/// Two sessions of one model, each on a thread of its own.
void check_two_threads(vkf_device& device) {
    const VkfModel model = load_model(device, decoder_folder("smollm3"));
    const Greedy golden = greedy_golden("smollm3");
    std::vector<std::vector<std::int32_t>> results(2);
    std::atomic<int> failures = 0;
    std::latch begin(2);
    const auto work = [&](std::size_t i) {
        begin.arrive_and_wait();
        const vkf_session_info info = VKF_SESSION_INFO_INIT;
        vkf_session* session = nullptr;
        if (vkf_session_create(model.get(), &info, nullptr, nullptr, &session) != VKF_SUCCESS) {
            ++failures;
            return;
        }
        const VkfSession owner(session);
        vkf_session_status status = VKF_SESSION_STATUS_INIT;
        if (vkf_session_begin(session, golden.prompt.data(), golden.prompt.size(), kSessionTokens) != VKF_SUCCESS)
            ++failures;
        do {
            vkf_slice slice = VKF_SLICE_INIT;
            if (vkf_session_step(session, 0, nullptr, &slice) < 0 || vkf_session_wait(session, UINT64_MAX) < 0 ||
                vkf_session_poll(session, &status) < 0)
                ++failures;
        } while (failures == 0 && status.state != VKF_SESSION_DONE);
        std::size_t count = kSessionTokens;
        results[i].resize(count);
        if (vkf_session_tokens(session, &count, results[i].data()) != VKF_SUCCESS) ++failures;
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    CHECK(failures == 0);
    CHECK(results[0] == first_of(golden));
    CHECK(results[1] == results[0]);
}

}  // namespace

TEST_CASE("two sessions of one device run on two threads", "[api][c][guest][session][threads]") {
    if (vulkan_device_indices().empty()) return;
    HostApplication host({.device_index = index_of(vulkan_device_indices().back())});
    const VkfDevice device = adopt(host.lend(true));
    check_two_threads(*device);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("two sessions of the CPU run on two threads", "[api][c][cpu_device][session][threads]") {
    check_two_threads(*own_device(VKF_DEVICE_CPU));
}

TEST_CASE("an encoder-decoder translates inside the application's frames", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend(true));
    const VkfModel model =
        load_model(*device, (std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer").string());
    vkf_model_properties properties = VKF_MODEL_PROPERTIES_INIT;
    succeed(vkf_model_query(model.get(), &properties));
    CHECK(properties.kind == VKF_MODEL_ENCODER_DECODER);
    CHECK(properties.vocab_size == 320);
    CHECK(properties.start_token == 319);
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.source_capacity = 48;
    info.context = 16;
    const VkfSession session = make_session(*model, info);
    for (const std::uint32_t budget_us : {0u, 2000u}) {
        begin(*session, tokenize(*model, "Donnerstag, den 4. März 2021"), 0);
        run_recorded(host, *session, budget_us);
        CHECK(status_of(*session).state == VKF_SESSION_DONE);
        CHECK(text_of(*session) == "2021-03-04");
    }
    begin(*session, tokenize(*model, "4. März 2021"), 0);
    run_stepped(*session, 0);
    CHECK(text_of(*session) == "2021-03-04");
    succeed(vkf_session_evict(session.get(), nullptr));
    CHECK(text_of(*session) == "2021-03-04");
    succeed(vkf_session_reload(session.get(), nullptr, nullptr));
    CHECK(status_of(*session).state == VKF_SESSION_DONE);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("T5 generates inside the application's frames what Hugging Face does", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend_least());
    const auto folder = goldens_dir() / "encoder_decoders/t5_d22_relu";
    std::ifstream file(folder / "generate.json");
    const auto golden = nlohmann::json::parse(file)[0];
    const VkfModel model = load_model(*device, folder.string());
    vkf_model_properties properties = VKF_MODEL_PROPERTIES_INIT;
    succeed(vkf_model_query(model.get(), &properties));
    CHECK(properties.kind == VKF_MODEL_ENCODER_DECODER);
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.source_capacity = 9;
    info.context = golden["options"]["max_length"].get<std::uint32_t>() - 1;
    const VkfSession session = make_session(*model, info);
    const auto source = golden["input_ids"][1].get<std::vector<std::int32_t>>();  // as long as the batch: no padding
    auto expected = golden["sequences"][1].get<std::vector<std::int32_t>>();
    expected.erase(expected.begin());  // the start token
    for (const std::uint32_t budget_us : {0u, 500u}) {
        begin(*session, source, 0);
        CHECK(run_recorded(host, *session, budget_us) == expected);
    }
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("a model says what it is", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    vkf_model_properties properties = VKF_MODEL_PROPERTIES_INIT;
    const VkfModel vision = load_model(*device, (goldens_dir() / "vision" / "vit").string());
    succeed(vkf_model_query(vision.get(), &properties));
    CHECK(properties.kind == VKF_MODEL_VISION);
    CHECK(properties.labels == 5);
    CHECK(properties.image_height == 16);
    CHECK(properties.patch_columns == 4);
    CHECK(properties.special_tokens == 1);
    char name[16];
    std::size_t bytes = sizeof name;
    succeed(vkf_model_label(vision.get(), 2, &bytes, name));
    CHECK(std::string(name) == "Straße");
    for (const std::size_t room : {3u, 5u, 6u, 7u}) {
        bytes = room;
        CHECK(vkf_model_label(vision.get(), 2, &bytes, name) == VKF_INCOMPLETE);
        CHECK(std::string(name) == (room == 3 ? "St" : room < 7 ? "Stra" : "Straß"));
        CHECK(bytes == std::strlen(name) + 1);
    }
    CHECK(vkf_model_label(vision.get(), 5, &bytes, name) == VKF_ERROR_INVALID_ARGUMENT);

    const VkfModel decoder = load_model(*device, decoder_folder("qwen2"));
    succeed(vkf_model_query(decoder.get(), &properties));
    CHECK(properties.kind == VKF_MODEL_DECODER);
    CHECK(properties.vocab_size > 0);
    CHECK(properties.labels == 0);
    CHECK(properties.start_token == -1);
    CHECK(vkf_model_label(decoder.get(), 0, &bytes, name) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_model_query(nullptr, &properties) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_model_note(vision.get(), 0) == nullptr);
    CHECK(vkf_model_note(decoder.get(), 0) == nullptr);
    CHECK(vkf_model_note(nullptr, 0) == nullptr);
}

TEST_CASE("a model says what its files have that nobody knows", "[api][c][guest][passed_over]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const TemporaryFolder folder;
    const auto copy = folder / "qwen2";
    std::filesystem::copy(decoder_folder("qwen2"), copy);
    write_config_with(copy, {{"attention_bend", 0.25}, {"attention_twist", true}});
    const VkfModel model = load_model(*device, copy.string());
    REQUIRE(vkf_model_note(model.get(), 1) != nullptr);
    CHECK_THAT(vkf_model_note(model.get(), 0), Catch::Matchers::ContainsSubstring("attention_bend"));
    CHECK_THAT(vkf_model_note(model.get(), 1), Catch::Matchers::ContainsSubstring("attention_twist"));
    CHECK(vkf_model_note(model.get(), 2) == nullptr);
}

TEST_CASE("a model that takes images of any size has that of its processor", "[api][c][guest][dino]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const TemporaryFolder temporary;
    const auto copy = temporary / "dino";
    std::filesystem::copy(goldens_dir() / "modern_vision/dino", copy);
    const auto properties_of = [&] {
        vkf_model_properties properties = VKF_MODEL_PROPERTIES_INIT;
        const VkfModel model = load_model(*device, copy.string());
        succeed(vkf_model_query(model.get(), &properties));
        return properties;
    };
    CHECK(properties_of().image_height == 16);
    CHECK(properties_of().patch_rows == 4);
    CHECK(properties_of().labels == 3);
    std::filesystem::remove(copy / "preprocessor_config.json");
    CHECK(properties_of().image_height == 28);
    std::ofstream(copy / "preprocessor_config.json")
        << R"({"image_processor_type": "BitImageProcessor", "crop_size": {"height": 2, "width": 16}})";
    vkf_model* model = nullptr;
    CHECK(vkf_model_load(device.get(), copy.string().c_str(), &model) == VKF_ERROR_UNSUPPORTED_CONFIG);
    CHECK_THAT(vkf_error_message(), Catch::Matchers::ContainsSubstring("at least one patch, 4 × 4 pixels"));
}

TEST_CASE("a model says how images are normalised, and which it takes as they are", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const auto folder = goldens_dir() / "vision" / "vit";
    const auto normalization = [&](const std::filesystem::path& path) {
        const VkfModel model = load_model(*device, path.string());
        std::array<float, 6> found{};
        succeed(vkf_model_image_normalization(model.get(), found.data(), found.data() + 3));
        return found;
    };
    TemporaryFolder temporary;
    const auto copy = temporary / "vit";
    std::filesystem::copy(folder, copy);
    std::ifstream file(folder / "preprocessor_config.json");
    auto config = nlohmann::json::parse(file);
    config["image_mean"] = {0.125, 0.25, 0.375};
    config["image_std"] = {0.5, 0.625, 0.75};
    std::ofstream(copy / "preprocessor_config.json") << config.dump();
    CHECK(normalization(copy) == std::array{0.125f, 0.25f, 0.375f, 0.5f, 0.625f, 0.75f});
    std::filesystem::remove(copy / "preprocessor_config.json");
    CHECK(normalization(copy) == std::array{0.0f, 0.0f, 0.0f, 1.0f, 1.0f, 1.0f});
    const VkfModel decoder = load_model(*device, decoder_folder("qwen2"));
    std::array<float, 6> none{};
    CHECK(vkf_model_image_normalization(decoder.get(), none.data(), none.data() + 3) == VKF_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("the making of a session tells how far it is", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    struct Told {
        std::uint32_t calls = 0, done = 0, total = 0;
        bool is_rising = true;
    };
    const auto listen = [](void* user, std::uint32_t done, std::uint32_t total) {
        Told& told = *static_cast<Told*>(user);
        told.is_rising = told.is_rising && done > told.done && (told.calls == 0 || total == told.total);
        told = {told.calls + 1, done, total, told.is_rising};
    };
    // What is slow is cut, and warmed up once more.
    constexpr double kQuickUs = 0.001, kSlowUs = 2000;  // a workgroup
    for (const auto& [with_queue, us] : {std::pair{true, kQuickUs}, {true, kSlowUs}, {false, kQuickUs}}) {
        CAPTURE(with_queue, us);
        Interposer interposer(must(vulkan::open_loader()));
        interposer.slow_down(us);
        HostApplication host({.device_index = index_of(index), .get = interposer.get()});
        if (!with_queue && !host.has_unified_memory()) continue;
        const VkfDevice device = adopt(host.lend(with_queue));
        const VkfModel model = load_model(*device, decoder_folder("phi3"));
        const vkf_session_info info = VKF_SESSION_INFO_INIT;
        Told told;
        vkf_session* session = nullptr;
        succeed(vkf_session_create(model.get(), &info, listen, &told, &session));
        const VkfSession owner(session);
        CHECK(told.calls >= (with_queue ? 5u : 3u));
        CHECK(told.done == told.total);
        CHECK(told.is_rising);
    }
}

TEST_CASE("a translation's matrices stay in blocks on the device", "[api][c][guest][session][quantized]") {
    if (vulkan_device_indices().empty()) return;
    const TemporaryFolder folder;
    write_blocks(std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer", folder / "blocks",
                 DType::q8_0);
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const VkfModel model = load_model(*device, (folder / "blocks").string());
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.source_capacity = 48;
    info.context = 16;
    std::vector<std::uint64_t> weights;
    for (const VkBool32 as_filed : {VK_TRUE, VK_FALSE}) {
        info.weights_as_filed = as_filed;
        vkf_session_memory memory = VKF_SESSION_MEMORY_INIT;
        succeed(vkf_session_query_memory(model.get(), &info, &memory));
        weights.push_back(memory.weights);
        const VkfSession session = make_session(*model, info);
        begin(*session, tokenize(*model, "Donnerstag, den 4. März 2021"), 0);
        (void)run_stepped(*session, 0);
        CHECK(text_of(*session) == "2021-03-04");
    }
    CHECK(weights[0] * 5 < weights[1] * 2);
}

TEST_CASE("a translation's text grows with its tokens, and is cut between characters", "[api][c][guest][session]") {
    if (vulkan_device_indices().empty()) return;
    HostApplication host({.device_index = index_of(vulkan_device_indices().back())});
    const VkfDevice device = adopt(host.lend(true));
    const VkfModel model =
        load_model(*device, (std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer").string());
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.source_capacity = 48;
    info.context = 16;
    const VkfSession session = make_session(*model, info);
    begin(*session, tokenize(*model, "Donnerstag, den 4. März 2021"), 0);
    std::string text;
    std::size_t growths = 0;
    while (is_running(*session)) {
        vkf_slice slice = VKF_SLICE_INIT;
        succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
        succeed(vkf_session_wait(session.get(), UINT64_MAX));
        const std::string longer = text_of(*session);
        CHECK(longer.starts_with(text));
        growths += longer.size() > text.size();
        text = longer;
    }
    CHECK(text == "2021-03-04");
    CHECK(growths > 5);

    char short_text[8];
    std::memset(short_text, 'x', sizeof short_text);
    std::size_t bytes = 5;
    CHECK(vkf_session_text(session.get(), &bytes, short_text) == VKF_INCOMPLETE);
    CHECK(std::string(short_text) == "2021");
    CHECK(bytes == 5);
    bytes = 0;
    CHECK(vkf_session_text(session.get(), &bytes, short_text) == VKF_INCOMPLETE);
    bytes = sizeof short_text;
    CHECK(vkf_model_piece(model.get(), 320, &bytes, short_text) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_model_piece(model.get(), -1, &bytes, short_text) == VKF_ERROR_INVALID_ARGUMENT);

    const auto write_four = [&](const char* source) {
        begin(*session, tokenize(*model, source), 0);
        while (status_of(*session).generated_tokens < 4) {
            vkf_slice slice = VKF_SLICE_INIT;
            succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
            succeed(vkf_session_wait(session.get(), UINT64_MAX));
        }
    };
    // What was written when a sequence is cancelled can be read whole.
    write_four("5. Mai 1987");
    const std::string other = text_of(*session);
    CHECK(std::string("1987-05-05").starts_with(other));
    write_four("4. März 2021");  // nothing of the sequence before, of which as many tokens were read
    CHECK(std::string("2021-03-04").starts_with(text_of(*session)));
    CHECK(text_of(*session).front() != other.front());
    succeed(vkf_session_cancel(session.get()));
    CHECK(tokens_of(*session).size() == 4);
    CHECK_FALSE(text_of(*session).empty());
}

}  // namespace vkformer::tests
