// SPDX-License-Identifier: MIT
/// One function per op, each in a file of its own: shapes and capabilities → shader variant, constants, dispatch size.
/// Errors: MissingFeature where the device cannot run the op, with what it lacks.
#pragma once

#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

Result<Dispatch> plan_dispatch(const graph::Embedding& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::PositionalEmbedding& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Linear& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Activate& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Add& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Concat& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::LayerNorm& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::AttentionScores& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::AdditiveScores& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::MaskedSoftmax& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::LocalSoftmax& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::WeightedSum& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Attention& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::DecodeAttention& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::AttentionCombine& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::RecurrentLayer& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::RecurrentCell& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::CacheAppend& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::CacheReorder& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::LogSoftmax& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::ArgMax& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::TopK& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::MaskLogits& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::GreedyStep& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::BeamStep& op, const KernelContext& context);

}  // namespace vkformer::vulkan
