// SPDX-License-Identifier: MIT
#include "generator.hpp"

#include <charconv>
#include <cstdio>
#include <map>

#include "core/mapped_file.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"

namespace vkformer::cli {

void GeneratorCommand::add(CLI::App& command) {
    const std::string taken = "Model folder (config.json, safetensors, tokenizer.json) or GGUF file";
    command.add_option("-m,--model", model, shipped.empty() ? taken : taken + " (default: the shipped model)")
        ->required(shipped.empty());
    command
        .add_option("-n,--max-tokens", max_tokens,
                    "Tokens to generate at most; 0: what the model says, else until it ends or the context is full")
        ->capture_default_str();
    command.add_option("--min-tokens", min_tokens,
                       "Tokens to generate before the model may end (default: what the model says, else 0)");
    command.add_option("--context", context,
                       "Tokens of prompt and answer at most (default: the model's, at most 4096)");
    command.add_option("--batch", batch, "Prompts that are continued together")
        ->check(CLI::Range(1u, 1024u))
        ->capture_default_str();
    weights.add(command);
    cache.add(command);
    lora.add(command);
    const std::string group = "Sampling (default: what the model says, else --temperature 0)";
    command.add_option("-t,--temperature", temperature, "Divides the logits; 0: the likeliest token, always")
        ->check(CLI::Range(0.0, 1e4))
        ->group(group);
    command.add_option("--top-k", top_k, "Only the k likeliest tokens; 0: all")->group(group);
    command.add_option("--top-p", top_p, "Only the likeliest that make up this share of the probability")
        ->check(CLI::Range(0.0, 1.0))
        ->group(group);
    command.add_option("--min-p", min_p, "Only those at least this share as probable as the likeliest")
        ->check(CLI::Range(0.0, 1.0))
        ->group(group);
    command
        .add_option("--repetition-penalty", repetition_penalty,
                    "Divides or multiplies the logits of tokens that prompt or answer have")
        ->check(CLI::Range(1e-3, 1e3))
        ->group(group);
    command.add_option("--presence-penalty", presence_penalty, "Taken off the logits of tokens that the answer has")
        ->check(CLI::Range(-1e3, 1e3))
        ->group(group);
    command.add_option("--frequency-penalty", frequency_penalty, "Taken off for each time that the answer has them")
        ->check(CLI::Range(-1e3, 1e3))
        ->group(group);
    command
        .add_option("--no-repeat-ngram", no_repeat_ngram,
                    "No run of so many tokens comes twice in prompt and answer; 0: any may")
        ->check(CLI::Range(0u, 1u << 20))
        ->group(group);
    command
        .add_option("--logit-bias", logit_bias, "TOKEN=NUMBER, added to a token's logit; -inf forbids it; repeatable")
        ->take_all()
        ->allow_extra_args(false)
        ->group(group);
    command.add_option("--seed", seed, "Of the draws: the same seed, the same text")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str()
        ->group(group);
    const std::string beam_group = "Beam search (default: what the model says, else none)";
    command
        .add_option("-b,--beams", beams, "Sequences that are continued side by side, the likeliest is printed; 1: none")
        ->check(CLI::Range(1u, 32u))
        ->group(beam_group);
    command
        .add_option("--length-penalty", length_penalty,
                    "A sequence of n tokens scores its log-probability / n to that power (default: what the model "
                    "says, else 1)")
        ->check(CLI::Range(-100.0, 100.0))
        ->group(beam_group);
    command
        .add_option("--early-stopping", early_stopping,
                    "When to end with as many finished sequences as beams: always; when no other is likely to be "
                    "better; or when none "
                    "can be (never)")
        ->check(CLI::IsMember({"always", "heuristic", "never"}))
        ->group(beam_group);
    command
        .add_option("--stop", stop,
                    "A text that ends the generation; may be given several times (default: what the model says)")
        ->check([](const std::string& text) { return text.empty() ? "an empty text ends nothing" : ""; })
        ->take_all()
        ->allow_extra_args(false);
    command
        .add_option("--prompt-lookup", prompt_lookup,
                    "Guess so many tokens at a time from what prompt and answer have said before, and let the model "
                    "check them in one pass: the same text, sooner where it repeats what it has read; 0: none")
        ->check(CLI::Range(0u, 64u))
        ->capture_default_str();
    auto* const drafts = command.add_option(
        "--draft", draft,
        "A smaller model of the same vocabulary (folder or GGUF file) that guesses tokens, of which this one checks "
        "several in one pass: the same text, sooner where the two agree");
    command
        .add_flag(
            "--multi-token", multi_token,
            "Let the model guess tokens by its own multi-token head, as files of DeepSeek-V3, GLM-4.5, Qwen3-Next "
            "and Qwen 3.5 have one, and check several in one pass: the same text, sooner where the head is right")
        ->excludes(drafts)
        ->excludes("--prompt-lookup");
    command
        .add_option("--draft-tokens", draft_tokens,
                    "Tokens that draft model or head guess at a time at most; 0: none (default: 7, or fewer where that "
                    "is faster)")
        ->check(CLI::Range(0u, 64u));
    drafts->excludes("--prompt-lookup");
    command.add_flag("--ignore-end", ignore_end, "Go on behind the model's end token");
    const std::string constraint_group = "What the text has to be (one of them)";
    auto* const schema =
        command.add_option("--json-schema", json_schema,
                           "JSON that a schema accepts: a file's name, or the schema itself, which begins with {");
    auto* const object = command.add_flag("--json-object", json_object, "Any JSON object");
    auto* const expression =
        command.add_option("--regex", regex, "A text that the regular expression matches as a whole");
    auto* const choices = command.add_option("--choice", choice, "One of these texts; given several times")
                              ->take_all()
                              ->allow_extra_args(false);
    for (CLI::Option* const one : {schema, object, expression, choices}) {
        one->group(constraint_group);
        for (CLI::Option* const other : {schema, object, expression, choices})
            if (one != other) one->excludes(other);
    }
    device.add_device(command);
    device.add_strict(command);
    device.add_dtype(command);
    parsed_ = &command;
}

namespace {

Result<std::map<std::int32_t, float>> parse_biases(const std::vector<std::string>& texts) {
    std::map<std::int32_t, float> biases;
    for (const std::string& text : texts) {
        const char *at = text.data(), *const end = at + text.size();
        std::int32_t token = 0;
        float bias = 0;
        auto read = std::from_chars(at, end, token);
        const bool has_token = read.ec == std::errc{} && read.ptr != end && *read.ptr == '=';
        if (has_token) read = std::from_chars(read.ptr + 1, end, bias);
        if (!has_token || read.ec != std::errc{} || read.ptr != end)
            return Error{ErrorCode::InvalidArgument,
                         "--logit-bias " + text + ": expected TOKEN=NUMBER, as in 15043=-2.5"};
        biases[token] = bias;
    }
    return biases;
}

Result<std::string> schema_text(const std::string& given) {
    if (given.starts_with("{")) return given;
    VKFORMER_TRY(const auto file, MappedFile::open(utf8_path(given)));
    const auto bytes = file->bytes();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

Result<std::optional<Constraint>> GeneratorCommand::constraint() const {
    std::optional<Constraint> made;
    if (!json_schema.empty()) {
        VKFORMER_TRY(const std::string schema, schema_text(json_schema));
        VKFORMER_TRY(made, Constraint::json_schema(schema));
    }
    if (json_object) {
        VKFORMER_TRY(made, Constraint::json());
    }
    if (!regex.empty()) {
        VKFORMER_TRY(made, Constraint::regex(regex));
    }
    if (!choice.empty()) {
        VKFORMER_TRY(made, Constraint::choice(choice));
    }
    return made;
}

Result<GenerateOptions> GeneratorCommand::generate_options() const {
    GenerateOptions options{.max_tokens = max_tokens,
                            .min_tokens = min_tokens,
                            .seed = seed,
                            .stop = stop,
                            .ignore_end = ignore_end,
                            .prompt_lookup = prompt_lookup,
                            .draft_tokens = draft_tokens};
    VKFORMER_TRY(options.constraint, constraint());
    VKFORMER_TRY(const auto adapters, lora.adapters());
    for (const auto& adapter : adapters) options.adapters[adapter.name] = adapter.scale;
    const auto is_given = [&](auto... names) { return ((parsed_->count(names) > 0) || ...); };
    const bool has_rules = is_given("--top-k", "--top-p", "--min-p");
    if (!has_rules && !is_given("--temperature", "--repetition-penalty", "--presence-penalty", "--frequency-penalty",
                                "--logit-bias", "--no-repeat-ngram"))
        return options;
    Sampling sampling{.temperature = temperature,
                      .top_k = top_k,
                      .top_p = top_p,
                      .min_p = min_p,
                      .repetition_penalty = repetition_penalty,
                      .presence_penalty = presence_penalty,
                      .frequency_penalty = frequency_penalty,
                      .no_repeat_ngram = no_repeat_ngram};
    if (has_rules && !is_given("--temperature")) sampling.temperature = 1;  // rules for drawing mean drawing
    VKFORMER_TRY(sampling.logit_bias, parse_biases(logit_bias));
    options.sampling = std::move(sampling);
    return options;
}

Result<Generator> load_generator(const GeneratorCommand& command) {
    if (command.draft_tokens && command.draft.empty() && !command.multi_token)
        return Error{ErrorCode::InvalidArgument, "--draft-tokens needs --draft or --multi-token, which guess them"};
    GeneratorOptions options{.device = command.device.device,
                             .precision = command.device.dtype_value() == DType::f16 ? Precision::f16 : Precision::f32,
                             .weights = command.weights.storage(),
                             .cache = command.cache.is_q8_0() ? CacheStorage::q8_0 : CacheStorage::precision,
                             .context = command.context,
                             .batch = command.batch,
                             .beam_search = {.beams = command.beams, .length_penalty = command.length_penalty},
                             .plain_shaders = command.device.plain};
    if (command.early_stopping == "always") options.beam_search.early_stopping = EarlyStopping::always;
    if (command.early_stopping == "heuristic") options.beam_search.early_stopping = EarlyStopping::heuristic;
    if (command.early_stopping == "never") options.beam_search.early_stopping = EarlyStopping::never;
    if (!command.draft.empty()) options.draft = utf8_path(command.draft);
    options.multi_token = command.multi_token;
    VKFORMER_TRY(options.shader_variants, command.device.variants_by_op());
    options.offload = command.device.offload();
    VKFORMER_TRY(const auto adapters, command.lora.adapters());
    for (const auto& adapter : adapters) options.adapters.push_back({.name = adapter.name, .path = adapter.path});
    if (!command.device.quiet) options.on_progress = show_progress;
    std::filesystem::path model = utf8_path(command.model);
    if (command.model.empty()) {
        VKFORMER_TRY(model, find_shipped(command.shipped));
    }
    VKFORMER_TRY(Generator generator, Generator::load(model, options));
    VKFORMER_CHECK(command.device.heed(generator.notes()));
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", generator.device().c_str());
    return generator;
}

void show_timings(const Generator& generator, std::span<const Generation> generations, bool has_draft) {
    const GenerationTimings& t = generator.timings();
    std::size_t prompt = 0, reused = 0, generated = 0;
    for (const Generation& generation : generations) {
        prompt += generation.prompt_tokens;
        reused += generation.reused_tokens;
        generated += generation.tokens.size();
    }
    // The last token of a prompt goes through the step that gives the first one of the answer: a prompt of one has no rate.
    const auto phrase = [](std::size_t tokens, std::size_t timed, double seconds) {
        std::string text = std::to_string(tokens) + (tokens == 1 ? " token" : " tokens");
        if (timed == 0 || seconds <= 0) return text;
        char rate[48];
        std::snprintf(rate, sizeof(rate), ", %.1f tokens/s", static_cast<double>(timed) / seconds);
        return text + rate;
    };
    const std::string known = reused > 0 ? " (" + std::to_string(reused) + " of them known before)" : "";
    const std::string guesses = t.guessed_tokens > 0 ? "; guesses: " + std::to_string(t.accepted_tokens) + " of " +
                                                           std::to_string(t.guessed_tokens) + " right"
                                : has_draft ? "; guesses: none"
                                            : "";
    std::fprintf(stderr, "vkformer: prompt: %s%s; generated: %s%s\n",
                 phrase(prompt, t.prompt_tokens, t.prompt_seconds).c_str(), known.c_str(),
                 phrase(generated, generated, t.decode_seconds).c_str(), guesses.c_str());
}

}  // namespace vkformer::cli
