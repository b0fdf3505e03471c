// SPDX-License-Identifier: MIT
/// How the program's options are parsed: nothing is run here.
#include <wordexp.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.hpp"
#include "support/catch.h"

namespace vkformer::tests {
namespace {

using cli::Action;

void for_each_command(const CLI::App& app, const std::function<void(const CLI::App&)>& visit) {
    visit(app);
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        for_each_command(*command, visit);
}

/// The lines of a footer that show the program called, without what a shell keeps to itself.
std::vector<std::string> examples(const CLI::App& command) {
    std::vector<std::string> lines;
    std::istringstream footer(command.get_footer());
    for (std::string line; std::getline(footer, line);) {
        if (!line.starts_with("  vkformer ")) continue;
        lines.push_back(line.substr(2, line.find_first_of("<>|") - 2));
    }
    return lines;
}

std::vector<std::string> words(const std::string& line) {
    ::wordexp_t expanded;
    REQUIRE(::wordexp(line.c_str(), &expanded, WRDE_NOCMD | WRDE_UNDEF) == 0);
    std::vector<std::string> all(expanded.we_wordv, expanded.we_wordv + expanded.we_wordc);
    ::wordfree(&expanded);
    return all;
}

/// What the parser has against it; empty: nothing.
std::string parsed(const std::vector<std::string>& words, const std::function<void(CLI::App&)>& look = {}) {
    CLI::App app;
    Action action;
    cli::describe_program(app, action);
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    try {
        app.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (const CLI::ParseError& error) {
        return error.what();
    }
    if (look) look(app);
    return action ? "" : "no command";
}

std::vector<std::string> values(CLI::App& app, const std::string& command, const std::string& option) {
    return app.get_subcommand(command)->get_option(option)->results();
}

TEST_CASE("every example of every command's help is one that the command takes", "[cli][options]") {
    CLI::App app;
    Action action;
    cli::describe_program(app, action);
    std::size_t found = 0;
    for_each_command(app, [&](const CLI::App& command) {
        const auto lines = examples(command);
        CAPTURE(command.get_name());
        CHECK((!lines.empty() || !command.get_subcommands([](const CLI::App*) { return true; }).empty()));
        for (const std::string& line : lines) {
            CAPTURE(line);
            CHECK(parsed(words(line)) == "");
            ++found;
        }
    });
    CHECK(found > 30);
}

// An option that takes all that follows it eats the text behind it.
TEST_CASE("an option takes one value each time, and leaves the arguments alone", "[cli][options]") {
    CLI::App app;
    Action action;
    cli::describe_program(app, action);
    std::size_t lists = 0;
    for_each_command(app, [&](const CLI::App& command) {
        for (const CLI::Option* option : command.get_options()) {
            if (option->get_positional() || option->get_items_expected_max() <= 1) continue;
            CAPTURE(command.get_name(), option->get_name());
            CHECK_FALSE(option->get_allow_extra_args());
            CHECK(option->get_type_size_max() == 1);
            ++lists;
        }
    });
    CHECK(lists >= 6);
}

TEST_CASE("the text behind --image is a text", "[cli][options]") {
    const std::string why =
        parsed({"vkformer", "embed", "-m", "clip", "--image", "a.png", "--image", "b.png", "a cat"}, [](CLI::App& app) {
            CHECK(values(app, "embed", "--image") == std::vector<std::string>{"a.png", "b.png"});
            CHECK(values(app, "embed", "text") == std::vector<std::string>{"a cat"});
        });
    CHECK(why == "");
}

TEST_CASE("cpu and auto may be written large, and names of devices are left as they are", "[cli][options]") {
    for (const auto& [given, taken] : {std::pair<std::string, std::string>{"CPU", "cpu"},
                                       {"Cpu", "cpu"},
                                       {"AUTO", "auto"},
                                       {"LLVMpipe", "LLVMpipe"},
                                       {"CPU 1", "CPU 1"}})
        CHECK(parsed({"vkformer", "translate", "-q", "-d", given, "text"}, [&](CLI::App& app) {
                  CHECK(app.get_subcommand("translate")->get_option("--device")->as<std::string>() == taken);
              }) == "");
}

}  // namespace
}  // namespace vkformer::tests
