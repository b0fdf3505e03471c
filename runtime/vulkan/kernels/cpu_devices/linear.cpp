// SPDX-License-Identifier: MIT
#include "vulkan/kernels/linear/linear.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "cpu_devices/linear/contract.h"
#include "vulkan/kernels/cpu_devices/kernels.hpp"
#include "vulkan/kernels/cpu_devices/lanes.hpp"
#include "vulkan/kernels/weight_format.hpp"

namespace vkformer::vulkan::cpu_devices {
namespace {

static_assert(PushConstants::kOwn + sizeof(shaders::LinearPush) <= shaders::kCpuLinearXAddress);

/// Words of 32 bits in a row of x or weight.
std::uint64_t words_of(const Product& product) { return product.in_width / (product.dtype == DType::f16 ? 2 : 1); }

/// What a weight in a format of its own adds.
void set_format(Dispatch& dispatch, const Product& product) {
    if (product.has_own_format) dispatch.set(shaders::kLinearWeightFormat, weight_format(product.weight));
}

/// x, weight and, of a norm, gain by their addresses. Those of the norm's staged rows: plan_depth.
void point_at_operands(Dispatch& dispatch, const graph::Linear& op, Operand x) {
    dispatch.point(shaders::kCpuLinearXAddress, x).point(shaders::kCpuLinearWeightAddress, op.weight);
}

/// The lanes lie along the columns of y.
bool fits_columns(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    return product.has_own_format || product.in_width % 4 == 0;
}

Result<DispatchPlan> plan_columns(const graph::Linear& op, Operand x, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const LinearTile tile{std::min<std::uint64_t>(product.rows, shaders::kLinearMaxRows),
                          shaders::kCpuLinearWorkgroup * shaders::kCpuLinearLaneColumns};
    Module module = product.has_own_format
                        ? wide_or_words(modules::cpu_linear_quantized_columns_wide,
                                        modules::cpu_linear_quantized_columns, product.dtype, context.device)
                        : wide_or_words(modules::cpu_linear_columns_wide, modules::cpu_linear_columns, product.dtype,
                                        context.device);
    if (context.graph.dtype(op.y) != product.dtype) module.storage = with_float_results(module.storage);
    VKFORMER_TRY(Dispatch dispatch, dispatch_linear(op, x, module, tile, context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kCpuLinearWorkgroup).set(shaders::kLinearRows, tile.rows);
    set_format(dispatch, product);
    return DispatchPlan(std::move(dispatch));
}

/// The same, and x reaches the lanes by shuffles.
bool fits_columns_shuffled(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    if (product.has_few_rows() || !has_shuffled_lanes(context.device)) return false;
    return product.has_own_format || product.in_width % shaders::kCpuLinearShuffledDepth == 0;
}

bool fits_columns_vectors(const graph::Linear& op, const KernelContext& context) {
    return fits_columns_shuffled(op, context) && has_vector_loads(context.device);
}

std::uint32_t shuffled_rows(std::uint64_t rows) {
    // Half the rows where that leaves a quarter fewer of them empty.
    constexpr std::uint32_t kMost = shaders::kCpuLinearShuffledMaxRows, kHalf = kMost / 2;
    return 4 * ceil_div(rows, kMost) * kMost > 5 * ceil_div(rows, kHalf) * kHalf ? kHalf : kMost;
}

LinearTile shuffled_tile(const graph::Linear& op, const Product& product, Loads loads) {
    if (!product.has_own_format || loads == Loads::vectors)
        return {shuffled_rows(product.rows), shaders::kCpuLanes * shaders::kCpuLinearShuffledColumns};
    return {shaders::kCpuLinearWideRows,
            std::uint64_t{shaders::kCpuLanes} *
                (op.is_gated() ? shaders::kCpuLinearWideGatedColumns : shaders::kCpuLinearWideColumns)};
}

const ShaderFamily& shuffled_family(const Product& product, Loads loads) {
    if (product.has_own_format)
        return loads == Loads::vectors ? modules::cpu_linear_quantized_columns_vectors
                                       : modules::cpu_linear_quantized_columns_shuffled;
    return loads == Loads::vectors ? modules::cpu_linear_columns_vectors : modules::cpu_linear_columns_shuffled;
}

template <Loads kLoads>
Result<DispatchPlan> plan_columns_shuffled(const graph::Linear& op, Operand x, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const LinearTile tile = shuffled_tile(op, product, kLoads);
    const Module module = vulkan::module_for(shuffled_family(product, kLoads), op, context);
    VKFORMER_TRY(Dispatch dispatch, dispatch_linear(op, x, module, tile, context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kCpuLanes).set(shaders::kLinearRows, tile.rows);
    set_format(dispatch, product);
    if (kLoads == Loads::vectors) point_at_operands(dispatch, op, x);
    return DispatchPlan(std::move(dispatch));
}

/// The lanes lie along the depth; workgroups take tiles until none is left.
bool fits_depth(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    if (product.batch > 1 || product.rows > shaders::kCpuLinearDepthMaxRows || !has_vector_loads(context.device))
        return false;
    if (!product.has_own_format)
        return product.in_width % 4 == 0 && words_of(product) % shaders::kCpuLinearFewWords == 0;
    return (product.weight == DType::q8_0 || product.weight == DType::q4_0) && product.dtype == DType::f32 &&
           product.in_width % shaders::kCpuLinearQuantizedDepth == 0;
}

/// Workgroups that take `tiles` tiles: as many as threads could be there to run them.
std::uint32_t taking_workgroups(std::uint64_t tiles) {
    constexpr std::uint64_t kMostThreads = 64;
    return static_cast<std::uint32_t>(std::min(tiles, kMostThreads));
}

/// Has the workgroups of a dispatch that takes tiles stage their rows (shaders: cpu_devices/lib/staged.glsl).
DispatchPlan with_staged_rows(Dispatch dispatch, const graph::Linear& op, const graph::Graph& graph) {
    const std::uint64_t bytes = graph.shape(op.x).element_count() * sizeof(float);
    // So many workgroups that their memory stays small.
    constexpr std::uint64_t kMostBytes = 4 << 20;
    const std::uint64_t most = std::clamp<std::uint64_t>(kMostBytes / bytes, 1, taking_workgroups(~std::uint64_t{0}));
    dispatch.groups[0] = static_cast<std::uint32_t>(std::min<std::uint64_t>(dispatch.groups[0], most));
    dispatch.point(shaders::kCpuLinearStagedAddress, Operand::scratch());
    DispatchPlan plan(std::move(dispatch));
    plan.scratch_bytes = plan.dispatches.front().groups[0] * bytes;
    return plan;
}

Result<DispatchPlan> plan_depth(const graph::Linear& op, Operand x, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const ShaderFamily& family =
        product.has_own_format ? modules::cpu_linear_quantized_depth : modules::cpu_linear_depth;
    VKFORMER_TRY(Dispatch dispatch, dispatch_linear(op, x, vulkan::module_for(family, op, context),
                                                    {product.rows, shaders::kCpuLinearDepthColumns}, context));
    dispatch.groups = {taking_workgroups(dispatch.groups[0] * std::uint64_t{dispatch.groups[1]}), 1, 1};
    dispatch.bind(shaders::kCpuLinearTaken, Operand::counter())
        .set(shaders::kWorkgroupConstant, shaders::kCpuLanes)
        .set(shaders::kLinearRows, product.rows);
    set_format(dispatch, product);
    point_at_operands(dispatch, op, x);
    if (product.has_own_format) {
        dispatch.bind(shaders::kLinearGain, or_else(op.prologue.gain, op.y));
        return with_staged_rows(std::move(dispatch), op, context.graph);
    }
    // With one row, a loop's own instructions are more than a few of its loads.
    const bool many = product.rows == 1 && words_of(product) % shaders::kCpuLinearManyWords == 0;
    dispatch.set(shaders::kCpuLinearDepthWords, many ? shaders::kCpuLinearManyWords : shaders::kCpuLinearFewWords)
        .point(shaders::kCpuLinearGainAddress, or_else(op.prologue.gain, op.weight));
    if (!op.prologue) return DispatchPlan(std::move(dispatch));
    return with_staged_rows(std::move(dispatch), op, context.graph);
}

// Edges: rows x in x out.
constexpr std::uint32_t kColumns = shaders::kCpuLinearWorkgroup * shaders::kCpuLinearLaneColumns,
                        kShuffled = shaders::kCpuLinearShuffledMaxRows, kDepthColumns = shaders::kCpuLinearDepthColumns,
                        kMostDepthRows = shaders::kCpuLinearDepthMaxRows;

constexpr Edge kColumnsEdges[] = {{1, 4, 1},
                                  {shaders::kLinearMaxRows - 1, 16, kColumns},
                                  {shaders::kLinearMaxRows, 32, kColumns + 1},
                                  {shaders::kLinearMaxRows + 1, 12, kColumns - 1}};

constexpr Edge kShuffledEdges[] = {{shaders::kLinearMaxRows + 1, shaders::kCpuLinearShuffledDepth, 8},
                                   {kShuffled / 2, 2 * shaders::kCpuLinearShuffledDepth, kColumns},
                                   {kShuffled - 1, 24, kColumns - 1},
                                   {kShuffled + 1, 264, 2 * kColumns + 1}};

/// With words of 16 and of 64, whose halves are twice as many elements, and both formats of blocks.
constexpr Edge kDepthEdges[] = {{1, 64, kDepthColumns - 1},
                                {kMostDepthRows, 64, kDepthColumns + 1},
                                {2, 32, kDepthColumns},
                                {1, 1024, 2 * kDepthColumns + 1},
                                {3, 96, 37}};

constexpr std::uint32_t kDepthTakes[] = {kOneProductTakes[0], kOneProductTakes[1], kNormedRowsTake[2]};
constexpr bool takes_norm(const graph::Linear&, const KernelContext&) { return true; }

}  // namespace

std::span<const Kernel<graph::Linear>> kernels(const graph::Linear&) {
    using enum ShaderRequirement;
    static constexpr Kernel<graph::Linear> kKernels[] = {
        {.traits = {.name = "cpu_columns_shuffled",
                    .edges = kShuffledEdges,
                    .takes = kAnyRowsTake,
                    .device = DeviceClass::cpu},
         .fits = fits_columns_shuffled,
         .plan = plan_linear<plan_columns_shuffled<Loads::shuffled>>},
        {.traits = {.name = "cpu_columns_vectors",
                    .edges = kShuffledEdges,
                    .takes = kAnyRowsTake,
                    .device = DeviceClass::cpu,
                    .needs = needs(addresses)},
         .fits = fits_columns_vectors,
         .plan = plan_linear<plan_columns_shuffled<Loads::vectors>>},
        {.traits = {.name = "cpu_columns", .edges = kColumnsEdges, .takes = kAnyRowsTake, .device = DeviceClass::cpu},
         .fits = fits_columns,
         .plan = plan_linear<plan_columns>},
        {.traits = {.name = "cpu_depth",
                    .edges = kDepthEdges,
                    .takes = kDepthTakes,
                    .device = DeviceClass::cpu,
                    .needs = needs(addresses)},
         .fits = fits_depth,
         .plan = plan_linear<plan_depth, takes_norm>},
    };
    return kKernels;
}

/// What unpacks weights in a format of their own is not unrolled along the row.
std::uint64_t unrolled_elements(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    return product.has_own_format ? 0 : product.in_width;
}

}  // namespace vkformer::vulkan::cpu_devices
