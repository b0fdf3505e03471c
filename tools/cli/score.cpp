// SPDX-License-Identifier: MIT
/// vkformer score: how likely a language model finds texts, or a translation model translations.
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "inputs.hpp"
#include "line_reader.hpp"
#include "log_probs_json.hpp"
#include "models/open_model.hpp"
#include "vectors.hpp"
#include "vkformer/generator.hpp"
#include "vkformer/translator.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;

struct ScoreCommand {
    DeviceOptions device;
    std::string model;
    WeightsOption weights;
    CacheOption cache;
    LoraOption lora;
    std::vector<std::string> texts;
    BadInputs bad;
    std::string input, source, from, to;
    std::uint32_t context = 0, stride = 0, likeliest = 0;
    bool whole = false, json = false;
    CLI::App* parsed = nullptr;  // knows what was given

    Precision precision() const { return device.dtype_value() == DType::f16 ? Precision::f16 : Precision::f32; }
};

/// "5 texts, 1234 tokens, perplexity 17.30": over all that were scored.
struct Sums {
    std::size_t texts = 0, tokens = 0;
    double log_prob = 0;

    void add(const TextScores& scores) {
        ++texts;
        tokens += scores.log_probs.size();
        log_prob += scores.sum();
    }
    double perplexity() const { return std::exp(-log_prob / static_cast<double>(tokens)); }
};

std::string number(double value) {
    char buffer[48];
    std::snprintf(buffer, sizeof buffer, "%.4f", value);
    return buffer;
}

/// A text, alone or after its source.
json json_of(const TextScores& scores) {
    Sums sums;
    sums.add(scores);
    json object = {{"log_prob", sums.log_prob}, {"tokens", scores.tokens}, {"log_probs", json::array()}};
    object["perplexity"] = sums.tokens > 0 ? json(sums.perplexity()) : json();
    for (const StepLogProbs& step : scores.log_probs) object["log_probs"].push_back(cli::json_of(step));
    return object;
}

std::string line_of(const TextScores& scores, const std::string& text) {
    Sums sums;
    sums.add(scores);
    return number(sums.log_prob) + "\t" + std::to_string(sums.tokens) + "\t" +
           (sums.tokens > 0 ? number(sums.perplexity()) : "-") + "\t" + text;
}

/// What is scored: a text, or a pair.
struct Scored {
    std::string text;                          // or the source
    std::optional<std::string> translation{};  // of a model that translates

    json named(json object) const {
        object["text"] = text;
        if (translation) object["translation"] = *translation;
        return object;
    }
    const std::string& shown() const noexcept { return translation ? *translation : text; }
};

/// A model that scores.
class Scorer {
public:
    virtual ~Scorer() = default;
    virtual const std::string& device() const = 0;
    virtual Result<std::vector<TextScores>> score(const std::vector<Scored>& texts) = 0;
    /// Whether this one can be scored. Errors: why not.
    virtual Result<void> check(const Scored& text) = 0;
    /// What a line, or an argument, says. Errors: InvalidArgument.
    virtual Result<Scored> parse(std::string line) const = 0;
};

/// What `call` gives that is told how far it is.
auto with_progress(bool is_quiet, const auto& call) {
    if (is_quiet) return call({});
    auto result = call([](std::size_t done, std::size_t total) {
        show_progress("scored " + std::to_string(done) + " of " + std::to_string(total));
    });
    show_progress("");
    return result;
}

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r") == text.npos; }

/// Of a blank line; a blank source with a translation is an error.
bool has_nothing(const Scored& text) { return is_blank(text.text) && !text.translation; }

class TextsScorer final : public Scorer {
public:
    TextsScorer(Generator generator, ScoreOptions options, bool is_quiet)
        : generator_(std::move(generator)), options_(std::move(options)), is_quiet_(is_quiet) {}

    static Result<std::unique_ptr<Scorer>> load(const ScoreCommand& command) {
        for (const char* const option : {"--source", "--from", "--to"})
            if (command.parsed->count(option) > 0)
                return Error{ErrorCode::InvalidArgument,
                             std::string(option) + " is for models that translate, and this is a language model"};
        GeneratorOptions options{.device = command.device.device,
                                 .precision = command.precision(),
                                 .weights = command.weights.storage(),
                                 .cache = command.cache.is_q8_0() ? CacheStorage::q8_0 : CacheStorage::precision,
                                 .context = command.context,
                                 .beam_search = {.beams = 1},
                                 .plain_shaders = command.device.plain};
        VKFORMER_TRY(options.shader_variants, command.device.variants_by_op());
        options.offload = command.device.offload();
        ScoreOptions asked = {.likeliest = command.likeliest, .stride = command.stride};
        VKFORMER_TRY(asked.adapters, command.lora.ask(options.adapters));
        if (!command.device.quiet) options.on_progress = show_progress;
        VKFORMER_TRY(Generator generator, Generator::load(utf8_path(command.model), options));
        VKFORMER_CHECK(command.device.heed(generator.notes()));
        if (command.whole && asked.stride == 0) asked.stride = std::max(generator.score_context() / 2, 1u);
        return std::unique_ptr<Scorer>(
            std::make_unique<TextsScorer>(std::move(generator), std::move(asked), command.device.quiet));
    }

    const std::string& device() const override { return generator_.device(); }
    Result<std::vector<TextScores>> score(const std::vector<Scored>& texts) override {
        std::vector<std::string> all;
        for (const Scored& one : texts) all.push_back(one.text);
        return with_progress(
            is_quiet_, [&](const Generator::Progress& progress) { return generator_.score(all, options_, progress); });
    }
    Result<void> check(const Scored& text) override {
        VKFORMER_TRY(const auto tokens, generator_.tokenize(text.text));
        if (tokens.empty()) return Error{ErrorCode::InvalidArgument, "there are no tokens"};
        if (options_.stride > 0 || tokens.size() <= generator_.score_context()) return {};
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(tokens.size()) + " tokens are more than the context of " +
                         std::to_string(generator_.score_context()) + "; --stride reads windows"};
    }
    Result<Scored> parse(std::string line) const override { return Scored{.text = std::move(line)}; }

private:
    Generator generator_;
    ScoreOptions options_;
    bool is_quiet_;
};

class TranslationsScorer final : public Scorer {
public:
    TranslationsScorer(Translator translator, const ScoreCommand& command)
        : translator_(std::move(translator)),
          source_(command.source),
          likeliest_(command.likeliest),
          is_quiet_(command.device.quiet) {}

    static Result<std::unique_ptr<Scorer>> load(const ScoreCommand& command) {
        for (const char* const option : {"--whole", "--stride", "--context", "--cache-dtype", "--lora"})
            if (command.parsed->count(option) > 0)
                return Error{ErrorCode::InvalidArgument,
                             std::string(option) + " is for language models, and this model translates"};
        TranslatorOptions options{.device = command.device.device,
                                  .precision = command.precision(),
                                  .weights = command.weights.storage(),
                                  .from = command.from,
                                  .to = command.to,
                                  .plain_shaders = command.device.plain};
        VKFORMER_TRY(options.shader_variants, command.device.variants_by_op());
        options.offload = command.device.offload();
        if (!command.device.quiet) options.on_progress = show_progress;
        VKFORMER_TRY(Translator translator, Translator::load(utf8_path(command.model), options));
        VKFORMER_CHECK(command.device.heed(translator.notes()));
        return std::unique_ptr<Scorer>(std::make_unique<TranslationsScorer>(std::move(translator), command));
    }

    const std::string& device() const override { return translator_.device(); }
    Result<std::vector<TextScores>> score(const std::vector<Scored>& texts) override {
        std::vector<TranslatedText> all;
        for (const Scored& one : texts) all.push_back({.text = one.text, .translation = *one.translation});
        return with_progress(is_quiet_, [&](const Translator::Progress& progress) {
            return translator_.score(all, likeliest_, progress);
        });
    }
    Result<void> check(const Scored& text) override {
        return translator_.check(TranslatedText{.text = text.text, .translation = *text.translation});
    }
    Result<Scored> parse(std::string line) const override {
        if (!source_.empty()) return Scored{.text = source_, .translation = std::move(line)};
        const std::size_t tab = line.find('\t');
        if (tab == line.npos)
            return Error{ErrorCode::InvalidArgument,
                         "there is no tab between a text and its translation, and no --source"};
        return Scored{.text = line.substr(0, tab), .translation = line.substr(tab + 1)};
    }

private:
    Translator translator_;
    std::string source_;
    std::uint32_t likeliest_;
    bool is_quiet_;
};

Result<std::unique_ptr<Scorer>> load_scorer(const ScoreCommand& command) {
    constexpr std::array kWanted = {models::ModelKind::encoder_decoder, models::ModelKind::decoder};
    VKFORMER_TRY(const auto opened, models::open_model(utf8_path(command.model), kWanted));
    return models::kind_of(opened) == models::ModelKind::decoder ? TextsScorer::load(command)
                                                                 : TranslationsScorer::load(command);
}

Result<void> score(Scorer& scorer, ScoreCommand& command, std::vector<Input<std::string>> lines, Sums& sums) {
    std::vector<Input<Scored>> inputs;
    for (auto& [line, number, error] : lines) {
        inputs.push_back({.value = {.text = line}, .number = number, .error = std::move(error)});
        if (!inputs.back().error.empty()) continue;
        if (is_blank(line)) continue;  // has no tokens
        auto parsed = scorer.parse(std::move(line));
        if (parsed)
            inputs.back().value = *std::move(parsed);
        else
            inputs.back().error = parsed.error().message;
    }
    const auto run = [&](const std::vector<Scored>& texts) -> Result<std::vector<TextScores>> {
        std::vector<Scored> said;
        for (const Scored& text : texts)
            if (!has_nothing(text)) said.push_back(text);
        VKFORMER_TRY(auto found, scorer.score(said));
        std::vector<TextScores> all;
        for (std::size_t i = 0, next = 0; i < texts.size(); ++i)
            all.push_back(has_nothing(texts[i]) ? TextScores() : std::move(found[next++]));
        return all;
    };
    VKFORMER_TRY(const auto scores,
                 command.bad.results(inputs, run, [&](const Scored& text) { return scorer.check(text); }));
    std::string out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Scored& text = inputs[i].value;
        if (scores[i]) sums.add(*scores[i]);
        if (command.json)
            out += scores[i] ? to_line(text.named(json_of(*scores[i]))) : command.bad.as_json(inputs[i]);
        else if (scores[i])
            out += line_of(*scores[i], text.shown());
        out += "\n";
    }
    return print(out);
}

Result<void> score_whole(Scorer& scorer, const ScoreCommand& command, Sums& sums) {
    VKFORMER_TRY(std::string text, read_text(command.input));
    VKFORMER_TRY(const auto scores, scorer.score({Scored{.text = std::move(text)}}));
    sums.add(scores[0]);
    return print((command.json ? to_line(json_of(scores[0])) : line_of(scores[0], command.input)) + "\n");
}

Result<int> run(ScoreCommand command) {
    if (command.likeliest > 0 && !command.json)
        return Error{ErrorCode::InvalidArgument, "--likeliest needs --json, which has room for more than one"};
    VKFORMER_TRY(const auto scorer, load_scorer(command));
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", scorer->device().c_str());
    Sums sums;
    const auto tell = [&] {
        if (!command.device.quiet && sums.tokens > 0)
            std::fprintf(stderr, "vkformer: %zu %s, %zu tokens, perplexity %.4f\n", sums.texts,
                         sums.texts == 1 ? "text" : "texts", sums.tokens, sums.perplexity());
    };
    if (command.whole) {
        VKFORMER_CHECK(score_whole(*scorer, command, sums));
        tell();
        return kOk;
    }
    VKFORMER_TRY(Inputs inputs, Inputs::open("text", command.texts, command.input));
    command.bad.begin(inputs);
    while (!command.bad.has_ended()) {
        VKFORMER_TRY(auto some, inputs.next());
        if (some.empty()) break;
        VKFORMER_CHECK(score(*scorer, command, std::move(some), sums));
    }
    tell();
    return command.bad.finish();
}

}  // namespace

void add_score(CLI::App& app, Action& action) {
    auto options = std::make_shared<ScoreCommand>();
    CLI::App& command = *app.add_subcommand("score", "Say how likely a model finds texts, or translations");
    options->parsed = &command;
    auto* const texts =
        command.add_option("text", options->texts, "Texts, one result line each; none: lines of the input");
    command
        .add_option("-m,--model", options->model,
                    "A language model (folder or GGUF file), or an encoder-decoder's folder")
        ->required();
    command.add_option("-i,--input", options->input, "A file with a text on each line (default: standard input)")
        ->excludes(texts);
    auto* const whole =
        command.add_flag("--whole", options->whole, "The input is one text, read in windows where it is long")
            ->excludes(texts);
    command
        .add_option("--stride", options->stride,
                    "Texts longer than the context are read in windows, each so many tokens behind the one before\n"
                    "(with --whole by default half the context; else they are an error)")
        ->check(CLI::Range(1u, 1u << 30));
    command.add_option("--context", options->context,
                       "Tokens read together at most (default: the model's, at most 4096)");
    command
        .add_option("--source", options->source,
                    "For a model that translates: the texts are translations of this one; without it each is a text,\n"
                    "a tab and its translation")
        ->excludes(whole);
    command.add_option("--from", options->from, "Language of the texts, for models of many");
    command.add_option("--to", options->to, "Language of the translations, likewise");
    command
        .add_option("--likeliest", options->likeliest,
                    "So many of the likeliest tokens in each place, in what --json prints")
        ->check(CLI::Range(0u, 20u));
    options->bad.add(command);
    whole->excludes(command.get_option("--skip-bad-lines"));
    command.add_flag("--json", options->json,
                     "One JSON object per line: text, translation, log_prob, perplexity, tokens, log_probs");
    options->device.add_device(command);
    options->device.add_strict(command);
    options->device.add_dtype(command);
    options->weights.add(command);
    options->cache.add(command);
    options->lora.add(command);
    command.footer(
        "Prints the sum of the log-probabilities, how many tokens have one, their perplexity, and the text; at the "
        "end\n"
        "the perplexity of all. A language model's first token has none, a translation's end token has one.\n"
        "Examples:\n"
        "  vkformer score --model Llama-3.2-1B \"The cat sat on the mat.\" \"The mat sat on the cat.\"\n"
        "  vkformer score --model model-Q4_K.gguf --whole --input wiki.test.raw --context 2048\n"
        "  vkformer score --model opus-mt-en-de --source \"Good morning\" \"Guten Morgen\" \"Gute Nacht\"");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
