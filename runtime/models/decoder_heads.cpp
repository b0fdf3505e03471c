// SPDX-License-Identifier: MIT
// What heads that guess (HandoverWeights) have beside a layer: norms, a projection, and tables that mostly are the model's.
#include <array>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/gguf_architecture.hpp"
#include "models/open_model.hpp"
#include "models/packed_weights.hpp"

namespace vkformer::models {

Error no_head(const std::string& file_name) {
    return {ErrorCode::UnsupportedConfig,
            file_name +
                ": the model has no multi-token head that vkformer knows, by which it could guess what follows; "
                "leave multi_token out, or name a draft model"};
}

bool has_head(const WeightReader& read, const HeadNames& names) {
    return read.has(names.projection + ".weight") || read.has(names.token_norm + ".weight");
}

Result<void> read_handover(const WeightReader& read, const DecoderConfig& c, const HeadNames& names,
                           const DecoderWeights& model, DecoderWeights& w) {
    const std::uint64_t d = c.hidden_size;
    VKFORMER_TRY(w.handover.token_norm, read.norm(names.token_norm, d));
    VKFORMER_TRY(w.handover.hidden_norm, read.norm(names.hidden_norm, d));
    VKFORMER_TRY(w.handover.projection, read.projection(names.projection, d, 2 * d, false));
    const auto table = [&](const std::string& name, const TensorData& models) {
        return name.empty() ? Result<TensorData>(models)
                            : read.tied_tensor(name + ".weight", {c.vocab_size, d}, models, true);
    };
    VKFORMER_TRY(w.embedding, table(names.table, model.embedding));
    VKFORMER_TRY(w.lm_head.weight, table(names.head, model.lm_head.weight));
    w.lm_head.bias = model.lm_head.bias;
    w.handover.has_own_table = !is_same(w.embedding, model.embedding);
    w.handover.has_own_head = !is_same(w.lm_head.weight, model.lm_head.weight);
    return {};
}

Result<DecoderWeights> read_head(const WeightReader& read, const DecoderConfig& c, const LlamaLayout& layout,
                                 const HeadNames& names, const DecoderWeights& model) {
    DecoderWeights w;
    VKFORMER_CHECK(read_handover(read, c, names, model, w));
    VKFORMER_TRY(w.layers.emplace_back(), read_llama_layer(read, c, layout, names.layer, 0));
    VKFORMER_TRY(w.final_norm, read.norm(names.final_norm, c.hidden_size));
    return w;
}

Result<DecoderWeights> read_next_layer_head(const formats::Config& config, const WeightReader& read,
                                            const LlamaLayout& layout, const DecoderWeights& model, DecoderConfig& c) {
    const std::string layer = "layers." + std::to_string(c.layers.size() - 1) + ".";
    const HeadNames names = {.layer = layer,
                             .token_norm = layer + "enorm",
                             .hidden_norm = layer + "hnorm",
                             .projection = layer + "eh_proj",
                             .final_norm = layer + "shared_head.norm",
                             .table = layer + "embed_tokens",
                             .head = layer + "shared_head.head"};
    VKFORMER_TRY(const auto heads, config.unsigned_integer("num_nextn_predict_layers", {.fallback = 0}));
    if (heads == 0 || !has_head(read, names)) return no_head(config.file_name());
    c.layers.erase(c.layers.begin(), c.layers.end() - 1);
    return read_head(read, c, layout, names, model);
}

Result<Decoder> load_head(const Opened<Decoder>& opened, const Decoder& model) {
    const auto load = [&]() -> Result<DecoderParts> {
        if (const formats::Gguf* const file = opened.gguf()) {
            VKFORMER_TRY(const std::string name, file->string("general.architecture"));
            for (const GgufArchitecture* const known :
                 {&kGgufDeepseek2, &kGgufGlm4Moe, &kGgufQwen3Next, &kGgufQwen35, &kGgufQwen35Moe})
                if (known->name == name) return load_gguf_head(*file, *known, model.weights());
            return no_head(file->file_name());
        }
        const auto& config = std::get<formats::Config>(opened.head);
        VKFORMER_TRY(const std::string type, config.string("model_type"));
        const auto load_it = type == "deepseek_v3"                                 ? load_deepseek_head
                             : type == "glm4_moe"                                  ? load_glm_head
                             : type == "qwen3_next" || type.starts_with("qwen3_5") ? load_qwen_head
                                                                                   : nullptr;
        if (load_it == nullptr) return no_head(config.file_name());
        VKFORMER_TRY(const formats::Weights weights, open_folder_weights(config, opened.files));
        return load_it(config, weights, model.weights());
    };
    VKFORMER_TRY(DecoderParts parts, load());
    parts.config.scope = "multi_token.";
    return Decoder(std::move(parts.config), std::move(parts.weights));
}

}  // namespace vkformer::models
