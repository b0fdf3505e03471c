// SPDX-License-Identifier: MIT
/// vkformer bench guest: what a model costs an application that records it into its frames, through the public C interface.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "bench/statistics.hpp"
#include "core/try.hpp"
#include "vkformer/vkformer.h"
#include "vulkan/table.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct BenchGuestCommand {
    std::string device = "auto", model;
    std::uint32_t prompt = 64, tokens = 32;
    std::vector<std::uint32_t> budgets = {500, 2000, 8000};
    bool json = false;
};

Result<void> check(vkf_result result) {
    if (result >= 0) return {};
    return Error{ErrorCode::Vulkan, std::string(vkf_result_string(result)) + ": " + vkf_error_message(),
                 vkf_error_vk_result()};
}

/// Device, model and session, destroyed in the opposite order.
struct Guest {
    vkf_device* device = nullptr;
    vkf_model* model = nullptr;
    vkf_session* session = nullptr;
    std::vector<std::int32_t> prompt;
    double load_seconds = 0, create_seconds = 0;

    Guest() = default;
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    ~Guest() {
        vkf_session_destroy(session);
        vkf_model_destroy(model);
        vkf_device_destroy(device);
    }
    Result<void> begin(std::uint32_t tokens) const {
        return check(vkf_session_begin(session, prompt.data(), prompt.size(), tokens));
    }
    Result<vkf_session_status> status() const {
        vkf_session_status status = VKF_SESSION_STATUS_INIT;
        VKFORMER_CHECK(check(vkf_session_poll(session, &status)));
        return status;
    }
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Result<void> open(const BenchGuestCommand& command, Guest& guest) {
    auto start = Clock::now();
    VKFORMER_CHECK(check(vkf_device_create(command.device.c_str(), nullptr, &guest.device)));
    VKFORMER_CHECK(check(vkf_model_load(guest.device, command.model.c_str(), &guest.model)));
    guest.load_seconds = seconds_since(start);
    start = Clock::now();
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.source_capacity = std::max(command.prompt, 1u);
    vkf_model_properties properties = VKF_MODEL_PROPERTIES_INIT;
    VKFORMER_CHECK(check(vkf_model_query(guest.model, &properties)));
    if (properties.kind == VKF_MODEL_DECODER) info.context = command.prompt + command.tokens + 1;
    VKFORMER_CHECK(check(vkf_session_create(guest.model, &info, nullptr, nullptr, &guest.session)));
    guest.create_seconds = seconds_since(start);
    for (std::uint32_t i = 0; i < command.prompt; ++i) guest.prompt.push_back(static_cast<std::int32_t>(i % 50));
    return {};
}

struct HostCost {
    std::vector<double> us;
    double dispatches = 0;
};

/// The caller's time in vkf_session_step, a token at a time.
Result<HostCost> measure_steps(const Guest& guest, std::uint32_t tokens) {
    HostCost cost;
    VKFORMER_CHECK(guest.begin(tokens));
    while (true) {
        vkf_slice slice = VKF_SLICE_INIT;
        const auto start = Clock::now();
        VKFORMER_CHECK(check(vkf_session_step(guest.session, 0, nullptr, &slice)));
        const double us = 1e6 * seconds_since(start);
        VKFORMER_CHECK(check(vkf_session_wait(guest.session, UINT64_MAX)));
        VKFORMER_TRY(const auto status, guest.status());
        if (slice.ticket == 0 || status.state == VKF_SESSION_DONE) return cost;
        if (status.generated_tokens < 2) continue;  // the first one had the prompt with it
        cost.us.push_back(us);
        cost.dispatches = slice.dispatches;
    }
}

/// The caller's time in vkf_session_record, into a command buffer that is thrown away.
Result<HostCost> measure_recording(const Guest& guest, std::uint32_t tokens) {
    vkf_vulkan_handles handles = VKF_VULKAN_HANDLES_INIT;
    VKFORMER_CHECK(check(vkf_device_vulkan(guest.device, &handles)));
    VKFORMER_TRY(const auto instance, vulkan::load_instance_table(handles.get_instance_proc_addr, handles.instance));
    VKFORMER_TRY(const auto vk, vulkan::load_device_table(instance, handles.device));
    const VkCommandPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                            .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                            .queueFamilyIndex = handles.queue_family};
    VkCommandPool pool = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateCommandPool(handles.device, &pool_info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan::vulkan_error(r, "vkCreateCommandPool", "measuring the recording");
    const vulkan::UniqueCommandPool owner(vk, handles.device, pool);
    const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = pool,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = 1};
    VkCommandBuffer commands = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkAllocateCommandBuffers(handles.device, &info, &commands); r != VK_SUCCESS)
        return vulkan::vulkan_error(r, "vkAllocateCommandBuffers", "measuring the recording");
    HostCost cost;
    VKFORMER_CHECK(guest.begin(tokens));
    for (std::uint32_t i = 0; i < std::min<std::uint32_t>(tokens, VKF_MAX_SLICES - 1); ++i) {
        const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
        if (const VkResult r = vk.vkBeginCommandBuffer(commands, &begin); r != VK_SUCCESS)
            return vulkan::vulkan_error(r, "vkBeginCommandBuffer", "measuring the recording");
        vkf_slice slice = VKF_SLICE_INIT;
        const auto start = Clock::now();
        VKFORMER_CHECK(check(vkf_session_record(guest.session, commands, 0, &slice)));
        const double us = 1e6 * seconds_since(start);
        if (const VkResult r = vk.vkEndCommandBuffer(commands); r != VK_SUCCESS)
            return vulkan::vulkan_error(r, "vkEndCommandBuffer", "measuring the recording");
        if (i == 0) continue;  // the prompt
        cost.us.push_back(us);
        cost.dispatches = slice.dispatches;
    }
    VKFORMER_CHECK(check(vkf_session_cancel(guest.session)));
    return cost;
}

struct SliceCost {
    std::uint32_t budget_us = 0;
    std::vector<double> us;  // measured device time of each slice that is not one long dispatch
    std::size_t exceeding = 0;
};

/// A whole sequence in slices of that budget.
Result<SliceCost> measure_slices(const Guest& guest, std::uint32_t tokens, std::uint32_t budget_us) {
    SliceCost cost{.budget_us = budget_us, .us = {}};
    VKFORMER_CHECK(guest.begin(tokens));
    while (true) {
        vkf_slice slice = VKF_SLICE_INIT;
        VKFORMER_CHECK(check(vkf_session_step(guest.session, budget_us, nullptr, &slice)));
        if (slice.ticket == 0) break;
        VKFORMER_CHECK(check(vkf_session_wait(guest.session, UINT64_MAX)));
        VKFORMER_TRY(const auto status, guest.status());
        if (slice.exceeds)
            ++cost.exceeding;
        else
            cost.us.push_back(status.last_gpu_us);
        if (status.state == VKF_SESSION_DONE) break;
    }
    return cost;
}

double quantile(std::vector<double> values, double q) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

json as_json(const HostCost& cost) {
    return {{"us_median", cost.us.empty() ? 0.0 : bench::median_of(cost.us)},
            {"dispatches", cost.dispatches},
            {"tokens", cost.us.size()}};
}

Result<int> run(const BenchGuestCommand& command) {
    Guest guest;
    VKFORMER_CHECK(open(command, guest));
    VKFORMER_TRY(const HostCost step, measure_steps(guest, command.tokens));
    VKFORMER_TRY(const HostCost record, measure_recording(guest, command.tokens));
    json slices = json::array();
    for (const std::uint32_t budget_us : command.budgets) {
        VKFORMER_TRY(const SliceCost cost, measure_slices(guest, command.tokens, budget_us));
        slices.push_back({{"budget_us", budget_us},
                          {"slices", cost.us.size()},
                          {"us_median", quantile(cost.us, 0.5)},
                          {"us_p99", quantile(cost.us, 0.99)},
                          {"exceeding", cost.exceeding}});
    }
    vkf_memory_use use = VKF_MEMORY_USE_INIT;
    VKFORMER_CHECK(check(vkf_device_memory(guest.device, &use)));
    const json report = {{"device", vkf_device_name(guest.device)},
                         {"model", command.model},
                         {"prompt", command.prompt},
                         {"load_seconds", guest.load_seconds},
                         {"create_seconds", guest.create_seconds},
                         {"device_bytes", use.used},
                         {"record", as_json(record)},
                         {"step", as_json(step)},
                         {"slices", slices}};
    if (command.json) {
        VKFORMER_CHECK(print_json(report));
        return kOk;
    }
    std::string text = "device: " + report["device"].get<std::string>() + "\n";
    char line[160];
    const auto add = [&](const char* format, auto... values) {
        std::snprintf(line, sizeof line, format, values...);
        text += line;
    };
    add("open the model:   %8.2f s\nmake the session: %8.2f s, %.1f MiB of device memory\n", guest.load_seconds,
        guest.create_seconds, static_cast<double>(use.used) / (1 << 20));
    for (const auto& [name, cost] : {std::pair("record", &record), std::pair("step  ", &step)})
        if (!cost->us.empty())
            add("%s a token:    %8.0f us of the caller, %.0f dispatches\n", name, bench::median_of(cost->us),
                cost->dispatches);
    for (const json& s : slices)
        add("slices of %5u us: median %.0f, p99 %.0f us in %u slices; %u dispatches longer than that\n",
            s["budget_us"].get<unsigned>(), s["us_median"].get<double>(), s["us_p99"].get<double>(),
            s["slices"].get<unsigned>(), s["exceeding"].get<unsigned>());
    VKFORMER_CHECK(print(text));
    return kOk;
}

}  // namespace

void add_bench_guest(CLI::App& bench, Action& action) {
    auto options = std::make_shared<BenchGuestCommand>();
    CLI::App& command =
        *bench.add_subcommand("guest", "What a model costs an application that records it into its frames");
    command.add_option("-m,--model", options->model, "A model folder or GGUF file")->required();
    command.add_option("-d,--device", options->device, "A Vulkan device: index, UUID or part of its name")
        ->capture_default_str();
    command.add_option("--prompt", options->prompt, "Tokens of the prompt")
        ->check(CLI::Range(1u, 4096u))
        ->capture_default_str();
    command.add_option("--tokens", options->tokens, "Tokens to generate")
        ->check(CLI::Range(4u, 4096u))
        ->capture_default_str();
    command
        .add_option("--budget-us", options->budgets, "Microseconds of device time that a slice may take; repeatable")
        ->allow_extra_args(false)
        ->capture_default_str();
    command.add_flag("--json", options->json, "JSON on standard output");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
