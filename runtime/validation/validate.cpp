// SPDX-License-Identifier: MIT
#include "validation/validate.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "core/try.hpp"
#include "validation/bounds.hpp"

namespace vkformer::validation {
namespace {

using graph::Access;
using graph::Backend;
using graph::Graph;
using graph::Node;
using graph::Program;
using graph::Tensor;
using graph::TensorKind;
using graph::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Result<void> write(Program& program, Value tensor, const HostValues& values) {
    return std::visit([&](const auto& v) { return program.write(tensor, std::span(v)); }, values);
}

Result<HostValues> read(Program& program, const Graph& graph, Value tensor) {
    const std::size_t count = graph.shape(tensor).element_count();
    if (graph.dtype(tensor) == DType::i32) {
        std::vector<std::int32_t> values(count);
        VKFORMER_CHECK(program.read(tensor, std::span<std::int32_t>(values)));
        return HostValues(std::move(values));
    }
    std::vector<float> values(count);
    VKFORMER_CHECK(program.read(tensor, std::span<float>(values)));
    return HostValues(std::move(values));
}

/// `tensor` of the program, which has the dtype and shape of `like`.
Result<std::vector<double>> read_double(Program& program, Value tensor, const Tensor& like) {
    std::vector<double> values(like.shape.element_count());
    if (like.dtype != DType::i32) {
        VKFORMER_CHECK(program.read(tensor, std::span<double>(values)));
        return values;
    }
    std::vector<std::int32_t> integers(values.size());
    VKFORMER_CHECK(program.read(tensor, std::span<std::int32_t>(integers)));
    std::ranges::copy(integers, values.begin());
    return values;
}

std::vector<double> to_double(const HostValues& values) {
    return std::visit([](const auto& v) { return std::vector<double>(v.begin(), v.end()); }, values);
}

/// `values` as the host could have written them.
HostValues to_host(std::span<const double> values, DType dtype) {
    if (dtype == DType::i32) {
        std::vector<std::int32_t> integers(values.size());
        std::ranges::transform(values, integers.begin(), [](double v) { return static_cast<std::int32_t>(v); });
        return integers;
    }
    std::vector<float> floats(values.size());
    std::ranges::transform(values, floats.begin(), [](double v) { return static_cast<float>(v); });
    return floats;
}

/// As a device stores them.
void round_to_half(HostValues& values) {
    if (auto* floats = std::get_if<std::vector<float>>(&values))
        for (float& value : *floats) value = half_to_float(float_to_half(value));
}

/// ‖found − expected‖ / ‖expected‖; equal infinities differ by nothing, NaN gives NaN.
double relative_error(std::span<const double> found, std::span<const double> expected) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (std::isinf(expected[i]) && found[i] == expected[i]) continue;
        const double d = found[i] - expected[i];
        difference += d * d;
        norm += expected[i] * expected[i];
    }
    if (difference == 0) return 0;
    if (std::isnan(difference) || std::isnan(norm)) return std::numeric_limits<double>::quiet_NaN();
    return std::isinf(norm) ? kInfinity : norm == 0 ? kInfinity : std::sqrt(difference / norm);
}

double share_of_wrong(std::span<const double> found, std::span<const double> expected) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) wrong += found[i] != expected[i];
    return static_cast<double>(wrong) / static_cast<double>(found.size());
}

double error_of(DType dtype, std::span<const double> found, std::span<const double> expected) {
    return dtype == DType::i32 ? share_of_wrong(found, expected) : relative_error(found, expected);
}

void find_worst(NodeCheck& check, std::span<const double> found, std::span<const double> expected) {
    double worst = -1;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const bool same = found[i] == expected[i];
        const double d = same ? 0 : std::abs(found[i] - expected[i]);
        const double rank = std::isnan(d) ? kInfinity : d;
        if (rank > worst) {
            worst = rank;
            check.worst_element = i;
            check.worst_found = found[i];
            check.worst_expected = expected[i];
        }
    }
}

/// A weight as the device sees it: rounded to float16 where it is stored so.
Result<std::vector<TensorData>> as_stored(const Tensor& weight) {
    std::vector<TensorData> parts;
    for (const TensorData& part : weight.data) {
        if (weight.dtype != DType::f16 || part.dtype == DType::f16) {
            parts.push_back(part);
            continue;
        }
        std::vector<float> values(part.shape.element_count());
        VKFORMER_CHECK(convert(part.dtype, part.bytes, 0, std::span<float>(values)));
        auto halves = std::make_shared<std::vector<std::uint16_t>>(values.size());
        std::ranges::transform(values, halves->begin(), float_to_half);
        parts.push_back(
            {.dtype = DType::f16, .shape = part.shape, .bytes = std::as_bytes(std::span(*halves)), .owner = halves});
    }
    return parts;
}

/// A graph of one node, its operands as inputs and states; `tensors` maps what it uses of the original to the copy.
struct SingleNode {
    Graph graph;
    std::map<std::uint32_t, Value> tensors;
};

/// Operands become f32 whatever they are on the device: f16 values fit, and the CPU, which does not round them, keeps its own.
Result<Value> copy_tensor(SingleNode& single, const Tensor& tensor, Access access) {
    const DType dtype = tensor.dtype == DType::f16 ? DType::f32 : tensor.dtype;
    if (tensor.kind == TensorKind::state) return single.graph.state(tensor.name, dtype, tensor.shape);
    if (tensor.kind == TensorKind::weight) {
        VKFORMER_TRY(auto parts, as_stored(tensor));
        if (parts.size() == 1) parts[0].shape = tensor.shape;
        return single.graph.weight(tensor.name, std::move(parts), tensor.dtype);
    }
    if (access == Access::read) return single.graph.input(tensor.name, dtype, tensor.shape);
    VKFORMER_TRY(const Value written, single.graph.activation(tensor.name, dtype, tensor.shape));
    single.graph.mark_output(written);
    return written;
}

Result<SingleNode> single_node(const Graph& graph, const Node& node) {
    SingleNode single;
    graph::Op op = node.op;
    Result<void> status;
    graph::for_each_operand(op, [&](std::string_view, Value& operand, Access access) {
        if (!status) return;
        const Value root = graph.storage(operand);
        auto known = single.tensors.find(root.id);
        if (known == single.tensors.end()) {
            auto copied = copy_tensor(single, graph.tensor(root), access);
            if (!copied) {
                status = std::move(copied).error();
                return;
            }
            known = single.tensors.emplace(root.id, *copied).first;
        }
        if (operand == root) {
            operand = known->second;
            return;
        }
        auto view = single.graph.reshape(known->second, graph.shape(operand));
        if (!view) {
            status = std::move(view).error();
            return;
        }
        operand = *view;
    });
    VKFORMER_CHECK(status);
    single.graph.add_node(std::move(op));
    return single;
}

class Validation {
public:
    Validation(const graph::Plan& plan, const Feeds& feeds, Program& device, Program& reference, Backend& oracle)
        : graph_(plan.graph), feeds_(feeds), device_(device), reference_(reference), oracle_(oracle) {
        for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
            graph::for_each_operand(graph_.nodes()[i].op, [&](std::string_view, Value value, Access access) {
                if (access != Access::read && access != Access::scratch) last_writer_[graph_.storage(value).id] = i;
            });
    }

    /// The initial values of inputs and states, in both programs.
    Result<void> feed() {
        for (std::uint32_t id = 0; id < graph_.tensors().size(); ++id) {
            const Tensor& tensor = graph_.tensors()[id];
            if (tensor.alias_of || (tensor.kind != TensorKind::input && tensor.kind != TensorKind::state)) continue;
            const auto entry = feeds_.find(tensor.name);
            HostValues values;
            if (entry != feeds_.end()) {
                values = entry->second;
            } else if (tensor.kind == TensorKind::state) {
                values = to_host(std::vector<double>(tensor.shape.element_count()), tensor.dtype);
            } else {
                return Error{ErrorCode::InvalidArgument, "validation: no values for the input " + tensor.name};
            }
            if (tensor.dtype == DType::f16) round_to_half(values);
            VKFORMER_CHECK(write(device_, Value{id}, values));
            VKFORMER_CHECK(write(reference_, Value{id}, values));
            known_[id] = std::move(values);
        }
        return {};
    }

    Result<std::vector<NodeCheck>> run() {
        VKFORMER_CHECK(device_.submit());
        VKFORMER_CHECK(device_.wait());
        VKFORMER_CHECK(reference_.submit());
        VKFORMER_CHECK(reference_.wait());
        for (std::size_t i = 0; i < graph_.nodes().size(); ++i) VKFORMER_CHECK(check(i));
        return std::move(checks_);
    }

private:
    Result<void> check(std::size_t index) {
        const Node& node = graph_.nodes()[index];
        VKFORMER_TRY(SingleNode single, single_node(graph_, node));
        const auto tensors = single.tensors;
        VKFORMER_TRY(const auto program,
                     oracle_.compile(graph::make_plan(std::move(single.graph), {.fuse = false, .all_outputs = true}),
                                     oracle_.make_store(), oracle_.make_store()));
        for (const auto& [id, copy] : tensors) {
            const Tensor& tensor = graph_.tensors()[id];
            if (tensor.kind == TensorKind::weight || is_result_of(index, id)) continue;
            VKFORMER_TRY(const HostValues* values, device_value(id));
            VKFORMER_CHECK(write(*program, copy, *values));
        }
        VKFORMER_CHECK(program->submit());
        VKFORMER_CHECK(program->wait());

        Result<void> status;
        graph::for_each_operand(node.op, [&](std::string_view, Value value, Access access) {
            const Value root = graph_.storage(value);
            if (access == Access::read || access == Access::scratch) return;
            if (status) status = compare(index, root, *program, tensors.at(root.id));
        });
        return status;
    }

    /// True for an activation that node `index` writes without reading it.
    bool is_result_of(std::size_t index, std::uint32_t id) const {
        const auto writer = last_writer_.find(id);
        return graph_.tensors()[id].kind == TensorKind::activation && writer != last_writer_.end() &&
               writer->second == index;
    }

    /// What the device had in a tensor when the current node ran.
    Result<const HostValues*> device_value(std::uint32_t id) {
        auto found = known_.find(id);
        if (found == known_.end()) {
            VKFORMER_TRY(HostValues values, read(device_, graph_, Value{id}));
            found = known_.emplace(id, std::move(values)).first;
        }
        return &found->second;
    }

    Result<void> compare(std::size_t index, Value root, Program& single, Value copy) {
        const Node& node = graph_.nodes()[index];
        const Tensor& tensor = graph_.tensor(root);
        const double bound = error_bound(graph_, node, root, device_.rounding(index));
        VKFORMER_TRY(const auto expected, read_double(single, copy, tensor));
        if (tensor.kind == TensorKind::state && last_writer_.at(root.id) != index) {
            // A later node updates it again: the device's value of this moment is gone, the oracle's takes its place, and what may
            // lie between the two is allowed to the last update.
            earlier_bounds_[root.id] += bound;
            known_[root.id] = to_host(expected, tensor.dtype);
            return {};
        }
        VKFORMER_TRY(HostValues found_values, read(device_, graph_, root));
        const std::vector<double> found = to_double(found_values);
        VKFORMER_TRY(const auto reference, read_double(reference_, root, tensor));
        NodeCheck check{.node = node.name,
                        .op = std::string(graph::op_name(node.op)),
                        .tensor = tensor.name,
                        .dtype = tensor.dtype,
                        .elements = found.size(),
                        .error = error_of(tensor.dtype, found, expected),
                        .bound = bound + earlier_bounds_[root.id],
                        .accumulated = error_of(tensor.dtype, found, reference)};
        find_worst(check, found, expected);
        checks_.push_back(std::move(check));
        known_[root.id] = std::move(found_values);
        return {};
    }

    const Graph& graph_;
    const Feeds& feeds_;
    Program& device_;
    Program& reference_;
    Backend& oracle_;
    std::map<std::uint32_t, std::size_t> last_writer_;  // node by root tensor
    std::map<std::uint32_t, HostValues> known_;         // the device's values so far, by root tensor
    std::map<std::uint32_t, double> earlier_bounds_;    // of updates before the last, by root tensor
    std::vector<NodeCheck> checks_;
};

}  // namespace

const NodeCheck* Report::first_divergence() const noexcept {
    const auto found = std::ranges::find_if(checks, &NodeCheck::diverges);
    return found == checks.end() ? nullptr : &*found;
}

Result<Report> validate(const Graph& graph, std::string graph_name, const Feeds& feeds, Backend& device,
                        Backend& oracle) {
    const graph::Plan plan = graph::make_plan(graph, {.fusions = &device.fusions(), .all_outputs = true});
    VKFORMER_TRY(const auto program, device.compile(plan, device.make_store(), device.make_store()));
    VKFORMER_TRY(const auto reference, oracle.compile(plan, oracle.make_store(), oracle.make_store()));
    Validation validation(plan, feeds, *program, *reference, oracle);
    VKFORMER_CHECK(validation.feed());
    Report report{.graph = std::move(graph_name), .device = device.name()};
    VKFORMER_TRY(report.checks, validation.run());
    return report;
}

}  // namespace vkformer::validation
