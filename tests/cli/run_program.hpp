// SPDX-License-Identifier: MIT
/// The vkformer program as a user runs it: arguments in, output and exit code out.
#pragma once

#ifdef VKFORMER_CLI

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/files.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {

struct Outcome {
    int exit_code = -1;
    std::string out, err;
};

/// A path as a shell takes it.
inline std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

inline std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

/// `arguments` as a shell takes them, `environment` as assignments before a command: "A=1 B=2 ".
inline Outcome run(const std::string& arguments, const std::string& input = "", const std::string& environment = "") {
    const TemporaryFolder folder;
    std::ofstream(folder / "in") << input;
    const std::string command = environment + std::string(VKFORMER_CLI) + " " + arguments + " < " +
                                (folder / "in").string() + " > " + (folder / "out").string() + " 2> " +
                                (folder / "err").string();
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder / "out"), read_file(folder / "err")};
}

/// Exit code 2, and nothing but a message with `what`.
inline void refuses(const std::string& arguments, const std::string& what, const std::string& input = "") {
    CAPTURE(arguments);
    const Outcome outcome = run(arguments, input);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("vkformer: error: "));
    CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring(what));
    CHECK(outcome.out.empty());
}

}  // namespace vkformer::tests

#endif
