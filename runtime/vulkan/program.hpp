// SPDX-License-Identifier: MIT
/// A plan recorded for one Vulkan device.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/program.hpp"
#include "vulkan/memory.hpp"
#include "vulkan/pipelines.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::vulkan {

/// Where a program takes timestamps. With any, nodes never overlap. lavapipe stops and starts its threads for each: 60 to 250 µs,
/// several times a small node.
enum class Timestamps : std::uint8_t { none, ends, nodes };

struct ProgramOptions {
    Timestamps timestamps = Timestamps::none;
    /// For tests: outputs and arena are filled with NaN before each run, and guard bands around every tensor that does not
    /// share its memory are checked after it.
    bool check_memory = false;
    ChosenVariants variants{};  ///< by node; empty: the first of each
};

/// Weights or states on the device, by name.
class VulkanStore : public graph::TensorStore {
public:
    struct Entry {
        DType dtype;
        Shape shape;
        Slice slice;
    };

    explicit VulkanStore(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    /// Makes sure that every tensor of `kind` in the graph has an entry: new weights are converted and uploaded, new states
    /// are zero. Errors: ShapeMismatch (an entry of that name differs), out of memory, Vulkan.
    Result<void> add_missing(Transfer& transfer, const graph::Graph& graph, graph::TensorKind kind, bool guards);
    const Entry& entry(const std::string& name) const { return entries_.at(name); }

private:
    std::shared_ptr<Device> device_;  // outlives the blocks
    std::vector<MemoryBlocks> blocks_;
    std::map<std::string, Entry> entries_;
};

struct NodeTime {
    std::string node;  ///< name in the graph
    std::string op;
    std::string shader;
    std::string variant;
    double gpu_ns = 0;
};

class VulkanProgram : public graph::Program {
public:
    static Result<std::unique_ptr<VulkanProgram>> create(std::shared_ptr<Device> device,
                                                         std::shared_ptr<Pipelines> pipelines, graph::Plan plan,
                                                         std::shared_ptr<VulkanStore> weights,
                                                         std::shared_ptr<VulkanStore> states,
                                                         const ProgramOptions& options);
    ~VulkanProgram() override;

    Result<void> write(graph::Value tensor, std::span<const float> values) override;
    Result<void> write(graph::Value tensor, std::span<const std::int32_t> values) override;
    Result<void> read(graph::Value tensor, std::span<float> values) override;
    Result<void> read(graph::Value tensor, std::span<double> values) override;
    Result<void> read(graph::Value tensor, std::span<std::int32_t> values) override;
    Result<void> submit(std::uint32_t times = 1) override;
    Result<void> wait() override;
    const graph::Plan& plan() const noexcept override { return plan_; }
    std::string_view variant(std::size_t node_index) const noexcept override {
        return node_index < steps_.size() ? std::string_view(steps_[node_index].variant) : std::string_view();
    }

    /// Records one run into the caller's command buffer, which is in the recording state, outside a render pass, and of a
    /// queue family with compute. The recording may be submitted any number of times while this program lives, one after
    /// the other. It begins with a barrier that waits for compute, transfer and host writes before it and ends with one
    /// that makes its results visible to compute, transfer and the host. Clobbers: compute pipeline, compute descriptor
    /// set 0, compute push constants. Allocates nothing, waits for nothing.
    void record(VkCommandBuffer commands) const;

    /// Where a tensor lies, for a caller that reads or writes it in its own commands. Inputs, outputs and states only.
    Result<Slice> slice(graph::Value tensor) const;

    /// Device time of each node in the last run, in order of execution. Errors: MissingFeature (not created with
    /// Timestamps::nodes, or the queue has no timestamps), Vulkan.
    Result<std::vector<NodeTime>> node_times();
    /// Device time of the last run. Errors: MissingFeature (created without timestamps, or the queue has none), Vulkan.
    Result<double> device_ns();

    VkDeviceSize memory_bytes() const noexcept { return blocks_.total_bytes(); }

private:
    struct Step {
        Pipelines::Pipeline pipeline;
        VkDescriptorSet set = VK_NULL_HANDLE;
        PushConstants push;
        std::array<std::uint32_t, 3> groups{};
        std::string shader, variant;
    };
    VulkanProgram(std::shared_ptr<Device> device, std::shared_ptr<Pipelines> pipelines, graph::Plan plan,
                  const ProgramOptions& options, Transfer transfer)
        : device_(std::move(device)),
          pipelines_(std::move(pipelines)),
          plan_(std::move(plan)),
          options_(options),
          transfer_(std::move(transfer)) {}

    Result<void> allocate();
    Result<void> prepare_steps();
    Result<void> prepare_commands();
    Slice locate(graph::Value tensor) const;
    void record_steps(VkCommandBuffer commands, VkQueryPool queries) const;
    Result<std::vector<double>> intervals_ns();
    void record_poison(VkCommandBuffer commands) const;
    Result<void> check_host_access(graph::Value tensor, std::size_t count, bool integers, bool reading) const;
    Result<void> write_guards();
    Result<void> check_guards();
    template <class T>
    Result<void> read_as(graph::Value tensor, std::span<T> values);

    std::shared_ptr<Device> device_;
    std::shared_ptr<Pipelines> pipelines_;
    graph::Plan plan_;
    ProgramOptions options_;
    Transfer transfer_;
    std::shared_ptr<VulkanStore> weights_, states_;
    MemoryBlocks blocks_;        // arena first, then inputs and outputs
    std::vector<Slice> slices_;  // by tensor id; of storages only
    UniqueDescriptorPool sets_;
    std::vector<Step> steps_;  // one per node
    UniqueCommandPool pool_;
    UniqueQueryPool queries_;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    std::uint64_t submitted_ = 0;  // timeline value of the last submission; 0: nothing pending
};

}  // namespace vkformer::vulkan
