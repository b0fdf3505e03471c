// SPDX-License-Identifier: MIT
#include "vulkan/program_runs.hpp"

#include <algorithm>
#include <chrono>

#include "core/try.hpp"
#include "vulkan/program.hpp"

namespace vkformer::vulkan {
namespace {

/// One before the part, and one behind each dispatch or behind the last.
std::uint32_t timestamps_of(const RunPart& part, bool of_each) {
    return of_each ? part.last.dispatch - part.first.dispatch + (part.last.group > 0 ? 2 : 1) : 2;
}

}  // namespace

Result<std::unique_ptr<ProgramRuns>> ProgramRuns::create(VulkanProgram& program, std::shared_ptr<RunClock> clock) {
    auto runs = std::unique_ptr<ProgramRuns>(new ProgramRuns(program, std::move(clock)));
    const Device& device = *program.device_;
    const VkCommandPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                       .queueFamilyIndex = device.queue_family()};
    VkCommandPool pool = VK_NULL_HANDLE;
    if (const VkResult r = device.vk().vkCreateCommandPool(device.handle(), &info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateCommandPool", "recording a program");
    runs->pool_ = UniqueCommandPool(device.vk(), device.handle(), pool);
    runs->grains_.resize(program.dispatch_count());
    if (runs->is_known_to_be_short()) VKFORMER_CHECK(runs->plan(true));
    return runs;
}

bool ProgramRuns::is_watched() const { return !program_.device_->capabilities().is_cpu(); }

RunClock::Time ProgramRuns::time(std::uint32_t dispatch) const {
    return clock_->expect(program_.dispatch(dispatch).kind(), program_.work(dispatch));
}

DispatchCost ProgramRuns::cost(std::uint32_t dispatch) const {
    const std::uint64_t groups = std::max<std::uint64_t>(program_.dispatch(dispatch).group_count(), 1);
    if (limits_.cut_all) {  // each part is a ninth of the budget
        const std::uint64_t grain = grains_[dispatch];
        return {.us = grain ? 9 * limits_.aim_us : 0, .groups = groups, .grain = grain};
    }
    return {.us = is_watched() ? time(dispatch).us : 0, .groups = groups, .grain = grains_[dispatch]};
}

/// Whether nothing has to be found out before a run.
bool ProgramRuns::is_known_to_be_short() const {
    if (!is_watched() || limits_.cut_all) return true;
    double sum_us = 0;
    bool is_measured = true;
    for (std::uint32_t i = 0; i < program_.dispatch_count(); ++i) {
        const auto [us, measured] = time(i);
        sum_us += us;
        is_measured = is_measured && measured;
    }
    return is_measured || sum_us <= limits_.aim_us;
}

Result<void> ProgramRuns::cut_if_long(std::uint32_t dispatch) {
    if (grains_[dispatch] != 0 || (!limits_.cut_all && time(dispatch).us <= 2 * limits_.aim_us)) return {};
    VKFORMER_TRY(const std::uint64_t grain, program_.grain(dispatch));
    if (grain == 0) return {};
    VKFORMER_CHECK(program_.make_cuttable(dispatch));
    grains_[dispatch] = grain;
    return {};
}

/// Cuts a run into its submissions, by what is known or, where it is not measured, thought; and records them.
Result<void> ProgramRuns::plan(bool is_measured) {
    const Device& device = *program_.device_;
    const std::uint32_t count = program_.dispatch_count();
    if (is_watched() || limits_.cut_all) {
        for (std::uint32_t i = 0; i < count; ++i)
            if (is_measured || time(i).us > limits_.most_us) VKFORMER_CHECK(cut_if_long(i));
    }
    auto parts = cut_run([this](std::uint32_t dispatch) { return cost(dispatch); }, count, limits_.aim_us);

    std::vector<std::uint32_t> first_queries;
    std::uint32_t queries = 0;
    for (const RunPart& part : parts) {
        first_queries.push_back(queries);
        queries += timestamps_of(part, !is_measured);
    }
    queries_ = {};
    if (is_watched() && count > 0) {
        VKFORMER_TRY(queries_, TimestampQueries::create(device, queries));
    }
    if (const VkResult r = device.vk().vkResetCommandPool(device.handle(), pool_.get(), 0); r != VK_SUCCESS)
        return vulkan_error(r, "vkResetCommandPool", "recording a program");
    std::vector<VkCommandBuffer> commands;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        VKFORMER_TRY(commands.emplace_back(),
                     record(parts[i], first_queries[i], !is_measured, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT));
        device.set_name(VK_OBJECT_TYPE_COMMAND_BUFFER, commands.back(), "vkformer program");
    }
    parts_ = std::move(parts);
    commands_ = std::move(commands);
    first_queries_ = std::move(first_queries);
    is_measured_ = is_measured;
    return {};
}

Result<VkCommandBuffer> ProgramRuns::record(const RunPart& part, std::uint32_t first_query, bool of_each,
                                            VkCommandBufferUsageFlags usage) {
    const Device& device = *program_.device_;
    const DeviceTable& vk = device.vk();
    const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = pool_.get(),
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = 1};
    VkCommandBuffer commands = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkAllocateCommandBuffers(device.handle(), &info, &commands); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateCommandBuffers", "recording a program");
    const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = usage};
    if (const VkResult r = vk.vkBeginCommandBuffer(commands, &begin); r != VK_SUCCESS)
        return vulkan_error(r, "vkBeginCommandBuffer", "recording a program");
    if (queries_) queries_.record_reset(commands, first_query, timestamps_of(part, of_each));
    program_.record_own_part(commands, part.first, part.last,
                             {.queries = queries_ ? &queries_ : nullptr, .first = first_query, .of_each = of_each});
    if (const VkResult r = vk.vkEndCommandBuffer(commands); r != VK_SUCCESS)
        return vulkan_error(r, "vkEndCommandBuffer", "recording a program");
    return commands;
}

Result<void> ProgramRuns::submit(std::uint32_t times, const SemaphorePoints& points, std::uint64_t& submitted) {
    if (times == 0) return {};
    Device& device = *program_.device_;
    if (parts_.empty()) {
        if (!points.waits.empty()) {
            VKFORMER_CHECK(plan(false));
        } else {
            const bool is_last = times == 1;
            VKFORMER_CHECK(
                run_measured(is_last ? std::span(points.signals) : std::span<const SemaphorePoint>(), submitted));
            VKFORMER_CHECK(plan(true));
            if (is_last) return {};
            --times;
        }
    }
    const auto submit_some = [&](std::span<const VkCommandBuffer> commands, bool is_first,
                                 bool is_last) -> Result<void> {
        VKFORMER_TRY(submitted,
                     device.submit(commands, {.waits = is_first ? points.waits : std::vector<SemaphorePoint>(),
                                              .signals = is_last ? points.signals : std::vector<SemaphorePoint>()}));
        return {};
    };
    if (parts_.size() == 1) {  // as many runs at once as fit
        const double run_us = parts_[0].expected_us;
        const double fitting =
            run_us > 0 ? std::clamp(limits_.aim_us / run_us, 1.0, static_cast<double>(times)) : times;
        const auto most = static_cast<std::uint32_t>(fitting);
        for (std::uint32_t done = 0; done < times;) {
            const std::uint32_t now = std::min(most, times - done);
            const std::vector<VkCommandBuffer> commands(now, commands_[0]);
            VKFORMER_CHECK(submit_some(commands, done == 0, done + now == times));
            done += now;
        }
        return {};
    }
    for (std::uint32_t run = 0; run < times; ++run)
        for (std::size_t i = 0; i < commands_.size(); ++i)
            VKFORMER_CHECK(
                submit_some({&commands_[i], 1}, run == 0 && i == 0, run + 1 == times && i + 1 == commands_.size()));
    return {};
}

/// One run, each part of which is waited for, so that what comes next is cut by what was learned.
Result<void> ProgramRuns::run_measured(std::span<const SemaphorePoint> signals, std::uint64_t& submitted) {
    const std::uint32_t count = program_.dispatch_count();
    VKFORMER_TRY(queries_, TimestampQueries::create(*program_.device_, count + 1));
    // Without timestamps a dispatch's time is told by waiting for it alone.
    const double budget_us = queries_ ? limits_.aim_us : 0;
    for (RunPlace at{}; at.dispatch < count;) {
        if (at.group == 0 && !time(at.dispatch).is_measured && time(at.dispatch).us > limits_.most_us)
            VKFORMER_CHECK(probe(at.dispatch, submitted));
        VKFORMER_CHECK(cut_if_long(at.dispatch));
        RunPart part = next_part([this](std::uint32_t dispatch) { return cost(dispatch); }, count, at, budget_us);
        const bool is_last = part.last.dispatch == count;
        VKFORMER_CHECK(run_alone(part, is_last ? signals : std::span<const SemaphorePoint>(), submitted));
        at = part.last;
    }
    return {};
}

Result<void> ProgramRuns::run_alone(const RunPart& part, std::span<const SemaphorePoint> signals,
                                    std::uint64_t& submitted) {
    Device& device = *program_.device_;
    if (const VkResult r = device.vk().vkResetCommandPool(device.handle(), pool_.get(), 0); r != VK_SUCCESS)
        return vulkan_error(r, "vkResetCommandPool", "recording a program");
    VKFORMER_TRY(const VkCommandBuffer commands, record(part, 0, true, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    const auto start = std::chrono::steady_clock::now();
    VKFORMER_TRY(submitted, device.submit({&commands, 1}, {.waits = {}, .signals = {signals.begin(), signals.end()}}));
    VKFORMER_CHECK(device.wait(submitted));
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    if (queries_) return learn(part, 0);
    // One dispatch, or a part of one.
    const std::uint32_t dispatch = part.first.dispatch;
    const std::uint64_t end =
        part.last.dispatch == dispatch ? part.last.group : program_.dispatch(dispatch).group_count();
    note(dispatch, end - part.first.group, taken.count());
    return {};
}

/// Begins a dispatch that may be long with so few of its workgroups that they cannot be, and with more while those were quick. It is done
/// again as a whole later.
Result<void> ProgramRuns::probe(std::uint32_t dispatch, std::uint64_t& submitted) {
    const BoundDispatch& bound = program_.dispatch(dispatch);
    VKFORMER_TRY(const std::uint64_t grain, program_.grain(dispatch));
    if (grain == 0) return {};
    const auto all = static_cast<double>(bound.group_count());
    for (std::uint64_t before = 0;;) {
        const double us = time(dispatch).us;
        if (us <= 2 * limits_.aim_us) return {};
        std::uint64_t groups = std::max(static_cast<std::uint64_t>(all * limits_.aim_us / us), grain);
        while (groups > grain && (groups % grain != 0 || !bound.is_box(groups))) --groups;
        if (groups < 2 * before || groups >= bound.group_count()) return {};
        VKFORMER_CHECK(run_alone({.first = {dispatch, 0}, .last = {dispatch, groups}}, {}, submitted));
        before = groups;
    }
}

void ProgramRuns::note(std::uint32_t dispatch, std::uint64_t groups, double us) {
    const BoundDispatch& bound = program_.dispatch(dispatch);
    clock_->note(bound.kind(), program_.work(dispatch),
                 static_cast<double>(groups) / static_cast<double>(bound.group_count()), us);
}

/// What the timestamps say that were recorded behind each dispatch.
Result<void> ProgramRuns::learn(const RunPart& part, std::uint32_t first_query) {
    VKFORMER_TRY(const auto intervals, queries_.intervals_ns(first_query, timestamps_of(part, true) - 1));
    if (!intervals) return {};
    RunPlace at = part.first;
    for (const double ns : *intervals) {
        const std::uint64_t end =
            at.dispatch == part.last.dispatch ? part.last.group : program_.dispatch(at.dispatch).group_count();
        note(at.dispatch, end - at.group, ns / 1000);
        at = {at.dispatch + 1, 0};
    }
    return {};
}

Result<void> ProgramRuns::note_done() {
    if (!queries_ || parts_.empty()) return {};
    if (!is_measured_) {
        for (std::size_t i = 0; i < parts_.size(); ++i) VKFORMER_CHECK(learn(parts_[i], first_queries_[i]));
        return plan(true);
    }
    double sum_us = 0, expected_us = 0;
    bool is_late = false;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        VKFORMER_TRY(const auto interval, queries_.intervals_ns(first_queries_[i], 1));
        if (!interval) return {};
        const double us = interval->front() / 1000;
        sum_us += us;
        expected_us += parts_[i].expected_us;
        is_late = is_late || us > 2 * std::max(parts_[i].expected_us, limits_.aim_us);
    }
    // Quicker than thought matters where it could be one submission, as after a first run that met a cold device.
    if (is_late || (parts_.size() > 1 && sum_us < expected_us / 2)) parts_.clear();  // the next run is measured
    return {};
}

}  // namespace vkformer::vulkan
