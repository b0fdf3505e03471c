// SPDX-License-Identifier: MIT
// Which cooperative matrices of a device are taken, and how products and attention are cut into them: on devices that there are not.
// Then what the kernels on them fill up, leave out and do not store, on devices that have some: infinities tell zeros from what is
// multiplied by zeros.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpu/backend.hpp"
#include "linear/halve_rows.h"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "support/quantized.hpp"
#include "support/special_floats.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/kernels/attention/attention.hpp"
#include "vulkan/kernels/attention/matrices.hpp"
#include "vulkan/kernels/half_matrix.hpp"
#include "vulkan/kernels/linear/linear.hpp"
#include "vulkan/kernels/linear/matrices.hpp"
#include "vulkan/variants.hpp"
#include "vulkan/vendors.hpp"

namespace vkformer::tests {
namespace {

using vulkan::Capabilities;
using vulkan::CooperativeMatrix;
using vulkan::MatrixAttention;
using vulkan::MatrixTile;

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
    device.max_storage_buffers = 16;
    return device;
}

/// What half_matrix() takes of these for tiles that are 32 deep and hold multiples of 8.
std::optional<CooperativeMatrix> taken(const std::vector<CooperativeMatrix>& matrices) {
    return vulkan::half_matrix(gpu(matrices), 32, 8);
}

std::optional<vulkan::LinearMatrices> linear(MatrixTile tile, const Capabilities& device, bool is_unpacked = false) {
    return vulkan::linear_matrices(tile, is_unpacked, device);
}

/// A graph that ends in one op, and what it makes on the kernels on cooperative matrices, of every device that has such matrices.
class MatrixCase {
public:
    OpCase c;

    graph::Value floats(const std::string& name, DType dtype, const Shape& shape, std::vector<float> values) {
        const graph::Value made = c.floats(name, dtype, shape, values);
        contents_.emplace_back(made, std::move(values));
        return made;
    }
    graph::Value floats(const std::string& name, DType dtype, const Shape& shape) {
        return floats(name, dtype, shape, c.random_floats(shape.element_count()));
    }

    /// Every row of y within 2^-8 of its largest element in double precision; NaN and infinities in the same places.
    void check(graph::Value y) {
        c.graph.mark_output(y);
        const std::vector<double> expected = c.run_doubles(*cpu::make_cpu_backend<double>(), y);
        const std::size_t width = c.graph.shape(y).back();
        each_kernel(y, [&](const std::vector<float>& found) {
            for (std::size_t row = 0; row < expected.size(); row += width) {
                double largest = 0, worst = 0;
                for (std::size_t i = row; i < row + width; ++i) {
                    CAPTURE(i, found[i], expected[i]);
                    if (!std::isfinite(expected[i])) {
                        CHECK((std::isnan(expected[i]) ? std::isnan(found[i]) : found[i] == expected[i]));
                        continue;
                    }
                    CHECK(std::isfinite(found[i]));
                    largest = std::max(largest, std::abs(expected[i]));
                    worst = std::max(worst, std::abs(found[i] - expected[i]));
                }
                CAPTURE(row / width, largest);
                CHECK(worst <= 0x1p-8 * largest);
            }
        });
    }

private:
    void each_kernel(graph::Value y, const std::function<void(const std::vector<float>&)>& inspect) const {
        const graph::Plan plan = graph::make_plan(c.graph, {.fuse = false});
        for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
            for (const vulkan::KernelTraits* kernel :
                 vulkan::fitting_kernels(plan.graph.nodes()[0].op, {plan.graph, backend->capabilities()})) {
                if ((kernel->needs & vulkan::bit_of(vulkan::ShaderRequirement::coopmat)) == 0) continue;
                CAPTURE(backend->name(), kernel->name);
                const vulkan::ProgramOptions options{.check_memory = true, .variants = {std::string(kernel->name)}};
                const auto program =
                    must(backend->compile_program(plan, backend->make_store(), backend->make_store(), options));
                for (const auto& [value, values] : contents_) must(program->write(value, std::span(values)));
                std::vector<float> found(c.graph.shape(y).element_count());
                must(program->submit(1));
                must(program->wait());
                must(program->read(y, std::span(found)));
                inspect(found);
            }
        }
    }

    std::vector<std::pair<graph::Value, std::vector<float>>> contents_;
};

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
    using enum MatrixTile;
    struct Expected {
        std::uint32_t vendor;
        MatrixTile tile;
        std::uint32_t rows, columns, workgroup, shared_bytes;
        bool is_unpacked = false;
    };
    if (!linear(small, gpu({halves(16, 16, 16)}))) return;  // a compiler that knows no matrices built the shaders
    for (const auto& [vendor, tile, rows, columns, workgroup, shared_bytes, is_unpacked] :
         {Expected{vulkan::vendors::kNvidia, flat, 32, 128, 128, 43520},
          Expected{vulkan::vendors::kNvidia, flat, 32, 128, 128, 23040, true},
          Expected{vulkan::vendors::kNvidia, small, 64, 64, 128, 18432},
          Expected{vulkan::vendors::kNvidia, normal, 128, 128, 128, 20480},
          Expected{vulkan::vendors::kNvidia, dense, 128, 128, 256, 36864},
          Expected{vulkan::vendors::kNvidia, wide, 128, 192, 256, 46080},
          Expected{vulkan::vendors::kNvidia, large, 256, 128, 256, 32768},
          Expected{vulkan::vendors::kAmd, flat, 32, 128, 128, 12800},
          Expected{vulkan::vendors::kAmd, small, 64, 64, 128, 10240},
          Expected{vulkan::vendors::kAmd, normal, 128, 128, 128, 20480},
          Expected{vulkan::vendors::kAmd, large, 256, 128, 256, 32768}}) {
        CAPTURE(vendor, rows, columns);
        Capabilities device = gpu({halves(16, 16, 16)});
        device.vendor_id = vendor;
        device.max_shared_memory_bytes = shared_bytes;
        device.max_workgroup_invocations = workgroup;
        const auto found = linear(tile, device, is_unpacked);
        REQUIRE(found);
        CHECK(found->tile.rows == rows);
        CHECK(found->tile.columns == columns);
        CHECK(found->workgroup == workgroup);
        CHECK(std::vector{found->m, found->n, found->k} == std::vector{16u, 16u, 16u});
        CHECK(found->row_steps * found->row_grid * found->m == rows);
        CHECK(found->column_steps * found->column_grid * found->n == columns);
        CHECK(found->depth % (found->is_ahead ? 2 * found->k : found->k) == 0);

        // Subgroups may be larger than they mostly are.
        device.max_subgroup_size = 64;
        CHECK_FALSE(linear(tile, device, is_unpacked));
        device.max_workgroup_invocations = 2 * workgroup;
        CHECK(linear(tile, device, is_unpacked)->workgroup == 2 * workgroup);
        device.max_shared_memory_bytes = shared_bytes - 1;
        CHECK_FALSE(linear(tile, device, is_unpacked));
    }
    Capabilities cpu = gpu({halves(8, 8, 8)});  // lavapipe, which unrolls everything
    cpu.type = "cpu";
    for (const auto tile : {flat, small, dense, wide, large}) {
        CHECK(linear(tile, cpu)->row_steps == 2);
        CHECK(linear(tile, cpu)->column_steps <= 3);
    }
    CHECK_FALSE(linear(normal, cpu));
    // Where the registers hold them, operands are loaded a step ahead, in two turns: of matrices of 32 a slice of 32 has no second.
    for (const auto tile : {dense, wide}) CHECK_FALSE(linear(tile, gpu({halves(16, 16, 16)})));
    CHECK(linear(large, gpu({halves(16, 16, 32)}))->k == 32);
    Capabilities nvidia = gpu({halves(16, 16, 32)});
    nvidia.vendor_id = vulkan::vendors::kNvidia;
    for (const auto tile : {flat, small, normal, dense, wide}) CHECK(linear(tile, nvidia)->k == 32);
    CHECK_FALSE(linear(large, nvidia));
}

TEST_CASE("a depth is cut where there is no memory for flat tiles, too", "[vulkan][matrices]") {
    if (!linear(MatrixTile::small, gpu({halves(16, 16, 16)})))
        return;  // a compiler that knows no matrices built the shaders
    Capabilities device = gpu({halves(16, 16, 16)});
    device.vendor_id = vulkan::vendors::kNvidia;
    OpCase c;
    const graph::Value x = must(c.graph.input("x", DType::f16, {20, 2048}));
    const graph::Value weight = must(c.graph.input("weight", DType::f16, {64, 2048}));
    const graph::Op op =
        graph::Linear{.x = x, .weight = weight, .y = must(c.graph.activation("y", DType::f16, {20, 64}))};
    for (const std::uint32_t memory : {48u << 10, 40u << 10}) {
        device.max_shared_memory_bytes = memory;
        const auto kernels = vulkan::fitting_kernels(op, {c.graph, device});
        CHECK((vulkan::find_kernel(kernels, "matrix_flat") != nullptr) == (memory == 48u << 10));
        CHECK(vulkan::find_kernel(kernels, "matrix_split"));
    }
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
    vulkan::AttentionSizes sizes{1, 100, 4, 2, 64, 64};
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

    sizes = {1, 100, 4, 2, 128, 128};  // tiles of 32 keys
    CHECK(with_bytes(shared_weights, 18436).front() == 4);
    CHECK(with_bytes(shared_weights, 18435).front() == 2);
    CHECK(with_bytes(register_weights, 18180).front() == 4);
    CHECK(with_bytes(register_weights, 18179).front() == 2);

    // Eight subgroups where there are enough rows for all cores, with tiles of 64 keys.
    sizes = {1, 512, 32, 8, 128, 128};
    CHECK(with_bytes(register_weights, 36356) == std::vector{8u, 64u});
    CHECK(with_bytes(register_weights, 36355) == std::vector{4u, 32u});
    CHECK(with_bytes(shared_weights, 64 << 10) == std::vector{4u, 32u});
    sizes = {1, 352, 32, 8, 128, 128};  // 88 times 128 rows
    CHECK(with_bytes(register_weights, 64 << 10) == std::vector{4u, 32u});
    sizes = {1, 512, 32, 8, 136, 128};
    CHECK(with_bytes(register_weights, 64 << 10) == std::vector{4u, 16u});

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
    sizes = {1, 100, 4, 2, 64, 64};
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

// A tile is 32 deep, of which eight are left; the last are those that lie behind.
TEST_CASE("a product on matrices ends with zeros behind its depth", "[vulkan][matrices][linear]") {
    constexpr std::uint64_t kRows = 9, kIn = 40, kOut = 10;
    MatrixCase m;
    std::vector<float> x = m.c.random_floats(kRows * kIn), weight = m.c.random_floats(kOut * kIn);
    for (std::uint64_t row = 0; row < kRows; ++row) x[row * kIn + kIn - 1] = 1;
    for (std::uint64_t column = 0; column < kOut; ++column) weight[column * kIn + kIn - 1] = -0.5F;
    SECTION("of x") { x[4 * kIn - 1] = kInfinity; }
    SECTION("of the weight") { weight[6 * kIn - 1] = kInfinity; }
    const graph::Value a = m.floats("x", DType::f16, {kRows, kIn}, std::move(x));
    m.check(must(linear(m.c.graph, a, m.floats("weight", DType::f16, {kOut, kIn}, std::move(weight)))));
}

// Behind y lies memory that is watched, behind the rows of a product those of the next. lavapipe drops what is stored behind the end of a
// buffer, and does the next product later: a row too many shows on other drivers only.
TEST_CASE("a product on matrices stores its rows and columns, and no others", "[vulkan][matrices][linear]") {
    const auto [batch, rows, out, is_gated] = GENERATE(table<std::uint64_t, std::uint64_t, std::uint64_t, bool>(
        {{2, 9, 10, false}, {1, 33, 33, false}, {1, 9, 18, true}}));
    CAPTURE(batch, rows, out, is_gated);
    MatrixCase m;
    const graph::Value x = m.floats("x", DType::f16, batch == 1 ? Shape{rows, 8} : Shape{batch, rows, 8});
    const graph::Value weight = m.floats("weight", DType::f16, batch == 1 ? Shape{out, 8} : Shape{batch, out, 8});
    const Shape results = batch == 1 ? Shape{rows, is_gated ? out / 2 : out} : Shape{batch, rows, out};
    const graph::Value y = must(m.c.graph.activation("y", DType::f16, results));
    graph::Linear product{.x = x, .weight = weight, .y = y};
    if (is_gated) product.epilogue.end = graph::Epilogue::End::gate;
    m.c.graph.add_node(product);
    m.check(y);
}

// Where rows of y are a multiple of eight long, and where they are not; whole, and added up from parts of the depth.
TEST_CASE("results leave matrices eight at a time, and one by one", "[vulkan][matrices][linear]") {
    using enum graph::Epilogue::End;
    const std::uint64_t out = GENERATE(std::uint64_t{24}, std::uint64_t{20});
    const auto end = GENERATE(none, residual, gate);
    CAPTURE(out, static_cast<int>(end));
    constexpr std::uint64_t kRows = 20, kIn = 328;
    MatrixCase m;
    const std::uint64_t columns = end == gate ? 2 * out : out;
    const graph::Value x = m.floats("x", DType::f16, {kRows, kIn});
    const graph::Value weight = m.floats("weight", DType::f16, {columns, kIn});
    const graph::Value y = must(m.c.graph.activation("y", DType::f16, {kRows, out}));
    graph::Linear product{.x = x, .weight = weight, .y = y};
    product.epilogue.bias = m.floats("bias", DType::f16, {columns});
    product.epilogue.end = end;
    product.epilogue.activation = graph::Activation::silu;
    if (end == residual) product.epilogue.residual = m.floats("residual", DType::f16, {kRows, out});
    m.c.graph.add_node(product);
    m.check(y);
}

// linear/halve_rows.comp scales each row by a power of two.
TEST_CASE("rows of floats become halves whatever their size", "[vulkan][matrices][linear]") {
    constexpr float kSizes[] = {0x1p-120F, 0x1p-113F, 0x1p-60F, 0x1p-14F, 1, 0x1p15F, 0x1p17F, 0x1p60F, 0x1p118F};
    constexpr std::uint64_t kIn = 64, kOut = 12, kScaled = std::size(kSizes), kZeros = kScaled, kSpread = kScaled + 1,
                            kInfinite = kScaled + 2, kNone = kScaled + 3, kRows = kNone + 1;
    MatrixCase m;
    std::vector<float> x = m.c.random_floats(kRows * kIn), weight = m.c.random_floats(kOut * kIn);
    // The largest of a row lies next to a power of two: as a half it is that.
    for (std::uint64_t row = 0; row < kScaled; ++row) {
        x[row * kIn + 9] = 0x1.fffffep-1F;
        for (std::uint64_t i = 0; i < kIn; ++i) x[row * kIn + i] *= 2 * kSizes[row];
    }
    std::fill_n(&x[kZeros * kIn], kIn, 0.0F);
    // A large element, which no column takes, beside small ones.
    for (std::uint64_t i = 0; i < kIn; ++i) x[kSpread * kIn + i] *= 0x1p-26F;
    x[kSpread * kIn] = 1;
    // Beside an infinity one that is finite, and as a half would not be, of the other sign.
    x[kInfinite * kIn] = 0;
    x[kInfinite * kIn + 1] = kInfinity;
    x[kInfinite * kIn + 2] = -1e30F;
    x[kNone * kIn + 1] = kNaN;
    for (std::uint64_t column = 0; column < kOut; ++column) {
        weight[column * kIn] = 0;
        weight[column * kIn + 1] = weight[column * kIn + 2] = 0.5F;
    }
    const graph::Value a = m.floats("x", DType::f32, {kRows, kIn}, std::move(x));
    const TensorData data = must(quantized(owned(std::move(weight), {kOut, kIn}), DType::q8_0));
    m.check(must(linear(m.c.graph, a, must(m.c.graph.weight("weight", data, DType::q8_0)))));
}

// Tiles that all rows see whole are scaled together with the exponential, whose maximum grows from one to the next; others before.
TEST_CASE("attention on matrices scales scores by any number", "[vulkan][matrices][attention]") {
    const float scale = GENERATE(0.3F, -0.3F, 0.0F);
    const bool is_causal = GENERATE(false, true);
    CAPTURE(scale, is_causal);
    constexpr std::uint64_t kKeys = 150, kDim = 16;
    const std::uint64_t queries = is_causal ? kKeys : 9;
    MatrixCase m;
    std::vector<float> key = m.c.random_floats(kKeys * kDim);
    for (std::uint64_t i = 0; i < key.size(); ++i) key[i] *= static_cast<float>(1 + i / kDim);
    const graph::Value q = m.floats("query", DType::f16, {1, queries, 2, kDim});
    const graph::Value k = m.floats("key", DType::f16, {1, kKeys, 1, kDim}, std::move(key));
    const graph::Value v = m.floats("value", DType::f16, {1, kKeys, 1, kDim});
    m.check(must(attention(m.c.graph, q, k, v, {.causal = is_causal}, scale)));
}

TEST_CASE("attention on matrices fills heads up with zeros", "[vulkan][matrices][attention]") {
    constexpr std::uint64_t kQueries = 9, kKeys = 20, kDim = 12;
    MatrixCase m;
    std::vector<float> query = m.c.random_floats(kQueries * kDim), key = m.c.random_floats(kKeys * kDim);
    for (std::uint64_t i = 0; i < kQueries; ++i) query[i * kDim + kDim - 1] = 0.5F;
    for (std::uint64_t j = 0; j < kKeys; ++j) key[j * kDim + kDim - 1] = -0.5F;
    SECTION("queries, of a key that none sees") { key[5 * kDim + kDim - 1] = -kInfinity; }
    SECTION("keys, of a query that sees none") { query[3 * kDim + kDim - 1] = kInfinity; }
    const graph::Value q = m.floats("query", DType::f16, {1, kQueries, 1, kDim}, std::move(query));
    const graph::Value k = m.floats("key", DType::f16, {1, kKeys, 1, kDim}, std::move(key));
    m.check(must(attention(m.c.graph, q, k, m.floats("value", DType::f16, {1, kKeys, 1, kDim}), {}, 1)));
}

// Of even and of odd keys, which share words.
TEST_CASE("values that are not finite are multiplied with their weights on matrices too",
          "[vulkan][matrices][attention]") {
    constexpr std::uint64_t kLen = 40, kDim = 12;
    MatrixCase m;
    std::vector<float> value = m.c.random_floats(kLen * kDim), addends = m.c.random_floats(kLen);
    value[25 * kDim + 3] = kInfinity;
    value[30 * kDim + 4] = -kInfinity;
    value[12 * kDim + 11] = kNaN;
    value[8 * kDim + 5] = kInfinity;
    addends[8] = -kInfinity;  // 0 · ∞
    const graph::Value q = m.floats("query", DType::f16, {1, kLen, 1, 8});
    const graph::Value k = m.floats("key", DType::f16, {1, kLen, 1, 8});
    const graph::Value v = m.floats("value", DType::f16, {1, kLen, 1, kDim}, std::move(value));
    graph::AttentionMask mask{.causal = true};
    mask.additive = m.floats("additive", DType::f32, {1, 1, 1, kLen}, std::move(addends));
    m.check(must(attention(m.c.graph, q, k, v, mask, 1)));
}

// Nine or 17 eights of them, times pairs of keys, are no multiple of the invocations. Devices that are CPUs take the first two.
TEST_CASE("attention on matrices takes long heads", "[vulkan][matrices][attention]") {
    const auto [head_dim, value_dim] =
        GENERATE(table<std::uint64_t, std::uint64_t>({{16, 72}, {72, 16}, {16, 136}, {136, 16}}));
    CAPTURE(head_dim, value_dim);
    MatrixCase m;
    const graph::Value q = m.floats("query", DType::f16, {1, 17, 2, head_dim});
    const graph::Value k = m.floats("key", DType::f16, {1, 37, 1, head_dim});
    const graph::Value v = m.floats("value", DType::f16, {1, 37, 1, value_dim});
    m.check(must(attention(m.c.graph, q, k, v, {.window = 30}, 0.3F)));
}

}  // namespace vkformer::tests
