// SPDX-License-Identifier: MIT
#include "encoder_options.hpp"

#include <cstdio>
#include <system_error>

#include "core/paths.hpp"
#include "core/platform/terminal.hpp"
#include "core/try.hpp"

namespace vkformer::cli {

void EncoderCommand::add(CLI::App& command) {
    command
        .add_option("-m,--model", folder,
                    "Model folder: sentence-transformers or Hugging Face, with a model of the kinds that "
                    "docs/models.md lists; for texts also a GGUF file")
        ->required();
    command.add_option("--batch", batch, "Texts or images that are run together at most")
        ->check(CLI::Range(1u, 4096u))
        ->capture_default_str();
    command
        .add_option(
            "--max-length", max_length,
            "Tokens that are read of a text at most, special ones included (default: what the model folder says)")
        ->check(CLI::Range(1u, 1u << 20));
    device.add_device(command);
    device.add_strict(command);
    device.add_dtype(command);
}

Result<std::filesystem::path> EncoderCommand::apply(EncoderOptions& options) const {
    options.device = device.device;
    options.precision = device.dtype_value() == DType::f16 ? Precision::f16 : Precision::f32;
    options.batch = batch;
    options.max_length = max_length;
    options.plain_shaders = device.plain;
    VKFORMER_TRY(options.shader_variants, device.variants_by_op());
    options.offload = device.offload();
    if (!device.quiet) options.on_progress = show_progress;
    std::error_code ignored;
    if (std::filesystem::path path = utf8_path(folder); std::filesystem::exists(path, ignored)) return path;
    return Error{ErrorCode::FileNotFound, "there is no model folder or file " + folder};
}

void CutReport::show(const char* what, std::size_t max_length) const {
    if (texts_ == 0) return;
    std::fprintf(stderr, "vkformer: %zu %s%s longer than %zu tokens: the rest was not read\n", texts_, what,
                 texts_ == 1 ? " was" : "s were", max_length);
}

Embedder::Progress show_done(const char* what, std::size_t before, std::size_t count) {
    constexpr std::size_t kMany = 100;
    if (!platform::is_terminal(platform::Stream::error) || before + count <= kMany) return {};
    return [=](std::size_t done, std::size_t total) {
        show_progress(std::to_string(before + done) + " " + what);
        if (done == total) show_progress("");
    };
}

}  // namespace vkformer::cli
