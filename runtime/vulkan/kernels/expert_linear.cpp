// SPDX-License-Identifier: MIT
#include "vulkan/kernels/expert_linear.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "graph/builders.hpp"
#include "graph/weight_dtype.hpp"
#include "vulkan/kernels/weight_format.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::ExpertLinearPush) == 32);
static_assert(shaders::kExpertLinearMaxExperts == graph::kMostExperts);

ExpertProduct product_of(const graph::ExpertLinear& op, const KernelContext& context) {
    const graph::Graph& graph = context.graph;
    const Shape &y = graph.shape(op.y), &x = graph.shape(op.x), &weight = graph.shape(op.weight);
    const Piece piece = context.piece.whole_rows ? context.piece : Piece{.whole_rows = weight[0]};
    const std::uint64_t slots = y[1], out = y[2];
    return {.push = {.pairs = static_cast<std::uint32_t>(y[0] * slots),
                     .in_width = static_cast<std::uint32_t>(weight[1]),
                     .out_width = static_cast<std::uint32_t>(out),
                     .sharing = static_cast<std::uint32_t>(x.rank() == 3 ? 1 : slots),
                     .experts = static_cast<std::uint32_t>(piece.whole_rows / out),
                     .first = static_cast<std::uint32_t>(piece.first_row / out),
                     .count = static_cast<std::uint32_t>(weight[0] / out),
                     .tiles = 0},
            .product = {.batch = 1,
                        .rows = y[0],
                        .in_width = weight[1],
                        .out_width = out,
                        .dtype = graph.dtype(op.x),
                        .weight = graph.dtype(op.weight),
                        .has_own_format = graph::is_unpacked(graph.dtype(op.weight), graph.dtype(op.x))}};
}

Dispatch dispatch_experts(const graph::ExpertLinear& op, const ExpertProduct& p, Module module) {
    Dispatch dispatch{.module = module};
    dispatch.bind(shaders::kLinearX, op.x).bind(shaders::kLinearWeight, op.weight).bind(shaders::kLinearY, op.y);
    if (p.product.has_own_format) dispatch.set(shaders::kLinearWeightFormat, weight_format(p.product.weight));
    dispatch.push.set(p.push);
    return dispatch;
}

Result<DispatchPlan> plan_sorted(const graph::ExpertLinear& op, ExpertProduct p, Module module, LinearTile tile,
                                 const KernelContext& context) {
    // Every expert with rows, and those that there are not, may begin a tile that is not full.
    p.push.tiles =
        static_cast<std::uint32_t>(p.push.pairs / tile.rows + std::min<std::uint64_t>(p.push.pairs, p.push.count + 1));
    Dispatch sorting{.module = {&modules::expert_linear_group}};
    sorting.bind(shaders::kExpertLinearExperts, op.experts)
        .bind(shaders::kExpertLinearGroups, Operand::scratch())
        .set(shaders::kWorkgroupConstant, shaders::kExpertLinearGroupWorkgroup)
        .set(shaders::kExpertLinearTileRows, tile.rows);
    sorting.push.set(p.push);
    Dispatch product = dispatch_experts(op, p, module);
    product.bind(shaders::kExpertLinearGroups, Operand::scratch());
    VKFORMER_TRY(product.groups,
                 folded_grid(p.push.tiles * ceil_div(p.product.out_width, tile.columns), context.device));
    DispatchPlan plan(std::move(sorting));
    plan.dispatches.push_back(std::move(product));
    plan.scratch_bytes =
        (std::uint64_t{p.push.tiles} * shaders::kExpertLinearTileWords + p.push.pairs) * sizeof(std::uint32_t);
    return plan;
}

namespace {

/// Rows of an invocation of linear/tile_vec4.comp, where experts have few rows on average, and where they have many.
constexpr std::uint32_t kFewLaneRows = 4, kManyLaneRows = 8;
constexpr std::uint32_t kFewTileRows = kFewLaneRows * shaders::kLinearVec4RowLanes,
                        kManyTileRows = kManyLaneRows * shaders::kLinearVec4RowLanes;

bool loads_quads(const ExpertProduct& p, const Capabilities& device) {
    return p.product.in_width % 4 == 0 && (p.product.dtype == DType::f32 || device.storage16);
}

Result<DispatchPlan> plan_row(const graph::ExpertLinear& op, const KernelContext& context) {
    const ExpertProduct p = product_of(op, context);
    // The weights of a column take more registers where they are decoded in them.
    const bool is_broadcom = context.device.vendor_id == vendors::kBroadcom;
    const std::uint32_t columns = is_broadcom                ? vendors::kBroadcomArray
                                  : p.product.has_own_format ? has_fewest_registers(context.device) ? 2 : 4
                                                             : shaders::kLinearMaxColumns;
    const ShaderFamily& family = p.product.has_own_format         ? modules::expert_linear_quantized_row
                                 : loads_quads(p, context.device) ? modules::expert_linear_row_vec4
                                                                  : modules::expert_linear_row;
    Dispatch dispatch = dispatch_experts(op, p, {&family, storage_for(p.product.dtype, context.device)});
    VKFORMER_TRY(dispatch.groups, folded_grid(p.push.pairs * ceil_div(p.product.out_width, columns), context.device));
    dispatch.bind(shaders::kExpertLinearExperts, op.experts)
        .set(shaders::kWorkgroupConstant, shaders::kLinearSumsWorkgroup)
        .set(shaders::kLinearRows, 1)
        .set(shaders::kLinearColumns, columns);
    return DispatchPlan(std::move(dispatch));
}

bool fits_tile(const graph::ExpertLinear& op, const KernelContext& context) {
    const ExpertProduct p = product_of(op, context);
    return !p.product.has_few_rows() && (p.product.has_own_format || loads_quads(p, context.device));
}

/// Of the formats of lib/dequantize.glsl: the next sixteen of a tile takes twice the registers.
bool waits_in_two_vectors(DType weight) {
    return weight == DType::q3_k || weight == DType::q5_k || weight == DType::q6_k;
}

Result<DispatchPlan> plan_tile(const graph::ExpertLinear& op, const KernelContext& context) {
    const ExpertProduct p = product_of(op, context);
    const bool has_room = !has_fewest_registers(context.device) &&
                          (!has_few_registers(context.device) || !waits_in_two_vectors(p.product.weight));
    const std::uint32_t lane_rows =
        has_room && p.push.pairs / p.push.experts > kFewTileRows ? kManyLaneRows : kFewLaneRows;
    const LinearTile tile{std::uint64_t{lane_rows} * shaders::kLinearVec4RowLanes, shaders::kLinearTileColumns};
    const ShaderFamily& family =
        p.product.has_own_format ? modules::expert_linear_quantized_tile : modules::expert_linear_tile;
    VKFORMER_TRY(DispatchPlan plan,
                 plan_sorted(op, p, {&family, storage_for(p.product.dtype, context.device)}, tile, context));
    Dispatch& product = plan.dispatches.back();
    product.set(shaders::kWorkgroupConstant, shaders::kLinearTileWorkgroup)
        .set(shaders::kLinearRows, lane_rows)
        .set(shaders::kLinearUnrolledQuads, unrolled_quads(context.device))
        .set(shaders::kLinearAhead, fetches_ahead(context.device));
    if (!p.product.has_own_format) product.set(shaders::kLinearWholeSlices, has_whole_slices(p.product));
    return plan;
}

/// Rows x k x experts x in x out.
constexpr std::uint32_t kExpertFew = shaders::kLinearMaxRows, kExpertColumns = shaders::kLinearMaxColumns,
                        kExpertDepth = shaders::kLinearSumsWorkgroup, kExpertTileColumns = shaders::kLinearTileColumns;
constexpr Edge kExpertRowEdges[] = {{1, 1, 1, 1, 1},
                                    {1, 3, 5, kExpertDepth - 1, kExpertColumns - 1},
                                    {2, 2, 4, kExpertDepth + 1, kExpertColumns + 1},
                                    {3, 4, 9, 4 * kExpertDepth + 4, kExpertColumns},
                                    {kExpertFew, 2, 3, 1032, 3 * kExpertColumns + 5}};
constexpr Edge kExpertTileEdges[] = {{kExpertFew + 1, 1, 1, 4, 1},
                                     {kExpertFew + 1, 3, 70, 36, kExpertTileColumns - 1},
                                     {kFewTileRows, 1, 1, 16, kExpertTileColumns},
                                     {kFewTileRows + 1, 2, 3, 20, kExpertTileColumns + 1},
                                     {kManyTileRows, 2, 2, 64, 7},
                                     {kManyTileRows + 1, 2, 2, 68, 130}};

}  // namespace

std::span<const Kernel<graph::ExpertLinear>> kernels(const graph::ExpertLinear&) {
    static constexpr Kernel<graph::ExpertLinear> kKernels[] = {
        {.traits = {.name = "tile", .edges = kExpertTileEdges}, .fits = fits_tile, .plan = plan_tile},
        {.traits = {.name = "row", .edges = kExpertRowEdges, .is_reference = true}, .plan = plan_row}};
    return kKernels;
}

}  // namespace vkformer::vulkan
