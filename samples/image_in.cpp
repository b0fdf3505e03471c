// SPDX-License-Identifier: MIT
// A picture that the application renders is read by a vision model in the same command buffer, as the VkImage that it is; what the model's class token
// looks at is laid over the picture by a fragment shader that reads the very buffer which the model's shader wrote. Nothing goes through the host but the
// names of the labels.
//     image_in                                  the shipped classifier of shapes
//     image_in --model vit-base-patch16-224     another ViT, DeiT, DINO or CLIP folder of Hugging Face
// Up and down choose the layer, left and right the head, M the mean of all heads, Space the next shape, Tab hides the map, Escape ends.
//
// What belongs to vkformer has a number; the window, its swapchain and its drawing (window/) are what an application has already.
#include <vkformer/vkformer.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attention_frag.h"
#include "attention_vert.h"
#include "draw.hpp"
#include "scene_frag.h"
#include "scene_vert.h"
#include "window.hpp"

namespace {

constexpr std::uint32_t kPictureSize = 432;  // pixels, both ways; the model's shader scales it to what the model reads
constexpr double kFramesPerSecond = 60, kSecondsPerShape = 4;
constexpr std::array<const char*, 8> kShapes = {"circle", "ring", "square", "triangle",
                                                "cross",  "star", "heart",  "moon"};

struct Options {
    std::string model = SAMPLE_MODELS "/shape-classifier", shape = "star", expect, font = SAMPLE_FONT;
    std::uint32_t layer = 0, head = 0;  // counted from 1; 0: the last layer, the mean of all heads
    float opacity = 0.85f;
    sample::WindowOptions window = {.title = "vkformer: what a picture's class is seen by"};
};

[[noreturn]] void fail(const std::string& message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    std::exit(1);
}

void check(vkf_result result) {
    if (result < 0) fail(std::string(vkf_result_string(result)) + ": " + vkf_error_message());
}

// ---- 1. The device: the application's own, with what vkformer would like enabled besides ----------------------------------

vkf_device* create_device(sample::Window& window) {
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue = {};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = window.queue_family();
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    const char* swapchain = VK_KHR_SWAPCHAIN_EXTENSION_NAME;
    VkDeviceCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &swapchain;

    vkf_device_patch* patch = nullptr;
    check(vkf_patch_device_create_info(vkGetInstanceProcAddr, window.instance(), window.physical_device(), &info,
                                       &patch));
    VkDevice device = VK_NULL_HANDLE;
    sample::check(vkCreateDevice(window.physical_device(), &info, nullptr, &device), "vkCreateDevice");
    window.use_device(device);

    vkf_adopt_info adopt = VKF_ADOPT_INFO_INIT;
    adopt.get_instance_proc_addr = vkGetInstanceProcAddr;
    adopt.instance = window.instance();
    adopt.physical_device = window.physical_device();
    adopt.device = device;
    adopt.created_with = &info;
    adopt.queue_family = window.queue_family();
    adopt.queue = window.queue();
    vkf_device* result = nullptr;
    check(vkf_device_adopt(&adopt, nullptr, &result));
    vkf_device_patch_destroy(patch);
    return result;
}

// ---- The application's own picture: a colour attachment that can be sampled -----------------------------------------------

/// What one frame shows; push constants of scene.frag.
struct Scene {
    std::array<float, 4> upper, lower;  // colours of the gradient; its direction; seconds
    float x, y, radius, angle;          // of the shape, in widths of the picture
    std::array<float, 4> color;
    std::uint32_t shape;
};

/// A shape that wanders, swings and breathes; each has colours of its own.
Scene scene_at(double seconds, std::uint32_t shape) {
    const auto t = static_cast<float>(seconds), hue = 0.9f * static_cast<float>(shape);
    const auto wave = [](float phase) { return 0.5f + 0.5f * std::sin(phase); };
    const float radius = 0.26f + 0.05f * std::sin(0.9f * t);
    return {
        .upper = {0.1f + 0.25f * wave(hue + 2), 0.1f + 0.2f * wave(hue), 0.2f + 0.3f * wave(hue + 4), 0.4f * t},
        .lower = {0.05f, 0.1f + 0.25f * wave(hue + 1), 0.15f + 0.2f * wave(hue + 3), t},
        .x = 0.5f + (0.46f - radius) * std::sin(0.7f * t + 1.0f),
        .y = 0.5f + (0.46f - radius) * std::cos(0.53f * t),
        .radius = radius,
        .angle = 0.4f * std::sin(1.3f * t),
        .color = {0.75f + 0.25f * wave(hue), 0.55f + 0.4f * wave(hue + 2.5f), 0.3f + 0.4f * wave(hue + 4.5f), 1},
        .shape = shape,
    };
}

class Picture {
public:
    explicit Picture(const sample::Window& window) : window_(window) {
        make_image();
        make_render_pass();
        const VkPushConstantRange range = {VK_SHADER_STAGE_FRAGMENT_BIT, 0, sizeof(Scene)};
        VkPipelineLayoutCreateInfo layout = {};
        layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
        layout.pushConstantRangeCount = 1;
        layout.pPushConstantRanges = &range;
        sample::check(vkCreatePipelineLayout(window.device(), &layout, nullptr, &layout_), "vkCreatePipelineLayout");
        pipeline_ = window.make_pipeline(
            {.vertex = scene_vert, .fragment = scene_frag, .layout = layout_, .render_pass = render_pass_});
    }
    ~Picture() {
        const VkDevice device = window_.device();
        vkDestroyPipeline(device, pipeline_, nullptr);
        vkDestroyPipelineLayout(device, layout_, nullptr);
        vkDestroyFramebuffer(device, framebuffer_, nullptr);
        vkDestroyRenderPass(device, render_pass_, nullptr);
        vkDestroyImageView(device, view_, nullptr);
        vkDestroyImage(device, image_, nullptr);
        vkFreeMemory(device, memory_, nullptr);
    }
    Picture(const Picture&) = delete;
    Picture& operator=(const Picture&) = delete;

    VkImageView view() const noexcept { return view_; }

    /// Afterwards the image is in SHADER_READ_ONLY_OPTIMAL, for compute and fragment shaders.
    void record(VkCommandBuffer commands, const Scene& scene) const {
        VkRenderPassBeginInfo begin = {};
        begin.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO;
        begin.renderPass = render_pass_;
        begin.framebuffer = framebuffer_;
        begin.renderArea.extent = {kPictureSize, kPictureSize};
        vkCmdBeginRenderPass(commands, &begin, VK_SUBPASS_CONTENTS_INLINE);
        const VkViewport viewport = {0, 0, kPictureSize, kPictureSize, 0, 1};
        vkCmdSetViewport(commands, 0, 1, &viewport);
        vkCmdSetScissor(commands, 0, 1, &begin.renderArea);
        vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline_);
        vkCmdPushConstants(commands, layout_, VK_SHADER_STAGE_FRAGMENT_BIT, 0, sizeof scene, &scene);
        vkCmdDraw(commands, 4, 1, 0, 0);
        vkCmdEndRenderPass(commands);
        make_readable(commands);
    }

private:
    void make_image() {
        const VkDevice device = window_.device();
        VkImageCreateInfo image = {};
        image.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
        image.imageType = VK_IMAGE_TYPE_2D;
        image.format = kFormat;
        image.extent = {kPictureSize, kPictureSize, 1};
        image.mipLevels = image.arrayLayers = 1;
        image.samples = VK_SAMPLE_COUNT_1_BIT;
        image.usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_SAMPLED_BIT;
        sample::check(vkCreateImage(device, &image, nullptr, &image_), "vkCreateImage");
        VkMemoryRequirements needs = {};
        vkGetImageMemoryRequirements(device, image_, &needs);
        memory_ = window_.allocate(needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
        sample::check(vkBindImageMemory(device, image_, memory_, 0), "vkBindImageMemory");
        VkImageViewCreateInfo view = {};
        view.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO;
        view.image = image_;
        view.viewType = VK_IMAGE_VIEW_TYPE_2D;
        view.format = kFormat;
        view.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        sample::check(vkCreateImageView(device, &view, nullptr, &view_), "vkCreateImageView");
    }

    void make_render_pass() {
        VkAttachmentDescription color = {};
        color.format = kFormat;
        color.samples = VK_SAMPLE_COUNT_1_BIT;
        color.loadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;  // every pixel is drawn
        color.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
        color.stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
        color.stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
        color.finalLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
        const VkAttachmentReference reference = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
        VkSubpassDescription subpass = {};
        subpass.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS;
        subpass.colorAttachmentCount = 1;
        subpass.pColorAttachments = &reference;
        VkSubpassDependency was_read = {};  // by the frame before
        was_read.srcSubpass = VK_SUBPASS_EXTERNAL;
        was_read.srcStageMask = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT;
        was_read.dstStageMask = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
        was_read.dstAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT;
        VkRenderPassCreateInfo info = {};
        info.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO;
        info.attachmentCount = 1;
        info.pAttachments = &color;
        info.subpassCount = 1;
        info.pSubpasses = &subpass;
        info.dependencyCount = 1;
        info.pDependencies = &was_read;
        sample::check(vkCreateRenderPass(window_.device(), &info, nullptr, &render_pass_), "vkCreateRenderPass");
        VkFramebufferCreateInfo framebuffer = {};
        framebuffer.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO;
        framebuffer.renderPass = render_pass_;
        framebuffer.attachmentCount = 1;
        framebuffer.pAttachments = &view_;
        framebuffer.width = framebuffer.height = kPictureSize;
        framebuffer.layers = 1;
        sample::check(vkCreateFramebuffer(window_.device(), &framebuffer, nullptr, &framebuffer_),
                      "vkCreateFramebuffer");
    }

    /// The barrier between drawing the picture and reading it: vkformer samples it in compute shaders, and expects the layout that its
    /// binding states.
    void make_readable(VkCommandBuffer commands) const {
        VkImageMemoryBarrier barrier = {};
        barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
        barrier.srcAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT;
        barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
        barrier.oldLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
        barrier.newLayout = VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
        barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
        barrier.image = image_;
        barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
                             VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, 0, 0,
                             nullptr, 0, nullptr, 1, &barrier);
    }

    static constexpr VkFormat kFormat = VK_FORMAT_R8G8B8A8_UNORM;
    const sample::Window& window_;
    VkImage image_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    VkImageView view_ = VK_NULL_HANDLE;
    VkRenderPass render_pass_ = VK_NULL_HANDLE;
    VkFramebuffer framebuffer_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipeline pipeline_ = VK_NULL_HANDLE;
};

// ---- 2. The model: its input is the picture, its logits land in a buffer of the application -------------------------------

vkf_model* load_model(vkf_device* device, const std::string& path) {
    vkf_model* model = nullptr;
    check(vkf_model_load(device, path.c_str(), &model));
    return model;
}

/// What the model is; ends the program where it sees no images.
vkf_model_properties properties_of(const vkf_model* model, const std::string& path) {
    vkf_model_properties properties = VKF_MODEL_PROPERTIES_INIT;
    check(vkf_model_query(model, &properties));
    if (properties.kind != VKF_MODEL_VISION)
        fail(path + ": the model is of the kind " + vkf_model_kind_string(properties.kind) +
             "; this sample takes those that see images: ViT, DeiT, DINO, CLIP");
    if (properties.special_tokens == 0)
        fail(path + ": the model has no class token, whose attention this sample shows (SigLIP has none)");
    return properties;
}

std::vector<std::string> labels_of(const vkf_model* model, std::uint32_t count) {
    std::vector<std::string> labels(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        std::size_t bytes = 0;
        check(vkf_model_label(model, i, &bytes, nullptr));
        labels[i].resize(bytes);
        check(vkf_model_label(model, i, &bytes, labels[i].data()));
        labels[i].resize(bytes - 1);  // the zero at the end
    }
    return labels;
}

/// `logits`: a host-visible buffer for as many numbers as there are labels; null where there are none.
vkf_program* create_pass(vkf_model* model, VkImageView picture, VkBuffer logits, std::size_t label_count) {
    vkf_image_binding image = {};
    image.tensor = "pixels";
    image.view = picture;
    image.layout = VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
    check(vkf_model_image_normalization(model, image.mean, image.deviation));
    const vkf_buffer_binding buffer = {"logits", logits, 0, label_count * sizeof(float), nullptr};
    vkf_program_options options = VKF_PROGRAM_OPTIONS_INIT;
    options.images = &image;
    options.image_count = 1;
    options.buffers = &buffer;
    options.buffer_count = logits != VK_NULL_HANDLE ? 1 : 0;
    vkf_pass_info info = VKF_PASS_INFO_INIT;
    info.attention_weights = VK_TRUE;  // "weights/vision/0", …
    vkf_program* program = nullptr;
    check(vkf_model_pass(model, &info, &options, &program));
    return program;
}

// ---- 3. The drawing: picture and softmax are what a fragment shader reads ---------------------------------------------------

struct Rectangle {
    float x, y, width, height;
};

class AttentionMap {
public:
    AttentionMap(const sample::Window& window, const vkf_model_properties& model, const vkf_program* program,
                 VkImageView picture)
        : window_(window), rows_(model.patch_rows), columns_(model.patch_columns) {
        std::vector<vkf_tensor> layers;
        vkf_tensor tensor = VKF_TENSOR_INIT;
        while (vkf_program_tensor(program, ("weights/vision/" + std::to_string(layers.size())).c_str(), &tensor) >= 0)
            layers.push_back(tensor);
        if (layers.empty()) fail("the model's pass has no attention weights");
        heads_ = static_cast<std::uint32_t>(layers.front().shape[1]);
        tokens_ = static_cast<std::uint32_t>(layers.front().shape[3]);
        make_pipeline(static_cast<std::uint32_t>(layers.size()));
        for (const vkf_tensor& layer : layers) sets_.push_back(make_set(layer, picture));
    }
    ~AttentionMap() {
        vkDestroyPipeline(window_.device(), pipeline_, nullptr);
        vkDestroyPipelineLayout(window_.device(), layout_, nullptr);
        vkDestroySampler(window_.device(), sampler_, nullptr);
        vkDestroyDescriptorPool(window_.device(), pool_, nullptr);
        vkDestroyDescriptorSetLayout(window_.device(), set_layout_, nullptr);
    }
    AttentionMap(const AttentionMap&) = delete;
    AttentionMap& operator=(const AttentionMap&) = delete;

    int layers() const noexcept { return static_cast<int>(sets_.size()); }
    int heads() const noexcept { return static_cast<int>(heads_); }

    /// Inside the pass. A head of −1 stands for the mean of all.
    void record(VkCommandBuffer commands, int layer, int head, float opacity, const Rectangle& where) const {
        const Push push = {
            .rectangle = where,
            .window_width = window_.width(),
            .window_height = window_.height(),
            .head = head < 0 ? 0 : static_cast<std::uint32_t>(head),
            .head_count = head < 0 ? heads_ : 1,
            .tokens = tokens_,
            .rows = rows_,
            .columns = columns_,
            .opacity = opacity,
        };
        const VkDescriptorSet set = sets_[static_cast<std::size_t>(layer)];
        vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline_);
        vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, layout_, 0, 1, &set, 0, nullptr);
        vkCmdPushConstants(commands, layout_, kStages, 0, sizeof push, &push);
        vkCmdDraw(commands, 4, 1, 0, 0);
    }

private:
    static constexpr VkShaderStageFlags kStages = VK_SHADER_STAGE_VERTEX_BIT | VK_SHADER_STAGE_FRAGMENT_BIT;
    struct Push {
        Rectangle rectangle;
        float window_width, window_height;
        std::uint32_t head, head_count, tokens, rows, columns;
        float opacity;
    };

    void make_pipeline(std::uint32_t set_count) {
        const VkDevice device = window_.device();
        const std::array<VkDescriptorSetLayoutBinding, 2> bindings = {{
            {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, kStages, nullptr},
            {1, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1, VK_SHADER_STAGE_FRAGMENT_BIT, nullptr},
        }};
        VkDescriptorSetLayoutCreateInfo set_layout = {};
        set_layout.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
        set_layout.bindingCount = static_cast<std::uint32_t>(bindings.size());
        set_layout.pBindings = bindings.data();
        sample::check(vkCreateDescriptorSetLayout(device, &set_layout, nullptr, &set_layout_), "descriptor set layout");
        const std::array<VkDescriptorPoolSize, 2> sizes = {
            {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, set_count}, {VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, set_count}}};
        VkDescriptorPoolCreateInfo pool = {};
        pool.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
        pool.maxSets = set_count;
        pool.poolSizeCount = static_cast<std::uint32_t>(sizes.size());
        pool.pPoolSizes = sizes.data();
        sample::check(vkCreateDescriptorPool(device, &pool, nullptr, &pool_), "vkCreateDescriptorPool");
        VkSamplerCreateInfo sampler = {};
        sampler.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO;
        sampler.magFilter = sampler.minFilter = VK_FILTER_LINEAR;
        sampler.addressModeU = sampler.addressModeV = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE;
        sample::check(vkCreateSampler(device, &sampler, nullptr, &sampler_), "vkCreateSampler");
        const VkPushConstantRange range = {kStages, 0, sizeof(Push)};
        VkPipelineLayoutCreateInfo layout = {};
        layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
        layout.setLayoutCount = layout.pushConstantRangeCount = 1;
        layout.pSetLayouts = &set_layout_;
        layout.pPushConstantRanges = &range;
        sample::check(vkCreatePipelineLayout(device, &layout, nullptr, &layout_), "vkCreatePipelineLayout");
        pipeline_ = window_.make_pipeline({.vertex = attention_vert, .fragment = attention_frag, .layout = layout_});
    }

    /// `weights`: [1, heads, tokens, tokens] float32.
    VkDescriptorSet make_set(const vkf_tensor& weights, VkImageView picture) const {
        VkDescriptorSetAllocateInfo allocate = {};
        allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
        allocate.descriptorPool = pool_;
        allocate.descriptorSetCount = 1;
        allocate.pSetLayouts = &set_layout_;
        VkDescriptorSet set = VK_NULL_HANDLE;
        sample::check(vkAllocateDescriptorSets(window_.device(), &allocate, &set), "vkAllocateDescriptorSets");
        const VkDescriptorBufferInfo buffer = {weights.buffer, weights.offset, weights.bytes};
        const VkDescriptorImageInfo image = {sampler_, picture, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL};
        std::array<VkWriteDescriptorSet, 2> writes = {};
        for (std::uint32_t i = 0; i < writes.size(); ++i) {
            writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
            writes[i].dstSet = set;
            writes[i].dstBinding = i;
            writes[i].descriptorCount = 1;
        }
        writes[0].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        writes[0].pBufferInfo = &buffer;
        writes[1].descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER;
        writes[1].pImageInfo = &image;
        vkUpdateDescriptorSets(window_.device(), static_cast<std::uint32_t>(writes.size()), writes.data(), 0, nullptr);
        return set;
    }

    const sample::Window& window_;
    std::uint32_t rows_, columns_;  // of patches; the tokens before them are special ones
    std::uint32_t heads_ = 0, tokens_ = 0;
    VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
    VkDescriptorPool pool_ = VK_NULL_HANDLE;
    VkSampler sampler_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipeline pipeline_ = VK_NULL_HANDLE;
    std::vector<VkDescriptorSet> sets_;  // one for each layer
};

// ---- What the user does, and sees besides the picture -----------------------------------------------------------------------

struct Choice {
    int layer = 0, head = -1;  // counted from 0; head −1: the mean of all
    std::uint32_t shapes_skipped = 0;
    bool shows_map = true;
};

void handle(const SDL_Event& event, const AttentionMap& map, Choice& choice) {
    if (event.type != SDL_KEYDOWN) return;
    switch (event.key.keysym.sym) {
    case SDLK_UP: choice.layer = (choice.layer + map.layers() - 1) % map.layers(); break;
    case SDLK_DOWN: choice.layer = (choice.layer + 1) % map.layers(); break;
    case SDLK_LEFT: choice.head = (std::max(choice.head, 0) + map.heads() - 1) % map.heads(); break;
    case SDLK_RIGHT: choice.head = (choice.head + 1) % map.heads(); break;
    case SDLK_m: choice.head = -1; break;
    case SDLK_SPACE: ++choice.shapes_skipped; break;
    case SDLK_TAB: choice.shows_map = !choice.shows_map; break;
    default: break;
    }
}

constexpr sample::Color kGrey = {0.6f, 0.62f, 0.66f, 1}, kBright = {0.95f, 0.95f, 0.97f, 1},
                        kOrange = {0.98f, 0.7f, 0.3f, 1}, kDark = {0.16f, 0.17f, 0.2f, 1};
constexpr Rectangle kLarge = {24, 84, kPictureSize, kPictureSize};
constexpr float kColumn = 488, kColumnWidth = 448;  // what is to the right of the picture

struct Verdict {
    std::size_t label = 0;
    float probability = 0;
};

/// Softmax, the likeliest first.
std::vector<Verdict> verdicts_of(std::span<const float> logits) {
    std::vector<Verdict> verdicts;
    if (logits.empty()) return verdicts;
    const float largest = *std::ranges::max_element(logits);
    float sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        verdicts.push_back({i, std::exp(logits[i] - largest)});
        sum += verdicts.back().probability;
    }
    for (Verdict& verdict : verdicts) verdict.probability /= sum;
    std::ranges::sort(verdicts, std::ranges::greater(), &Verdict::probability);
    return verdicts;
}

std::string percent(float share) {
    char text[16];
    std::snprintf(text, sizeof text, "%.1f %%", static_cast<double>(100 * share));
    return text;
}

// ---- 4. The frame loop ----------------------------------------------------------------------------------------------------

class App {
public:
    App(sample::Window& window, vkf_model* model, const Options& options)
        : window_(window),
          options_(options),
          properties_(properties_of(model, options.model)),
          labels_(labels_of(model, properties_.labels)),
          picture_(window),
          logits_(labels_.empty()
                      ? sample::HostBuffer{}
                      : window.make_host_buffer(labels_.size() * sizeof(float), VK_BUFFER_USAGE_STORAGE_BUFFER_BIT)),
          pass_(create_pass(model, picture_.view(), logits_.buffer, labels_.size())),
          map_(window, properties_, pass_, picture_.view()),
          rectangles_(window, 64),
          text_(window, options.font) {
        const auto layers = static_cast<std::uint32_t>(map_.layers()), heads = static_cast<std::uint32_t>(map_.heads());
        if (options.layer > layers || options.head > heads)
            fail("the model has no such layer or head (they are counted from 1)");
        choice_.layer = static_cast<int>(options.layer == 0 ? layers : options.layer) - 1;
        choice_.head = static_cast<int>(options.head) - 1;
        first_shape_ = static_cast<std::uint32_t>(std::ranges::find(kShapes, options.shape) - kShapes.begin());
    }
    ~App() {
        vkf_program_destroy(pass_);
        window_.destroy(logits_);
    }
    App(const App&) = delete;
    App& operator=(const App&) = delete;

    void run() {
        for (std::uint32_t frame = 0; window_.poll([&](const SDL_Event& e) { handle(e, map_, choice_); }); ++frame) {
            const VkCommandBuffer commands = window_.begin_frame();
            picture_.record(commands, scene_of(frame));  // drawn, and made readable for compute shaders
            record_model(commands);
            draw_words();
            text_.upload(commands);
            window_.begin_pass();
            record_maps(commands);
            rectangles_.record(commands);
            text_.record(commands);
            window_.end_frame();  // waits for the frame's fence: what the model says is told in the next frame
            verdicts_ = verdicts_of({static_cast<const float*>(logits_.mapped), labels_.size()});
        }
    }

    /// The likeliest label of the last frame; none of a model without labels.
    std::optional<std::string> label() const {
        if (verdicts_.empty()) return std::nullopt;
        return labels_[verdicts_.front().label];
    }

private:
    Scene scene_of(std::uint32_t frame) const {
        const double seconds = frame / kFramesPerSecond;
        const std::uint32_t shape =
            first_shape_ + choice_.shapes_skipped + static_cast<std::uint32_t>(seconds / kSecondsPerShape);
        return scene_at(seconds, shape % static_cast<std::uint32_t>(kShapes.size()));
    }

    void record_model(VkCommandBuffer commands) const {
        check(vkf_program_record(pass_, commands));
        // vkformer's last barrier makes the weights visible to compute, transfer and the host; who reads them while drawing
        // says so.
        VkMemoryBarrier barrier = {};
        barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
        barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
        barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
        vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                             VK_PIPELINE_STAGE_VERTEX_SHADER_BIT | VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, 0, 1,
                             &barrier, 0, nullptr, 0, nullptr);
    }

    /// The chosen head large, all heads of its layer small; a line under the chosen one.
    void record_maps(VkCommandBuffer commands) {
        constexpr float kGap = 8, kTop = 300, kHeight = 216;
        map_.record(commands, choice_.layer, choice_.head, choice_.shows_map ? options_.opacity : 0, kLarge);
        const int lines = map_.heads() <= 4 ? 1 : 2, per_row = (map_.heads() + lines - 1) / lines;
        const float cell =
            std::min((kColumnWidth + kGap) / static_cast<float>(per_row), kHeight / static_cast<float>(lines));
        for (int head = 0; head < map_.heads(); ++head) {
            const float x = kColumn + cell * static_cast<float>(head % per_row);
            const float y = kTop + cell * static_cast<float>(head / per_row);
            map_.record(commands, choice_.layer, head, options_.opacity, {x, y, cell - kGap, cell - kGap});
            if (head == choice_.head) rectangles_.add(x, y + cell - kGap + 2, cell - kGap, 3, kOrange);
        }
    }

    void draw_words() {
        text_.clear();
        text_.draw(24, 16, "the picture, and where the class token looks", 22, kBright);
        const std::string head =
            choice_.head < 0 ? "the mean of all heads" : "head " + std::to_string(choice_.head + 1);
        text_.draw(24, 50,
                   "layer " + std::to_string(choice_.layer + 1) + " of " + std::to_string(map_.layers()) + ", " + head +
                       "   (up, down: layer; left, right: head; M: mean; Tab: map; Space: shape)",
                   15, kGrey);
        text_.draw(kColumn, 268, "the " + std::to_string(map_.heads()) + " heads of the layer", 15, kGrey);
        if (labels_.empty()) text_.draw(kColumn, 84, "The model has no labels: it makes a vector of the picture.", 15);
        for (std::size_t i = 0; i < std::min<std::size_t>(verdicts_.size(), 4); ++i) draw_verdict(i);
    }

    void draw_verdict(std::size_t place) {
        const Verdict& verdict = verdicts_[place];
        const bool is_first = place == 0;
        const float y = is_first ? 80 : 108 + 38 * static_cast<float>(place);
        const std::string& name = labels_[verdict.label];
        text_.draw(kColumn, y, name.substr(0, name.find(',')) + "   " + percent(verdict.probability),
                   is_first ? 34 : 16, is_first ? kOrange : kGrey);
        const float bar = y + (is_first ? 48 : 24);
        rectangles_.add(kColumn, bar, kColumnWidth, 5, kDark);
        rectangles_.add(kColumn, bar, kColumnWidth * verdict.probability, 5, is_first ? kOrange : kGrey);
    }

    sample::Window& window_;
    const Options& options_;
    vkf_model_properties properties_;
    std::vector<std::string> labels_;  // none where the model is no classifier
    Picture picture_;
    sample::HostBuffer logits_;
    vkf_program* pass_;
    AttentionMap map_;
    sample::Rectangles rectangles_;
    sample::TextLayer text_;
    Choice choice_;
    std::uint32_t first_shape_ = 0;
    std::vector<Verdict> verdicts_;  // of the frame before
};

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Renders a picture, lets a vision model look at it within the frame, and shows where it looks");
    app.add_option("--model", options.model, "Hugging Face folder of a ViT, DeiT, DINO or CLIP");
    app.add_option("--shape", options.shape, "the first one")
        ->check(CLI::IsMember(std::vector<std::string>(kShapes.begin(), kShapes.end())));
    app.add_option("--layer", options.layer, "whose attention is shown, counted from 1; the last if absent");
    app.add_option("--head", options.head, "of it, counted from 1; the mean of all if absent");
    app.add_option("--opacity", options.opacity, "of the map over the picture")->check(CLI::Range(0.0f, 1.0f));
    app.add_option("--expect", options.expect, "fail unless the last frame's label is this");
    app.add_option("--frames", options.window.frames, "then end; 0: never");
    app.add_option("--screenshot", options.window.screenshot, "PNG of the last frame");
    app.add_option("--font", options.font);
    app.add_option("--device", options.window.device, "a part of its name");
    app.add_flag("--validation", options.window.validation, "with the Vulkan validation layer");
    CLI11_PARSE(app, argc, argv);

    sample::Window window(options.window);
    vkf_device* device = create_device(window);
    vkf_model* model = load_model(device, options.model);
    std::optional<std::string> label;
    {
        App running(window, model, options);
        running.run();
        label = running.label();
    }
    vkf_model_destroy(model);
    vkf_device_destroy(device);  // before the window, which destroys the VkDevice
    if (label) std::printf("%s\n", label->c_str());
    if (!options.expect.empty() && label != options.expect)
        fail("expected " + options.expect + ", found " + label.value_or("a model without labels"));
    return window.validation_messages() == 0 ? 0 : 1;
}
