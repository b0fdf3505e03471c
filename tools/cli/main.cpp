// SPDX-License-Identifier: MIT
/// vkformer: transformers on any Vulkan GPU, from the command line.
#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "cli.hpp"
#include "core/output_file.hpp"
#include "core/platform/terminal.hpp"
#include "hints.hpp"
#include "program.hpp"

namespace {

int fail(const std::string& message) {
    vkformer::cli::print_error(message);
    return vkformer::cli::kBadInput;
}

int run(std::vector<std::string> arguments) {
    using namespace vkformer;
    CLI::App app;
    cli::Action action;
    cli::describe_program(app, action);
    try {
        std::ranges::reverse(arguments);               // as CLI11 takes them
        if (!arguments.empty()) arguments.pop_back();  // the program
        app.parse(std::move(arguments));
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) {  // --help, --version
            const int code = app.exit(error);
            if (!std::cout.flush()) return fail("cannot write to standard output");
            return code;
        }
        std::string command = "vkformer ";                       // with its subcommands, as far as they were given
        for (auto used = app.get_subcommands(); !used.empty(); used = used[0]->get_subcommands())
            command += used[0]->get_name() + " ";
        return fail(std::string(error.what()) + "; see " + command + "--help");
    }
    if (!action) return fail("a command is required; see vkformer --help");
    auto result = action();
    if (!result) return fail(cli::told(result.error()));
    return *result;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        using namespace vkformer;
        platform::prepare_streams();
        platform::on_ending(remove_unfinished_files);  // an interrupted program leaves no half of a file
        return run(platform::arguments_of(argc, argv));
    } catch (const std::bad_alloc&) {
        return fail("out of memory");
    } catch (const std::exception& error) {
        return fail(error.what());
    }
}
