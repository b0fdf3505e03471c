// SPDX-License-Identifier: MIT
#include "guest/sliced_session.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "core/try.hpp"
#include "guest/sliced_script.hpp"

namespace vkformer::guest {
namespace {

using vulkan::DeviceTable;
using vulkan::StepClock;

constexpr std::size_t kStepsWithoutClock = 8;
constexpr std::uint32_t kWarmUps = 2;
constexpr std::uint64_t kLargestUpdate = 65536;  // bytes, of vkCmdUpdateBuffer

void barrier(const DeviceTable& vk, VkCommandBuffer commands, VkPipelineStageFlags source_stage, VkAccessFlags source,
             VkPipelineStageFlags target_stage, VkAccessFlags target) {
    const VkMemoryBarrier memory{
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = source, .dstAccessMask = target};
    vk.vkCmdPipelineBarrier(commands, source_stage, target_stage, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

std::uint32_t node_count(std::span<const graph::Plan* const> plans) {
    std::size_t count = 0;
    for (const graph::Plan* plan : plans) count += plan->graph.nodes().size();
    return static_cast<std::uint32_t>(count);
}

}  // namespace

/// How far into the job a slice goes.
struct SlicedSession::Reach {
    std::size_t last = 0;
    bool is_full = false;
    bool exceeds = false;
};

SlicedSession::SlicedSession(vulkan::VulkanBackend& backend, const SlicedModel& model, const SlicedOptions& options)
    : backend_(&backend), model_(model), options_(options), last_ticket_(options.first_ticket - 1) {}

SlicedSession::~SlicedSession() = default;

std::uint32_t SlicedSession::context() const noexcept { return script_->capacity(); }

Result<vulkan::MemoryNeeds> SlicedSession::memory_needs(vulkan::VulkanBackend& backend, const SlicedModel& model,
                                                        const vulkan::VulkanStore& weights,
                                                        const SlicedOptions& options) {
    VKFORMER_TRY(const auto script, make_script(model, options));
    VKFORMER_TRY(auto needs, vulkan::memory_needs(*backend.device(), script->plans(), weights,
                                                  vulkan::VulkanStore(backend.device())));
    needs.states += script->capacity() * script->result_words() * sizeof(std::int32_t);  // the results, for the host
    return needs;
}

Result<std::unique_ptr<SlicedSession>> SlicedSession::create(vulkan::VulkanBackend& backend, const SlicedModel& model,
                                                             std::shared_ptr<vulkan::VulkanStore> weights,
                                                             const SlicedOptions& options, const Progress& progress) {
    auto session = std::unique_ptr<SlicedSession>(new SlicedSession(backend, model, options));
    VKFORMER_TRY(session->script_, make_script(model, options));
    Script& script = *session->script_;
    const vulkan::Device& device = *backend.device();
    auto states = std::make_shared<vulkan::VulkanStore>(backend.device());
    VKFORMER_TRY(const auto needs, vulkan::memory_needs(device, script.plans(), *weights, *states));
    VKFORMER_CHECK(device.allocator().check(needs.total(), "the session"));
    // Every node is compiled, and run in each round of the warm-up.
    const std::uint32_t nodes = node_count(script.plans());
    const bool has_warm_up = device.can_submit() && device.capabilities().timestamp_valid_bits > 0;
    const auto tell = [&](std::uint32_t done) {
        if (progress) progress(done, nodes * (has_warm_up ? 1 + kWarmUps : 1));
    };
    VKFORMER_CHECK(script.compile(backend, std::move(weights), std::move(states), tell));
    VKFORMER_TRY(session->readback_,
                 vulkan::Buffer::create(device, script.capacity() * script.result_words() * sizeof(std::int32_t),
                                        vulkan::Buffer::Use::staging, "vkformer tokens"));
    VKFORMER_CHECK(session->prepare_measuring());
    if (has_warm_up)
        VKFORMER_CHECK(session->warm_up([&](std::uint32_t round, double share) {
            tell(nodes * (1 + round) + static_cast<std::uint32_t>(share * nodes));
        }));
    return session;
}

Result<void> SlicedSession::prepare_measuring() {
    for (const vulkan::VulkanProgram* program : script_->programs()) {
        auto& kinds = kinds_[program];
        for (std::size_t i = 0; i < program->step_count(); ++i) kinds.push_back(clock_.number(program->step_kind(i)));
    }
    const vulkan::Device& device = *backend_->device();
    if (device.capabilities().timestamp_valid_bits == 0) return {};
    const VkQueryPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                     .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                     .queryCount = 2 * kMostSlices};
    VkQueryPool pool = VK_NULL_HANDLE;
    if (const VkResult r = device.vk().vkCreateQueryPool(device.handle(), &info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan::vulkan_error(r, "vkCreateQueryPool", "preparing to measure slices");
    queries_ = vulkan::UniqueQueryPool(device.vk(), device.handle(), pool);
    return {};
}

/// A prompt that takes every program, for one token; the second time the driver has nothing left to compile.
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
    const std::vector<std::int32_t> tokens(script_->longest_warm_up(), 0);
    std::size_t steps = 0;
    for (const auto& [program, kinds] : kinds_) steps += kinds.size();
    for (std::uint32_t round = 0; round < kWarmUps; ++round) {
        prompt_.clear();  // nothing of the round before serves again
        tokens_.clear();
        VKFORMER_CHECK(begin(tokens, 1));
        for (std::size_t done = 0; has_work();) {
            VKFORMER_TRY(const std::size_t ran, run_alone(commands));
            done += ran;
            // Other models may take a program more than once: the whole is told at the end only.
            const double share = static_cast<double>(done) / static_cast<double>(steps);
            tell(round, has_work() ? std::min(share, 0.99) : 1);
        }
    }
    cancel();
    prompt_.clear();
    tokens_.clear();
    computed_prompt_ = 0;
    last_us_ = total_us_ = 0;
    return {};
}

/// As many slices of one dispatch each as may be outstanding; gives how many.
Result<std::size_t> SlicedSession::run_alone(VkCommandBuffer commands) {
    constexpr double kLeastBudgetUs = 1e-3;
    vulkan::Device& device = *backend_->device();
    const DeviceTable& vk = device.vk();
    const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    if (const VkResult r = vk.vkBeginCommandBuffer(commands, &begin); r != VK_SUCCESS)
        return vulkan::vulkan_error(r, "vkBeginCommandBuffer", "warming a session up");
    while (has_work() && slices_.size() < kMostSlices) (void)record(commands, kLeastBudgetUs);
    if (const VkResult r = vk.vkEndCommandBuffer(commands); r != VK_SUCCESS)
        return vulkan::vulkan_error(r, "vkEndCommandBuffer", "warming a session up");
    VKFORMER_TRY(const std::uint64_t value, device.submit({&commands, 1}));
    if (const auto done = device.wait(value); !done) {
        device.drain(value);
        return done.error();
    }
    const std::size_t count = slices_.size();
    VKFORMER_CHECK(retire(last_ticket_));
    return count;
}

Result<void> SlicedSession::begin(std::span<const std::int32_t> tokens, std::uint32_t max_tokens, std::uint32_t draws) {
    if (!slices_.empty())
        return Error{ErrorCode::InvalidArgument, "slices of the sequence before are not retired (" +
                                                     std::to_string(slices_.size()) + "); retire or cancel them"};
    VKFORMER_TRY(const std::uint32_t room, script_->room_for(tokens));
    std::vector<std::int32_t> known = prompt_;
    if (!tokens_.empty() && script_->caches_answer()) {
        known.insert(known.end(), tokens_.begin(), tokens_.end());
        known.pop_back();  // it was chosen, and nothing has read it
    } else {
        known.resize(std::min<std::size_t>(known.size(), computed_prompt_));
    }
    limit_ = max_tokens == 0 ? room : std::min(max_tokens, room);
    computed_prompt_ = script_->begin(tokens, known, limit_, options_.seed, draws);
    prompt_.assign(tokens.begin(), tokens.end());
    tokens_.clear();
    score_ = 0;
    recorded_steps_ = 0;
    job_.reset();
    step_in_job_ = 0;
    total_us_ = 0;
    state_ = SlicedState::prompt;
    return {};
}

bool SlicedSession::has_work() const noexcept {
    return (state_ == SlicedState::prompt || state_ == SlicedState::generating) && recorded_steps_ < limit_;
}

/// Steps of the job that fit into the slice. A slice is never empty; a step that was never measured is alone in its own.
SlicedSession::Reach SlicedSession::reach(const Recorded& recorded, double budget_us) const {
    const auto& kinds = kinds_.at(job_->program);
    Reach reach{.last = step_in_job_};
    if (budget_us <= 0) {
        reach.last = kinds.size();
        return reach;
    }
    double expected_us = recorded.expected_us;
    while (reach.last < kinds.size() && !reach.is_full) {
        const std::size_t count = recorded.steps.size() + (reach.last - step_in_job_);
        const double step_us = clock_.expected_us(kinds[reach.last]);
        const bool is_new = step_us < 0;
        const bool fits = queries_.get() ? !is_new && clock_.likely_us(expected_us + step_us) <= budget_us
                                         : count < kStepsWithoutClock;
        reach.is_full = !fits;
        if (!fits && count > 0) break;
        reach.exceeds = queries_.get() && step_us > budget_us;
        expected_us += std::max(step_us, 0.0);
        ++reach.last;
    }
    return reach;
}

void SlicedSession::open_slice(VkCommandBuffer commands) const {
    if (!queries_.get()) return;
    const DeviceTable& vk = backend_->device()->vk();
    const auto slot = static_cast<std::uint32_t>((last_ticket_ + 1) % kMostSlices * 2);
    vk.vkCmdResetQueryPool(commands, queries_.get(), slot, 2);
    vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_.get(), slot);
}

void SlicedSession::close_slice(VkCommandBuffer commands, Recorded& recorded) {
    recorded.ticket = ++last_ticket_;
    if (queries_.get()) {
        const auto slot = static_cast<std::uint32_t>(recorded.ticket % kMostSlices * 2);
        backend_->device()->vk().vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_.get(),
                                                     slot + 1);
    }
    slices_.push_back(std::move(recorded));
}

void SlicedSession::record_updates(VkCommandBuffer commands) const {
    if (job_->updates.empty()) return;
    const DeviceTable& vk = backend_->device()->vk();
    barrier(vk, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_TRANSFER_WRITE_BIT);
    for (const Job::Update& update : job_->updates) {
        const std::uint64_t bytes = std::min<std::uint64_t>(update.values.size() * 4, kLargestUpdate);
        vk.vkCmdUpdateBuffer(commands, update.slice.buffer, update.slice.offset, bytes, update.values.data());
    }
}

/// Copies a step's results to where the host reads them; the program's last barrier lets transfers read.
void SlicedSession::record_readback(VkCommandBuffer commands, std::uint32_t index) const {
    const DeviceTable& vk = backend_->device()->vk();
    VkDeviceSize at = VkDeviceSize{index} * script_->result_words() * sizeof(std::int32_t);
    for (const vulkan::Slice& result : script_->results(index)) {
        const VkBufferCopy region{.srcOffset = result.offset, .dstOffset = at, .size = result.bytes};
        vk.vkCmdCopyBuffer(commands, result.buffer, readback_.handle(), 1, &region);
        at += result.bytes;
    }
    barrier(vk, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
            VK_ACCESS_HOST_READ_BIT);
}

std::optional<Slice> SlicedSession::record(VkCommandBuffer commands, double budget_us) {
    if (slices_.size() >= kMostSlices) return std::nullopt;
    Slice slice;
    Recorded recorded{.computed_prompt = slices_.empty() ? computed_prompt_ : slices_.back().computed_prompt};
    bool is_full = false;
    while (!is_full && has_work()) {
        if (!job_) job_ = std::make_unique<Job>(script_->next());
        const Reach part = reach(recorded, budget_us);
        is_full = part.is_full;
        if (part.last == step_in_job_) break;
        if (recorded.steps.empty()) open_slice(commands);
        if (step_in_job_ == 0) record_updates(commands);
        job_->program->record(commands, step_in_job_, part.last);

        const auto& kinds = kinds_.at(job_->program);
        for (std::size_t i = step_in_job_; i < part.last; ++i) {
            recorded.steps.push_back(kinds[i]);
            recorded.expected_us += std::max(clock_.expected_us(kinds[i]), 0.0);
        }
        slice.exceeds = slice.exceeds || part.exceeds;
        step_in_job_ = part.last;
        if (step_in_job_ < kinds.size()) continue;
        if (job_->result) {
            record_readback(commands, *job_->result);
            recorded.results.push_back(*job_->result);
            slice.tokens += job_->tokens;
            ++recorded_steps_;
            is_full = is_full || budget_us <= 0;
        }
        recorded.computed_prompt = job_->computed_prompt;
        job_.reset();
        step_in_job_ = 0;
    }
    if (recorded.steps.empty()) return slice;
    slice.dispatches = static_cast<std::uint32_t>(recorded.steps.size());
    slice.expected_us = recorded.expected_us;
    close_slice(commands, recorded);
    slice.ticket = last_ticket_;
    return slice;
}

/// What the slice took, where the queue has timestamps and they are there.
Result<void> SlicedSession::learn(const Recorded& recorded) {
    last_us_ = 0;
    if (!queries_.get()) return {};
    const vulkan::Device& device = *backend_->device();
    const vulkan::Capabilities& c = device.capabilities();
    std::array<std::uint64_t, 2> ticks{};
    const auto slot = static_cast<std::uint32_t>(recorded.ticket % kMostSlices * 2);
    const VkResult r = device.vk().vkGetQueryPoolResults(device.handle(), queries_.get(), slot, 2, sizeof ticks,
                                                         ticks.data(), sizeof ticks[0], VK_QUERY_RESULT_64_BIT);
    if (r == VK_NOT_READY) return {};
    if (r != VK_SUCCESS) return vulkan::vulkan_error(r, "vkGetQueryPoolResults", "reading a slice's timestamps");
    const std::uint64_t mask =
        c.timestamp_valid_bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << c.timestamp_valid_bits) - 1;
    last_us_ = static_cast<double>((ticks[1] - ticks[0]) & mask) * static_cast<double>(c.timestamp_period_ns) / 1000;
    total_us_ += last_us_;
    clock_.learn(recorded.steps, last_us_);
    return {};
}

void SlicedSession::take(const Outcome& outcome) {
    state_ = SlicedState::generating;
    tokens_.insert(tokens_.end(), outcome.tokens.begin(), outcome.tokens.end());
    score_ = outcome.score;
    const bool is_end =
        !tokens_.empty() && std::ranges::find(model_.end_tokens, tokens_.back()) != model_.end_tokens.end();
    if (outcome.is_done || is_end || tokens_.size() >= limit_) state_ = SlicedState::done;
}

Result<void> SlicedSession::take_results(const Recorded& recorded) {
    const std::span records(reinterpret_cast<const std::int32_t*>(readback_.mapped()),
                            std::size_t{script_->capacity()} * script_->result_words());
    for (const std::uint32_t index : recorded.results) {
        if (state_ == SlicedState::done || state_ == SlicedState::idle) return {};
        const auto outcome = script_->outcome(index, records);
        if (!outcome) {
            state_ = SlicedState::done;  // with no answer
            return outcome.error();
        }
        take(*outcome);
    }
    return {};
}

Result<void> SlicedSession::retire(std::uint64_t ticket) {
    if (ticket > last_ticket_)
        return Error{
            ErrorCode::InvalidArgument,
            "slice " + std::to_string(ticket) + " was never recorded; the last is " + std::to_string(last_ticket_)};
    Result<void> result;
    while (!slices_.empty() && slices_.front().ticket <= ticket) {
        const Recorded recorded = std::move(slices_.front());
        slices_.pop_front();
        if (auto learned = learn(recorded); !learned) result = std::move(learned);
        if (!result) continue;  // what a lost device left in the buffer is no token
        computed_prompt_ = recorded.computed_prompt;
        result = take_results(recorded);
    }
    return result;
}

void SlicedSession::cancel() {
    slices_.clear();
    job_.reset();
    step_in_job_ = 0;
    state_ = SlicedState::idle;
}

}  // namespace vkformer::guest
