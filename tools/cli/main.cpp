// SPDX-License-Identifier: MIT
/// vkformer: transformers on any Vulkan GPU, from the command line.
#include <exception>

#include <signal.h>

#include "cli.hpp"
#include "core/output_file.hpp"
#include "hints.hpp"
#include "program.hpp"

namespace {

int fail(const std::string& message) {
    vkformer::cli::print_error(message);
    return vkformer::cli::kBadInput;
}

/// An interrupted program leaves no half of a file.
void end_by(int signal_number) {
    vkformer::remove_unfinished_files();
    ::raise(signal_number);  // whose action is the default one again: whoever waits sees what ended the program
}

void handle_signals() {
    struct sigaction ending {};
    ending.sa_handler = end_by;
    ending.sa_flags = SA_RESETHAND;
    for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
        struct sigaction before {};
        const bool is_ignored = ::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
        if (!is_ignored) ::sigaction(number, &ending, nullptr);  // nohup, and the shell's background
    }
    ::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit of its size is an error of write()
}

int run(int argc, char** argv) {
    using namespace vkformer;
    CLI::App app;
    cli::Action action;
    cli::describe_program(app, action);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
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
        handle_signals();
        return run(argc, argv);
    } catch (const std::bad_alloc&) {
        return fail("out of memory");
    } catch (const std::exception& error) {
        return fail(error.what());
    }
}
