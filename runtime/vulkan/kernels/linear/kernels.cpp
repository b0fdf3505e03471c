// SPDX-License-Identifier: MIT
#include "vulkan/kernels/linear/linear.hpp"
#include "vulkan/kernels/linear/matrices.hpp"
#include "vulkan/kernels/linear/split.hpp"

namespace vkformer::vulkan {
namespace {

// Edges: rows x in x out.
constexpr std::uint32_t kTileRows = shaders::kLinearTileRows, kTileColumns = shaders::kLinearTileColumns,
                        kTileDepth = shaders::kLinearTileDepth, kMaxRows = shaders::kLinearMaxRows;

/// At the edges of tile.comp's tiles, which tile_vec4.comp's of weights in a format of their own share.
constexpr Edge kLinearTileEdges[] = {{1, 1, 1},
                                     {kMaxRows + 1, 1, 1},
                                     {kTileRows - 1, kTileDepth - 1, kTileColumns + 1},
                                     {kTileRows + 1, kTileDepth + 1, kTileColumns - 1},
                                     {kTileRows, 2 * kTileDepth + 1, kTileColumns},
                                     {131, 257, 129}};

/// tile_vec4.comp with so many rows in its tiles.
template <std::uint32_t kRows>
constexpr Edge kLinearVec4Edges[] = {{kMaxRows + 1, 4, 1},
                                     {kMaxRows + 1, kTileDepth - 4, kTileColumns},
                                     {kRows - 1, kTileDepth + 4, kTileColumns + 1},
                                     {kRows, kTileDepth, kTileColumns - 1},
                                     {kRows + 3, 128, 131},
                                     {17, 2048, 8}};

constexpr Edge kLinearHalfEdges[] = {{kMaxRows + 1, kTileDepth - 4, kTileColumns + 1},
                                     {kTileRows, kTileDepth, kTileColumns},
                                     {kTileRows + 3, 2 * kTileDepth + 4, kTileColumns - 1}};

/// row.comp has 64 elements of the depth at a time.
constexpr Edge kLinearRowEdges[] = {{1, 1, 1},
                                    {1, shaders::kLinearRowWorkgroup - 1, shaders::kLinearRowColumns - 1},
                                    {1, shaders::kLinearRowWorkgroup + 1, shaders::kLinearRowColumns},
                                    {2, 2 * shaders::kLinearRowWorkgroup + 1, shaders::kLinearRowColumns + 1},
                                    {kMaxRows, 7, 67},
                                    {3, 2049, 1030}};

/// The columns of a workgroup are fewer where there are more rows.
constexpr Edge kLinearRowSumsEdges[] = {{1, 8, 1},
                                        {1, 64, 4 * shaders::kLinearMaxColumns - 1},
                                        {kMaxRows - 1, 16, 4 * shaders::kLinearMaxColumns},
                                        {kMaxRows, 32, 4 * shaders::kLinearMaxColumns + 1},
                                        {4, 64, 33},
                                        {1, 96, 37}};

/// Of one row, workgroups of 64, 128 and 256 invocations, and of these a second turn.
constexpr Edge kLinearInt8RowEdges[] = {{1, 32, 1},  {1, 1056, 37},      {1, 2112, 37},
                                        {3, 96, 67}, {kMaxRows, 64, 31}, {1, 8448, 37}};
constexpr Edge kLinearInt8TileEdges[] = {
    {kMaxRows + 1, 160, kTileColumns}, {kTileRows + 1, 32, kTileColumns + 1}, {kTileRows, 96, kTileColumns - 1}};

/// Where matrices are 8 x 8 or 16 x 16; dense, wide and large forms take what is not few rows of their own tiles.
constexpr Edge kLinearMatrixEdges[] = {{kMaxRows + 1, 8, 8}, {63, 40, 65}, {64, 32, 63}, {150, 264, 140}};
constexpr Edge kLinearFlatMatrixEdges[] = {{kMaxRows + 1, 8, 8}, {15, 40, 63}, {16, 264, 140}, {31, 64, 129}};
constexpr Edge kLinearLargeMatrixEdges[] = {{131, 40, 127}, {150, 264, 140}, {257, 64, 129}};

// The depth in parts, of equal length and not: as devices that are CPUs cut it, which need less of it, and as others do.
constexpr Edge kLinearSplitEdges[] = {{1, 328, 5},   {kMaxRows, 136, 32}, {20, 328, 24},
                                      {130, 136, 7}, {1, 1544, 70},       {20, 1036, 70}};
constexpr Edge kLinearMatrixSplitEdges[] = {
    {20, 328, 24}, {20, 1032, 70}, {9, 2056, 7}, {40, 1032, 70}, {131, 1032, 24}};

constexpr std::span<const Edge> edges_of(MatrixTile tile) {
    if (tile == MatrixTile::flat) return kLinearFlatMatrixEdges;
    return tile == MatrixTile::small || tile == MatrixTile::normal ? std::span<const Edge>(kLinearMatrixEdges)
                                                                   : kLinearLargeMatrixEdges;
}

template <MatrixTile kTile>
bool fits_form(const graph::Linear& op, const KernelContext& context) {
    return fits_matrix(kTile, op, context);
}
template <MatrixTile kTile>
Result<DispatchPlan> plan_form(const graph::Linear& op, Operand x, const KernelContext& context) {
    return plan_matrix(kTile, op, x, context);
}

template <MatrixTile kTile>
constexpr Kernel<graph::Linear> matrix_kernel(std::string_view name) {
    using enum ShaderRequirement;
    return {.traits = {.name = name,
                       .edges = edges_of(kTile),
                       .takes = kAnyRowsTake,
                       .rounding = Rounding::half_products,
                       .needs = needs(storage16, float16, coopmat),
                       .is_emulated_on_cpus = true},
            .fits = fits_form<kTile>,
            .plan = plan_linear<plan_form<kTile>>};
}

}  // namespace

/// Weights in a format of their own have the algorithms' names, too: a kernel plans the shader that unpacks them. The order is the choice
/// where nothing was measured, of which the first that fits is taken: what rounds more than float32 stands behind `tile`, which takes all.
std::span<const Kernel<graph::Linear>> kernels(const graph::Linear&) {
    using enum ShaderRequirement;
    using Rows = KernelTraits::Rows;
    static constexpr Kernel<graph::Linear> kKernels[] = {
        {.traits = {.name = "tile_vec4",
                    .edges = kLinearVec4Edges<kVec4LaneRows * shaders::kLinearVec4RowLanes>,
                    .takes = kAnyRowsTake,
                    .cpu_limit = 512},
         .fits = fits_tile_vec4,
         .plan = plan_linear<plan_tile_vec4>},
        {.traits = {.name = "tile_vec4_large",
                    .edges = kLinearVec4Edges<2 * kVec4LaneRows * shaders::kLinearVec4RowLanes>,
                    .takes = kAnyRowsTake,
                    .cpu_limit = 512},
         .fits = fits_tile_vec4,
         .plan = plan_linear<plan_tile_vec4_large>},
        {.traits = {.name = "row_vec4",
                    .edges = kLinearRowSumsEdges,
                    .takes = kNormedRowsTake,
                    .cpu_limit = 512,
                    .rows = Rows::few},
         .fits = fits_row_vec4,
         .plan = plan_linear<plan_row_vec4, row_sums_take_norm>},
        {.traits = {.name = "row", .edges = kLinearRowEdges, .takes = kNormedRowsTake, .rows = Rows::few},
         .fits = fits_row,
         .plan = plan_linear<plan_row, row_takes_norm>},
        {.traits = {.name = "tile",
                    .edges = kLinearTileEdges,
                    .takes = kAnyRowsTake,
                    .is_reference = true,
                    .rows = Rows::many},
         .plan = plan_linear<plan_tile>},
        {.traits = {.name = "row_int8",
                    .edges = kLinearInt8RowEdges,
                    .takes = kNormedRowsTake,
                    .rounding = Rounding::int8,
                    .needs = needs(int_dot),
                    .rows = Rows::few},
         .fits = fits_row_int8,
         .plan = plan_linear<plan_row_int8, row_sums_take_norm>},
        {.traits = {.name = "tile_int8",
                    .edges = kLinearInt8TileEdges,
                    .takes = kAnyRowsTake,
                    .rounding = Rounding::int8,
                    .needs = needs(int_dot),
                    .rows = Rows::many},
         .fits = fits_tile_int8,
         .plan = plan_linear<plan_tile_int8>},
        matrix_kernel<MatrixTile::normal>("matrix"),
        matrix_kernel<MatrixTile::small>("matrix_small"),
        matrix_kernel<MatrixTile::flat>("matrix_flat"),
        matrix_kernel<MatrixTile::dense>("matrix_dense"),
        matrix_kernel<MatrixTile::wide>("matrix_wide"),
        matrix_kernel<MatrixTile::large>("matrix_large"),
        {.traits = {.name = "tile_half",
                    .edges = kLinearHalfEdges,
                    .takes = kAnyRowsTake,
                    .rounding = Rounding::half_sums,
                    .needs = needs(storage16, float16),
                    .is_emulated_on_cpus = true},
         .fits = fits_tile_half,
         .plan = plan_linear<plan_tile_half>},
        {.traits = {.name = "split", .edges = kLinearSplitEdges, .takes = kOneProductTakes, .cpu_limit = 512},
         .fits = fits_split,
         .plan = plan_linear<plan_split>},
        {.traits = {.name = "matrix_split",
                    .edges = kLinearMatrixSplitEdges,
                    .takes = kOneProductTakes,
                    .rounding = Rounding::half_products,
                    .needs = needs(storage16, float16, coopmat),
                    .is_emulated_on_cpus = true},
         .fits = fits_matrix_split,
         .plan = plan_linear<plan_matrix_split>},
    };
    return kKernels;
}

}  // namespace vkformer::vulkan
