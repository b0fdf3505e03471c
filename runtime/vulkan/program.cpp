// SPDX-License-Identifier: MIT
#include "vulkan/program.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <future>
#include <numeric>
#include <set>

#include "core/block_format.hpp"
#include "core/tasks.hpp"
#include "core/try.hpp"
#include "graph/work.hpp"
#include "vulkan/block_layout.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::vulkan {
namespace {

using graph::Access;
using graph::Tensor;
using graph::TensorKind;
using graph::Value;

constexpr std::uint32_t kPoison = 0xFFFFFFFFu;  // NaN as f32 and as two f16, −1 as i32

void memory_barrier(const DeviceTable& vk, VkCommandBuffer commands, VkPipelineStageFlags source_stages,
                    VkAccessFlags source, VkPipelineStageFlags target_stages, VkAccessFlags target) {
    const VkMemoryBarrier barrier{
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = source, .dstAccessMask = target};
    vk.vkCmdPipelineBarrier(commands, source_stages, target_stages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

constexpr VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
constexpr VkAccessFlags kShaderAccess = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;

}  // namespace

Result<std::unique_ptr<VulkanProgram>> VulkanProgram::create(std::shared_ptr<Device> device,
                                                             std::shared_ptr<Pipelines> pipelines,
                                                             std::shared_ptr<RunClock> clock, graph::Plan plan,
                                                             std::shared_ptr<VulkanStore> weights,
                                                             std::shared_ptr<VulkanStore> states,
                                                             const ProgramOptions& options) {
    auto program = std::unique_ptr<VulkanProgram>(
        new VulkanProgram(std::move(device), std::move(pipelines), std::move(plan), options));
    program->weights_ = std::move(weights);
    program->states_ = std::move(states);
    VKFORMER_CHECK(program->device_->check_not_lost());
    VKFORMER_TRY(program->pieced_, cut_into_pieces(program->plan_, program->device_->capabilities()));
    VKFORMER_CHECK(program->plan_dispatches());
    // The driver compiles while the weights are read.
    auto compiled = start_task(program->device_->is_own() ? kOwnThread : std::launch::deferred,
                               [p = program.get()] { p->pipelines_->prepare(p->dispatches_); });
    VKFORMER_CHECK(program->allocate());
    compiled.get();
    VKFORMER_CHECK(program->prepare_images());
    VKFORMER_CHECK(program->prepare_strided());
    VKFORMER_CHECK(program->prepare_steps());
    if (!program->device_->can_submit()) return program;
    VKFORMER_CHECK(program->prepare_queries());
    VKFORMER_TRY(program->runs_, ProgramRuns::create(*program, std::move(clock)));
    return program;
}

VulkanProgram::~VulkanProgram() { device_->drain(submitted_); }

Result<void> VulkanProgram::allocate() {
    const bool guards = options_.check_memory;
    std::set<std::string> of_caller;
    for (const auto& [name, slice] : options_.bindings) of_caller.insert(name);
    VKFORMER_TRY(memory_, ProgramMemory::create(*device_, pieced_, *weights_, *states_, of_caller,
                                                {.guards = guards, .offloads = options_.offloads}));
    VKFORMER_CHECK(bind_callers_memory());
    if (guards) VKFORMER_CHECK(memory_.write_guards(*device_, pieced_));
    return {};
}

/// The caller's memory for an input or output of that name.
Result<void> VulkanProgram::check_binding(const std::string& name, const Slice& slice, std::uint64_t bytes) const {
    const VkDeviceSize alignment = device_->capabilities().storage_buffer_alignment;
    const auto invalid = [&](const std::string& what) {
        return Error{ErrorCode::InvalidArgument, "the buffer for " + name + " " + what};
    };
    const auto value = plan_.graph.find(name);
    const auto owners = owners_outside_arena(pieced_);
    if (value && pieced_.cut.contains(value->id))
        return invalid("would be for a tensor of " + std::to_string(graph::storage_bytes(plan_.graph.tensor(*value))) +
                       " bytes; device \"" + device_->capabilities().name + "\" binds and allocates at most " +
                       std::to_string(most_piece_bytes(device_->capabilities())) +
                       " at once, so that it lies in pieces in vkformer's memory");
    if (!value || std::ranges::find(owners, value->id) == owners.end())
        return invalid("belongs to no tensor: the graph has no such input or output");
    if (!slice.buffer) return invalid("is null");
    if (slice.offset % alignment != 0)
        return invalid("begins at byte " + std::to_string(slice.offset) + ", which is no multiple of " +
                       std::to_string(alignment) + " (minStorageBufferOffsetAlignment)");
    if (slice.bytes < bytes)
        return invalid("has " + std::to_string(slice.bytes) + " bytes, the tensor needs " + std::to_string(bytes));
    return {};
}

Result<void> VulkanProgram::bind_callers_memory() {
    const graph::Graph& graph = plan_.graph;
    for (const auto& [name, slice] : options_.bindings) {
        const auto value = graph.find(name);
        const std::uint64_t bytes = value ? graph::storage_bytes(graph.tensor(*value)) : 0;
        VKFORMER_CHECK(check_binding(name, slice, bytes));
        Slice bound = slice;
        bound.bytes = bytes;
        memory_.bind(value->id, bound);
    }
    return {};
}

Result<void> VulkanProgram::prepare_strided() {
    const graph::Graph& graph = plan_.graph;
    for (const auto& [value, slice, strides] : options_.strided) {
        const std::string& name = graph.tensor(graph.storage(value)).name;
        VKFORMER_CHECK(check_binding(name, slice, 4));
        if (element_bytes(graph.dtype(value)) != 4)
            return Error{ErrorCode::UnsupportedDtype,
                         "the buffer for " + name + " has strides, which needs float32 or int32"};
        const bool is_input = graph.tensor(graph.storage(value)).kind == TensorKind::input;
        VKFORMER_TRY(auto copy,
                     StridedCopy::create(device_, *pipelines_,
                                         is_input ? StridedCopy::Direction::gather : StridedCopy::Direction::scatter,
                                         locate(value), graph.shape(value), slice, strides));
        (is_input ? gathers_ : scatters_).push_back(std::move(copy));
    }
    return {};
}

Result<void> VulkanProgram::prepare_images() {
    const graph::Graph& graph = plan_.graph;
    for (const auto& [name, image] : options_.images) {
        const auto value = graph.find(name);
        if (!value || graph.tensor(*value).kind != TensorKind::input || graph.dtype(*value) != DType::f32)
            return Error{ErrorCode::InvalidArgument, "the image for " + name + " belongs to no float32 input"};
        VKFORMER_TRY(auto reader,
                     ImageReader::create(device_, *pipelines_, image, locate(*value), graph.shape(*value)));
        images_.push_back(std::move(reader));
    }
    return {};
}

Slice VulkanProgram::locate(const Operand& operand) const {
    switch (operand.kind) {
    case Operand::Kind::scratch: return *memory_.scratch();
    case Operand::Kind::counter: return *memory_.counter();
    case Operand::Kind::tensor: break;
    }
    return locate(operand.tensor);
}

Slice VulkanProgram::locate(Value tensor) const { return memory_.locate(pieced_.plan.graph.storage(tensor).id); }

Result<BoundDispatch> VulkanProgram::bind(const Dispatch& dispatch) {
    VKFORMER_TRY(const auto pipeline, pipelines_->get(dispatch));
    BoundDispatch bound{
        .pipeline = pipeline.handle, .layout = pipeline.layout, .push = dispatch.push, .groups = dispatch.groups};
    for (const auto& [offset, operand] : dispatch.addresses) {
        const Slice slice = locate(operand);
        if (!slice.address)
            return Error{ErrorCode::InvalidArgument, "the shader " + dispatch.module.name() +
                                                         " reads by its address what has none: a fault in vkformer"};
        bound.push.set_address(offset, slice.address);
    }
    std::vector<DescriptorSets::Buffer> buffers;
    for (const auto& [id, operand] : dispatch.bindings) buffers.push_back({id, locate(operand)});
    VKFORMER_TRY(bound.set, sets_.make(pipeline.set_layout, buffers));
    return bound;
}

bool VulkanProgram::touches_callers_memory(const graph::Op& op) const {
    bool found = false;
    const graph::Graph& graph = plan_.graph;
    graph::for_each_operand(op, [&](std::string_view, Value value, graph::Access) {
        found = found || options_.bindings.contains(graph.tensor(graph.storage(value)).name);
    });
    return found;
}

Result<void> VulkanProgram::plan_dispatches() {
    const auto plan_work = [&](const PiecedPlan::Work& work, std::string_view variant,
                               const Capabilities& device) -> Result<DispatchPlan> {
        const KernelContext context{pieced_.plan.graph, device, work.piece};
        if (const auto* const op = std::get_if<graph::Op>(&work.what))
            return vulkan::plan_dispatches(*op, context, variant);
        VKFORMER_TRY(Dispatch copy, plan_word_copy(std::get<WordCopy>(work.what), context.device));
        return DispatchPlan(std::move(copy));
    };
    // Memory of the caller has no address: what touches it is computed as on a device without.
    Capabilities without_addresses = device_->capabilities();
    without_addresses.buffer_addresses = false;
    for (std::size_t i = 0; i < plan_.graph.nodes().size(); ++i) {
        const graph::Node& node = plan_.graph.nodes()[i];
        const bool is_callers = touches_callers_memory(node.op);
        const Capabilities& device = is_callers ? without_addresses : device_->capabilities();
        const KernelList kernels = fitting_kernels(node.op, {plan_.graph, device});
        const std::string variant = options_.variants.empty() ? std::string() : options_.variants[i];
        const KernelTraits* kernel = variant.empty() ? kernels.front() : find_kernel(kernels, variant);
        if (!kernel && is_callers &&
            find_kernel(fitting_kernels(node.op, {plan_.graph, device_->capabilities()}), variant))
            kernel = kernels.front();
        if (!kernel) {
            Error error = no_such_kernel(node.op, variant, kernels);
            error.message = node.name + ": " + error.message;
            return error;
        }
        Step& step = steps_.emplace_back(Step{.first = dispatch_count(), .kernel = kernel});
        const auto& works = pieced_.nodes[i];
        step.shares_memory = works.size() > 1;  // what is copied
        for (const PiecedPlan::Work& work : works) {
            auto planned = plan_work(work, kernel->name, device);
            if (!planned) {
                Error error = std::move(planned).error();
                error.message = node.name + ": " + error.message;
                return error;
            }
            if (planned->shares_memory()) step.shares_memory = true;
            for (Dispatch& dispatch : planned->dispatches) {
                step.shader += (step.shader.empty() ? "" : " + ") + dispatch.module.name();
                dispatches_.push_back(std::move(dispatch));
                step_of_.push_back(static_cast<std::uint32_t>(i));
            }
        }
        step.last = dispatch_count();
        assert(step.first < step.last);
    }
    return {};
}

Result<void> VulkanProgram::prepare_steps() {
    std::uint32_t binding_count = 0;
    for (const Dispatch& dispatch : dispatches_) binding_count += static_cast<std::uint32_t>(dispatch.bindings.size());
    if (dispatches_.empty()) return {};

    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, binding_count};
    VKFORMER_TRY(sets_, DescriptorSets::create(*device_, static_cast<std::uint32_t>(dispatches_.size()), {&size, 1},
                                               "binding the tensors"));
    for (const Dispatch& dispatch : dispatches_) {
        VKFORMER_TRY(bound_.emplace_back(), bind(dispatch));
    }
    return {};
}

Result<void> VulkanProgram::prepare_queries() {
    if (options_.timestamps == Timestamps::none) return {};
    // With Timestamps::ends, two of them are used.
    VKFORMER_TRY(queries_, TimestampQueries::create(*device_, static_cast<std::uint32_t>(steps_.size() + 1)));
    return {};
}

DispatchKind VulkanProgram::kind(std::uint32_t dispatch) const {
    return {bound_[dispatch].pipeline, bound_[dispatch].groups,
            graph::work_of(plan_.graph.nodes()[step_of_[dispatch]].op, plan_.graph)};
}

bool VulkanProgram::is_whole_node(std::uint32_t dispatch) const {
    const Step& step = steps_[step_of_[dispatch]];
    return step.last - step.first == 1;
}

bool VulkanProgram::is_cuttable(std::uint32_t index) const {
    if (bound_[index].group_count() < 2) return false;
    // A run may be given up between two parts, and a part be done again: tensors that are updated are then half old, half new.
    bool updates = false;
    graph::for_each_operand(plan_.graph.nodes()[step_of_[index]].op, [&](std::string_view, Value value, Access access) {
        const bool is_kept = plan_.graph.tensor(plan_.graph.storage(value)).kind == TensorKind::state;
        updates = updates || access == Access::read_write || access == Access::scratch ||
                  (access == Access::write && is_kept);
    });
    // Workgroups that share out their work by a counter would do all of it in every part.
    const auto is_counter = [](const auto& use) { return use.operand.kind == Operand::Kind::counter; };
    const Dispatch& dispatch = dispatches_[index];
    return !updates && std::ranges::none_of(dispatch.bindings, is_counter) &&
           std::ranges::none_of(dispatch.addresses, is_counter);
}

void VulkanProgram::record_poison(VkCommandBuffer commands) const {
    const DeviceTable& vk = device_->vk();
    const auto fill = [&](const Slice& slice) {
        vk.vkCmdFillBuffer(commands, slice.buffer, slice.offset, slice.bytes, kPoison);
    };
    memory_barrier(vk, commands, kCompute | VK_PIPELINE_STAGE_TRANSFER_BIT,
                   VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
                   VK_ACCESS_TRANSFER_WRITE_BIT);
    for (const Slice& block : memory_.arena()) fill(block);
    if (memory_.scratch()) fill(*memory_.scratch());
    for (std::uint32_t id = 0; id < memory_.tensor_count(); ++id) {
        const Tensor& tensor = pieced_.plan.graph.tensor(Value{id});
        if (tensor.kind == TensorKind::activation && tensor.is_output && !tensor.alias_of && memory_.locate(id).buffer)
            fill(memory_.locate(id));
    }
}

void VulkanProgram::record(VkCommandBuffer commands) const { record(commands, {}, {dispatch_count(), 0}); }

void VulkanProgram::record(VkCommandBuffer commands, RunPlace first, RunPlace last) const {
    record_part(commands, first, last, false, {});
}

void VulkanProgram::record_own_part(VkCommandBuffer commands, RunPlace first, RunPlace last,
                                    const PartQueries& queries) const {
    if (first == RunPlace{}) {
        if (options_.check_memory) record_poison(commands);
        if (queries_) queries_.record_reset(commands, 0, static_cast<std::uint32_t>(steps_.size() + 1));
    }
    record_part(commands, first, last, true, queries);
}

void VulkanProgram::record_part(VkCommandBuffer commands, RunPlace first, RunPlace last, bool with_nodes,
                                const PartQueries& queries) const {
    const DeviceTable& vk = device_->vk();
    const TimestampQueries* const nodes = with_nodes && queries_ ? &queries_ : nullptr;
    if (first == RunPlace{}) {
        for (const ImageReader& image : images_) image.record(commands);
        for (const StridedCopy& gather : gathers_) gather.record(commands);
    }
    memory_barrier(vk, commands, kCompute | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
                   VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT, kCompute,
                   kShaderAccess);
    if (nodes && first == RunPlace{}) nodes->record(commands, 0);
    std::uint32_t query = queries.first;
    if (queries.queries) queries.queries->record(commands, query++);
    for (RunPlace at = first; at < last; at = {at.dispatch + 1, 0}) {
        const BoundDispatch& bound = bound_[at.dispatch];
        const std::size_t number = step_of_[at.dispatch];
        const Step& step = steps_[number];
        const bool is_first = at.dispatch == step.first || at == first;  // of its node here
        const std::uint64_t end = at.dispatch == last.dispatch ? last.group : bound.group_count();
        const bool ends_node = at.dispatch + 1 == step.last && end == bound.group_count();
        if (at != first && (at.dispatch != step.first || plan_.barrier_before[number] || step.shares_memory || nodes ||
                            queries.of_each))
            memory_barrier(vk, commands, kCompute, VK_ACCESS_SHADER_WRITE_BIT, kCompute, kShaderAccess);
        if (is_first) device_->begin_label(commands, plan_.graph.nodes()[number].name);
        bound.record(vk, commands, at.group, end);
        const RunPlace next = end == bound.group_count() ? RunPlace{at.dispatch + 1, 0} : RunPlace{at.dispatch, end};
        if (ends_node || next >= last) device_->end_label(commands);
        if (queries.queries && (queries.of_each || next >= last)) queries.queries->record(commands, query++);
        if (nodes && ends_node && (options_.timestamps == Timestamps::nodes || number + 1 == steps_.size()))
            nodes->record(commands, static_cast<std::uint32_t>(number + 1));
    }
    if (last.dispatch == dispatch_count())
        for (const StridedCopy& scatter : scatters_) scatter.record(commands);
    memory_barrier(
        vk, commands, kCompute, VK_ACCESS_SHADER_WRITE_BIT,
        kCompute | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
        kShaderAccess | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
}

Result<Slice> VulkanProgram::slice(Value tensor) const {
    VKFORMER_CHECK(check_host_access(tensor, plan_.graph.shape(tensor).element_count(),
                                     plan_.graph.dtype(tensor) == DType::i32, true));
    const Value storage = plan_.graph.storage(tensor);
    if (pieced_.cut.contains(storage.id))
        return Error{ErrorCode::MissingFeature,
                     plan_.graph.tensor(storage).name + " has " +
                         std::to_string(graph::storage_bytes(plan_.graph.tensor(storage))) +
                         " bytes and lies in several pieces, for device \"" + device_->capabilities().name +
                         "\" takes at most " + std::to_string(most_piece_bytes(device_->capabilities())) + " at once"};
    return locate(tensor);
}

Result<void> VulkanProgram::check_host_access(Value value, std::size_t count, bool integers, bool reading) const {
    const Tensor& tensor = plan_.graph.tensor(plan_.graph.storage(value));
    if (reading && tensor.kind == TensorKind::activation && !tensor.is_output)
        return Error{ErrorCode::InvalidArgument,
                     tensor.name + " is no output of the graph: its memory may be used again"};
    if (!reading && tensor.kind == TensorKind::weight)
        return Error{ErrorCode::InvalidArgument, tensor.name + " is a weight, and programs share those"};
    const std::uint32_t id = plan_.graph.storage(value).id;
    const auto cut = pieced_.cut.find(id);
    if (!memory_.locate(id).buffer && (cut == pieced_.cut.end() || cut->second.pieces.empty()))
        return Error{ErrorCode::InvalidArgument, tensor.name + " is not computed by this plan (fused or unused)"};
    if (count != tensor.shape.element_count())
        return Error{ErrorCode::ShapeMismatch, tensor.name + " has shape " + to_string(tensor.shape) + ", not " +
                                                   std::to_string(count) + " elements"};
    if (integers != (tensor.dtype == DType::i32))
        return Error{ErrorCode::UnsupportedDtype, tensor.name + " is " + std::string(to_string(tensor.dtype))};
    return {};
}

namespace {

/// The elements of a block, one after the other: calls each(place in the block, place in the whole, count) for runs of them.
void for_each_run(const CutTensor& cut, const Block& block, auto&& each) {
    const auto strides = dense_places(cut.sizes).strides;
    std::uint64_t at = 0;
    for (std::uint64_t i = 0; i < block[0].count; ++i)
        for (std::uint64_t j = 0; j < block[1].count; ++j)
            for (std::uint64_t k = 0; k < block[2].count; ++k) {
                const std::uint64_t in_whole = (block[0].first + i) * strides[0] + (block[1].first + j) * strides[1] +
                                               (block[2].first + k) * strides[2] + block[3].first;
                each(at, in_whole, block[3].count);
                at += block[3].count;
            }
}

std::vector<std::byte> encoded(DType dtype, std::span<const float> values) { return encode(dtype, values); }
std::vector<std::byte> encoded(DType, std::span<const std::int32_t> values) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
}

}  // namespace

template <class T>
Result<void> VulkanProgram::write_as(Value tensor, std::span<const T> values) {
    VKFORMER_CHECK(check_host_access(tensor, values.size(), std::is_same_v<T, std::int32_t>, false));
    VKFORMER_CHECK(wait());
    const DType dtype = plan_.graph.dtype(tensor);
    const auto cut = pieced_.cut.find(plan_.graph.storage(tensor).id);
    if (cut == pieced_.cut.end()) return device_->transfer().upload(locate(tensor), 0, encoded(dtype, values));
    for (const auto& [block, piece] : cut->second.pieces) {
        std::vector<T> own(pieced_.plan.graph.shape(piece).element_count());
        for_each_run(cut->second, block, [&](std::uint64_t at, std::uint64_t in_whole, std::uint64_t count) {
            std::ranges::copy(values.subspan(in_whole, count), own.begin() + static_cast<std::ptrdiff_t>(at));
        });
        VKFORMER_CHECK(device_->transfer().upload(locate(piece), 0, encoded(dtype, std::span<const T>(own))));
    }
    return {};
}

Result<void> VulkanProgram::write(Value tensor, std::span<const float> values) { return write_as(tensor, values); }
Result<void> VulkanProgram::write(Value tensor, std::span<const std::int32_t> values) {
    return write_as(tensor, values);
}

template <class T>
Result<void> VulkanProgram::read_as(Value tensor, std::span<T> values) {
    VKFORMER_CHECK(check_host_access(tensor, values.size(), std::is_same_v<T, std::int32_t>, true));
    VKFORMER_CHECK(wait());
    const DType dtype = plan_.graph.dtype(tensor);
    const auto download = [&](Value part, std::span<T> into) -> Result<void> {
        const Slice slice = locate(part);
        std::vector<std::byte> bytes(slice.bytes);
        VKFORMER_CHECK(device_->transfer().download(slice, 0, bytes));
        return convert(dtype, is_quantized(dtype) ? gather_blocks(dtype, bytes) : bytes, 0, into);
    };
    const auto cut = pieced_.cut.find(plan_.graph.storage(tensor).id);
    if (cut == pieced_.cut.end()) return download(tensor, values);
    for (const auto& [block, piece] : cut->second.pieces) {
        std::vector<T> own(pieced_.plan.graph.shape(piece).element_count());
        VKFORMER_CHECK(download(piece, own));
        for_each_run(cut->second, block, [&](std::uint64_t at, std::uint64_t in_whole, std::uint64_t count) {
            std::ranges::copy(std::span(own).subspan(at, count),
                              values.begin() + static_cast<std::ptrdiff_t>(in_whole));
        });
    }
    return {};
}

Result<void> VulkanProgram::read(Value tensor, std::span<float> values) { return read_as(tensor, values); }
Result<void> VulkanProgram::read(Value tensor, std::span<double> values) { return read_as(tensor, values); }
Result<void> VulkanProgram::read(Value tensor, std::span<std::int32_t> values) { return read_as(tensor, values); }

Result<void> VulkanProgram::submit(std::uint32_t times) { return submit(times, {}); }

Result<std::uint64_t> VulkanProgram::submit(const SemaphorePoints& points) {
    VKFORMER_CHECK(submit(1, points));
    return submitted_;
}

Result<void> VulkanProgram::submit(std::uint32_t times, const SemaphorePoints& points) {
    if (!runs_)
        return Error{ErrorCode::MissingFeature,
                     "the adopted device came without a queue, so vkformer can only record; pass a queue to submit"};
    return runs_->submit(times, points, submitted_);
}

Result<void> VulkanProgram::wait() {
    VKFORMER_CHECK(device_->check_not_lost());  // or else what a lost run left would be read
    if (submitted_ == 0) return {};
    VKFORMER_CHECK(device_->wait(submitted_));
    submitted_ = 0;
    VKFORMER_CHECK(runs_->note_done());
    if (options_.check_memory) VKFORMER_CHECK(memory_.check_guards(*device_, pieced_));
    return {};
}

/// Between each timestamp and the one before it.
Result<std::vector<double>> VulkanProgram::intervals_ns() {
    if (!queries_)
        return Error{ErrorCode::MissingFeature, options_.timestamps != Timestamps::none
                                                    ? "the device's queue has no timestamps"
                                                    : "the program was not made for profiling"};
    VKFORMER_CHECK(wait());
    const auto last = static_cast<std::uint32_t>(steps_.size());
    const bool of_nodes = options_.timestamps == Timestamps::nodes;
    VKFORMER_TRY(auto intervals, queries_.intervals_ns(0, of_nodes ? last : std::min(last, 1u), of_nodes ? 1 : last));
    if (!intervals) return vulkan_error(VK_NOT_READY, "vkGetQueryPoolResults", "reading timestamps");
    return *std::move(intervals);
}

Result<std::vector<NodeTime>> VulkanProgram::node_times() {
    if (queries_ && options_.timestamps != Timestamps::nodes)
        return Error{ErrorCode::MissingFeature, "the program has no timestamps between its nodes"};
    VKFORMER_TRY(const auto intervals, intervals_ns());
    std::vector<NodeTime> times;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        const graph::Node& node = plan_.graph.nodes()[i];
        times.push_back({node.name, std::string(graph::op_name(node.op)), steps_[i].shader,
                         std::string(steps_[i].kernel->name), intervals[i]});
    }
    return times;
}

Result<double> VulkanProgram::device_ns() {
    VKFORMER_TRY(const auto intervals, intervals_ns());
    return std::accumulate(intervals.begin(), intervals.end(), 0.0);
}

}  // namespace vkformer::vulkan
