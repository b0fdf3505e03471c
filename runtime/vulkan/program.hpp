// SPDX-License-Identifier: MIT
/// A plan recorded for one Vulkan device.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/type_tag.hpp"
#include "graph/program.hpp"
#include "vulkan/bound_dispatch.hpp"
#include "vulkan/image_reader.hpp"
#include "vulkan/pieces.hpp"
#include "vulkan/pipelines.hpp"
#include "vulkan/program_memory.hpp"
#include "vulkan/program_runs.hpp"
#include "vulkan/run_parts.hpp"
#include "vulkan/store.hpp"
#include "vulkan/strided_copy.hpp"
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
    /// Inputs and outputs, by name, that lie in memory of the caller: used in place, `mapped` may be null. Not with check_memory.
    std::map<std::string, Slice> bindings{};
    /// The same with gaps: copied from there at the beginning of each run, or to there at its end. 32-bit dtypes only.
    struct Strided {
        graph::Value value;  ///< an input or an output; of a view, the strides are those of the view's shape
        Slice slice;
        std::vector<std::uint64_t> strides;  ///< elements between neighbours along each dimension
    };
    std::vector<Strided> strided{};
    /// Inputs, by name, that are read from an image of the caller's at the beginning of each run.
    std::map<std::string, ImageSource> images{};
    bool offloads = true;  ///< weights go where Device::offload() says; else to the device, whose shaders are timed
};

struct NodeTime {
    std::string node;  ///< name in the graph
    std::string op;
    std::string shader;  ///< of several dispatches: joined by " + "
    std::string variant;
    double gpu_ns = 0;
};

class VulkanProgram : public graph::Program {
public:
    static Result<std::unique_ptr<VulkanProgram>> create(std::shared_ptr<Device> device,
                                                         std::shared_ptr<Pipelines> pipelines,
                                                         std::shared_ptr<RunClock> clock, graph::Plan plan,
                                                         std::shared_ptr<VulkanStore> weights,
                                                         std::shared_ptr<VulkanStore> states,
                                                         const ProgramOptions& options);
    ~VulkanProgram() override;
    const void* type() const noexcept override { return &kTypeTag<VulkanProgram>; }

    Result<void> write(graph::Value tensor, std::span<const float> values) override;
    Result<void> write(graph::Value tensor, std::span<const std::int32_t> values) override;
    Result<void> read(graph::Value tensor, std::span<float> values) override;
    Result<void> read(graph::Value tensor, std::span<double> values) override;
    Result<void> read(graph::Value tensor, std::span<std::int32_t> values) override;
    /// A long run goes to the device in several submissions, and the first one of a program is waited for (ProgramRuns).
    Result<void> submit(std::uint32_t times = 1) override;
    /// One run that waits for and signals semaphores of the caller besides. Gives the timeline value for Device::wait.
    Result<std::uint64_t> submit(const SemaphorePoints& points);
    Result<void> wait() override;
    const graph::Plan& plan() const noexcept override { return plan_; }
    graph::Rounding rounding(std::size_t node_index) const noexcept override {
        return steps_[node_index].kernel->rounding;
    }

    /// Records one run into the caller's command buffer, which is in the recording state, outside a render pass, and of a
    /// queue family with compute. The recording may be submitted any number of times while this program lives, one after
    /// the other. It begins with a barrier that waits for compute, transfer and host writes before it and ends with one
    /// that makes its results visible to compute, transfer and the host. Clobbers: compute pipeline, compute descriptor
    /// set 0, compute push constants. Allocates nothing, waits for nothing.
    void record(VkCommandBuffer commands) const;
    /// The same for a part of a run. Parts follow each other in order, each with the barriers of a whole run; whatever the caller puts
    /// between them must not touch the program's tensors. A place within a dispatch: only of those that are cuttable.
    void record(VkCommandBuffer commands, RunPlace first, RunPlace last) const;
    std::uint32_t dispatch_count() const noexcept { return static_cast<std::uint32_t>(dispatches_.size()); }
    const BoundDispatch& dispatch(std::uint32_t index) const { return bound_[index]; }
    DispatchKind kind(std::uint32_t dispatch) const;
    /// Whether it does all the work of its node.
    bool is_whole_node(std::uint32_t dispatch) const;
    /// Whether its grid may run in parts, and be begun again: not that of an op that updates a tensor.
    bool is_cuttable(std::uint32_t dispatch) const;

    /// Where a tensor lies, for a caller that reads or writes it in its own commands. Inputs, outputs and states only.
    Result<Slice> slice(graph::Value tensor) const;

    /// Device time of each node in the last run, in order of execution. Errors: MissingFeature (not created with
    /// Timestamps::nodes, or the queue has no timestamps), Vulkan.
    Result<std::vector<NodeTime>> node_times();
    /// Device time of the last run. Errors: MissingFeature (created without timestamps, or the queue has none), Vulkan.
    Result<double> device_ns();

    VkDeviceSize memory_bytes() const noexcept { return memory_.total_bytes(); }

private:
    friend class ProgramRuns;
    struct Step {
        std::uint32_t first = 0,
                      last = 0;      // its dispatches: a kernel may plan several; of tensors in pieces there are more
        bool shares_memory = false;  // with other nodes
        const KernelTraits* kernel = nullptr;
        std::string shader{};
    };
    VulkanProgram(std::shared_ptr<Device> device, std::shared_ptr<Pipelines> pipelines, graph::Plan plan,
                  const ProgramOptions& options)
        : device_(std::move(device)), pipelines_(std::move(pipelines)), plan_(std::move(plan)), options_(options) {}

    Result<void> submit(std::uint32_t times, const SemaphorePoints& points);
    bool touches_callers_memory(const graph::Op& op) const;
    Result<void> plan_dispatches();
    Result<void> allocate();
    Result<void> prepare_steps();
    Result<BoundDispatch> bind(const Dispatch& dispatch);
    Result<void> prepare_queries();
    Slice locate(graph::Value tensor) const;
    Slice locate(const Operand& operand) const;
    Result<void> bind_callers_memory();
    Result<void> prepare_images();
    Result<void> prepare_strided();
    Result<void> check_binding(const std::string& name, const Slice& slice, std::uint64_t bytes) const;
    /// Where timestamps go: one before all, one behind each dispatch or behind the last.
    struct PartQueries {
        const TimestampQueries* queries = nullptr;
        std::uint32_t first = 0;
        bool of_each = false;
    };
    /// `with_nodes`: with the timestamps of nodes, where there are any.
    void record_part(VkCommandBuffer commands, RunPlace first, RunPlace last, bool with_nodes,
                     const PartQueries& queries) const;
    /// The same with what an own run has besides: memory that is poisoned, and timestamps of nodes.
    void record_own_part(VkCommandBuffer commands, RunPlace first, RunPlace last, const PartQueries& queries) const;
    Result<std::vector<double>> intervals_ns();
    void record_poison(VkCommandBuffer commands) const;
    Result<void> check_host_access(graph::Value tensor, std::size_t count, bool integers, bool reading) const;
    template <class T>
    Result<void> write_as(graph::Value tensor, std::span<const T> values);
    template <class T>
    Result<void> read_as(graph::Value tensor, std::span<T> values);

    std::shared_ptr<Device> device_;
    std::shared_ptr<Pipelines> pipelines_;
    graph::Plan plan_;
    PiecedPlan pieced_;  // of plan_
    ProgramOptions options_;
    std::shared_ptr<VulkanStore> weights_, states_;
    ProgramMemory memory_;
    DescriptorSets sets_;
    std::vector<ImageReader> images_;
    std::vector<StridedCopy> gathers_, scatters_;
    std::vector<Dispatch> dispatches_;    // in the order of execution
    std::vector<BoundDispatch> bound_;    // the same
    std::vector<std::uint32_t> step_of_;  // by dispatch
    std::vector<Step> steps_;             // one per node
    TimestampQueries queries_;            // as options_.timestamps says
    std::unique_ptr<ProgramRuns> runs_;   // where the device can submit
    std::uint64_t submitted_ = 0;         // timeline value of the last submission; 0: nothing pending
};

}  // namespace vkformer::vulkan
