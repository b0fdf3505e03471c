// SPDX-License-Identifier: MIT
/// Edges that kernels of several ops have in common.
#pragma once

#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

/// Invocations of the kernels that go over elements.
inline constexpr std::uint32_t kElementsWorkgroup = 128;

/// Rows x width, where a workgroup takes kChunk elements, wherever their rows end.
template <std::uint32_t kChunk>
inline constexpr Edge kElementEdges[] = {{1, 1}, {1, kChunk - 1}, {1, kChunk}, {1, kChunk + 1}, {311, 331}};

/// Rows x width, where a workgroup of so many invocations takes a row.
template <std::uint32_t kWorkgroup>
inline constexpr Edge kRowEdges[] = {
    {1, 1}, {3, 2}, {2, kWorkgroup - 1}, {5, kWorkgroup}, {3, kWorkgroup + 1}, {2, 8 * kWorkgroup + 5}};

}  // namespace vkformer::vulkan
