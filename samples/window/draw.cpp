// SPDX-License-Identifier: MIT
#include "draw.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "rectangle_frag.h"
#include "rectangle_vert.h"
#include "text_frag.h"
#include "text_vert.h"

namespace sample {
namespace {

[[noreturn]] void fail_ttf(const char* what) {
    std::fprintf(stderr, "%s: %s\n", what, TTF_GetError());
    std::exit(1);
}

SDL_Color sdl_color(Color color) {
    const auto byte = [](float value) { return static_cast<Uint8>(value * 255.0f + 0.5f); };
    return {byte(color.r), byte(color.g), byte(color.b), byte(color.a)};
}

}  // namespace

Rectangles::Rectangles(const Window& window, std::uint32_t capacity) : window_(window), capacity_(capacity) {
    buffer_ = window.make_host_buffer(VkDeviceSize{capacity} * sizeof(Instance), VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
    const VkPushConstantRange size = {VK_SHADER_STAGE_VERTEX_BIT, 0, 2 * sizeof(float)};
    VkPipelineLayoutCreateInfo layout = {};
    layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout.pushConstantRangeCount = 1;
    layout.pPushConstantRanges = &size;
    check(vkCreatePipelineLayout(window.device(), &layout, nullptr, &layout_), "vkCreatePipelineLayout");

    const VkVertexInputBindingDescription binding = {0, sizeof(Instance), VK_VERTEX_INPUT_RATE_INSTANCE};
    const std::array<VkVertexInputAttributeDescription, 3> attributes = {{
        {0, 0, VK_FORMAT_R32G32B32A32_SFLOAT, offsetof(Instance, x)},
        {1, 0, VK_FORMAT_R32G32B32A32_SFLOAT, offsetof(Instance, color)},
        {2, 0, VK_FORMAT_R32_SFLOAT, offsetof(Instance, angle)},
    }};
    VkPipelineVertexInputStateCreateInfo input = {};
    input.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO;
    input.vertexBindingDescriptionCount = 1;
    input.pVertexBindingDescriptions = &binding;
    input.vertexAttributeDescriptionCount = static_cast<std::uint32_t>(attributes.size());
    input.pVertexAttributeDescriptions = attributes.data();
    pipeline_ = window.make_pipeline(
        {.vertex = rectangle_vert, .fragment = rectangle_frag, .layout = layout_, .vertex_input = &input});
}

Rectangles::~Rectangles() {
    vkDestroyPipeline(window_.device(), pipeline_, nullptr);
    vkDestroyPipelineLayout(window_.device(), layout_, nullptr);
    window_.destroy(buffer_);
}

void Rectangles::add(float x, float y, float width, float height, Color color, float angle) {
    if (instances_.size() < capacity_) instances_.push_back({x, y, width, height, color, angle});
}

void Rectangles::record(VkCommandBuffer commands) {
    if (instances_.empty()) return;
    std::memcpy(buffer_.mapped, instances_.data(), instances_.size() * sizeof(Instance));
    const std::array<float, 2> size = {window_.width(), window_.height()};
    const VkDeviceSize offset = 0;
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline_);
    vkCmdPushConstants(commands, layout_, VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof size, size.data());
    vkCmdBindVertexBuffers(commands, 0, 1, &buffer_.buffer, &offset);
    vkCmdDraw(commands, 4, static_cast<std::uint32_t>(instances_.size()), 0, 0);
    instances_.clear();
}

TextLayer::TextLayer(const Window& window, std::string font_path) : window_(window), font_path_(std::move(font_path)) {
    if (TTF_Init() != 0) fail_ttf("TTF_Init");
    make_texture();
    make_descriptor_set();
    VkPipelineLayoutCreateInfo layout = {};
    layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout.setLayoutCount = 1;
    layout.pSetLayouts = &set_layout_;
    check(vkCreatePipelineLayout(window.device(), &layout, nullptr, &layout_), "vkCreatePipelineLayout");
    pipeline_ = window.make_pipeline({.vertex = text_vert, .fragment = text_frag, .layout = layout_});
}

TextLayer::~TextLayer() {
    const VkDevice device = window_.device();
    vkDestroyPipeline(device, pipeline_, nullptr);
    vkDestroyPipelineLayout(device, layout_, nullptr);
    vkDestroyDescriptorPool(device, pool_, nullptr);
    vkDestroyDescriptorSetLayout(device, set_layout_, nullptr);
    vkDestroySampler(device, sampler_, nullptr);
    vkDestroyImageView(device, view_, nullptr);
    vkDestroyImage(device, image_, nullptr);
    vkFreeMemory(device, memory_, nullptr);
    SDL_FreeSurface(canvas_);
    window_.destroy(staging_);
    for (const auto& [size, font] : fonts_) TTF_CloseFont(font);
    TTF_Quit();
}

void TextLayer::make_texture() {
    const VkDevice device = window_.device();
    const VkExtent3D extent = {static_cast<std::uint32_t>(window_.width()),
                               static_cast<std::uint32_t>(window_.height()), 1};
    staging_ =
        window_.make_host_buffer(VkDeviceSize{extent.width} * extent.height * 4, VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
    canvas_ = SDL_CreateRGBSurfaceWithFormatFrom(staging_.mapped, static_cast<int>(extent.width),
                                                 static_cast<int>(extent.height), 32,
                                                 static_cast<int>(extent.width * 4), SDL_PIXELFORMAT_RGBA32);
    if (canvas_ == nullptr) fail_ttf("SDL_CreateRGBSurfaceWithFormatFrom");

    VkImageCreateInfo image = {};
    image.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
    image.imageType = VK_IMAGE_TYPE_2D;
    image.format = VK_FORMAT_R8G8B8A8_UNORM;
    image.extent = extent;
    image.mipLevels = image.arrayLayers = 1;
    image.samples = VK_SAMPLE_COUNT_1_BIT;
    image.usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_SAMPLED_BIT;
    check(vkCreateImage(device, &image, nullptr, &image_), "vkCreateImage");
    VkMemoryRequirements needs = {};
    vkGetImageMemoryRequirements(device, image_, &needs);
    memory_ = window_.allocate(needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    check(vkBindImageMemory(device, image_, memory_, 0), "vkBindImageMemory");
    VkImageViewCreateInfo view = {};
    view.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO;
    view.image = image_;
    view.viewType = VK_IMAGE_VIEW_TYPE_2D;
    view.format = image.format;
    view.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    check(vkCreateImageView(device, &view, nullptr, &view_), "vkCreateImageView");
    VkSamplerCreateInfo sampler = {};
    sampler.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO;
    check(vkCreateSampler(device, &sampler, nullptr, &sampler_), "vkCreateSampler");
}

void TextLayer::make_descriptor_set() {
    const VkDevice device = window_.device();
    VkDescriptorSetLayoutBinding binding = {};
    binding.descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER;
    binding.descriptorCount = 1;
    binding.stageFlags = VK_SHADER_STAGE_FRAGMENT_BIT;
    VkDescriptorSetLayoutCreateInfo layout = {};
    layout.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    layout.bindingCount = 1;
    layout.pBindings = &binding;
    check(vkCreateDescriptorSetLayout(device, &layout, nullptr, &set_layout_), "vkCreateDescriptorSetLayout");
    const VkDescriptorPoolSize size = {binding.descriptorType, 1};
    VkDescriptorPoolCreateInfo pool = {};
    pool.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    pool.maxSets = pool.poolSizeCount = 1;
    pool.pPoolSizes = &size;
    check(vkCreateDescriptorPool(device, &pool, nullptr, &pool_), "vkCreateDescriptorPool");
    VkDescriptorSetAllocateInfo set = {};
    set.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    set.descriptorPool = pool_;
    set.descriptorSetCount = 1;
    set.pSetLayouts = &set_layout_;
    check(vkAllocateDescriptorSets(device, &set, &set_), "vkAllocateDescriptorSets");
    const VkDescriptorImageInfo image = {sampler_, view_, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL};
    VkWriteDescriptorSet write = {};
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = set_;
    write.descriptorCount = 1;
    write.descriptorType = binding.descriptorType;
    write.pImageInfo = &image;
    vkUpdateDescriptorSets(device, 1, &write, 0, nullptr);
}

TTF_Font* TextLayer::font(int size) {
    TTF_Font*& result = fonts_[size];
    if (result == nullptr) result = TTF_OpenFont(font_path_.c_str(), size);
    if (result == nullptr) fail_ttf(font_path_.c_str());
    return result;
}

void TextLayer::clear() {
    SDL_FillRect(canvas_, nullptr, 0);
    is_changed_ = true;
}

SDL_Surface* TextLayer::render(const std::string& text, int size, Color color) {
    SDL_Surface* drawn = TTF_RenderUTF8_Blended(font(size), text.c_str(), sdl_color(color));
    if (drawn == nullptr) fail_ttf("TTF_RenderUTF8_Blended");
    return drawn;
}

// Frees `drawn`.
void TextLayer::place(SDL_Surface* drawn, float x, float y) {
    SDL_SetSurfaceBlendMode(drawn, SDL_BLENDMODE_NONE);  // colour and coverage as they are: the shader blends
    SDL_Rect target = {static_cast<int>(x), static_cast<int>(y), 0, 0};
    SDL_BlitSurface(drawn, nullptr, canvas_, &target);
    SDL_FreeSurface(drawn);
    is_changed_ = true;
}

void TextLayer::draw(float x, float y, const std::string& text, int size, Color color) {
    if (!text.empty()) place(render(text, size, color), x, y);
}

void TextLayer::draw_upwards(float x, float y, const std::string& text, int size, Color color) {
    if (text.empty()) return;
    SDL_Surface* level = render(text, size, color);
    SDL_Surface* turned = SDL_CreateRGBSurfaceWithFormat(0, level->h, level->w, 32, level->format->format);
    if (turned == nullptr) fail_ttf("SDL_CreateRGBSurfaceWithFormat");
    const auto pixel = [](SDL_Surface* surface, int column, int row) -> Uint32& {
        return static_cast<Uint32*>(surface->pixels)[row * surface->pitch / 4 + column];
    };
    for (int row = 0; row < level->h; ++row) {
        for (int column = 0; column < level->w; ++column) {
            pixel(turned, row, level->w - 1 - column) = pixel(level, column, row);
        }
    }
    const float top = y - static_cast<float>(level->w);
    SDL_FreeSurface(level);
    place(turned, x, top);
}

float TextLayer::width(const std::string& text, int size) {
    int result = 0;
    TTF_SizeUTF8(font(size), text.c_str(), &result, nullptr);
    return static_cast<float>(result);
}

void TextLayer::upload(VkCommandBuffer commands) {
    if (!is_changed_) return;
    VkImageMemoryBarrier barrier = {};
    barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    barrier.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.oldLayout = is_new_ ? VK_IMAGE_LAYOUT_UNDEFINED : VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
    barrier.newLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image_;
    barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, nullptr,
                         0, nullptr, 1, &barrier);
    VkBufferImageCopy copy = {};
    copy.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
    copy.imageExtent = {static_cast<std::uint32_t>(canvas_->w), static_cast<std::uint32_t>(canvas_->h), 1};
    vkCmdCopyBufferToImage(commands, staging_.buffer, image_, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &copy);
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
    barrier.oldLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
    barrier.newLayout = VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, 0, 0, nullptr,
                         0, nullptr, 1, &barrier);
    is_changed_ = is_new_ = false;
}

void TextLayer::record(VkCommandBuffer commands) const {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline_);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, layout_, 0, 1, &set_, 0, nullptr);
    vkCmdDraw(commands, 3, 1, 0, 0);
}

}  // namespace sample
