// SPDX-License-Identifier: MIT
/// vkformer generate: prompts continued, the text printed as it comes.
#include <charconv>
#include <cstdio>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/try.hpp"
#include "generator.hpp"
#include "line_reader.hpp"
#include "log_probs_json.hpp"
#include "vectors.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;

struct GenerateCommand {
    GeneratorCommand generator;
    std::vector<std::string> prompts;
    std::vector<std::string> tokens;  ///< prompts as "1,2,3"
    bool echo = false, json = false;
    std::optional<std::uint32_t> log_probs;
};

Result<std::vector<std::int32_t>> parse_tokens(const std::string& list) {
    std::vector<std::int32_t> tokens;
    const auto bad = [&] {
        return Error{ErrorCode::InvalidArgument,
                     "--prompt-tokens \"" + list + "\": expected numbers with commas between them"};
    };
    std::size_t at = 0;
    while (at < list.size()) {
        std::size_t end = list.find(',', at);
        if (end == list.npos) end = list.size();
        std::int32_t token = 0;
        const auto [last, error] = std::from_chars(list.data() + at, list.data() + end, token);
        if (error != std::errc{} || last != list.data() + end) return bad();
        tokens.push_back(token);
        at = end + 1;
    }
    if (tokens.empty()) return bad();
    return tokens;
}

/// As --prompt-tokens takes them.
std::string list_of(const std::vector<std::int32_t>& tokens) {
    std::string list;
    for (const std::int32_t token : tokens) list += (list.empty() ? "" : ",") + std::to_string(token);
    return list;
}

struct Prompts {
    std::vector<std::vector<std::int32_t>> tokens;
    std::vector<std::string> texts;  ///< as given; empty for those given as ids
};

/// Those given as ids come first.
Result<Prompts> prompts_of(const Generator& generator, const GenerateCommand& command) {
    Prompts prompts;
    for (const std::string& list : command.tokens) {
        VKFORMER_TRY(auto tokens, parse_tokens(list));
        prompts.tokens.push_back(std::move(tokens));
        prompts.texts.emplace_back();
    }
    std::vector<std::string> texts = command.prompts;
    if (texts.empty() && prompts.tokens.empty()) {
        VKFORMER_TRY(auto text, read_text("-"));
        texts.push_back(std::move(text));
    }
    for (std::string& text : texts) {
        VKFORMER_TRY(auto tokens, generator.tokenize(text));
        prompts.tokens.push_back(std::move(tokens));
        prompts.texts.push_back(std::move(text));
    }
    return prompts;
}

/// What was held back until the end is text without a token; there is no text without a tokenizer.
json as_json(const Generator& generator, std::size_t index, std::string_view text, std::int32_t token) {
    json event = {{"event", token < 0 ? "text" : "token"}, {"prompt", index}};
    if (generator.has_tokenizer()) event["text"] = text;
    if (token >= 0) event["token"] = token;
    return event;
}

json as_json(const Generator& generator, std::size_t index, const Generation& generation) {
    json end = {{"event", "end"},
                {"prompt", index},
                {"finish", to_string(generation.finish)},
                {"tokens", generation.tokens},
                {"prompt_tokens", generation.prompt_tokens},
                {"reused_tokens", generation.reused_tokens}};
    if (generator.has_tokenizer()) end["text"] = generation.text;
    if (generation.score) end["score"] = *generation.score;
    for (const StepLogProbs& step : generation.log_probs) end["log_probs"].push_back(json_of(step));
    return end;
}

Result<int> run(const GenerateCommand& command) {
    VKFORMER_TRY(Generator generator, load_generator(command.generator));
    VKFORMER_TRY(const auto prompts, prompts_of(generator, command));
    const bool streams = prompts.tokens.size() == 1;
    if (command.echo && streams && !command.json) VKFORMER_CHECK(print(prompts.texts[0]));
    std::optional<Error> broken;  // standard output, say a closed pipe
    std::size_t printed_tokens = 0;
    const auto on_text = [&](std::size_t index, std::string_view text, std::int32_t token) {
        Result<void> printed = {};
        if (command.json)
            printed = print(to_line(as_json(generator, index, text, token)) + "\n");
        else if (streams)
            printed = print(generator.has_tokenizer() ? std::string(text)
                                                      : (printed_tokens++ ? "," : "") + std::to_string(token));
        if (!printed) broken = printed.error();
        return !broken;
    };
    VKFORMER_TRY(auto options, command.generator.generate_options());
    options.log_probs = command.log_probs;
    VKFORMER_TRY(const auto generations, generator.generate_tokens(prompts.tokens, options, on_text));
    if (broken) return *broken;
    for (std::size_t i = 0; i < generations.size(); ++i) {
        if (command.json) {
            VKFORMER_CHECK(print(to_line(as_json(generator, i, generations[i])) + "\n"));
        } else {
            const std::string echoed = command.echo ? prompts.texts[i] : "";
            const std::string& text = generator.has_tokenizer() ? generations[i].text : list_of(generations[i].tokens);
            const bool is_printed = streams && (generator.has_tokenizer() || printed_tokens > 0);
            VKFORMER_CHECK(print((is_printed ? "" : echoed + text) + "\n"));
        }
    }
    if (!command.generator.device.quiet)
        show_timings(generator, generations, !command.generator.draft.empty() || command.generator.multi_token);
    return kOk;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
    auto options = std::make_shared<GenerateCommand>();
    CLI::App& command = *app.add_subcommand("generate", "Continue prompts with a language model");
    command.add_option("prompt", options->prompts, "Prompts; none: all of standard input is one");
    command
        .add_option("--prompt-tokens", options->tokens,
                    "A prompt as token ids: 1,15043,3186; repeatable. A model without tokenizer answers in such")
        ->take_all()
        ->allow_extra_args(false);
    options->generator.shipped = "verse-writer/verse-writer-q8_0.gguf";
    options->generator.add(command);
    command.add_flag("--echo", options->echo, "Print the prompt, if it is a text, before its continuation");
    CLI::Option* const json =
        command.add_flag("--json", options->json, "One JSON object per token, then one per prompt");
    command
        .add_option("--log-probs", options->log_probs,
                    "With --json: how likely the model found each token, and so many of the likeliest in its place")
        ->check(CLI::Range(0u, 20u))
        ->needs(json);
    command.footer(
        "One prompt: its text is printed as it comes. Several: one after the other at the end.\n"
        "Examples:\n"
        "  vkformer generate --temperature 0.7 --top-p 0.9 -n 64 \"In the beginning\"\n"
        "  vkformer generate --model SmolLM2-135M \"Once upon a time\" -n 64\n"
        "  vkformer generate --model model-Q4_K.gguf --temperature 0.8 --top-p 0.95 < prompt.txt\n"
        "  vkformer generate --model gpt2 --beams 4 -n 40 \"The capital of France is\"\n"
        "  vkformer generate --model gpt2 --json --stop \"\\n\" \"The capital of France is\"");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
