// SPDX-License-Identifier: MIT
/// Products whose depth is cut into parts (shaders: lib/linear_split.glsl, linear_combine.comp). Called by linear.cpp and
/// linear_quantized.cpp.
#pragma once

#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

/// What a workgroup computes, and the shortest depth that is worth one.
struct Part {
    std::uint64_t rows, columns, least_depth;
};

/// How many parts fill the device, or 0 where there are enough tiles, the depth is too short, or op is a batch or norms x. Devices that are
/// CPUs are full with a few workgroups: there it is for narrow results only, which models have not, and tests.
std::uint32_t parts_of_depth(const graph::Linear& op, const Part& part, const KernelContext& context);

/// Has `dispatch`, which leaves the sums of `splits` parts in scratch memory, LinearPush::partial_before floats behind its beginning, add
/// them up and finish the results. Of scratch_bytes it gets those of the sums.
Result<void> combine_parts(Dispatch& dispatch, std::uint32_t splits, const graph::Linear& op,
                           const KernelContext& context);

}  // namespace vkformer::vulkan
