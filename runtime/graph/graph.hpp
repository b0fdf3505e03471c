// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/shape.hpp"
#include "core/tensor_data.hpp"
#include "graph/ops.hpp"
#include "vkformer/result.hpp"

namespace vkformer::graph {

enum class TensorKind : std::uint8_t {
    input,       ///< written by the host before a run
    weight,      ///< constant; shared by all programs of a model, by name
    state,       ///< lives from run to run (caches, tokens, positions); shared by the programs of a session, by name
    activation,  ///< written by one node of this graph
};

struct Tensor {
    std::string name{};
    DType dtype = DType::f32;  ///< how the device stores it: f32, f16 or i32; a weight also bf16 or in a block format
    Shape shape{};
    TensorKind kind = TensorKind::activation;
    bool is_output = false;  ///< the host may read it after a run
    Value alias_of{};        ///< present: a reshaped view of that tensor, which is itself no view
    std::vector<TensorData> data{};  ///< of a weight: the values, in any float dtype or block format; of several, row after row
};

struct Node {
    Op op;
    std::string name;  ///< "encoder.0.attention.scores": debug labels and validation reports show it
};

/// Whether so many elements, stored as that dtype, end at a 32-bit word: what a part of a weight must do.
bool fills_words(DType stored_as, std::uint64_t elements) noexcept;

/// A forward pass as a list of typed nodes. The order of the nodes is a valid order of execution and gives nodes that
/// update a state their meaning. Built by the functions in graph/builders.hpp. A plain value; not thread-safe while built.
class Graph {
public:
    /// Largest tensor: what a shader can index with 31 bits. Larger ones are refused by add_tensor.
    static constexpr std::uint64_t kMaxElements = (std::uint64_t{1} << 31) - 1;

    /// Errors: InvalidArgument (an empty or over-large shape, a name used twice), UnsupportedDtype (not f32, f16, i32; for
    /// weights also bf16 and the block formats, for states q8_0). A state of q8_0 is a key/value cache; ShapeMismatch where it is not
    /// [batch, capacity, heads, dim] with dim a multiple of 32 and heads · dim one of 64.
    Result<Value> input(std::string name, DType dtype, Shape shape);
    Result<Value> state(std::string name, DType dtype, Shape shape);
    /// `data` in any float dtype or block format (or integers for i32); the backend converts it to `stored_as` when it uploads
    /// it. Blocks are stored as they are: `data` must have them (see `quantized` in core/block_format.hpp). Two calls with one
    /// name give one Value. Errors also: InvalidArgument where the data is not as long as its shape says, or its rows are no
    /// whole blocks.
    Result<Value> weight(std::string name, TensorData data, DType stored_as);
    /// The same for one weight made of the rows of several, one after the other; nothing is copied. Errors also: ShapeMismatch
    /// where they differ in more than their first dimension, or one of several does not fill whole words (fills_words).
    Result<Value> weight(std::string name, std::vector<TensorData> parts, DType stored_as);
    /// The same elements under another shape; costs nothing at run time. Errors: ShapeMismatch.
    Result<Value> reshape(Value value, Shape shape);
    /// Lets the host read the tensor after a run.
    void mark_output(Value value);

    /// All nodes made until the next call get "prefix.opname" (with a number where that is taken) as their name.
    void set_scope(std::string prefix) { scope_ = std::move(prefix); }
    const std::string& scope() const noexcept { return scope_; }

    const Tensor& tensor(Value value) const { return tensors_[value.id]; }
    Tensor& tensor(Value value) { return tensors_[value.id]; }
    const Shape& shape(Value value) const { return tensor(value).shape; }
    DType dtype(Value value) const { return tensor(value).dtype; }
    /// The tensor whose memory `value` uses: itself, or what it is a view of.
    Value storage(Value value) const {
        const Value root = tensor(value).alias_of;
        return root ? root : value;
    }
    std::span<const Tensor> tensors() const noexcept { return tensors_; }
    std::span<const Node> nodes() const noexcept { return nodes_; }
    std::optional<Value> find(std::string_view name) const;

    /// For builders: a new tensor for a result, and the node that writes it. `name` is appended to the scope.
    Result<Value> activation(std::string_view op, DType dtype, Shape shape);
    void add_node(Op op);

    /// For passes: replaces the node list (order included).
    void set_nodes(std::vector<Node> nodes) { nodes_ = std::move(nodes); }

private:
    Result<Value> add_tensor(Tensor tensor);

    std::vector<Tensor> tensors_;
    std::vector<Node> nodes_;
    std::string scope_;
    std::map<std::string, int> tensor_names_, node_names_;  // how many of a name there are, with and without a number
};

}  // namespace vkformer::graph
