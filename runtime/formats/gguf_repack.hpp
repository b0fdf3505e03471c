// SPDX-License-Identifier: MIT
/// GGUF's tensor types that no kernel reads, but another type holds all values of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/dtype.hpp"

namespace vkformer::formats {

/// What holds the values of a tensor of this ggml type: Q6_K those of IQ3_XXS and IQ3_S, Q4_0 those of TQ1_0 and TQ2_0. None for all
/// other types.
std::optional<DType> repacked_dtype(std::uint32_t ggml_type) noexcept;

/// `blocks` of that type, whole ones of 256 elements, as blocks of repacked_dtype(). Values are the same, bit for bit, but for this: where
/// the scale of an IQ3_XXS block is an odd multiple of 2^-24 below 2^-13, half of it is rounded, which float16 has no bit for.
void repack(std::uint32_t ggml_type, std::span<const std::byte> blocks, std::span<std::byte> repacked);

}  // namespace vkformer::formats
