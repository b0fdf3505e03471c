// SPDX-License-Identifier: MIT
/// vkformer translate: texts in, texts out, many at a time.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/try.hpp"
#include "decoding/session.hpp"
#include "device.hpp"
#include "models/generation_config.hpp"
#include "models/marian.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::cli {
namespace {

/// Lines that are read before the first is translated: bounds memory, and lets long input flow.
constexpr std::size_t kChunkLines = 2048;
constexpr std::size_t kProgressLines = 100;

struct TranslateCommand {
    DeviceOptions device;
    ModelOption model;
    std::vector<std::string> texts;
    std::uint32_t beams = 0, batch = 0, max_length = 0;  // 0: not given
    bool json = false;
};

struct Translator {
    std::unique_ptr<text::Tokenizer> tokenizer;
    std::unique_ptr<graph::Backend> backend;
    models::Marian model;
    models::GenerationConfig generation;
    std::optional<decoding::Session> session;
};

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r") == line.npos; }

nlohmann::json as_json(const std::string& source, const std::string& translation, const decoding::Hypothesis& h) {
    nlohmann::json object = {{"source", source}, {"translation", translation}, {"tokens", h.tokens}};
    if (h.score) object["score"] = *h.score;
    return object;
}

/// Translates the lines and prints one line for each; blank ones stay blank.
Result<void> translate(Translator& translator, const TranslateCommand& command, const std::vector<std::string>& lines,
                       std::size_t lines_before) {
    std::vector<std::vector<std::int32_t>> tokens;
    std::vector<std::size_t> line_of;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (is_blank(lines[i])) continue;
        auto ids = translator.tokenizer->encode(lines[i]);
        if (!ids) {
            Error error = std::move(ids).error();
            error.message = "line " + std::to_string(lines_before + i + 1) + ": " + error.message;
            return error;
        }
        if (ids->size() > translator.model.limits().source_len)
            return Error{ErrorCode::InvalidArgument, "line " + std::to_string(lines_before + i + 1) + " has " +
                                                         std::to_string(ids->size()) +
                                                         " tokens, the model takes at most " +
                                                         std::to_string(translator.model.limits().source_len)};
        tokens.push_back(*std::move(ids));
        line_of.push_back(i);
    }
    std::vector<decoding::Source> sources;
    for (const auto& ids : tokens) sources.push_back({.tokens = ids});

    const bool shows_progress = stderr_is_terminal() && lines_before + lines.size() > kProgressLines;
    decoding::Session::Progress progress;
    if (shows_progress)
        progress = [&](std::size_t done, std::size_t) {
            std::fprintf(stderr, "\rvkformer: %zu lines translated", lines_before + done);
        };
    VKFORMER_TRY(const auto hypotheses, translator.session->generate(sources, progress));
    if (shows_progress) std::fputc('\n', stderr);

    std::vector<std::string> results(lines.size());
    for (std::size_t i = 0; i < lines.size() && command.json; ++i) results[i] = as_json(lines[i], "", {}).dump();
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
        const std::string translation = translator.tokenizer->decode(hypotheses[i].tokens);
        results[line_of[i]] = command.json ? as_json(lines[line_of[i]], translation, hypotheses[i])
                                                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                                           : translation;
    }
    std::string out;
    for (const std::string& result : results) out += result + "\n";
    return print(out);
}

Result<Translator> open_translator(const TranslateCommand& command) {
    VKFORMER_TRY(const auto folder, command.model.find());
    VKFORMER_TRY(auto model, models::Marian::load(folder));
    VKFORMER_TRY(auto generation, models::load_generation_config(folder, model.config().max_position_embeddings));
    VKFORMER_TRY(auto tokenizer, text::load_tokenizer(folder));
    if (command.beams > 0) generation.beams = command.beams;
    if (command.max_length > 0) generation.max_steps = command.max_length;
    VKFORMER_TRY(auto backend, open_backend(command.device));
    return Translator{.tokenizer = std::move(tokenizer),
                      .backend = std::move(backend),
                      .model = std::move(model),
                      .generation = std::move(generation)};
}

/// The session's batch is fixed by the first chunk: no larger than there are lines.
Result<void> open_session(Translator& translator, const TranslateCommand& command, std::size_t lines) {
    constexpr std::size_t kDefaultBatch = 32;
    const std::size_t batch = command.batch > 0 ? command.batch : std::clamp<std::size_t>(lines, 1, kDefaultBatch);
    VKFORMER_TRY(auto session, decoding::Session::create(*translator.backend, translator.model,
                                                         {.generation = translator.generation,
                                                          .batch = static_cast<std::uint32_t>(batch),
                                                          .dtype = command.device.dtype_value()}));
    translator.session.emplace(std::move(session));
    return {};
}

Result<int> run(const TranslateCommand& command) {
    VKFORMER_TRY(Translator translator, open_translator(command));
    if (!command.texts.empty()) {
        VKFORMER_CHECK(open_session(translator, command, command.texts.size()));
        VKFORMER_CHECK(translate(translator, command, command.texts, 0));
        return kOk;
    }
    const std::size_t chunk_lines = stdin_is_terminal() ? 1 : kChunkLines;  // a person wants an answer to each line
    std::size_t lines_before = 0;
    for (bool at_end = false; !at_end;) {
        std::vector<std::string> lines;
        std::string line;
        while (lines.size() < chunk_lines && !(at_end = !std::getline(std::cin, line))) {
            if (line.ends_with('\r')) line.pop_back();
            lines.push_back(line);
        }
        if (lines.empty()) break;
        if (!translator.session) VKFORMER_CHECK(open_session(translator, command, lines.size()));
        VKFORMER_CHECK(translate(translator, command, lines, lines_before));
        lines_before += lines.size();
    }
    return kOk;
}

}  // namespace

void add_translate(CLI::App& app, Action& action) {
    auto options = std::make_shared<TranslateCommand>();
    CLI::App& command = *app.add_subcommand("translate", "Translate texts, or the lines of standard input");
    command.add_option("text", options->texts, "Texts, one result line each; none: lines of standard input");
    options->model.add(command);
    command.add_option("-b,--beams", options->beams, "Beams; 1 is greedy (default: what the model folder says)")
        ->check(CLI::Range(1u, graph::kMaxBeams));
    command.add_option("--batch", options->batch, "Texts that are translated together (default: up to 32)")
        ->check(CLI::Range(1u, 4096u));
    command
        .add_option("--max-length", options->max_length,
                    "Tokens to generate at most (default: what the model folder says)")
        ->check(CLI::Range(1u, 1u << 20));
    command.add_flag("--json", options->json, "One JSON object per line: source, translation, tokens, score");
    options->device.add_device(command);
    options->device.add_dtype(command);
    command.footer(
        "Examples:\n"
        "  vkformer translate \"March 4, 2021\" \"le 1er mai 1968\"\n"
        "  vkformer translate --beams 4 --json < dates.txt\n"
        "  vkformer translate --model opus-mt-en-de --device cpu \"Good morning\"");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
