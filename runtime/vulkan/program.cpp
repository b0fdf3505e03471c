// SPDX-License-Identifier: MIT
#include "vulkan/program.hpp"

#include <algorithm>
#include <cstring>
#include <future>
#include <numeric>
#include <set>

#include "core/block_format.hpp"
#include "core/tasks.hpp"
#include "core/try.hpp"
#include "vulkan/block_layout.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

using graph::Access;
using graph::Tensor;
using graph::TensorKind;
using graph::Value;

constexpr std::uint32_t kPoison = 0xFFFFFFFFu;  // NaN as f32 and as two f16, −1 as i32
constexpr std::byte kGuardByte{0xA5};

/// Floats as the device stores them; a q8_0 cache as a whole.
std::vector<std::byte> encode(DType dtype, std::span<const float> values) {
    if (is_quantized(dtype)) {
        std::vector<std::byte> blocks(bytes_of(dtype, values.size()));
        quantize(dtype, values, blocks);
        ArrangedBlocks arranged = arrange_blocks(dtype, blocks);
        arranged.vectors.insert(arranged.vectors.end(), arranged.scales.begin(), arranged.scales.end());
        return std::move(arranged.vectors);
    }
    std::vector<std::byte> bytes((values.size() * element_bytes(dtype) + 3) / 4 * 4);
    const auto put = [&](std::size_t i, std::uint16_t value) { std::memcpy(bytes.data() + 2 * i, &value, 2); };
    if (dtype == DType::f16)
        for (std::size_t i = 0; i < values.size(); ++i) put(i, float_to_half(values[i]));
    else if (dtype == DType::bf16)
        for (std::size_t i = 0; i < values.size(); ++i) put(i, float_to_bfloat(values[i]));
    else
        std::memcpy(bytes.data(), values.data(), values.size_bytes());
    return bytes;
}

/// A part of a weight, whose first element is number `at` of the whole: blocks, arranged as the shaders read them.
Result<void> upload_blocks(Transfer& transfer, const Slice& slice, const Tensor& tensor, const TensorData& part,
                           std::uint64_t at) {
    constexpr std::uint64_t kChunk =
        1 << 22;  // elements: an even number of blocks, so that their halves are whole words
    const std::uint64_t count = part.shape.element_count(), scales_at = tensor.shape.element_count();
    const std::uint64_t block = block_elements(tensor.dtype), vectors = vector_bytes(tensor.dtype);
    for (std::uint64_t first = 0; first < count; first += kChunk) {
        const std::uint64_t bytes = bytes_of(tensor.dtype, std::min(kChunk, count - first));
        const ArrangedBlocks arranged =
            arrange_blocks(tensor.dtype, part.bytes.subspan(bytes_of(tensor.dtype, first), bytes));
        const std::uint64_t index = (at + first) / block;
        VKFORMER_CHECK(transfer.upload(slice, index * vectors, arranged.vectors));
        VKFORMER_CHECK(transfer.upload(slice, scales_at / block * vectors + index * 2, arranged.scales));
    }
    return {};
}

/// The same of numbers, converted to what the device stores.
Result<void> upload_numbers(Transfer& transfer, const Slice& slice, const Tensor& tensor, const TensorData& part,
                            std::uint64_t at) {
    constexpr std::size_t kChunk = 1 << 20;  // elements; even, so that a chunk of halves is whole words
    const std::size_t count = part.shape.element_count(), size = element_bytes(tensor.dtype);
    if (part.dtype == tensor.dtype) return transfer.upload(slice, at * size, part.bytes);
    std::vector<float> floats(tensor.dtype == DType::i32 ? 0 : std::min(kChunk, count));
    std::vector<std::int32_t> integers(tensor.dtype == DType::i32 ? std::min(kChunk, count) : 0);
    for (std::size_t first = 0; first < count; first += kChunk) {
        const std::size_t n = std::min(kChunk, count - first);
        if (tensor.dtype == DType::i32) {
            VKFORMER_CHECK(convert(part.dtype, part.bytes, first, std::span(integers).first(n)));
            VKFORMER_CHECK(transfer.upload(slice, (at + first) * size, std::as_bytes(std::span(integers).first(n))));
        } else {
            VKFORMER_CHECK(convert(part.dtype, part.bytes, first, std::span(floats).first(n)));
            VKFORMER_CHECK(
                transfer.upload(slice, (at + first) * size, encode(tensor.dtype, std::span(floats).first(n))));
        }
    }
    return {};
}

Result<void> upload_weight(Transfer& transfer, const Slice& slice, const Tensor& tensor) {
    std::uint64_t at = 0;
    for (const TensorData& part : tensor.data) {
        if (is_quantized(tensor.dtype)) {
            VKFORMER_CHECK(upload_blocks(transfer, slice, tensor, part, at));
        } else {
            VKFORMER_CHECK(upload_numbers(transfer, slice, tensor, part, at));
        }
        at += part.shape.element_count();
    }
    return {};
}

void memory_barrier(const DeviceTable& vk, VkCommandBuffer commands, VkPipelineStageFlags source_stages,
                    VkAccessFlags source, VkPipelineStageFlags target_stages, VkAccessFlags target) {
    const VkMemoryBarrier barrier{
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = source, .dstAccessMask = target};
    vk.vkCmdPipelineBarrier(commands, source_stages, target_stages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

constexpr VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
constexpr VkAccessFlags kShaderAccess = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;

}  // namespace

namespace {

std::vector<MemoryBlocks::Request> requests_of(std::span<const Tensor* const> tensors) {
    std::vector<MemoryBlocks::Request> requests;
    for (const Tensor* tensor : tensors) requests.push_back({graph::storage_bytes(*tensor), tensor->name});
    return requests;
}

/// Inputs, and outputs that a node writes: they do not lie in the arena.
std::vector<std::uint32_t> owners_outside_arena(const graph::Graph& graph) {
    std::vector<bool> touched(graph.tensors().size(), false);
    for (const graph::Node& node : graph.nodes())
        graph::for_each_operand(
            node.op, [&](std::string_view, Value value, Access) { touched[graph.storage(value).id] = true; });
    std::vector<std::uint32_t> owners;
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const Tensor& tensor = graph.tensor(Value{id});
        const bool own_output = tensor.kind == TensorKind::activation && tensor.is_output && touched[id];
        if (!tensor.alias_of && (tensor.kind == TensorKind::input || own_output)) owners.push_back(id);
    }
    return owners;
}

/// What the variants of any node want, one node at a time. It does not depend on which are chosen, so that it can be told before.
std::uint64_t scratch_bytes(const graph::Plan& plan, const Capabilities& device) {
    KernelContext context{plan.graph, device};
    std::uint64_t bytes = 0;
    for (const graph::Node& node : plan.graph.nodes()) {
        for (const std::string_view name : variants(node.op, context)) {
            context.variant = name;
            const auto dispatch = std::visit([&](const auto& op) { return plan_dispatch(op, context); }, node.op);
            if (dispatch) bytes = std::max(bytes, dispatch->scratch_bytes);  // or else it says so where it is chosen
        }
    }
    return bytes;
}

/// The arena, then the owners, then scratch memory and what counts taken tiles, where variants want them.
std::vector<MemoryBlocks::Request> activation_requests(const graph::Plan& plan, std::span<const std::uint32_t> owners,
                                                       std::uint64_t scratch, bool taken) {
    std::vector<MemoryBlocks::Request> requests{{std::max<std::uint64_t>(plan.arena_bytes, 4), "arena"}};
    for (const std::uint32_t id : owners) {
        const Tensor& tensor = plan.graph.tensor(Value{id});
        requests.push_back({graph::storage_bytes(tensor), tensor.name});
    }
    if (scratch > 0) requests.push_back({scratch, "scratch"});
    if (taken) requests.push_back({4, "taken tiles"});
    return requests;
}

}  // namespace

VulkanStore::Entry VulkanStore::entry(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return entries_.at(name);
}

bool VulkanStore::has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return entries_.contains(name);
}

namespace {

/// The bytes of a weight that the device can read where the host has them: stored as the shaders read it, in one piece, and large enough
/// to be worth the pages around it. Else nothing.
std::span<const std::byte> bytes_in_place(const Device& device, const Tensor& tensor) {
    constexpr std::size_t kLeastBytes = 64 << 10;
    constexpr VkDeviceSize kVectorBytes = 32;  // which then never lies in two cache lines
    const Capabilities& c = device.capabilities();
    if (c.host_memory_alignment == 0 || !c.unified_memory || tensor.kind != TensorKind::weight) return {};
    if (is_quantized(tensor.dtype) || tensor.data.empty()) return {};
    const std::byte* const begin = tensor.data.front().bytes.data();
    const std::byte* end = begin;
    for (const TensorData& part : tensor.data) {
        const bool follows = part.bytes.data() == end && part.owner && part.owner == tensor.data.front().owner;
        if (!follows || part.dtype != tensor.dtype) return {};
        end += part.bytes.size();
    }
    const auto bytes = static_cast<std::size_t>(end - begin);
    const VkDeviceSize alignment = std::max(slice_alignment(device), kVectorBytes);
    if (reinterpret_cast<std::uintptr_t>(begin) % alignment != 0 || bytes % 4 != 0) return {};
    if (bytes < kLeastBytes || bytes > c.max_storage_buffer_range) return {};
    return {begin, bytes};
}

/// Splits what lies in one owner's memory into pieces that a buffer may have, and calls take(pieces' tensors, bytes) for each.
void for_each_piece(std::vector<const Tensor*> tensors, const Device& device, auto&& take) {
    constexpr std::uint64_t kMostBytes = 1 << 30;
    const std::uint64_t most = std::min(kMostBytes, device.capabilities().max_allocation_bytes / 2);
    const auto bytes_of_tensor = [&](const Tensor* t) { return bytes_in_place(device, *t); };
    std::ranges::sort(tensors, {}, [&](const Tensor* t) { return bytes_of_tensor(t).data(); });
    for (std::size_t first = 0, last = 0; first < tensors.size(); first = last) {
        const auto& owner = tensors[first]->data.front().owner;
        const std::byte* const begin = bytes_of_tensor(tensors[first]).data();
        const std::byte* end = begin;
        for (last = first; last < tensors.size() && tensors[last]->data.front().owner == owner; ++last) {
            const auto bytes = bytes_of_tensor(tensors[last]);
            const std::byte* const further = std::max(end, bytes.data() + bytes.size());
            if (last > first && static_cast<std::uint64_t>(further - begin) > most) break;
            end = further;
        }
        take(std::span(tensors).subspan(first, last - first), std::span(begin, end));
    }
}

}  // namespace

void VulkanStore::import_in_place(std::vector<const Tensor*>& missing) {
    std::vector<const Tensor*> tensors;
    std::ranges::copy_if(missing, std::back_inserter(tensors),
                         [&](const Tensor* t) { return !bytes_in_place(*device_, *t).empty(); });
    for_each_piece(std::move(tensors), *device_, [&](auto piece, std::span<const std::byte> bytes) {
        auto buffer = HostBuffer::import(*device_, bytes, "vkformer weights");
        if (!buffer) return;
        for (const Tensor* tensor : piece)
            entries_.emplace(tensor->name,
                             Entry{tensor->dtype, tensor->shape, buffer->slice(bytes_in_place(*device_, *tensor))});
        owners_.push_back(piece.front()->data.front().owner);
        imported_.push_back(*std::move(buffer));
    });
    std::erase_if(missing, [&](const Tensor* t) { return entries_.contains(t->name); });
}

Result<void> VulkanStore::add_missing(const graph::Graph& graph, TensorKind kind, bool guards) {
    const std::lock_guard lock(mutex_);
    std::vector<const Tensor*> missing;
    for (const Tensor& tensor : graph.tensors()) {
        if (tensor.kind != kind || tensor.alias_of) continue;
        const auto known = entries_.find(tensor.name);
        if (known == entries_.end()) {
            missing.push_back(&tensor);
        } else if (known->second.dtype != tensor.dtype || known->second.shape != tensor.shape) {
            return Error{ErrorCode::ShapeMismatch,
                         tensor.name + " is " + std::string(to_string(known->second.dtype)) + " " +
                             to_string(known->second.shape) + " in another program of this store, here " +
                             std::string(to_string(tensor.dtype)) + " " + to_string(tensor.shape)};
        }
    }
    if (!guards) import_in_place(missing);
    if (missing.empty()) return {};
    VKFORMER_TRY(auto blocks,
                 MemoryBlocks::create(*device_, requests_of(missing), guards,
                                      kind == TensorKind::weight ? "vkformer weights" : "vkformer states"));
    Transfer& transfer = device_->transfer();
    std::vector<Result<void>> filled(missing.size());
    const auto fill = [&](std::size_t i) {
        const Slice& slice = blocks.slices()[i];
        filled[i] = kind == TensorKind::weight ? upload_weight(transfer, slice, *missing[i]) : transfer.clear(slice);
    };
    if (device_->is_own()) {
        run_tasks(missing.size(), fill);
    } else {
        for (std::size_t i = 0; i < missing.size(); ++i) fill(i);
    }
    for (auto& result : filled) VKFORMER_CHECK(std::move(result));
    for (std::size_t i = 0; i < missing.size(); ++i)
        entries_.emplace(missing[i]->name, Entry{missing[i]->dtype, missing[i]->shape, blocks.slices()[i]});
    blocks_.push_back(std::move(blocks));
    return {};
}

Result<MemoryNeeds> memory_needs(const Device& device, std::span<const graph::Plan* const> plans,
                                 const VulkanStore& weights, const VulkanStore& states) {
    MemoryNeeds needs;
    std::set<std::string> known;  // of plans before
    for (const graph::Plan* plan : plans) {
        std::vector<const Tensor*> missing_weights, missing_states;
        for (const Tensor& tensor : plan->graph.tensors()) {
            const bool is_weight = tensor.kind == TensorKind::weight;
            if (tensor.alias_of || (!is_weight && tensor.kind != TensorKind::state)) continue;
            if ((is_weight ? weights : states).has(tensor.name) || !known.insert(tensor.name).second) continue;
            if (bytes_in_place(device, tensor).empty())
                (is_weight ? missing_weights : missing_states).push_back(&tensor);
        }
        VKFORMER_TRY(const auto weight_bytes, MemoryBlocks::bytes_for(device, requests_of(missing_weights), false));
        VKFORMER_TRY(const auto state_bytes, MemoryBlocks::bytes_for(device, requests_of(missing_states), false));
        const std::uint64_t scratch = scratch_bytes(*plan, device.capabilities());
        const auto requests = activation_requests(*plan, owners_outside_arena(plan->graph), scratch,
                                                  device.capabilities().buffer_addresses);
        VKFORMER_TRY(const auto activation_bytes, MemoryBlocks::bytes_for(device, requests, false));
        needs.weights += weight_bytes;
        needs.states += state_bytes;
        needs.activations += activation_bytes;
    }
    return needs;
}

Result<std::unique_ptr<VulkanProgram>> VulkanProgram::create(std::shared_ptr<Device> device,
                                                             std::shared_ptr<Pipelines> pipelines, graph::Plan plan,
                                                             std::shared_ptr<VulkanStore> weights,
                                                             std::shared_ptr<VulkanStore> states,
                                                             const ProgramOptions& options) {
    auto program = std::unique_ptr<VulkanProgram>(
        new VulkanProgram(std::move(device), std::move(pipelines), std::move(plan), options));
    program->weights_ = std::move(weights);
    program->states_ = std::move(states);
    VKFORMER_CHECK(program->plan_dispatches());
    // The driver compiles while the weights are read.
    auto compiled = std::async(program->device_->is_own() ? kOwnThread : std::launch::deferred,
                               [&] { program->pipelines_->prepare(program->dispatches_); });
    VKFORMER_CHECK(program->allocate());
    compiled.get();
    VKFORMER_CHECK(program->prepare_images());
    VKFORMER_CHECK(program->prepare_strided());
    VKFORMER_CHECK(program->prepare_steps());
    if (program->device_->can_submit()) VKFORMER_CHECK(program->prepare_commands());
    return program;
}

VulkanProgram::~VulkanProgram() { device_->drain(submitted_); }

Result<void> VulkanProgram::allocate() {
    const graph::Graph& graph = plan_.graph;
    const bool guards = options_.check_memory;
    VKFORMER_CHECK(weights_->add_missing(graph, TensorKind::weight, guards));
    VKFORMER_CHECK(states_->add_missing(graph, TensorKind::state, guards));

    auto owners = owners_outside_arena(graph);
    std::erase_if(owners, [&](std::uint32_t id) { return options_.bindings.contains(graph.tensor(Value{id}).name); });
    const std::uint64_t scratch = scratch_bytes(plan_, device_->capabilities());
    const bool taken = device_->capabilities().buffer_addresses;
    VKFORMER_TRY(blocks_, MemoryBlocks::create(*device_, activation_requests(plan_, owners, scratch, taken), guards,
                                               "vkformer activations"));
    if (scratch > 0) scratch_ = blocks_.slices()[1 + owners.size()];
    if (taken) {
        taken_ = blocks_.slices().back();
        VKFORMER_CHECK(device_->transfer().clear(*taken_));
    }

    slices_.assign(graph.tensors().size(), {});
    for (std::size_t i = 0; i < owners.size(); ++i) slices_[owners[i]] = blocks_.slices()[i + 1];
    const Slice& arena = blocks_.slices()[0];
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const Tensor& tensor = graph.tensor(Value{id});
        if (tensor.alias_of) continue;
        if (tensor.kind == TensorKind::weight) slices_[id] = weights_->entry(tensor.name).slice;
        if (tensor.kind == TensorKind::state) slices_[id] = states_->entry(tensor.name).slice;
        if (plan_.arena_offset[id] != graph::Plan::kNotInArena) {
            slices_[id] = arena;
            slices_[id].offset += plan_.arena_offset[id];
            if (arena.address) slices_[id].address += plan_.arena_offset[id];
            slices_[id].bytes = graph::storage_bytes(tensor);
            if (arena.mapped) slices_[id].mapped += plan_.arena_offset[id];
        }
    }
    VKFORMER_CHECK(bind_callers_memory());
    if (guards) VKFORMER_CHECK(write_guards());
    return {};
}

/// The caller's memory for an input or output of that name.
Result<void> VulkanProgram::check_binding(const std::string& name, const Slice& slice, std::uint64_t bytes) const {
    const VkDeviceSize alignment = device_->capabilities().storage_buffer_alignment;
    const auto invalid = [&](const std::string& what) {
        return Error{ErrorCode::InvalidArgument, "the buffer for " + name + " " + what};
    };
    const auto value = plan_.graph.find(name);
    const auto owners = owners_outside_arena(plan_.graph);
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
        slices_[value->id] = {slice.buffer, slice.offset, bytes, slice.mapped};
        slices_[value->id].address = slice.address;
    }
    return {};
}

Result<void> VulkanProgram::prepare_strided() {
    const graph::Graph& graph = plan_.graph;
    for (const auto& [name, strided] : options_.strided) {
        VKFORMER_CHECK(check_binding(name, strided.slice, 4));
        const Value value = *graph.find(name);
        if (element_bytes(graph.dtype(value)) != 4)
            return Error{ErrorCode::UnsupportedDtype,
                         "the buffer for " + name + " has strides, which needs float32 or int32"};
        const bool is_input = graph.tensor(value).kind == TensorKind::input;
        VKFORMER_TRY(auto copy,
                     StridedCopy::create(device_, *pipelines_,
                                         is_input ? StridedCopy::Direction::gather : StridedCopy::Direction::scatter,
                                         locate(value), graph.shape(value), strided.slice, strided.strides));
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

Slice VulkanProgram::locate(Value tensor) const { return slices_[plan_.graph.storage(tensor).id]; }

Result<VulkanProgram::Part> VulkanProgram::prepare_part(const Dispatch& dispatch) {
    const DeviceTable& vk = device_->vk();
    Part part{.push = dispatch.push, .groups = dispatch.groups};
    VKFORMER_TRY(part.pipeline, pipelines_->get(dispatch));
    for (const Dispatch::Addressed& addressed : dispatch.addressed) {
        const Slice slice = addressed.tensor == kScratch ? *scratch_ : locate(addressed.tensor);
        if (!slice.address)
            return Error{ErrorCode::InvalidArgument,
                         "the shader " + dispatch.shader + " reads " + plan_.graph.tensor(addressed.tensor).name +
                             " by its address, which memory of the caller has not; force another variant"};
        part.push.set_address(addressed.push_offset, slice.address);
    }
    const VkDescriptorSetAllocateInfo info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                           .descriptorPool = sets_.get(),
                                           .descriptorSetCount = 1,
                                           .pSetLayouts = &part.pipeline.set_layout};
    if (const VkResult r = vk.vkAllocateDescriptorSets(device_->handle(), &info, &part.set); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateDescriptorSets", "binding the tensors");
    std::vector<VkDescriptorBufferInfo> buffers;
    for (const Value value : dispatch.bindings) {
        const Slice slice = value == kScratch ? *scratch_ : value == kTaken ? *taken_ : locate(value);
        buffers.push_back({slice.buffer, slice.offset, slice.bytes});
    }
    std::vector<VkWriteDescriptorSet> writes;
    for (std::uint32_t binding = 0; binding < buffers.size(); ++binding)
        writes.push_back({.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                          .dstSet = part.set,
                          .dstBinding = binding,
                          .descriptorCount = 1,
                          .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                          .pBufferInfo = &buffers[binding]});
    vk.vkUpdateDescriptorSets(device_->handle(), static_cast<std::uint32_t>(writes.size()), writes.data(), 0, nullptr);
    return part;
}

Result<void> VulkanProgram::plan_dispatches() {
    KernelContext context{plan_.graph, device_->capabilities()};
    for (std::size_t i = 0; i < plan_.graph.nodes().size(); ++i) {
        const graph::Node& node = plan_.graph.nodes()[i];
        context.variant = options_.variants.empty() ? std::string_view() : options_.variants[i];
        auto planned = std::visit([&](const auto& op) { return plan_dispatch(op, context); }, node.op);
        if (!planned) {
            Error error = std::move(planned).error();
            error.message = node.name + ": " + error.message;
            return error;
        }
        const std::string_view variant = context.variant.empty() ? variants(node.op, context).front() : context.variant;
        // who reads kScratch by its address has kTaken
        const bool shares =
            std::ranges::any_of(planned->bindings, [](Value v) { return v == kScratch || v == kTaken; });
        std::string shaders = planned->shader;
        for (const Dispatch* part = planned->then.get(); part; part = part->then.get()) shaders += " + " + part->shader;
        steps_.push_back({.shares_memory = shares, .shader = std::move(shaders), .variant = std::string(variant)});
        dispatches_.push_back(std::move(*planned));
    }
    return {};
}

Result<void> VulkanProgram::prepare_steps() {
    const DeviceTable& vk = device_->vk();
    std::uint32_t binding_count = 0, set_count = 0;
    for (const Dispatch& dispatch : dispatches_)
        for (const Dispatch* part = &dispatch; part; part = part->then.get()) {
            binding_count += static_cast<std::uint32_t>(part->bindings.size());
            ++set_count;
        }
    if (dispatches_.empty()) return {};

    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, binding_count};
    const VkDescriptorPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                               .maxSets = set_count,
                                               .poolSizeCount = 1,
                                               .pPoolSizes = &size};
    VkDescriptorPool pool = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateDescriptorPool(device_->handle(), &pool_info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateDescriptorPool", "binding the tensors");
    sets_ = UniqueDescriptorPool(vk, device_->handle(), pool);

    for (std::size_t i = 0; i < dispatches_.size(); ++i)
        for (const Dispatch* part = &dispatches_[i]; part; part = part->then.get()) {
            VKFORMER_TRY(steps_[i].parts.emplace_back(), prepare_part(*part));
        }
    dispatches_.clear();
    return {};
}

Result<void> VulkanProgram::prepare_commands() {
    const DeviceTable& vk = device_->vk();
    const VkCommandPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                            .queueFamilyIndex = device_->queue_family()};
    VkCommandPool pool = VK_NULL_HANDLE;
    if (const VkResult r = vk.vkCreateCommandPool(device_->handle(), &pool_info, nullptr, &pool); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateCommandPool", "recording a program");
    pool_ = UniqueCommandPool(vk, device_->handle(), pool);
    const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = pool,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = 1};
    if (const VkResult r = vk.vkAllocateCommandBuffers(device_->handle(), &info, &commands_); r != VK_SUCCESS)
        return vulkan_error(r, "vkAllocateCommandBuffers", "recording a program");
    device_->set_name(VK_OBJECT_TYPE_COMMAND_BUFFER, commands_, "vkformer program");

    const auto query_count =
        static_cast<std::uint32_t>(steps_.size() + 1);  // with Timestamps::ends, two of them are used
    if (options_.timestamps != Timestamps::none && device_->capabilities().timestamp_valid_bits > 0) {
        const VkQueryPoolCreateInfo query_info{.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                               .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                               .queryCount = query_count};
        VkQueryPool queries = VK_NULL_HANDLE;
        if (const VkResult r = vk.vkCreateQueryPool(device_->handle(), &query_info, nullptr, &queries); r != VK_SUCCESS)
            return vulkan_error(r, "vkCreateQueryPool", "preparing timestamps");
        queries_ = UniqueQueryPool(vk, device_->handle(), queries);
    }

    const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    if (const VkResult r = vk.vkBeginCommandBuffer(commands_, &begin); r != VK_SUCCESS)
        return vulkan_error(r, "vkBeginCommandBuffer", "recording a program");
    if (options_.check_memory) record_poison(commands_);
    if (queries_.get()) vk.vkCmdResetQueryPool(commands_, queries_.get(), 0, query_count);
    record_steps(commands_, queries_.get(), 0, steps_.size());
    if (const VkResult r = vk.vkEndCommandBuffer(commands_); r != VK_SUCCESS)
        return vulkan_error(r, "vkEndCommandBuffer", "recording a program");
    return {};
}

void VulkanProgram::record_poison(VkCommandBuffer commands) const {
    const DeviceTable& vk = device_->vk();
    const auto fill = [&](const Slice& slice) {
        vk.vkCmdFillBuffer(commands, slice.buffer, slice.offset, slice.bytes, kPoison);
    };
    memory_barrier(vk, commands, kCompute | VK_PIPELINE_STAGE_TRANSFER_BIT,
                   VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
                   VK_ACCESS_TRANSFER_WRITE_BIT);
    fill(blocks_.slices()[0]);
    if (scratch_) fill(*scratch_);
    for (std::uint32_t id = 0; id < slices_.size(); ++id) {
        const Tensor& tensor = plan_.graph.tensor(Value{id});
        if (tensor.kind == TensorKind::activation && tensor.is_output && !tensor.alias_of && slices_[id].buffer)
            fill(slices_[id]);
    }
}

void VulkanProgram::record(VkCommandBuffer commands) const { record(commands, 0, steps_.size()); }

void VulkanProgram::record(VkCommandBuffer commands, std::size_t first, std::size_t last) const {
    record_steps(commands, VK_NULL_HANDLE, first, last);
}

void VulkanProgram::record_part(VkCommandBuffer commands, const Part& part) const {
    const DeviceTable& vk = device_->vk();
    vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, part.pipeline.handle);
    vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, part.pipeline.layout, 0, 1, &part.set, 0,
                               nullptr);
    const auto push = part.push.bytes();
    if (!push.empty())
        vk.vkCmdPushConstants(commands, part.pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                              static_cast<std::uint32_t>(push.size()), push.data());
    vk.vkCmdDispatch(commands, part.groups[0], part.groups[1], part.groups[2]);
}

void VulkanProgram::record_steps(VkCommandBuffer commands, VkQueryPool queries, std::size_t first,
                                 std::size_t last) const {
    const DeviceTable& vk = device_->vk();
    if (first == 0) {
        for (const ImageReader& image : images_) image.record(commands);
        for (const StridedCopy& gather : gathers_) gather.record(commands);
    }
    memory_barrier(vk, commands, kCompute | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
                   VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT, kCompute,
                   kShaderAccess);
    if (queries) vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, 0);
    for (std::size_t i = first; i < last; ++i) {
        const Step& step = steps_[i];
        if (i > first && (plan_.barrier_before[i] || step.shares_memory || queries))
            memory_barrier(vk, commands, kCompute, VK_ACCESS_SHADER_WRITE_BIT, kCompute, kShaderAccess);
        device_->begin_label(commands, plan_.graph.nodes()[i].name);
        for (const Part& part : step.parts) {
            if (&part != &step.parts.front())
                memory_barrier(vk, commands, kCompute, VK_ACCESS_SHADER_WRITE_BIT, kCompute, kShaderAccess);
            record_part(commands, part);
        }
        device_->end_label(commands);
        if (queries && (options_.timestamps == Timestamps::nodes || i + 1 == steps_.size()))
            vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries,
                                   static_cast<std::uint32_t>(i + 1));
    }
    if (last == steps_.size())
        for (const StridedCopy& scatter : scatters_) scatter.record(commands);
    memory_barrier(
        vk, commands, kCompute, VK_ACCESS_SHADER_WRITE_BIT,
        kCompute | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
        kShaderAccess | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
}

Result<Slice> VulkanProgram::slice(Value tensor) const {
    VKFORMER_CHECK(check_host_access(tensor, plan_.graph.shape(tensor).element_count(),
                                     plan_.graph.dtype(tensor) == DType::i32, true));
    return locate(tensor);
}

Result<void> VulkanProgram::check_host_access(Value value, std::size_t count, bool integers, bool reading) const {
    const Tensor& tensor = plan_.graph.tensor(plan_.graph.storage(value));
    if (reading && tensor.kind == TensorKind::activation && !tensor.is_output)
        return Error{ErrorCode::InvalidArgument,
                     tensor.name + " is no output of the graph: its memory may be used again"};
    if (!reading && tensor.kind == TensorKind::weight)
        return Error{ErrorCode::InvalidArgument, tensor.name + " is a weight, and programs share those"};
    if (!slices_[plan_.graph.storage(value).id].buffer)
        return Error{ErrorCode::InvalidArgument, tensor.name + " is not computed by this plan (fused or unused)"};
    if (count != tensor.shape.element_count())
        return Error{ErrorCode::ShapeMismatch, tensor.name + " has shape " + to_string(tensor.shape) + ", not " +
                                                   std::to_string(count) + " elements"};
    if (integers != (tensor.dtype == DType::i32))
        return Error{ErrorCode::UnsupportedDtype, tensor.name + " is " + std::string(to_string(tensor.dtype))};
    return {};
}

Result<void> VulkanProgram::write(Value tensor, std::span<const float> values) {
    VKFORMER_CHECK(check_host_access(tensor, values.size(), false, false));
    VKFORMER_CHECK(wait());
    return device_->transfer().upload(locate(tensor), 0, encode(plan_.graph.dtype(tensor), values));
}

Result<void> VulkanProgram::write(Value tensor, std::span<const std::int32_t> values) {
    VKFORMER_CHECK(check_host_access(tensor, values.size(), true, false));
    VKFORMER_CHECK(wait());
    return device_->transfer().upload(locate(tensor), 0, std::as_bytes(values));
}

template <class T>
Result<void> VulkanProgram::read_as(Value tensor, std::span<T> values) {
    VKFORMER_CHECK(check_host_access(tensor, values.size(), std::is_same_v<T, std::int32_t>, true));
    VKFORMER_CHECK(wait());
    const Slice slice = locate(tensor);
    std::vector<std::byte> bytes(slice.bytes);
    VKFORMER_CHECK(device_->transfer().download(slice, 0, bytes));
    const DType dtype = plan_.graph.dtype(tensor);
    return convert(dtype, is_quantized(dtype) ? gather_blocks(dtype, bytes) : bytes, 0, values);
}

Result<void> VulkanProgram::read(Value tensor, std::span<float> values) { return read_as(tensor, values); }
Result<void> VulkanProgram::read(Value tensor, std::span<double> values) { return read_as(tensor, values); }
Result<void> VulkanProgram::read(Value tensor, std::span<std::int32_t> values) { return read_as(tensor, values); }

Result<void> VulkanProgram::submit(std::uint32_t times) {
    const std::vector<VkCommandBuffer> commands(times, commands_);
    VKFORMER_TRY(submitted_, device_->submit(commands));
    return {};
}

Result<std::uint64_t> VulkanProgram::submit(const SemaphorePoints& points) {
    VKFORMER_TRY(submitted_, device_->submit({&commands_, 1}, points));
    return submitted_;
}

Result<void> VulkanProgram::wait() {
    if (submitted_ == 0) return {};
    VKFORMER_CHECK(device_->wait(submitted_));
    submitted_ = 0;
    if (options_.check_memory) VKFORMER_CHECK(check_guards());
    return {};
}

/// Between each timestamp and the one before it.
Result<std::vector<double>> VulkanProgram::intervals_ns() {
    if (!queries_.get())
        return Error{ErrorCode::MissingFeature, options_.timestamps != Timestamps::none
                                                    ? "the device's queue has no timestamps"
                                                    : "the program was not made for profiling"};
    VKFORMER_CHECK(wait());
    const auto last = static_cast<std::uint32_t>(steps_.size());
    const std::uint32_t stride = options_.timestamps == Timestamps::nodes ? 1 : std::max(last, 1u);
    const std::uint32_t bits = device_->capabilities().timestamp_valid_bits;
    const std::uint64_t mask = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    std::vector<double> intervals;
    std::uint64_t before = 0;
    for (std::uint32_t query = 0; query <= last; query += stride) {
        std::uint64_t ticks = 0;
        if (const VkResult r =
                device_->vk().vkGetQueryPoolResults(device_->handle(), queries_.get(), query, 1, sizeof ticks, &ticks,
                                                    sizeof ticks, VK_QUERY_RESULT_64_BIT);
            r != VK_SUCCESS)
            return vulkan_error(r, "vkGetQueryPoolResults", "reading timestamps");
        if (query > 0)
            intervals.push_back(static_cast<double>((ticks - before) & mask) *
                                static_cast<double>(device_->capabilities().timestamp_period_ns));
        before = ticks;
    }
    return intervals;
}

Result<std::vector<NodeTime>> VulkanProgram::node_times() {
    if (queries_.get() && options_.timestamps != Timestamps::nodes)
        return Error{ErrorCode::MissingFeature, "the program has no timestamps between its nodes"};
    VKFORMER_TRY(const auto intervals, intervals_ns());
    std::vector<NodeTime> times;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        const graph::Node& node = plan_.graph.nodes()[i];
        times.push_back(
            {node.name, std::string(graph::op_name(node.op)), steps_[i].shader, steps_[i].variant, intervals[i]});
    }
    return times;
}

Result<double> VulkanProgram::device_ns() {
    VKFORMER_TRY(const auto intervals, intervals_ns());
    return std::accumulate(intervals.begin(), intervals.end(), 0.0);
}

namespace {

/// The guard bands of a slice: the bytes before and behind it.
std::array<Slice, 2> guard_bands(const Slice& slice) {
    return {Slice{slice.buffer, slice.offset - kGuardBytes, kGuardBytes,
                  slice.mapped ? slice.mapped - kGuardBytes : nullptr},
            Slice{slice.buffer, slice.offset + slice.bytes, kGuardBytes,
                  slice.mapped ? slice.mapped + slice.bytes : nullptr}};
}

}  // namespace

Result<void> VulkanProgram::write_guards() {
    const std::vector<std::byte> pattern(kGuardBytes, kGuardByte);
    for (std::uint32_t id = 0; id < slices_.size(); ++id) {
        if (!slices_[id].buffer || plan_.arena_offset[id] != graph::Plan::kNotInArena) continue;
        for (const Slice& band : guard_bands(slices_[id])) VKFORMER_CHECK(device_->transfer().upload(band, 0, pattern));
    }
    for (const Slice& band : guard_bands(blocks_.slices()[0]))
        VKFORMER_CHECK(device_->transfer().upload(band, 0, pattern));
    for (const auto& slice : {scratch_, taken_})
        if (slice)
            for (const Slice& band : guard_bands(*slice)) VKFORMER_CHECK(device_->transfer().upload(band, 0, pattern));
    return {};
}

Result<void> VulkanProgram::check_guards() {
    std::vector<std::byte> found(kGuardBytes);
    const auto check = [&](const Slice& slice, const std::string& name) -> Result<void> {
        for (const Slice& band : guard_bands(slice)) {
            VKFORMER_CHECK(device_->transfer().download(band, 0, found));
            if (std::ranges::any_of(found, [](std::byte b) { return b != kGuardByte; }))
                return Error{ErrorCode::Vulkan, "a shader wrote outside " + name + ": its guard band has changed"};
        }
        return {};
    };
    for (std::uint32_t id = 0; id < slices_.size(); ++id)
        if (slices_[id].buffer && plan_.arena_offset[id] == graph::Plan::kNotInArena)
            VKFORMER_CHECK(check(slices_[id], plan_.graph.tensor(Value{id}).name));
    if (scratch_) VKFORMER_CHECK(check(*scratch_, "the scratch memory"));
    if (taken_) VKFORMER_CHECK(check(*taken_, "the counter of tiles"));
    return check(blocks_.slices()[0], "the arena");
}

}  // namespace vkformer::vulkan
