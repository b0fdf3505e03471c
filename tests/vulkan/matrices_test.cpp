// SPDX-License-Identifier: MIT
// Which cooperative matrices of a device are taken, and how products and attention are cut into them: on devices that there are not.
#include <optional>
#include <vector>

#include "linear/halve_rows.h"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "support/quantized.hpp"
#include "vulkan/kernels/attention/attention.hpp"
#include "vulkan/kernels/attention/matrices.hpp"
#include "vulkan/kernels/half_matrix.hpp"
#include "vulkan/kernels/linear/linear.hpp"
#include "vulkan/kernels/linear/matrices.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::tests {
namespace {

using vulkan::Capabilities;
using vulkan::CooperativeMatrix;
using vulkan::MatrixAttention;
using vulkan::MatrixForm;

constexpr std::uint32_t kHalf = vulkan::kComponentFloat16, kFloat = vulkan::kComponentFloat32;

CooperativeMatrix halves(std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    return {m, n, k, kHalf, kHalf, kFloat, kFloat};
}

Capabilities gpu(const std::vector<CooperativeMatrix>& matrices) {
    Capabilities device;
    device.type = "discrete";
    device.storage16 = device.float16 = device.cooperative_matrix = device.cooperative_matrix2 = true;
    device.cooperative_matrix2_parts = {.reductions = true, .conversions = true, .per_element_operations = true};
    device.cooperative_matrices = matrices;
    device.subgroup_size = device.max_subgroup_size = 32;
    device.max_workgroup_invocations = 1024;
    device.max_shared_memory_bytes = 64 << 10;
    device.max_workgroup_count = {65535, 65535, 65535};
    return device;
}

/// What half_matrix() takes of these for tiles that are 32 deep and hold multiples of 8.
std::optional<CooperativeMatrix> taken(const std::vector<CooperativeMatrix>& matrices) {
    return vulkan::half_matrix(gpu(matrices), 32, 8);
}

std::optional<vulkan::LinearMatrices> linear(MatrixForm::Size size, const Capabilities& device,
                                             MatrixForm::Results results = MatrixForm::Results::shared_memory) {
    return vulkan::linear_matrices({results, size}, device);
}

}  // namespace

TEST_CASE("the largest matrices with float16 operands and float32 sums that divide a tile are taken",
          "[vulkan][matrices]") {
    CHECK(taken({halves(8, 8, 8), halves(16, 16, 16), halves(16, 8, 16)}) == halves(16, 16, 16));
    CHECK(taken({halves(16, 16, 16), halves(8, 8, 32)}) == halves(16, 16, 16));
    CHECK(taken({halves(64, 16, 16), halves(16, 64, 16), halves(16, 16, 64), halves(8, 8, 8)}) == halves(8, 8, 8));
    CHECK(taken({halves(16, 24, 16), halves(16, 16, 24), halves(8, 8, 8)}) == halves(8, 8, 8));
    CHECK(taken({halves(16, 4, 16), halves(16, 16, 4)}) == std::nullopt);
    CHECK(taken({{16, 16, 16, kHalf, kHalf, kHalf, kHalf}}) == std::nullopt);
    CHECK(taken({{16, 16, 16, kHalf, kHalf, kFloat, kHalf}}) == std::nullopt);
    CHECK(taken({{16, 16, 16, kHalf, kHalf, kHalf, kFloat}}) == std::nullopt);
    CHECK(taken({{16, 16, 16, kHalf, kFloat, kFloat, kFloat}}) == std::nullopt);
    CHECK(taken({{16, 16, 16, vulkan::kComponentSint8, vulkan::kComponentSint8, vulkan::kComponentSint32,
                  vulkan::kComponentSint32}}) == std::nullopt);
    CHECK(taken({}) == std::nullopt);
}

TEST_CASE("a product's tiles are as many matrices as the device has subgroups and memory for", "[vulkan][matrices]") {
    using enum MatrixForm::Size;
    struct Expected {
        MatrixForm::Size size;
        std::uint32_t rows, columns, workgroup, shared_bytes, bytes_in_registers;
    };
    if (!linear(small, gpu({halves(16, 16, 16)}))) return;  // a compiler that knows no matrices built the shaders
    for (const auto& [size, rows, columns, workgroup, shared_bytes, bytes_in_registers] :
         {Expected{normal, 128, 128, 128, 20480, 20480}, Expected{small, 64, 64, 128, 10240, 10240},
          Expected{large, 256, 128, 256, 32768, 30720}}) {
        CAPTURE(rows, columns);
        Capabilities device = gpu({halves(16, 16, 16)});
        device.max_shared_memory_bytes = shared_bytes;
        device.max_workgroup_invocations = workgroup;
        const auto found = linear(size, device);
        REQUIRE(found);
        CHECK(found->tile.rows == rows);
        CHECK(found->tile.columns == columns);
        CHECK(found->workgroup == workgroup);
        CHECK(std::vector{found->m, found->n, found->k} == std::vector{16u, 16u, 16u});
        CHECK(found->steps * found->row_grid * found->m == rows);

        // Subgroups may be larger than they mostly are.
        device.max_subgroup_size = 64;
        CHECK_FALSE(linear(size, device));
        device.max_workgroup_invocations = 2 * workgroup;
        CHECK(linear(size, device)->workgroup == 2 * workgroup);
        device.max_shared_memory_bytes = shared_bytes - 1;
        CHECK_FALSE(linear(size, device));

        using enum MatrixForm::Results;
        device.max_shared_memory_bytes = bytes_in_registers;
        if (!linear(size, gpu({halves(16, 16, 16)}), registers)) continue;
        CHECK(linear(size, device, registers));
        device.max_shared_memory_bytes = bytes_in_registers - 1;
        CHECK_FALSE(linear(size, device, registers));
        device.max_shared_memory_bytes = bytes_in_registers;
        device.cooperative_matrix2_parts.per_element_operations = false;
        CHECK_FALSE(linear(size, device, registers));
    }
    Capabilities cpu = gpu({halves(8, 8, 8)});  // lavapipe, which unrolls everything
    cpu.type = "cpu";
    CHECK(linear(small, cpu)->steps == 2);
    CHECK(linear(large, cpu)->steps == 2);
    CHECK_FALSE(linear(normal, cpu));
}

// The halves are made in scratch memory, where x is once it is normed.
TEST_CASE("no product has its halves where they are made of", "[vulkan][matrices]") {
    const Capabilities device = gpu({halves(16, 16, 16)});
    for (const bool is_normed : {false, true}) {
        OpCase c;
        graph::Graph& graph = c.graph;
        const graph::Value x = must(graph.input("x", DType::f32, {40, 64}));
        const graph::Value weight = random_weight(c, DType::q8_0, 64, 64);
        const graph::Value y = must(graph.activation("y", DType::f32, {40, 64}));
        graph::Linear product{.x = x, .weight = weight, .y = y};
        if (is_normed) product.prologue = {.kind = graph::Prologue::Kind::rms_norm, .eps = 1e-6f};
        const graph::Op op = product;
        std::size_t halved = 0;
        for (const vulkan::KernelTraits* kernel : vulkan::fitting_kernels(op, {graph, device})) {
            CAPTURE(kernel->name);
            const auto plan = must(vulkan::plan_dispatches(op, {graph, device}, kernel->name));
            for (const vulkan::Dispatch& dispatch : plan.dispatches) {
                if (dispatch.module.family != &vulkan::modules::linear_halve_rows) continue;
                ++halved;
                for (const auto& [id, operand] : dispatch.bindings)
                    if (id == shaders::kHalveRowsX) CHECK(operand.kind == vulkan::Operand::Kind::tensor);
            }
        }
        if (vulkan::modules::linear_quantized_matrix.find(vulkan::Storage::f32)) CHECK((halved > 0) == !is_normed);
    }
}

TEST_CASE("attention takes the largest tiling that the device has memory for", "[vulkan][matrices]") {
    using enum MatrixAttention;
    const vulkan::AttentionSizes sizes{1, 100, 4, 2, 64, 64};
    const auto with_bytes = [&](MatrixAttention algorithm, std::uint32_t shared_bytes) {
        Capabilities device = gpu({halves(16, 16, 16)});
        device.max_shared_memory_bytes = shared_bytes;
        const auto found = vulkan::attention_matrices(algorithm, sizes, device);
        return found ? std::vector{found->subgroups, found->tile_keys} : std::vector<std::uint32_t>{};
    };
    // The sums of what attention/matrix.comp declares; those of matrix2.comp have no scores in them.
    CHECK(with_bytes(shared_weights, 27140) == std::vector{4u, 64u});
    CHECK(with_bytes(shared_weights, 27139) == std::vector{2u, 64u});
    CHECK(with_bytes(shared_weights, 18180) == std::vector{2u, 64u});
    CHECK(with_bytes(shared_weights, 18179) == std::vector{1u, 64u});
    CHECK(with_bytes(shared_weights, 13700) == std::vector{1u, 64u});
    CHECK(with_bytes(shared_weights, 13699).empty());
    CHECK(with_bytes(register_weights, 19204) == std::vector{4u, 64u});
    CHECK(with_bytes(register_weights, 19203) == std::vector{2u, 64u});

    const auto subgroups = [](const vulkan::AttentionSizes& of, const Capabilities& device) {
        const auto found = vulkan::attention_matrices(shared_weights, of, device);
        return found ? found->subgroups : 0;
    };
    Capabilities device = gpu({halves(16, 16, 16)});
    CHECK(subgroups({1, 5, 9, 3, 64, 64}, device) == 1);  // 15 rows
    CHECK(subgroups({1, 16, 1, 1, 64, 64}, device) == 1);
    CHECK(subgroups({1, 17, 1, 1, 64, 64}, device) == 2);
    CHECK(subgroups({1, 32, 1, 1, 64, 64}, device) == 2);
    CHECK(subgroups({1, 11, 3, 1, 64, 64}, device) == 4);  // 33
    CHECK(subgroups({1, 100, 1, 1, 256, 16}, device) > 0);
    CHECK(subgroups({1, 100, 1, 1, 257, 16}, device) == 0);
    CHECK(subgroups({1, 100, 1, 1, 16, 257}, device) == 0);
    device.max_subgroup_size = 128;  // four of them would be more than the reductions have memory for
    CHECK(subgroups(sizes, device) == 2);
    device.max_workgroup_invocations = 128;
    CHECK(subgroups(sizes, device) == 1);
    device = gpu({halves(16, 16, 16)});
    const auto tile_keys = [&](std::uint64_t head_dim, std::uint64_t value_dim) {
        return vulkan::attention_matrices(shared_weights, {1, 100, 1, 1, head_dim, value_dim}, device)->tile_keys;
    };
    CHECK(tile_keys(64, 64) == 64);
    CHECK(tile_keys(65, 16) == 32);
    CHECK(tile_keys(16, 128) == 32);
    CHECK(tile_keys(16, 129) == 16);

    // The sums of a product are an operand of the next.
    CHECK(vulkan::attention_matrices(register_weights, sizes, gpu({halves(16, 16, 16)})));
    CHECK_FALSE(vulkan::attention_matrices(register_weights, sizes, gpu({halves(16, 8, 16)})));
    CHECK(vulkan::attention_matrices(shared_weights, sizes, gpu({halves(16, 8, 16)})));
    for (bool vulkan::CooperativeMatrix2::*const part :
         {&vulkan::CooperativeMatrix2::reductions, &vulkan::CooperativeMatrix2::conversions,
          &vulkan::CooperativeMatrix2::per_element_operations}) {
        Capabilities lacking = gpu({halves(16, 16, 16)});
        lacking.cooperative_matrix2_parts.*part = false;
        CHECK_FALSE(vulkan::attention_matrices(register_weights, sizes, lacking));
    }
}

}  // namespace vkformer::tests
