// SPDX-License-Identifier: MIT
/// vkformer translate: texts in, texts out, many at a time.
#include <cmath>
#include <cstdio>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/platform/terminal.hpp"
#include "core/try.hpp"
#include "decoding/invalid.hpp"
#include "graph/builders.hpp"
#include "inputs.hpp"
#include "vkformer/translator.hpp"

namespace vkformer::cli {
namespace {

constexpr std::size_t kProgressLines = 100;

struct TranslateCommand {
    DeviceOptions device;
    ModelOption model;
    WeightsOption weights;
    std::vector<std::string> texts;
    BadInputs bad;
    std::string from, to, prefix;
    std::uint32_t beams = 0, batch = 0, max_length = 0;  // 0: not given
    std::uint32_t hypotheses = 1, alternatives = 0;
    bool json = false;
};

std::string as_json(const std::string& source, const Translation& translation) {
    nlohmann::json object = {{"source", source}, {"translation", translation.text}, {"tokens", translation.tokens}};
    if (translation.score) object["score"] = *translation.score;
    for (const Translation& next : translation.further)
        object["further"].push_back({{"translation", next.text}, {"tokens", next.tokens}, {"score", *next.score}});
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string as_json(const std::string& source, const Alternative& alternative) {
    nlohmann::json object = {{"source", source},
                             {"piece", alternative.piece},
                             {"token", alternative.next.token},
                             {"log_prob", alternative.next.log_prob},
                             {"translation", alternative.translation.text},
                             {"tokens", alternative.translation.tokens}};
    if (alternative.translation.score) object["score"] = *alternative.translation.score;
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// A line for each way to go on behind the prefix.
Result<void> show_alternatives(Translator& translator, const TranslateCommand& command, const std::string& text) {
    VKFORMER_TRY(const auto alternatives,
                 translator.alternatives({.text = text, .prefix = command.prefix}, command.alternatives));
    std::string out;
    for (const Alternative& one : alternatives) {
        char probability[32];
        std::snprintf(probability, sizeof probability, "%.3g\t", std::exp(static_cast<double>(one.next.log_prob)));
        out += (command.json ? as_json(text, one) : probability + one.translation.text) + "\n";
    }
    return print(out);
}

/// Translates the inputs and prints one line for each.
Result<void> translate(Translator& translator, TranslateCommand& command, std::vector<Input<std::string>> inputs) {
    const std::size_t before = inputs.front().number - 1;
    const bool shows_progress =
        platform::is_terminal(platform::Stream::error) && before + inputs.size() > kProgressLines;
    Translator::Progress progress;
    if (shows_progress)
        progress = [&](std::size_t done, std::size_t) {
            std::fprintf(stderr, "\rvkformer: %zu lines translated", before + done);
        };
    const auto prefixed = [&](const std::string& text) { return PrefixedText{.text = text, .prefix = command.prefix}; };
    const auto run = [&](const std::vector<std::string>& texts) {
        std::vector<PrefixedText> all;
        for (const std::string& text : texts) all.push_back(prefixed(text));
        return translator.translate(all, progress);
    };
    auto translations =
        command.bad.results(inputs, run, [&](const std::string& text) { return translator.check(prefixed(text)); });
    if (shows_progress) std::fputc('\n', stderr);
    if (!translations) return std::move(translations).error();
    std::string out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto& translation = (*translations)[i];
        if (command.json)
            out += translation ? as_json(inputs[i].value, *translation) : command.bad.as_json(inputs[i]);
        else if (translation)
            out += translation->text;
        out += "\n";
    }
    return print(out);
}

Result<int> run(TranslateCommand command) {
    if (command.hypotheses > 1 && !command.json)
        return Error{ErrorCode::InvalidArgument, "--hypotheses needs --json, which has room for more than one"};
    if (command.alternatives > 0 && (command.texts.empty() || command.hypotheses > 1))
        return Error{
            ErrorCode::InvalidArgument,
            "--alternatives needs texts as arguments, and has one translation for each: leave out --hypotheses"};
    VKFORMER_TRY(const auto folder, command.model.find());
    TranslatorOptions options{.device = command.device.device,
                              .precision = command.device.dtype_value() == DType::f16 ? Precision::f16 : Precision::f32,
                              .weights = command.weights.storage(),
                              .beams = command.beams,
                              .max_length = command.max_length,
                              .batch = command.batch,
                              .hypotheses = command.hypotheses,
                              .from = command.from,
                              .to = command.to,
                              .plain_shaders = command.device.plain};
    VKFORMER_TRY(options.shader_variants, command.device.variants_by_op());
    options.offload = command.device.offload();
    if (!command.device.quiet) options.on_progress = show_progress;
    VKFORMER_TRY(Translator translator, Translator::load(folder, options));
    VKFORMER_CHECK(command.device.heed(translator.notes()));
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", translator.device().c_str());
    if (!command.prefix.empty()) VKFORMER_CHECK(translator.check(PrefixedText{.text = "x", .prefix = command.prefix}));
    if (command.alternatives > 0) {
        for (std::size_t i = 0; i < command.texts.size(); ++i) {
            if (i > 0 && !command.json) VKFORMER_CHECK(print("\n"));
            auto shown = show_alternatives(translator, command, command.texts[i]);
            if (!shown) return decoding::numbered("text", i, std::move(shown).error());
        }
        return kOk;
    }
    VKFORMER_TRY(Inputs inputs, Inputs::open("text", command.texts, ""));
    command.bad.begin(inputs);
    while (!command.bad.has_ended()) {
        VKFORMER_TRY(auto some, inputs.next());
        if (some.empty()) break;
        VKFORMER_CHECK(translate(translator, command, std::move(some)));
    }
    return command.bad.finish();
}

}  // namespace

void add_translate(CLI::App& app, Action& action) {
    auto options = std::make_shared<TranslateCommand>();
    CLI::App& command = *app.add_subcommand("translate", "Translate texts, or the lines of standard input");
    command.add_option("text", options->texts, "Texts, one result line each; none: lines of standard input");
    options->model.add(command);
    command.add_option("--from", options->from, "Language of the texts, for models of many: eng_Latn, en_XX, en, …");
    command.add_option("--to", options->to, "Language to translate into, likewise");
    command.add_option("--prefix", options->prefix, "What every translation begins with: the model goes on from there");
    command.add_option("-b,--beams", options->beams, "Beams; 1 is greedy (default: what the model folder says)")
        ->check(CLI::Range(1u, graph::kMaxBeams));
    command.add_option("--batch", options->batch, "Texts that are translated together (default: up to 32)")
        ->check(CLI::Range(1u, 4096u));
    command
        .add_option("--max-length", options->max_length,
                    "Tokens to generate at most (default: what the model folder says)")
        ->check(CLI::Range(1u, 1u << 20));
    command
        .add_option("--hypotheses", options->hypotheses,
                    "Translations of each text that --json has, the best first: at most as many as there are beams")
        ->check(CLI::Range(1u, graph::kMaxBeams));
    auto* const alternatives =
        command
            .add_option(
                "--alternatives", options->alternatives,
                "Ways to go on behind the prefix: so many translations of each text, each with another next token,\n"
                "the likeliest first, behind that token's probability")
            ->check(CLI::Range(1u, 20u));
    options->bad.add(command);
    alternatives->excludes(command.get_option("--skip-bad-lines"));
    command.add_flag("--json", options->json, "One JSON object per line: source, translation, tokens, score, further");
    options->device.add_device(command);
    options->device.add_strict(command);
    options->device.add_dtype(command);
    options->weights.add(command);
    command.footer(
        "Examples:\n"
        "  vkformer translate \"March 4, 2021\" \"le 1er mai 1968\"\n"
        "  vkformer translate --beams 4 --json < dates.txt\n"
        "  vkformer translate --model opus-mt-en-de --prefix \"Guten Tag\" \"Good morning, everybody\"\n"
        "  vkformer translate --model opus-mt-en-de --prefix \"Guten\" --alternatives 5 \"Good morning\"\n"
        "  vkformer translate --model opus-mt-en-de --device cpu \"Good morning\"\n"
        "  vkformer translate --model nllb-200-distilled-600M --from eng_Latn --to deu_Latn \"Good morning\"\n"
        "  vkformer translate --model flan-t5-small \"translate English to German: Good morning\"");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
