// SPDX-License-Identifier: MIT
/// An image of the application as a program's input.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "core/shape.hpp"
#include "vulkan/bound_dispatch.hpp"
#include "vulkan/pipelines.hpp"

namespace vkformer::vulkan {

struct Slice;

/// Borrowed; it outlives the program.
struct ImageSource {
    VkImageView view = VK_NULL_HANDLE;  ///< 2D; sampled: of a format that can be filtered linearly
    VkImageLayout layout = VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;  ///< in which it is when the program runs
    std::array<float, 3> mean{}, deviation{1, 1, 1};
    VkFormat storage_format = VK_FORMAT_UNDEFINED;  ///< of a storage image; undefined: the image is sampled
};

/// Records the dispatch of shaders/image_to_tensor/image_to_tensor.comp. Everything is made beforehand.
class ImageReader {
public:
    /// tensor f32 [1, channels, height, width], channels 1 or 3. Errors: InvalidArgument, ShapeMismatch, Vulkan, out of memory.
    static Result<ImageReader> create(std::shared_ptr<Device> device, const Pipelines& pipelines,
                                      const ImageSource& image, const Slice& tensor, const Shape& shape);
    /// The image must be readable by compute shaders; the tensor is written behind a barrier of the recording's own.
    void record(VkCommandBuffer commands) const;

private:
    Result<void> make_sampler();
    Result<void> make_set(const ImageSource& image, const Slice& tensor);
    Result<void> make_pipeline(const Pipelines& pipelines);

    Module module_;
    std::shared_ptr<Device> device_;
    UniqueSampler sampler_;  // absent for a storage image
    UniqueDescriptorSetLayout set_layout_;
    UniquePipelineLayout layout_;
    UniquePipeline pipeline_;
    DescriptorSets sets_;
    BoundDispatch dispatch_;
};

}  // namespace vkformer::vulkan
