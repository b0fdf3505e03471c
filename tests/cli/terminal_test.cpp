// SPDX-License-Identifier: MIT
/// What reaches a terminal: no command to it that a model or a file has spelled out.
#include <filesystem>
#include <fstream>

#include "cli/run_program.hpp"
#include "cli/terminal.hpp"
#include "support/goldens.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

/// A copy of the golden model with another chat template.
struct ChatModel {
    explicit ChatModel(const std::string& chat_template) {
        for (const auto& file : fs::directory_iterator(goldens_dir() / "decoder_text"))
            fs::copy(file.path(), folder / file.path().filename().c_str());
        std::ofstream(folder / "chat_template.jinja") << chat_template;
    }
    TemporaryFolder folder;
};

}  // namespace

TEST_CASE("an error shows control characters, and no more than can be read", "[cli][errors]") {
    const ChatModel model(R"({{ raise_exception('\x1b[2J\x1b]0;pwn\x07 ' ~ '\x9b' ~ 'ä' ~ '!' * 100000) }})");
    const Outcome outcome = run("chat -q -d cpu -m " + model.folder.path().string() + " hello");
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(R"(\u001b[2J\u001b]0;pwn\u0007 \u009bä!!!)"));
    CHECK_THAT(outcome.err, ContainsSubstring("bytes in all"));
    CHECK(outcome.err.size() < 5000);
    CHECK(outcome.err.find_first_of("\x1b\x07") == std::string::npos);
}

TEST_CASE("text is printable on a terminal, and as it is elsewhere", "[cli]") {
    const std::string prompt = "one\x1b[2J\ttwo\n\x7f\xc2\x9b";
    const std::vector<std::string> arguments = {
        "generate", "-q", "-d", "cpu", "-m", (goldens_dir() / "decoder_text").string(), "-n", "1", "--echo", prompt};
    Terminal terminal(arguments);
    CHECK(terminal.wait() == 0);
    CHECK_THAT(terminal.screen(), ContainsSubstring("one\\u001b[2J\ttwo\r\n\\u007f\\u009b"));
    CHECK(terminal.screen().find('\x1b') == std::string::npos);

    const Outcome piped = run("generate -q -d cpu -n 1 --echo '" + prompt + "' -m " + arguments[5]);
    CHECK(piped.exit_code == 0);
    CHECK(piped.out.starts_with(prompt));
}

}  // namespace vkformer::tests

#endif
