// SPDX-License-Identifier: MIT
#include "vulkan/kernels/linear_split.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "interface/linear.h"

namespace vkformer::vulkan {

std::uint32_t parts_of_depth(const graph::Linear& op, const Part& part, const KernelContext& context) {
    const Shape &x = context.graph.shape(op.x), &weight = context.graph.shape(op.weight);
    const Capabilities& device = context.device;
    const bool is_cpu = device.type == "cpu";
    constexpr std::uint64_t kWidestOnCpu = 32, kLeastDepthOnCpu = 64;
    if (weight.rank() == 3 || op.normed || (is_cpu && weight[0] > kWidestOnCpu)) return 0;
    if (context.graph.dtype(op.x) == DType::f16 && !device.storage16) return 0;  // as linear_combine
    // A large GPU has some 100 cores, each of which takes two workgroups of tiles, four of rows. A part is long enough that its sums,
    // which are written and read once more, are few beside what it reads.
    const std::uint64_t enough = x.row_count() > shaders::kLinearMaxRows ? 256 : 512;
    constexpr std::uint64_t kMostSplits = 16;
    const std::uint64_t groups = ceil_div(x.row_count(), part.rows) * ceil_div(weight[0], part.columns);
    const std::uint64_t splits =
        std::min({enough / groups, x.back() / (is_cpu ? kLeastDepthOnCpu : part.least_depth), kMostSplits});
    return splits < 2 ? 0 : static_cast<std::uint32_t>(splits);
}

Result<void> combine_parts(Dispatch& dispatch, std::uint32_t splits, const graph::Linear& op,
                           const KernelContext& context) {
    const DType dtype = context.graph.dtype(op.x);
    const std::uint64_t sums = context.graph.shape(op.x).row_count() * context.graph.shape(op.weight)[0];
    VKFORMER_TRY(const auto groups,
                 folded_grid(ceil_div(context.graph.shape(op.y).element_count(), shaders::kLinearCombineWorkgroup),
                             context.device));
    dispatch.bindings[shaders::kLinearPartial] = kScratch;
    dispatch.scratch_bytes += splits * sums * sizeof(float);
    Dispatch combine{
        .shader = variant_for("linear_combine", dtype, context.device),
        .bindings = {dispatch.bindings.begin(), dispatch.bindings.begin() + shaders::kLinearPartial + 1},
        .constants = {shaders::kLinearCombineWorkgroup, dispatch.constants[shaders::kLinearOperands],
                      dispatch.constants[shaders::kLinearEnd], dispatch.constants[shaders::kLinearActivation], 0,
                      splits},
        .push = dispatch.push,
        .groups = groups,
    };
    if (context.graph.dtype(op.y) != dtype) combine.shader += "_to_f32";
    dispatch.then = std::make_shared<const Dispatch>(std::move(combine));
    return {};
}

}  // namespace vkformer::vulkan
