// SPDX-License-Identifier: MIT
/// A tensor of the application that has gaps, as a program's input or output.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/shape.hpp"
#include "vulkan/bound_dispatch.hpp"
#include "vulkan/kernels/kernel.hpp"
#include "vulkan/pipelines.hpp"

namespace vkformer::vulkan {

struct Slice;

/// Where the words of a block lie in a tensor: the first one, and those between neighbours along each dimension.
struct WordPlaces {
    std::uint64_t first = 0;
    std::array<std::uint64_t, 4> strides{};
};
/// The places of a tensor that is the block.
WordPlaces dense_places(const std::array<std::uint64_t, 4>& sizes) noexcept;

/// y[in_y] = x[in_x], a block of 32-bit words.
struct WordCopy {
    Operand x = graph::Value(), y = graph::Value();
    std::array<std::uint64_t, 4> sizes{1, 1, 1, 1};
    WordPlaces in_x, in_y;
};
/// Errors: MissingFeature (more workgroups than the device has).
Result<Dispatch> plan_word_copy(const WordCopy& copy, const Capabilities& device);

/// Records the dispatch of shaders/strided_copy/strided_copy.comp. Everything is made beforehand.
class StridedCopy {
public:
    enum class Direction : std::uint8_t {
        gather,   ///< strided → dense: an input
        scatter,  ///< dense → strided: an output
    };
    /// dense: a tensor of 32-bit words of that shape, rank at most 4. strides: words between neighbours along each dimension, as many as
    /// the rank; those of a scatter lead no two elements to the same place. Errors: InvalidArgument (strides that do not fit, or reach
    /// beyond `strided`), Vulkan, out of memory.
    static Result<StridedCopy> create(std::shared_ptr<Device> device, Pipelines& pipelines, Direction direction,
                                      const Slice& dense, const Shape& shape, const Slice& strided,
                                      std::span<const std::uint64_t> strides);
    /// Behind a barrier of the recording's own for what it reads and writes in compute shaders and transfers.
    void record(VkCommandBuffer commands) const;

private:
    std::shared_ptr<Device> device_;
    DescriptorSets sets_;
    BoundDispatch dispatch_;
};

}  // namespace vkformer::vulkan
