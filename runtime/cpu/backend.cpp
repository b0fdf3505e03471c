// SPDX-License-Identifier: MIT
#include "cpu/backend.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "core/try.hpp"
#include "cpu/cache_append.hpp"
#include "cpu/float_pool.hpp"
#include "cpu/int8_kernels.hpp"
#include "cpu/packed_dot.hpp"
#include "cpu/parallel.hpp"
#include "cpu/twins.hpp"
#include "cpu/weight_bytes.hpp"

namespace vkformer::cpu {
namespace {

using graph::Tensor;
using graph::TensorKind;
using graph::Value;

template <std::floating_point T>
class CpuStore final : public graph::TensorStore {
public:
    CpuStore(QuantizedProducts quantized, PackedPlace place, std::shared_ptr<graph::StoredBytes> stored)
        : products(quantized), share(std::move(stored)) {
        if (place == PackedPlace::file) copies = false;
    }
    const void* type() const noexcept override { return &kTypeTag<CpuStore>; }
    QuantizedProducts products;
    std::mutex mutex;  // of weights: programs of several threads share them
    std::optional<bool> copies;  // packed weights; known with the first program
    graph::StoreShare share;
    FloatPool<T> pool;
    std::map<std::string, std::shared_ptr<CpuTensor<T>>, std::less<>> tensors;
};

/// The nearest value that the device's storage can hold.
template <std::floating_point T>
T rounded_to(DType dtype, T value) {
    if (dtype == DType::f16) return static_cast<T>(half_to_float(float_to_half(static_cast<float>(value))));
    if (dtype == DType::bf16) return static_cast<T>(bfloat_to_float(float_to_bfloat(static_cast<float>(value))));
    return value;
}

/// The same of all of a tensor's values; of a q8_0 cache, in blocks.
template <std::floating_point T>
void round_values(DType dtype, std::span<T> values) {
    if (dtype == DType::q8_0) return round_to_q8_0(values);
    for (T& value : values) value = rounded_to(dtype, value);
}

template <std::floating_point T>
void own_floats(CpuTensor<T>& tensor, std::size_t count, FloatPool<T>& pool) {
    tensor.own_floats = pool.floats(count);
    tensor.floats = {tensor.own_floats.get(), count};
}

template <std::floating_point T>
std::shared_ptr<CpuTensor<T>> make_tensor(const Tensor& tensor, T float_value, std::int32_t int_value,
                                          FloatPool<T>& pool) {
    auto result = std::make_shared<CpuTensor<T>>(CpuTensor<T>{.dtype = tensor.dtype, .shape = tensor.shape});
    if (tensor.dtype == DType::i32) {
        result->ints.assign(tensor.shape.element_count(), int_value);
    } else {
        own_floats(*result, tensor.shape.element_count(), pool);
        std::ranges::fill(result->floats, float_value);
    }
    return result;
}

template <std::floating_point T>
Result<void> load_numbers(const Tensor& tensor, CpuTensor<T>& result, FloatPool<T>& pool) {
    if (tensor.dtype == DType::i32)
        result.ints.resize(tensor.shape.element_count());
    else
        own_floats(result, tensor.shape.element_count(), pool);
    std::size_t first = 0;
    for (const TensorData& part : tensor.data) {
        const std::size_t count = part.shape.element_count();
        if (tensor.dtype == DType::i32) {
            VKFORMER_CHECK(convert(part.dtype, part.bytes, 0, std::span(result.ints).subspan(first, count)));
        } else {
            std::vector<float> values(count);  // float: a device has no more than f32 either
            VKFORMER_CHECK(convert(part.dtype, part.bytes, 0, std::span(values)));
            std::ranges::transform(values, result.floats.begin() + static_cast<std::ptrdiff_t>(first),
                                   [&](float value) { return static_cast<T>(rounded_to(tensor.dtype, value)); });
        }
        first += count;
    }
    return {};
}

/// The weight as its file has it, where that holds the numbers that load_numbers would.
std::optional<PackedWeight> packed_weight(const Tensor& tensor, QuantizedProducts products) {
    const DType dtype = tensor.data.front().dtype;
    const bool is_same = std::ranges::all_of(tensor.data, [&](const TensorData& part) { return part.dtype == dtype; });
    if (!is_same || packed_kernels(dtype) == nullptr) return std::nullopt;
    if (tensor.dtype != dtype && tensor.dtype != DType::f32) return std::nullopt;
    const Int8Kernels* const int8 = products == QuantizedProducts::int8 ? int8_kernels(dtype) : nullptr;
    PackedWeight weight{.dtype = dtype, .in = tensor.shape.back(), .parts = tensor.data, .begins = {}, .int8 = int8};
    std::size_t rows = 0;
    for (const TensorData& part : weight.parts) {
        weight.begins.push_back(rows);
        rows += part.shape.element_count() / weight.in;
    }
    return weight;
}

/// Whether the packed weights of a program are worth a copy on large pages: what reads them all for each token waits for the addresses of
/// small ones, which are all that mapped files have. Not where they are few, or would take much of the memory that there is.
bool is_worth_a_copy(const graph::Graph& graph) {
    constexpr std::uint64_t kLeast = std::uint64_t{32} << 20, kShare = 4;
    std::uint64_t bytes = 0;
    for (const Tensor& tensor : graph.tensors())
        for (const TensorData& part : tensor.data) bytes += part.bytes.size();
    return bytes >= kLeast && bytes <= platform::room_on_large_pages() / kShare;
}

/// The weight on the pool's pages; where there is no memory for it, where it was.
template <std::floating_point T>
void copy_parts(PackedWeight& weight, FloatPool<T>& pool) try {
    std::vector<TensorData> parts = weight.parts;
    for (TensorData& part : parts) {
        const std::size_t size = part.bytes.size();
        const std::shared_ptr<T[]> copy = pool.floats((size + sizeof(T) - 1) / sizeof(T));
        auto* const to = reinterpret_cast<std::byte*>(copy.get());
        parallel_for(size, std::size_t{4} << 20, [&](std::size_t first, std::size_t last, std::size_t) {
            std::memcpy(to + first, part.bytes.data() + first, last - first);
        });
        part.bytes = {to, size};
        part.owner = copy;
    }
    weight.parts = std::move(parts);
    weight.is_copy = true;
} catch (const std::bad_alloc&) {
}

template <std::floating_point T>
Result<std::shared_ptr<CpuTensor<T>>> load_weight(const Tensor& tensor, bool may_pack, CpuStore<T>& store) {
    auto result = std::make_shared<CpuTensor<T>>(CpuTensor<T>{.dtype = tensor.dtype, .shape = tensor.shape});
    if (std::same_as<T, float> && may_pack) result->packed = packed_weight(tensor, store.products);
    if (!result->packed) VKFORMER_CHECK(load_numbers(tensor, *result, store.pool));
    if (result->packed && store.copies.value_or(false)) copy_parts(*result->packed, store.pool);
    return result;
}

/// Counts a tensor that a store has got.
template <std::floating_point T>
void add_bytes(graph::StoreShare& share, const Tensor& tensor, const CpuTensor<T>& made) {
    const std::uint64_t own = made.floats.size_bytes() + made.ints.size() * sizeof(std::int32_t);
    share.add(tensor.kind == TensorKind::weight ? graph::Stored::weights : graph::Stored::states, own);
    if (!made.packed) return;
    const auto kind = made.packed->is_copy ? graph::Stored::weights : graph::Stored::weights_in_place;
    for (const TensorData& part : made.packed->parts) share.add(kind, part.bytes.size());
}

/// The store's tensor of that name; made by `make` where the store has none.
template <std::floating_point T>
Result<std::shared_ptr<CpuTensor<T>>> shared_tensor(CpuStore<T>& store, const Tensor& tensor, auto&& make) {
    const auto found = store.tensors.find(tensor.name);
    if (found == store.tensors.end()) {
        VKFORMER_TRY(auto made, make());
        add_bytes(store.share, tensor, *made);
        store.tensors.emplace(tensor.name, made);
        return made;
    }
    const CpuTensor<T>& known = *found->second;
    if (known.dtype != tensor.dtype || known.shape != tensor.shape)
        return Error{ErrorCode::ShapeMismatch, tensor.name + " is " + std::string(to_string(tensor.dtype)) + " " +
                                                   to_string(tensor.shape) +
                                                   ", but another program of this store has it as " +
                                                   std::string(to_string(known.dtype)) + " " + to_string(known.shape)};
    return found->second;
}

/// How the nodes of a graph read a tensor.
struct Use {
    bool any = false;
    bool as_numbers = false;  ///< one by one, not only by functions that know packed rows
};

std::vector<Use> uses_of(const graph::Graph& graph) {
    std::vector<Use> uses(graph.tensors().size());
    for (std::size_t id = 0; id < uses.size(); ++id) uses[id].as_numbers = graph.tensors()[id].is_output;
    for (const graph::Node& node : graph.nodes()) {
        for_each_operand(node.op, [&](std::string_view name, Value value, graph::Access) {
            Use& use = uses[graph.storage(value).id];
            const bool knows_rows = (std::holds_alternative<graph::Linear>(node.op) && name == "weight" &&
                                     graph.shape(value).rank() == 2) ||
                                    (std::holds_alternative<graph::ExpertLinear>(node.op) && name == "weight") ||
                                    (std::holds_alternative<graph::Embedding>(node.op) && name == "table");
            use.any = true;
            if (!knows_rows || graph.storage(value).id != value.id) use.as_numbers = true;
        });
    }
    return uses;
}

/// nullptr for a tensor that no node uses.
template <std::floating_point T>
Result<std::shared_ptr<CpuTensor<T>>> place_tensor(const Tensor& tensor, const Use& use, CpuStore<T>& weights,
                                                   CpuStore<T>& states, FloatPool<T>& own) {
    using Made = Result<std::shared_ptr<CpuTensor<T>>>;
    if (tensor.kind == TensorKind::state)
        return shared_tensor(states, tensor, [&]() -> Made { return make_tensor<T>(tensor, 0, 0, states.pool); });
    if (tensor.kind != TensorKind::input && !use.any) return std::shared_ptr<CpuTensor<T>>();
    if (tensor.kind == TensorKind::weight) {
        const std::lock_guard lock(weights.mutex);
        VKFORMER_TRY(auto weight, shared_tensor(weights, tensor, [&]() -> Made {
                         return load_weight<T>(tensor, !use.as_numbers, weights);
                     }));
        // Another program of the store had no need of them. It may run now, and keeps what it has.
        if (use.as_numbers && weight->packed && weight->floats.empty()) {
            weight = std::make_shared<CpuTensor<T>>(*weight);
            VKFORMER_CHECK(load_numbers(tensor, *weight, weights.pool));
            weights.share.add(graph::Stored::weights, weight->floats.size_bytes());
            weights.tensors.insert_or_assign(tensor.name, weight);
        }
        return weight;
    }
    return make_tensor<T>(tensor, std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<std::int32_t>::min(), own);
}

/// Where the plan places activations of floats, in T's: 32-bit words or, where there are any of 16 bits, half of them hold one each.
template <std::floating_point T>
class Arena {
public:
    explicit Arena(const graph::Plan& plan) : plan_(plan) {
        const auto is_half = [&](std::size_t id) { return has(id) && plan.graph.tensors()[id].dtype == DType::f16; };
        for (std::size_t id = 0; id < plan.arena_offset.size(); ++id)
            if (is_half(id)) unit_ = sizeof(std::uint16_t);
        const std::size_t count = (plan.arena_bytes + unit_ - 1) / unit_;
        floats_ = aligned_floats<T>(count);
        std::fill_n(floats_.get(), count, std::numeric_limits<T>::quiet_NaN());
    }
    bool has(std::size_t id) const {
        return plan_.arena_offset[id] != graph::Plan::kNotInArena && is_float(plan_.graph.tensors()[id].dtype);
    }
    std::shared_ptr<CpuTensor<T>> tensor(std::size_t id) const {
        const Tensor& tensor = plan_.graph.tensors()[id];
        const std::span<T> floats(floats_.get() + plan_.arena_offset[id] / unit_, tensor.shape.element_count());
        return std::make_shared<CpuTensor<T>>(
            CpuTensor<T>{.dtype = tensor.dtype, .shape = tensor.shape, .floats = floats, .own_floats = floats_});
    }

private:
    const graph::Plan& plan_;
    std::size_t unit_ = sizeof(float);
    std::shared_ptr<T[]> floats_;
};

template <std::floating_point T>
Result<typename CpuProgram<T>::Tensors> make_tensors(const graph::Plan& plan, CpuStore<T>& weights,
                                                     CpuStore<T>& states) {
    const graph::Graph& graph = plan.graph;
    const std::vector<Use> uses = uses_of(graph);
    if (const std::lock_guard lock(weights.mutex); !weights.copies) weights.copies = is_worth_a_copy(graph);
    const Arena<T> arena(plan);
    FloatPool<T> own;
    typename CpuProgram<T>::Tensors result(graph.tensors().size());
    for (std::size_t id = 0; id < result.size(); ++id) {
        const Tensor& tensor = graph.tensors()[id];
        if (tensor.alias_of) continue;
        if (arena.has(id)) {
            result[id] = arena.tensor(id);
            continue;
        }
        VKFORMER_TRY(result[id], place_tensor(tensor, uses[id], weights, states, own));
    }
    return result;
}

template <std::floating_point T>
class CpuBackend final : public graph::Backend {
public:
    CpuBackend(QuantizedProducts products, PackedPlace place) : products_(products), place_(place) {}

    std::string name() const override { return std::same_as<T, float> ? "CPU (float)" : "CPU (double)"; }
    bool runs_in_submit() const noexcept override { return true; }

    std::shared_ptr<graph::TensorStore> make_store() override {
        return std::make_shared<CpuStore<T>>(products_, place_, stored_);
    }

    Result<std::unique_ptr<graph::Backend>> make_twin() const override {
        return std::unique_ptr<graph::Backend>(new CpuBackend(*this));
    }

    Result<std::unique_ptr<graph::Program>> compile(graph::Plan plan, std::shared_ptr<graph::TensorStore> weights,
                                                    std::shared_ptr<graph::TensorStore> states) override {
        const auto own_weights = cast_to<CpuStore<T>>(weights);
        const auto own_states = cast_to<CpuStore<T>>(states);
        if (!own_weights || !own_states)
            return Error{ErrorCode::InvalidArgument, name() + ": the tensor stores are not of this backend"};
        try {
            VKFORMER_TRY(auto tensors, make_tensors(plan, *own_weights, *own_states));
            return std::unique_ptr<graph::Program>(
                std::make_unique<CpuProgram<T>>(std::move(plan), std::move(tensors)));
        } catch (const std::bad_alloc&) {
            return Error{ErrorCode::OutOfHostMemory, name() + ": not enough memory for the tensors of the plan"};
        }
    }

private:
    QuantizedProducts products_;
    PackedPlace place_;
};

}  // namespace

template <std::floating_point T>
CpuProgram<T>::CpuProgram(graph::Plan plan, Tensors tensors)
    : plan_(std::move(plan)), tensors_(std::move(tensors)), rounds_attention_(false) {
    for (std::size_t node = 0; node < plan_.graph.nodes().size(); ++node)
        rounds_attention_ = rounds_attention_ || rounding(node) == graph::Rounding::int8;
}

template <std::floating_point T>
Result<CpuTensor<T>*> CpuProgram<T>::checked(Value value, std::size_t count, bool wants_floats) const {
    if (value.id >= tensors_.size() || !storage(value))
        return Error{ErrorCode::InvalidArgument, "the program has no tensor " + std::to_string(value.id)};
    const Tensor& tensor = plan_.graph.tensor(value);
    if (is_real(tensor.dtype) != wants_floats)
        return Error{ErrorCode::UnsupportedDtype, tensor.name + " is " + std::string(to_string(tensor.dtype)) +
                                                      ", but the host's values are " +
                                                      (wants_floats ? "floats" : "integers")};
    if (tensor.shape.element_count() != count)
        return Error{ErrorCode::ShapeMismatch, tensor.name + " has shape " + to_string(tensor.shape) +
                                                   ", but the host has " + std::to_string(count) + " values"};
    return storage(value);
}

template <std::floating_point T>
Result<void> CpuProgram<T>::check_writable(Value value) const {
    const Tensor& tensor = plan_.graph.tensor(plan_.graph.storage(value));
    if (tensor.kind != TensorKind::weight) return {};
    return Error{ErrorCode::InvalidArgument, tensor.name + " is a weight, and programs share those"};
}

template <std::floating_point T>
template <class From>
Result<void> CpuProgram<T>::write_floats(Value value, std::span<const From> values) {
    VKFORMER_TRY(CpuTensor<T>* const tensor, checked(value, values.size(), true));
    VKFORMER_CHECK(check_writable(value));
    std::ranges::transform(values, tensor->floats.begin(), [](From from) { return static_cast<T>(from); });
    round_values(tensor->dtype, tensor->floats);
    return {};
}

template <std::floating_point T>
Result<void> CpuProgram<T>::write(Value value, std::span<const float> values) {
    return write_floats(value, values);
}

template <std::floating_point T>
Result<void> CpuProgram<T>::write(Value value, std::span<const double> values) {
    return write_floats(value, values);
}

template <std::floating_point T>
Result<void> CpuProgram<T>::write(Value value, std::span<const std::int32_t> values) {
    VKFORMER_TRY(CpuTensor<T>* const tensor, checked(value, values.size(), false));
    VKFORMER_CHECK(check_writable(value));
    std::ranges::copy(values, tensor->ints.begin());
    return {};
}

template <std::floating_point T>
template <class To>
Result<void> CpuProgram<T>::read_floats(Value value, std::span<To> values) {
    VKFORMER_TRY(const CpuTensor<T>* const tensor, checked(value, values.size(), std::floating_point<To>));
    const Tensor& root = plan_.graph.tensor(plan_.graph.storage(value));
    if (!root.is_output) return Error{ErrorCode::InvalidArgument, root.name + " is no output of the graph"};
    if constexpr (std::floating_point<To>)
        std::ranges::transform(tensor->floats, values.begin(), [](T from) { return static_cast<To>(from); });
    else
        std::ranges::copy(tensor->ints, values.begin());
    return {};
}

template <std::floating_point T>
Result<void> CpuProgram<T>::read(Value value, std::span<float> values) {
    return read_floats(value, values);
}

template <std::floating_point T>
Result<void> CpuProgram<T>::read(Value value, std::span<double> values) {
    return read_floats(value, values);
}

template <std::floating_point T>
Result<void> CpuProgram<T>::read(Value value, std::span<std::int32_t> values) {
    return read_floats(value, values);
}

template <std::floating_point T>
Result<void> CpuProgram<T>::submit(std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i)
        for (std::size_t node = 0; node < plan_.graph.nodes().size(); ++node) VKFORMER_CHECK(run_node(node));
    return {};
}

template <std::floating_point T>
Result<void> CpuProgram<T>::run_node(std::size_t node_index) {
    if (node_index >= plan_.graph.nodes().size())
        return Error{ErrorCode::InvalidArgument, "the program has no node " + std::to_string(node_index)};
    try {
        const Operands<T> operands(plan_.graph, tensors_, rounds_attention_);
        graph::visit_op([&](const auto& op) { execute(op, operands); }, plan_.graph.nodes()[node_index].op);
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfHostMemory,
                     plan_.graph.nodes()[node_index].name + ": not enough memory for intermediate results"};
    }
    return {};
}

template <std::floating_point T>
graph::Rounding CpuProgram<T>::rounding(std::size_t node_index) const noexcept {
    using graph::Rounding;
    const auto product = [&](Value weight) {
        const CpuTensor<T>& held = *storage(weight);
        return held.packed && held.packed->int8 ? Rounding::int8 : Rounding::none;
    };
    const auto attention = [&](Value cache) {
        const bool is_rounded = rounds_attention_ && plan_.graph.dtype(cache) == DType::f32;
        return is_rounded ? Rounding::bfloat : Rounding::none;
    };
    return graph::visit_op(
        [&]<class Op>(const Op& op) {
            if constexpr (std::same_as<Op, graph::Linear> || std::same_as<Op, graph::ExpertLinear>)
                return product(op.weight);
            else if constexpr (std::same_as<Op, graph::Attention> || std::same_as<Op, graph::DecodeAttention>)
                return attention(op.key);
            else if constexpr (std::same_as<Op, graph::CacheAppend>)
                return attention(op.cache);
            else if constexpr (std::same_as<Op, graph::SplitQkv>)
                return attention(op.key_cache);
            else
                return Rounding::none;
        },
        plan_.graph.nodes()[node_index].op);
}

template class CpuProgram<float>;
template class CpuProgram<double>;

template <std::floating_point T>
std::unique_ptr<graph::Backend> make_cpu_backend(QuantizedProducts products, PackedPlace place) {
    return std::make_unique<CpuBackend<T>>(products, place);
}

template std::unique_ptr<graph::Backend> make_cpu_backend<float>(QuantizedProducts, PackedPlace);
template std::unique_ptr<graph::Backend> make_cpu_backend<double>(QuantizedProducts, PackedPlace);

std::vector<std::uint64_t> weight_bytes(const graph::Graph& graph) {
    const std::vector<Use> uses = uses_of(graph);
    std::vector<std::uint64_t> result(uses.size());
    for (std::size_t id = 0; id < result.size(); ++id) {
        const Tensor& tensor = graph.tensors()[id];
        if (tensor.alias_of || tensor.kind != TensorKind::weight || !uses[id].any) continue;
        const bool is_packed = !uses[id].as_numbers && packed_weight(tensor, QuantizedProducts::floats);
        const DType held = tensor.dtype == DType::i32 ? DType::i32 : DType::f32;
        result[id] = bytes_of(is_packed ? tensor.data.front().dtype : held, tensor.shape.element_count());
    }
    return result;
}

Result<void> run_node(graph::Program& cpu_program, std::size_t node_index) {
    if (auto* const program = cast_to<CpuProgram<double>>(&cpu_program)) return program->run_node(node_index);
    if (auto* const program = cast_to<CpuProgram<float>>(&cpu_program)) return program->run_node(node_index);
    return Error{ErrorCode::InvalidArgument, "run_node: the program is not one of a CPU backend"};
}

}  // namespace vkformer::cpu
