// SPDX-License-Identifier: MIT
#include "vulkan/image_reader.hpp"

#include <algorithm>
#include <cmath>

#include "core/try.hpp"
#include "image_to_tensor/contract.h"
#include "vulkan/kernels/kernel.hpp"
#include "vulkan/memory.hpp"
#include "vulkan/shader_module.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::ImageToTensorPush) == 36);

constexpr std::uint32_t kImageWorkgroup = 64;
constexpr const char* kDoing = "preparing an image as input";

/// The family that reads images of the format; null where there is none.
const ShaderFamily* family_for(VkFormat storage_format) {
    switch (storage_format) {
    case VK_FORMAT_UNDEFINED: return &modules::image_to_tensor;
    case VK_FORMAT_R8G8B8A8_UNORM: return &modules::image_to_tensor_rgba8;
    case VK_FORMAT_R16G16B16A16_SFLOAT: return &modules::image_to_tensor_rgba16f;
    case VK_FORMAT_R32G32B32A32_SFLOAT: return &modules::image_to_tensor_rgba32f;
    default: return nullptr;
    }
}

Result<void> check(const ImageSource& image, const Shape& shape) {
    if (shape.rank() != 4 || shape[0] != 1 || (shape[1] != 1 && shape[1] != 3))
        return Error{ErrorCode::ShapeMismatch,
                     "an image becomes a tensor [1, 1 or 3, height, width], the input has shape " + to_string(shape)};
    if (!image.view) return Error{ErrorCode::InvalidArgument, "an image binding has no view"};
    const bool is_stored = image.storage_format != VK_FORMAT_UNDEFINED;
    if (!family_for(image.storage_format))
        return Error{ErrorCode::InvalidArgument,
                     "a storage image is read in the formats R8G8B8A8_UNORM, R16G16B16A16_SFLOAT and "
                     "R32G32B32A32_SFLOAT, not in VkFormat " +
                         std::to_string(image.storage_format) + "; sample it instead"};
    if (is_stored && image.layout != VK_IMAGE_LAYOUT_GENERAL)
        return Error{ErrorCode::InvalidArgument,
                     "a storage image is read in the layout GENERAL, not " + std::to_string(image.layout)};
    if (image.layout != VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL && image.layout != VK_IMAGE_LAYOUT_GENERAL)
        return Error{
            ErrorCode::InvalidArgument,
            "an image is read in the layout SHADER_READ_ONLY_OPTIMAL or GENERAL, not " + std::to_string(image.layout)};
    const bool is_usable = std::ranges::all_of(image.mean, [](float m) { return std::isfinite(m); }) &&
                           std::ranges::all_of(image.deviation, [](float d) { return std::isfinite(d) && d != 0; });
    if (!is_usable)
        return Error{ErrorCode::InvalidArgument, "the means and deviations of an image are finite, deviations not 0"};
    return {};
}

}  // namespace

Result<ImageReader> ImageReader::create(std::shared_ptr<Device> device, const Pipelines& pipelines,
                                        const ImageSource& image, const Slice& tensor, const Shape& shape) {
    VKFORMER_CHECK(check(image, shape));
    ImageReader reader;
    reader.module_ = {family_for(image.storage_format)};
    reader.device_ = std::move(device);
    VKFORMER_TRY(reader.dispatch_.groups,
                 folded_grid(ceil_div(shape[2] * shape[3], kImageWorkgroup), reader.device_->capabilities()));
    reader.dispatch_.push.set(shaders::ImageToTensorPush{.channels = static_cast<std::uint32_t>(shape[1]),
                                                         .height = static_cast<std::uint32_t>(shape[2]),
                                                         .width = static_cast<std::uint32_t>(shape[3]),
                                                         .mean_r = image.mean[0],
                                                         .mean_g = image.mean[1],
                                                         .mean_b = image.mean[2],
                                                         .scale_r = 1 / image.deviation[0],
                                                         .scale_g = 1 / image.deviation[1],
                                                         .scale_b = 1 / image.deviation[2]});
    if (image.storage_format == VK_FORMAT_UNDEFINED) VKFORMER_CHECK(reader.make_sampler());
    VKFORMER_CHECK(reader.make_set(image, tensor));
    VKFORMER_CHECK(reader.make_pipeline(pipelines));
    return reader;
}

Result<void> ImageReader::make_sampler() {
    const Device& d = *device_;
    const VkSamplerCreateInfo sampler_info{.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO,
                                           .magFilter = VK_FILTER_LINEAR,
                                           .minFilter = VK_FILTER_LINEAR,
                                           .addressModeU = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
                                           .addressModeV = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
                                           .addressModeW = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE};
    VkSampler sampler = VK_NULL_HANDLE;
    if (const VkResult r = d.vk().vkCreateSampler(d.handle(), &sampler_info, nullptr, &sampler); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateSampler", kDoing);
    sampler_ = UniqueSampler(d.vk(), d.handle(), sampler);
    return {};
}

Result<void> ImageReader::make_set(const ImageSource& image, const Slice& tensor) {
    const Device& d = *device_;
    const VkDescriptorType image_type =
        sampler_.get() ? VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER : VK_DESCRIPTOR_TYPE_STORAGE_IMAGE;
    const VkDescriptorSetLayoutBinding bindings[] = {
        {.binding = shaders::kImageToTensorImage,
         .descriptorType = image_type,
         .descriptorCount = 1,
         .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT},
        {.binding = shaders::kImageToTensorY,
         .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
         .descriptorCount = 1,
         .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT},
    };
    const VkDescriptorSetLayoutCreateInfo layout_info{
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 2, .pBindings = bindings};
    VkDescriptorSetLayout layout = VK_NULL_HANDLE;
    if (const VkResult r = d.vk().vkCreateDescriptorSetLayout(d.handle(), &layout_info, nullptr, &layout);
        r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateDescriptorSetLayout", kDoing);
    set_layout_ = UniqueDescriptorSetLayout(d.vk(), d.handle(), layout);

    const VkDescriptorPoolSize sizes[] = {{image_type, 1}, {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1}};
    VKFORMER_TRY(sets_, DescriptorSets::create(d, 1, sizes, kDoing));
    const DescriptorSets::Buffer buffer{shaders::kImageToTensorY, tensor};
    VKFORMER_TRY(dispatch_.set, sets_.make(layout, {&buffer, 1}));

    const VkDescriptorImageInfo image_info{
        .sampler = sampler_.get(), .imageView = image.view, .imageLayout = image.layout};
    const VkWriteDescriptorSet write{.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                     .dstSet = dispatch_.set,
                                     .dstBinding = shaders::kImageToTensorImage,
                                     .descriptorCount = 1,
                                     .descriptorType = image_type,
                                     .pImageInfo = &image_info};
    d.vk().vkUpdateDescriptorSets(d.handle(), 1, &write, 0, nullptr);
    return {};
}

Result<void> ImageReader::make_pipeline(const Pipelines& pipelines) {
    const Device& d = *device_;
    const VkDescriptorSetLayout set_layout = set_layout_.get();
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                    PushConstants::kOwn + sizeof(shaders::ImageToTensorPush)};
    const VkPipelineLayoutCreateInfo info{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                          .setLayoutCount = 1,
                                          .pSetLayouts = &set_layout,
                                          .pushConstantRangeCount = 1,
                                          .pPushConstantRanges = &range};
    VkPipelineLayout layout = VK_NULL_HANDLE;
    if (const VkResult r = d.vk().vkCreatePipelineLayout(d.handle(), &info, nullptr, &layout); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreatePipelineLayout", kDoing);
    layout_ = UniquePipelineLayout(d.vk(), d.handle(), layout);
    Dispatch dispatch{.module = module_};
    dispatch.set(shaders::kWorkgroupConstant, kImageWorkgroup);
    VKFORMER_TRY(auto made, pipelines.compile(dispatch, layout));
    pipeline_ = std::move(made.pipeline);
    dispatch_.pipeline = pipeline_.get();
    dispatch_.layout = layout_.get();
    return {};
}

void ImageReader::record(VkCommandBuffer commands) const {
    const DeviceTable& vk = device_->vk();
    const VkMemoryBarrier barrier{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                  .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                                  .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                            VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
    device_->begin_label(commands, module_.name());
    dispatch_.record(vk, commands);
    device_->end_label(commands);
}

}  // namespace vkformer::vulkan
