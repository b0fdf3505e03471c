// SPDX-License-Identifier: MIT
/// vkformer chat: a conversation with a language model, in a terminal or line by line from a script.
#include <cstdio>
#include <iostream>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/try.hpp"
#include "generator.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;

struct ChatCommand {
    GeneratorCommand generator;
    std::string system;
    std::vector<std::string> messages;  ///< of the user, one after the other; none: lines of standard input
    bool json = false;
};

std::string dump(const json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

/// Asks the model for its next turn, prints it and adds it to the conversation.
Result<void> answer(Generator& generator, const ChatCommand& command, std::vector<Message>& conversation) {
    std::optional<Error> broken;  // standard output, say a closed pipe
    const auto on_text = [&](std::size_t, std::string_view text, std::int32_t token) {
        json event = {{"event", token < 0 ? "text" : "token"}, {"text", text}};
        if (token >= 0) event["token"] = token;
        auto printed = print(command.json ? dump(event) : std::string(text));
        if (!printed) broken = printed.error();
        return !broken;
    };
    VKFORMER_TRY(const auto options, command.generator.generate_options());
    VKFORMER_TRY(const Generation generation, generator.chat(conversation, options, on_text));
    if (broken) return *broken;
    conversation.push_back({"assistant", generation.text});
    if (command.json)
        return print(dump({{"event", "end"},
                           {"finish", to_string(generation.finish)},
                           {"text", generation.text},
                           {"tokens", generation.tokens},
                           {"prompt_tokens", generation.prompt_tokens},
                           {"reused_tokens", generation.reused_tokens}}));
    VKFORMER_CHECK(print("\n"));
    if (generation.finish == Finish::context)
        return Error{ErrorCode::InvalidArgument, "the context of " + std::to_string(generator.context()) +
                                                     " tokens is full; start again, or say --context for a longer one"};
    return {};
}

Result<int> run(const ChatCommand& command) {
    VKFORMER_TRY(Generator generator, load_generator(command.generator));
    std::vector<Message> conversation;
    if (!command.system.empty()) conversation.push_back({"system", command.system});
    for (const std::string& message : command.messages) {
        conversation.push_back({"user", message});
        VKFORMER_CHECK(answer(generator, command, conversation));
    }
    if (!command.messages.empty()) return kOk;
    const bool asks = stdin_is_terminal() && !command.json;
    std::string line;
    while (true) {
        if (asks) std::fputs("> ", stderr);
        if (!std::getline(std::cin, line)) break;
        if (line.ends_with('\r')) line.pop_back();
        if (line.empty()) continue;
        conversation.push_back({"user", line});
        VKFORMER_CHECK(answer(generator, command, conversation));
    }
    return kOk;
}

}  // namespace

void add_chat(CLI::App& app, Action& action) {
    auto options = std::make_shared<ChatCommand>();
    CLI::App& command = *app.add_subcommand("chat", "Talk to a language model, by the chat template that it carries");
    command.add_option("message", options->messages, "The user's turns; none: each line of standard input is one");
    command.add_option("--system", options->system, "What the model is told before the conversation");
    options->generator.add(command);
    command.add_flag("--json", options->json, "One JSON object per token, then one per answer");
    command.footer(
        "The conversation so far stays in the caches: only what is new is computed.\n"
        "Examples:\n"
        "  vkformer chat --model SmolLM2-135M-Instruct\n"
        "  vkformer chat --model model.gguf --system \"Answer briefly.\" --temperature 0.7 \"What is a frog?\"");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
