// SPDX-License-Identifier: MIT
// Ten years of attention side by side: the models of samples/models/history on one task, with three results.
//   1. how often a whole output is right, by the length of the input: <task>-exact-match.png and .svg
//   2. what each model looks at while it works on one input:           <task>-attention.png and .svg
//   3. how long a token takes on the device, one text at a time and 32 together
//
//     history --task copy --out pictures            # strings of digits, trained up to length 30, asked up to 60
//     history --task date --device cpu --json
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <cairo-svg.h>
#include <cairo.h>
#include <CLI/CLI.hpp>

#include <vkformer/translator.hpp>

namespace {

namespace fs = std::filesystem;

struct Options {
    fs::path models = HISTORY_MODELS, out = ".";
    std::string task = "copy", device = "auto", sentence;
    std::size_t lines_per_length = 40;
    bool json = false;
};

/// In the order of history.
struct Kind {
    const char* folder;
    const char* name;
    double red, green, blue;
};
constexpr std::array<Kind, 8> kKinds = {{
    {"lstm", "stacked LSTM (Sutskever 2014)", 0.35, 0.35, 0.35},
    {"bahdanau", "additive (Bahdanau 2015)", 0.80, 0.47, 0.13},
    {"luong-dot", "dot (Luong 2015)", 0.10, 0.55, 0.55},
    {"luong-general", "general (Luong 2015)", 0.13, 0.37, 0.66},
    {"luong-concat", "concat (Luong 2015)", 0.55, 0.40, 0.75},
    {"luong-local-m", "local-m (Luong 2015)", 0.20, 0.60, 0.20},
    {"luong-local-p", "local-p (Luong 2015)", 0.60, 0.65, 0.15},
    {"transformer", "Transformer (Vaswani 2017)", 0.75, 0.15, 0.25},
}};

struct Example {
    std::string source, target;
};

/// What one model did.
struct Outcome {
    const Kind* kind;
    std::map<std::size_t, double> exact_match;  // by the length of the source, in steps of five characters
    double overall = 0;
    double alone_us = 0, together_us = 0;  // per token, one text at a time and 32 together
    vkformer::AttentionMaps maps;
    std::string device;
};

std::size_t characters(const std::string& utf8) {
    return static_cast<std::size_t>(
        std::ranges::count_if(utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}
std::size_t length_group(const Example& example) { return (characters(example.source) + 4) / 5 * 5; }

/// "source<TAB>target" lines, at most `per_length` of each group of lengths.
std::vector<Example> read_examples(const fs::path& path, std::size_t per_length) {
    std::ifstream file(path);
    std::vector<Example> examples;
    std::map<std::size_t, std::size_t> taken;
    for (std::string line; std::getline(file, line);) {
        const std::size_t tab = line.find('\t');
        if (tab == line.npos) continue;
        Example example{line.substr(0, tab), line.substr(tab + 1)};
        if (taken[length_group(example)]++ < per_length) examples.push_back(std::move(example));
    }
    return examples;
}

/// Prints the message and ends: a sample has nobody to hand an error to.
template <class T>
T must(vkformer::Result<T> result) {
    if (result) return std::move(result).value();
    std::fprintf(stderr, "history: %s\n", result.error().message.c_str());
    std::exit(1);
}

// ---- 1. right or wrong ----------------------------------------------------------------------------------------------

void score(const std::vector<Example>& examples, const std::vector<vkformer::Translation>& found, Outcome& outcome) {
    std::map<std::size_t, std::pair<int, int>> groups;  // right, all
    int right = 0;
    for (std::size_t i = 0; i < examples.size(); ++i) {
        const bool hit = found[i].text == examples[i].target;
        auto& [hits, count] = groups[length_group(examples[i])];
        hits += hit;
        count += 1;
        right += hit;
    }
    for (const auto& [length, group] : groups)
        outcome.exact_match[length] = static_cast<double>(group.first) / group.second;
    outcome.overall = static_cast<double>(right) / static_cast<double>(examples.size());
}

// ---- 3. how long a token takes --------------------------------------------------------------------------------------

/// Microseconds per step of the decoder and text, after a warm-up that compiles everything. Texts of one length, so that none
/// waits for another.
double us_per_token(vkformer::Translator& translator, const std::vector<std::string>& texts) {
    must(translator.translate(texts));
    std::array<double, 3> runs{};
    for (double& run : runs) {
        const auto start = std::chrono::steady_clock::now();
        const auto results = must(translator.translate(texts));
        const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
        std::size_t tokens = 0;
        for (const auto& result : results) tokens += result.tokens.size() - 1;  // the start token is given
        run = elapsed.count() / static_cast<double>(std::max<std::size_t>(tokens, 1));
    }
    std::ranges::sort(runs);
    return runs[1];
}

Outcome run_model(const Kind& kind, const Options& options, const std::vector<Example>& examples) {
    const fs::path folder = options.models / options.task / kind.folder;
    Outcome outcome{.kind = &kind};
    std::vector<std::string> sources;
    for (const Example& example : examples) sources.push_back(example.source);

    auto together = must(vkformer::Translator::load(folder, {.device = options.device, .batch = 32}));
    score(examples, must(together.translate(sources)), outcome);
    outcome.maps = must(together.attention(options.sentence));

    outcome.device = together.device();

    auto alone = must(vkformer::Translator::load(folder, {.device = options.device, .batch = 1}));
    outcome.alone_us = us_per_token(alone, std::vector<std::string>(2, options.sentence));
    outcome.together_us = us_per_token(together, std::vector<std::string>(32, options.sentence));
    return outcome;
}

// ---- pictures -------------------------------------------------------------------------------------------------------

struct Size {
    double width, height;
};

/// Draws the same twice: for the screen and for print.
void draw(const fs::path& stem, Size size, const std::function<void(cairo_t*)>& paint) {
    constexpr double kPixelsPerPoint = 2;
    const auto finish = [&](cairo_surface_t* surface, double scale, const char* png) {
        cairo_t* const c = cairo_create(surface);
        cairo_scale(c, scale, scale);
        cairo_set_source_rgb(c, 1, 1, 1);
        cairo_paint(c);
        cairo_select_font_face(c, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
        paint(c);
        cairo_status_t status = cairo_status(c);
        cairo_destroy(c);
        if (png && status == CAIRO_STATUS_SUCCESS) status = cairo_surface_write_to_png(surface, png);
        cairo_surface_finish(surface);
        if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface);
        cairo_surface_destroy(surface);
        if (status != CAIRO_STATUS_SUCCESS) {
            std::fprintf(stderr, "history: cannot write %s: %s\n", stem.c_str(), cairo_status_to_string(status));
            std::exit(1);
        }
    };
    const std::string png = stem.string() + ".png", svg = stem.string() + ".svg";
    finish(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(size.width * kPixelsPerPoint),
                                      static_cast<int>(size.height * kPixelsPerPoint)),
           kPixelsPerPoint, png.c_str());
    finish(cairo_svg_surface_create(svg.c_str(), size.width, size.height), 1, nullptr);
}

/// `align` 0: (x, y) is the left end of the baseline, 1: the right end, 0.5: its middle.
void write(cairo_t* c, const std::string& text, double x, double y, double size, double align = 0) {
    cairo_set_font_size(c, size);
    cairo_text_extents_t extents;
    cairo_text_extents(c, text.c_str(), &extents);
    cairo_set_source_rgb(c, 0.1, 0.1, 0.1);
    cairo_move_to(c, x - align * extents.x_advance, y);
    cairo_show_text(c, text.c_str());
}

/// Share of outputs that are right as a whole, by the length of the input.
void draw_chart(const std::vector<Outcome>& outcomes, const Options& options) {
    constexpr Size kSize{640, 360};
    constexpr double kLeft = 52, kRight = 190, kTop = 40, kBottom = 44;
    constexpr double kWidth = kSize.width - kLeft - kRight, kHeight = kSize.height - kTop - kBottom;
    std::size_t longest = 5, shortest = 1000;
    for (const Outcome& outcome : outcomes)
        for (const auto& [length, share] : outcome.exact_match) {
            longest = std::max(longest, length);
            shortest = std::min(shortest, length);
        }
    const double span = std::max(1.0, static_cast<double>(longest) - static_cast<double>(shortest));
    const auto x_of = [&](std::size_t length) {
        return kLeft + kWidth * (static_cast<double>(length) - static_cast<double>(shortest)) / span;
    };
    const auto y_of = [&](double share) { return kTop + kHeight * (1 - share); };
    draw(options.out / (options.task + "-exact-match"), kSize, [&](cairo_t* c) {
        const bool copies = options.task == "copy";
        write(c,
              copies ? "Copying digits: whole strings that come out right"
                     : "Written dates to ISO 8601: right as a whole",
              kLeft, 22, 13);
        if (copies) {  // what training has seen
            cairo_set_source_rgb(c, 0.94, 0.94, 0.94);
            cairo_rectangle(c, x_of(shortest), kTop, x_of(30) - x_of(shortest), kHeight);
            cairo_fill(c);
            write(c, "lengths seen in training", x_of(30) - 4, kTop + kHeight - 6, 8.5, 1);
        }
        cairo_set_line_width(c, 0.5);
        for (int percent = 0; percent <= 100; percent += 25) {
            cairo_set_source_rgb(c, 0.8, 0.8, 0.8);
            cairo_move_to(c, kLeft, y_of(percent / 100.0));
            cairo_rel_line_to(c, kWidth, 0);
            cairo_stroke(c);
            write(c, std::to_string(percent) + " %", kLeft - 6, y_of(percent / 100.0) + 3, 9, 1);
        }
        for (std::size_t length = shortest; length <= longest; length += 5)
            write(c, std::to_string(length), x_of(length), kTop + kHeight + 14, 9, 0.5);
        write(c, "characters in the input", kLeft + kWidth / 2, kTop + kHeight + 32, 10, 0.5);
        double legend = kTop + 6;
        for (const Outcome& outcome : outcomes) {
            const Kind& kind = *outcome.kind;
            cairo_set_source_rgb(c, kind.red, kind.green, kind.blue);
            cairo_set_line_width(c, 1.8);
            cairo_new_path(c);  // a text leaves a point behind
            for (const auto& [length, share] : outcome.exact_match) cairo_line_to(c, x_of(length), y_of(share));
            cairo_stroke(c);
            for (const auto& [length, share] : outcome.exact_match) {
                cairo_arc(c, x_of(length), y_of(share), 2.4, 0, 2 * M_PI);
                cairo_fill(c);
            }
            cairo_move_to(c, kLeft + kWidth + 12, legend - 3);
            cairo_rel_line_to(c, 14, 0);
            cairo_stroke(c);
            write(c, kind.name, kLeft + kWidth + 30, legend, 8.5);
            legend += 15;
        }
    });
}

/// The weights with which written tokens look at source tokens: the last layer's, averaged over its heads. Empty where the
/// model has no attention.
std::vector<float> cross_weights(const vkformer::AttentionMaps& maps) {
    std::vector<float> mean;
    for (const vkformer::AttentionWeights& weights : maps.weights) {
        if (weights.kind != vkformer::AttentionKind::cross) continue;
        mean.assign(weights.queries * weights.keys, 0);  // the last layer stays
        for (std::size_t i = 0; i < weights.values.size(); ++i)
            mean[i % mean.size()] += weights.values[i] / static_cast<float>(weights.heads);
    }
    return mean;
}

void draw_maps(const std::vector<Outcome>& outcomes, const Options& options) {
    constexpr double kCell = 9, kMargin = 26, kTitle = 34, kColumns = 4;
    double panel_width = 0, panel_height = 0;
    for (const Outcome& outcome : outcomes) {
        panel_width = std::max(panel_width, kCell * static_cast<double>(outcome.maps.source.size()));
        panel_height = std::max(panel_height, kCell * static_cast<double>(outcome.maps.written.size()));
    }
    panel_width = std::max(panel_width, 150.0);
    const double rows = std::ceil(static_cast<double>(outcomes.size()) / kColumns);
    const Size size{kColumns * (panel_width + kMargin) + kMargin, rows * (panel_height + kTitle + kMargin) + kTitle};
    draw(options.out / (options.task + "-attention"), size, [&](cairo_t* c) {
        write(c, "Who looks where: rows are written, columns are read, \"" + options.sentence + "\"", kMargin, 20, 12);
        for (std::size_t i = 0; i < outcomes.size(); ++i) {
            const Outcome& outcome = outcomes[i];
            const auto column = static_cast<double>(i % static_cast<std::size_t>(kColumns));
            const auto row = static_cast<double>(i / static_cast<std::size_t>(kColumns));
            const double x = kMargin + column * (panel_width + kMargin);
            const double y = kTitle + kTitle + row * (panel_height + kTitle + kMargin);
            write(c, outcome.kind->name, x, y - 16, 9);
            const std::vector<float> weights = cross_weights(outcome.maps);
            const std::size_t keys = outcome.maps.source.size(), queries = outcome.maps.written.size();
            for (std::size_t k = 0; k < keys; ++k)
                write(c, outcome.maps.source[k] == "</s>" ? "/" : outcome.maps.source[k],
                      x + kCell * (static_cast<double>(k) + 0.5), y - 3, 7, 0.5);
            for (std::size_t q = 0; q < queries; ++q)
                write(c, outcome.maps.written[q] == "</s>" ? "/" : outcome.maps.written[q], x - 3,
                      y + kCell * (static_cast<double>(q) + 0.8), 7, 1);
            if (weights.empty()) {
                write(c, "sees nothing but the", x, y + 22, 9);
                write(c, "encoder's last state", x, y + 34, 9);
                continue;
            }
            for (std::size_t q = 0; q < queries; ++q)
                for (std::size_t k = 0; k < keys; ++k) {
                    const double weight = std::clamp(static_cast<double>(weights[q * keys + k]), 0.0, 1.0);
                    cairo_set_source_rgb(c, 1 - 0.9 * weight, 1 - 0.75 * weight, 1 - 0.5 * weight);
                    cairo_rectangle(c, x + kCell * static_cast<double>(k), y + kCell * static_cast<double>(q), kCell,
                                    kCell);
                    cairo_fill(c);
                }
            cairo_set_source_rgb(c, 0.5, 0.5, 0.5);
            cairo_set_line_width(c, 0.6);
            cairo_rectangle(c, x, y, kCell * static_cast<double>(keys), kCell * static_cast<double>(queries));
            cairo_stroke(c);
        }
    });
}

// ---- text -----------------------------------------------------------------------------------------------------------

void print_table(const std::vector<Outcome>& outcomes, const Options& options) {
    std::printf("%-30s", "exact match by length");
    for (const auto& [length, share] : outcomes.front().exact_match) std::printf("%6zu", length);
    std::printf("%8s   us/token, 1 and 32 texts\n", "all");
    for (const Outcome& outcome : outcomes) {
        std::printf("%-30s", outcome.kind->name);
        for (const auto& [length, share] : outcome.exact_match) std::printf("%5.0f%%", 100 * share);
        std::printf("%7.1f%%   %8.1f %8.1f\n", 100 * outcome.overall, outcome.alone_us, outcome.together_us);
    }
    std::printf("device: %s\n", outcomes.front().device.c_str());
    std::printf("pictures: %s and %s, .png and .svg\n", (options.out / (options.task + "-exact-match")).c_str(),
                (options.out / (options.task + "-attention")).c_str());
}

void print_json(const std::vector<Outcome>& outcomes, const Options& options) {
    std::printf("{\"task\": \"%s\", \"device\": \"%s\", \"models\": [", options.task.c_str(),
                outcomes.front().device.c_str());
    for (const Outcome& outcome : outcomes) {
        std::printf("%s\n {\"model\": \"%s\", \"exact_match\": {", &outcome == &outcomes.front() ? "" : ",",
                    outcome.kind->folder);
        for (const auto& [length, share] : outcome.exact_match) std::printf("\"%zu\": %.4f, ", length, share);
        std::printf("\"all\": %.4f}, \"us_per_token\": {\"batch_1\": %.1f, \"batch_32\": %.1f}}", outcome.overall,
                    outcome.alone_us, outcome.together_us);
    }
    std::printf("\n]}\n");
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Runs the models of samples/models/history side by side");
    app.add_option("--task", options.task, "What the models were trained on")
        ->check(CLI::IsMember({"copy", "date"}))
        ->capture_default_str();
    app.add_option("--device", options.device, "A Vulkan device (vkformer info lists them), auto or cpu")
        ->capture_default_str();
    app.add_option("--models", options.models, "Folder with copy/ and date/")->capture_default_str();
    app.add_option("--out", options.out, "Where the pictures go")->check(CLI::ExistingDirectory)->capture_default_str();
    app.add_option("--sentence", options.sentence, "Whose attention is drawn");
    app.add_option("--lines", options.lines_per_length, "Texts of each length at most")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_flag("--json", options.json, "Print JSON");
    CLI11_PARSE(app, argc, argv);
    if (options.sentence.empty()) options.sentence = options.task == "copy" ? "31415926535897932384" : "4. März 2021";

    const std::vector<Example> examples =
        read_examples(options.models / options.task / "eval.tsv", options.lines_per_length);
    if (examples.empty()) {
        std::fprintf(stderr, "history: no examples in %s\n", (options.models / options.task / "eval.tsv").c_str());
        return 1;
    }
    std::vector<Outcome> outcomes;
    for (const Kind& kind : kKinds) {
        if (!fs::exists(options.models / options.task / kind.folder)) continue;
        std::fprintf(stderr, "history: %s\n", kind.name);
        outcomes.push_back(run_model(kind, options, examples));
    }
    if (outcomes.empty()) {
        std::fprintf(stderr, "history: no models in %s\n", (options.models / options.task).c_str());
        return 1;
    }
    draw_chart(outcomes, options);
    draw_maps(outcomes, options);
    if (options.json) {
        print_json(outcomes, options);
    } else {
        print_table(outcomes, options);
    }
}
