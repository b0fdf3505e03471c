// SPDX-License-Identifier: MIT
// A renderer's frame: a render pass, the model's slice, another render pass that goes on with the picture, in one command buffer.
#include <array>
#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>

#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/host_application.hpp"
#include "support/vkf.hpp"

namespace vkformer::tests {
namespace {

constexpr std::uint32_t kSide = 16;
constexpr std::uint32_t kPixels = kSide * kSide;

/// A colour target and the two render passes of a frame: the first clears it to one colour, the second keeps it and clears its
/// left half to another, by which it shows that it saw what the first left.
class Target {
public:
    explicit Target(HostApplication& application) : host_(application), copy_(application.make_buffer(kPixels * 4)) {
        create_image();
        first_ = create_pass(VK_ATTACHMENT_LOAD_OP_CLEAR, VK_IMAGE_LAYOUT_UNDEFINED,
                             VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
        second_ = create_pass(VK_ATTACHMENT_LOAD_OP_LOAD, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
                              VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
        const VkFramebufferCreateInfo info{.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                           .renderPass = first_,
                                           .attachmentCount = 1,
                                           .pAttachments = &view_,
                                           .width = kSide,
                                           .height = kSide,
                                           .layers = 1};
        REQUIRE(call<PFN_vkCreateFramebuffer>("vkCreateFramebuffer")(host_.device, &info, nullptr, &frame_) ==
                VK_SUCCESS);
    }
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;
    ~Target() {
        call<PFN_vkDestroyFramebuffer>("vkDestroyFramebuffer")(host_.device, frame_, nullptr);
        for (const VkRenderPass pass : {first_, second_})
            call<PFN_vkDestroyRenderPass>("vkDestroyRenderPass")(host_.device, pass, nullptr);
        call<PFN_vkDestroyImageView>("vkDestroyImageView")(host_.device, view_, nullptr);
        call<PFN_vkDestroyImage>("vkDestroyImage")(host_.device, image_, nullptr);
        host_.dvk.vkFreeMemory(host_.device, memory_, nullptr);
    }

    void draw_first(VkCommandBuffer commands, float green) const {
        begin_pass(commands, first_, {0, green, 0, 1});
        end_pass(commands);
    }
    void draw_second(VkCommandBuffer commands, float red) const {
        begin_pass(commands, second_, {});
        const VkClearAttachment clear{.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT,
                                      .clearValue = {.color = {.float32 = {red, 0, 0, 1}}}};
        const VkClearRect half{.rect = {.extent = {kSide / 2, kSide}}, .layerCount = 1};
        call<PFN_vkCmdClearAttachments>("vkCmdClearAttachments")(commands, 1, &clear, 1, &half);
        end_pass(commands);
        const VkBufferImageCopy region{.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                                       .imageExtent = {kSide, kSide, 1}};
        call<PFN_vkCmdCopyImageToBuffer>("vkCmdCopyImageToBuffer")(
            commands, image_, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, copy_.handle, 1, &region);
        const VkMemoryBarrier barrier{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                      .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                      .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
        host_.dvk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                                       &barrier, 0, nullptr, 0, nullptr);
    }
    /// RGBA of a pixel of the last frame.
    std::array<std::uint8_t, 4> pixel(std::uint32_t x, std::uint32_t y) const {
        std::array<std::uint8_t, 4> value{};
        std::memcpy(value.data(), copy_.mapped + (y * kSide + x) * 4, 4);
        return value;
    }

private:
    void create_image() {
        const VkImageCreateInfo info{.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                     .imageType = VK_IMAGE_TYPE_2D,
                                     .format = VK_FORMAT_R8G8B8A8_UNORM,
                                     .extent = {kSide, kSide, 1},
                                     .mipLevels = 1,
                                     .arrayLayers = 1,
                                     .samples = VK_SAMPLE_COUNT_1_BIT,
                                     .tiling = VK_IMAGE_TILING_OPTIMAL,
                                     .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT};
        REQUIRE(call<PFN_vkCreateImage>("vkCreateImage")(host_.device, &info, nullptr, &image_) == VK_SUCCESS);
        VkMemoryRequirements requirements{};
        call<PFN_vkGetImageMemoryRequirements>("vkGetImageMemoryRequirements")(host_.device, image_, &requirements);
        std::uint32_t type = 0;
        while (!((requirements.memoryTypeBits >> type) & 1u)) ++type;
        const VkMemoryAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                            .allocationSize = requirements.size,
                                            .memoryTypeIndex = type};
        REQUIRE(host_.dvk.vkAllocateMemory(host_.device, &allocate, nullptr, &memory_) == VK_SUCCESS);
        REQUIRE(call<PFN_vkBindImageMemory>("vkBindImageMemory")(host_.device, image_, memory_, 0) == VK_SUCCESS);
        const VkImageViewCreateInfo view{.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                         .image = image_,
                                         .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                         .format = VK_FORMAT_R8G8B8A8_UNORM,
                                         .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
        REQUIRE(call<PFN_vkCreateImageView>("vkCreateImageView")(host_.device, &view, nullptr, &view_) == VK_SUCCESS);
    }
    VkRenderPass create_pass(VkAttachmentLoadOp load, VkImageLayout before, VkImageLayout after) const {
        const VkAttachmentDescription attachment{.format = VK_FORMAT_R8G8B8A8_UNORM,
                                                 .samples = VK_SAMPLE_COUNT_1_BIT,
                                                 .loadOp = load,
                                                 .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                                 .stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE,
                                                 .stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE,
                                                 .initialLayout = before,
                                                 .finalLayout = after};
        const VkAttachmentReference colour{.attachment = 0, .layout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
        const VkSubpassDescription subpass{.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS,
                                           .colorAttachmentCount = 1,
                                           .pColorAttachments = &colour};
        constexpr VkPipelineStageFlags kDrawn = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
        constexpr VkPipelineStageFlags kCopied = VK_PIPELINE_STAGE_TRANSFER_BIT;
        constexpr VkAccessFlags kColour = VK_ACCESS_COLOR_ATTACHMENT_READ_BIT | VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT;
        const VkSubpassDependency dependencies[] = {
            {VK_SUBPASS_EXTERNAL, 0, kDrawn | kCopied, kDrawn, VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT, kColour, 0},
            {0, VK_SUBPASS_EXTERNAL, kDrawn, kDrawn | kCopied, VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
             kColour | VK_ACCESS_TRANSFER_READ_BIT, 0}};
        const VkRenderPassCreateInfo info{.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                          .attachmentCount = 1,
                                          .pAttachments = &attachment,
                                          .subpassCount = 1,
                                          .pSubpasses = &subpass,
                                          .dependencyCount = 2,
                                          .pDependencies = dependencies};
        VkRenderPass pass = VK_NULL_HANDLE;
        REQUIRE(call<PFN_vkCreateRenderPass>("vkCreateRenderPass")(host_.device, &info, nullptr, &pass) == VK_SUCCESS);
        return pass;
    }
    void begin_pass(VkCommandBuffer commands, VkRenderPass pass, const VkClearColorValue& colour) const {
        const VkClearValue clear{.color = colour};
        const VkRenderPassBeginInfo info{.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                         .renderPass = pass,
                                         .framebuffer = frame_,
                                         .renderArea = {.extent = {kSide, kSide}},
                                         .clearValueCount = pass == first_ ? 1u : 0u,
                                         .pClearValues = &clear};
        call<PFN_vkCmdBeginRenderPass>("vkCmdBeginRenderPass")(commands, &info, VK_SUBPASS_CONTENTS_INLINE);
    }
    void end_pass(VkCommandBuffer commands) const { call<PFN_vkCmdEndRenderPass>("vkCmdEndRenderPass")(commands); }
    template <class Function>
    Function call(const char* name) const {
        return reinterpret_cast<Function>(host_.ivk.vkGetDeviceProcAddr(host_.device, name));
    }

    HostApplication& host_;
    HostApplication::Buffer copy_;
    VkImage image_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    VkImageView view_ = VK_NULL_HANDLE;
    VkRenderPass first_ = VK_NULL_HANDLE, second_ = VK_NULL_HANDLE;
    VkFramebuffer frame_ = VK_NULL_HANDLE;
};

/// Whether the first queue family, which is the application's, can draw.
bool can_draw(const HostApplication& host) {
    std::uint32_t count = 1;
    VkQueueFamilyProperties family{};
    host.ivk.vkGetPhysicalDeviceQueueFamilyProperties(host.physical, &count, &family);
    return family.queueFlags & VK_QUEUE_GRAPHICS_BIT;
}

}  // namespace

TEST_CASE("a session runs between the render passes of the application's frames", "[api][c][guest][session][frame]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index))});
    if (!can_draw(host)) return;
    const VkfDevice device = adopt(host.lend(true));
    CAPTURE(vkf_device_name(device.get()));
    const auto folder = goldens_dir() / "decoders" / "llama_gqa_odd";
    std::ifstream file(folder / "greedy.json");
    const auto golden = nlohmann::json::parse(file);
    const auto prompt = golden["prompt"].get<std::vector<std::int32_t>>();
    auto expected = golden["continuation"].get<std::vector<std::int32_t>>();
    expected.resize(std::min<std::size_t>(expected.size(), 6));

    const VkfModel model = load_model(*device, folder.string());
    const VkfSession session = make_session(*model);
    const Target target(host);
    const VkCommandBuffer commands = host.make_commands();
    succeed(
        vkf_session_begin(session.get(), prompt.data(), prompt.size(), static_cast<std::uint32_t>(expected.size())));
    std::uint32_t frames = 0;
    while (status_of(*session).state != VKF_SESSION_DONE) {
        const bool is_odd = ++frames % 2;
        host.begin(commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
        target.draw_first(commands, is_odd ? 1.0f : 0.2f);
        vkf_slice slice = VKF_SLICE_INIT;
        succeed(vkf_session_record(session.get(), commands, 300, &slice));
        target.draw_second(commands, is_odd ? 0.4f : 0.8f);
        host.end(commands);
        host.submit_and_wait(commands);
        succeed(vkf_session_retire(session.get(), slice.ticket));
        using Rgba = std::array<std::uint8_t, 4>;
        REQUIRE(target.pixel(3, 9) == Rgba{static_cast<std::uint8_t>(is_odd ? 102 : 204), 0, 0, 255});
        REQUIRE(target.pixel(kSide - 1, 9) == Rgba{0, static_cast<std::uint8_t>(is_odd ? 255 : 51), 0, 255});
    }
    CHECK(frames >= (host.is_cpu() ? expected.size() : 2));  // fast devices do several tokens in a frame
    CHECK(tokens_of(*session) == expected);
    CHECK(host.messages() == std::vector<std::string>{});
}

}  // namespace vkformer::tests
