// SPDX-License-Identifier: MIT
/// Executes plans on the CPU, node by node: in float the fallback, in double the oracle that every device is checked against.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/type_tag.hpp"
#include "cpu/tensor.hpp"
#include "graph/program.hpp"

namespace vkformer::cpu {

/// A plan whose tensors are T and int32_t. What comes from outside is rounded as a device stores it: weights and host writes to
/// f32 or f16. States start as zeros, everything else as NaN (floats) and INT32_MIN (integers), so that no element is missed in
/// silence; activations that are no outputs share an arena as the plan says, which is NaN before the first run only. submit runs the nodes
/// before it returns.
template <std::floating_point T>
class CpuProgram final : public graph::Program {
public:
    /// By tensor id; views have none. Made by the backend.
    using Tensors = std::vector<std::shared_ptr<CpuTensor<T>>>;
    CpuProgram(graph::Plan plan, Tensors tensors);
    const void* type() const noexcept override { return &kTypeTag<CpuProgram>; }

    Result<void> write(graph::Value tensor, std::span<const float> values) override;
    Result<void> write(graph::Value tensor, std::span<const std::int32_t> values) override;
    /// As for floats, but an f32 tensor of a double program keeps all digits.
    Result<void> write(graph::Value tensor, std::span<const double> values);
    Result<void> read(graph::Value tensor, std::span<float> values) override;
    Result<void> read(graph::Value tensor, std::span<double> values) override;
    Result<void> read(graph::Value tensor, std::span<std::int32_t> values) override;
    Result<void> submit(std::uint32_t times = 1) override;
    Result<void> wait() override { return {}; }
    const graph::Plan& plan() const noexcept override { return plan_; }
    /// "int8" of a product whose activations are rounded, "bfloat" of the attention of a program with such products.
    graph::Rounding rounding(std::size_t node_index) const noexcept override;

    /// Executes the node alone, on what its operands hold now.
    Result<void> run_node(std::size_t node_index);

private:
    CpuTensor<T>* storage(graph::Value tensor) const { return tensors_[plan_.graph.storage(tensor).id].get(); }
    Result<CpuTensor<T>*> checked(graph::Value tensor, std::size_t count, bool wants_floats) const;
    Result<void> check_writable(graph::Value tensor) const;
    template <class From>
    Result<void> write_floats(graph::Value tensor, std::span<const From> values);
    template <class To>
    Result<void> read_floats(graph::Value tensor, std::span<To> values);

    graph::Plan plan_;
    Tensors tensors_;
    bool rounds_attention_;  // as products round their activations: bfloat_pairs.hpp
};

extern template class CpuProgram<float>;
extern template class CpuProgram<double>;

/// How floats multiply weights that stay in a quantised format.
enum class QuantizedProducts : std::uint8_t {
    /// With activations rounded to 8 bits, where the processor has kernels for that: int8_kernels.hpp. Attention of such programs rounds its
    /// operands to bfloat16: bfloat_pairs.hpp.
    int8,
    floats,  ///< with activations as they are
};

/// Where weights lie that products take as their files have them.
enum class PackedPlace : std::uint8_t {
    file,           ///< in the file, mapped
    where_fastest,  ///< in memory of their own where that is worth its time for programs that run thousands of times
};

/// "CPU (float)" or "CPU (double)"; of double, whose weights are numbers, `products` changes nothing. Its programs are CpuProgram<T>. Errors
/// of compile: ShapeMismatch (a tensor in the store has another shape or dtype), InvalidArgument (a store of another backend),
/// OutOfHostMemory.
template <std::floating_point T>
std::unique_ptr<graph::Backend> make_cpu_backend(QuantizedProducts products = QuantizedProducts::int8,
                                                 PackedPlace place = PackedPlace::file);

extern template std::unique_ptr<graph::Backend> make_cpu_backend<float>(QuantizedProducts, PackedPlace);
extern template std::unique_ptr<graph::Backend> make_cpu_backend<double>(QuantizedProducts, PackedPlace);

/// Executes one node of a program of a CPU backend; the caller has written the operands. Errors: InvalidArgument (another
/// backend's program, no such node).
Result<void> run_node(graph::Program& cpu_program, std::size_t node_index);

}  // namespace vkformer::cpu
