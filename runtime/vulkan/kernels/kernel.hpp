// SPDX-License-Identifier: MIT
/// A kernel is a value: what it is called, where it runs, what it takes, how it rounds, and the plan of its dispatches. It computes nothing
/// and calls no Vulkan function. Whoever wants a list of kernels reads the arrays of kernels.hpp; nothing compares their names.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/ceil_div.hpp"
#include "graph/fusion.hpp"
#include "graph/graph.hpp"
#include "graph/rounding.hpp"
#include "shader_table.hpp"
#include "vkformer/result.hpp"
#include "vulkan/capabilities.hpp"
#include "vulkan/kernels/dispatch.hpp"

namespace vkformer::vulkan {

/// The devices that a kernel is written for.
enum class DeviceClass : std::uint8_t {
    gpu,  ///< all devices: what is written for GPUs is right on the others, too
    cpu,  ///< Vulkan devices that are CPUs, and no others
};

using graph::Rounding;

/// Which rows of a larger weight the op at hand has as its weight or table. A kernel decides as it would for the whole, so that pieces give
/// the very bits that one piece gives.
struct Piece {
    std::uint64_t first_row = 0;
    std::uint64_t whole_rows = 0;  ///< 0: the weight is whole
};

struct KernelContext {
    const graph::Graph& graph;
    const Capabilities& device;
    Piece piece{};
};

/// Bits of what a kernel needs: needs(ShaderRequirement::float16, …).
template <class... Requirements>
constexpr std::uint32_t needs(Requirements... requirements) noexcept {
    return (bit_of(requirements) | ... | 0u);
}
/// The bits that a device has and for which this build has modules.
std::uint32_t provided_by(const Capabilities& device) noexcept;

/// The sizes of a problem, in the order in which the cases of its op name them (tools/cases): rows, in, out of a product.
class Edge {
public:
    template <std::convertible_to<std::uint32_t>... Numbers>
    constexpr Edge(Numbers... numbers) : numbers_{static_cast<std::uint32_t>(numbers)...}, count_(sizeof...(numbers)) {}
    constexpr std::size_t size() const noexcept { return count_; }
    constexpr const std::uint32_t* begin() const noexcept { return numbers_.data(); }
    constexpr const std::uint32_t* end() const noexcept { return numbers_.data() + count_; }

private:
    std::array<std::uint32_t, 7> numbers_;
    std::uint32_t count_;
};

/// Storage buffers that the smallest devices allow a shader: Raspberry Pi's V3D. (Vulkan itself promises 4.)
constexpr std::uint32_t kFewStorageBuffers = 8;

/// What an op's lists, verdict files and reports know of a kernel.
struct KernelTraits {
    std::string_view name;  ///< stable: verdict files and --variant use it
    /// The problems that show it: at the edges of what its workgroups take, below and above them, and where its loops end. It fits each in
    /// some dtypes on some device. Tests run them in all forms of the op's cases with as many sizes, and all that fit.
    std::span<const Edge> edges;
    /// What it does besides its op in the same dispatch: sets of bits of graph::Extra, any part of each. The passes fuse what a kernel that
    /// fits takes. Other kernels run the fused node as well: a norm that they take not is a dispatch before.
    std::span<const std::uint32_t> takes;
    DeviceClass device = DeviceClass::gpu;
    Rounding rounding = Rounding::none;
    std::uint32_t needs = 0;  ///< bits of ShaderRequirement, beyond what its operands' dtypes need
    /// Storage buffers that one of its dispatches binds at most. Devices that allow fewer, but for those that allow fewer than
    /// kFewStorageBuffers, take other kernels.
    std::uint32_t storage_buffers = kFewStorageBuffers;
    /// Runs with every shape on every device: what the others are measured against. Every op has exactly one.
    bool is_reference = false;
    /// Elements of a row above which compilers for CPUs take many seconds, since its loops are unrolled: devices that are CPUs take it
    /// for shorter rows only. 0: no limit. The rows that it is about: unrolled_elements() of kernels/cpu_devices/kernels.hpp.
    std::uint32_t cpu_limit = 0;
    /// Done in hardware that CPUs have not: right there, and slow.
    bool is_emulated_on_cpus = false;
    /// The rows that a product's kernel is written for. One for many leaves most of its tiles empty where one for few fits.
    enum class Rows : std::uint8_t { any, few, many } rows = Rows::any;
};

template <class Op>
struct Kernel {
    KernelTraits traits;
    /// Whether it takes the operands' shapes and dtypes on the device; absent: it takes all.
    bool (*fits)(const Op& op, const KernelContext& context) = nullptr;
    Result<DispatchPlan> (*plan)(const Op& op, const KernelContext& context);
};

/// How float tensors of a dtype are stored for shaders: as halves, or two halves in a word where the device has no 16-bit storage.
inline Storage storage_for(DType dtype, const Capabilities& device) noexcept {
    if (dtype != DType::f16) return Storage::f32;
    return device.storage16 ? Storage::f16 : Storage::f16_words;
}
/// The same of a shader that only copies: any 32 bits.
inline Storage copy_storage_for(DType dtype, const Capabilities& device) noexcept {
    return dtype == DType::f16 ? storage_for(dtype, device) : Storage::b32;
}
/// The form of `storage` whose results are float32.
constexpr Storage with_float_results(Storage storage) noexcept {
    if (storage == Storage::f16) return Storage::f16_to_f32;
    return storage == Storage::f16_words ? Storage::f16_words_to_f32 : storage;
}

/// `value`, or `stand_in` where it is absent: a binding that the shader does not touch still needs a buffer.
inline graph::Value or_else(graph::Value value, graph::Value stand_in) noexcept { return value ? value : stand_in; }

/// A grid of at least `count` workgroups folded into x and y (shaders: lib/grid.glsl).
/// Errors: MissingFeature where the device does not allow as many.
Result<std::array<std::uint32_t, 3>> folded_grid(std::uint64_t count, const Capabilities& device);

}  // namespace vkformer::vulkan
