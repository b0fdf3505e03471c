// SPDX-License-Identifier: MIT
#include "vulkan/program_memory.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/try.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::vulkan {

using graph::Access;
using graph::Tensor;
using graph::TensorKind;
using graph::Value;

std::vector<std::uint32_t> owners_outside_arena(const PiecedPlan& pieced) {
    const graph::Graph& graph = pieced.plan.graph;
    std::vector<bool> touched(graph.tensors().size(), false);
    for (const graph::Node& node : graph.nodes())
        graph::for_each_operand(
            node.op, [&](std::string_view, Value value, Access) { touched[graph.storage(value).id] = true; });
    std::vector<std::uint32_t> owners;
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const Tensor& tensor = graph.tensor(Value{id});
        const bool own_output = tensor.kind == TensorKind::activation && tensor.is_output && touched[id];
        if (tensor.alias_of || pieced.cut.contains(id)) continue;
        if (tensor.kind == TensorKind::input || own_output) owners.push_back(id);
    }
    for (const auto& [id, cut] : pieced.cut)
        if (const TensorKind kind = graph.tensor(Value{id}).kind; kind == TensorKind::activation)
            for (const TensorPiece& piece : cut.pieces) owners.push_back(piece.value.id);
    return owners;
}

namespace {

constexpr std::byte kGuardByte{0xA5};

/// What the variants of any node want, one node at a time. It does not depend on which are chosen, so that it can be told before.
std::uint64_t scratch_bytes(const PiecedPlan& pieced, const Capabilities& device) {
    std::uint64_t bytes = 0;
    for (const auto& node : pieced.nodes)
        for (const PiecedPlan::Work& work : node) {
            const auto* const op = std::get_if<graph::Op>(&work.what);
            if (!op) continue;
            const KernelContext context{pieced.plan.graph, device, work.piece};
            for (const KernelTraits* kernel : fitting_kernels(*op, context)) {
                const auto planned = plan_dispatches(*op, context, *kernel);
                if (planned) bytes = std::max(bytes, planned->scratch_bytes);  // or else it says so where it is chosen
            }
        }
    return bytes;
}

/// Memory for what is not weights or states, by its use.
struct ActivationRequests {
    std::vector<MemoryBlocks::Request> requests;  ///< the arena's blocks, the owners, then those whose place is told
    std::size_t arena_blocks = 0;
    std::optional<std::size_t> copied, scratch, counter;  ///< places; absent: not wanted
};

ActivationRequests activation_requests(const PiecedPlan& pieced, std::span<const std::uint32_t> owners,
                                       std::uint64_t scratch, bool counter) {
    ActivationRequests result;
    auto& requests = result.requests;
    const std::uint64_t bytes = std::max<std::uint64_t>(pieced.plan.arena_bytes, 4);
    const std::uint64_t block = pieced.arena_block_bytes ? pieced.arena_block_bytes : bytes;
    for (std::uint64_t first = 0; first < bytes; first += block)
        requests.push_back({std::min(block, bytes - first), "arena", false});
    result.arena_blocks = requests.size();
    for (const std::uint32_t id : owners) {
        const Tensor& tensor = pieced.plan.graph.tensor(Value{id});
        requests.push_back({graph::storage_bytes(tensor), tensor.name});
    }
    const auto add = [&](std::optional<std::size_t>& place, MemoryBlocks::Request request) {
        place = requests.size();
        requests.push_back(std::move(request));
    };
    if (pieced.copied_bytes > 0) add(result.copied, {pieced.copied_bytes, "copies for pieces", false});
    if (scratch > 0) add(result.scratch, {scratch, "scratch"});
    if (counter) add(result.counter, {4, "taken tiles"});
    return result;
}

Slice part_of(Slice slice, VkDeviceSize offset, VkDeviceSize bytes) {
    slice.offset += offset;
    if (slice.address) slice.address += offset;
    if (slice.mapped) slice.mapped += offset;
    slice.bytes = bytes;
    return slice;
}

/// What one plan would have allocated, beside what the stores have and what is `known` of plans before.
Result<graph::MemoryNeeds> needs_of(const Device& device, const PiecedPlan& pieced, const VulkanStore& weights,
                                    const VulkanStore& states, std::set<std::string>& known) {
    const graph::Graph& graph = pieced.plan.graph;
    std::vector<const Tensor*> missing_weights, missing_states;
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const Tensor& tensor = graph.tensor(Value{id});
        const bool is_weight = tensor.kind == TensorKind::weight;
        if (tensor.alias_of || pieced.cut.contains(id)) continue;
        if (!is_weight && tensor.kind != TensorKind::state) continue;
        if ((is_weight ? weights : states).has(tensor.name) || !known.insert(tensor.name).second) continue;
        if (needs_memory(device, tensor)) (is_weight ? missing_weights : missing_states).push_back(&tensor);
    }
    graph::MemoryNeeds needs;
    VKFORMER_TRY(needs.weights, MemoryBlocks::bytes_for(device, requests_of(missing_weights), false));
    VKFORMER_TRY(needs.states, MemoryBlocks::bytes_for(device, requests_of(missing_states), false));
    const std::uint64_t scratch = scratch_bytes(pieced, device.capabilities());
    const auto wanted =
        activation_requests(pieced, owners_outside_arena(pieced), scratch, device.capabilities().buffer_addresses);
    VKFORMER_TRY(needs.activations, MemoryBlocks::bytes_for(device, wanted.requests, false));
    return needs;
}

/// Bytes of the device's memory that weights may take with Offload::kRest. Prompts of other lengths and copies come later: they get twice
/// what is computed with now, and a sixteenth of all.
std::uint64_t room_for_weights(const Device& device, const graph::MemoryNeeds& beside) {
    const std::uint64_t all = device.allocator().budget().value_or(largest_local_heap(device));
    const std::uint64_t others = device.allocator().used() + beside.states + 2 * beside.activations + all / 16;
    return all - std::min(all, others);
}

Result<void> add_weights(const Device& device, const PiecedPlan& pieced, VulkanStore& weights,
                         const VulkanStore& states, bool guards) {
    std::uint64_t room = 0;
    if (device.offload().bytes == Offload::kRest) {
        std::set<std::string> known;
        VKFORMER_TRY(const graph::MemoryNeeds needs, needs_of(device, pieced, weights, states, known));
        room = room_for_weights(device, needs);
    }
    return weights.add_weights(pieced, room, guards);
}

}  // namespace

Result<graph::MemoryNeeds> memory_needs(const Device& device, std::span<const graph::Plan* const> plans,
                                        const VulkanStore& weights, const VulkanStore& states) {
    graph::MemoryNeeds all;
    std::set<std::string> known;
    for (const graph::Plan* plan : plans) {
        VKFORMER_TRY(const PiecedPlan pieced, cut_into_pieces(*plan, device.capabilities()));
        VKFORMER_TRY(const graph::MemoryNeeds needs, needs_of(device, pieced, weights, states, known));
        all.weights += needs.weights;
        all.states += needs.states;
        all.activations += needs.activations;
    }
    const std::uint64_t offload = has_host_memory(device) ? device.offload().bytes : 0;
    if (offload == Offload::kRest)
        all.weights = std::min(all.weights, room_for_weights(device, all));
    else
        all.weights -= std::min(all.weights, offload - std::min(offload, weights.offloaded_bytes()));
    return all;
}

Result<ProgramMemory> ProgramMemory::create(Device& device, const PiecedPlan& pieced, VulkanStore& weights,
                                            VulkanStore& states, const std::set<std::string>& of_caller,
                                            const Options& options) {
    const bool guards = options.guards;
    const graph::Graph& graph = pieced.plan.graph;
    if (options.offloads && device.offload().bytes > 0) {
        VKFORMER_CHECK(add_weights(device, pieced, weights, states, guards));
    } else {
        VKFORMER_CHECK(weights.add_missing(pieced, TensorKind::weight, guards));
    }
    VKFORMER_CHECK(states.add_missing(pieced, TensorKind::state, guards));

    auto owners = owners_outside_arena(pieced);
    std::erase_if(owners, [&](std::uint32_t id) { return of_caller.contains(graph.tensor(Value{id}).name); });
    const std::uint64_t scratch = scratch_bytes(pieced, device.capabilities());
    const ActivationRequests wanted =
        activation_requests(pieced, owners, scratch, device.capabilities().buffer_addresses);
    ProgramMemory memory;
    VKFORMER_TRY(memory.blocks_, MemoryBlocks::create(device, wanted.requests, guards, "vkformer activations"));
    const auto blocks = memory.blocks_.slices();
    memory.arena_blocks_ = wanted.arena_blocks;
    if (wanted.scratch) memory.scratch_ = blocks[*wanted.scratch];
    if (wanted.counter) {
        memory.counter_ = blocks[*wanted.counter];
        VKFORMER_CHECK(device.transfer().clear(*memory.counter_));
    }

    auto& slices = memory.slices_;
    slices.assign(graph.tensors().size(), {});
    for (std::size_t i = 0; i < owners.size(); ++i) slices[owners[i]] = blocks[memory.arena_blocks_ + i];
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const Tensor& tensor = graph.tensor(Value{id});
        if (tensor.alias_of || pieced.cut.contains(id)) continue;
        if (tensor.kind == TensorKind::weight) slices[id] = weights.entry(tensor.name).slice;
        if (tensor.kind == TensorKind::state) slices[id] = states.entry(tensor.name).slice;
        const std::uint64_t offset = pieced.plan.arena_offset[id];
        if (offset == graph::Plan::kNotInArena) continue;
        const std::uint64_t block = pieced.arena_block_bytes ? pieced.arena_block_bytes : pieced.plan.arena_bytes;
        slices[id] = part_of(blocks[offset / block], offset % block, graph::storage_bytes(tensor));
    }
    for (const auto& [id, offset] : pieced.copied_at)
        slices[id] = part_of(blocks[*wanted.copied], offset, graph::storage_bytes(graph.tensor(Value{id})));
    return memory;
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

template <class Each>
Result<void> ProgramMemory::for_each_guarded(const PiecedPlan& pieced, Each&& each) const {
    const graph::Graph& graph = pieced.plan.graph;
    for (std::uint32_t id = 0; id < slices_.size(); ++id) {
        const bool is_alone =
            pieced.plan.arena_offset[id] == graph::Plan::kNotInArena && !pieced.copied_at.contains(id);
        if (slices_[id].buffer && is_alone) VKFORMER_CHECK(each(slices_[id], graph.tensor(Value{id}).name));
    }
    for (const Slice& block : arena()) VKFORMER_CHECK(each(block, std::string("the arena")));
    if (scratch_) VKFORMER_CHECK(each(*scratch_, std::string("the scratch memory")));
    if (counter_) VKFORMER_CHECK(each(*counter_, std::string("the counter of tiles")));
    return {};
}

Result<void> ProgramMemory::write_guards(Device& device, const PiecedPlan& pieced) const {
    const std::vector<std::byte> pattern(kGuardBytes, kGuardByte);
    return for_each_guarded(pieced, [&](const Slice& slice, const std::string&) -> Result<void> {
        for (const Slice& band : guard_bands(slice)) VKFORMER_CHECK(device.transfer().upload(band, 0, pattern));
        return {};
    });
}

Result<void> ProgramMemory::check_guards(Device& device, const PiecedPlan& pieced) const {
    std::vector<std::byte> found(kGuardBytes);
    return for_each_guarded(pieced, [&](const Slice& slice, const std::string& name) -> Result<void> {
        for (const Slice& band : guard_bands(slice)) {
            VKFORMER_CHECK(device.transfer().download(band, 0, found));
            if (std::ranges::any_of(found, [](std::byte b) { return b != kGuardByte; }))
                return Error{ErrorCode::Vulkan, "a shader wrote outside " + name + ": its guard band has changed"};
        }
        return {};
    });
}

}  // namespace vkformer::vulkan
