// SPDX-License-Identifier: MIT
/// GGUF's tensor types that no kernel reads, but another type holds all values of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/dtype.hpp"

namespace vkformer::formats {

/// The type of which files may have further scales in tensors of their own.
inline constexpr std::uint32_t kNvfp4 = 40;

/// What holds the values of a tensor of this ggml type: Q6_K those of IQ3_XXS, IQ3_S, IQ1_S and IQ1_M, Q4_0 those of TQ1_0 and TQ2_0,
/// f32 those of IQ2_XXS, IQ2_XS and IQ2_S (no block format has their magnitudes 8, 25 and 43), f16 those of NVFP4. None for all other types.
std::optional<DType> repacked_dtype(std::uint32_t ggml_type) noexcept;

/// Whole blocks of that type in repacked_dtype(). Values are the same, bit for bit, but for this: where the scale of an IQ3_XXS block is an
/// odd multiple of 2^-24 below 2^-13, half of it is rounded, which float16 has no bit for; so is an eighth of one of IQ1_S and IQ1_M below
/// 2^-11. `scale`: what the values of NVFP4 are multiplied by, and then rounded to float16, besides; of other types it is 1.
void repack(std::uint32_t ggml_type, std::span<const std::byte> blocks, float scale, std::span<std::byte> repacked);

}  // namespace vkformer::formats
