// SPDX-License-Identifier: MIT
/// One function per op, each in a file of its own: shapes and capabilities → shader variant, constants, dispatch size.
/// Errors: MissingFeature where the device cannot run the op, with what it lacks.
///
/// An op with several algorithms lists those that can run it with its shapes on the device: `variants(op, context)`. The
/// first is what runs where nothing was measured, and needs no optional feature; every op has one that is called "plain". The
/// names are stable: verdicts, --variant and reports use them.
#pragma once

#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

using VariantNames = std::vector<std::string_view>;

template <class Op>
VariantNames variants(const Op&, const KernelContext&) {
    return {"plain"};
}
VariantNames variants(const graph::Linear& op, const KernelContext& context);
VariantNames variants(const graph::Attention& op, const KernelContext& context);
VariantNames variants(const graph::LayerNorm& op, const KernelContext& context);
VariantNames variants(const graph::RmsNorm& op, const KernelContext& context);
VariantNames variants(const graph::MaskedSoftmax& op, const KernelContext& context);
VariantNames variants(const graph::LogSoftmax& op, const KernelContext& context);
VariantNames variants(const graph::Rope& op, const KernelContext& context);
VariantNames variants(const graph::GatedActivation& op, const KernelContext& context);
VariantNames variants(const graph::DecodeAttention& op, const KernelContext& context);

/// `wanted`, or the first of `names` where that is empty. Errors: InvalidArgument (not one of them), with those that there are.
Result<std::string_view> pick_variant(std::string_view op, const VariantNames& names, std::string_view wanted);
template <class Op>
Result<std::string_view> chosen_variant(const Op& op, const KernelContext& context) {
    return pick_variant(Op::kName, variants(op, context), context.variant);
}

Result<Dispatch> plan_dispatch(const graph::Embedding& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::PositionalEmbedding& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Linear& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Activate& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::RelativeBias& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::SoftCap& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Add& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Concat& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Patchify& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::LayerNorm& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::RmsNorm& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Rope& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::GatedActivation& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::AttentionScores& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::AdditiveScores& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::MaskedSoftmax& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::LocalSoftmax& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::WeightedSum& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Attention& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::DecodeAttention& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::RecurrentLayer& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::RecurrentCell& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::CacheAppend& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::SplitQkv& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::CacheReorder& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Pool& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::LogSoftmax& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::ArgMax& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::TopK& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Sample& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::MaskLogits& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::MaskTimestamps& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::CountTokens& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::Penalize& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::GreedyStep& op, const KernelContext& context);
Result<Dispatch> plan_dispatch(const graph::BeamStep& op, const KernelContext& context);

}  // namespace vkformer::vulkan
