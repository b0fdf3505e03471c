// SPDX-License-Identifier: MIT
/// The renderer that an application already has, as small as it gets: an SDL2 window, a Vulkan instance, a swapchain, one frame in flight. vkformer
/// is not in here: the samples that use this create the VkDevice and speak to vkformer themselves.
#pragma once

#include <SDL.h>
#include <vulkan/vulkan.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sample {

/// Ends the program with a message where a Vulkan call fails.
void check(VkResult result, const char* what);

/// A buffer that the host sees, mapped while it lives.
struct HostBuffer {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    void* mapped = nullptr;
};

struct WindowOptions {
    const char* title = "";
    std::uint32_t width = 960, height = 540;
    std::uint32_t frames = 0;  ///< to draw before the window closes by itself; 0: until the user closes it
    std::string screenshot;    ///< PNG file of the last frame; empty: none
    std::string device;        ///< a part of the device's name; empty: the first GPU, or else the first device
    bool validation = false;   ///< with the validation layer, synchronisation checks included
    std::vector<const char*> instance_extensions;  ///< wished for besides the window's own
};

class Window {
public:
    explicit Window(const WindowOptions& options);
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    VkInstance instance() const noexcept { return instance_; }
    VkPhysicalDevice physical_device() const noexcept { return physical_device_; }
    std::uint32_t queue_family() const noexcept { return queue_family_; }  ///< graphics, compute and present
    VkDevice device() const noexcept { return device_; }
    VkRenderPass render_pass() const noexcept { return render_pass_; }
    float width() const noexcept { return static_cast<float>(extent_.width); }
    float height() const noexcept { return static_cast<float>(extent_.height); }

    /// The device that the application created; the window makes its swapchain with it, and destroys it.
    void use_device(VkDevice device);
    VkQueue queue() const noexcept { return queue_; }

    /// Hands the events of the window to `handle`; false once it is to close.
    bool poll(const std::function<void(const SDL_Event&)>& handle = {});
    /// The frame's command buffer, recording, outside a render pass.
    VkCommandBuffer begin_frame();
    /// Begins the render pass to the window.
    void begin_pass();
    /// Ends the pass, submits, presents, and waits for the GPU. An application with several frames in flight waits later.
    void end_frame();

    HostBuffer make_host_buffer(VkDeviceSize bytes, VkBufferUsageFlags usage) const;
    void destroy(const HostBuffer& buffer) const;
    /// Memory of a type with the flags, bound by the caller. Images and buffers have one allocation each: there are few.
    VkDeviceMemory allocate(const VkMemoryRequirements& needs, VkMemoryPropertyFlags flags) const;

    /// A pipeline for triangles or strips that blends over what is there; viewport and scissor are dynamic.
    struct PipelineInfo {
        std::span<const std::uint32_t> vertex, fragment;  ///< SPIR-V
        VkPipelineLayout layout = VK_NULL_HANDLE;
        const VkPipelineVertexInputStateCreateInfo* vertex_input = nullptr;  ///< null: none
        VkRenderPass render_pass = VK_NULL_HANDLE;                           ///< null: the window's
    };
    VkPipeline make_pipeline(const PipelineInfo& info) const;

    /// What the validation layer has said so far.
    std::uint32_t validation_messages() const noexcept { return validation_messages_; }

private:
    struct Image {
        VkImage image = VK_NULL_HANDLE;
        VkImageView view = VK_NULL_HANDLE;
        VkFramebuffer framebuffer = VK_NULL_HANDLE;
        VkSemaphore rendered = VK_NULL_HANDLE;
    };

    void make_instance();
    void choose_physical_device();
    bool take_if_it_presents(VkPhysicalDevice candidate);
    void make_render_pass();
    void make_swapchain();
    void destroy_swapchain();
    void record_screenshot();
    void write_screenshot() const;
    bool is_last_frame() const noexcept { return options_.frames != 0 && frame_ + 1 == options_.frames; }

    WindowOptions options_;
    SDL_Window* window_ = nullptr;
    VkInstance instance_ = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    std::uint32_t validation_messages_ = 0;
    VkSurfaceKHR surface_ = VK_NULL_HANDLE;
    VkPhysicalDevice physical_device_ = VK_NULL_HANDLE;
    std::uint32_t queue_family_ = 0;

    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    VkSurfaceFormatKHR format_ = {};
    VkExtent2D extent_ = {};
    VkSwapchainKHR swapchain_ = VK_NULL_HANDLE;
    std::vector<Image> images_;
    VkRenderPass render_pass_ = VK_NULL_HANDLE;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    VkSemaphore acquired_ = VK_NULL_HANDLE;
    VkFence done_ = VK_NULL_HANDLE;
    HostBuffer screenshot_;
    std::uint32_t image_ = 0, frame_ = 0;
    bool is_closing_ = false;
};

}  // namespace sample
