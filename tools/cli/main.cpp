// SPDX-License-Identifier: MIT
/// vkformer: transformers on any Vulkan GPU, from the command line.
#include <cstdio>
#include <exception>

#include "cli.hpp"

namespace {

int fail(const std::string& message) {
    std::fprintf(stderr, "vkformer: error: %s\n", message.c_str());
    return vkformer::cli::kBadInput;
}

int run(int argc, char** argv) {
    using namespace vkformer;
    CLI::App app("Transformer forward passes on any Vulkan GPU, checked against the CPU.", "vkformer");
    app.set_version_flag("--version", "vkformer " VKFORMER_VERSION);
    app.footer(
        "Examples:\n"
        "  vkformer info\n"
        "  vkformer translate \"Donnerstag, den 4. März 2021\"\n"
        "  vkformer validate --device cpu\n"
        "Exit codes: 0 success, 1 validate found a divergence, 2 wrong usage or bad input.");
    cli::Action action;
    cli::add_info(app, action);
    cli::add_translate(app, action);
    cli::add_transcribe(app, action);
    cli::add_embed(app, action);
    cli::add_rerank(app, action);
    cli::add_classify(app, action);
    cli::add_forward(app, action);
    cli::add_validate(app, action);
    cli::add_attention(app, action);
    cli::add_generate(app, action);
    cli::add_chat(app, action);
    cli::add_tune(app, action);
    cli::add_bench(app, action);
    cli::add_inspect(app, action);
    cli::add_convert(app, action);
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
    if (!result) return fail(result.error().message);
    return *result;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::bad_alloc&) {
        return fail("out of memory");
    } catch (const std::exception& error) {
        return fail(error.what());
    }
}
