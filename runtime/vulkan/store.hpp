// SPDX-License-Identifier: MIT
/// Weights and states on the device, shared by programs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/type_tag.hpp"
#include "graph/program.hpp"
#include "vulkan/memory.hpp"
#include "vulkan/offload.hpp"
#include "vulkan/pieces.hpp"

namespace vkformer::vulkan {

/// Weights or states on the device, by name.
class VulkanStore : public graph::TensorStore {
public:
    struct Entry {
        DType dtype;
        Shape shape;
        Slice slice;
    };

    /// `stored`: of the backend that it belongs to.
    explicit VulkanStore(std::shared_ptr<Device> device,
                         std::shared_ptr<graph::StoredBytes> stored = std::make_shared<graph::StoredBytes>())
        : device_(std::move(device)), share_(std::move(stored)) {}
    const void* type() const noexcept override { return &kTypeTag<VulkanStore>; }

    /// Makes sure that every tensor of `kind` in the plan, or each of its pieces, has an entry: new weights are read in place or converted and uploaded, new
    /// states are zero. Errors: ShapeMismatch (an entry of that name differs), out of memory, Vulkan.
    /// Thread-safe.
    Result<void> add_missing(const PiecedPlan& pieced, graph::TensorKind kind, bool guards);
    /// Likewise the weights, some of which stay in the host's memory by Device::offload(): with Offload::kRest those that are more than
    /// `room` bytes of the device's memory.
    Result<void> add_weights(const PiecedPlan& pieced, std::uint64_t room, bool guards);
    /// Of its weights, in the host's memory.
    std::uint64_t offloaded_bytes() const;
    Entry entry(const std::string& name) const;
    bool has(const std::string& name) const;

private:
    using Tensors = std::vector<const graph::Tensor*>;
    /// Those of `kind` without an entry.
    Result<Tensors> find_missing(const PiecedPlan& pieced, graph::TensorKind kind) const;
    /// Memory and contents for them.
    Result<void> make(const Tensors& tensors, graph::TensorKind kind, Buffer::Use use, bool guards);
    /// How many of the missing weights' bytes are to stay in the host's memory.
    std::uint64_t bytes_to_offload(std::uint64_t missing_bytes, std::uint64_t room) const;
    /// add_weights(), with what is to be told of it; empty: nothing.
    Result<std::string> place_weights(const PiecedPlan& pieced, std::uint64_t room, bool guards);
    /// Makes entries for weights that the device can read where they are, and takes them out of `missing`.
    void import_in_place(Tensors& missing);

    std::shared_ptr<Device> device_;  // outlives the blocks
    graph::StoreShare share_;
    mutable std::mutex mutex_;
    std::vector<MemoryBlocks> blocks_;
    OffloadCost offloaded_;                            // so far
    std::vector<std::shared_ptr<const void>> owners_;  // of the host memory behind imported_
    std::vector<HostBuffer> imported_;
    std::map<std::string, Entry> entries_;
};

/// What a store would allocate for such a tensor: nothing where the device reads it in place.
bool needs_memory(const Device& device, const graph::Tensor& tensor);

/// Memory for tensors, by their names.
std::vector<MemoryBlocks::Request> requests_of(std::span<const graph::Tensor* const> tensors);

/// Floats as the device stores them, in whole words; a q8_0 cache as a whole.
std::vector<std::byte> encode(DType dtype, std::span<const float> values);

}  // namespace vkformer::vulkan
