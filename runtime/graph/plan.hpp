// SPDX-License-Identifier: MIT
/// The passes: from a graph to a plan that a backend can execute.
#pragma once

#include <vector>

#include "graph/fusion.hpp"
#include "graph/graph.hpp"

namespace vkformer::graph {

struct PlanOptions {
    bool fuse = true;  ///< epilogues and norms into linear, residuals into norms: where `fusions` takes them
    const FusionRules* fusions = &stepwise_fusions();  ///< those of the backend that the plan is for: Backend::fusions
    bool reuse_memory = true;                          ///< tensors that are not alive at the same time share memory
    bool all_outputs = false;  ///< every tensor can be read after a run (validation); implies no reuse
    std::uint64_t alignment =
        256;  ///< of every tensor in the arena, bytes; a multiple of minStorageBufferOffsetAlignment
};

struct Plan {
    Graph graph{};                       ///< after fusion, nodes in order of execution
    std::vector<bool> barrier_before{};  ///< per node: it must wait for the nodes since the last barrier
    std::vector<std::uint64_t>
        arena_offset{};  ///< per tensor, bytes: where an activation (not an output) lies in the arena
    std::uint64_t arena_bytes = 0;
    std::uint64_t unshared_bytes = 0;  ///< what the arena would take without reuse

    static constexpr std::uint64_t kNotInArena = ~std::uint64_t{0};
    std::size_t barrier_count() const;
};

/// Bytes of a tensor as a device stores it, rounded up to whole 32-bit words.
std::uint64_t storage_bytes(const Tensor& tensor);

/// Bytes that a program of the plan has of its own: what is neither a weight nor a state.
std::uint64_t own_bytes(const Plan& plan);

/// Bytes that programs take of a device.
struct MemoryNeeds {
    std::uint64_t weights = 0, states = 0, activations = 0;
    std::uint64_t total() const noexcept { return weights + states + activations; }
};

/// Fuses, orders the nodes by depth (which gives the fewest barriers: one per level), places the activations.
Plan make_plan(Graph graph, const PlanOptions& options = {});

/// The single passes, for tests. Nodes whose results nobody reads are dropped first by make_plan.
void remove_dead_nodes(Graph& graph);
void fuse_nodes(Graph& graph, const FusionRules& rules);
void order_by_level(Graph& graph);
std::vector<bool> find_barriers(const Graph& graph);

}  // namespace vkformer::graph
