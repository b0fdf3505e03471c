// SPDX-License-Identifier: MIT
#include "graph/plan.hpp"

#include <algorithm>

#include "core/stable_order.hpp"
#include "graph/placement.hpp"

namespace vkformer::graph {
namespace {

/// Who touches each storage: indices into the node list, in order.
struct Uses {
    std::vector<std::vector<std::size_t>> readers, writers;  // by tensor id of the storage

    explicit Uses(const Graph& graph) : readers(graph.tensors().size()), writers(graph.tensors().size()) {
        for (std::size_t i = 0; i < graph.nodes().size(); ++i)
            for_each_operand(graph.nodes()[i].op, [&](std::string_view, Value value, Access access) {
                const std::uint32_t id = graph.storage(value).id;
                if (access == Access::read || access == Access::read_write) readers[id].push_back(i);
                if (access != Access::read) writers[id].push_back(i);
            });
    }
};

bool is_plain_activation(const Graph& graph, Value value) {
    const Tensor& tensor = graph.tensor(value);
    return tensor.kind == TensorKind::activation && !tensor.is_output && !tensor.alias_of;
}

/// Whether a node that moves to a later place could find an operand changed there.
bool reads_state(const Graph& graph, const Op& op) {
    bool found = false;
    for_each_operand(op, [&](std::string_view, Value value, Access access) {
        const bool is_read = access == Access::read || access == Access::read_write;
        if (is_read && graph.tensor(graph.storage(value)).kind == TensorKind::state) found = true;
    });
    return found;
}

void erase_nodes(Graph& graph, std::vector<Node> nodes, const std::vector<bool>& dropped) {
    std::vector<Node> kept;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (!dropped[i]) kept.push_back(std::move(nodes[i]));
    graph.set_nodes(std::move(kept));
}

/// A pass over the nodes, at one of them.
struct Fusion {
    const Graph& graph;
    const FusionRules& rules;
    const Uses& uses;
    std::vector<Node>& nodes;
    std::vector<bool>& dropped;

    /// Has the node be `fused`, in place of itself and of `producer`, where the backend takes that.
    bool replace(std::size_t index, std::size_t producer, Op fused, const std::string& name) const {
        if (!rules.takes(graph, fused)) return false;
        nodes[index] = {std::move(fused), name};
        dropped[producer] = true;
        return true;
    }
};

/// activate(linear(x)) → linear with activation. The linear moves to where the activate was.
bool fuse_activation(const Fusion& pass, std::size_t index) {
    const auto& [graph, rules, uses, nodes, dropped] = pass;
    auto* const activate = std::get_if<Activate>(&nodes[index].op);
    if (!activate || !is_plain_activation(graph, activate->x)) return false;
    const std::uint32_t id = activate->x.id;
    if (uses.readers[id].size() != 1 || uses.writers[id].size() != 1) return false;
    const std::size_t producer = uses.writers[id].front();
    const auto* const linear = std::get_if<Linear>(&nodes[producer].op);
    if (!linear || dropped[producer] || linear->epilogue.activation != Activation::none ||
        linear->epilogue.end != Epilogue::End::none)
        return false;
    if (reads_state(graph, nodes[producer].op)) return false;
    Linear fused = *linear;
    fused.epilogue.activation = activate->activation;
    fused.y = activate->y;
    return pass.replace(index, producer, fused, nodes[producer].name);
}

/// add(linear(x), r) that is not scaled → linear with residual r. The linear moves to where the add was, so that r is known by then.
bool fuse_residual(const Fusion& pass, std::size_t index) {
    const auto& [graph, rules, uses, nodes, dropped] = pass;
    const auto* const add = std::get_if<Add>(&nodes[index].op);
    if (!add || add->scale != 1 || add->a == add->b) return false;
    for (const auto& [x, other] : {std::pair{add->a, add->b}, std::pair{add->b, add->a}}) {
        if (!is_plain_activation(graph, x)) continue;
        if (uses.readers[x.id].size() != 1 || uses.writers[x.id].size() != 1) continue;
        const std::size_t producer = uses.writers[x.id].front();
        const auto* const linear = std::get_if<Linear>(&nodes[producer].op);
        if (!linear || dropped[producer] || linear->epilogue.end != Epilogue::End::none) continue;
        if (reads_state(graph, nodes[producer].op)) continue;
        Linear fused = *linear;
        fused.epilogue = fused.epilogue.plus(other);
        fused.y = add->y;
        if (pass.replace(index, producer, fused, nodes[producer].name)) return true;
    }
    return false;
}

/// gated_activation(linear(x)) → linear with a gate: neither a launch nor memory for the product, twice as wide as what becomes of it.
bool fuse_gate(const Fusion& pass, std::size_t index) {
    const auto& [graph, rules, uses, nodes, dropped] = pass;
    const auto* const gate = std::get_if<GatedActivation>(&nodes[index].op);
    if (!gate || gate->up || gate->clamp || !is_plain_activation(graph, gate->gate)) return false;
    const std::uint32_t id = gate->gate.id;
    if (uses.readers[id].size() != 1 || uses.writers[id].size() != 1) return false;
    const std::size_t producer = uses.writers[id].front();
    const auto* const linear = std::get_if<Linear>(&nodes[producer].op);
    if (!linear || dropped[producer] || linear->epilogue.end != Epilogue::End::none ||
        linear->epilogue.activation != Activation::none)
        return false;
    if (reads_state(graph, nodes[producer].op)) return false;
    Linear fused = *linear;
    fused.epilogue.activation = gate->activation;
    fused.epilogue.end = Epilogue::End::gate;
    fused.y = gate->y;
    return pass.replace(index, producer, fused, nodes[producer].name);
}

/// norm(add(a, b)), not scaled → norm with residual, which also writes the sum where somebody else reads it (pre-norm).
template <class Norm>
bool fuse_norm(const Fusion& pass, std::size_t index) {
    const auto& [graph, rules, uses, nodes, dropped] = pass;
    const auto* const norm = std::get_if<Norm>(&nodes[index].op);
    if (!norm || norm->residual || !is_plain_activation(graph, norm->x)) return false;
    const std::uint32_t id = norm->x.id;
    if (uses.writers[id].size() != 1) return false;
    const std::size_t producer = uses.writers[id].front();
    const auto* const add = std::get_if<Add>(&nodes[producer].op);
    if (!add || add->scale != 1 || dropped[producer] || add->a == add->b || reads_state(graph, nodes[producer].op))
        return false;
    const auto& readers = uses.readers[id];
    if (std::ranges::any_of(readers, [&](std::size_t reader) { return reader < index; })) return false;
    Norm fused = *norm;
    fused.x = add->a;
    fused.residual = add->b;
    if (readers.size() > 1) fused.sum = add->y;
    return pass.replace(index, producer, fused, nodes[index].name);
}

/// linear(rms_norm(x)) → linear that norms x itself: one launch less, and each of the product's workgroups finds the row in a cache. For
/// many rows a norm's pass costs less than what every tile would do again, so kernels for them take no norm.
bool fuse_input_norm(const Fusion& pass, std::size_t index) {
    const auto& [graph, rules, uses, nodes, dropped] = pass;
    const auto* const linear = std::get_if<Linear>(&nodes[index].op);
    if (!linear || linear->prologue) return false;
    const std::uint32_t id = graph.storage(linear->x).id;  // x may be a view of the norm's rows
    if (!is_plain_activation(graph, Value{id}) || graph.shape(Value{id}).back() != graph.shape(linear->x).back())
        return false;
    if (uses.readers[id].size() != 1 || uses.writers[id].size() != 1) return false;
    const std::size_t producer = uses.writers[id].front();
    const auto* const norm = std::get_if<RmsNorm>(&nodes[producer].op);
    if (!norm || dropped[producer] || norm->residual) return false;
    if (norm->gain && graph.shape(norm->gain).rank() != 1) return false;  // the prologue has gains of one row
    if (reads_state(graph, nodes[producer].op)) return false;
    Linear fused = *linear;
    fused.x = norm->x;
    fused.prologue = {
        .kind = Prologue::Kind::rms_norm, .gain = norm->gain, .eps = norm->eps, .gain_offset = norm->gain_offset};
    return pass.replace(index, producer, fused, nodes[index].name);
}

/// Runs one fusion over all nodes. Uses are found anew for each pass over the graph, so a pass fuses each node once.
void fuse_with(Graph& graph, const FusionRules& rules, auto&& fuse) {
    const Uses uses(graph);
    std::vector<Node> nodes(graph.nodes().begin(), graph.nodes().end());
    std::vector<bool> dropped(nodes.size(), false);
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (!dropped[i]) fuse(Fusion{graph, rules, uses, nodes, dropped}, i);
    erase_nodes(graph, std::move(nodes), dropped);
}

/// For every node the earlier nodes that it must come after: it reads what they wrote, or writes what they touched.
std::vector<std::vector<std::size_t>> dependencies(const Graph& graph) {
    std::vector<std::vector<std::size_t>> before(graph.nodes().size());
    std::vector<std::vector<std::size_t>> readers(graph.tensors().size()), writers(graph.tensors().size());
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
        const auto append = [&](const std::vector<std::size_t>& nodes) {
            for (const std::size_t node : nodes)
                if (node != i) before[i].push_back(node);
        };
        for_each_operand(graph.nodes()[i].op, [&](std::string_view, Value value, Access access) {
            const std::uint32_t id = graph.storage(value).id;
            append(writers[id]);
            if (access == Access::read) {
                readers[id].push_back(i);
            } else {
                append(readers[id]);
                writers[id] = {i};
                readers[id].clear();
            }
        });
    }
    return before;
}

/// Which stretch between two barriers each node lies in.
std::vector<std::size_t> segments(const std::vector<bool>& barrier_before) {
    std::vector<std::size_t> result(barrier_before.size());
    std::size_t segment = 0;
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = segment += barrier_before[i] ? 1 : 0;
    return result;
}

}  // namespace

std::size_t Plan::barrier_count() const { return static_cast<std::size_t>(std::ranges::count(barrier_before, true)); }

std::uint64_t storage_bytes(const Tensor& tensor) {
    return (bytes_of(tensor.dtype, tensor.shape.element_count()) + 3) / 4 * 4;
}

std::uint64_t own_bytes(const Plan& plan) {
    std::uint64_t bytes = plan.arena_bytes;
    for (std::uint32_t id = 0; id < plan.graph.tensors().size(); ++id) {
        const Tensor& tensor = plan.graph.tensors()[id];
        const bool is_elsewhere = plan.arena_offset[id] != Plan::kNotInArena || plan.graph.storage(Value{id}).id != id;
        if (tensor.kind != TensorKind::weight && tensor.kind != TensorKind::state && !is_elsewhere)
            bytes += storage_bytes(tensor);
    }
    return bytes;
}

/// Places the activations: largest first, each as low as those allow that are alive in a common segment.
void place_activations(Plan& plan, const Placement& placement) {
    const Graph& graph = plan.graph;
    struct Block {
        std::uint32_t tensor;
        std::uint64_t bytes, offset;
        std::size_t first, last;  // segments, inclusive
    };
    const std::vector<std::size_t> segment = segments(plan.barrier_before);
    const Uses uses(graph);
    std::vector<Block> blocks;
    plan.arena_bytes = plan.unshared_bytes = 0;
    plan.arena_offset.assign(graph.tensors().size(), Plan::kNotInArena);
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        if (!is_plain_activation(graph, Value{id}) || uses.writers[id].empty()) continue;
        if (!placement.elsewhere.empty() && placement.elsewhere[id]) continue;
        const std::uint64_t bytes = storage_bytes(graph.tensor(Value{id}));
        const std::uint64_t aligned = (bytes + placement.alignment - 1) / placement.alignment * placement.alignment;
        Block block{id, aligned, 0, segment[uses.writers[id].front()], segment[uses.writers[id].back()]};
        if (!uses.readers[id].empty()) block.last = std::max(block.last, segment[uses.readers[id].back()]);
        blocks.push_back(block);
    }
    sort_stably(blocks, [](const Block& a, const Block& b) { return a.bytes > b.bytes; });

    /// The first place from `offset` on where the bytes do not cross the end of a block.
    const auto in_one_block = [&](std::uint64_t offset, std::uint64_t bytes) {
        const std::uint64_t block = placement.block_bytes;
        return block == 0 || offset / block == (offset + bytes - 1) / block ? offset : (offset / block + 1) * block;
    };
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        std::vector<const Block*> neighbours;  // placed already and alive at the same time, by offset
        for (std::size_t j = 0; j < i; ++j)
            if (!placement.reuse_memory || (blocks[j].first <= blocks[i].last && blocks[i].first <= blocks[j].last))
                neighbours.push_back(&blocks[j]);
        std::ranges::sort(neighbours, {}, &Block::offset);
        for (const Block* neighbour : neighbours) {
            if (blocks[i].offset + blocks[i].bytes <= neighbour->offset) break;
            blocks[i].offset =
                in_one_block(std::max(blocks[i].offset, neighbour->offset + neighbour->bytes), blocks[i].bytes);
        }
        plan.arena_offset[blocks[i].tensor] = blocks[i].offset;
        plan.arena_bytes = std::max(plan.arena_bytes, blocks[i].offset + blocks[i].bytes);
        plan.unshared_bytes += blocks[i].bytes;
    }
}

void remove_dead_nodes(Graph& graph) {
    std::vector<bool> needed(graph.tensors().size(), false);
    for (std::uint32_t id = 0; id < needed.size(); ++id)
        needed[id] = graph.tensor(Value{id}).is_output || graph.tensor(Value{id}).kind == TensorKind::state;
    std::vector<Node> nodes(graph.nodes().begin(), graph.nodes().end());
    std::vector<bool> dropped(nodes.size(), false);
    for (std::size_t i = nodes.size(); i-- > 0;) {
        bool alive = false;
        for_each_operand(std::as_const(nodes[i].op), [&](std::string_view, Value value, Access access) {
            const bool is_result = access == Access::write || access == Access::read_write;
            if (is_result && needed[graph.storage(value).id]) alive = true;
        });
        dropped[i] = !alive;
        if (!alive) continue;
        for_each_operand(std::as_const(nodes[i].op), [&](std::string_view, Value value, Access access) {
            if (access == Access::read || access == Access::read_write) needed[graph.storage(value).id] = true;
        });
    }
    erase_nodes(graph, std::move(nodes), dropped);
}

void fuse_nodes(Graph& graph, const FusionRules& rules) {
    fuse_with(graph, rules, fuse_activation);
    fuse_with(graph, rules, fuse_gate);
    fuse_with(graph, rules, fuse_residual);
    fuse_with(graph, rules, fuse_norm<LayerNorm>);
    fuse_with(graph, rules, fuse_norm<RmsNorm>);
    fuse_with(graph, rules, fuse_input_norm);
}

void order_by_level(Graph& graph) {
    const auto before = dependencies(graph);
    const std::size_t count = before.size();
    std::vector<std::size_t> level(count, 0);
    for (std::size_t i = 0; i < count; ++i)
        for (const std::size_t node : before[i]) level[i] = std::max(level[i], level[node] + 1);

    // As late as the first reader allows: what is computed early but needed late would only keep memory occupied.
    std::vector<std::size_t> latest(count, std::numeric_limits<std::size_t>::max());
    for (std::size_t i = count; i-- > 0;) {
        if (latest[i] != std::numeric_limits<std::size_t>::max()) level[i] = latest[i] - 1;
        for (const std::size_t node : before[i]) latest[node] = std::min(latest[node], level[i]);
    }

    std::vector<Node> nodes;
    nodes.reserve(count);
    for (const std::size_t i : stable_order(count, [&](std::size_t a, std::size_t b) { return level[a] < level[b]; }))
        nodes.push_back(graph.nodes()[i]);
    graph.set_nodes(std::move(nodes));
}

std::vector<bool> find_barriers(const Graph& graph) {
    std::vector<bool> barrier_before(graph.nodes().size(), false);
    std::vector<bool> read(graph.tensors().size(), false), written(graph.tensors().size(), false);
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
        bool conflict = false;
        for_each_operand(graph.nodes()[i].op, [&](std::string_view, Value value, Access access) {
            const std::uint32_t id = graph.storage(value).id;
            if (written[id] || (access != Access::read && read[id])) conflict = true;
        });
        if (conflict) {
            barrier_before[i] = true;
            std::fill(read.begin(), read.end(), false);
            std::fill(written.begin(), written.end(), false);
        }
        for_each_operand(graph.nodes()[i].op, [&](std::string_view, Value value, Access access) {
            const std::uint32_t id = graph.storage(value).id;
            if (access != Access::write) read[id] = true;
            if (access != Access::read) written[id] = true;
        });
    }
    return barrier_before;
}

Plan make_plan(Graph graph, const PlanOptions& options) {
    remove_dead_nodes(graph);
    if (options.fuse) fuse_nodes(graph, *options.fusions);
    if (options.all_outputs)
        for (const Node& node : graph.nodes())
            for_each_operand(node.op, [&](std::string_view, Value value, Access access) {
                if (access != Access::read && access != Access::scratch) graph.mark_output(value);
            });
    order_by_level(graph);
    Plan plan{.graph = std::move(graph)};
    plan.barrier_before = find_barriers(plan.graph);
    place_activations(plan, {.alignment = options.alignment, .reuse_memory = options.reuse_memory});
    return plan;
}

}  // namespace vkformer::graph
