// SPDX-License-Identifier: MIT
// What Vulkan may refuse: every call fails once with every error that it may return, and what happens then is an error code, never
// more. And what the guest does not do once it is warm: compile, allocate, wait.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <nlohmann/json.hpp>

#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/must.hpp"
#include "support/vkf.hpp"

namespace vkformer::tests {
namespace {

constexpr const char* kModel = "llama_gqa_odd";
constexpr std::uint32_t kFaultTokens = 3;

std::string model_folder() { return (goldens_dir() / "decoders" / kModel).string(); }

std::vector<std::int32_t> prompt() {
    std::ifstream file(goldens_dir() / "decoders" / kModel / "greedy.json");
    return nlohmann::json::parse(file)["prompt"].get<std::vector<std::int32_t>>();
}

bool is_thorough() { return std::getenv("VKFORMER_TEST_THOROUGH") != nullptr; }

/// All of them; a quick run takes each function's first two and every eighth.
std::vector<std::size_t> calls_to_fail(const std::vector<std::string>& calls) {
    std::vector<std::size_t> chosen;
    std::map<std::string, std::size_t> seen;
    for (std::size_t i = 0; i < calls.size(); ++i)
        if (is_thorough() || seen[calls[i]]++ < 2 || i % 8 == 0) chosen.push_back(i);
    return chosen;
}

/// A session's life through the interposed table, from adoption to destruction, up to the first error.
struct SessionLife {
    vkf_result result = VKF_SUCCESS;
    std::vector<std::int32_t> tokens;  // that could be read in the end, error or not
};

vkf_result generate(vkf_session* session, const std::vector<std::int32_t>& tokens, std::uint32_t count) {
    if (const vkf_result r = vkf_session_begin(session, tokens.data(), tokens.size(), count)) return r;
    vkf_session_status status = VKF_SESSION_STATUS_INIT;
    do {
        vkf_slice slice = VKF_SLICE_INIT;
        if (const vkf_result r = vkf_session_step(session, 0, nullptr, &slice); r < 0) return r;
        if (const vkf_result r = vkf_session_wait(session, UINT64_MAX); r < 0) return r;
        if (const vkf_result r = vkf_session_poll(session, &status); r < 0) return r;
    } while (status.state != VKF_SESSION_DONE);
    return VKF_SUCCESS;
}

SessionLife live(HostApplication& host, VkPipelineCache cache, const std::vector<std::int32_t>& tokens,
                 std::uint32_t count) {
    SessionLife life;
    vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
    options.pipeline_cache = cache;
    const vkf_adopt_info info = host.lend(true);
    vkf_device* device = nullptr;
    if ((life.result = vkf_device_adopt(&info, &options, &device))) return life;
    const VkfDevice device_owner(device);
    vkf_model* model = nullptr;
    if ((life.result = vkf_model_load(device, model_folder().c_str(), &model))) return life;
    const VkfModel model_owner(model);
    vkf_session_info session_info = VKF_SESSION_INFO_INIT;
    session_info.context = 32;
    session_info.chunk = 16;
    vkf_session* session = nullptr;
    if ((life.result = vkf_session_create(model, &session_info, nullptr, nullptr, &session))) return life;
    const VkfSession session_owner(session);
    life.result = generate(session, tokens, count);
    const vkf_result code = life.result;
    life.tokens = tokens_of(*session);
    life.result = code;
    return life;
}

}  // namespace

TEST_CASE("whatever Vulkan call fails, the answer is an error code and nothing is left behind",
          "[api][c][guest][faults]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    Interposer interposer(must(vulkan::open_loader()));
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index)),
                          .validation = false,  // it would count the objects of calls that were never made
                          .get = interposer.get()});
    const VkPipelineCacheCreateInfo cache_info{.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache = VK_NULL_HANDLE;  // so that each life compiles nothing anew
    REQUIRE(host.dvk.vkCreatePipelineCache(host.device, &cache_info, nullptr, &cache) == VK_SUCCESS);

    const auto tokens = prompt();
    const SessionLife whole = live(host, cache, tokens, kFaultTokens);
    REQUIRE(whole.result == VKF_SUCCESS);
    REQUIRE(whole.tokens.size() == kFaultTokens);
    CHECK(interposer.live().empty());
    const std::vector<std::string> calls = interposer.fallible_calls();
    CHECK(calls.size() > 100);

    std::size_t faults = 0, losses = 0;
    std::map<std::string, std::size_t> by_function;
    for (const std::size_t call : calls_to_fail(calls)) {
        // All errors in turn; a quick run takes them by turns from call to call, and a lost device always.
        for (std::size_t error = is_thorough() ? 0 : call % 2;;
             error = is_thorough() ? error + 1 : std::max<std::size_t>(error + 1, 2)) {
            interposer.arm(call, error);
            const SessionLife life = live(host, cache, tokens, kFaultTokens);
            const auto failed = interposer.failed();
            if (!failed) break;  // the function has no more errors
            ++faults;
            ++by_function[*failed];
            CAPTURE(call, *failed, error, vkf_error_message());
            // A wait that fails while everything is being destroyed has nobody to tell.
            CHECK((life.result < 0 || life.tokens == whole.tokens));
            CHECK(interposer.live() == std::map<std::string, std::int64_t>{});
            if (!interposer.lost_device() || life.result == VKF_SUCCESS) continue;
            ++losses;
            CHECK(life.result == VKF_ERROR_DEVICE_LOST);
            // On a fresh device the sequence goes on from the tokens that there are.
            std::vector<std::int32_t> read = tokens;
            read.insert(read.end(), life.tokens.begin(), life.tokens.end());
            const auto left = kFaultTokens - static_cast<std::uint32_t>(life.tokens.size());
            if (left == 0) continue;
            const SessionLife rest = live(host, cache, read, left);
            std::vector<std::int32_t> all = life.tokens;
            all.insert(all.end(), rest.tokens.begin(), rest.tokens.end());
            CHECK(all == whole.tokens);
        }
    }
    CHECK(losses > 0);
    if (is_thorough()) CHECK(faults >= calls.size());
    for (const char* function : {"vkAllocateMemory", "vkMapMemory", "vkCreateComputePipelines", "vkQueueSubmit",
                                 "vkWaitSemaphores", "vkGetQueryPoolResults", "vkAllocateDescriptorSets"})
        CHECK(by_function[function] > 0);
    host.dvk.vkDestroyPipelineCache(host.device, cache, nullptr);
}

TEST_CASE("a session whose device is lost answers with errors, waits for nothing and gives its tokens",
          "[api][c][guest][faults]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    Interposer interposer(must(vulkan::open_loader()));
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index)), .get = interposer.get()});
    const VkfDevice device = adopt(host.lend(true));
    const VkfModel model = load_model(*device, model_folder());
    const VkfSession session = make_session(*model);
    const auto tokens = prompt();
    const auto step = [&] {
        vkf_slice slice = VKF_SLICE_INIT;
        return vkf_session_step(session.get(), 0, nullptr, &slice);
    };
    succeed(vkf_session_begin(session.get(), tokens.data(), tokens.size(), 8));
    while (tokens_of(*session).empty()) {
        succeed(step());
        succeed(vkf_session_wait(session.get(), UINT64_MAX));
    }
    const auto found = tokens_of(*session);
    interposer.lose_device(0);
    CHECK(step() == VKF_ERROR_DEVICE_LOST);
    CHECK(std::string(vkf_error_message()).find("make it anew") != std::string::npos);
    interposer.reset_calls();
    CHECK(step() == VKF_ERROR_DEVICE_LOST);
    CHECK(vkf_session_wait(session.get(), UINT64_MAX) == VKF_ERROR_DEVICE_LOST);
    CHECK(std::string(vkf_error_message()).find("was lost before") != std::string::npos);
    CHECK(vkf_device_wait(device.get(), 1, UINT64_MAX) == VKF_ERROR_DEVICE_LOST);
    const vkf_session_info info = VKF_SESSION_INFO_INIT;
    vkf_session* another = nullptr;
    CHECK(vkf_session_create(model.get(), &info, nullptr, nullptr, &another) == VKF_ERROR_DEVICE_LOST);
    CHECK(tokens_of(*session) == found);
    CHECK(interposer.calls()["vkQueueSubmit"] == 0);
    CHECK(interposer.calls()["vkWaitSemaphores"] == 0);
}

TEST_CASE("a warm session neither compiles nor allocates nor waits", "[api][c][guest][faults]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    Interposer interposer(must(vulkan::open_loader()));
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index)), .get = interposer.get()});
    const VkfDevice device = adopt(host.lend(true));
    const VkfModel model = load_model(*device, model_folder());
    const VkfSession session = make_session(*model);
    const VkCommandBuffer commands = host.make_commands();
    const auto tokens = prompt();
    interposer.reset_calls();
    for (int round = 0; round < 2; ++round) {  // the whole of a sequence, from its first slice on
        succeed(vkf_session_begin(session.get(), tokens.data(), tokens.size(), kFaultTokens));
        while (status_of(*session).state != VKF_SESSION_DONE) {
            host.begin(commands);
            vkf_slice slice = VKF_SLICE_INIT;
            succeed(vkf_session_record(session.get(), commands, 500, &slice));
            host.end(commands);
            host.submit_and_wait(commands);
            succeed(vkf_session_retire(session.get(), slice.ticket));
        }
    }
    for (const auto& [name, count] : interposer.calls()) {
        CAPTURE(name, count);
        CHECK(name == "vkGetQueryPoolResults");  // what the slices took; without waiting
    }
    succeed(vkf_session_begin(session.get(), tokens.data(), tokens.size(), kFaultTokens));
    interposer.reset_calls();
    vkf_slice slice = VKF_SLICE_INIT;
    succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
    for (const auto& [name, count] : interposer.calls()) {
        CAPTURE(name, count);
        CHECK((name == "vkBeginCommandBuffer" || name == "vkEndCommandBuffer" || name == "vkQueueSubmit"));
    }
    succeed(vkf_session_wait(session.get(), UINT64_MAX));
}

TEST_CASE("what other programs leave of the device's memory is respected", "[api][c][guest][faults]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    Interposer interposer(must(vulkan::open_loader()));
    interposer.leave_memory(10'000);
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index)), .get = interposer.get()});
    const VkfDevice device = adopt(host.lend(true));
    const VkfModel model = load_model(*device, model_folder());
    const vkf_session_info info = VKF_SESSION_INFO_INIT;
    vkf_session* session = nullptr;
    interposer.reset_calls();
    CHECK(vkf_session_create(model.get(), &info, nullptr, nullptr, &session) == VKF_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(std::string(vkf_error_message()).find("the driver leaves 0.0 MiB") != std::string::npos);
    CHECK(interposer.calls()["vkAllocateMemory"] == 0);
    vkf_memory_use use = VKF_MEMORY_USE_INIT;
    succeed(vkf_device_memory(device.get(), &use));
    CHECK(use.budget == use.used + 10'000);
    interposer.leave_memory(1 << 28);
    CHECK(make_session(*model) != nullptr);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("a session whose weights do not fit the device leaves them in the host's memory",
          "[api][c][guest][faults][offload]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    const std::string path = std::string(VKFORMER_SOURCE_DIR) + "/samples/models/verse-writer/verse-writer-q8_0.gguf";
    const std::vector<std::int32_t> prompt = {5, 8, 11, 14};
    const auto tokens_of = [&](std::uint64_t own_memory, std::uint64_t offload_bytes, std::string& told) {
        Interposer interposer(must(vulkan::open_loader()));
        interposer.claim_own_memory(own_memory);
        HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index)), .get = interposer.get()});
        vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
        options.offload_bytes = offload_bytes;
        options.memory_budget = own_memory;
        options.log = [](void* user, vkf_log_level, const char* message) {
            if (std::string(message).starts_with("offload: ")) *static_cast<std::string*>(user) += message;
        };
        options.log_user = &told;
        std::vector<std::int32_t> tokens;
        const VkfDevice device = adopt(host.lend(true), &options);
        const VkfModel model = load_model(*device, path);
        vkf_session_info info = VKF_SESSION_INFO_INIT;
        info.context = 64;
        vkf_session* made = nullptr;
        if (const vkf_result result = vkf_session_create(model.get(), &info, nullptr, nullptr, &made)) {
            CHECK(result == VKF_ERROR_OUT_OF_DEVICE_MEMORY);
            return tokens;
        }
        const VkfSession session(made);
        succeed(vkf_session_begin(session.get(), prompt.data(), prompt.size(), 6));
        while (status_of(*session).state != VKF_SESSION_DONE) {
            vkf_slice slice = VKF_SLICE_INIT;
            succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
            succeed(vkf_session_wait(session.get(), UINT64_MAX));
        }
        CHECK(interposer.most_own_memory() <= own_memory);
        std::size_t count = 0;
        succeed(vkf_session_tokens(session.get(), &count, nullptr));
        tokens.resize(count);
        succeed(vkf_session_tokens(session.get(), &count, tokens.data()));
        return tokens;
    };
    std::string told;
    const auto expected = tokens_of(64 << 20, VKF_OFFLOAD_REST, told);
    CHECK(expected.size() == 6);
    CHECK(told.empty());
    CHECK(tokens_of(4 << 20, 0, told).empty());
    CHECK(told.empty());
    CHECK(tokens_of(4 << 20, VKF_OFFLOAD_REST, told) == expected);
    CHECK(told.find(" MiB of weights stay in the host's memory") != std::string::npos);
}

}  // namespace vkformer::tests
