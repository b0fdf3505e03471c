// SPDX-License-Identifier: MIT
/// What a kernel tells the recorder: which shader, with which constants, on which tensors, how many workgroups.
/// A kernel decides; it computes nothing and calls no Vulkan function.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "graph/graph.hpp"
#include "vkformer/result.hpp"
#include "vulkan/capabilities.hpp"

namespace vkformer::vulkan {

struct KernelContext {
    const graph::Graph& graph;
    const Capabilities& device;
    std::string_view variant{};  ///< which of variants(op, context) to plan; empty: the first
};

/// Up to 128 bytes (what every Vulkan device has) of push constants.
class PushConstants {
public:
    template <class T>
    void set(const T& values) {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 128 && sizeof(T) % 4 == 0);
        std::memcpy(bytes_.data(), &values, sizeof(T));
        size_ = sizeof(T);
    }
    /// Behind what was set, or in place of an earlier one. `offset`: a multiple of 8, at most 120.
    void set_address(std::size_t offset, std::uint64_t address) noexcept {
        std::memcpy(bytes_.data() + offset, &address, sizeof address);
        size_ = std::max(size_, offset + sizeof address);
    }
    std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), size_}; }

private:
    std::array<std::byte, 128> bytes_{};
    std::size_t size_ = 0;
};

/// Stands in Dispatch::bindings and ::addressed for memory of the program that holds nothing between nodes.
inline constexpr graph::Value kScratch{0xFFFFFFF0u};

/// Stands there for a word of the program that counts the tiles that workgroups have taken (shaders: lib/tiles.glsl).
inline constexpr graph::Value kTaken{0xFFFFFFF1u};

/// Workgroups that take `tiles` tiles: as many as threads could be there to run them.
constexpr std::array<std::uint32_t, 3> taking_workgroups(std::uint64_t tiles) noexcept {
    constexpr std::uint64_t kMostThreads = 64;
    return {static_cast<std::uint32_t>(std::min(tiles, kMostThreads)), 1, 1};
}

struct Dispatch {
    std::string shader;  ///< a name of shaders/manifest.json
    std::vector<graph::Value>
        bindings{};  ///< tensor at binding i of set 0; an absent operand is given as another tensor
    std::vector<std::uint32_t> constants{};  ///< specialization constant i
    PushConstants push{};
    /// What the shader reads by its address, which is written to `push` at that byte. Only with Capabilities::buffer_addresses.
    struct Addressed {
        graph::Value tensor;
        std::size_t push_offset;
    };
    std::vector<Addressed> addressed{};
    std::array<std::uint32_t, 3> groups{1, 1, 1};
    std::uint64_t scratch_bytes = 0;         ///< of kScratch
    std::shared_ptr<const Dispatch> then{};  ///< of the same node, behind a barrier
};

/// The manifest's name of the variant of `shader` for tensors stored as `dtype`: "layer_norm_f16" or, where the device has
/// no 16-bit storage, "layer_norm_f16_words".
std::string variant_for(std::string_view shader, DType dtype, const Capabilities& device);
/// Of a shader that only copies: `shader`_b32 for every dtype of 32 bits.
std::string copy_variant_for(std::string_view shader, DType dtype, const Capabilities& device);

/// Whether the shaders with loads of 64 bits run there, and are worth it: a CPU.
bool has_wide_loads(const Capabilities& device);
/// variant_for a shader of CPUs that has a flavour with wide loads: "linear_direct_wide_f16", or else "linear_direct_f16_words".
std::string wide_variant_for(std::string_view shader, DType dtype, const Capabilities& device);
/// Whether those run there that spread such loads over the lanes: their subgroups have kBroadcastLanes.
bool has_broadcast_lanes(const Capabilities& device);

/// `value`, or `stand_in` where it is absent: a binding that the shader does not touch still needs a buffer.
inline graph::Value or_else(graph::Value value, graph::Value stand_in) noexcept { return value ? value : stand_in; }

/// How many pieces of `size` cover `count`.
constexpr std::uint64_t ceil_div(std::uint64_t count, std::uint64_t size) noexcept { return (count + size - 1) / size; }

/// A grid of at least `count` workgroups folded into x and y (shaders: lib/grid.glsl).
/// Errors: MissingFeature where the device does not allow as many.
Result<std::array<std::uint32_t, 3>> folded_grid(std::uint64_t count, const Capabilities& device);

}  // namespace vkformer::vulkan
