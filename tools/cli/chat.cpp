// SPDX-License-Identifier: MIT
/// vkformer chat: a conversation with a language model, in a terminal or line by line from a script.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "conversation.hpp"
#include "core/platform/system.hpp"
#include "core/platform/terminal.hpp"
#include "core/try.hpp"
#include "generator.hpp"
#include "hints.hpp"
#include "line_editor.hpp"
#include "line_reader.hpp"
#include "vectors.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;

struct ChatCommand {
    GeneratorCommand generator;
    std::string system;
    std::vector<std::string> messages;  ///< of the user, one after the other; none: lines of standard input
    bool json = false;
};

std::string number_of(std::size_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

class Chat {
public:
    Chat(Generator generator, const ChatCommand& command, GenerateOptions options)
        : generator_(std::move(generator)),
          command_(command),
          options_(std::move(options)),
          conversation_(command.system) {}

    /// Asks the model, prints what it says, and keeps both. Errors: InvalidArgument (the message is too long, or the model's template
    /// refuses it; the conversation is as it was), a broken standard output, and those of the device.
    Result<void> turn(const std::string& text) {
        const std::size_t context = generator_.context();
        const std::size_t kept_free = std::min<std::size_t>(longest_answer(), context / 4);
        const auto count = [this](const std::vector<Message>& messages) -> Result<std::size_t> {
            VKFORMER_TRY(const auto tokens, generator_.tokenize_chat(messages));
            return tokens.size();
        };
        VKFORMER_TRY(const std::size_t left, conversation_.ask(text, context, kept_free, count));
        if (left > 0)
            say("the context of " + std::to_string(context) + " tokens is full: the oldest " + number_of(left, "turn") +
                " left the conversation");
        auto answered = answer();
        if (!answered) conversation_.take_back();
        return answered;
    }
    void clear() { conversation_.clear(); }

private:
    /// Without -n an answer takes half of the context at most, so that the next question finds it there.
    std::uint32_t longest_answer() const noexcept {
        return command_.generator.max_tokens > 0 ? command_.generator.max_tokens
                                                 : std::max(generator_.context() / 2, 1u);
    }

    static void say(const std::string& what) { std::fprintf(stderr, "vkformer: %s\n", what.c_str()); }

    Result<void> answer() {
        std::optional<Error> broken;  // standard output, say a closed pipe
        std::size_t tokens = 0;
        bool is_cut = false;
        const auto on_text = [&](std::size_t, std::string_view text, std::int32_t token) {
            json event = {{"event", token < 0 ? "text" : "token"}, {"text", text}};
            if (token >= 0) event["token"] = token;
            auto printed = print(command_.json ? to_line(event) + "\n" : std::string(text));
            if (!printed) broken = printed.error();
            tokens += token >= 0;
            is_cut = command_.generator.max_tokens == 0 && tokens == longest_answer();
            return !broken && !platform::Interrupts::is_pending() && !is_cut;
        };
        auto generation = generator_.chat(conversation_.messages(), options_, on_text);
        const bool is_interrupted = platform::Interrupts::take();
        if (!generation) return generation.error();
        if (broken) return *broken;
        is_cut = is_cut && generation->finish == Finish::caller && !is_interrupted;
        const Finish finish = is_cut ? Finish::length : generation->finish;
        conversation_.answer(generation->text);
        if (command_.json)
            return print(to_line({{"event", "end"},
                                  {"finish", to_string(finish)},
                                  {"text", generation->text},
                                  {"tokens", generation->tokens},
                                  {"prompt_tokens", generation->prompt_tokens},
                                  {"reused_tokens", generation->reused_tokens}}) +
                         "\n");
        VKFORMER_CHECK(print("\n"));
        if (is_interrupted) std::fputs("(the answer was stopped)\n", stderr);
        if (is_cut || finish == Finish::context)
            say("the answer ends here, after " + number_of(generation->tokens.size(), "token") +
                ": the context holds " + std::to_string(generator_.context()) + "; --context or -n for more");
        return {};
    }

    Generator generator_;
    const ChatCommand& command_;
    GenerateOptions options_;
    Conversation conversation_;
};

constexpr const char* kHelp =
    "/help   this\n"
    "/clear  forget the conversation\n"
    "/exit   end; as Ctrl-D does, or Ctrl-C twice\n"
    "//text  sends /text to the model\n"
    "Ctrl-C stops an answer. Earlier lines: the arrow keys, Ctrl-R to search.\n";

/// False: the user wants to go.
bool obey(const std::string& order, Chat& chat) {
    if (order == "/exit" || order == "/quit") return false;
    if (order == "/clear") {
        chat.clear();
        std::fputs("(a new conversation)\n", stderr);
    } else if (order == "/help") {
        std::fputs(kHelp, stderr);
    } else {
        std::fprintf(stderr, "%s is no command; /help lists them, /%s sends it to the model\n",
                     printable(order).c_str(), printable(order).c_str());
    }
    return true;
}

/// Where earlier lines are kept; empty: nowhere.
std::filesystem::path history_file() {
    const std::filesystem::path folder = platform::state_folder();
    return folder.empty() ? folder : folder / "chat_history";
}

/// With a person at a terminal: what is wrong with a message does not end the conversation.
Result<int> talk(Chat& chat) {
    const platform::Interrupts interrupts;
    LineEditor editor(history_file());
    bool was_interrupted = false;
    for (std::string line;;) {
        const LineEditor::Outcome outcome = editor.read(line);
        const bool is_interrupted = outcome == LineEditor::Outcome::interrupted;
        if (outcome == LineEditor::Outcome::end || (is_interrupted && was_interrupted)) break;
        was_interrupted = is_interrupted;
        if (is_interrupted) {
            std::fputs("\n(Ctrl-C again, or /exit, ends the conversation)\n", stderr);
            continue;
        }
        line.erase(line.find_last_not_of(" \t") + 1);
        line.erase(0, line.find_first_not_of(" \t"));
        if (line.empty()) continue;
        if (line.starts_with('/') && !line.starts_with("//")) {
            if (!obey(line, chat)) return kOk;
            continue;
        }
        const auto answered = chat.turn(line.starts_with('/') ? line.substr(1) : line);
        if (answered) continue;
        if (answered.error().code != ErrorCode::InvalidArgument) return answered.error();
        print_error(told(answered.error()));
    }
    std::fputc('\n', stderr);
    return kOk;
}

/// Each line of standard input is a turn, answered before the next one is waited for.
Result<int> obey_script(Chat& chat) {
    VKFORMER_TRY(LineReader reader, LineReader::open("-"));
    for (std::size_t number = 1;; ++number) {
        VKFORMER_TRY(const auto lines, reader.next(1));
        if (lines.empty()) return kOk;
        if (lines[0].is_too_long)
            return Error{ErrorCode::InvalidArgument, "line " + std::to_string(number) + ": it is longer than " +
                                                         std::to_string(kMostLineBytes) + " bytes"};
        if (!lines[0].text.empty()) VKFORMER_CHECK(chat.turn(lines[0].text));
    }
}

Result<int> run(const ChatCommand& command) {
    VKFORMER_TRY(auto options, command.generator.generate_options());
    VKFORMER_TRY(Generator generator, load_generator(command.generator));
    Chat chat(std::move(generator), command, std::move(options));
    for (const std::string& message : command.messages) VKFORMER_CHECK(chat.turn(message));
    if (!command.messages.empty()) return kOk;
    if (platform::is_terminal(platform::Stream::input) && platform::is_terminal(platform::Stream::error) &&
        !command.json)
        return talk(chat);
    return obey_script(chat);
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
        "The conversation so far stays in the caches: only what is new is computed. When the context is full, its "
        "oldest turns leave.\n"
        "In a terminal: /help lists what can be said besides.\n"
        "Examples:\n"
        "  vkformer chat --model SmolLM2-135M-Instruct\n"
        "  vkformer chat --model model.gguf --system \"Answer briefly.\" --temperature 0.7 \"What is a frog?\"");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
