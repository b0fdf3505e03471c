// SPDX-License-Identifier: MIT
/// The device memory of one program: the arena, inputs and outputs, scratch memory; and how much of it there would be.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/plan.hpp"
#include "vulkan/kernels/dispatch.hpp"
#include "vulkan/memory.hpp"
#include "vulkan/pieces.hpp"
#include "vulkan/store.hpp"

namespace vkformer::vulkan {

/// Bytes of device memory that programs take, with what alignment adds.
/// What compiling the plans, in this order, with these stores would allocate. Errors: MissingFeature (a tensor is larger than the
/// device allows).
Result<graph::MemoryNeeds> memory_needs(const Device& device, std::span<const graph::Plan* const> plans,
                                        const VulkanStore& weights, const VulkanStore& states);

/// Inputs, and outputs that a node writes: they do not lie in the arena. For those that are cut, and activations that are, the pieces.
std::vector<std::uint32_t> owners_outside_arena(const PiecedPlan& pieced);

class ProgramMemory {
public:
    struct Options {
        bool guards = false;
        bool offloads = true;  ///< weights, by Device::offload()
    };
    /// Weights and states come to their stores, where they are not there yet. `own` names the tensors that lie in memory of the caller.
    /// Errors: those of VulkanStore::add_missing, out of memory, Vulkan.
    static Result<ProgramMemory> create(Device& device, const PiecedPlan& pieced, VulkanStore& weights,
                                        VulkanStore& states, const std::set<std::string>& of_caller,
                                        const Options& options);
    ProgramMemory() = default;

    /// The caller's memory for a tensor.
    void bind(std::uint32_t id, const Slice& slice) { slices_[id] = slice; }

    /// Where a tensor's storage lies; no buffer where it is cut or not computed.
    Slice locate(std::uint32_t storage_id) const { return slices_[storage_id]; }
    const std::optional<Slice>& scratch() const noexcept { return scratch_; }
    const std::optional<Slice>& counter() const noexcept { return counter_; }
    std::span<const Slice> arena() const noexcept { return blocks_.slices().first(arena_blocks_); }
    std::size_t tensor_count() const noexcept { return slices_.size(); }
    VkDeviceSize total_bytes() const noexcept { return blocks_.total_bytes(); }

    /// Guard bands around every tensor that does not share its memory, the arena and what else is the program's own. check_guards errors:
    /// Vulkan (one has changed).
    Result<void> write_guards(Device& device, const PiecedPlan& pieced) const;
    Result<void> check_guards(Device& device, const PiecedPlan& pieced) const;

private:
    /// Calls each(slice, name) for what has guard bands.
    template <class Each>
    Result<void> for_each_guarded(const PiecedPlan& pieced, Each&& each) const;

    MemoryBlocks blocks_;  // the arena's first, then inputs and outputs, then what pieces and kernels want
    std::size_t arena_blocks_ = 0;
    std::optional<Slice> scratch_, counter_;
    std::vector<Slice> slices_;  // by tensor id; of storages that are not cut only
};

}  // namespace vkformer::vulkan
