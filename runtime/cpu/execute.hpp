// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <memory>
#include <span>

#include "cpu/backend.hpp"

namespace vkformer::cpu {

/// Executes one op. `tensors` by tensor id; views have none. Throws std::bad_alloc.
template <std::floating_point T>
void execute(const graph::Graph& graph, const graph::Op& op, std::span<const std::shared_ptr<CpuTensor<T>>> tensors);

extern template void execute<float>(const graph::Graph&, const graph::Op&,
                                    std::span<const std::shared_ptr<CpuTensor<float>>>);
extern template void execute<double>(const graph::Graph&, const graph::Op&,
                                     std::span<const std::shared_ptr<CpuTensor<double>>>);

}  // namespace vkformer::cpu
