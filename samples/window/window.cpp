// SPDX-License-Identifier: MIT
#include "window.hpp"

#include <SDL_vulkan.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sample {
namespace {

constexpr std::uint64_t kForever = UINT64_MAX;

[[noreturn]] void fail(const char* what, const char* why) {
    std::fprintf(stderr, "%s: %s\n", what, why);
    std::exit(1);
}

VKAPI_ATTR VkBool32 VKAPI_CALL count_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                             const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
    ++*static_cast<std::uint32_t*>(user);
    std::fprintf(stderr, "validation: %s\n", data->pMessage);
    return VK_FALSE;
}

VkImageMemoryBarrier screenshot_barrier(VkImage image, VkImageLayout from, VkImageLayout to) {
    VkImageMemoryBarrier barrier = {};
    barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    barrier.srcAccessMask = to == VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL ? VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT : 0;
    barrier.dstAccessMask = to == VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL ? VK_ACCESS_TRANSFER_READ_BIT : 0;
    barrier.oldLayout = from;
    barrier.newLayout = to;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image;
    barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    return barrier;
}

VkShaderModule make_module(VkDevice device, std::span<const std::uint32_t> words) {
    VkShaderModuleCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    info.codeSize = words.size_bytes();
    info.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    check(vkCreateShaderModule(device, &info, nullptr, &module), "vkCreateShaderModule");
    return module;
}

}  // namespace

void check(VkResult result, const char* what) {
    if (result != VK_SUCCESS) fail(what, std::to_string(result).c_str());
}

Window::Window(const WindowOptions& options) : options_(options) {
    if (SDL_Init(SDL_INIT_VIDEO) != 0) fail("SDL_Init", SDL_GetError());
    window_ = SDL_CreateWindow(options.title, SDL_WINDOWPOS_CENTERED, SDL_WINDOWPOS_CENTERED,
                               static_cast<int>(options.width), static_cast<int>(options.height), SDL_WINDOW_VULKAN);
    if (window_ == nullptr) fail("SDL_CreateWindow", SDL_GetError());
    make_instance();
    if (!SDL_Vulkan_CreateSurface(window_, instance_, &surface_)) fail("SDL_Vulkan_CreateSurface", SDL_GetError());
    choose_physical_device();
}

Window::~Window() {
    if (device_ != VK_NULL_HANDLE) {
        vkDeviceWaitIdle(device_);
        destroy(screenshot_);
        destroy_swapchain();
        vkDestroyRenderPass(device_, render_pass_, nullptr);
        vkDestroyCommandPool(device_, pool_, nullptr);
        vkDestroySemaphore(device_, acquired_, nullptr);
        vkDestroyFence(device_, done_, nullptr);
        vkDestroyDevice(device_, nullptr);
    }
    vkDestroySurfaceKHR(instance_, surface_, nullptr);
    if (messenger_ != VK_NULL_HANDLE) {
        const auto destroy_messenger = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(instance_, "vkDestroyDebugUtilsMessengerEXT"));
        destroy_messenger(instance_, messenger_, nullptr);
    }
    vkDestroyInstance(instance_, nullptr);
    SDL_DestroyWindow(window_);
    SDL_Quit();
}

void Window::make_instance() {
    unsigned count = 0;
    SDL_Vulkan_GetInstanceExtensions(window_, &count, nullptr);
    std::vector<const char*> extensions(count);
    SDL_Vulkan_GetInstanceExtensions(window_, &count, extensions.data());
    extensions.insert(extensions.end(), options_.instance_extensions.begin(), options_.instance_extensions.end());

    VkApplicationInfo application = {};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.apiVersion = VK_API_VERSION_1_2;
    VkInstanceCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;

    const char* layer = "VK_LAYER_KHRONOS_validation";
    const VkValidationFeatureEnableEXT synchronisation = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    VkValidationFeaturesEXT features = {};
    features.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
    features.enabledValidationFeatureCount = 1;
    features.pEnabledValidationFeatures = &synchronisation;
    VkDebugUtilsMessengerCreateInfoEXT messenger = {};
    messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    messenger.pNext = &features;
    messenger.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType =
        VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
    messenger.pfnUserCallback = count_message;
    messenger.pUserData = &validation_messages_;
    if (options_.validation) {
        if (std::ranges::find(extensions, std::string_view(VK_EXT_DEBUG_UTILS_EXTENSION_NAME)) == extensions.end()) {
            extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
            extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
        }
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = &layer;
        info.pNext = &messenger;  // for what happens inside vkCreateInstance
    }
    info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    check(vkCreateInstance(&info, nullptr, &instance_), "vkCreateInstance");
    if (options_.validation) {
        messenger.pNext = nullptr;
        const auto create = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(instance_, "vkCreateDebugUtilsMessengerEXT"));
        check(create(instance_, &messenger, nullptr, &messenger_), "vkCreateDebugUtilsMessengerEXT");
    }
}

void Window::choose_physical_device() {
    std::uint32_t count = 0;
    check(vkEnumeratePhysicalDevices(instance_, &count, nullptr), "vkEnumeratePhysicalDevices");
    std::vector<VkPhysicalDevice> devices(count);
    check(vkEnumeratePhysicalDevices(instance_, &count, devices.data()), "vkEnumeratePhysicalDevices");
    const auto properties = [](VkPhysicalDevice device) {
        VkPhysicalDeviceProperties result = {};
        vkGetPhysicalDeviceProperties(device, &result);
        return result;
    };
    std::erase_if(devices, [&](VkPhysicalDevice device) {
        return std::string_view(properties(device).deviceName).find(options_.device) == std::string_view::npos;
    });
    std::ranges::stable_partition(
        devices, [&](VkPhysicalDevice device) { return properties(device).deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU; });
    const bool is_found =
        std::ranges::any_of(devices, [&](VkPhysicalDevice device) { return take_if_it_presents(device); });
    if (!is_found) fail("vkEnumeratePhysicalDevices", "no device of this name draws to this window");
}

bool Window::take_if_it_presents(VkPhysicalDevice candidate) {
    std::uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(candidate, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(candidate, &count, families.data());
    for (std::uint32_t family = 0; family < count; ++family) {
        constexpr VkQueueFlags kNeeded = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
        VkBool32 presents = VK_FALSE;
        vkGetPhysicalDeviceSurfaceSupportKHR(candidate, family, surface_, &presents);
        if (!presents || (families[family].queueFlags & kNeeded) != kNeeded) continue;
        physical_device_ = candidate;
        queue_family_ = family;
        return true;
    }
    return false;
}

void Window::use_device(VkDevice device) {
    device_ = device;
    vkGetDeviceQueue(device_, queue_family_, 0, &queue_);
    std::uint32_t count = 0;
    check(vkGetPhysicalDeviceSurfaceFormatsKHR(physical_device_, surface_, &count, nullptr), "surface formats");
    std::vector<VkSurfaceFormatKHR> formats(count);
    check(vkGetPhysicalDeviceSurfaceFormatsKHR(physical_device_, surface_, &count, formats.data()), "surface formats");
    const auto plain = std::ranges::find(formats, VK_FORMAT_B8G8R8A8_UNORM, &VkSurfaceFormatKHR::format);
    format_ = plain != formats.end() ? *plain : formats.front();

    make_render_pass();
    make_swapchain();
    VkCommandPoolCreateInfo pool = {};
    pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
    pool.queueFamilyIndex = queue_family_;
    check(vkCreateCommandPool(device_, &pool, nullptr, &pool_), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo buffer = {};
    buffer.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    buffer.commandPool = pool_;
    buffer.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    buffer.commandBufferCount = 1;
    check(vkAllocateCommandBuffers(device_, &buffer, &commands_), "vkAllocateCommandBuffers");
    VkSemaphoreCreateInfo semaphore = {};
    semaphore.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    check(vkCreateSemaphore(device_, &semaphore, nullptr, &acquired_), "vkCreateSemaphore");
    VkFenceCreateInfo fence = {};
    fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    check(vkCreateFence(device_, &fence, nullptr, &done_), "vkCreateFence");
    if (!options_.screenshot.empty()) {
        screenshot_ =
            make_host_buffer(VkDeviceSize{extent_.width} * extent_.height * 4, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    }
}

void Window::make_render_pass() {
    VkAttachmentDescription color = {};
    color.format = format_.format;
    color.samples = VK_SAMPLE_COUNT_1_BIT;
    color.loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
    color.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
    color.stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
    color.stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
    color.finalLayout = VK_IMAGE_LAYOUT_PRESENT_SRC_KHR;
    const VkAttachmentReference reference = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkSubpassDescription subpass = {};
    subpass.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS;
    subpass.colorAttachmentCount = 1;
    subpass.pColorAttachments = &reference;
    VkSubpassDependency acquired = {};  // the semaphore of vkAcquireNextImageKHR waits at the same stage
    acquired.srcSubpass = VK_SUBPASS_EXTERNAL;
    acquired.srcStageMask = acquired.dstStageMask = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
    acquired.dstAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT;
    VkRenderPassCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO;
    info.attachmentCount = 1;
    info.pAttachments = &color;
    info.subpassCount = 1;
    info.pSubpasses = &subpass;
    info.dependencyCount = 1;
    info.pDependencies = &acquired;
    check(vkCreateRenderPass(device_, &info, nullptr, &render_pass_), "vkCreateRenderPass");
}

void Window::make_swapchain() {
    VkSurfaceCapabilitiesKHR surface = {};
    check(vkGetPhysicalDeviceSurfaceCapabilitiesKHR(physical_device_, surface_, &surface), "surface capabilities");
    extent_ =
        surface.currentExtent.width != UINT32_MAX ? surface.currentExtent : VkExtent2D{options_.width, options_.height};
    std::uint32_t mode_count = 0;
    vkGetPhysicalDeviceSurfacePresentModesKHR(physical_device_, surface_, &mode_count, nullptr);
    std::vector<VkPresentModeKHR> modes(mode_count);
    vkGetPhysicalDeviceSurfacePresentModesKHR(physical_device_, surface_, &mode_count, modes.data());
    // The samples keep their own pace; a frame that waits for the display would hide what it costs.
    const bool is_immediate = std::ranges::find(modes, VK_PRESENT_MODE_IMMEDIATE_KHR) != modes.end();

    VkSwapchainCreateInfoKHR info = {};
    info.sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR;
    info.surface = surface_;
    info.minImageCount = surface.minImageCount + 1;
    if (surface.maxImageCount != 0) info.minImageCount = std::min(info.minImageCount, surface.maxImageCount);
    info.imageFormat = format_.format;
    info.imageColorSpace = format_.colorSpace;
    info.imageExtent = extent_;
    info.imageArrayLayers = 1;
    info.imageUsage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT;
    if (!options_.screenshot.empty()) info.imageUsage |= VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
    info.preTransform = surface.currentTransform;
    info.compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR;
    info.presentMode = is_immediate ? VK_PRESENT_MODE_IMMEDIATE_KHR : VK_PRESENT_MODE_FIFO_KHR;
    info.clipped = VK_TRUE;
    check(vkCreateSwapchainKHR(device_, &info, nullptr, &swapchain_), "vkCreateSwapchainKHR");

    std::uint32_t count = 0;
    check(vkGetSwapchainImagesKHR(device_, swapchain_, &count, nullptr), "vkGetSwapchainImagesKHR");
    std::vector<VkImage> handles(count);
    check(vkGetSwapchainImagesKHR(device_, swapchain_, &count, handles.data()), "vkGetSwapchainImagesKHR");
    for (const VkImage handle : handles) {
        Image image;
        image.image = handle;
        VkImageViewCreateInfo view = {};
        view.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO;
        view.image = handle;
        view.viewType = VK_IMAGE_VIEW_TYPE_2D;
        view.format = format_.format;
        view.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        check(vkCreateImageView(device_, &view, nullptr, &image.view), "vkCreateImageView");
        VkFramebufferCreateInfo framebuffer = {};
        framebuffer.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO;
        framebuffer.renderPass = render_pass_;
        framebuffer.attachmentCount = 1;
        framebuffer.pAttachments = &image.view;
        framebuffer.width = extent_.width;
        framebuffer.height = extent_.height;
        framebuffer.layers = 1;
        check(vkCreateFramebuffer(device_, &framebuffer, nullptr, &image.framebuffer), "vkCreateFramebuffer");
        VkSemaphoreCreateInfo semaphore = {};
        semaphore.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
        check(vkCreateSemaphore(device_, &semaphore, nullptr, &image.rendered), "vkCreateSemaphore");
        images_.push_back(image);
    }
}

void Window::destroy_swapchain() {
    for (const Image& image : images_) {
        vkDestroySemaphore(device_, image.rendered, nullptr);
        vkDestroyFramebuffer(device_, image.framebuffer, nullptr);
        vkDestroyImageView(device_, image.view, nullptr);
    }
    images_.clear();
    vkDestroySwapchainKHR(device_, swapchain_, nullptr);
    swapchain_ = VK_NULL_HANDLE;
}

bool Window::poll(const std::function<void(const SDL_Event&)>& handle) {
    SDL_Event event;
    while (SDL_PollEvent(&event) != 0) {
        if (event.type == SDL_QUIT || (event.type == SDL_KEYDOWN && event.key.keysym.sym == SDLK_ESCAPE)) {
            is_closing_ = true;
        }
        if (handle) handle(event);
    }
    return !is_closing_ && (options_.frames == 0 || frame_ < options_.frames);
}

VkCommandBuffer Window::begin_frame() {
    VkResult acquired = VK_SUCCESS;
    while ((acquired = vkAcquireNextImageKHR(device_, swapchain_, kForever, acquired_, VK_NULL_HANDLE, &image_)) ==
           VK_ERROR_OUT_OF_DATE_KHR) {
        vkDeviceWaitIdle(device_);
        destroy_swapchain();
        make_swapchain();
    }
    if (acquired != VK_SUBOPTIMAL_KHR) check(acquired, "vkAcquireNextImageKHR");
    check(vkResetCommandPool(device_, pool_, 0), "vkResetCommandPool");
    VkCommandBufferBeginInfo begin = {};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    check(vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
    return commands_;
}

void Window::begin_pass() {
    VkClearValue clear = {};
    clear.color = {{0.07f, 0.08f, 0.10f, 1.0f}};
    VkRenderPassBeginInfo begin = {};
    begin.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO;
    begin.renderPass = render_pass_;
    begin.framebuffer = images_[image_].framebuffer;
    begin.renderArea.extent = extent_;
    begin.clearValueCount = 1;
    begin.pClearValues = &clear;
    vkCmdBeginRenderPass(commands_, &begin, VK_SUBPASS_CONTENTS_INLINE);
    const VkViewport viewport = {0, 0, width(), height(), 0, 1};
    const VkRect2D scissor = {{0, 0}, extent_};
    vkCmdSetViewport(commands_, 0, 1, &viewport);
    vkCmdSetScissor(commands_, 0, 1, &scissor);
}

void Window::end_frame() {
    vkCmdEndRenderPass(commands_);
    const bool is_shown = is_last_frame() && screenshot_.buffer != VK_NULL_HANDLE;
    if (is_shown) record_screenshot();
    check(vkEndCommandBuffer(commands_), "vkEndCommandBuffer");

    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
    VkSubmitInfo submit = {};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.waitSemaphoreCount = 1;
    submit.pWaitSemaphores = &acquired_;
    submit.pWaitDstStageMask = &stage;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands_;
    submit.signalSemaphoreCount = 1;
    submit.pSignalSemaphores = &images_[image_].rendered;
    check(vkQueueSubmit(queue_, 1, &submit, done_), "vkQueueSubmit");

    VkPresentInfoKHR present = {};
    present.sType = VK_STRUCTURE_TYPE_PRESENT_INFO_KHR;
    present.waitSemaphoreCount = 1;
    present.pWaitSemaphores = &images_[image_].rendered;
    present.swapchainCount = 1;
    present.pSwapchains = &swapchain_;
    present.pImageIndices = &image_;
    const VkResult presented = vkQueuePresentKHR(queue_, &present);
    if (presented != VK_SUBOPTIMAL_KHR && presented != VK_ERROR_OUT_OF_DATE_KHR) check(presented, "vkQueuePresentKHR");

    check(vkWaitForFences(device_, 1, &done_, VK_TRUE, kForever), "vkWaitForFences");
    check(vkResetFences(device_, 1, &done_), "vkResetFences");
    if (is_shown) write_screenshot();
    ++frame_;
}

void Window::record_screenshot() {
    const VkImage image = images_[image_].image;
    const VkImageMemoryBarrier before =
        screenshot_barrier(image, VK_IMAGE_LAYOUT_PRESENT_SRC_KHR, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0,
                         nullptr, 0, nullptr, 1, &before);
    VkBufferImageCopy copy = {};
    copy.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
    copy.imageExtent = {extent_.width, extent_.height, 1};
    vkCmdCopyImageToBuffer(commands_, image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, screenshot_.buffer, 1, &copy);
    const VkImageMemoryBarrier after =
        screenshot_barrier(image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, VK_IMAGE_LAYOUT_PRESENT_SRC_KHR);
    vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 0, nullptr,
                         0, nullptr, 1, &after);
    VkMemoryBarrier to_host = {};
    to_host.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    to_host.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    to_host.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host, 0,
                         nullptr, 0, nullptr);
}

void Window::write_screenshot() const {
    const bool is_bgra = format_.format == VK_FORMAT_B8G8R8A8_UNORM || format_.format == VK_FORMAT_B8G8R8A8_SRGB;
    png_image image = {};
    image.version = PNG_IMAGE_VERSION;
    image.width = extent_.width;
    image.height = extent_.height;
    image.format = is_bgra ? PNG_FORMAT_BGRA : PNG_FORMAT_RGBA;
    auto* pixels = static_cast<std::uint8_t*>(screenshot_.mapped);
    for (std::size_t i = 0; i < std::size_t{extent_.width} * extent_.height; ++i) pixels[4 * i + 3] = 255;
    if (png_image_write_to_file(&image, options_.screenshot.c_str(), 0, pixels, 0, nullptr) == 0) {
        fail(options_.screenshot.c_str(), image.message);
    }
}

VkDeviceMemory Window::allocate(const VkMemoryRequirements& needs, VkMemoryPropertyFlags flags) const {
    VkPhysicalDeviceMemoryProperties memory = {};
    vkGetPhysicalDeviceMemoryProperties(physical_device_, &memory);
    for (std::uint32_t type = 0; type < memory.memoryTypeCount; ++type) {
        if ((needs.memoryTypeBits >> type & 1u) == 0) continue;
        if ((memory.memoryTypes[type].propertyFlags & flags) != flags) continue;
        VkMemoryAllocateInfo info = {};
        info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
        info.allocationSize = needs.size;
        info.memoryTypeIndex = type;
        VkDeviceMemory result = VK_NULL_HANDLE;
        check(vkAllocateMemory(device_, &info, nullptr, &result), "vkAllocateMemory");
        return result;
    }
    fail("vkAllocateMemory", "no memory type fits");
}

HostBuffer Window::make_host_buffer(VkDeviceSize bytes, VkBufferUsageFlags usage) const {
    HostBuffer result;
    VkBufferCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = bytes;
    info.usage = usage;
    check(vkCreateBuffer(device_, &info, nullptr, &result.buffer), "vkCreateBuffer");
    VkMemoryRequirements needs = {};
    vkGetBufferMemoryRequirements(device_, result.buffer, &needs);
    result.memory = allocate(needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    check(vkBindBufferMemory(device_, result.buffer, result.memory, 0), "vkBindBufferMemory");
    check(vkMapMemory(device_, result.memory, 0, VK_WHOLE_SIZE, 0, &result.mapped), "vkMapMemory");
    return result;
}

void Window::destroy(const HostBuffer& buffer) const {
    vkDestroyBuffer(device_, buffer.buffer, nullptr);
    vkFreeMemory(device_, buffer.memory, nullptr);
}

VkPipeline Window::make_pipeline(const PipelineInfo& info) const {
    std::array<VkPipelineShaderStageCreateInfo, 2> stages = {};
    for (auto& stage : stages) {
        stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
        stage.pName = "main";
    }
    stages[0].stage = VK_SHADER_STAGE_VERTEX_BIT;
    stages[0].module = make_module(device_, info.vertex);
    stages[1].stage = VK_SHADER_STAGE_FRAGMENT_BIT;
    stages[1].module = make_module(device_, info.fragment);

    VkPipelineVertexInputStateCreateInfo no_vertices = {};
    no_vertices.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO;
    VkPipelineInputAssemblyStateCreateInfo assembly = {};
    assembly.sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO;
    assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_STRIP;
    VkPipelineViewportStateCreateInfo viewport = {};
    viewport.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO;
    viewport.viewportCount = viewport.scissorCount = 1;
    VkPipelineRasterizationStateCreateInfo raster = {};
    raster.sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO;
    raster.cullMode = VK_CULL_MODE_NONE;
    raster.lineWidth = 1.0f;
    VkPipelineMultisampleStateCreateInfo samples = {};
    samples.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO;
    samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
    VkPipelineColorBlendAttachmentState over = {};
    over.blendEnable = VK_TRUE;
    over.srcColorBlendFactor = VK_BLEND_FACTOR_SRC_ALPHA;
    over.dstColorBlendFactor = VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA;
    over.srcAlphaBlendFactor = VK_BLEND_FACTOR_ONE;
    over.dstAlphaBlendFactor = VK_BLEND_FACTOR_ONE;
    over.colorWriteMask = 0xF;
    VkPipelineColorBlendStateCreateInfo blend = {};
    blend.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO;
    blend.attachmentCount = 1;
    blend.pAttachments = &over;
    const std::array<VkDynamicState, 2> dynamic_states = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
    VkPipelineDynamicStateCreateInfo dynamic = {};
    dynamic.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO;
    dynamic.dynamicStateCount = static_cast<std::uint32_t>(dynamic_states.size());
    dynamic.pDynamicStates = dynamic_states.data();

    VkGraphicsPipelineCreateInfo pipeline = {};
    pipeline.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO;
    pipeline.stageCount = static_cast<std::uint32_t>(stages.size());
    pipeline.pStages = stages.data();
    pipeline.pVertexInputState = info.vertex_input != nullptr ? info.vertex_input : &no_vertices;
    pipeline.pInputAssemblyState = &assembly;
    pipeline.pViewportState = &viewport;
    pipeline.pRasterizationState = &raster;
    pipeline.pMultisampleState = &samples;
    pipeline.pColorBlendState = &blend;
    pipeline.pDynamicState = &dynamic;
    pipeline.layout = info.layout;
    pipeline.renderPass = info.render_pass != VK_NULL_HANDLE ? info.render_pass : render_pass_;
    VkPipeline result = VK_NULL_HANDLE;
    check(vkCreateGraphicsPipelines(device_, VK_NULL_HANDLE, 1, &pipeline, nullptr, &result),
          "vkCreateGraphicsPipelines");
    for (const auto& stage : stages) vkDestroyShaderModule(device_, stage.module, nullptr);
    return result;
}

}  // namespace sample
