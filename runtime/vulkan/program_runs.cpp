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
    runs->is_cut_.resize(program.dispatch_count());
    if (runs->needs_no_measuring()) VKFORMER_CHECK(runs->plan(true));
    return runs;
}

bool ProgramRuns::is_watched() const { return !program_.device_->capabilities().is_cpu(); }

RunClock::Time ProgramRuns::time(std::uint32_t dispatch) const { return clock_->expect(program_.kind(dispatch)); }

DispatchCost ProgramRuns::cost(std::uint32_t dispatch) const {
    const std::uint64_t groups = std::max<std::uint64_t>(program_.dispatch(dispatch).group_count(), 1);
    if (limits_.cut_all) {  // each part is a ninth of the budget
        return {.us = is_cut_[dispatch] ? 9 * limits_.aim_us : 0, .groups = groups, .is_cuttable = is_cut_[dispatch]};
    }
    return {.us = is_watched() ? time(dispatch).us : 0, .groups = groups, .is_cuttable = is_cut_[dispatch]};
}

/// Every dispatch was measured, or all together are short even if they are slow.
bool ProgramRuns::needs_no_measuring() const {
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

void ProgramRuns::cut_if_long(std::uint32_t dispatch) {
    if (limits_.cut_all || time(dispatch).us > 2 * limits_.aim_us) is_cut_[dispatch] = program_.is_cuttable(dispatch);
}

/// Cuts a run into its submissions, by what is known or, where it is not measured, thought; and records them.
Result<void> ProgramRuns::plan(bool is_measured) {
    const std::uint32_t count = program_.dispatch_count();
    if (is_watched() || limits_.cut_all) {
        for (std::uint32_t i = 0; i < count; ++i)
            if (is_measured || time(i).us > limits_.most_us) cut_if_long(i);
    }
    auto parts = cut_run([this](std::uint32_t dispatch) { return cost(dispatch); }, count, limits_.aim_us);

    std::vector<std::uint32_t> first_queries;
    std::uint32_t queries = 0;
    for (const RunPart& part : parts) {
        first_queries.push_back(queries);
        queries += timestamps_of(part, !is_measured);
    }
    VKFORMER_CHECK(begin_anew(is_watched() && count > 0 ? queries : 0));
    for (std::size_t i = 0; i < parts.size(); ++i)
        VKFORMER_CHECK(record(parts[i], first_queries[i], !is_measured, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT));
    parts_ = std::move(parts);
    run_us_ = 0;
    for (const RunPart& part : parts_) run_us_ += part.expected_us;
    first_queries_ = std::move(first_queries);
    is_measured_ = is_measured;
    return {};
}

/// Forgets what was recorded, of which nothing may be executing, and makes room for so many timestamps.
Result<void> ProgramRuns::begin_anew(std::uint32_t queries) {
    const Device& device = *program_.device_;
    parts_.clear();
    has_run_ = false;
    is_stale_ = false;
    queries_ = {};
    if (queries > 0) {
        VKFORMER_TRY(queries_, TimestampQueries::create(device, queries));
    }
    return reuse_buffers();
}

Result<void> ProgramRuns::reuse_buffers() {
    const Device& device = *program_.device_;
    used_buffers_ = 0;
    if (const VkResult r = device.vk().vkResetCommandPool(device.handle(), pool_.get(), 0); r != VK_SUCCESS)
        return vulkan_error(r, "vkResetCommandPool", "recording a program");
    return {};
}

Result<VkCommandBuffer> ProgramRuns::next_buffer() {
    const Device& device = *program_.device_;
    if (used_buffers_ == buffers_.size()) {
        const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .commandPool = pool_.get(),
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = 1};
        VkCommandBuffer buffer = VK_NULL_HANDLE;
        if (const VkResult r = device.vk().vkAllocateCommandBuffers(device.handle(), &info, &buffer); r != VK_SUCCESS)
            return vulkan_error(r, "vkAllocateCommandBuffers", "recording a program");
        device.set_name(VK_OBJECT_TYPE_COMMAND_BUFFER, buffer, "vkformer program");
        buffers_.push_back(buffer);
    }
    return buffers_[used_buffers_++];
}

Result<VkCommandBuffer> ProgramRuns::record(const RunPart& part, std::uint32_t first_query, bool of_each,
                                            VkCommandBufferUsageFlags usage) {
    const Device& device = *program_.device_;
    const DeviceTable& vk = device.vk();
    VKFORMER_TRY(const VkCommandBuffer commands, next_buffer());
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
    if (submitted != 0 && is_watched()) {  // who waits for a ticket of the device's does not tell the program
        VKFORMER_TRY(const bool is_done, device.wait_for(submitted, 0));
        if (is_done) {
            submitted = 0;
            VKFORMER_CHECK(note_done());
        }
    }
    if (parts_.empty()) {
        if (!is_stale_ && needs_no_measuring()) {
            VKFORMER_CHECK(plan(true));
        } else if (!points.waits.empty() || !device.is_own()) {
            VKFORMER_CHECK(plan(false));
        } else {
            const bool is_last = times == 1;
            VKFORMER_CHECK(
                run_measured(is_last ? std::span(points.signals) : std::span<const SemaphorePoint>(), submitted));
            if (is_last) return {};  // planned when it is submitted again
            VKFORMER_CHECK(plan(true));
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
        const double fitting =
            run_us_ > 0 ? std::clamp(limits_.aim_us / run_us_, 1.0, static_cast<double>(times)) : times;
        const auto most = static_cast<std::uint32_t>(fitting);
        for (std::uint32_t done = 0; done < times;) {
            const std::uint32_t now = std::min(most, times - done);
            const std::vector<VkCommandBuffer> commands(now, buffers_[0]);
            VKFORMER_CHECK(submit_some(commands, done == 0, done + now == times));
            done += now;
        }
        has_run_ = true;
        return {};
    }
    for (std::uint32_t run = 0; run < times; ++run)
        for (std::size_t i = 0; i < parts_.size(); ++i)
            VKFORMER_CHECK(
                submit_some({&buffers_[i], 1}, run == 0 && i == 0, run + 1 == times && i + 1 == parts_.size()));
    has_run_ = true;
    return {};
}

/// One run, each part of which is waited for, so that what comes next is cut by what was learned.
Result<void> ProgramRuns::run_measured(std::span<const SemaphorePoint> signals, std::uint64_t& submitted) {
    const std::uint32_t count = program_.dispatch_count();
    const bool has_timestamps = program_.device_->capabilities().timestamp_valid_bits > 0;
    VKFORMER_CHECK(begin_anew(has_timestamps ? count + 1 : 0));
    for (RunPlace at{}; at.dispatch < count;) {
        if (at.group == 0 && !time(at.dispatch).is_measured && time(at.dispatch).us > limits_.most_us)
            VKFORMER_CHECK(probe(at.dispatch, submitted));
        cut_if_long(at.dispatch);
        RunPart part = next_part([this](std::uint32_t dispatch) { return cost(dispatch); }, count, at, limits_.aim_us);
        // Without timestamps a dispatch's time is told by waiting for it alone.
        if (const RunPlace next{at.dispatch + 1, 0}; !queries_ && part.last > next) part.last = next;
        const bool is_last = part.last.dispatch == count;
        VKFORMER_CHECK(run_alone(part, is_last ? signals : std::span<const SemaphorePoint>(), submitted));
        at = part.last;
    }
    return {};
}

Result<void> ProgramRuns::run_alone(const RunPart& part, std::span<const SemaphorePoint> signals,
                                    std::uint64_t& submitted) {
    Device& device = *program_.device_;
    VKFORMER_CHECK(reuse_buffers());
    VKFORMER_TRY(const VkCommandBuffer commands, record(part, 0, true, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    const auto start = std::chrono::steady_clock::now();
    VKFORMER_TRY(submitted, device.submit({&commands, 1}, {.waits = {}, .signals = {signals.begin(), signals.end()}}));
    if (auto done = device.wait(submitted); !done) {
        device.drain(submitted);  // before its buffer is used again
        return done;
    }
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    if (queries_) return learn(part, 0);
    // One dispatch, or a part of one.
    const std::uint32_t dispatch = part.first.dispatch;
    const std::uint64_t end =
        part.last.dispatch == dispatch ? part.last.group : program_.dispatch(dispatch).group_count();
    note(dispatch, part.first.group, end, taken.count());
    return {};
}

/// Begins a dispatch that may be long with so few of its workgroups that they cannot be, and with more while those were quick. It is done
/// again as a whole later.
Result<void> ProgramRuns::probe(std::uint32_t dispatch, std::uint64_t& submitted) {
    const BoundDispatch& bound = program_.dispatch(dispatch);
    if (!program_.is_cuttable(dispatch)) return {};
    const auto all = static_cast<double>(bound.group_count());
    for (std::uint64_t before = 0;;) {
        const double us = time(dispatch).us;
        if (us <= 2 * limits_.aim_us) return {};
        const std::uint64_t groups = std::max<std::uint64_t>(static_cast<std::uint64_t>(all * limits_.aim_us / us), 1);
        if (groups < 2 * before || groups >= bound.group_count()) return {};
        VKFORMER_CHECK(run_alone({.first = {dispatch, 0}, .last = {dispatch, groups}}, {}, submitted));
        before = groups;
    }
}

/// Workgroups `first` to `end` took so long. A dispatch's parts come one behind the other, and tell together: with a causal mask attention's
/// first workgroups take longer than its last.
void ProgramRuns::note(std::uint32_t dispatch, std::uint64_t first, std::uint64_t end, double us) {
    cut_us_ = first == 0 ? us : cut_us_ + us;
    const double of_grid = static_cast<double>(end) / static_cast<double>(program_.dispatch(dispatch).group_count());
    clock_->note(program_.kind(dispatch), of_grid, cut_us_, program_.is_whole_node(dispatch));
}

/// What the timestamps say that were recorded behind each dispatch.
Result<void> ProgramRuns::learn(const RunPart& part, std::uint32_t first_query) {
    VKFORMER_TRY(const auto intervals, queries_.intervals_ns(first_query, timestamps_of(part, true) - 1));
    if (!intervals) return {};
    RunPlace at = part.first;
    for (const double ns : *intervals) {
        const std::uint64_t end =
            at.dispatch == part.last.dispatch ? part.last.group : program_.dispatch(at.dispatch).group_count();
        note(at.dispatch, at.group, end, ns / 1000);
        at = {at.dispatch + 1, 0};
    }
    return {};
}

Result<void> ProgramRuns::note_done() {
    if (!queries_ || parts_.empty() || !has_run_) return {};
    if (!is_measured_) {
        for (std::size_t i = 0; i < parts_.size(); ++i) VKFORMER_CHECK(learn(parts_[i], first_queries_[i]));
        parts_.clear();  // the next run is planned by what was learned
        return {};
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
    run_us_ = sum_us;
    // Quicker than thought matters where it could be one submission, as after a first run that met a cold device.
    if (is_late || (parts_.size() > 1 && sum_us < expected_us / 2)) {
        is_stale_ = true;  // the next run is measured
        parts_.clear();
    }
    return {};
}

}  // namespace vkformer::vulkan
