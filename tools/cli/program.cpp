// SPDX-License-Identifier: MIT
#include "program.hpp"

namespace vkformer::cli {

void describe_program(CLI::App& app, Action& action) {
    app.name("vkformer");
    app.allow_windows_style_options(false);  // /tmp/lines.txt is a path everywhere
    app.description("Transformer forward passes on any Vulkan GPU, checked against the CPU.");
    app.set_version_flag("--version", "vkformer " VKFORMER_VERSION);
    app.footer(
        "Examples:\n"
        "  vkformer info\n"
        "  vkformer translate \"Donnerstag, den 4. März 2021\"\n"
        "  vkformer validate --device cpu\n"
        "Exit codes: 0 success, 1 validate found a divergence, 2 wrong usage or bad input.");
    add_info(app, action);
    add_translate(app, action);
    add_transcribe(app, action);
    add_embed(app, action);
    add_rerank(app, action);
    add_score(app, action);
    add_classify(app, action);
    add_forward(app, action);
    add_validate(app, action);
    add_attention(app, action);
    add_generate(app, action);
    add_chat(app, action);
    add_tune(app, action);
    add_bench(app, action);
    add_inspect(app, action);
    add_convert(app, action);
    add_imatrix(app, action);
    add_serve(app, action);
}

}  // namespace vkformer::cli
