// SPDX-License-Identifier: MIT
/// A tensor of the application that has gaps, as a program's input or output.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/shape.hpp"
#include "vulkan/pipelines.hpp"

namespace vkformer::vulkan {

struct Slice;

/// Its shader, which no node of a graph runs.
inline constexpr const char* kStridedCopyShader = "strided_copy";

/// Records the dispatch of shaders/strided_copy.comp. Everything is made beforehand.
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
    Result<void> make_set(const Slice& source, const Slice& target);

    std::shared_ptr<Device> device_;
    Pipelines::Pipeline pipeline_;
    UniqueDescriptorPool pool_;
    VkDescriptorSet set_ = VK_NULL_HANDLE;
    PushConstants push_;
    std::array<std::uint32_t, 3> groups_{};
};

}  // namespace vkformer::vulkan
