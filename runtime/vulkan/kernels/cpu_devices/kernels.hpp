// SPDX-License-Identifier: MIT
/// The kernels for Vulkan devices that are CPUs, lavapipe and SwiftShader: a wing that nothing else of the library is built upon. Their
/// shaders lean on how LLVM compiles GLSL for lanes of a CPU. To take the wing away: CONTRIBUTING.md, "the wing".
#pragma once

#include <span>

#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan::cpu_devices {

template <class Op>
std::span<const Kernel<Op>> kernels(const Op&) {
    return {};
}
std::span<const Kernel<graph::Attention>> kernels(const graph::Attention&);
std::span<const Kernel<graph::DecodeAttention>> kernels(const graph::DecodeAttention&);
std::span<const Kernel<graph::ExpertLinear>> kernels(const graph::ExpertLinear&);
std::span<const Kernel<graph::GatedActivation>> kernels(const graph::GatedActivation&);
std::span<const Kernel<graph::LayerNorm>> kernels(const graph::LayerNorm&);
std::span<const Kernel<graph::Linear>> kernels(const graph::Linear&);
std::span<const Kernel<graph::LogSoftmax>> kernels(const graph::LogSoftmax&);
std::span<const Kernel<graph::MaskedSoftmax>> kernels(const graph::MaskedSoftmax&);
std::span<const Kernel<graph::RmsNorm>> kernels(const graph::RmsNorm&);
std::span<const Kernel<graph::Rope>> kernels(const graph::Rope&);

/// What KernelTraits::cpu_limit limits: elements of the rows along which a kernel of the op is unrolled. 0: none.
template <class Op>
std::uint64_t unrolled_elements(const Op&, const KernelContext&) {
    return 0;
}
std::uint64_t unrolled_elements(const graph::Linear& op, const KernelContext& context);
std::uint64_t unrolled_elements(const graph::Attention& op, const KernelContext& context);
std::uint64_t unrolled_elements(const graph::DecodeAttention& op, const KernelContext& context);

}  // namespace vkformer::vulkan::cpu_devices
