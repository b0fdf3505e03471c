// SPDX-License-Identifier: MIT
#include "guest/sliced_session.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "core/try.hpp"
#include "vulkan/run_clock.hpp"

namespace vkformer::guest {
namespace {

using vulkan::DeviceTable;
using vulkan::DispatchClock;
using vulkan::RunPart;
using vulkan::RunPlace;

constexpr std::uint32_t kDispatchesWithoutClock = 8;
/// The second time the driver has nothing left to compile, and in the third, where there is one, long dispatches are cut.
constexpr std::uint32_t kWarmUps = 3;
/// A dispatch above this is made cuttable: a frame at 60 Hz has 16.7 ms, of which a guest is given a few.
constexpr double kCutAboveUs = 1000;
constexpr std::uint64_t kLargestUpdate = 65536;  // bytes, of vkCmdUpdateBuffer

void barrier(const DeviceTable& vk, VkCommandBuffer commands, VkPipelineStageFlags source_stage, VkAccessFlags source,
             VkPipelineStageFlags target_stage, VkAccessFlags target) {
    const VkMemoryBarrier memory{
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = source, .dstAccessMask = target};
    vk.vkCmdPipelineBarrier(commands, source_stage, target_stage, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

Result<std::vector<const graph::Plan*>> plans_of(decoding::SequenceScript& script) {
    VKFORMER_TRY(const auto parts, script.parts());
    std::vector<const graph::Plan*> plans;
    for (const decoding::Part* part : parts) plans.push_back(&part->plan);
    return plans;
}

std::uint64_t words_of(const decoding::SequenceScript& script) {
    std::uint64_t words = 0;
    for (const decoding::Read& read : script.reads(0)) words += read.count;
    return words;
}

}  // namespace

/// The words that steps have left for the host, one step behind the other.
class SlicedSession::Readback final : public decoding::Records {
public:
    explicit Readback(const SlicedSession& session) : session_(session) {}
    Result<std::span<const std::int32_t>> get(std::uint32_t step, std::size_t index) override {
        const std::uint64_t all = session_.record_words() * session_.script().capacity();
        std::uint64_t at = session_.record_words() * step;
        const auto reads = session_.script().reads(step);
        for (std::size_t i = 0; i < index; ++i) at += reads[i].count;
        return std::span(reinterpret_cast<const std::int32_t*>(session_.readback_.mapped()), all)
            .subspan(at, reads[index].count);
    }

private:
    const SlicedSession& session_;
};

std::uint64_t SlicedSession::record_words() const { return words_of(script()); }

Result<graph::MemoryNeeds> SlicedSession::memory_needs(vulkan::VulkanBackend& backend, decoding::SequenceScript& script,
                                                       const vulkan::VulkanStore& weights) {
    script.plan_for(backend.fusions());
    VKFORMER_TRY(const auto plans, plans_of(script));
    VKFORMER_TRY(auto needs,
                 vulkan::memory_needs(*backend.device(), plans, weights, vulkan::VulkanStore(backend.device())));
    needs.states += script.capacity() * words_of(script) * sizeof(std::int32_t);  // for the host
    return needs;
}

Result<std::unique_ptr<SlicedSession>> SlicedSession::create(vulkan::VulkanBackend& backend,
                                                             std::unique_ptr<decoding::SequenceScript> script,
                                                             std::shared_ptr<vulkan::VulkanStore> weights,
                                                             std::uint64_t first_ticket, const Progress& progress) {
    auto session = std::unique_ptr<SlicedSession>(new SlicedSession(backend, std::move(script), first_ticket));
    const vulkan::Device& device = *backend.device();
    session->script().plan_for(backend.fusions());
    VKFORMER_TRY(const auto parts, session->script().parts());
    VKFORMER_TRY(const auto plans, plans_of(session->script()));
    VKFORMER_TRY(const auto needs,
                 vulkan::memory_needs(device, plans, *weights, vulkan::VulkanStore(backend.device())));
    VKFORMER_CHECK(device.allocator().check(needs.total(), "the session"));
    // Every node is compiled, and run in each round of the warm-up.
    std::uint32_t nodes = 0;
    for (const graph::Plan* plan : plans) nodes += static_cast<std::uint32_t>(plan->graph.nodes().size());
    const bool has_warm_up = device.can_submit() && device.capabilities().timestamp_valid_bits > 0;
    // What is cut is run in steps too small to count, and the last round may be left out.
    auto tell = [&, told = std::uint32_t{0}](std::uint32_t done) mutable {
        if (progress && done > told) progress(done, nodes * (has_warm_up ? 1 + kWarmUps : 1));
        told = std::max(told, done);
    };
    VKFORMER_CHECK(session->compile(parts, std::move(weights), std::ref(tell)));
    VKFORMER_TRY(
        session->readback_,
        vulkan::Buffer::create(device, session->script().capacity() * session->record_words() * sizeof(std::int32_t),
                               vulkan::Buffer::Use::staging, "vkformer tokens"));
    VKFORMER_TRY(session->queries_, vulkan::TimestampQueries::create(device, 2 * kMostSlices));
    if (has_warm_up)
        VKFORMER_CHECK(session->warm_up([&](std::uint32_t round, double share) {
            tell(nodes * (1 + round) + static_cast<std::uint32_t>(share * nodes));
        }));
    return session;
}

Result<void> SlicedSession::compile(std::span<decoding::Part* const> parts,
                                    std::shared_ptr<vulkan::VulkanStore> weights,
                                    const std::function<void(std::uint32_t nodes)>& tell) {
    const auto states = std::make_shared<vulkan::VulkanStore>(backend_->device());
    std::uint32_t nodes = 0;
    for (decoding::Part* const part : parts) {
        nodes += static_cast<std::uint32_t>(part->plan.graph.nodes().size());
        VKFORMER_TRY(auto program, backend_->compile_program(std::move(part->plan), weights, states));
        Compiled& compiled = programs_[part];
        compiled.program = program.get();
        for (std::uint32_t i = 0; i < program->dispatch_count(); ++i)
            compiled.kinds.push_back(clock_.number(program->kind(i)));
        compiled.is_cut.resize(compiled.kinds.size());
        part->program = std::move(program);
        tell(nodes);
    }
    return {};
}

/// A prompt that takes every program, for one token.
Result<void> SlicedSession::warm_up(const std::function<void(std::uint32_t, double)>& tell) {
    const vulkan::Device& device = *backend_->device();
    const DeviceTable& vk = device.vk();
    const VkCommandPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                            .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                            .queueFamilyIndex = device.queue_family()};
    VkCommandPool pool = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateCommandPool(device.handle(), &pool_info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan::vulkan_error(r, "vkCreateCommandPool", "warming a session up");
    const vulkan::UniqueCommandPool owner(vk, device.handle(), pool);
    const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = pool,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = 1};
    VkCommandBuffer commands = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkAllocateCommandBuffers(device.handle(), &info, &commands); r != VK_SUCCESS)
        return vulkan::vulkan_error(r, "vkAllocateCommandBuffers", "warming a session up");
    const std::vector<std::int32_t> tokens(script().longest_warm_up(), 0);
    double dispatches = 0;
    for (const auto& [part, compiled] : programs_) dispatches += static_cast<double>(compiled.kinds.size());
    cut_what_may_be_long();
    for (std::uint32_t round = 0; round < kWarmUps; ++round) {
        if (round + 1 == kWarmUps) {
            const bool is_cut = cut_what_is_long();
            if (!is_cut) break;
        }
        warms_up_ = true;
        script().forget();  // nothing of the round before serves again
        VKFORMER_CHECK(begin({.prompt = tokens, .max_tokens = 1}));
        for (double done = 0; has_work();) {
            VKFORMER_TRY(const double ran, run_alone(commands));
            done += ran;
            // Other models may take a program more than once: the whole is told at the end only.
            tell(round, has_work() ? std::min(done / dispatches, 0.99) : 1);
        }
    }
    tell(kWarmUps - 1, 1);
    warms_up_ = false;
    forget_all();
    return {};
}

/// What nothing is known of, and might hang a slow device when it is run alone.
void SlicedSession::cut_what_may_be_long() {
    if (backend_->device()->capabilities().is_cpu()) return;
    for (auto& [part, compiled] : programs_)
        for (std::uint32_t i = 0; i < compiled.program->dispatch_count(); ++i)
            if (vulkan::RunClock::thought_us(compiled.program->kind(i)) > vulkan::RunLimits().most_us)
                compiled.is_cut[i] = compiled.program->is_cuttable(i);
}

/// What is long for a frame's share; whether there is any.
bool SlicedSession::cut_what_is_long() {
    bool found = false;
    for (auto& [part, compiled] : programs_)
        for (std::uint32_t i = 0; i < compiled.program->dispatch_count(); ++i) {
            if (clock_.expected_us(compiled.kinds[i]) <= kCutAboveUs) continue;
            compiled.is_cut[i] = compiled.program->is_cuttable(i);
            found = found || compiled.is_cut[i];
        }
    return found;
}

/// Slices of one dispatch each, or of a part of one where it is cuttable: as many as may be outstanding, or as fit into one submission.
/// Gives how many dispatches they were.
Result<double> SlicedSession::run_alone(VkCommandBuffer commands) {
    constexpr double kLeastBudgetUs = 1e-3;
    vulkan::Device& device = *backend_->device();
    const DeviceTable& vk = device.vk();
    const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    if (const VkResult r = vk.vkBeginCommandBuffer(commands, &begin); r != VK_SUCCESS)
        return vulkan::vulkan_error(r, "vkBeginCommandBuffer", "warming a session up");
    const bool is_watched = !device.capabilities().is_cpu();
    double expected_us = 0;
    while (has_work() && slices_.size() < kMostSlices) {
        const std::uint32_t dispatch = place_.dispatch;
        const double us = clock_.expected_us(compiled().kinds[dispatch]);
        const bool is_cut = compiled().is_cut[dispatch];
        // What was never measured may be anything: it has its own submission.
        if (is_watched && !slices_.empty() && (us < 0 || expected_us + us > vulkan::RunLimits().aim_us)) break;
        (void)record(commands, is_cut ? kCutAboveUs : kLeastBudgetUs);
        expected_us += slices_.back().expected_us;
        if (is_watched && us < 0) break;
    }
    if (const VkResult r = vk.vkEndCommandBuffer(commands); r != VK_SUCCESS)
        return vulkan::vulkan_error(r, "vkEndCommandBuffer", "warming a session up");
    VKFORMER_TRY(const std::uint64_t value, device.submit({&commands, 1}));
    if (const auto done = device.wait(value); !done) {
        device.drain(value);
        return done.error();
    }
    double ran = 0;
    for (const Recorded& slice : slices_)
        for (const DispatchClock::Share& share : slice.dispatches) ran += share.of_grid;
    VKFORMER_CHECK(retire(last_ticket()));
    return ran;
}

/// Whether there is a job to record; all parts have been made, so that nothing can fail in handing it out.
bool SlicedSession::has_work() {
    if (!is_running()) return false;
    if (job_) return true;
    if (auto next = script().next(1)) job_ = *std::move(next);
    return job_.has_value();
}

/// What of the job fits into the slice. A slice is never empty; a dispatch that was never measured is alone in its own.
RunPart SlicedSession::next_part(const Recorded& recorded, double budget_us) const {
    const Compiled& compiled = this->compiled();
    const std::uint32_t count = compiled.program->dispatch_count();
    if (budget_us <= 0) return {.first = place_, .last = {count, 0}};
    if (!queries_) {
        const auto room = kDispatchesWithoutClock - static_cast<std::uint32_t>(recorded.dispatches.size());
        const std::uint32_t last = std::min(count, place_.dispatch + room);
        return {.first = place_, .last = {last, 0}, .is_full = last - place_.dispatch == room};
    }
    const auto cost = [&](std::uint32_t dispatch) -> vulkan::DispatchCost {
        const double known_us = clock_.expected_us(compiled.kinds[dispatch]);
        const bool is_thought = known_us < 0 && compiled.is_cut[dispatch];  // begun with a piece of it
        return {.us = is_thought ? vulkan::RunClock::thought_us(compiled.program->kind(dispatch)) : known_us,
                .groups = compiled.program->dispatch(dispatch).group_count(),
                .is_cuttable = compiled.is_cut[dispatch]};
    };
    RunPart part = vulkan::next_part(cost, count, place_, budget_us / clock_.likely_us(1), recorded.expected_us,
                                     recorded.dispatches.empty());
    part.exceeds = part.exceeds && part.expected_us > budget_us;
    return part;
}

void SlicedSession::open_slice(VkCommandBuffer commands) const {
    if (!queries_) return;
    const auto slot = static_cast<std::uint32_t>((last_ticket() + 1) % kMostSlices * 2);
    queries_.record_reset(commands, slot, 2);
    queries_.record(commands, slot);
}

void SlicedSession::close_slice(VkCommandBuffer commands, Recorded& recorded) {
    recorded.ticket = take_ticket();
    if (queries_) queries_.record(commands, static_cast<std::uint32_t>(recorded.ticket % kMostSlices * 2 + 1));
    slices_.push_back(std::move(recorded));
}

void SlicedSession::record_write(VkCommandBuffer commands, const decoding::Write& write) const {
    const auto slice = program().slice(write.tensor);
    if (!slice) return;  // inputs and states of the plan always have one
    const DeviceTable& vk = backend_->device()->vk();
    const std::span bytes = std::as_bytes(std::span(write.words));
    for (std::uint64_t at = 0; at < bytes.size(); at += kLargestUpdate) {
        const auto piece = bytes.subspan(at, std::min<std::uint64_t>(kLargestUpdate, bytes.size() - at));
        vk.vkCmdUpdateBuffer(commands, slice->buffer, slice->offset + at, piece.size(), piece.data());
    }
}

void SlicedSession::record_writes(VkCommandBuffer commands) const {
    if (job_->writes.empty()) return;
    barrier(backend_->device()->vk(), commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_TRANSFER_WRITE_BIT);
    // Constants too: a slice with them that was recorded before may never have been submitted.
    for (const decoding::Write& constant : job_->part->constants) record_write(commands, constant);
    for (const decoding::Write& write : job_->writes) record_write(commands, write);
}

/// Copies a step's records to where the host reads them; the program's last barrier lets transfers read.
void SlicedSession::record_readback(VkCommandBuffer commands) const {
    const DeviceTable& vk = backend_->device()->vk();
    constexpr std::uint64_t kWord = sizeof(std::int32_t);
    VkDeviceSize at = record_words() * job_->first_step * kWord;
    for (const decoding::Read& read : script().reads(job_->first_step)) {
        const auto slice = program().slice(read.tensor);
        if (!slice) continue;
        const VkBufferCopy region{
            .srcOffset = slice->offset + read.first * kWord, .dstOffset = at, .size = read.count * kWord};
        vk.vkCmdCopyBuffer(commands, slice->buffer, readback_.handle(), 1, &region);
        at += region.size;
    }
    barrier(vk, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
            VK_ACCESS_HOST_READ_BIT);
}

std::optional<Slice> SlicedSession::record(VkCommandBuffer commands, double budget_us) {
    if (slices_.size() >= kMostSlices) return std::nullopt;
    Slice slice;
    Recorded recorded;
    bool is_full = false;
    while (!is_full && has_work()) {
        const RunPart part = next_part(recorded, budget_us);
        is_full = part.is_full;
        if (part.last == part.first) break;
        if (recorded.dispatches.empty()) open_slice(commands);
        if (part.first == RunPlace{}) record_writes(commands);
        program().record(commands, part.first, part.last);

        for (RunPlace at = part.first; at < part.last; at = {at.dispatch + 1, 0}) {
            const std::uint64_t groups = program().dispatch(at.dispatch).group_count();
            const std::uint64_t end = at.dispatch == part.last.dispatch ? part.last.group : groups;
            const DispatchClock::Share share{compiled().kinds[at.dispatch],
                                             static_cast<double>(end - at.group) / static_cast<double>(groups)};
            recorded.dispatches.push_back(share);
            recorded.expected_us += share.of_grid * std::max(clock_.expected_us(share.kind), 0.0);
        }
        slice.exceeds = slice.exceeds || part.exceeds;
        place_ = part.last;
        if (place_.dispatch < program().dispatch_count()) continue;
        if (job_->kind == decoding::Job::Kind::step) {
            record_readback(commands);
            slice.tokens += script().streams() ? 1 : 0;
            is_full = is_full || budget_us <= 0;
        }
        job_->writes.clear();
        recorded.jobs.push_back(*std::move(job_));
        job_.reset();
        place_ = {};
    }
    if (recorded.dispatches.empty()) return slice;
    slice.dispatches = static_cast<std::uint32_t>(recorded.dispatches.size());
    slice.expected_us = recorded.expected_us;
    close_slice(commands, recorded);
    slice.ticket = last_ticket();
    return slice;
}

/// What the slice took, where the queue has timestamps and they are there.
Result<void> SlicedSession::learn(const Recorded& recorded) {
    note_time(0);
    if (!queries_) return {};
    VKFORMER_TRY(const auto interval,
                 queries_.intervals_ns(static_cast<std::uint32_t>(recorded.ticket % kMostSlices * 2), 1));
    if (!interval) return {};
    note_time(interval->front() / 1000);
    clock_.learn(recorded.dispatches, last_us());
    return {};
}

Result<void> SlicedSession::take(const Recorded& recorded) {
    Readback records(*this);
    for (const decoding::Job& job : recorded.jobs) {
        const auto taken = script().take(job, records);
        note_taken(job);
        // What a warm-up's tokens give is nobody's answer.
        if (!taken && !(warms_up_ && taken.error().code == ErrorCode::NotANumber)) return taken;
        const auto failure = script().failure();
        if (failure && !warms_up_ && !std::exchange(has_told_failure_, true)) return *failure;
    }
    return {};
}

Result<void> SlicedSession::retire_slices(std::uint64_t ticket) {
    Result<void> result;
    while (!slices_.empty() && slices_.front().ticket <= ticket) {
        const Recorded recorded = std::move(slices_.front());
        slices_.pop_front();
        if (auto learned = learn(recorded); !learned) result = std::move(learned);
        if (!result) continue;  // what a lost device left in the buffer is no token
        result = take(recorded);
    }
    return result;
}

void SlicedSession::drop_slices() {
    slices_.clear();
    job_.reset();
    has_told_failure_ = false;
    place_ = {};
}

}  // namespace vkformer::guest
