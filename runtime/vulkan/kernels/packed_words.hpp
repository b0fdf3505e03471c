// SPDX-License-Identifier: MIT
/// Two operands of 32-bit words that a shader reads from one binding: not every device allows it one for each.
#pragma once

#include <utility>

#include "core/try.hpp"
#include "vulkan/kernels/kernel.hpp"
#include "vulkan/strided_copy.hpp"

namespace vkformer::vulkan {

/// What to bind for `first` and `second`, which lie behind one another: of which one is there, that one; `stand_in` where none is.
inline Operand packed_words(graph::Value first, graph::Value second, graph::Value stand_in) {
    return first && second ? Operand::scratch() : Operand(or_else(first, or_else(second, stand_in)));
}

/// The plan of a dispatch with packed_words(). Only where both are there, they are copied before, into scratch memory that the dispatch uses
/// for nothing else. Errors: MissingFeature (more workgroups than the device has).
inline Result<DispatchPlan> plan_packed(graph::Value first, graph::Value second, Dispatch dispatch,
                                        const KernelContext& context) {
    DispatchPlan plan;
    for (const graph::Value x : {first, second}) {
        if (!first || !second) break;
        WordCopy copy{.x = x, .y = Operand::scratch(), .sizes = {1, 1, 1, context.graph.shape(x).element_count()}};
        copy.in_x = copy.in_y = dense_places(copy.sizes);
        copy.in_y.first = plan.scratch_bytes / 4;
        VKFORMER_TRY(plan.dispatches.emplace_back(), plan_word_copy(copy, context.device));
        plan.scratch_bytes += 4 * copy.sizes[3];
    }
    plan.dispatches.push_back(std::move(dispatch));
    return plan;
}

}  // namespace vkformer::vulkan
