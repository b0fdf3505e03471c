// SPDX-License-Identifier: MIT
/// vkformer chat, with a person at a terminal and from a script, in a context that is soon full.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "cli/terminal.hpp"
#include "support/goldens.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

std::string chat_model() { return (goldens_dir() / "decoder_text").string(); }

std::vector<std::string> chat(std::vector<std::string> further) {
    further.insert(further.begin(), {"chat", "-q", "-d", "cpu", "-m", chat_model()});
    return further;
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
    return count;
}

}  // namespace

TEST_CASE("chat: the oldest turns leave a full context, and the script goes on", "[cli][chat]") {
    std::string lines;
    for (int i = 0; i < 12; ++i) lines += "Hello\n";
    const std::string command = "chat -q -d cpu -m " + chat_model() + " --context 100 --json ";
    for (const std::string limit : {"-n 8", ""}) {
        CAPTURE(limit);
        const Outcome outcome = run(command + limit, lines);
        CHECK(outcome.exit_code == 0);
        CHECK(count_of(outcome.out, R"("event":"end")") == 12);
        CHECK_THAT(outcome.err, ContainsSubstring("the context of 100 tokens is full: the oldest 1 turn left"));
        std::size_t most = 0;
        for (std::size_t at = outcome.out.find("{\"event\":\"end\""); at != outcome.out.npos;
             at = outcome.out.find("{\"event\":\"end\"", at + 1)) {
            const auto end = nlohmann::json::parse(outcome.out.substr(at, outcome.out.find('\n', at) - at));
            most = std::max(most, end["tokens"].size());
            CHECK(end["prompt_tokens"].get<std::size_t>() + end["tokens"].size() <= 101);
        }
        CHECK(most <= (limit.empty() ? 50 : 8));  // half of the context, where nothing is said
    }
    // The system's message stays: it is in every prompt.
    const std::string told = run(command + "-n 8 --system 'Be brief and kind.'", lines).out;
    const std::string untold = run(command + "-n 8", lines).out;
    const auto last_prompt = [](const std::string& out) {
        return nlohmann::json::parse(out.substr(out.rfind("{\"event\":\"end\"")))["prompt_tokens"].get<int>();
    };
    CHECK(last_prompt(told) > last_prompt(untold) - 30);
    const Outcome too_long = run(command, std::string(400, 'x') + "\nHello\n");
    CHECK(too_long.exit_code == 2);
    CHECK_THAT(too_long.err, ContainsSubstring("too long") && ContainsSubstring("the context holds 100"));
}

TEST_CASE("chat: a script's line is bounded, and answered before the next one comes", "[cli][chat]") {
    const std::string command = "chat -q -d cpu -m " + chat_model() + " -n 2 --json";
    const std::string endless(std::size_t{3} << 20, 'x');
    const Outcome outcome = run(command, "Hello\r\n\n" + endless + "\nHello");
    CHECK(outcome.exit_code == 2);
    CHECK(count_of(outcome.out, R"("event":"end")") == 1);
    CHECK(outcome.err == "vkformer: error: line 3: it is longer than 1048576 bytes\n");
    CHECK(count_of(run(command, "Hello\n\nHello").out, R"("event":"end")") == 2);

    const TemporaryFolder folder;
    std::ofstream(folder / "script") << "'" << VKFORMER_CLI << "' " << command
                                     << " < in > out & exec 3> in\n"
                                        "for turn in 1 2; do\n"
                                        "    echo Hello >&3\n"
                                        "    for attempt in $(seq 600); do\n"
                                        "        [ \"$(grep -c '\"event\":\"end\"' out)\" = $turn ] && continue 2\n"
                                        "        sleep 0.1\n"
                                        "    done\n"
                                        "    exit 1\n"
                                        "done\n";
    CHECK(std::system(("cd '" + folder.path().string() + "' && mkfifo in && sh script").c_str()) == 0);
}

TEST_CASE("chat: a terminal has commands, lines of before, and goes on after a message that is too long",
          "[cli][chat]") {
    const TemporaryFolder home;
    const std::vector<std::string> environment = {"HOME=" + home.path().string(), "XDG_STATE_HOME=", "LC_ALL=C.UTF-8"};
    Terminal terminal(chat({"--context", "64", "-n", "4"}), environment);
    REQUIRE(terminal.shows("> "));
    terminal.type("/help\r");
    CHECK(terminal.shows("/clear  forget"));
    terminal.type("/nonsense\r");
    CHECK(terminal.shows("/nonsense is no command; /help lists them"));
    terminal.type(std::string(300, 'x') + "\r");
    CHECK(terminal.shows("too long"));
    CHECK(terminal.shows("the context holds 64"));
    terminal.type(
        "Gr\xc3\xbc\xc3\x9f"
        "e\x1b[D\x1b[DX\r");  // two to the left, and a letter there
    CHECK(terminal.shows("\n"));
    terminal.type("\x1b[A\x1b[A\x1b[A\r");  // the third line of before
    CHECK(terminal.shows("is no command"));
    terminal.type("/clear\r");
    CHECK(terminal.shows("a new conversation"));
    terminal.type("draft\x03");
    CHECK(terminal.shows("Ctrl-C again"));
    terminal.type("//literal\r");
    CHECK(terminal.shows("\n"));
    terminal.type("/exit\r");
    CHECK(terminal.wait() == 0);

    const fs::path file = home.path() / ".local/state/vkformer/chat_history";
    REQUIRE(fs::exists(file));
    CHECK((fs::status(file).permissions() & fs::perms::all) == (fs::perms::owner_read | fs::perms::owner_write));
    const std::string history = read_file(file);
    CHECK_THAT(history, ContainsSubstring("/nonsense") && ContainsSubstring("//literal"));
    CHECK(history.find("draft") == std::string::npos);

    Terminal later(chat({"-n", "1"}), environment);  // another day
    REQUIRE(later.shows("> "));
    later.type("\x1b[A\x1b[A");
    CHECK(later.shows("//literal"));
    later.type("\x03");
    CHECK(later.shows("Ctrl-C again"));
    later.type("\x03");
    CHECK(later.wait() == 0);
}

TEST_CASE("chat: Ctrl-C ends the answer and not the program", "[cli][chat]") {
    const TemporaryFolder home;
    // Ctrl-S: the terminal takes no more of the answer, and the key comes while that is being written.
    const std::string keys = GENERATE(std::string("\x03"), std::string("\x13\x03"));
    CAPTURE(keys.size());
    bool is_stopped = false;
    // The answer of so small a model may be there before the key is pressed; then the prompt says how to end.
    for (int attempt = 0; attempt < 200 && !is_stopped; ++attempt) {
        Terminal terminal(chat({"--ignore-end", "-n", "150"}), {"XDG_STATE_HOME=" + home.path().string()});
        REQUIRE(terminal.shows("> "));
        terminal.type("a\r");
        REQUIRE(terminal.shows("a\r\n"));
        for (const char key : keys) {
            terminal.type({key});
            if (key != keys.back()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        bool is_asked_again = false;
        while (!is_stopped && !is_asked_again) {
            REQUIRE(terminal.shows(")\r\n"));
            is_stopped = terminal.screen().find("(the answer was stopped)\r\n") != std::string::npos;
            is_asked_again = terminal.screen().find("ends the conversation)\r\n") != std::string::npos;
        }
        REQUIRE(terminal.shows("> "));
        CHECK(terminal.screen().find("error") == std::string::npos);
        terminal.type("\x04");
        CHECK(terminal.wait() == 0);
    }
    CHECK(is_stopped);
}

}  // namespace vkformer::tests

#endif
