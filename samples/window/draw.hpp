// SPDX-License-Identifier: MIT
/// Coloured rectangles and text: what the samples draw besides their subject.
#pragma once

#include <SDL_ttf.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "window.hpp"

namespace sample {

struct Color {
    float r = 1, g = 1, b = 1, a = 1;
};

/// Rectangles of one frame, drawn in the order in which they were added, by one instanced draw.
class Rectangles {
public:
    Rectangles(const Window& window, std::uint32_t capacity);
    ~Rectangles();
    Rectangles(const Rectangles&) = delete;
    Rectangles& operator=(const Rectangles&) = delete;

    /// Pixels from the upper left; turned by `angle` (radians) about its centre. Beyond the capacity nothing is drawn.
    void add(float x, float y, float width, float height, Color color, float angle = 0.0f);
    /// Draws what was added, inside the window's pass, and forgets it.
    void record(VkCommandBuffer commands);

private:
    struct Instance {
        float x, y, width, height;
        Color color;
        float angle;
    };

    const Window& window_;
    std::uint32_t capacity_ = 0;
    std::vector<Instance> instances_;
    HostBuffer buffer_;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipeline pipeline_ = VK_NULL_HANDLE;
};

/// Text over the whole window, drawn on the host by SDL2_ttf and uploaded in the frames in which it has changed.
class TextLayer {
public:
    TextLayer(const Window& window, std::string font_path);
    ~TextLayer();
    TextLayer(const TextLayer&) = delete;
    TextLayer& operator=(const TextLayer&) = delete;

    void clear();
    /// UTF-8, `size` pixels high, upper left corner at x, y.
    void draw(float x, float y, const std::string& text, int size, Color color = {});
    /// The same read from bottom to top, lower left corner at x, y.
    void draw_upwards(float x, float y, const std::string& text, int size, Color color = {});
    float width(const std::string& text, int size);

    /// Before the pass: the texture of what was drawn.
    void upload(VkCommandBuffer commands);
    /// Inside the pass.
    void record(VkCommandBuffer commands) const;

private:
    TTF_Font* font(int size);
    SDL_Surface* render(const std::string& text, int size, Color color);
    void place(SDL_Surface* drawn, float x, float y);
    void make_texture();
    void make_descriptor_set();

    const Window& window_;
    std::string font_path_;
    std::map<int, TTF_Font*> fonts_;
    HostBuffer staging_;
    SDL_Surface* canvas_ = nullptr;  // its pixels are the staging buffer
    bool is_changed_ = true, is_new_ = true;
    VkImage image_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    VkImageView view_ = VK_NULL_HANDLE;
    VkSampler sampler_ = VK_NULL_HANDLE;
    VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
    VkDescriptorPool pool_ = VK_NULL_HANDLE;
    VkDescriptorSet set_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipeline pipeline_ = VK_NULL_HANDLE;
};

}  // namespace sample
