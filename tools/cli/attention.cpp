// SPDX-License-Identifier: MIT
/// vkformer attention: what the heads look at while a text is translated, as a picture or as JSON.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/output_file.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "heat_map.hpp"
#include "vkformer/translator.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;

struct AttentionCommand {
    DeviceOptions device;
    ModelOption model;
    std::string text, output, kind = "all";
    std::optional<std::uint32_t> layer, head;
};

constexpr std::string_view name_of(AttentionKind kind) {
    switch (kind) {
    case AttentionKind::encoder: return "encoder";
    case AttentionKind::decoder: return "decoder";
    case AttentionKind::cross: return "cross";
    }
    return "";
}

Result<AttentionMaps> observe(const AttentionCommand& command) {
    VKFORMER_TRY(const auto folder, command.model.find());
    TranslatorOptions options{.device = command.device.device, .batch = 1, .plain_shaders = command.device.plain};
    VKFORMER_TRY(options.shader_variants, command.device.variants_by_op());
    options.offload = command.device.offload();
    VKFORMER_TRY(Translator translator, Translator::load(folder, options));
    VKFORMER_CHECK(command.device.heed(translator.notes()));
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", translator.device().c_str());
    VKFORMER_TRY(AttentionMaps maps, translator.attention(command.text));
    if (maps.weights.empty())
        return Error{ErrorCode::InvalidArgument, folder.string() +
                                                     " is a model without attention: its decoder sees the "
                                                     "source only through the encoder's last state"};
    return maps;
}

bool is_wanted(const AttentionWeights& weights, const AttentionCommand& command) {
    return (command.kind == "all" || command.kind == name_of(weights.kind)) &&
           (!command.layer || *command.layer == weights.layer + 1);
}

bool is_wanted_head(std::size_t head, const AttentionCommand& command) {
    return !command.head || *command.head == head + 1;
}

HeatMapSection section_of(AttentionKind kind, const AttentionMaps& observed, const AttentionCommand& command) {
    HeatMapSection section;
    switch (kind) {
    case AttentionKind::encoder:
        section = {"Encoder self-attention", "source token",  "source token it looks at",
                   observed.source,          observed.source, {}};
        break;
    case AttentionKind::decoder:
        section = {"Decoder self-attention", "token being written", "token read before",
                   observed.written,         observed.read,         {}};
        break;
    case AttentionKind::cross:
        section = {"Cross-attention", "token being written", "source token it looks at",
                   observed.written,  observed.source,       {}};
        break;
    }
    for (const AttentionWeights& weights : observed.weights) {
        if (weights.kind != kind || !is_wanted(weights, command)) continue;
        std::vector<HeatMap> maps;
        for (std::size_t head = 0; head < weights.heads; ++head) {
            if (!is_wanted_head(head, command)) continue;
            const auto size = static_cast<std::ptrdiff_t>(weights.queries * weights.keys);
            const auto first = weights.values.begin() + static_cast<std::ptrdiff_t>(head) * size;
            maps.push_back({"layer " + std::to_string(weights.layer + 1) + ", head " + std::to_string(head + 1),
                            std::vector<float>(first, first + size)});
        }
        if (!maps.empty()) section.layers.push_back(std::move(maps));
    }
    return section;
}

json as_json(const AttentionMaps& observed, const AttentionCommand& command) {
    json maps = json::array();
    for (const AttentionWeights& weights : observed.weights) {
        for (std::size_t head = 0; is_wanted(weights, command) && head < weights.heads; ++head) {
            if (!is_wanted_head(head, command)) continue;
            json rows = json::array();
            for (std::size_t query = 0; query < weights.queries; ++query) {
                const auto first = weights.values.begin() +
                                   static_cast<std::ptrdiff_t>((head * weights.queries + query) * weights.keys);
                rows.push_back(std::vector<float>(first, first + static_cast<std::ptrdiff_t>(weights.keys)));
            }
            maps.push_back(
                {{"kind", name_of(weights.kind)}, {"layer", weights.layer + 1}, {"head", head + 1}, {"weights", rows}});
        }
    }
    return {{"text", command.text},
            {"translation", observed.translation.text},
            {"source_tokens", observed.source},
            {"decoder_input_tokens", observed.read},
            {"written_tokens", observed.written},
            {"maps", maps}};
}

std::string extension_of(const std::string& path) {
    std::string extension = utf8_path(path).extension().string();
    std::ranges::transform(extension, extension.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return extension;
}

Result<int> run(const AttentionCommand& command) {
    const std::string extension = extension_of(command.output);
    if (extension != ".png" && extension != ".svg" && extension != ".json")
        return Error{ErrorCode::InvalidArgument, "--output " + command.output + " must end in .png, .svg or .json"};
    VKFORMER_TRY(const AttentionMaps observed, observe(command));

    HeatMapPage page = {.title = command.text + " → " + observed.translation.text,
                        .subtitle = "Attention weights; every row sums to 1",
                        .sections = {}};
    for (const AttentionKind kind : {AttentionKind::cross, AttentionKind::encoder, AttentionKind::decoder}) {
        HeatMapSection section = section_of(kind, observed, command);
        if (!section.layers.empty()) page.sections.push_back(std::move(section));
    }
    if (page.sections.empty())
        return Error{ErrorCode::InvalidArgument, "the model has no such layer or head (they are counted from 1)"};
    if (extension == ".json") {
        const std::string document =
            as_json(observed, command).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
        VKFORMER_CHECK(write_file(utf8_path(command.output), std::as_bytes(std::span(document))));
    } else {
        VKFORMER_CHECK(draw_heat_maps(page, extension == ".svg" ? PictureFormat::svg : PictureFormat::png,
                                      utf8_path(command.output)));
    }
    VKFORMER_CHECK(print(observed.translation.text + "\n"));
    return kOk;
}

}  // namespace

void add_attention(CLI::App& app, Action& action) {
    auto options = std::make_shared<AttentionCommand>();
    CLI::App& command = *app.add_subcommand("attention", "Draw what every head looks at while a text is translated");
    command.add_option("text", options->text, "The text")->required();
    command.add_option("-o,--output", options->output, "Picture (.png, .svg) or weights (.json)")->required();
    options->model.add(command);
    command.add_option("--kind", options->kind, "Which attention")
        ->check(CLI::IsMember({"all", "cross", "encoder", "decoder"}))
        ->capture_default_str();
    command.add_option("--layer", options->layer, "Only this layer, counted from 1");
    command.add_option("--head", options->head, "Only this head, counted from 1");
    options->device.add_device(command);
    options->device.add_strict(command);
    command.footer(
        "Examples:\n"
        "  vkformer attention \"March 4, 2021\" -o map.png\n"
        "  vkformer attention \"March 4, 2021\" -o cross.svg --kind cross --layer 2");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
