// SPDX-License-Identifier: MIT
/// The kernels of every op, an array for each, made in a file or folder of the op's name. What runs where nothing was measured is the
/// first that fits; those of kernels/cpu_devices/, for Vulkan devices that are CPUs, come before them there.
#pragma once

#include <span>

#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

std::span<const Kernel<graph::Embedding>> kernels(const graph::Embedding&);
std::span<const Kernel<graph::PositionalEmbedding>> kernels(const graph::PositionalEmbedding&);
std::span<const Kernel<graph::Patchify>> kernels(const graph::Patchify&);
std::span<const Kernel<graph::Linear>> kernels(const graph::Linear&);
std::span<const Kernel<graph::Activate>> kernels(const graph::Activate&);
std::span<const Kernel<graph::SoftCap>> kernels(const graph::SoftCap&);
std::span<const Kernel<graph::Add>> kernels(const graph::Add&);
std::span<const Kernel<graph::Concat>> kernels(const graph::Concat&);
std::span<const Kernel<graph::LayerNorm>> kernels(const graph::LayerNorm&);
std::span<const Kernel<graph::RmsNorm>> kernels(const graph::RmsNorm&);
std::span<const Kernel<graph::Rope>> kernels(const graph::Rope&);
std::span<const Kernel<graph::GatedActivation>> kernels(const graph::GatedActivation&);
std::span<const Kernel<graph::RelativeBias>> kernels(const graph::RelativeBias&);
std::span<const Kernel<graph::AttentionScores>> kernels(const graph::AttentionScores&);
std::span<const Kernel<graph::AdditiveScores>> kernels(const graph::AdditiveScores&);
std::span<const Kernel<graph::MaskedSoftmax>> kernels(const graph::MaskedSoftmax&);
std::span<const Kernel<graph::LocalSoftmax>> kernels(const graph::LocalSoftmax&);
std::span<const Kernel<graph::WeightedSum>> kernels(const graph::WeightedSum&);
std::span<const Kernel<graph::Attention>> kernels(const graph::Attention&);
std::span<const Kernel<graph::DecodeAttention>> kernels(const graph::DecodeAttention&);
std::span<const Kernel<graph::RecurrentLayer>> kernels(const graph::RecurrentLayer&);
std::span<const Kernel<graph::RecurrentCell>> kernels(const graph::RecurrentCell&);
std::span<const Kernel<graph::CacheAppend>> kernels(const graph::CacheAppend&);
std::span<const Kernel<graph::SplitQkv>> kernels(const graph::SplitQkv&);
std::span<const Kernel<graph::CacheReorder>> kernels(const graph::CacheReorder&);
std::span<const Kernel<graph::Pool>> kernels(const graph::Pool&);
std::span<const Kernel<graph::LogSoftmax>> kernels(const graph::LogSoftmax&);
std::span<const Kernel<graph::ArgMax>> kernels(const graph::ArgMax&);
std::span<const Kernel<graph::TopK>> kernels(const graph::TopK&);
std::span<const Kernel<graph::RouteTopK>> kernels(const graph::RouteTopK&);
std::span<const Kernel<graph::Sample>> kernels(const graph::Sample&);
std::span<const Kernel<graph::MaskLogits>> kernels(const graph::MaskLogits&);
std::span<const Kernel<graph::MaskTimestamps>> kernels(const graph::MaskTimestamps&);
std::span<const Kernel<graph::CountTokens>> kernels(const graph::CountTokens&);
std::span<const Kernel<graph::Penalize>> kernels(const graph::Penalize&);
std::span<const Kernel<graph::BiasSequences>> kernels(const graph::BiasSequences&);
std::span<const Kernel<graph::GreedyStep>> kernels(const graph::GreedyStep&);
std::span<const Kernel<graph::BeamStep>> kernels(const graph::BeamStep&);

}  // namespace vkformer::vulkan
