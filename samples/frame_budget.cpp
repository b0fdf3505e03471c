// SPDX-License-Identifier: MIT
// A renderer that keeps its frame rate while a language model writes: each frame's command buffer takes as much of the model's work as fits
// into --budget-us microseconds of GPU time, and the rest waits for the frames to come.
//     frame_budget --budget-us 2000 --csv frames.csv
// --model takes a Hugging Face folder or a GGUF file, in place of the model of the repository. --budget-us 0 gives the model a whole
// token per frame, for comparison.
//
// What belongs to vkformer has a number; the window, its swapchain and its drawing (window/) are what an application has already.
#include <vkformer/vkformer.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "draw.hpp"
#include "layout.hpp"
#include "window.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    std::string model = SAMPLE_MODELS "/verse-writer/verse-writer-q8_0.gguf", prompt = "In the beginning", csv,
                font = SAMPLE_FONT;
    float temperature = 0.7f;  // 0: the likeliest token, always
    std::uint64_t seed = 1;
    std::uint32_t budget_us = 2000;
    std::uint32_t frames_per_second = 60;
    std::uint32_t frames_alone = 120;  // before the model begins: what the scene costs by itself
    std::uint32_t max_tokens = 128;
    std::uint32_t chunk = 16;  // of the prompt's tokens, computed together: the smaller, the shorter a slice can be
    sample::WindowOptions window = {.title = "vkformer: frame budget"};
};

struct FrameTime {
    double frame_us = 0;     // from the start of its recording until the GPU is done
    double expected_us = 0;  // of the model's slice in it
    double slice_us = 0;     // the same, measured
    std::uint32_t dispatches = 0, tokens = 0;
    bool is_shared = false;  // the model has begun
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

    // Adds extensions and features to `info`; those that the application asked for stay.
    vkf_device_patch* patch = nullptr;
    check(vkf_patch_device_create_info(vkGetInstanceProcAddr, window.instance(), window.physical_device(), &info,
                                       &patch));
    VkDevice device = VK_NULL_HANDLE;
    sample::check(vkCreateDevice(window.physical_device(), &info, nullptr, &device), "vkCreateDevice");
    window.use_device(device);

    // A VkDevice cannot be asked what was enabled: vkformer is told, by the same create info.
    vkf_adopt_info adopt = VKF_ADOPT_INFO_INIT;
    adopt.get_instance_proc_addr = vkGetInstanceProcAddr;
    adopt.instance = window.instance();
    adopt.physical_device = window.physical_device();
    adopt.device = device;
    adopt.created_with = &info;
    adopt.queue_family = window.queue_family();
    adopt.queue = window.queue();  // for the upload of weights; frames are submitted by the application
    vkf_device* result = nullptr;
    check(vkf_device_adopt(&adopt, nullptr, &result));
    vkf_device_patch_destroy(patch);
    return result;
}

// ---- 2. The model: everything is loaded, compiled and allocated here ------------------------------------------------------

vkf_session* create_session(vkf_model* model, std::uint32_t context, const Options& options) {
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.context = context;
    info.chunk = options.chunk;
    info.temperature = options.temperature;
    info.top_p = options.temperature > 0 ? 0.9f : 1.0f;
    info.seed = options.seed;
    vkf_session_memory memory = VKF_SESSION_MEMORY_INIT;
    check(vkf_session_query_memory(model, &info, &memory));
    std::printf("the model takes %.1f MB of device memory\n", static_cast<double>(memory.total) * 1e-6);
    const auto progress = [](void*, std::uint32_t done, std::uint32_t total) {
        std::fprintf(stderr, "\rwarming up: %u %%%s", done * 100 / total, done == total ? "\n" : "");
    };
    vkf_session* session = nullptr;
    check(vkf_session_create(model, &info, progress, nullptr, &session));
    return session;
}

std::vector<std::int32_t> tokenize(const vkf_model* model, const std::string& text) {
    std::size_t count = 0;
    check(vkf_model_tokenize(model, text.data(), text.size(), &count, nullptr));
    std::vector<std::int32_t> tokens(count);
    check(vkf_model_tokenize(model, text.data(), text.size(), &count, tokens.data()));
    return tokens;
}

std::string text_of(const vkf_session* session) {
    std::size_t bytes = 0;
    check(vkf_session_text(session, &bytes, nullptr));
    std::string text(bytes, '\0');
    check(vkf_session_text(session, &bytes, text.data()));
    text.resize(bytes == 0 ? 0 : bytes - 1);  // the zero at the end
    return text;
}

// ---- The application's own drawing -------------------------------------------------------------------------------------

constexpr sample::Color kGreen = {0.35f, 0.85f, 0.55f, 1}, kOrange = {0.98f, 0.62f, 0.25f, 1},
                        kGrey = {0.6f, 0.62f, 0.66f, 1};

void draw_scene(sample::Rectangles& rectangles, float width, float height, double seconds) {
    constexpr int kSquares = 240;
    for (int i = 0; i < kSquares; ++i) {
        const float share = static_cast<float>(i) / kSquares;
        const auto time = static_cast<float>(seconds);
        const float turn = share * 43.98f + time * (0.15f + 0.25f * share);
        const float radius = (0.08f + 0.42f * share) * height;
        const float size = 10.0f + 26.0f * share;
        const sample::Color color = {0.5f + 0.5f * std::sin(turn), 0.45f + 0.3f * std::sin(6.28f * share + time),
                                     0.6f + 0.4f * std::cos(turn * 0.7f), 0.55f};
        rectangles.add(0.5f * width + radius * std::cos(turn) * 1.3f, 0.42f * height + radius * std::sin(turn) * 0.8f,
                       size, size, color, turn + time);
    }
}

constexpr sample::Color kWhite = {1, 1, 1, 0.8f};

/// The latest frame times as bars; the line is the frame's deadline.
void draw_graph(sample::Rectangles& rectangles, const std::vector<FrameTime>& times, const sample::BarChart& chart,
                double period_us) {
    constexpr float kBar = 3.0f;
    const sample::Rectangle &panel = chart.panel, &bars = chart.bars;
    rectangles.add(panel.x, panel.y, panel.width, panel.height, {0, 0, 0, 0.7f});
    for (const double tick : chart.ticks_us)
        rectangles.add(bars.x - 4, chart.y_of(tick), bars.width + 4, 1, {1, 1, 1, 0.15f});
    const auto shown = static_cast<std::size_t>(bars.width / kBar);
    const std::size_t first = times.size() > shown ? times.size() - shown : 0;
    for (std::size_t i = first; i < times.size(); ++i) {
        const float top = chart.y_of(times[i].frame_us);
        rectangles.add(bars.x + static_cast<float>(i - first) * kBar, top, kBar - 1, bars.bottom() - top,
                       times[i].is_shared ? kOrange : kGreen);
    }
    rectangles.add(bars.x, chart.y_of(period_us), bars.width, 1, kWhite);
}

/// What the bars and the line are, and the unit of the axis; the coloured signs are drawn among the rectangles.
void draw_legend(sample::TextLayer& layer, sample::Rectangles* signs, const sample::BarChart& chart, double period_us) {
    constexpr int kSize = 13;
    char deadline[64];
    std::snprintf(deadline, sizeof deadline, "deadline, %.1f ms", period_us / 1e3);
    struct Entry {
        std::string text;
        sample::Color color;
        float sign_height;
    };
    float x = chart.bars.x;
    for (const Entry& entry : {Entry{"frame time, the scene alone", kGreen, 10}, Entry{"with the model", kOrange, 10},
                               Entry{deadline, kWhite, 1}}) {
        if (signs)
            signs->add(x, chart.legend.y + 12 - entry.sign_height / 2, 16, entry.sign_height, entry.color);
        else
            layer.draw(x + 22, chart.legend.y + 4, entry.text, kSize, kGrey);
        x += 22 + layer.width(entry.text, kSize) + 26;
    }
    if (signs) return;
    for (const double tick : chart.ticks_us) {
        char text[32];
        std::snprintf(text, sizeof text, "%.3g ms", tick / 1e3);
        layer.draw(chart.bars.x - 8 - layer.width(text, 12), chart.y_of(tick) - 8, text, 12, kGrey);
    }
}

void draw_text(sample::TextLayer& layer, const std::string& text, const std::string& status, float width,
               const sample::BarChart& chart, double period_us) {
    layer.clear();
    draw_legend(layer, nullptr, chart, period_us);
    layer.draw(16, 12, status, 17, kGrey);
    std::string line;
    float y = 42;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        const bool is_end = i == text.size() || text[i] == '\n';
        const bool is_full = !is_end && text[i] == ' ' && layer.width(line, 18) > 0.85f * width;
        if (!is_end && !is_full) {
            line += static_cast<unsigned char>(text[i]) < ' ' ? ' ' : text[i];
            continue;
        }
        layer.draw(16, y, line, 18);
        line.clear();
        y += 24;
    }
}

// ---- What came of it -------------------------------------------------------------------------------------------------------

double percentile(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

void print_summary(const std::vector<FrameTime>& times) {
    std::vector<double> alone, shared;
    std::uint32_t tokens = 0;
    for (const FrameTime& time : times) {
        (time.is_shared ? shared : alone).push_back(time.frame_us);
        tokens += time.tokens;
    }
    std::printf("scene alone:    %4zu frames, median %7.0f us, p99 %7.0f us\n", alone.size(), percentile(alone, 0.5),
                percentile(alone, 0.99));
    std::printf("with the model: %4zu frames, median %7.0f us, p99 %7.0f us, %u tokens\n", shared.size(),
                percentile(shared, 0.5), percentile(shared, 0.99), tokens);
}

void write_csv(const std::string& path, const std::vector<FrameTime>& times) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr) {
        std::perror(path.c_str());
        std::exit(1);
    }
    std::fprintf(file, "frame,with_model,frame_us,expected_us,slice_us,dispatches,tokens\n");
    for (std::size_t i = 0; i < times.size(); ++i) {
        const FrameTime& time = times[i];
        std::fprintf(file, "%zu,%d,%.1f,%.1f,%.1f,%u,%u\n", i, time.is_shared ? 1 : 0, time.frame_us, time.expected_us,
                     time.slice_us, time.dispatches, time.tokens);
    }
    std::fclose(file);
}

// ---- 3. The frame loop: record a slice, draw, submit once, retire the slice -------------------------------------------------

void run(sample::Window& window, vkf_session* session, const std::vector<std::int32_t>& prompt,
         const Options& options) {
    sample::Rectangles rectangles(window, 4096);
    sample::TextLayer text(window, options.font);
    const auto period = std::chrono::nanoseconds(1'000'000'000 / options.frames_per_second);
    const double period_us = std::chrono::duration<double, std::micro>(period).count();
    std::vector<FrameTime> times;
    const auto beginning = Clock::now();
    auto next_frame = beginning;
    vkf_session_status status = VKF_SESSION_STATUS_INIT;
    const sample::BarChart chart = sample::lay_out_bars(window.width(), window.height(), period_us);
    draw_text(text, "", "the scene alone", window.width(), chart, period_us);

    while (window.poll()) {
        FrameTime time = {.is_shared = times.size() >= options.frames_alone};
        if (time.is_shared && (status.state == VKF_SESSION_IDLE || status.state == VKF_SESSION_DONE)) {
            check(vkf_session_begin(session, prompt.data(), prompt.size(), options.max_tokens));
        }

        const auto start = Clock::now();
        const VkCommandBuffer commands = window.begin_frame();
        vkf_slice slice = VKF_SLICE_INIT;
        if (time.is_shared) check(vkf_session_record(session, commands, options.budget_us, &slice));
        // vkformer leaves compute state behind and no graphics state; no barrier is needed, for nothing here reads its buffers.
        text.upload(commands);
        window.begin_pass();
        draw_scene(rectangles, window.width(), window.height(),
                   std::chrono::duration<double>(start - beginning).count());
        draw_graph(rectangles, times, chart, period_us);
        draw_legend(text, &rectangles, chart, period_us);
        rectangles.record(commands);
        text.record(commands);
        window.end_frame();  // waits for the frame's fence, so that the slice is done
        time.frame_us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();

        if (time.is_shared) {
            if (slice.ticket != 0) check(vkf_session_retire(session, slice.ticket));
            check(vkf_session_poll(session, &status));
            time.expected_us = slice.expected_us;
            time.slice_us = slice.ticket != 0 ? status.last_gpu_us : 0;
            time.dispatches = slice.dispatches;
            time.tokens = slice.tokens;
            if (slice.tokens != 0) {
                const std::string state = std::string(vkf_session_state_string(status.state)) + ", " +
                                          std::to_string(status.generated_tokens) + " tokens, budget " +
                                          std::to_string(options.budget_us) + " us";
                draw_text(text, options.prompt + text_of(session), state, window.width(), chart, period_us);
            }
        }
        times.push_back(time);
        next_frame = std::max(next_frame + period, Clock::now() - period);  // a late frame is not made up for
        std::this_thread::sleep_until(next_frame);
    }
    print_summary(times);
    std::printf("%s%s\n", options.prompt.c_str(), text_of(session).c_str());
    if (!options.csv.empty()) write_csv(options.csv, times);
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Renders at a fixed rate while a language model writes in slices of GPU time");
    app.add_option("--model", options.model, "Hugging Face folder or GGUF file");
    app.add_option("--prompt", options.prompt);
    app.add_option("--temperature", options.temperature, "0: the likeliest token, always")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--seed", options.seed, "of the tokens that are drawn");
    app.add_option("--budget-us", options.budget_us, "GPU time of the model per frame; 0: a whole token per frame");
    app.add_option("--fps", options.frames_per_second)->check(CLI::PositiveNumber);
    app.add_option("--alone", options.frames_alone, "frames before the model begins");
    app.add_option("--max-tokens", options.max_tokens, "before it starts anew");
    app.add_option("--chunk", options.chunk, "tokens of the prompt that are computed together")
        ->check(CLI::PositiveNumber);
    app.add_option("--frames", options.window.frames, "then end; 0: never");
    app.add_option("--csv", options.csv, "frame times");
    app.add_option("--screenshot", options.window.screenshot, "PNG of the last frame");
    app.add_option("--font", options.font);
    app.add_option("--device", options.window.device, "a part of its name");
    app.add_flag("--validation", options.window.validation, "with the Vulkan validation layer");
    CLI11_PARSE(app, argc, argv);

    sample::Window window(options.window);
    vkf_device* device = create_device(window);
    vkf_model* model = nullptr;
    check(vkf_model_load(device, options.model.c_str(), &model));
    const std::vector<std::int32_t> prompt = tokenize(model, options.prompt);
    vkf_session* session =
        create_session(model, static_cast<std::uint32_t>(prompt.size()) + options.max_tokens, options);

    run(window, session, prompt, options);

    vkf_session_destroy(session);
    vkf_model_destroy(model);
    vkf_device_destroy(device);  // before the window, which destroys the VkDevice
    return window.validation_messages() == 0 ? 0 : 1;
}
