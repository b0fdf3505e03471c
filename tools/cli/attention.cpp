// SPDX-License-Identifier: MIT
/// vkformer attention: what the heads look at while a text is translated, as a picture or as JSON.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/try.hpp"
#include "decoding/session.hpp"
#include "device.hpp"
#include "heat_map.hpp"
#include "models/generation_config.hpp"
#include "models/marian.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::cli {
namespace {

using models::AttentionKind;
using nlohmann::json;

struct AttentionCommand {
    DeviceOptions device;
    ModelOption model;
    std::string text, output, kind = "all";
    std::optional<std::uint32_t> layer, head;
};

struct Weights {
    AttentionKind kind;
    std::uint32_t layer;
    std::uint64_t heads, queries, keys;
    std::vector<float> values;  // [heads, queries, keys]
};

/// A translated text with the weights of every head.
struct Observed {
    std::string translation;
    std::vector<std::string> source, read, written;  // tokens: of the encoder, into and out of the decoder
    std::vector<Weights> weights;
};

constexpr std::string_view name_of(AttentionKind kind) {
    switch (kind) {
    case AttentionKind::encoder: return "encoder";
    case AttentionKind::decoder: return "decoder";
    case AttentionKind::cross: return "cross";
    }
    return "";
}

std::vector<std::string> pieces(const text::Tokenizer& tokenizer, std::span<const std::int32_t> tokens) {
    std::vector<std::string> result;
    for (const std::int32_t token : tokens) {
        std::string piece = tokenizer.piece(token);
        result.push_back(piece.empty() ? "#" + std::to_string(token) : std::move(piece));
    }
    return result;
}

Result<std::vector<Weights>> attention_weights(const models::Marian& model, graph::Backend& backend,
                                               std::span<const std::int32_t> source,
                                               std::span<const std::int32_t> target) {
    VKFORMER_TRY(auto f, model.forward({.source_len = static_cast<std::uint32_t>(source.size()),
                                        .target_len = static_cast<std::uint32_t>(target.size()),
                                        .attention_weights = true}));
    VKFORMER_TRY(const auto program,
                 backend.compile(graph::make_plan(std::move(f.graph)), backend.make_store(), backend.make_store()));
    VKFORMER_CHECK(program->write(f.source_tokens, source));
    VKFORMER_CHECK(program->write(f.target_tokens, target));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    std::vector<Weights> result;
    for (const auto& map : f.attention) {
        const Shape& shape = program->plan().graph.shape(map.weights);
        Weights weights = {.kind = map.kind,
                           .layer = map.layer,
                           .heads = shape[1],
                           .queries = shape[2],
                           .keys = shape[3],
                           .values = std::vector<float>(shape.element_count())};
        VKFORMER_CHECK(program->read(map.weights, std::span<float>(weights.values)));
        result.push_back(std::move(weights));
    }
    return result;
}

Result<Observed> observe(const AttentionCommand& command) {
    VKFORMER_TRY(const auto folder, command.model.find());
    VKFORMER_TRY(const auto model, models::Marian::load(folder));
    VKFORMER_TRY(const auto generation, models::load_generation_config(folder, model.config().max_position_embeddings));
    VKFORMER_TRY(const auto tokenizer, text::load_tokenizer(folder));
    VKFORMER_TRY(const auto source, tokenizer->encode(command.text));
    VKFORMER_TRY(const auto backend, open_backend(command.device));
    VKFORMER_TRY(auto session, decoding::Session::create(*backend, model, {.generation = generation}));
    const decoding::Source sources[] = {{.tokens = source}};
    VKFORMER_TRY(const auto hypotheses, session.generate(sources));

    const std::span<const std::int32_t> tokens = hypotheses[0].tokens;
    const auto read = tokens.first(tokens.size() - 1), written = tokens.subspan(1);
    Observed observed = {.translation = tokenizer->decode(tokens),
                         .source = pieces(*tokenizer, source),
                         .read = pieces(*tokenizer, read),
                         .written = pieces(*tokenizer, written)};
    VKFORMER_TRY(observed.weights, attention_weights(model, *backend, source, read));
    return observed;
}

bool is_wanted(const Weights& weights, const AttentionCommand& command) {
    return (command.kind == "all" || command.kind == name_of(weights.kind)) &&
           (!command.layer || *command.layer == weights.layer + 1);
}

bool is_wanted_head(std::uint64_t head, const AttentionCommand& command) {
    return !command.head || *command.head == head + 1;
}

HeatMapSection section_of(AttentionKind kind, const Observed& observed, const AttentionCommand& command) {
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
    for (const Weights& weights : observed.weights) {
        if (weights.kind != kind || !is_wanted(weights, command)) continue;
        std::vector<HeatMap> maps;
        for (std::uint64_t head = 0; head < weights.heads; ++head) {
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

json as_json(const Observed& observed, const AttentionCommand& command) {
    json maps = json::array();
    for (const Weights& weights : observed.weights) {
        for (std::uint64_t head = 0; is_wanted(weights, command) && head < weights.heads; ++head) {
            if (!is_wanted_head(head, command)) continue;
            json rows = json::array();
            for (std::uint64_t query = 0; query < weights.queries; ++query) {
                const auto first = weights.values.begin() +
                                   static_cast<std::ptrdiff_t>((head * weights.queries + query) * weights.keys);
                rows.push_back(std::vector<float>(first, first + static_cast<std::ptrdiff_t>(weights.keys)));
            }
            maps.push_back(
                {{"kind", name_of(weights.kind)}, {"layer", weights.layer + 1}, {"head", head + 1}, {"weights", rows}});
        }
    }
    return {{"text", command.text},
            {"translation", observed.translation},
            {"source_tokens", observed.source},
            {"decoder_input_tokens", observed.read},
            {"written_tokens", observed.written},
            {"maps", maps}};
}

std::string extension_of(const std::string& path) {
    std::string extension = std::filesystem::path(path).extension().string();
    std::ranges::transform(extension, extension.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return extension;
}

Result<void> write_json(const json& value, const std::string& path) {
    std::ofstream file(path, std::ios::binary);
    file << value.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
    file.close();
    if (file) return {};
    return Error{ErrorCode::FileNotFound, "cannot write " + path};
}

Result<int> run(const AttentionCommand& command) {
    const std::string extension = extension_of(command.output);
    if (extension != ".png" && extension != ".svg" && extension != ".json")
        return Error{ErrorCode::InvalidArgument, "--output " + command.output + " must end in .png, .svg or .json"};
    VKFORMER_TRY(const Observed observed, observe(command));

    HeatMapPage page = {.title = command.text + " → " + observed.translation,
                        .subtitle = "Attention weights; every row sums to 1",
                        .sections = {}};
    for (const AttentionKind kind : {AttentionKind::cross, AttentionKind::encoder, AttentionKind::decoder}) {
        HeatMapSection section = section_of(kind, observed, command);
        if (!section.layers.empty()) page.sections.push_back(std::move(section));
    }
    if (page.sections.empty())
        return Error{ErrorCode::InvalidArgument, "the model has no such layer or head (they are counted from 1)"};
    if (extension == ".json") {
        VKFORMER_CHECK(write_json(as_json(observed, command), command.output));
    } else {
        VKFORMER_CHECK(
            draw_heat_maps(page, extension == ".svg" ? PictureFormat::svg : PictureFormat::png, command.output));
    }
    VKFORMER_CHECK(print(observed.translation + "\n"));
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
    command.footer(
        "Examples:\n"
        "  vkformer attention \"March 4, 2021\" -o map.png\n"
        "  vkformer attention \"March 4, 2021\" -o cross.svg --kind cross --layer 2");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
