// SPDX-License-Identifier: MIT
// Decoders in GGUF files. llama.cpp's converter has already done some of the work that the loading functions for Hugging Face
// folders do: Gemma's gains come with their one added, GPT-2's matrices as [out, in], and the rows of Llama's query and key are
// permuted so that neighbours are turned together.
#include <utility>

#include "core/try.hpp"
#include "models/gguf_decoder_reader.hpp"

namespace vkformer::models {

Result<DecoderParts> GgufDecoderReader::load() {
    // Weights that inputs would have to be turned for, and heads that give decisions.
    if (file_.has("prism.hadamard.version")) return file_.unsupported("prism.hadamard.version", "no such key");
    if (file_.has(key("decision.type"))) return file_.unsupported(key("decision.type"), "no such key");
    VKFORMER_CHECK(read_sizes());
    VKFORMER_CHECK(read_attention());
    if (!architecture_.learned_positions && !architecture_.has_single_parts) VKFORMER_CHECK(read_ropes());
    VKFORMER_CHECK(read_weights());
    return std::move(parts_);
}

Result<DecoderParts> load_gguf_decoder(const formats::Gguf& file, const GgufArchitecture& architecture) {
    return GgufDecoderReader(file, architecture).load();
}

}  // namespace vkformer::models
