// SPDX-License-Identifier: MIT
#include "vulkan/kernels/attention/mask.hpp"

#include "lib/pages.h"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::AttentionMaskPush) == 20);
static_assert(shaders::kPageLen == graph::kPageLen);

std::uint32_t mask_bits(const graph::AttentionMask& mask) noexcept {
    std::uint32_t bits = 0;
    if (mask.causal) bits |= shaders::kMaskCausal;
    if (mask.window > 0) bits |= shaders::kMaskWindow;
    if (mask.key_lengths) bits |= shaders::kMaskKeyLengths;
    if (mask.starts) bits |= shaders::kMaskStarts;
    if (mask.additive) bits |= shaders::kMaskAdditive;
    if (mask.sinks) bits |= shaders::kScoreSinks;
    return bits;
}

shaders::AttentionMaskPush mask_push(const graph::AttentionMask& mask, std::uint64_t key_len,
                                     const graph::Graph& graph) {
    shaders::AttentionMaskPush push{
        .key_len = static_cast<std::uint32_t>(key_len),
        .window = mask.window,
        .additive_batch = 0,
        .additive_head = 0,
        .additive_query = 0,
    };
    if (mask.additive) {
        const Shape& shape = graph.shape(mask.additive);
        const auto stride = [&](std::size_t axis) {
            std::uint64_t elements = 1;
            for (std::size_t inner = axis + 1; inner < shape.rank(); ++inner) elements *= shape[inner];
            return shape[axis] == 1 ? 0u : static_cast<std::uint32_t>(elements);
        };
        push.additive_batch = stride(0);
        push.additive_head = stride(1);
        push.additive_query = stride(2);
    }
    return push;
}

}  // namespace vkformer::vulkan
