// SPDX-License-Identifier: MIT
/// vkformer forward: one forward pass from a file to a file, for scripts.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "forward_pass.hpp"
#include "models/adapter.hpp"
#include "named_file.hpp"

namespace vkformer::cli {
namespace {

struct ForwardCommand {
    DeviceOptions device;
    ModelOption model;
    LoraOption lora;
    std::string input, output;
    models::LayerChoice layers;
};

Result<int> run(const ForwardCommand& command) {
    using enum models::ModelKind;
    VKFORMER_TRY(const auto folder, command.model.find());
    VKFORMER_TRY(const auto opened, open_model(command.device, folder));
    VKFORMER_TRY(auto file, read_safetensors(command.input));
    const TensorInputs inputs(std::move(file));
    ForwardRequest request{command.device, opened, inputs, command.device.dtype_value(), command.layers};
    std::vector<models::Adapter> adapters;
    VKFORMER_TRY(const auto counting, command.lora.adapters());
    for (const auto& adapter : counting) {
        VKFORMER_TRY(adapters.emplace_back(), models::open_adapter(adapter.path));
        request.adapters.push_back(adapter.scale);
    }
    if (!adapters.empty() && kind_of(opened) != decoder && kind_of(opened) != encoder)
        return Error{ErrorCode::UnsupportedConfig,
                     "--lora: only decoder-only language models and encoders of texts take adapters"};
    const auto outputs_of = [&](const auto& of_kind) -> Result<ForwardOutputs> {
        VKFORMER_TRY(auto model, of_kind.load());
        if constexpr (requires { models::with_adapters(of_kind, model, adapters); }) {
            VKFORMER_TRY(model, models::with_adapters(of_kind, model, adapters));
            VKFORMER_CHECK(model.weights().check_adapters(request.adapters));
        }
        if constexpr (requires { pass_of(*model, request); })
            return pass_of(*model, request);
        else
            return pass_of(model, request);
    };
    VKFORMER_TRY(const ForwardOutputs outputs, std::visit(outputs_of, opened));
    VKFORMER_CHECK(
        formats::write_safetensors(utf8_path(command.output), outputs.tensors, {{"device", outputs.device}}));
    return kOk;
}

}  // namespace

void add_forward(CLI::App& app, Action& action) {
    auto options = std::make_shared<ForwardCommand>();
    CLI::App& command = *app.add_subcommand("forward", "One forward pass from a safetensors file to another");
    options->model.add(command);
    options->lora.add(command);
    command
        .add_option(
            "-i,--input", options->input,
            "Tensors by Hugging Face's names: input_ids [batch, length], of an encoder-decoder decoder_input_ids too, "
            "int64 or int32; if wanted attention_mask, decoder_attention_mask, and of a text encoder token_type_ids. "
            "Of a Whisper input_features [batch, mel bins, frames] and decoder_input_ids; of a Wav2Vec 2.0 or HuBERT "
            "input_values [batch, samples] and if wanted attention_mask; of a vision model "
            "pixel_values [batch, channels, height, width]; of CLIP and SigLIP pixel_values, input_ids or both")
        ->required();
    command
        .add_option(
            "-o,--output", options->output,
            "Receives float32 tensors: last_hidden_state, logits (of an encoder those of its classification "
            "head, if it has one) and, where there are two stacks, encoder_last_hidden_state. Of CLIP and SigLIP "
            "image_embeds, text_embeds, of both logits_per_image, and "
            "vision_model_output.last_hidden_state, text_model_output.last_hidden_state")
        ->required();
    command.add_flag(
        "--attentions", options->layers.attention,
        "Also the attention weights of layer N, attentions.N; of an encoder-decoder encoder_attentions.N, "
        "decoder_attentions.N and cross_attentions.N, of CLIP and SigLIP vision_model_output.attentions.N and "
        "text_model_output.attentions.N");
    command.add_flag(
        "--hidden-states", options->layers.hidden,
        "Also the hidden states: hidden_states.0 is what the first layer reads, hidden_states.N what layer "
        "N - 1 gives; prefixes as of the attention weights. Not of recurrent models");
    options->device.add_device(command);
    options->device.add_strict(command);
    options->device.add_dtype(command);
    command.footer(
        "Takes models of every family that the other commands take: folders, and GGUF files of language models and "
        "text encoders. Where a mask has zeros, all but encoder-decoders take them behind the ones, and what is "
        "written for them means nothing. SigLIP reads texts with their padding, and takes no mask with zeros.\n"
        "Examples:\n"
        "  vkformer forward --model opus-mt-en-de --input in.safetensors --output out.safetensors --dtype f16\n"
        "  vkformer forward --model smollm-135m.gguf --input ids.safetensors --output logits.safetensors\n"
        "  vkformer forward --model clip-vit-base-patch32 --input both.safetensors --output out.safetensors");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
