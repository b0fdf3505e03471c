// SPDX-License-Identifier: MIT
// Decoders in GGUF files. llama.cpp's converter has already done some of the work that the loading functions for Hugging Face
// folders do: Gemma's gains come with their one added, GPT-2's matrices as [out, in], and the rows of Llama's query and key are
// permuted so that neighbours are turned together.
#include <utility>

#include "core/try.hpp"
#include "models/gguf_decoder_reader.hpp"

namespace vkformer::models {

Result<void> GgufDecoderReader::read_config() {
    // Weights that inputs would have to be turned for, and heads that give decisions.
    if (file_.has("prism.hadamard.version")) return file_.unsupported("prism.hadamard.version", "no such key");
    if (file_.has(key("decision.type"))) return file_.unsupported(key("decision.type"), "no such key");
    VKFORMER_CHECK(read_sizes());
    VKFORMER_CHECK(read_attention());
    return architecture_.learned_positions || architecture_.has_single_parts ? Result<void>() : read_ropes();
}

Result<DecoderParts> GgufDecoderReader::load() {
    VKFORMER_CHECK(read_config());
    VKFORMER_CHECK(read_weights());
    return std::move(parts_);
}

Result<DecoderParts> GgufDecoderReader::load_head(const DecoderWeights& model) {
    is_head_ = true;
    VKFORMER_CHECK(read_config());
    const std::string layer = block(0), own = layer + "nextn.";
    HeadNames names = {.layer = layer,
                       .token_norm = own + "enorm",
                       .hidden_norm = own + "hnorm",
                       .projection = own + "eh_proj",
                       .final_norm = own + "shared_head_norm",
                       .table = own + "embed_tokens",
                       .head = own + "shared_head_head"};
    if (!has_head(read_, names)) return no_head(file_.file_name());
    DecoderWeights& w = parts_.weights;
    VKFORMER_CHECK(read_handover(read_, config(), names, model, w));
    VKFORMER_TRY(w.layers.emplace_back(), read_layer(layer, 0));
    VKFORMER_CHECK(check_layers());
    VKFORMER_TRY(w.final_norm, norm(names.final_norm, config().hidden_size));
    return std::move(parts_);
}

Result<DecoderParts> load_gguf_decoder(const formats::Gguf& file, const GgufArchitecture& architecture) {
    return GgufDecoderReader(file, architecture).load();
}

Result<DecoderParts> load_gguf_head(const formats::Gguf& file, const GgufArchitecture& architecture,
                                    const DecoderWeights& model) {
    return GgufDecoderReader(file, architecture).load_head(model);
}

}  // namespace vkformer::models
