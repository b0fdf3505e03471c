// SPDX-License-Identifier: MIT
/// vkformer imatrix: the importance matrix of a language model, made of a text.
#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "importance.hpp"
#include "line_reader.hpp"
#include "named_file.hpp"
#include "vectors.hpp"

namespace vkformer::cli {
namespace {

struct ImatrixCommand {
    DeviceOptions device;
    std::string model, text, output;
    std::uint32_t context = 0, chunks = 0;
    bool has_head = false, json = false;
};

Result<int> run(const ImatrixCommand& command) {
    VKFORMER_CHECK(check_may_be_written(command.output, {command.model, command.text}));
    const bool is_input = command.text == "-";
    VKFORMER_TRY(std::string text, read_text(command.text));
    const std::string name = is_input ? "standard input" : command.text;
    VKFORMER_TRY(const MeasuredImportance measured,
                 importance_of_text(command.device, {.model = utf8_path(command.model),
                                                     .text = std::move(text),
                                                     .name = name,
                                                     .context = command.context,
                                                     .chunks = command.chunks,
                                                     .has_head = command.has_head}));
    VKFORMER_CHECK(write_importance(utf8_path(command.output), measured, name));
    const std::size_t read = std::size_t{measured.chunk} * measured.chunks;
    const std::string unmet = unmet_experts(measured.sums);
    if (!command.device.quiet) {
        std::fprintf(stderr, "vkformer: %zu matrices, %zu of %zu tokens in chunks of %u\n", measured.sums.size(), read,
                     measured.text_tokens, measured.chunk);
        if (!unmet.empty())
            std::fprintf(stderr, "vkformer: note: no token came to %s, whose inputs will count alike\n", unmet.c_str());
    }
    if (!command.json) return kOk;
    nlohmann::json experts = nlohmann::json::object();
    for (const auto& [matrix, sums] : measured.sums)
        for (std::size_t i = 0; i < sums.counts.size(); ++i)
            if (sums.counts[i] == 0) experts[matrix].push_back(i);
    VKFORMER_CHECK(print(to_line({{"output", command.output},
                                  {"device", measured.device},
                                  {"matrices", measured.sums.size()},
                                  {"chunk_size", measured.chunk},
                                  {"chunk_count", measured.chunks},
                                  {"text_tokens", measured.text_tokens},
                                  {"experts_without_tokens", std::move(experts)}}) +
                         "\n"));
    return kOk;
}

}  // namespace

void add_imatrix(CLI::App& app, Action& action) {
    auto options = std::make_shared<ImatrixCommand>();
    CLI::App& command = *app.add_subcommand("imatrix", "Make the importance matrix of a language model, of a text");
    command.add_option("model", options->model, "A language model: a Hugging Face folder or a GGUF file")->required();
    command.add_option("text", options->text, "A text file like what the model will read and write; -: standard input")
        ->required();
    command.add_option("-o,--output", options->output, "Receives the matrix, a GGUF file; written when it is complete")
        ->required();
    command
        .add_option("--context", options->context,
                    "Tokens of a chunk, which is read by itself (default: 512, or the model's where that is less)")
        ->check(CLI::Range(1u, 1u << 30));
    command.add_option("--chunks", options->chunks, "So many chunks of the text at most (default: all whole ones)")
        ->check(CLI::Range(1u, 1u << 30));
    command.add_flag("--process-output", options->has_head,
                     "Also of the matrix that gives the logits, where it is not the table of tokens");
    command.add_flag("--json", options->json,
                     "A JSON object: output, device, matrices, chunk_size, chunk_count, text_tokens, "
                     "experts_without_tokens");
    options->device.add_device(command);
    options->device.add_strict(command);
    options->device.add_dtype(command);
    command.footer(
        "For each matrix of the layers, and each expert's, the squares of its inputs are summed over the tokens, as "
        "llama.cpp's\n"
        "llama-imatrix does; `vkformer convert --imatrix` and llama-quantize read the file. A tail of the text that "
        "fills no chunk\n"
        "is left out. Start from the model in f16, bf16 or f32; some hundred chunks of mixed text are usual.\n"
        "Examples:\n"
        "  vkformer imatrix smollm2-f16.gguf texts.txt --output smollm2.imatrix.gguf\n"
        "  vkformer imatrix ./Qwen3-30B-A3B texts.txt --output qwen3.imatrix.gguf --chunks 200 --device cpu\n"
        "  vkformer convert smollm2-f16.gguf smollm2-q4_k.gguf --dtype q4_k --imatrix smollm2.imatrix.gguf");
    command.callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
