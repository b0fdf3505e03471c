// SPDX-License-Identifier: MIT
/// What the backends have in common: a plan becomes a Program, which is run again and again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "graph/plan.hpp"
#include "graph/rounding.hpp"
#include "vkformer/device_memory.hpp"
#include "vkformer/result.hpp"

namespace vkformer::graph {

/// Tensors that several programs of one backend share, by name: the weights of a model, or the states of a session. A tensor
/// is made by the first program that names it; the next ones must agree on its dtype and shape. Made by Backend::make_store.
class TensorStore {
public:
    virtual ~TensorStore() = default;
    /// This and those below are for cast_to.
    virtual const void* type() const noexcept { return nullptr; }
};

/// What the stores of a backend, and of its twins, hold.
enum class Stored : std::uint8_t { weights, weights_in_place, states };
using StoredBytes = std::array<std::atomic<std::uint64_t>, 3>;  // by Stored

/// A store's share of it. Adding is not thread-safe.
class StoreShare {
public:
    explicit StoreShare(std::shared_ptr<StoredBytes> all) : all_(std::move(all)) {}
    StoreShare(const StoreShare&) = delete;
    StoreShare& operator=(const StoreShare&) = delete;
    ~StoreShare() {
        for (std::size_t i = 0; i < own_.size(); ++i) (*all_)[i] -= own_[i];
    }
    void add(Stored kind, std::uint64_t bytes) {
        own_[static_cast<std::size_t>(kind)] += bytes;
        (*all_)[static_cast<std::size_t>(kind)] += bytes;
    }

private:
    std::shared_ptr<StoredBytes> all_;  // the store may outlive its backend
    std::array<std::uint64_t, 3> own_{};
};

/// A plan made ready to run on one device. Not thread-safe.
class Program {
public:
    virtual ~Program() = default;
    virtual const void* type() const noexcept { return nullptr; }

    /// Host → tensor, the whole tensor at once: inputs and states; for tests any tensor but weights. Float tensors take floats
    /// (rounded to nearest even where stored as f16), i32 tensors integers. Waits for submitted runs. Errors:
    /// ShapeMismatch (element count), UnsupportedDtype (floats for an i32 tensor or the other way round), InvalidArgument (a weight).
    virtual Result<void> write(Value tensor, std::span<const float> values) = 0;
    virtual Result<void> write(Value tensor, std::span<const std::int32_t> values) = 0;

    /// Tensor → host: outputs and states. Waits for submitted runs. Errors as for write, and InvalidArgument for a tensor
    /// that is no output: its memory may have been used again.
    virtual Result<void> read(Value tensor, std::span<float> values) = 0;
    virtual Result<void> read(Value tensor, std::span<double> values) = 0;
    virtual Result<void> read(Value tensor, std::span<std::int32_t> values) = 0;

    /// Starts `times` runs, one after the other, and returns. Later runs see what earlier ones left in the states.
    virtual Result<void> submit(std::uint32_t times = 1) = 0;
    /// Returns when all submitted runs are done. Errors: DeviceLost and what the runs met.
    virtual Result<void> wait() = 0;

    virtual const Plan& plan() const noexcept = 0;
    /// What the algorithm that runs the node rounds.
    virtual Rounding rounding(std::size_t node_index) const noexcept {
        (void)node_index;
        return Rounding::none;
    }
};

class Backend {
public:
    Backend() = default;
    virtual ~Backend() = default;
    Backend& operator=(const Backend&) = delete;
    virtual const void* type() const noexcept { return nullptr; }

    /// "llvmpipe (LLVM 15.0.6, 256 bits)", "CPU (float)"
    virtual std::string name() const = 0;
    virtual std::shared_ptr<TensorStore> make_store() = 0;
    /// Another backend on the same device, for another thread: their programs share stores, and memory() is that of both. Errors:
    /// MissingFeature (a kind of backend that has none).
    virtual Result<std::unique_ptr<Backend>> make_twin() const {
        return Error{ErrorCode::MissingFeature, name() + ": the backend is alone on its device"};
    }
    /// What its programs have of the device now. Thread-safe.
    virtual DeviceMemory memory() const {
        return {.weights = stored(Stored::weights) + stored(Stored::weights_in_place),
                .caches = stored(Stored::states)};
    }
    /// Programs run while submit() is called: nothing is gained by several runs in one.
    virtual bool runs_in_submit() const noexcept { return false; }
    /// What it runs in one node, for plans that it is to compile: make_plan_for.
    virtual const FusionRules& fusions() const noexcept { return stepwise_fusions(); }
    /// Weights that the store lacks are copied into it. Both stores must come from this backend or a twin; they outlive the program.
    virtual Result<std::unique_ptr<Program>> compile(Plan plan, std::shared_ptr<TensorStore> weights,
                                                     std::shared_ptr<TensorStore> states) = 0;

    /// Whether the work of a session is still wanted; sessions ask between their submits, on the thread that runs them.
    void set_should_stop(std::function<bool()> should_stop) { should_stop_ = std::move(should_stop); }
    /// Errors: Cancelled.
    Result<void> check_wanted() const {
        if (should_stop_ && should_stop_()) return Error{ErrorCode::Cancelled, "the call was stopped by its caller"};
        return {};
    }

protected:
    Backend(const Backend&) = default;  // for make_twin
    std::uint64_t stored(Stored kind) const noexcept { return (*stored_)[static_cast<std::size_t>(kind)]; }
    std::shared_ptr<StoredBytes> stored_ = std::make_shared<StoredBytes>();  // for its stores

private:
    std::function<bool()> should_stop_;
};

/// The plan that the backend runs best.
inline Plan make_plan_for(const Backend& backend, Graph graph) {
    return make_plan(std::move(graph), {.fusions = &backend.fusions()});
}

}  // namespace vkformer::graph
