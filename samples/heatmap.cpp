// SPDX-License-Identifier: MIT
// Type a date: its translation runs inside the frame's own command buffer, and what the chosen layer and head look at is drawn by a fragment shader that
// reads the very buffer which the model's shader wrote. No tensor goes through the host.
//     heatmap --text "4. März 2021"
// Up and down choose the layer, left and right the head, Backspace deletes, Escape ends.
//
// What belongs to vkformer has a number; the window, its swapchain and its drawing (window/) are what an application has already.
#include <vkformer/vkformer.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "draw.hpp"
#include "heatmap_frag.h"
#include "heatmap_vert.h"
#include "layout.hpp"
#include "window.hpp"

namespace {

// What the pass is made for; a shorter text leaves the rest unused. The two differ, so that shapes tell the kinds of attention apart.
constexpr std::uint32_t kSourceCapacity = 48, kTargetCapacity = 16;

struct Options {
    std::string model = SAMPLE_MODELS "/date-normalizer", text = "4. März 2021", expect, font = SAMPLE_FONT;
    std::string kind = "cross";
    std::uint32_t budget_us = 2000, layer = 0, head = 1;  // counted from 1; layer 0: the last
    sample::WindowOptions window = {.title = "vkformer: what a head looks at"};
};

void check(vkf_result result) {
    if (result >= 0) return;
    std::fprintf(stderr, "%s: %s\n", vkf_result_string(result), vkf_error_message());
    std::exit(1);
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

// ---- 2. The model's two guises: a session writes the translation, a pass over its tokens gives every head's softmax -----------

/// The pass's inputs are a buffer of the application, written by the host between frames: int32 at these offsets, which any
/// minStorageBufferOffsetAlignment divides.
struct Inputs {
    static constexpr VkDeviceSize kSource = 0, kSourceLength = 256, kTarget = 512, kBytes = 768;
    sample::HostBuffer buffer;
    std::int32_t* at(VkDeviceSize offset) const { return static_cast<std::int32_t*>(buffer.mapped) + offset / 4; }
};

vkf_program* create_pass(vkf_model* model, const Inputs& inputs) {
    const std::array<vkf_buffer_binding, 3> bindings = {{
        {"source", inputs.buffer.buffer, Inputs::kSource, 256},
        {"source_lengths", inputs.buffer.buffer, Inputs::kSourceLength, 256},
        {"target", inputs.buffer.buffer, Inputs::kTarget, 256},
    }};
    vkf_program_options options = VKF_PROGRAM_OPTIONS_INIT;
    options.buffer_count = static_cast<std::uint32_t>(bindings.size());
    options.buffers = bindings.data();
    vkf_pass_info info = VKF_PASS_INFO_INIT;
    info.source_len = kSourceCapacity;
    info.target_len = kTargetCapacity;
    info.attention_weights = VK_TRUE;
    vkf_program* program = nullptr;
    check(vkf_model_pass(model, &info, &options, &program));
    return program;
}

vkf_session* create_session(vkf_model* model) {
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.context = kTargetCapacity;
    info.source_capacity = kSourceCapacity;
    vkf_session* session = nullptr;
    check(vkf_session_create(model, &info, nullptr, nullptr, &session));
    return session;
}

std::vector<std::int32_t> tokenize(const vkf_model* model, const std::string& text) {
    std::size_t count = 0;
    check(vkf_model_tokenize(model, text.data(), text.size(), &count, nullptr));
    std::vector<std::int32_t> tokens(count);
    check(vkf_model_tokenize(model, text.data(), text.size(), &count, tokens.data()));
    return tokens;
}

std::string piece(const vkf_model* model, std::int32_t token) {
    std::size_t bytes = 0;
    check(vkf_model_piece(model, token, &bytes, nullptr));
    std::string result(bytes, '\0');
    check(vkf_model_piece(model, token, &bytes, result.data()));
    result.resize(bytes == 0 ? 0 : bytes - 1);  // the zero at the end
    return result;
}

std::vector<std::int32_t> tokens_of(const vkf_session* session) {
    std::size_t count = 0;
    check(vkf_session_tokens(session, &count, nullptr));
    std::vector<std::int32_t> tokens(count);
    check(vkf_session_tokens(session, &count, tokens.data()));
    return tokens;
}

std::string text_of(const vkf_session* session) {
    std::size_t bytes = 0;
    check(vkf_session_text(session, &bytes, nullptr));
    std::string text(bytes, '\0');
    check(vkf_session_text(session, &bytes, text.data()));
    text.resize(bytes == 0 ? 0 : bytes - 1);
    return text;
}

/// The token that a translation begins with.
std::int32_t start_token(const vkf_model* model) {
    vkf_model_properties properties = VKF_MODEL_PROPERTIES_INIT;
    check(vkf_model_query(model, &properties));
    return properties.start_token;
}

// ---- 3. The drawing: the softmax of each attention is a storage buffer of the fragment shader --------------------------------

struct Attention {
    std::string kind;         // "encoder", "decoder", "cross"
    std::uint32_t layer = 0;  // counted from 0, as in the names of the pass's tensors
    std::uint32_t heads = 0, query_len = 0, key_len = 0;
    VkDescriptorSet set = VK_NULL_HANDLE;
    bool queries_are_source() const { return query_len == kSourceCapacity; }
    bool keys_are_source() const { return key_len == kSourceCapacity; }
};

class Heatmap {
public:
    Heatmap(const sample::Window& window, const vkf_program* program) : window_(window) {
        make_pipeline();
        for (std::uint32_t i = 0; const char* name = vkf_program_tensor_name(program, i); ++i) {
            if (std::string_view(name).starts_with("weights/")) add(program, name);
        }
    }
    ~Heatmap() {
        vkDestroyPipeline(window_.device(), pipeline_, nullptr);
        vkDestroyPipelineLayout(window_.device(), layout_, nullptr);
        vkDestroyDescriptorPool(window_.device(), pool_, nullptr);
        vkDestroyDescriptorSetLayout(window_.device(), set_layout_, nullptr);
    }
    Heatmap(const Heatmap&) = delete;
    Heatmap& operator=(const Heatmap&) = delete;

    const std::vector<Attention>& attentions() const { return attentions_; }

    /// Inside the pass.
    void record(VkCommandBuffer commands, const Attention& attention, std::uint32_t head, std::uint32_t queries,
                std::uint32_t keys, const sample::Rectangle& where) const {
        const Push push = {
            where, window_.width(), window_.height(), head, attention.query_len, attention.key_len, queries, keys};
        vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline_);
        vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, layout_, 0, 1, &attention.set, 0, nullptr);
        vkCmdPushConstants(commands, layout_, kStages, 0, sizeof push, &push);
        vkCmdDraw(commands, 4, 1, 0, 0);
    }

private:
    static constexpr VkShaderStageFlags kStages = VK_SHADER_STAGE_VERTEX_BIT | VK_SHADER_STAGE_FRAGMENT_BIT;
    static constexpr std::uint32_t kMaxAttentions = 64;
    struct Push {
        sample::Rectangle rectangle;
        float window_width, window_height;
        std::uint32_t head, query_len, key_len, queries, keys;
    };

    void make_pipeline() {
        const VkDevice device = window_.device();
        VkDescriptorSetLayoutBinding binding = {};
        binding.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        binding.descriptorCount = 1;
        binding.stageFlags = VK_SHADER_STAGE_FRAGMENT_BIT;
        VkDescriptorSetLayoutCreateInfo set_layout = {};
        set_layout.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
        set_layout.bindingCount = 1;
        set_layout.pBindings = &binding;
        sample::check(vkCreateDescriptorSetLayout(device, &set_layout, nullptr, &set_layout_), "descriptor set layout");
        const VkDescriptorPoolSize size = {binding.descriptorType, kMaxAttentions};
        VkDescriptorPoolCreateInfo pool = {};
        pool.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
        pool.maxSets = kMaxAttentions;
        pool.poolSizeCount = 1;
        pool.pPoolSizes = &size;
        sample::check(vkCreateDescriptorPool(device, &pool, nullptr, &pool_), "vkCreateDescriptorPool");
        const VkPushConstantRange range = {kStages, 0, sizeof(Push)};
        VkPipelineLayoutCreateInfo layout = {};
        layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
        layout.setLayoutCount = layout.pushConstantRangeCount = 1;
        layout.pSetLayouts = &set_layout_;
        layout.pPushConstantRanges = &range;
        sample::check(vkCreatePipelineLayout(device, &layout, nullptr, &layout_), "vkCreatePipelineLayout");
        pipeline_ = window_.make_pipeline({.vertex = heatmap_vert, .fragment = heatmap_frag, .layout = layout_});
    }

    void add(const vkf_program* program, const char* name) {
        if (attentions_.size() == kMaxAttentions) return;
        vkf_tensor tensor = VKF_TENSOR_INIT;
        check(vkf_program_tensor(program, name, &tensor));  // [1, heads, query_len, key_len] float32
        const std::string_view place = std::string_view(name).substr(std::string_view("weights/").size());
        const std::size_t slash = place.find('/');  // "cross/0"
        Attention attention = {std::string(place.substr(0, slash)),
                               static_cast<std::uint32_t>(std::atoi(place.substr(slash + 1).data())),
                               static_cast<std::uint32_t>(tensor.shape[1]),
                               static_cast<std::uint32_t>(tensor.shape[2]),
                               static_cast<std::uint32_t>(tensor.shape[3]),
                               {}};
        VkDescriptorSetAllocateInfo allocate = {};
        allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
        allocate.descriptorPool = pool_;
        allocate.descriptorSetCount = 1;
        allocate.pSetLayouts = &set_layout_;
        sample::check(vkAllocateDescriptorSets(window_.device(), &allocate, &attention.set),
                      "vkAllocateDescriptorSets");
        const VkDescriptorBufferInfo range = {tensor.buffer, tensor.offset, tensor.bytes};
        VkWriteDescriptorSet write = {};
        write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
        write.dstSet = attention.set;
        write.descriptorCount = 1;
        write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        write.pBufferInfo = &range;
        vkUpdateDescriptorSets(window_.device(), 1, &write, 0, nullptr);
        attentions_.push_back(attention);
    }

    const sample::Window& window_;
    VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
    VkDescriptorPool pool_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipeline pipeline_ = VK_NULL_HANDLE;
    std::vector<Attention> attentions_;
};

// ---- What the user does ---------------------------------------------------------------------------------------------------

struct Choice {
    std::string text;
    std::size_t attention = 0;
    std::uint32_t head = 0;
    bool is_changed = true;  // the text; then a new translation begins
};

void handle(const SDL_Event& event, const std::vector<Attention>& attentions, Choice& choice) {
    const std::size_t count = attentions.size();
    const std::uint32_t heads = attentions[choice.attention].heads;
    if (event.type == SDL_TEXTINPUT) {
        choice.text += event.text.text;
        choice.is_changed = true;
    } else if (event.type == SDL_KEYDOWN) {
        switch (event.key.keysym.sym) {
        case SDLK_UP: choice.attention = (choice.attention + count - 1) % count; break;
        case SDLK_DOWN: choice.attention = (choice.attention + 1) % count; break;
        case SDLK_LEFT: choice.head = (choice.head + heads - 1) % heads; break;
        case SDLK_RIGHT: choice.head = (choice.head + 1) % heads; break;
        case SDLK_BACKSPACE:
            while (!choice.text.empty() && (choice.text.back() & 0xC0) == 0x80) choice.text.pop_back();
            if (!choice.text.empty()) choice.text.pop_back();
            choice.is_changed = true;
            break;
        default: break;
        }
    }
    choice.head = std::min(choice.head, attentions[choice.attention].heads - 1);
}

// ---- What is on the screen besides the map -------------------------------------------------------------------------------

constexpr sample::Color kGrey = {0.6f, 0.62f, 0.66f, 1}, kBright = {0.95f, 0.95f, 0.97f, 1},
                        kOrange = {0.98f, 0.7f, 0.3f, 1};

constexpr float kWordsEnd = 128, kLabelRoom = 112;  // what is said above ends there; for the tokens at the axes

/// The tokens at the axes, and where the maps lie.
struct Layout {
    sample::HeadMaps maps;
    std::vector<std::string> rows, columns;
};

void draw_labels(sample::TextLayer& layer, const Layout& layout) {
    const sample::Rectangle& map = layout.maps.chosen;
    const float cell = map.height / static_cast<float>(layout.rows.size());
    const int size = std::clamp(static_cast<int>(cell * 0.6f), 9, 18);
    const float inset = (cell - 1.2f * static_cast<float>(size)) / 2;
    for (std::size_t i = 0; i < layout.rows.size(); ++i) {
        const float left = map.x - 10 - layer.width(layout.rows[i], size);
        layer.draw(left, map.y + static_cast<float>(i) * cell + inset, layout.rows[i], size);
    }
    for (std::size_t i = 0; i < layout.columns.size(); ++i)
        layer.draw_upwards(map.x + static_cast<float>(i) * cell + inset, map.y - 8, layout.columns[i], size);
}

void draw_captions(sample::TextLayer& layer, const Layout& layout, std::uint32_t chosen) {
    for (std::size_t head = 0; head < layout.maps.captions.size(); ++head) {
        const sample::Rectangle& caption = layout.maps.captions[head];
        layer.draw(caption.x, caption.y, "head " + std::to_string(head + 1), 14, head == chosen ? kOrange : kGrey);
    }
}

/// "cross-attention, layer 2 of 2, head 1 of 4": counted from 1, as `vkformer attention` does.
std::string title_of(const Attention& attention, std::size_t layers, std::uint32_t head) {
    const std::string kind = attention.kind == "cross"     ? "cross-attention"
                             : attention.kind == "encoder" ? "encoder self-attention"
                                                           : "decoder self-attention";
    return kind + ", layer " + std::to_string(attention.layer + 1) + " of " + std::to_string(layers) + ", head " +
           std::to_string(head + 1) + " of " + std::to_string(attention.heads);
}

// ---- 4. The frame loop ----------------------------------------------------------------------------------------------------

class App {
public:
    App(sample::Window& window, vkf_model* model, const Options& options)
        : window_(window),
          options_(options),
          model_(model),
          inputs_{window.make_host_buffer(Inputs::kBytes, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT)},
          pass_(create_pass(model, inputs_)),
          session_(create_session(model)),
          heatmap_(window, pass_),
          text_(window, options.font),
          start_token_(start_token(model)) {
        choice_.text = options.text;
        bool is_found = false;
        for (std::size_t i = 0; i < heatmap_.attentions().size(); ++i) {
            const Attention& attention = heatmap_.attentions()[i];
            if (attention.kind != options.kind || (options.layer > 0 && options.layer != attention.layer + 1)) continue;
            choice_.attention = i;
            is_found = true;
        }
        if (!is_found || options.head == 0 || options.head > chosen().heads) {
            std::fprintf(stderr, "the model has no such layer or head (they are counted from 1)\n");
            std::exit(1);
        }
        choice_.head = options.head - 1;
    }
    ~App() {
        vkf_session_destroy(session_);
        vkf_program_destroy(pass_);
        window_.destroy(inputs_.buffer);
    }
    App(const App&) = delete;
    App& operator=(const App&) = delete;

    void run() {
        while (window_.poll([&](const SDL_Event& event) { handle(event, heatmap_.attentions(), choice_); })) {
            if (choice_.is_changed) begin_translation();
            const VkCommandBuffer commands = window_.begin_frame();
            vkf_slice slice = VKF_SLICE_INIT;
            record_model(commands, slice);
            const Layout layout = draw_words();
            text_.upload(commands);
            window_.begin_pass();
            const auto queries = static_cast<std::uint32_t>(layout.rows.size()),
                       keys = static_cast<std::uint32_t>(layout.columns.size());
            heatmap_.record(commands, chosen(), choice_.head, queries, keys, layout.maps.chosen);
            for (std::uint32_t head = 0; head < chosen().heads; ++head)
                heatmap_.record(commands, chosen(), head, queries, keys, layout.maps.heads[head]);
            text_.record(commands);
            window_.end_frame();  // waits for the frame's fence
            if (slice.ticket != 0) read_progress(slice.ticket);
        }
    }

    const std::string& translation() const { return translation_; }

private:
    const Attention& chosen() const { return heatmap_.attentions()[choice_.attention]; }

    /// The GPU is idle here: the last frame was waited for, so that the host may write the pass's inputs.
    void begin_translation() {
        choice_.is_changed = false;
        source_ = tokenize(model_, choice_.text);
        if (source_.size() > kSourceCapacity) source_.resize(kSourceCapacity);
        std::copy(source_.begin(), source_.end(), inputs_.at(Inputs::kSource));
        std::fill(inputs_.at(Inputs::kSource) + source_.size(), inputs_.at(Inputs::kSource) + kSourceCapacity, 0);
        *inputs_.at(Inputs::kSourceLength) = static_cast<std::int32_t>(source_.size());
        generated_.clear();
        translation_.clear();
        write_target();
        check(vkf_session_cancel(session_));
        check(vkf_session_begin(session_, source_.data(), source_.size(), 0));
    }

    /// The decoder reads the start token and what it has written so far; row i of its attentions belongs to the token written at i.
    void write_target() {
        std::int32_t* target = inputs_.at(Inputs::kTarget);
        std::fill(target, target + kTargetCapacity, start_token_);
        for (std::size_t i = 0; i + 1 < kTargetCapacity && i < generated_.size(); ++i) target[i + 1] = generated_[i];
        is_stale_ = true;
    }

    void record_model(VkCommandBuffer commands, vkf_slice& slice) {
        check(vkf_session_record(session_, commands, options_.budget_us, &slice));
        if (!is_stale_) return;
        is_stale_ = false;
        check(vkf_program_record(pass_, commands));
        // vkformer's last barrier makes the weights visible to compute, transfer and the host; who reads them in a fragment
        // shader says so.
        VkMemoryBarrier barrier = {};
        barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
        barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
        barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
        vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, 0,
                             1, &barrier, 0, nullptr, 0, nullptr);
    }

    void read_progress(std::uint64_t ticket) {
        check(vkf_session_retire(session_, ticket));
        vkf_session_status status = VKF_SESSION_STATUS_INIT;
        check(vkf_session_poll(session_, &status));
        if (status.generated_tokens == generated_.size()) return;
        generated_ = tokens_of(session_);
        translation_ = text_of(session_);
        write_target();
    }

    std::vector<std::string> pieces(const std::vector<std::int32_t>& tokens) const {
        std::vector<std::string> result;
        for (const std::int32_t token : tokens) result.push_back(piece(model_, token));
        if (result.empty()) result.emplace_back("…");
        return result;
    }

    Layout draw_words() {
        const Attention& attention = chosen();
        Layout layout = {{},
                         pieces(attention.queries_are_source() ? source_ : generated_),
                         pieces(attention.keys_are_source() ? source_ : generated_)};
        layout.maps = sample::lay_out_heads(window_.width(), window_.height(), kWordsEnd, kLabelRoom,
                                            layout.rows.size(), layout.columns.size(), attention.heads);
        const auto layers =
            static_cast<std::size_t>(std::ranges::count(heatmap_.attentions(), attention.kind, &Attention::kind));
        text_.clear();
        text_.draw(24, 14, choice_.text + "│", 26, kBright);
        text_.draw(24, 48, "→ " + translation_, 26, kOrange);
        text_.draw(24, 84, title_of(attention, layers, choice_.head) + "   (up, down: layer; left, right: head)", 15,
                   kGrey);
        text_.draw(24, 105,
                   std::string("a row: ") +
                       (attention.queries_are_source() ? "a source token" : "a token being written") +
                       "; a column: " + (attention.keys_are_source() ? "a source token" : "a token read before") +
                       " that it looks at; weights from 0, dark, to 1, yellow",
                   13, kGrey);
        draw_captions(text_, layout, choice_.head);
        draw_labels(text_, layout);
        return layout;
    }

    sample::Window& window_;
    const Options& options_;
    vkf_model* model_;
    Inputs inputs_;
    vkf_program* pass_;
    vkf_session* session_;
    Heatmap heatmap_;
    sample::TextLayer text_;
    std::int32_t start_token_;
    Choice choice_;
    std::vector<std::int32_t> source_, generated_;
    std::string translation_;
    bool is_stale_ = false;  // the pass has not seen its inputs yet
};

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Translates a date inside the frame's command buffer and shows what the model looks at");
    app.add_option("--model", options.model, "folder of an encoder-decoder");
    app.add_option("--text", options.text, "to begin with");
    app.add_option("--kind", options.kind, "of attention")->check(CLI::IsMember({"cross", "encoder", "decoder"}));
    app.add_option("--layer", options.layer, "counted from 1; the last if absent");
    app.add_option("--head", options.head, "counted from 1");
    app.add_option("--budget-us", options.budget_us, "GPU time of the translation per frame");
    app.add_option("--expect", options.expect, "the translation that must be there at the end, for tests");
    app.add_option("--frames", options.window.frames, "then end; 0: never");
    app.add_option("--screenshot", options.window.screenshot, "PNG of the last frame");
    app.add_option("--font", options.font);
    app.add_option("--device", options.window.device, "a part of its name");
    app.add_flag("--validation", options.window.validation, "with the Vulkan validation layer");
    CLI11_PARSE(app, argc, argv);

    sample::Window window(options.window);
    vkf_device* device = create_device(window);
    vkf_model* model = nullptr;
    check(vkf_model_load(device, options.model.c_str(), &model));
    std::string translation;
    {
        SDL_StartTextInput();
        App heatmap(window, model, options);
        heatmap.run();
        translation = heatmap.translation();
    }
    std::printf("%s\n", translation.c_str());
    vkf_model_destroy(model);
    vkf_device_destroy(device);  // before the window, which destroys the VkDevice
    if (window.validation_messages() != 0) return 1;
    if (!options.expect.empty() && translation != options.expect) {
        std::fprintf(stderr, "expected %s\n", options.expect.c_str());
        return 1;
    }
    return 0;
}
